"""What a bucket of a table with a primary key may hold: sorted runs without common keys, one index file of each type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from changes import vector_file
from keyed import NO_PARTITION, Keyed, merged, run_of

from lakelatch.coordinator.commit.checks.key_files import runs_overlap
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.change import Group
from lakelatch.core.metadata.data_file import (
    ADD,
    DELETE,
    SOURCE_APPEND,
    SOURCE_COMPACT,
    DeletionVectorRange,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)


def hashes(name: str, bucket: int = 0) -> IndexEntry:
    return IndexEntry(ADD, NO_PARTITION, bucket, IndexFile("HASH", f"index-{name}", 8, 2))


def gone(entry: IndexEntry) -> IndexEntry:
    return replace(entry, kind=DELETE)


def index_of(world: Keyed) -> list[str]:
    snapshot = world.read()
    return [e.file.file_name for e in world.timeline.index_entries(snapshot)] if snapshot else []


def moved(entry: ManifestEntry, level: int = 5) -> ManifestEntry:
    """The same file in another level, as a compaction moves it without writing it again."""
    return entry._replace(file=entry.file._replace(level=level))


# ------------------------------------------------------------------------------------------------------------ levels


@pytest.mark.parametrize(
    ("theirs", "clash"), [((50, 150), True), ((99, 120), True), ((0, 0), True), ((100, 150), False), ((-9, -1), False)]
)
def test_two_compactors_do_not_fill_one_level_with_the_same_keys(theirs: tuple[int, int], clash: bool) -> None:
    """Each took other files of level 0, so no file of either is gone."""
    world = Keyed()
    one, two = run_of("one", (1, 10)), run_of("two", (20, 30), keys=theirs)
    world.upsert(one)
    world.upsert(two)
    read = world.read()
    world.meanwhile(lambda: world.compact([two], [merged("big-2", two, keys=theirs)], read))
    if clash:
        with pytest.raises(CommitConflict, match=r"runs_overlap.*data-big-.*level 5 of bucket 0"):
            world.compact([one], [merged("big-1", one)], read)
        assert world.levels() == {"one": 0, "big-2": 5}
    else:
        world.compact([one], [merged("big-1", one)], read)
        assert world.levels() == {"big-1": 5, "big-2": 5}


@pytest.mark.parametrize("place", [{"level": 4}, {"bucket": 1}])
def test_other_levels_and_buckets_do_not_matter(place: dict[str, int]) -> None:
    world = Keyed()
    one, two = run_of("one", (1, 10)), run_of("two", (20, 30), bucket=place.get("bucket", 0))
    world.upsert(one)
    world.upsert(two)
    read = world.read()
    world.meanwhile(lambda: world.compact([two], [merged("big-2", two, **place)], read))
    world.compact([one], [merged("big-1", one)], read)
    assert set(world.files()) == {"big-1", "big-2"}


def test_a_compactor_and_an_overwrite_that_fills_a_level() -> None:
    """Option `overwrite-upgrade`: an overwrite writes straight into the last level."""
    world = Keyed()
    one = run_of("one", (1, 10))
    world.upsert(one)
    read = world.read()
    new = run_of("new", (20, 30), level=5, source=SOURCE_APPEND)
    world.meanwhile(lambda: world.commit("OVERWRITE", new, target=lambda p: True, read_snapshot=read))
    with pytest.raises(CommitConflict, match="inputs_gone"):
        world.compact([one], [merged("big", one)], read)
    assert world.levels() == {"new": 5}


def test_a_level_is_checked_against_all_files_where_the_history_is_gone() -> None:
    world = Keyed()
    one, two = run_of("one", (1, 10)), run_of("two", (20, 30))
    world.upsert(one)
    read = world.read()
    world.upsert(two)
    world.compact([two], [merged("big-2", two)], world.read())
    world.store.delete_many(["snapshot/snapshot-1"])
    with pytest.raises(CommitConflict, match="runs_overlap"):
        world.compact([one], [merged("big-1", one)], read)


def test_keys_compare_as_their_types_do() -> None:
    """Not byte by byte: a row is little-endian."""
    world = Keyed()
    left, right = run_of("left", (1, 1), keys=(1, 255), level=5), run_of("right", (2, 2), keys=(256, 300), level=5)
    assert runs_overlap([left], [right], world.schema) is None
    assert runs_overlap([left, right], [run_of("third", (3, 3), keys=(255, 256), level=5)], world.schema) is not None


def test_a_long_run_reaches_over_short_ones() -> None:
    world = Keyed()
    long, short = run_of("long", (1, 1), keys=(0, 100), level=5), run_of("short", (2, 2), keys=(1, 2), level=5)
    last = run_of("last", (3, 3), keys=(50, 60), level=5)
    assert runs_overlap([long], [last], world.schema) is not None
    found = runs_overlap([long, short, last], [], world.schema)
    assert found is not None and found.files == ("data-long.parquet", "data-short.parquet")


# --------------------------------------------------------------------------------------------------- the same file


def test_an_append_beside_a_compaction_that_only_moves_files_is_kept() -> None:
    world = Keyed()
    one = run_of("one", (1, 10))
    world.upsert(one)
    world.meanwhile(lambda: world.upsert(run_of("two", (20, 30))))
    world.compact([one], [moved(one)], world.read())
    assert world.levels() == {"one": 5, "two": 0}
    assert world.store.get("bucket-0/data-one.parquet") == b"rows"


def test_two_compactors_that_move_one_file_conflict_and_its_data_stays() -> None:
    world = Keyed()
    one = run_of("one", (1, 10))
    world.upsert(one)
    read = world.read()
    world.meanwhile(lambda: world.compact([one], [moved(one)], read))
    with pytest.raises(CommitConflict, match="inputs_gone"):
        world.compact([one], [moved(one)], read)
    assert world.levels() == {"one": 5}
    assert world.store.get("bucket-0/data-one.parquet") == b"rows"


def test_a_file_that_is_moved_keeps_its_deletion_vector() -> None:
    world = Keyed({"deletion-vectors.enabled": "true"})
    one = run_of("one", (1, 10))
    world.upsert(one)
    vectors, upload = vector_file(one.partition, 0, {one.file.file_name: [3]})
    world.commit("COMPACT", index_entries=(vectors,), uploads=(upload,), read_snapshot=world.read())
    world.compact([one], [moved(one)], world.read())
    assert world.levels() == {"one": 5} and index_of(world) == [vectors.file.file_name]


# ------------------------------------------------------------------------------------------------------ index files


def test_an_index_file_of_keys_is_replaced_only_if_it_is_the_one_that_was_read() -> None:
    """H12: two writers gave new keys to buckets, and either would forget those of the other."""
    world = Keyed({"bucket": "-1"})
    old = hashes("old")
    world.upsert(run_of("base", (1, 10), buckets=-1), index_entries=(old,))
    theirs = lambda: world.upsert(run_of("a", (20, 30), buckets=-1), index_entries=(gone(old), hashes("a")))  # noqa: E731
    world.meanwhile(theirs)
    with pytest.raises(CommitConflict, match=r"index_file_replaced.*index-old is no longer live"):
        world.upsert(run_of("b", (40, 50), buckets=-1), index_entries=(gone(old), hashes("b")))
    assert index_of(world) == ["index-a"] and set(world.files()) == {"base", "a"}


def test_two_writers_do_not_both_make_the_first_index_file_of_a_bucket() -> None:
    world = Keyed({"bucket": "-1"})
    world.meanwhile(lambda: world.upsert(run_of("a", (20, 30), buckets=-1), index_entries=(hashes("a"),)))
    with pytest.raises(CommitConflict, match=r"index_file_replaced.*bucket 0 .*two index files of type HASH"):
        world.upsert(run_of("b", (40, 50), buckets=-1), index_entries=(hashes("b"),))
    assert index_of(world) == ["index-a"]
    world.upsert(run_of("c", (60, 70), bucket=1, buckets=-1), index_entries=(hashes("c", 1),))
    assert index_of(world) == ["index-a", "index-c"]


def test_vectors_and_keys_of_a_bucket_are_different_index_files() -> None:
    world = Keyed({"bucket": "-1", "deletion-vectors.enabled": "true"})
    one = run_of("one", (1, 10), buckets=-1)
    world.upsert(one, index_entries=(hashes("one"),))
    vectors, upload = vector_file(one.partition, 0, {one.file.file_name: [3]})
    world.commit("COMPACT", index_entries=(vectors,), uploads=(upload,), read_snapshot=world.read())
    assert index_of(world) == ["index-one", vectors.file.file_name]


def test_two_lookups_do_not_replace_each_others_vectors() -> None:
    """Both read no vectors, and mark rows of one file each."""
    world = Keyed({"deletion-vectors.enabled": "true"})
    one, two = run_of("one", (1, 10), level=5), run_of("two", (11, 20), level=5, keys=(100, 199))
    world.upsert(one, two)
    read = world.read()
    made = [vector_file(e.partition, 0, {e.file.file_name: [3]}) for e in (one, two)]

    def mark(number: int) -> None:
        entry, upload = made[number]
        world.commit("COMPACT", index_entries=(entry,), uploads=(upload,), read_snapshot=read)

    world.meanwhile(lambda: mark(0))
    with pytest.raises(CommitConflict, match="index_file_replaced"):
        mark(1)
    assert index_of(world) == [made[0][0].file.file_name]


@pytest.mark.parametrize("read", [True, False], ids=["with what it read", "without"])
def test_a_vector_of_a_file_that_is_gone_is_not_published(read: bool) -> None:
    world = Keyed({"deletion-vectors.enabled": "true"})
    one = run_of("one", (1, 10))
    world.upsert(one)
    seen = world.read()
    entry, upload = vector_file(one.partition, 0, {one.file.file_name: [3]})
    world.meanwhile(lambda: world.compact([one], [merged("big", one)], seen))
    with pytest.raises(CommitConflict, match=r"inputs_gone|deletes_unknown_file"):
        world.commit("COMPACT", index_entries=(entry,), uploads=(upload,), read_snapshot=seen if read else None)
    assert index_of(world) == []


def test_an_overwrite_may_name_the_index_file_that_it_replaces() -> None:
    """The index files of a replaced partition go in any case; naming one twice is no conflict."""
    world = Keyed({"bucket": "-1"})
    old = hashes("old")
    world.upsert(run_of("base", (1, 10), buckets=-1), index_entries=(old,))
    new = run_of("new", (20, 30), buckets=-1)
    world.commit(
        "OVERWRITE", new, target=lambda p: True, read_snapshot=world.read(), index_entries=(gone(old), hashes("new"))
    )
    assert index_of(world) == ["index-new"] and set(world.files()) == {"new"}


# ---------------------------------------------------------------------------------------------------------- buckets


def test_an_append_after_a_change_of_the_bucket_count_is_a_conflict() -> None:
    world = Keyed()
    base = run_of("base", (1, 10))
    world.upsert(base)
    read = world.read()
    rescaled = [run_of(f"new-{n}", (1, 10), bucket=n, buckets=3, level=5, source=SOURCE_COMPACT) for n in range(3)]
    world.meanwhile(lambda: world.commit("OVERWRITE", *rescaled, target=lambda p: True, read_snapshot=read))
    with pytest.raises(CommitConflict, match=r"another_bucket_count.*files of 3 buckets, this commit writes 2"):
        world.upsert(run_of("ours", (100, 110)))
    assert len(world.files()) == 3


def test_a_change_of_the_bucket_count_is_a_conflict_beside_an_append() -> None:
    """The appended rows stay, in a bucket where nobody would look for them."""
    world = Keyed()
    world.upsert(run_of("base", (1, 10)))
    read = world.read()
    rescaled = [run_of(f"new-{n}", (1, 10), bucket=n, buckets=3, level=5, source=SOURCE_COMPACT) for n in range(3)]
    world.meanwhile(lambda: world.upsert(run_of("theirs", (100, 110))))
    with pytest.raises(CommitConflict, match="another_bucket_count"):
        world.commit("OVERWRITE", *rescaled, target=lambda p: True, read_snapshot=read)
    assert set(world.files()) == {"base", "theirs"}


# ---------------------------------------------------------------------------------------- what counts as compaction


def group(deleted: list[ManifestEntry], added: list[ManifestEntry], vectors: Any = ()) -> Group:
    return Group((NO_PARTITION, 0), tuple(added), tuple(deleted), frozenset(), dict(vectors))


A, B, D = run_of("a", (1, 10)), run_of("b", (11, 20), rows=6), run_of("d", (21, 30), rows=4, deletes=4)
CASES: dict[str, tuple[Callable[[], Group], bool]] = {
    "rows with the same keys become one": (lambda: group([A, B], [merged("m", A, B, rows=10)]), True),
    "all keys differ": (lambda: group([A, B], [merged("m", A, B, rows=16)]), True),
    "more rows than before": (lambda: group([A, B], [merged("m", A, B, rows=17)]), False),
    "fewer rows than one file has keys": (lambda: group([A, B], [merged("m", A, B, rows=9)]), False),
    "deletes vanish with what they delete": (lambda: group([A, D], [merged("m", A, D, rows=6)]), True),
    "more vanishes than is deleted": (lambda: group([A, D], [merged("m", A, D, rows=5)]), False),
    "nothing but deletes": (lambda: group([D], []), True),
    "everything is gone": (lambda: group([A], []), False),
    "a file moves to another level": (lambda: group([A], [moved(A)]), True),
    "the new file is not a compaction's": (lambda: group([A, B], [run_of("m", (1, 20), rows=16)]), False),
    "without a primary key every row stays": (lambda: without_keys(group([A, B], [merged("m", A, B, rows=10)])), False),
    "deleted rows of vectors are gone": (
        lambda: group(
            [A], [merged("m", A, rows=8)], {(NO_PARTITION, 0, A.file.file_name): DeletionVectorRange("a", 1, 9, 2)}.items()
        ),
        True,
    ),
}  # fmt: skip


def without_keys(found: Group) -> Group:
    def plain(entry: ManifestEntry) -> ManifestEntry:
        return entry._replace(file=entry.file._replace(min_key=bytes(12), max_key=bytes(12)))

    return replace(found, added=tuple(map(plain, found.added)), deleted=tuple(map(plain, found.deleted)))


@pytest.mark.parametrize(("made", "is_compaction"), CASES.values(), ids=CASES)
def test_what_counts_as_a_compaction(made: Callable[[], Group], is_compaction: bool) -> None:
    assert made().is_compaction == is_compaction
