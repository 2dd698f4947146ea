"""Updates of single columns (data evolution) by both sides: what conflicts with what, by Apache Paimon's rules (G1, G8, H13)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from interop.agreement import our_rows
from jpype import JClass, JLong
from values import assert_same_rows

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument, Unsupported

pytestmark = pytest.mark.java

OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
SCHEMA = ll.Schema([("p", "STRING"), ("id", "INT"), ("s", "STRING"), ("n", "INT NOT NULL")])
FIRST = [["a", 1, "one", 10], ["a", 2, "two", 20], ["b", 3, "three", 30], ["b", 4, None, 40]]


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    made = ll.create_table(str(tmp_path / "t"), SCHEMA, partition_by="p", options=OPTIONS)
    made.append(rows(FIRST))
    return made


def rows(values: list[list[Any]]) -> pa.Table:
    names = ["p", "id", "s", "n"]
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in values],
        pa.schema([("p", pa.string()), ("id", pa.int32()), ("s", pa.string()), ("n", pa.int32())]),
    )


def new(ids: list[int], **columns: list[Any]) -> pa.Table:
    return pa.table({"_ROW_ID": ids, **columns})


def test_both_sides_update_columns_of_each_other_s_files(table: ll.Table, paimon_java: Any) -> None:
    """G8: some rows, all rows, nulls, a column that did not exist, in any order; ids and other columns stay."""
    table.update_columns(new([3, 0], s=["four", None], n=[41, 11]))
    paimon_java.write_columns(table.url, ["p", "s"], [["b", "THREE"], ["b", "FOUR"]], 2, 5)
    table.alter(ll.add_column("more", "DOUBLE"))
    table.update_columns(new([0, 1], more=[0.5, None]))
    table.append(rows([["b", 5, "five", 50]]))
    table.update_columns(new([4, 2], s=["FIVE", "3"]))
    wanted = [
        ["a", 1, None, 11, 0.5],
        ["a", 2, "two", 20, None],
        ["b", 3, "3", 30, None],
        ["b", 4, "FOUR", 41, None],
        ["b", 5, "FIVE", 50, None],
    ]
    assert_same_rows(paimon_java.rows(table.url), wanted)
    assert_same_rows(our_rows(table), wanted)
    ids = table.to_arrow(columns=["id", "_ROW_ID"]).sort_by("id")["_ROW_ID"].to_pylist()
    assert ids == [0, 1, 2, 3, 4]
    assert table.verify("all", data=True) == []
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.next_row_id == 5


def landed_by_java(table: ll.Table, java: Any) -> None:
    java.write_columns(table.url, ["p", "n"], [["a", 1], ["a", 2]], 0, 7)


def landed_by_us(table: ll.Table, java: Any) -> None:
    ll.open_table(table.url).update_columns(new([1], n=[7]))


def overwritten(table: ll.Table, java: Any) -> None:
    ll.open_table(table.url).overwrite(rows([["a", 9, "nine", 90]]), partition={"p": "a"})


@pytest.mark.parametrize("other", [landed_by_java, landed_by_us, overwritten])
def test_an_update_of_rows_that_were_changed_meanwhile_conflicts(
    table: ll.Table, paimon_java: Any, other: Callable[[ll.Table, Any], None]
) -> None:
    """H13: whoever commits second gives up, also where the columns are others. Rows of other files are no conflict."""
    read = table.snapshot()
    assert read is not None
    other(table, paimon_java)
    before = our_rows(ll.open_table(table.url))
    with pytest.raises(CommitConflict, match="changed rows that this commit updates"):
        table.update_columns(new([0], s=["lost"]), read_snapshot=read.id)
    assert_same_rows(our_rows(ll.open_table(table.url)), before)
    table.update_columns(new([2], s=["other file"]), read_snapshot=read.id)
    table.append(rows([["a", 6, "six", 60]]))
    assert_same_rows(paimon_java.rows(table.url), our_rows(table))


def test_java_gives_up_where_lakelatch_has_updated_the_rows(table: ll.Table, paimon_java: Any) -> None:
    """Java's own check finds our files: its row ids are those of the rows that it updates."""
    java = paimon_java.open(table.url)
    row_type = java.rowType().project(JClass("java.util.ArrayList")(["p", "s"]))
    write = java.newWrite("java").withIOManager(paimon_java._io_manager()).withWriteType(row_type)
    commit = java.newCommit("java").rowIdCheckConflict(JLong(1))
    row = JClass("org.apache.paimon.data.GenericRow")
    for text in ("x", "y"):
        made, string = row(2), JClass("org.apache.paimon.data.BinaryString")
        made.setField(0, string.fromString("a"))
        made.setField(1, string.fromString(text))
        write.write(made)
    messages = write.prepareCommit(True, JLong(9))
    for message in messages:
        files = message.newFilesIncrement().newFiles()
        placed = [file.assignFirstRowId(JLong(0)) for file in files]
        files.clear()
        files.addAll(placed)
    table.update_columns(new([1], n=[7]))
    with pytest.raises(Exception, match="MERGE INTO"):
        commit.commit(JLong(9), messages)
    write.close()
    commit.close()


