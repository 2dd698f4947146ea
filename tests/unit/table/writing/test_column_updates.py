"""New values for some columns of existing rows land only on the rows as they were read (data evolution)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from changes import Raced, meanwhile

import lakelatch as ll
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.errors import CommitConflict, InvalidArgument, Unsupported
from lakelatch.core.metadata.data_file import ADD, GlobalIndex, IndexEntry, IndexFile
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


def with_index(column: str, first: int, last: int, *others: str) -> Table:
    """A table with a global index of a column's values in some rows, as a procedure of Apache Paimon 2.0 makes it."""
    table = made()
    number = {field.name: field.id for field in table.schema.fields}
    covered = GlobalIndex(first, last, number[column], tuple(number[other] for other in others) or None)
    index = IndexFile("btree", "global-index-1.index", 9, last - first + 1, global_index=covered)
    (partition,) = {entry.partition for entry in table.entries()}
    table.committer.commit(
        CommitRequest(
            kind="APPEND",
            entries=(),
            commit_user="indexer",
            index_entries=(IndexEntry(ADD, partition, 0, index),),
            uploads=(PendingUpload("index/global-index-1.index", b"an index."),),
        )
    )
    table.committer.settle()
    return again(table)


@pytest.mark.parametrize("rows", [[3], [0, 4], [5]])
@pytest.mark.parametrize("columns", [{"a": 9}, {"note": "new", "a": 9}])
def test_new_values_that_a_global_index_would_not_know_are_refused(rows: list[int], columns: dict[str, Any]) -> None:
    table = with_index("a", 3, 5)
    before = data_keys(table)
    with pytest.raises(Unsupported, match=r"column 'a' has a global index \(btree\).*drop_global_index"):
        table.update_columns(new(rows, **{name: [value] * len(rows) for name, value in columns.items()}))
    with pytest.raises(Unsupported, match="column 'a' has a global index"):
        table.update(where=f"id IN ({', '.join(map(str, rows))})", set={"a": 9})
    assert state(table) == OLD and data_keys(table) == before


def test_rows_and_columns_that_no_global_index_covers_are_updated() -> None:
    table = with_index("a", 3, 5)
    table.update_columns(new([0, 2], a=[9, 9]))
    table.update_columns(new([4], note=["new"]))
    assert state(table) == OLD | {0: (9, "old"), 2: (9, "old"), 4: (0, "new")}
    with pytest.raises(Unsupported, match="column 'note' has a global index"):
        with_index("a", 0, 0, "note").update_columns(new([0], note=["new"]))
