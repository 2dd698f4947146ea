"""DELETE and UPDATE by condition, on every kind of table without a primary key."""

from __future__ import annotations

import dataclasses
import datetime as dt
import pickle
from decimal import Decimal
from itertools import count
from typing import Any

import changes
import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.expressions.tree import TARGET
from lakelatch.core.rows.types import with_nullable
from lakelatch.table.rowlevel import file_change
from lakelatch.table.rowlevel.append_table import AppendChange
from lakelatch.table.rowlevel.edit import Edit

_names = count()
SCHEMA = pa.schema([("p", pa.int32()), ("id", pa.int64()), ("note", pa.string()), ("m", pa.decimal128(6, 2))])
VECTORS, TRACKED = {"deletion-vectors.enabled": "true"}, {"row-tracking.enabled": "true"}
KINDS = {
    "copies": ({}, []),
    "vectors": (VECTORS, []),
    "tracked": (TRACKED, ["p"]),
    "tracked vectors": (VECTORS | TRACKED, ["p"]),
    "buckets": ({"bucket": "2", "bucket-key": "id"}, ["p"]),
    "buckets with vectors": (VECTORS | {"bucket": "2", "bucket-key": "id"}, ["p"]),
    "wide vectors": (VECTORS | {"deletion-vectors.bitmap64": "true"}, []),
}


def test_an_assignment_that_was_used_travels() -> None:
    """Workers get it, and use it again."""
    table = made(files=0)
    assignment = Edit.of(table.schema, None, {"note": "'new'"}).assignment
    assert assignment is not None
    batch = rows(1, 2).combine_chunks().to_batches()[0]
    once = assignment.applied({TARGET: batch}, 2)
    assert pickle.loads(pickle.dumps(assignment)).applied({TARGET: batch}, 2) == once
    assert once.column("note").to_pylist() == ["new", "new"]


