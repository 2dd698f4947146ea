"""What a commit takes from its base and from the schema: row ids, history, the layout of files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pytest
from changes import check, created, delete_rows, files, meanwhile, publish, reopened, replace_a, rows, values

from lakelatch.coordinator.commit.checks.changes_since import ChangesSince
from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.commit.request import CommitRequest, Remarks
from lakelatch.core.errors import CommitConflict
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table


@pytest.fixture
def table() -> Table:
    """Partition a holds 1, 2, 3 in one file, partition b holds 10."""
    made = created()
    made.append(rows("a", 1, 2, 3))
    made.append(rows("b", 10))
    return made


def test_row_ids_continue_those_of_the_base() -> None:
    table = created((), row_tracking__enabled="true")
    table.append(pa.table({"part": ["x"], "v": [1]}))
    meanwhile(table, lambda: reopened(table).append(pa.table({"part": ["x", "x"], "v": [2, 3]})))
    table.append(pa.table({"part": ["x"], "v": [4]}))
    newest = table.timeline.latest()
    assert newest is not None and newest.next_row_id == 4
    given = {e.file.first_row_id: e.file.row_count for e in files(table)}
    assert given == {0: 1, 1: 2, 3: 1}
    read = reopened(table).to_arrow(columns=["v", "_ROW_ID"]).sort_by("v")
    assert read["_ROW_ID"].to_pylist() == [0, 1, 2, 3]


def test_an_overwrite_replaces_the_files_that_it_read_and_nothing_newer(table: Table) -> None:
    """Decision 7: other writers appended before it began, but after its rows were read."""
    reopened(table).append(rows("a", 4))
    replace_a(reopened(table), 7, read_snapshot=2)
    check(table, [4, 7, 10])


def test_a_replaced_snapshot_of_the_same_id_is_not_the_one_that_was_read(table: Table) -> None:
    """After a rollback by Apache Paimon the id is used again: later changes do not apply to the snapshot that was read."""
    read = table.timeline.latest()
    assert read is not None
    table.store.delete_many([table.paths.snapshot(read.id)])
    reopened(table).append(rows("a", 40))  # snapshot 2 again, another one
    reopened(table).append(rows("b", 50))
    request = CommitRequest(
        "OVERWRITE", (), "me", target=lambda partition: True, read_snapshot=read, remarks=Remarks("TRUNCATE")
    )
    with pytest.raises(CommitConflict, match="history_is_visible"):
        reopened(table).committer.commit(request)
    check(table, [1, 2, 3, 40, 50])


def test_changes_are_not_taken_from_a_snapshot_that_was_replaced_between_two_attempts(table: Table) -> None:
    """H18: the changes of a snapshot are cached under its identity, not under its id."""
    held = reopened(table)

    def replaced_by_a_delete() -> None:
        table.store.delete_many([table.paths.snapshot(3)])
        (file,) = [e for e in files(table) if e.file.row_count == 3]
        publish(table, "APPEND", [file.deletion()])
        publish(table, "APPEND")

    meanwhile(table, lambda: held.append(rows("b", 11)), lambda: meanwhile(table, replaced_by_a_delete))
    with pytest.raises(CommitConflict):
        replace_a(table, 7)
    check(table, [10])


def test_changes_of_others_are_unknown_if_a_snapshot_in_between_is_gone(table: Table) -> None:
    history = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    for value in (11, 12, 13):
        table.append(rows("b", value))
    read, base = table.timeline.find(2), table.timeline.find(5)
    changes = history.since(read, base)
    assert isinstance(changes, list) and [c.snapshot_id for c in changes] == [3, 4, 5]
    table.store.delete_many([table.paths.snapshot(4)])
    gone = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True).since(read, base)
    assert isinstance(gone, Conflict) and gone.check == "history_is_visible"


def altered(table: Table, **texts: str) -> Callable[[], None]:
    """Another job's new schema with these options, and a commit that makes other writers notice it."""

    def change() -> None:
        newest = table.timeline.latest_schema()
        options = {**newest.option_texts, **texts}
        made = replace(newest, id=newest.id + 1, option_texts=options)
        table.store.put(f"schema/schema-{made.id}", made.to_json())
        publish(table, "APPEND")

    return change


def bucketed() -> Table:
    table = created((), bucket="2", bucket_key="v")
    table.append(pa.table({"part": ["x"] * 4, "v": [1, 2, 3, 4]}))
    return table


def test_a_schema_that_keeps_the_layout_is_not_a_conflict() -> None:
    table = bucketed()
    meanwhile(table, altered(table, **{"file.compression": "snappy"}))
    table.append(rows("x", 5))
    check(table, [1, 2, 3, 4, 5])
    newest = table.timeline.latest()
    assert newest is not None and newest.schema_id == 1


def test_a_commit_without_files_ignores_the_layout() -> None:
    table = bucketed()
    meanwhile(table, altered(table, bucket="4"))
    table.truncate()
    assert values(table) == []


def test_nothing_happened_between_a_snapshot_and_itself(table: Table) -> None:
    latest = table.timeline.latest()
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    assert since.since(latest, latest) == []
    assert isinstance(since.since(latest, table.timeline.snapshot(1)), Conflict), "the base is older than what was read"


def test_changes_up_to_no_snapshot_at_all_cannot_be_read(table: Table) -> None:
    """The table was dropped and made again: its first writer finds no base, and what was read is gone."""
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    assert isinstance(since.since(table.timeline.latest(), None), Conflict)
    assert since.since(None, None) == []


def test_an_append_beside_deleted_rows_does_not_look_which_they_are(table: Table) -> None:
    """It lists the index manifest of its base; only what takes files away has to read it."""
    delete_rows(table, {next(e.file.file_name for e in files(table) if e.file.row_count == 3): [0]})
    again, asked = reopened(table), list[str]()
    get = again.store.get
    with patch.object(again.store, "get", lambda key: asked.append(key) or get(key)):
        again.append(rows("a", 4))
    assert asked and not [key for key in asked if "index-manifest" in key]
    check(table, [2, 3, 4, 10])


def test_an_undo_names_who_deleted_rows_of_its_files_though_others_came_since(table: Table) -> None:
    """The undone commit marked the first row of a file: its reverse names no file at all, only an index file."""
    name = next(e.file.file_name for e in files(table) if e.file.row_count == 3)
    delete_rows(table, {name: [0]})
    meanwhile(table, lambda: delete_rows(table, {name: [1]}), lambda: reopened(table).append(rows("a", 4)))
    with pytest.raises(CommitConflict, match=r"snapshot 4 \(.*\) deleted rows of files that it changed"):
        reopened(table).undo(3)
    check(table, [3, 4, 10])
