"""Changes captured from a database: the state after them is the database's, in whatever shape and order they come."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from databases import COLUMNS, DEBEZIUM, MAXWELL, ROW, Database, row

import lakelatch as ll

COUNTER = itertools.count()


def new_table(**options: str) -> ll.Table:
    url = f"memory://captured-{next(COUNTER)}/t"
    return ll.create_table(url, ll.Schema(COLUMNS), primary_key=["part", "id"], options={"bucket": "2", **options})


def state(table: ll.Table) -> list[dict[str, Any]]:
    return sorted(table.to_arrow().to_pylist(), key=lambda found: found["id"])


@pytest.mark.parametrize("shape", ["debezium", "maxwell"])
@pytest.mark.parametrize("seed", range(4))
def test_the_state_after_all_changes_is_that_of_the_database(shape: str, seed: int) -> None:
    """In several calls; within a call the changes come in any order, and are put in order by their sequence."""
    database, table = Database(seed), new_table()
    schema, sequence = (DEBEZIUM, "source.lsn") if shape == "debezium" else (MAXWELL, "ts")
    for identifier in range(3):
        database.debezium, database.maxwell = [], []
        for _ in range(30):
            database.change()
        changes = database.debezium if shape == "debezium" else database.maxwell
        in_order = pa.Table.from_pylist(changes, schema=schema)
        database.chance.shuffle(changes)
        mixed = pa.Table.from_pylist(changes, schema=schema)
        about: dict[str, Any] = {"commit_user": "cdc", "identifier": identifier}
        if identifier == 1:
            table.apply_changes(in_order.to_batches(max_chunksize=7), **about)
        else:
            table.apply_changes(mixed, keys=["id", "part"], sequence=sequence, **about)
        assert table.apply_changes(mixed, sequence=[sequence], **about).replayed
        assert state(table) == database.state


def test_plain_rows_with_a_column_of_kinds() -> None:
    table = new_table()
    changes = pa.Table.from_pylist(
        [
            {**row(1, "new"), "op": "u", "at": 2},
            {**row(1, "old"), "op": "c", "at": 1},
            {**row(2, "gone"), "op": "c", "at": 1},
            {**row(2, "", None), "name": None, "op": "d", "at": 2},
        ],
        schema=pa.schema([*ROW, ("op", pa.string()), ("at", pa.int64())]),
    )
    table.apply_changes(changes.drop_columns("at"), kind="op")
    assert [found["name"] for found in state(table)] == ["old"]
    with pytest.raises(ll.InvalidArgument, match="no column 'at'"):
        table.apply_changes(changes, kind="op", sequence="at")
    ordered = new_table()
    ordered.alter(ll.add_column("at", "BIGINT"))
    ordered.apply_changes(changes, kind="op", sequence="at")
    assert [found["name"] for found in state(ordered)] == ["new"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"op": "x", "after": row(1, "a")}, "column 'op': 'x' is no change of a row"),
        ({"op": "c"}, "column 'after' is null in change 0, which writes a row"),
        ({"op": "d"}, r"column 'before' is null in change 0, which deletes a row.*REPLICA IDENTITY"),
        ({"op": "c", "after": row(1, "a"), "source": None}, "'source.lsn' is null in a change"),
        ({"op": "c", "after": {**row(1, "a"), "name": None}}, "column 'name' has 1 nulls"),
    ],
)
def test_a_change_that_cannot_be_understood_is_an_error(change: dict[str, Any], message: str) -> None:
    table = new_table()
    data = pa.Table.from_pylist([{"source": {"lsn": 1}, **change}], schema=DEBEZIUM)
    with pytest.raises(ll.InvalidArgument, match=message):
        table.apply_changes(data, sequence="source.lsn")
    assert table.snapshot() is None


def test_arguments_that_do_not_fit_are_errors() -> None:
    table, text = new_table(), pa.table({"op": ["c"], "before": ["{}"], "after": ["{}"]})
    with pytest.raises(ll.InvalidArgument, match="primary key of the table is part, id"):
        table.apply_changes(text, keys="id")
    with pytest.raises(ll.InvalidArgument, match=r"column '(before|after)' is no struct.*parse the JSON first"):
        table.apply_changes(text)
    with pytest.raises(ll.InvalidArgument, match="no column 'type', which rows of maxwell have"):
        table.apply_changes(text, shape="maxwell")
    with pytest.raises(ll.InvalidArgument, match="shape 'x' is unknown"):
        table.apply_changes(text, shape="x")  # type: ignore[arg-type]
    append_only = ll.create_table(f"memory://captured-{next(COUNTER)}/t", pa.schema([("k", pa.int64())]))
    with pytest.raises(ll.InvalidArgument, match="has no primary key"):
        append_only.apply_changes(pa.table({"k": [1]}))