def test_statistics_are_those_of_the_columns_that_a_file_was_written_with() -> None:
    """A column that came later has the place of one that is gone, whose values would meet the condition in every row."""
    schema = pa.schema([("id", pa.int64()), ("old", pa.int64())])
    table = ll.create_table(f"memory://delete-update/{next(_names)}", schema)
    table.append(pa.table({"id": [1, 2], "old": [7, 7]}))
    table.alter(ll.drop_column("old"), ll.add_column("new", pa.int64()))
    table.append(pa.table({"id": [3], "new": [7]}))
    assert table.delete(where="new = 7 OR id = 1").rows_deleted == 2
    assert table.to_arrow().to_pylist() == [{"id": 2, "new": None}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_rows_says_what_it_was(kind: str) -> None:
    table = made(*KINDS[kind])
    table.delete(where="id = 1")
    assert table.snapshot().operation == "DELETE"
    table.update("id = 2", set={"note": "'new'"})
    assert table.snapshot().operation == "UPDATE"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_go_make_an_overwrite(kind: str) -> None:
    """Also where no file goes, because its rows are only marked: Apache Paimon's streams must not take it for an append."""
    table = made(*KINDS[kind])
    receipt = table.delete(where="id = 1")
    assert (receipt.kind, table.snapshot().commit_kind) == ("OVERWRITE", "OVERWRITE")


def made(options: dict[str, str] | None = None, partition_by: list[str] | None = None, files: int = 3) -> Any:
    """A table with some files of four rows each, whose ids are 0, 1, 2, …"""
    table = ll.create_table(
        f"memory://row-changes/{next(_names)}", SCHEMA, partition_by=partition_by or [], options=options or {}
    )
    for file in range(files):
        table.append(rows(*range(file * 4, file * 4 + 4)))
    return table


def rows(*ids: int) -> pa.Table:
    values = [{"p": i // 4 % 2, "id": i, "note": f"n{i % 4}", "m": Decimal(i)} for i in ids]
    return pa.Table.from_pylist(values, SCHEMA)


def state(table: Any, *columns: str) -> list[tuple[Any, ...]]:
    found = table.to_arrow(columns=list(columns) or None).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def ids(table: Any) -> list[int]:
    return sorted(table.to_arrow(columns=["id"]).column("id").to_pylist())


def sound(table: Any) -> None:
    assert [str(finding) for finding in table.verify(snapshots="all", data="deep")] == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_deleted_and_updated_on_every_kind_of_table(kind: str) -> None:
    table = made(*KINDS[kind])
    receipt = table.delete(where="note = 'n1' AND id + 1 > 2")
    assert (receipt.rows_deleted, receipt.rows_updated) == (2, 0)
    receipt = table.update(where="id IN (2, 4)", set={"note": "note || '!'", "id": "id + 100"})
    assert (receipt.rows_updated, receipt.rows_deleted) == (2, 0)
    assert table.update(where=ll.col("id") == 7, set={"p": 5, "note": ll.lit("moved")}).rows_updated == 1
    kept = [(0, 1, "n1"), (0, 3, "n3"), (0, 0, "n0"), (1, 6, "n2"), (0, 8, "n0"), (0, 10, "n2"), (0, 11, "n3")]
    new = [(0, 102, "n2!"), (1, 104, "n0!"), (5, 7, "moved")]
    assert state(table, "p", "id", "note") == sorted([*kept, *new], key=repr)
    sound(table)


NULLS = {
    "note IN ('n1', NULL)": {1, 5, 9},
    "note NOT IN ('n1', NULL)": set(),
    "NOT (note NOT IN ('n1', NULL))": {1, 5, 9},
    "note = NULL": set(),
    "NOT (note <> NULL)": set(),
    "note LIKE NULL": set(),
    "id BETWEEN NULL AND 100": set(),
    "id < 4 OR id = NULL": {0, 1, 2, 3},
    "note = 'n1' OR id = NULL": {1, 5, 9},
    "id < 4 AND id <> NULL": set(),
    "id IN (0, 1, 2, 3, NULL)": {0, 1, 2, 3},
}


@pytest.mark.parametrize("condition", NULLS)
def test_a_condition_that_is_unknown_deletes_no_row(condition: str) -> None:
    """Statistics prove that it is false for no row of a file. That does not make it true: the file must not be dropped."""
    table = made()
    assert table.delete(where=condition).rows_deleted == len(NULLS[condition])
    assert set(ids(table)) == set(range(12)) - NULLS[condition]
    sound(table)


@pytest.mark.parametrize("kind", ["tracked", "tracked vectors"])
def test_an_updated_row_keeps_its_row_id_and_gets_the_number_of_the_commit(kind: str) -> None:
    table = made(*KINDS[kind])
    table.update(where="id = 5", set={"note": "'new'"})
    table.delete(where="id = 6")
    found = state(table, "id", "_ROW_ID", "_SEQUENCE_NUMBER")
    assert found == sorted(
        [(i, i, 4 if i == 5 else i // 4 + 1) for i in range(12) if i != 6],
        key=repr,
    )
    table.append(rows(12))
    assert (12, 12, 6) in state(table, "id", "_ROW_ID", "_SEQUENCE_NUMBER"), "new rows do not get ids of old ones"


def test_only_files_with_rows_to_change_are_written_anew() -> None:
    table = made()
    before = set(table.files().column("file_path").to_pylist())
    receipt = table.update(where="id = 5", set={"note": "'x'"})
    assert (receipt.files_rewritten, receipt.files_read) == (1, 1), "statistics leave out the other files"
    assert len(before & set(table.files().column("file_path").to_pylist())) == 2
    receipt = table.delete(where="note || '' = 'x'")
    assert (receipt.files_rewritten, receipt.files_read) == (1, 3), "no statistics can answer this"


@pytest.mark.parametrize("options", [{}, VECTORS])
@pytest.mark.parametrize(
    ("where", "left"), [("p = 1", 8), ("id >= 4 AND id < 8", 8), ("id < 100", 0), ("NOT id > 3", 8)]
)
def test_files_that_go_as_a_whole_are_not_opened(options: dict[str, str], where: str, left: int) -> None:
    table = made(options, ["p"])
    receipt = table.delete(where=where)
    assert (receipt.files_read, receipt.files_rewritten, receipt.files_marked) == (0, 0, 0)
    assert (receipt.rows_deleted, receipt.files_deleted) == (12 - left, (12 - left) // 4)
    assert len(ids(table)) == left
    sound(table)


def test_a_file_with_a_null_does_not_go_as_a_whole() -> None:
    table = made(files=0)
    table.append(pa.Table.from_pylist([{"id": 1}, {"id": None}], SCHEMA))
    assert table.delete(where="id < 5").rows_deleted == 1
    assert table.to_arrow().num_rows == 1


def test_deleted_rows_are_marked_and_the_last_one_takes_its_file_with_it() -> None:
    table = made(VECTORS)
    receipt = table.delete(where="id IN (4, 5)")
    assert (receipt.files_marked, receipt.files_rewritten, receipt.files_deleted) == (1, 0, 0)
    assert table.delete(where="id IN (4, 6)").rows_deleted == 1, "a marked row is not deleted again"
    receipt = table.delete(where="note = 'n3' AND id = 7")
    assert (receipt.files_marked, receipt.files_deleted) == (0, 1)
    assert table.timeline.index_entries(table.snapshot()) == [], "its vector is gone too"
    sound(table)


def test_a_value_that_does_not_fit_changes_nothing() -> None:
    table = made()
    before = table.snapshot().id
    for given, problem in [
        ({"nothing": "1"}, "no column 'nothing'"),
        ({"note": "id + p"}, "column 'note' is of type string"),
        ({"id": "'x'"}, "column 'id' is of type BIGINT"),
        ({"id": ll.lit("x")}, "column 'id'"),
        ({"m": "id * 100000"}, "column 'm'"),
        ({"p": "id + 3000000000"}, "column 'p'"),
        ({"note": "zz"}, "no column 'zz'"),
        ({}, "give a dict"),
    ]:
        with pytest.raises(InvalidArgument, match=problem):
            table.update(set=given)
    with pytest.raises(InvalidArgument, match="a condition is true or false"):
        table.delete(where="id + 1")
    assert table.snapshot().id == before
    assert len(list(table.store.list("bucket-0/"))) == 3, "nothing is left behind"


def test_assignments_see_the_row_as_it_was() -> None:
    table = made(files=1)
    table.update(where="id = 3", set={"p": "id", "id": "p + 40", "m": "m / 7", "note": None})
    assert (3, 40, None, Decimal("0.43")) in state(table)


def test_a_null_that_is_assigned_stays_null() -> None:
    table = made(files=1)
    table.alter(ll.update_default("note", "none"))
    table.update(where="id = 0", set={"note": "nullif(note, 'n0')"})
    assert state(table, "id", "note")[0] == (0, None)


def test_rows_of_a_table_with_data_evolution_go_with_their_partition() -> None:
    """Files with new values of single columns go, too, and are counted once."""
    table = made(TRACKED | {"data-evolution.enabled": "true"}, ["p"])
    table.update("id % 2 = 0", set={"note": "'x'"})
    with pytest.raises(Unsupported, match="single rows cannot be deleted"):
        table.delete(where="p = 1 AND id = 5")
    done = table.delete(where="p = 1")
    assert (done.rows_deleted, done.files_read) == (4, 0)
    assert ids(table) == [0, 1, 2, 3, 8, 9, 10, 11]
    assert table.verify(data=True) == []
    assert table.delete(where="p IN (0, 7)").rows_deleted == 8
    assert table.count() == 0


def test_a_partition_with_data_evolution_goes_with_what_others_did_meanwhile() -> None:
    table = changes.created(("part",), row_tracking__enabled="true", data_evolution__enabled="true")
    table.append(pa.concat_tables([changes.rows("a", 1, 2), changes.rows("b", 3)]))
    changes.meanwhile(table, lambda: changes.reopened(table).update("part = 'a'", set={"v": "v + 10"}))
    assert table.delete(where="part = 'a'").plans == 2
    changes.meanwhile(table, lambda: table.append(changes.rows("a", 4)), lambda: table.append(changes.rows("b", 5)))
    assert table.delete(where="part = 'b'").rows_deleted == 2
    assert changes.values(table) == [4]


def test_an_identity_that_has_landed_runs_nothing() -> None:
    table = made()
    first = table.update(where="id = 1", set={"m": "m + 1"}, commit_user="job", identifier=1)
    again = table.update(where="id = 1", set={"m": "m + 1"}, commit_user="job", identifier=1)
    assert again.replayed and again.snapshot_id == first.snapshot_id and again.rows_updated is None
    assert (0, 1, "n1", Decimal(2)) in state(table)
    nothing = table.delete(where="id = 99", commit_user="job", identifier=2)
    assert nothing.rows_deleted == 0 and not nothing.replayed
    assert table.delete(where="id = 1", commit_user="job", identifier=2).replayed, "a commit of nothing is one too"


def test_times_are_compared_and_assigned() -> None:
    schema = pa.schema([("day", pa.date32()), ("at", pa.timestamp("us")), ("utc", pa.timestamp("us", "UTC"))])
    table = ll.create_table(f"memory://row-changes/{next(_names)}", schema)
    noon = dt.datetime(2024, 2, 28, 12)
    table.append(pa.table({"day": [noon.date()], "at": [noon], "utc": [noon]}, schema))
    changed = {"day": "day + 1", "at": "TIMESTAMP '2024-01-01 00:00:00'", "utc": ll.lit("2024-01-01T00:00:00Z")}
    assert table.update(where="at > day AND utc < '2025-01-01T00:00Z'", set=changed).rows_updated == 1
    year = dt.datetime(2024, 1, 1)
    assert table.to_arrow().to_pylist() == [
        {"day": dt.date(2024, 2, 29), "at": year, "utc": year.replace(tzinfo=dt.timezone.utc)}
    ]


def test_rows_of_a_table_that_cannot_be_written_are_not_changed() -> None:
    """It is said before anything is read."""
    table = made(files=1)
    schema = dataclasses.replace(table.schema, option_texts={**table.schema.option_texts, "bucket": "-2"})
    with pytest.raises(Unsupported, match="'bucket' = -2"):
        AppendChange(table.store, schema, Edit(None))


@pytest.mark.parametrize("marks", ["true", "false"])
def test_large_changes_that_move_rows_to_another_partition(marks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that stay in their partition may be written at once; those that move must wait for their place."""
    monkeypatch.setattr(file_change, "HELD_BYTES", 0)
    table = made({"deletion-vectors.enabled": marks}, partition_by=["p"])
    table.update("id < 6", set={"p": "p + 5"})
    moved = table.to_arrow(where="p >= 5").sort_by("id")
    assert list(zip(moved["id"].to_pylist(), moved["p"].to_pylist(), strict=True)) == [
        (i, i // 4 % 2 + 5) for i in range(6)
    ]
    table.update("id = 8", set={"note": "'new'"})
    assert table.verify("all", data=True) == []
    assert table.to_arrow(where="p = 6").column("id").to_pylist() == [4, 5]


def test_nulls_in_a_column_that_became_not_null_are_not_written_anew() -> None:
    table = made(files=0)
    table.append(pa.table({"p": [1, 1], "id": [1, 2], "note": [None, "x"], "m": [None, None]}, SCHEMA))
    raw = table.schema
    fields = tuple(dataclasses.replace(f, type=with_nullable(f.type, f.name != "note")) for f in raw.fields)
    table.store.put("schema/schema-1", dataclasses.replace(raw, id=1, fields=fields).to_json())
    with pytest.raises(Unsupported, match="column 'note' has become NOT NULL"):
        ll.open_table(table.url).delete(where="id = 2")
