"""New values for some columns of existing rows land only on the rows as they were read (data evolution)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from changes import Raced, meanwhile

import lakelatch as ll
from lakelatch.core.errors import CommitConflict, InvalidArgument
from lakelatch.table.table import Table

_names = count()
COLUMNS = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("note", pa.string())])
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "commit.min-retry-wait": "1 ms"}


def made() -> Table:
    """Rows with the ids 0 to 2 in one file, and 3 to 5 in another; an id is the number of its row."""
    store = Raced(f"memory://column-updates/{next(_names)}")
    table = Table(store, ll.create_table(store.url, COLUMNS, options=OPTIONS).schema)
    for start in (0, 3):
        ids = range(start, start + 3)
        table.append(pa.table({"id": ids, "a": [0] * 3, "note": ["old"] * 3}, COLUMNS))
    return table


def again(table: Table) -> Table:
    return Table(table.store, table.schema)


def new(ids: list[int], **columns: list[Any]) -> pa.Table:
    return pa.table({"_ROW_ID": pa.array(ids, pa.int64()), **columns})


def state(table: Table) -> dict[int, tuple[int | None, str | None]]:
    return {row["id"]: (row["a"], row["note"]) for row in again(table).to_arrow().to_pylist()}


def data_keys(table: Table) -> set[str]:
    return {info.key for info in table.store.list("") if "bucket-" in info.key}


OLD: dict[int, tuple[int | None, str | None]] = dict.fromkeys(range(6), (0, "old"))


@pytest.mark.parametrize("theirs", [{"a": [7]}, {"note": ["theirs"]}], ids=["the same column", "another column"])
@pytest.mark.parametrize("when", ["since it was read", "while it is committed"])
def test_rows_that_another_job_has_updated_are_a_conflict(theirs: dict[str, list[Any]], when: str) -> None:
    """Even if only another row of their file was, in another column; nothing of the lost one stays."""
    table = made()
    read = table.snapshot().id

    def others() -> None:
        again(table).update_columns(new([1], **theirs))

    if when == "since it was read":
        others()
    else:
        meanwhile(table, others)
    with pytest.raises(CommitConflict, match="changed rows that this commit updates"):
        table.update_columns(new([0], a=[9]), read_snapshot=read)
    table.committer.settle()
    assert state(table) == OLD | {1: (theirs.get("a", [0])[0], theirs.get("note", ["old"])[0])}
    assert data_keys(table) == {f"bucket-0/{entry.file.file_name}" for entry in again(table).entries()}
    table.update_columns(new([0], a=[9]))
    assert state(table)[0] == (9, "old") and again(table).verify(data=True) == []


def test_what_others_do_to_other_rows_is_no_conflict() -> None:
    table = made()
    read = table.snapshot().id

    def others() -> None:
        other = again(table)
        other.update_columns(new([4], a=[7]))
        other.append(pa.table({"id": [6], "a": [6], "note": ["new"]}, COLUMNS))

    meanwhile(table, others)
    receipt = table.update_columns(new([2, 0], note=["two", None]), read_snapshot=read, properties={"why": "asked"})
    assert state(table) == OLD | {4: (7, "old"), 6: (6, "new"), 2: (0, "two"), 0: (0, None)}
    snapshot = again(table).snapshot()
    assert snapshot is not None and (snapshot.id, snapshot.properties["why"]) == (receipt.snapshot_id, "asked")
    assert (snapshot.commit_kind, snapshot.operation) == ("APPEND", "WRITE")
    assert again(table).verify(data=True) == []


def test_rows_that_are_gone_are_a_conflict() -> None:
    table = made()
    read = table.snapshot().id
    again(table).truncate()
    with pytest.raises(CommitConflict):
        table.update_columns(new([0], a=[9]), read_snapshot=read)
    assert state(table) == {}


def test_an_update_of_columns_lands_once() -> None:
    """The replay says nothing of its rows: they were computed from others."""
    table = made()
    about: dict[str, Any] = {"commit_user": "etl", "identifier": 3}
    assert not table.update_columns(new([0], a=[9]), **about).replayed
    second = again(table).update_columns(new([0, 1], a=[8, 8]), **about)
    assert second.replayed and state(table) == OLD | {0: (9, "old")}
    with pytest.raises(InvalidArgument, match="either appends or one overwrite"), table.transaction() as tx:
        tx.append(pa.table({"id": [6], "a": [6], "note": ["new"]}, COLUMNS))
        tx.update_messages([], table.snapshot())
    assert len(state(table)) == 6
