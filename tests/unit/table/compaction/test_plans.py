"""Which files of an append table a compaction chooses, at the very bounds that its options name, and what its plan tells."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from unit.table.compaction.test_compact import again, created, rows, values
from unit.table.reading.test_deletion_vectors import file_names, mark, table_of

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument
from lakelatch.table.compaction.plan import CompactionPlan, plan_compaction
from lakelatch.table.table import Table

_names = count()


def same(table: Table, part: str, files: int) -> None:
    """Add files of one and the same row, and so of one size."""
    for _ in range(files):
        table.append(rows(part, [7]))


def equal(files: int, **options: str) -> tuple[Table, int]:
    """A table with some files, and the size that each of them has."""
    table = created(**{name.replace("__", ".").replace("_", "-"): text for name, text in options.items()})
    same(table, "a", files)
    (size,) = {entry.file.file_size for entry in table.entries()}
    return table, size


def planned(table: Table, **about: Any) -> CompactionPlan:
    return plan_compaction(table.timeline, table.schema, **about)


def counts(table: Table, **about: Any) -> list[int]:
    return [len(group.files) for group in planned(table, **about).groups]


def test_a_file_that_is_as_large_as_the_ratio_says_is_not_small() -> None:
    table, size = equal(6, compaction__small_file_ratio="0.5")
    assert counts(table, target_size=2 * size, min_files=2) == []
    assert counts(table, target_size=2 * size + 2, min_files=2) == [2, 2, 2]


def test_files_that_fill_a_new_file_exactly_are_joined() -> None:
    table, size = equal(7, compaction__small_file_ratio="1.0")
    assert counts(table, target_size=3 * size, min_files=5) == [3, 3], "the last one is alone"
    assert counts(table, target_size=3 * size - 1, min_files=5) == [2, 2, 2]
    assert counts(table, target_size=7 * size, min_files=7) == [7]
    assert counts(table, target_size=7 * size, min_files=8) == []
    assert counts(table, target_size=7 * size, full=True) == [7]
    assert counts(table, target_size=6 * size, full=True) == [6]
    assert counts(table, target_size=size + 1) == [], "no two of them fit into one"


@pytest.mark.parametrize("fewest", [2, 4, 6])
def test_without_an_argument_the_option_says_how_many_small_files_are_worth_it(fewest: int) -> None:
    table, _ = equal(5, compaction__min__file_num=str(fewest))
    assert counts(table) == ([5] if fewest <= 5 else [])
    assert counts(table, min_files=6) == [] and counts(table, min_files=5) == [5]
    for wrong in (1, 0, 2.5, "3"):
        with pytest.raises(InvalidArgument, match="min_files"):
            planned(table, min_files=wrong)


@pytest.mark.parametrize(("marked", "eroded"), [(4, False), (5, False), (6, True)])
def test_a_file_is_written_anew_when_more_of_its_rows_are_deleted_than_the_option_says(
    marked: int, eroded: bool
) -> None:
    """However large it is, and though it is alone."""
    table = table_of(range(10), {"compaction.delete-ratio-threshold": "0.5", "target-file-size": "1 b"})
    mark(table, {file_names(table)[0]: range(marked)})
    table = again(table)
    plan = planned(table)
    assert [len(group.files) for group in plan.groups] == [1] * eroded
    assert [group.deletions != () for group in plan.groups] == [True] * eroded
    table.compact()
    assert table.to_arrow()["x"].to_pylist() == list(range(marked, 10))
    assert (table.entries()[0].file.row_count == 10) != eroded


def test_a_plan_tells_its_files_by_group() -> None:
    table, size = equal(5)
    same(table, "b", 2)
    same(table, "c", 6)
    plan = planned(table, target_size="1 mb")
    keys = {part: {key for key in stored(table) if key.startswith(f"part={part}/")} for part in "ac"}
    told = plan.to_dict()
    groups = told.pop("groups")
    assert [set(group.pop("files")) for group in groups] == [keys["a"], keys["c"]]
    assert groups == [
        {"partition": "part=a", "bucket": 0, "row_count": 5, "size": 5 * size, "deletion_vectors": 0},
        {"partition": "part=c", "bucket": 0, "row_count": 6, "size": 6 * size, "deletion_vectors": 0},
    ]
    sums = {"snapshot_id": 13, "target_size": 1 << 20, "files_considered": 13}
    assert told == {**sums, "files": 11, "row_count": 11, "size": 11 * size}
    assert (plan.file_count, plan.row_count, plan.size, plan.partition_count) == (11, 11, 11 * size, 2)
    assert str(plan) == f"11 of 13 files of 2 partitions, 11 rows in {11 * size} bytes, become about 2"
    nothing = planned(created())
    assert nothing.to_dict() == {
        "snapshot_id": None,
        "target_size": 256 << 20,
        "groups": [],
        **dict.fromkeys(("files_considered", "files", "row_count", "size"), 0),
    }
    assert str(nothing) == "nothing to compact: 0 files"


def stored(table: Table) -> set[str]:
    return {info.key for info in table.store.list("") if info.key.endswith(".parquet")}


COLUMNS = pa.schema([("p", pa.int32()), ("q", pa.string()), ("v", pa.int64())])


@pytest.mark.parametrize(
    ("partitions", "chosen"),
    [
        ([{"p": None}], [(None, "a"), (None, "b")]),
        ([{"p": 1, "q": "a"}], [(1, "a")]),
        ([{"p": 1}], [(1, "a"), (1, None)]),
        (["p=1/q=a", {"q": "b"}], [(1, "a"), (None, "b"), (2, "b")]),
        ([{"p": None, "q": "b"}, {"p": 1, "q": None}], [(None, "b"), (1, None)]),
        ([{"p": 9}], []),
    ],
    ids=str,
)
def test_partitions_are_named_by_all_or_some_of_their_columns(partitions: Any, chosen: list[Any]) -> None:
    table = ll.create_table(f"memory://plans/{next(_names)}", COLUMNS, partition_by=["p", "q"])
    places = [(None, "a"), (None, "b"), (1, "a"), (1, None), (2, "b")]
    for value in (1, 2):
        found = [{"p": p, "q": q, "v": value} for p, q in places]
        table.append(pa.Table.from_pylist(found, COLUMNS))
    done = table.compact(partitions=partitions, min_files=2)
    assert (done.files_before, done.files_after) == (2 * len(chosen), len(chosen))
    assert done.plan.files_considered == 2 * len(chosen)
    files = table.entries()
    assert sorted(entry.file.row_count for entry in files) == sorted([2] * len(chosen) + [1] * 2 * (5 - len(chosen)))
    assert table.count() == 10


def test_rows_that_were_written_together_stay_together() -> None:
    """Files are joined in the order of their numbers, whatever they are called."""
    table = created(**{"bucket": "1", "bucket-key": "v", "file.compression": "none"})
    for start in range(0, 40, 4):
        table.append(rows("a", range(start, start + 4)))
    (size, *_) = sorted((entry.file.file_size for entry in table.entries()), reverse=True)
    groups = planned(table, target_size=2 * size, min_files=2).groups
    firsts = sorted(entry.file.min_sequence_number for entry in table.entries())
    found = [[file.min_sequence_number for file in group.files] for group in groups]
    assert found == [firsts[n : n + 2] for n in range(0, 10, 2)]
    table.compact(target_size=2 * size, min_files=2)
    assert table.to_arrow()["v"].to_pylist() == list(range(40)) == values(table)
