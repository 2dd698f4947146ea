"""What a summary of buckets holds, which new files get numbers, and when bucket counts do not fit (H14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from keyed import key

from lakelatch.coordinator.commit.settling.bucket_numbers import (
    BucketMemory,
    Buckets,
    another_bucket_count,
    counts_buckets,
    is_bucketed,
    numbered,
    other_counts,
)
from lakelatch.core.metadata.data_file import (
    ADD,
    DELETE,
    SOURCE_APPEND,
    SOURCE_COMPACT,
    DataFile,
    ManifestEntry,
)
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import ManifestFile
from lakelatch.core.rows.partition import PartitionCodec
from lakelatch.core.rows.types import Field, string

CODEC = PartitionCodec((Field(0, "part", string()),))
A, B = CODEC.encode(("a",)), CODEC.encode(("b",))


def entry(
    name: str, last: int = 0, *, kind: int = ADD, part: bytes = A, bucket: int = 0, buckets: int = 4, **more: Any
) -> ManifestEntry:
    return ManifestEntry(
        kind, part, bucket, buckets, DataFile(f"data-{name}", 1, more.pop("rows", 10), max_sequence_number=last, **more)
    )


def keyed(name: str, level: int, **more: Any) -> ManifestEntry:
    return entry(name, min_key=key(0), max_key=key(9), level=level, **more)


# ------------------------------------------------------------------------------------------------------- summaries


def test_a_summary_has_the_largest_number_of_each_bucket() -> None:
    found = Buckets.of([entry("a", 9), entry("b", 19), entry("c", 14), entry("d", 0, bucket=1), entry("e", 5, part=B)])
    assert found.last == {(A, 0): 19, (A, 1): 0, (B, 0): 5}
    assert found.counts == {A: {4}, B: {4}}


def test_removed_files_and_postponed_ones_have_no_bucket_count() -> None:
    """The number of a removed file stays known by the entry that added it."""
    found = Buckets.of(
        [entry("old", 99, kind=DELETE, buckets=2), entry("postponed", 7, bucket=-2, buckets=-2), entry("b", 3, part=B)]
    )
    assert found.counts == {B: {4}}
    assert found.last == {(A, -2): 7, (B, 0): 3}


def test_two_summaries_make_one() -> None:
    one = Buckets.of([entry("a", 9), keyed("k", 0), keyed("l", 5)])
    two = Buckets.of([entry("b", 4), entry("c", 2, part=B, buckets=8), entry("d", 1, buckets=8), keyed("m", 0)])
    one.join(two)
    assert one.last == {(A, 0): 9, (B, 0): 2}
    assert one.counts == {A: {4, 8}, B: {8}}
    assert one.run_count((A, 0)) == 3
    assert two.run_count((A, 0)) == 1, "what was joined stays as it was"


def test_each_file_of_level_zero_is_a_run_and_each_higher_level_with_files_is_one() -> None:
    entries = [
        *(keyed(f"new-{i}", 0) for i in range(3)),
        keyed("new-0", 0, kind=DELETE),
        *(keyed(f"big-{i}", 5) for i in range(4)),
        keyed("moved", 3),
        keyed("moved", 3, kind=DELETE),
        keyed("one", 1),
        keyed("elsewhere", 0, bucket=1),
        entry("without keys"),
    ]
    found = Buckets.of(entries)
    assert found.run_count((A, 0)) == 4, "two files of level 0, level 1 and level 5"
    assert found.run_count((A, 1)) == 1
    assert found.run_count((B, 0)) == 0


class Manifests:
    """Manifests by name, and those that were read."""

    def __init__(self, **entries: list[ManifestEntry]) -> None:
        self.entries = entries
        self.read: list[str] = []
        self.files = {name: summarise(name, 1, held, CODEC.fields, 0) for name, held in entries.items()}

    def of(self, memory: BucketMemory, partitions: set[bytes], *names: str) -> Buckets:
        def read(unread: Sequence[ManifestFile]) -> Iterable[list[ManifestEntry]]:
            self.read += [m.file_name for m in unread]
            return [self.entries[m.file_name] for m in unread]

        return memory.of([self.files[name] for name in names or self.files], partitions, CODEC.fields, read)


def test_only_manifests_that_may_hold_the_partition_are_read_and_each_once() -> None:
    world, memory = Manifests(one=[entry("a", 9)], two=[entry("b", 5, part=B)], three=[entry("c", 19)]), BucketMemory()
    assert world.of(memory, {A}).last == {(A, 0): 19}
    assert world.read == ["one", "three"]
    assert world.of(memory, {A}).last == {(A, 0): 19}
    assert world.read == ["one", "three"]
    assert world.of(memory, {A, B}).last == {(A, 0): 19, (B, 0): 5}
    assert world.read == ["one", "three", "two"]
    assert world.of(memory, {B}).last == {(B, 0): 5}, "others are known, but were not asked for"


def test_a_manifest_that_is_known_is_not_read() -> None:
    world, memory = Manifests(one=[entry("a", 9)], two=[entry("b", 5)]), BucketMemory()
    memory.learn("one", world.entries["one"])
    memory.learn("two", world.entries["two"])
    assert world.of(memory, {A}).last == {(A, 0): 9}
    assert world.read == []


def test_what_is_known_of_a_manifest_goes_with_it() -> None:
    world, memory = Manifests(one=[entry("a", 9)], two=[entry("b", 5)]), BucketMemory()
    world.of(memory, {A})
    world.of(memory, {A}, "two")
    world.of(memory, {A}, "one", "two")
    assert world.read == ["one", "two", "one"]


# --------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("made", "numbers", "counts"),
    [
        (entry("new"), True, True),
        (entry("one bucket", buckets=1), True, True),
        (entry("no buckets", buckets=-1), False, False),
        (entry("none", buckets=0), False, False),
        (entry("gone", kind=DELETE), False, False),
        (entry("compacted", file_source=SOURCE_COMPACT), False, True),
    ],
    ids=lambda value: value.file.file_name if isinstance(value, ManifestEntry) else "",
)
def test_which_entries_bring_rows_to_fixed_buckets(made: ManifestEntry, numbers: bool, counts: bool) -> None:
    assert (is_bucketed(made), counts_buckets(made)) == (numbers, counts)


def spans(entries: Iterable[ManifestEntry]) -> dict[str, tuple[int, int]]:
    return {e.file.file_name: (e.file.min_sequence_number, e.file.max_sequence_number) for e in entries}


def test_new_files_go_on_where_their_bucket_ended() -> None:
    buckets = Buckets({(A, 0): 99})
    entries = [
        entry("a", rows=10),
        entry("b", rows=1),
        entry("first", bucket=1, rows=5),
        entry("other", part=B, rows=2),
    ]
    made = numbered(entries, buckets)
    assert spans(made) == {
        "data-a": (100, 109), "data-b": (110, 110), "data-first": (0, 4), "data-other": (0, 1)
    }  # fmt: skip
    assert [e.file.file_name for e in made] == [e.file.file_name for e in entries]
    assert buckets.last == {(A, 0): 99}, "another attempt begins there again"


def test_files_that_have_their_numbers_keep_them() -> None:
    """Those with keys, outputs of compactions, files of no bucket, and files that stay and are only described anew."""
    stays = entry("stays", 7, rows=3)
    entries = [
        keyed("keyed", 0, rows=4),
        entry("compacted", 42, file_source=SOURCE_COMPACT),
        entry("unbucketed", 5, buckets=-1),
        stays.deletion(),
        stays._replace(file=stays.file._replace(extra_files=("data-stays.index",))),
        entry("new", rows=2),
    ]
    made = numbered(entries, Buckets({(A, 0): 49}))
    assert made[:-1] == tuple(entries[:-1])
    assert spans(made[-1:]) == {"data-new": (50, 51)}


# -------------------------------------------------------------------------------------------------------- bucket counts


def test_partitions_that_would_have_two_bucket_counts() -> None:
    buckets = Buckets(counts={A: {4}, B: {8}})
    entries = [entry("a", buckets=8), entry("b", part=B, buckets=8), entry("gone", kind=DELETE, part=B, buckets=2)]
    assert other_counts(entries, buckets) == {A: {4, 8}}
    assert other_counts(entries[1:], buckets) == {}
    assert other_counts([entry("a", buckets=8)], Buckets()) == {}
    assert other_counts([entry("unbucketed", buckets=-1)], buckets) == {}


@pytest.mark.parametrize(
    ("alive", "files"),
    [
        ([entry("same", buckets=8)], None),
        ([entry("other", buckets=4)], ("data-other",)),
        ([entry("fine", buckets=8), entry("other", buckets=4)], ("data-other",)),
        ([entry("other", buckets=-1)], ("data-other",)),
        ([entry("postponed", bucket=-2, buckets=-2)], None),
        ([entry("postponed", bucket=-2, buckets=4)], None),
        ([entry("elsewhere", part=B, buckets=4)], None),
        ([], None),
    ],
)
def test_all_live_files_of_a_partition_have_one_bucket_count(alive: Any, files: Any) -> None:
    new = [entry("new", buckets=8), entry("gone", kind=DELETE, part=B, buckets=8)]
    found = another_bucket_count(new, alive, CODEC)
    assert (None if found is None else found.files) == files
    if found is not None:
        assert found.check == "another_bucket_count"


def test_a_commit_without_buckets_fits_any_count() -> None:
    new = [entry("new", buckets=-1, file_source=SOURCE_APPEND)]
    assert another_bucket_count(new, [entry("other", buckets=4)], CODEC) is None
