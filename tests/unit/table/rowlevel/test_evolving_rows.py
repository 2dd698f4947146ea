"""UPDATE and MERGE in tables with data evolution: only the columns that get new values are written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count
from typing import Any

import changes
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.core.errors import CommitConflict, LakelatchError, StoreUnavailable, Unsupported
from lakelatch.table.rowlevel.edit import Edit
from lakelatch.table.rowlevel.evolution import EvolvingChange
from lakelatch.table.table import Table
from lakelatch.table.writing.writer import TableWriter

_names = count()
SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("a", pa.int64()), ("note", pa.string())])
EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "commit.min-retry-wait": "1 ms"}


def made(*files: range) -> Table:
    """A table with a file for each range of ids."""
    url = f"memory://evolving-rows/{next(_names)}"
    schema = ll.create_table(url, SCHEMA, partition_by=["p"], options=EVOLVING).schema
    table = Table(changes.Raced(url), schema)
    for ids in files:
        table.append(rows(*ids))
    return table


def rows(*ids: int, note: str = "old") -> pa.Table:
    return pa.Table.from_pylist([{"p": i // 100, "id": i, "a": i % 5, "note": note} for i in ids], SCHEMA)


def state(table: Table, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in changes.reopened(table).to_arrow(columns=list(columns)).to_pylist())


def columns_written(table: Table) -> list[tuple[str, ...]]:
    """Of each file that the newest snapshot added, the columns in it; none for all."""
    newest = changes.reopened(table)
    added = {e.file.file_name for e in newest.entries()} - {
        e.file.file_name for s in list(newest.snapshots())[:-1] for e in newest.entries(s)
    }
    return sorted(tuple(e.file.write_cols or ()) for e in newest.entries() if e.file.file_name in added)


def test_an_update_writes_the_columns_that_change_for_the_files_that_have_such_rows() -> None:
    table = made(range(3), range(10, 13), range(20, 24))
    receipt = table.update("id + 0 IN (11, 22)", set={"note": "note || '!'", "a": "a + 1"})
    assert (receipt.rows_updated, receipt.rows_inserted, receipt.files_read) == (2, 0, 3)
    assert columns_written(table) == [("a", "note")] * 2
    ids = {i: n for n, i in enumerate([*range(3), *range(10, 13), *range(20, 24)])}
    expected = [(i, i % 5 + (i in (11, 22)), "old!" if i in (11, 22) else "old", ids[i]) for i in ids]
    assert state(table, "id", "a", "note", "_ROW_ID") == expected, "rows keep their ids"
    assert table.verify(data=True) == []


def test_a_change_of_no_row_is_a_commit_without_files() -> None:
    table = made(range(3))
    receipt = table.update("id + 0 = 77", set={"a": "1"})
    assert (receipt.rows_updated, columns_written(table)) == (0, [])
    assert table.snapshot().operation == "UPDATE"


def test_a_merge_writes_no_key_that_stays_as_it_is() -> None:
    """New rows have all columns, and ids of their own."""
    table = made(range(3), range(10, 13))
    source = pa.concat_tables([rows(11, note="new"), rows(2, note="new"), rows(150, 151, note="more")])
    merge = table.merge(source, ["p", "id"]).when_matched_update_all().when_not_matched_insert_all("s.id <> 151")
    receipt = merge.when_not_matched_by_source_update({"a": "100"}, "t.id = 0").execute()
    assert (receipt.rows_updated, receipt.rows_inserted, receipt.files_read) == (3, 1, 2)
    assert columns_written(table) == [(), ("a", "note"), ("a", "note")]
    assert state(table, "id", "a", "note", "_ROW_ID") == [
        *((0, 100, "old", 0), (1, 1, "old", 1), (2, 2, "new", 2)),
        *((10, 0, "old", 3), (11, 1, "new", 4), (12, 2, "old", 5), (150, 0, "more", 6)),
    ]
    assert table.snapshot().operation == "MERGE"
    assert table.verify(data=True) == []


def test_values_of_the_source_may_depend_on_the_row() -> None:
    table = made(range(4), range(10, 14))
    source = pa.table({"key": [1, 3, 12, 13, 70], "more": [10, 30, 120, 130, 700]})
    merge = table.merge(source, "t.id = s.key").when_matched_update({"a": "a + more"}, "s.more < 125")
    merge = merge.when_matched_update({"note": "'large'"}).when_not_matched_insert({"id": "key", "p": "0"})
    assert merge.execute().rows_updated == 4
    assert [r for r in state(table, "id", "a") if r[1] is None or r[1] >= 5] == [
        (1, 11),
        (3, 33),
        (12, 122),
        (70, None),
    ]
    assert [i for i, note in state_of_notes(table) if note == "large"] == [13]


def state_of_notes(table: Table) -> list[tuple[int, str | None]]:
    return [(r["id"], r["note"]) for r in changes.reopened(table).to_arrow(columns=["id", "note"]).to_pylist()]


def test_a_merge_that_would_delete_a_row_changes_nothing() -> None:
    table = made(range(3), range(10, 13))
    before = {info.key for info in table.store.list("")}
    merge = table.merge(rows(1, 11), ["id"]).when_matched_delete("t.id = 11").when_matched_update({"note": "'x'"})
    with pytest.raises(Unsupported, match="single rows cannot be deleted"):
        merge.execute()
    assert {info.key for info in table.store.list("")} == before
    none = table.merge(rows(1, 5), ["id"]).when_matched_delete("t.id = 99").when_matched_update({"note": "'x'"})
    assert none.execute().rows_updated == 1, "a clause that no row meets deletes nothing"


def test_a_partition_that_goes_leaves_the_others() -> None:
    table = made(range(98, 102), range(200, 203))
    receipt = table.delete(where="p = 1", commit_user="job", identifier=4, properties={"why": "old"})
    assert (receipt.rows_deleted, receipt.files_deleted, receipt.files_read) == (2, 1, 0)
    assert [row[0] for row in state(table, "id")] == [98, 99, 200, 201, 202]
    assert table.delete(where="p = 1", commit_user="job", identifier=4).replayed


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        (lambda table, **about: table.update("id = 1", set={"a": "7"}, **about), "UPDATE"),
        (lambda table, **about: table.delete(where="p = 0", **about), "DELETE"),
    ],
    ids=["columns", "a whole partition"],
)
def test_a_change_lands_under_its_identity_with_its_properties(change: Callable[..., Any], operation: str) -> None:
    table = made(range(3))
    first = change(table, commit_user="job", identifier=4, properties={"why": "asked"})
    snapshot = changes.reopened(table).timeline.latest()
    assert snapshot is not None
    assert (snapshot.commit_user, snapshot.commit_identifier, snapshot.properties["why"]) == ("job", 4, "asked")
    assert (table.snapshot().operation, first.replayed) == (operation, False)
    assert change(table, commit_user="job", identifier=4).replayed


@pytest.mark.parametrize("where", ["id < 5", "p = 0"])
@pytest.mark.parametrize(("isolation", "plans", "new"), [("serializable", 2, "x"), ("snapshot", 1, "old")])
def test_rows_that_others_add_meanwhile_are_seen_if_they_may_concern_the_change(
    where: str, isolation: Any, plans: int, new: str
) -> None:
    table = made(range(3))
    changes.meanwhile(table, lambda: changes.reopened(table).append(rows(4)))
    assert table.update(where, set={"note": "'x'"}, isolation=isolation).plans == plans
    assert state(table, "id", "note") == [(0, "x"), (1, "x"), (2, "x"), (4, new)]
    changes.meanwhile(table, lambda: changes.reopened(table).append(rows(900)))
    assert table.update(where, set={"note": "'y'"}, isolation=isolation).plans == 1, "rows elsewhere do not matter"


def test_a_row_that_another_job_inserts_meanwhile_is_not_inserted_again() -> None:
    table = made(range(3))
    changes.meanwhile(table, lambda: changes.reopened(table).append(rows(150)))
    merge = table.merge(rows(150, 151, note="mine"), ["id"]).when_not_matched_insert_all()
    receipt = merge.execute()
    assert (receipt.plans, receipt.rows_inserted) == (2, 1)
    assert state(table, "id", "note")[3:] == [(150, "old"), (151, "mine")]


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_columns_that_others_change_meanwhile_are_a_conflict(isolation: Any) -> None:
    table = made(range(3))
    changes.meanwhile(table, lambda: changes.reopened(table).update("id = 1", set={"a": "a + 10"}))
    assert table.update("id < 2", set={"a": "a + 100"}, isolation=isolation).plans == 2
    assert state(table, "id", "a") == [(0, 100), (1, 111), (2, 2)]


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_read() -> None:
    table = made(range(3))
    schema = dataclasses.replace(table.schema, option_texts={**table.schema.option_texts, "bucket": "-2"})
    with pytest.raises(Unsupported, match="'bucket' = -2"):
        EvolvingChange(table.store, schema, Edit(None))


# ---------------------------------------------------------------------------------------------- files of lost attempts


def update(table: Table) -> Any:
    return table.update(where="id < 99", set={"a": "id + 1"})


def merge(table: Table) -> Any:
    return (
        table.merge(rows(*range(200, 300)), on=["id"]).when_matched_update_all().when_not_matched_insert_all().execute()
    )


def data(table: Table) -> set[str]:
    return {info.key for info in table.store.list("") if "/data-" in info.key}


@pytest.mark.parametrize("change", [update, merge])
@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("lands", [True, False])
def test_files_of_a_lost_attempt_go_unless_it_may_still_land(
    change: Callable[[Table], Any], sent: bool, lands: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the next attempt commits only its own."""
    table = made()
    table.append(rows(*range(99)))
    before, commit = data(table), Committer.commit
    lost, last = CommitConflict("lost"), StoreUnavailable("403")
    lost.sent, last.sent = sent, False
    ends: list[LakelatchError | None] = [lost, None if lands else last]
    written = []

    def ended(self: Committer, request: Any) -> Any:
        for upload in request.uploads:
            self.store.put(upload.key, upload.data)
        written.append(data(table) - before)
        if (error := ends.pop(0)) is not None:
            raise error
        return commit(self, request)

    monkeypatch.setattr(Committer, "commit", ended)
    if lands:
        change(table)
    else:
        with pytest.raises(StoreUnavailable):
            change(table)
    first, second = written
    assert first and second - first
    left = data(table) - before
    assert (first <= left) == sent and bool(first & left) == sent
    assert ((second - first) <= left) == (sent or lands)
    named = {e.file.file_name for e in changes.reopened(table).entries()}
    assert named.isdisjoint(key.rpartition("/")[2] for key in first)


def test_what_was_written_before_new_rows_fail_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    table = made(range(3))
    before, finish = data(table), TableWriter.finish

    def broken(self: TableWriter) -> Any:
        finish(self)
        assert data(table) != before
        raise StoreUnavailable("503")

    monkeypatch.setattr(TableWriter, "finish", broken)
    monkeypatch.setattr("lakelatch.table.writing.files.sink.TRAVELLING_BYTES", 0)
    with pytest.raises(StoreUnavailable):
        table.merge(rows(150), on=["p", "id"]).when_not_matched_insert_all().execute()
    assert data(table) == before
