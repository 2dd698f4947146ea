"""Files of a level have no key in common, and a bucket has one index file of each type: each rule by itself."""

from __future__ import annotations

from typing import Any

import pytest
from keyed import NO_PARTITION, Keyed, run_of

from lakelatch.coordinator.commit.checks.key_files import added_since, in_runs, runs_overlap, two_index_files
from lakelatch.core.metadata.change import Change, Landed
from lakelatch.core.metadata.data_file import ADD, EMPTY_ROW, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType

SCHEMA = Keyed().schema


def run(name: str, first: int, last: int, **more: Any) -> ManifestEntry:
    return run_of(name, (1, 1), keys=(first, last), **{"level": 5, **more})


def clash(ours: list[ManifestEntry], others: list[ManifestEntry] | None = None) -> tuple[str, ...]:
    """The files that would have keys in common."""
    found = runs_overlap(ours, others or [], SCHEMA)
    assert found is None or found.check == "runs_overlap"
    return tuple(name.removeprefix("data-").removesuffix(".parquet") for name in found.files) if found else ()


def test_a_file_in_level_one_or_above_is_in_a_run() -> None:
    assert in_runs([run("new", 0, 9, level=0), run("one", 0, 9, level=1)])
    assert not in_runs([run("new", 0, 9, level=0)])
    assert not in_runs([run("gone", 0, 9).deletion(), run("new", 0, 9, level=0)])
    assert not in_runs([])


def test_what_came_since_is_what_is_left_of_all_changes() -> None:
    one, two, old = run("one", 0, 9), run("two", 0, 9), run("old", 0, 9)
    first = Landed(2, "COMPACT", "job", Change((one, old.deletion()), (), 0))
    second = Landed(3, "COMPACT", "job", Change((one.deletion(), two), (), 0))
    assert added_since([first, second]) == [two]
    assert added_since([]) == []


@pytest.mark.parametrize(
    ("theirs", "files"),
    [
        ((0, 9), ()),
        ((0, 10), ("theirs", "ours")),
        ((15, 16), ("ours", "theirs")),
        ((20, 30), ("ours", "theirs")),
        ((21, 30), ()),
        ((-5, -1), ()),
        ((10, 20), ("ours", "theirs")),
    ],
)
def test_files_of_one_level_have_no_key_in_common(theirs: tuple[int, int], files: tuple[str, ...]) -> None:
    """Both ends of a file are keys of it."""
    assert clash([run("ours", 10, 20)], [run("theirs", *theirs)]) == files


def test_of_equal_ranges_the_commit_is_named_before_the_others() -> None:
    assert clash([run("z", 1, 2)], [run("a", 1, 2)]) == ("z", "a")


def test_the_files_of_a_level_are_compared_in_the_order_of_their_keys() -> None:
    ours = [run("c", 20, 29), run("a", 0, 9)]
    assert clash(ours, [run("d", 30, 39), run("b", 10, 19)]) == ()
    assert clash(ours, [run("d", 30, 39), run("b", 10, 20)]) == ("b", "c")


def test_files_of_one_commit_are_compared_with_each_other() -> None:
    assert clash([run("a", 0, 9), run("b", 9, 12)]) == ("a", "b")


def test_files_of_other_buckets_partitions_and_levels_may_have_the_same_keys() -> None:
    elsewhere = run("elsewhere", 0, 9)._replace(partition=b"another")
    others = [run("bucket", 0, 9, bucket=1), run("level", 0, 9, level=4), run("new", 0, 9, level=0), elsewhere]
    assert clash([run("ours", 0, 9)], others) == ()
    assert clash([run("ours", 0, 9), run("ours-1", 0, 9, bucket=1)], others) == ("ours-1", "bucket")


def test_others_are_compared_only_in_levels_that_get_files() -> None:
    """What overlaps there was no affair of this commit."""
    others = [run("one", 0, 9, level=4), run("two", 0, 9, level=4)]
    assert clash([run("ours", 0, 9)], others) == ()


def test_files_that_the_commit_deletes_do_not_count() -> None:
    theirs = run("theirs", 0, 9)
    assert clash([run("ours", 0, 9), theirs.deletion()], [theirs]) == ()
    assert clash([run("ours", 0, 9), run("theirs", 0, 9, level=4).deletion()], [theirs]) == ("ours", "theirs")
    assert clash([run("gone", 0, 9).deletion()], [theirs]) == ()


def test_new_rows_in_level_zero_may_have_any_keys() -> None:
    assert clash([run("a", 0, 9, level=0), run("b", 0, 9, level=0)], [run("c", 0, 9, level=0)]) == ()


def test_files_without_keys_are_left_out() -> None:
    bare = run("bare", 0, 9)
    bare = bare._replace(file=bare.file._replace(min_key=EMPTY_ROW, max_key=EMPTY_ROW))
    assert clash([run("ours", 0, 9)], [bare]) == ()


def test_a_key_without_a_value_comes_first() -> None:
    """Not every writer forbids it."""

    def with_keys(entry: ManifestEntry, first: int | None, last: int | None) -> ManifestEntry:
        low, high = (encode_row([value], [AtomicType("INT")]) for value in (first, last))
        return entry._replace(file=entry.file._replace(min_key=low, max_key=high))

    nothing, some = with_keys(run("nothing", 0, 0), None, None), with_keys(run("some", 0, 0), None, -5)
    assert clash([run("ours", -9, 9)], [nothing]) == ()
    assert clash([run("ours", -9, 9)], [some]) == ("some", "ours")


# ---------------------------------------------------------------------------------------------------------- index files


def index(kind: str, name: str, bucket: int = 0, partition: bytes = NO_PARTITION) -> IndexEntry:
    return IndexEntry(ADD, partition, bucket, IndexFile(kind, f"index-{name}", 8, 2))


VECTORS, HASHES, GLOBAL = "DELETION_VECTORS", "HASH", "BTREE"


@pytest.mark.parametrize("kind", [VECTORS, HASHES])
def test_a_bucket_has_one_index_file_of_each_type(kind: str) -> None:
    """Global indexes may have any number of files, also before the two."""
    fine = [
        *(index(GLOBAL, name) for name in "xyz"),
        index(VECTORS, "a"),
        index(HASHES, "b"),
        index(kind, "c", bucket=1),
        index(kind, "d", partition=b"another"),
    ]
    assert two_index_files(fine) is None
    found = two_index_files([*fine, index(kind, "second")])
    assert found is not None
    assert found.check == "index_file_replaced"
    assert found.files == (f"index-{'a' if kind == VECTORS else 'b'}", "index-second")