def test_an_overwrite_of_rows_that_were_updated_meanwhile_conflicts(table: ll.Table, paimon_java: Any) -> None:
    """H13: else the new columns would be left without their rows."""
    read = table.snapshot()
    assert read is not None
    paimon_java.write_columns(table.url, ["p", "n"], [["a", 1], ["a", 2]], 0, 7)
    with pytest.raises(CommitConflict, match="updated rows that it replaces"):
        table.overwrite(rows([["a", 9, "nine", 90]]), partition={"p": "a"}, read_snapshot=read.id)
    table.overwrite(rows([["b", 9, "nine", 90]]), partition={"p": "b"}, read_snapshot=read.id)
    assert_same_rows(paimon_java.rows(table.url), our_rows(table))
    assert table.count() == 3


def test_an_update_lands_once(table: ll.Table) -> None:
    """G3: the second call with the same identity reads and writes nothing."""
    first = table.update_columns(new([0], s=["x"]), commit_user="etl", identifier=1)
    files = len(table.entries())
    again = table.update_columns(new([0], s=["y"]), commit_user="etl", identifier=1)
    assert again.replayed and again.snapshot_id == first.snapshot_id
    assert len(table.entries()) == files


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (pa.table({"s": ["x"]}), InvalidArgument, "no column '_ROW_ID'"),
        (new([0]), InvalidArgument, "only '_ROW_ID'"),
        (new([0], nope=[1]), InvalidArgument, "no column 'nope'"),
        (new([7], s=["x"]), InvalidArgument, "no row with _ROW_ID 7"),
        (new([-1], s=["x"]), InvalidArgument, "no row with _ROW_ID -1"),
        (new([1, 1], s=["x", "y"]), InvalidArgument, "_ROW_ID 1 is given twice"),
        (new([0], n=pa.array([None], pa.int32())), InvalidArgument, "'n' has 1 nulls"),
        (new([0], p=["b"]), Unsupported, "partition column 'p'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_updated_is_named_and_changes_nothing(
    table: ll.Table, data: pa.Table, kind: type[Exception], said: str
) -> None:
    files = sum(1 for info in table.store.list("") if "bucket-" in info.key)
    with pytest.raises(kind, match=said):
        table.update_columns(data)
    assert sum(1 for info in table.store.list("") if "bucket-" in info.key) == files
    snapshot = table.snapshot()
    assert snapshot is not None and snapshot.id == 1


def test_tables_without_data_evolution_are_refused_by_option(tmp_path: Path) -> None:
    table = ll.create_table(str(tmp_path / "u"), SCHEMA, options={"row-tracking.enabled": "true"})
    with pytest.raises(Unsupported, match=r"data-evolution\.enabled"):
        table.update_columns(new([0], s=["x"]))
