"""What an overwrite replaces, and what it refuses to do instead."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument

_names = count()
SCHEMA = pa.schema([("p", pa.int32()), ("q", pa.string()), ("v", pa.int64())])


def made(partition_by: tuple[str, ...] = ("p", "q")) -> ll.Table:
    table = ll.create_table(f"memory://overwrites/{next(_names)}", SCHEMA, partition_by=list(partition_by))
    table.append(rows((1, "a", 1), (1, "b", 2), (2, "a", 3), (None, "a", 4)))
    return table


def rows(*values: tuple[Any, Any, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip("pqv", row, strict=True)) for row in values], SCHEMA)


def state(table: ll.Table) -> list[Any]:
    return sorted(ll.open_table(table.url).to_arrow()["v"].to_pylist())


@pytest.mark.parametrize(
    ("partition", "left"),
    [
        ({"p": 1, "q": "a"}, [2, 3, 4]),
        ({"p": 1}, [3, 4]),
        ({"q": "a"}, [2]),
        ("p=1/q=b", [1, 3, 4]),
        ("q=a", [2]),
        ({"p": None}, [1, 2, 3]),
        ({"p": "2"}, [1, 2, 4]),
        ({"p": 9}, [1, 2, 3, 4]),
        ({}, []),
    ],
)
def test_partitions_that_some_columns_name_are_replaced(partition: Any, left: list[int]) -> None:
    table = made()
    table.overwrite(rows(), partition=partition)
    assert state(table) == left


@pytest.mark.parametrize("partition", [{"p": 1, "q": "c"}, "p=1/q=c"])
def test_columns_of_the_partition_that_the_rows_lack_are_added(partition: Any) -> None:
    table = made()
    table.overwrite(pa.table({"v": [7, 8]}), partition=partition)
    assert ll.open_table(table.url).to_arrow(where="q = 'c'").to_pylist() == [
        {"p": 1, "q": "c", "v": 7},
        {"p": 1, "q": "c", "v": 8},
    ]
    table.overwrite(pa.table({"q": ["d"], "v": [9]}), partition={"p": 1})
    assert state(table) == [3, 4, 9]
    table.overwrite(pa.table({"q": ["z"], "v": [5]}), partition={"p": None})
    assert ll.open_table(table.url).to_arrow(where="p IS NULL").to_pylist() == [{"p": None, "q": "z", "v": 5}]


def test_every_partition_that_has_new_rows_is_replaced() -> None:
    table = made()
    table.overwrite(rows((1, "a", 10), (3, "z", 30)), dynamic=True)
    assert state(table) == [2, 3, 4, 10, 30]
    table.overwrite(rows(), dynamic=True)
    assert state(table) == [2, 3, 4, 10, 30]


def test_rows_of_other_partitions_are_refused() -> None:
    table = made()
    with pytest.raises(InvalidArgument, match=r"rows of partition p=2/q=x, outside the one to be replaced, {'p': 1}"):
        table.overwrite(rows((1, "x", 5), (2, "x", 5)), partition={"p": 1})
    assert state(table) == [1, 2, 3, 4]
    table.overwrite(rows((1, "x", 5), (1, "y", 6)), partition={"p": 1})
    assert state(table) == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("partition_by", "about", "problem"),
    [
        (("p",), {}, "overwrite of a partitioned table needs a partition"),
        (("p",), {"partition": {"p": 1}, "dynamic": True}, "partition= or dynamic=True, not both"),
        (("p",), {"partition": {}, "dynamic": True}, "not both"),
        ((), {"dynamic": True}, "dynamic=True needs a partitioned table"),
        (("p",), {"partition": {"v": 1}}, "'v'"),
        ((), {"partition": {"p": 1}}, "'p'"),
    ],
)
def test_what_does_not_say_what_is_replaced_is_refused(
    partition_by: tuple[str, ...], about: dict[str, Any], problem: str
) -> None:
    table = made(partition_by)
    with pytest.raises(InvalidArgument, match=problem):
        table.overwrite(rows((1, "a", 9)), **about)
    assert state(table) == [1, 2, 3, 4]


def test_a_table_without_partitions_is_replaced_as_a_whole() -> None:
    for about in ({}, {"partition": {}}):
        table = made(())
        table.overwrite(rows((7, "z", 9)), **about)
        assert state(table) == [9]


def test_rows_that_were_computed_from_a_snapshot_replace_what_it_had() -> None:
    table = made()
    read = table.snapshot().id
    table.append(rows((1, "a", 50), (2, "a", 60)))
    with pytest.raises(CommitConflict):
        table.overwrite(rows((1, "a", 9)), partition={"p": 1}, read_snapshot=read, isolation="serializable")
    table.overwrite(rows((1, "a", 9)), partition={"p": 1}, read_snapshot=read)
    assert state(table) == [3, 4, 9, 50, 60], "what was added meanwhile is kept"
    with pytest.raises(CommitConflict, match="snapshot 99, from which the rows were computed, does not exist any more"):
        table.overwrite(rows((2, "a", 9)), partition={"p": 2}, read_snapshot=99)


@pytest.mark.parametrize("options", [{}, {"bucket": "2", "bucket-key": "v"}], ids=["no buckets", "buckets"])
def test_files_of_an_overwrite_have_no_level_where_there_is_no_key(options: dict[str, str]) -> None:
    """Levels are those of sorted files; for Apache Paimon such a file would be one that a compaction of keys has made."""
    table = ll.create_table(f"memory://overwrites/{next(_names)}", SCHEMA, partition_by=["p"], options=options)
    table.append(rows((1, "a", 1), (2, "b", 2)))
    table.overwrite(rows((1, "c", 5), (1, "d", 6)), partition={"p": 1})
    table.overwrite(rows((2, "e", 7)), dynamic=True)
    assert state(table) == [5, 6, 7]
    assert {entry.file.level for entry in ll.open_table(table.url).entries()} == {0}
