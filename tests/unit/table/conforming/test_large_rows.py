"""No path loses rows, or fails, where a column has more bytes than one array of texts holds. The limits are set low."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.rows import sizes, whole

ROWS, WIDTH = 40, 100
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("s", pa.string()), ("l", pa.list_(pa.string()))])


@pytest.fixture(autouse=True)
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of texts ends at 1000 bytes, and no more than 500 are handled at a time."""
    monkeypatch.setattr(whole, "WIDE_ABOVE", 1000)
    monkeypatch.setattr(sizes, "PIECE_BYTES", 500)
    concat = pa.concat_arrays

    def checked(arrays: Any, *rest: Any) -> Any:
        made = concat(arrays, *rest)
        assert not pa.types.is_string(made.type) or made.nbytes <= 2000, "an array of texts is too large"
        return made

    monkeypatch.setattr(pa, "concat_arrays", checked)


def rows(letter: str = "a", first: int = 0) -> pa.Table:
    """A table of many chunks."""
    parts = [
        pa.table({"k": [k], "s": [letter * WIDTH + str(k)], "l": [[letter * WIDTH, None]]}, SCHEMA)
        for k in range(first, first + ROWS)
    ]
    return pa.concat_tables(parts)


def made(**about: Any) -> ll.Table:
    return ll.create_table(f"memory://{uuid.uuid4().hex}/t", SCHEMA, **about)


def in_order(table: ll.Table) -> list[dict[str, Any]]:
    return table.to_arrow().sort_by("k").to_pylist()


KEYED: dict[str, Any] = {"primary_key": ["k"], "options": {"bucket": "2"}}
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "partitioned": {"partition_by": ["k"]},
    "keyed": KEYED,
    "data evolution": {"options": {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}},
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_merge_inserts_and_updates_every_row(kind: str) -> None:
    table = made(**TABLES[kind])
    merge = table.merge(rows(), on=["k"]).when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute().rows_inserted == ROWS
    assert in_order(table) == rows().to_pylist()
    merge = table.merge(rows("b", 10), on=["k"]).when_matched_update_all().when_not_matched_insert_all()
    receipt = merge.execute()
    assert (receipt.rows_updated, receipt.rows_inserted) == (ROWS - 10, 10)
    assert in_order(table) == rows().to_pylist()[:10] + rows("b", 10).to_pylist()


def test_one_row_of_a_source_for_many_rows() -> None:
    table = made()
    table.append(rows())
    source = pa.table({"one": [1], "s": ["z" * 400]})
    assert (
        table.merge(source, on="s.one = 1").when_matched_update({"s": "s.s"}, "t.k >= 5").execute().rows_updated
        == ROWS - 5
    )
    assert [len(row["s"]) for row in in_order(table)] == [WIDTH + 1] * 5 + [400] * (ROWS - 5)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_large_keys(kind: pa.DataType) -> None:
    table = ll.create_table(f"memory://{uuid.uuid4().hex}/t", pa.schema([("s", kind), ("v", pa.int64())]))
    keys = rows().column("s").cast(kind)
    for count in (0, ROWS):
        merge = table.merge(pa.table({"s": keys, "v": [count] * ROWS}), on=["s"]).when_matched_update_all()
        assert merge.when_not_matched_insert_all().execute().rows_updated == count
    assert table.to_arrow().column("v").to_pylist() == [ROWS] * ROWS


def test_rows_that_the_source_lacks_are_those_that_are_deleted() -> None:
    table = made()
    table.append(rows())
    source = rows("b", 10)
    merge = table.merge(source, on=["k"]).when_matched_update_all().when_not_matched_by_source_delete()
    assert merge.execute().rows_deleted == 10
    assert in_order(table) == source.slice(0, ROWS - 10).to_pylist()


def captured(table: ll.Table) -> None:
    after = pa.StructArray.from_arrays([c.combine_chunks() for c in rows().columns], fields=list(SCHEMA))
    order = pa.array(range(ROWS), pa.int64())
    nothing = pa.nulls(ROWS, after.type)
    changes = pa.table({"op": ["c"] * ROWS, "before": nothing, "after": after, "ts": order}).slice(0)
    table.apply_changes(changes.take(pa.array(range(ROWS - 1, -1, -1))), sequence="ts", shape="debezium")


def with_new_columns(table: ll.Table) -> None:
    table.append(rows("b"))
    ids = table.to_arrow(columns=["k", "_ROW_ID"]).sort_by("k").column("_ROW_ID")
    table.update_columns(
        rows().drop_columns(["k"]).append_column("_ROW_ID", ids).take(pa.array(range(ROWS - 1, -1, -1)))
    )
    table.update_columns(rows().select(["s"]).append_column("_ROW_ID", ids).slice(0, 30))


def sorted_again(table: ll.Table) -> None:
    for part in (rows().slice(20), rows().slice(0, 20)):
        table.append(part)
    table.optimize(by=["k"])


def streamed(table: ll.Table) -> None:
    table.append(rows().to_reader())


def of_dictionaries(table: ll.Table) -> None:
    given = rows()
    texts = pa.array(given.column("s").to_pylist()).dictionary_encode()
    table.append(given.set_column(1, "s", texts))


WAYS: dict[str, tuple[dict[str, Any], Callable[[ll.Table], None]]] = {
    "captured": (KEYED, captured),
    "update of columns": (TABLES["data evolution"], with_new_columns),
    "optimize": ({}, sorted_again),
    "stream": ({}, streamed),
    "dictionaries": ({}, of_dictionaries),
    "dynamic buckets": ({"primary_key": ["k"], "options": {"dynamic-bucket.target-row-num": "7"}}, streamed),
    "keys of no partition": ({"primary_key": ["k"], "partition_by": ["s"]}, streamed),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_row_is_there(way: str) -> None:
    about, act = WAYS[way]
    table = made(**about)
    act(table)
    assert in_order(table) == rows().to_pylist()
    assert table.verify(data=True) == []
