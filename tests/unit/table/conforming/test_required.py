"""NOT NULL inside nested values: a required part may be null only inside a null ROW, where no reader sees it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.core.errors import InvalidArgument

NESTED = {"type": "ROW NOT NULL", "fields": [{"id": 8, "name": "y", "type": "STRING NOT NULL"}]}
TYPES: dict[str, Any] = {
    "variant": "VARIANT",
    "row": {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "INT NOT NULL"}]},
    "nested": {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": NESTED}, {"id": 6, "name": "z", "type": "INT"}]},
    "stamps": {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 5, "name": "t", "type": "TIMESTAMP(9) NOT NULL"}]}},
    "map": {"type": "MAP", "key": "INT", "value": {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "DATE NOT NULL"}]}},
    "vector": {"type": "VECTOR", "element": "FLOAT NOT NULL", "length": 2},
}  # fmt: skip
COUNTS = {"type": "MAP", "key": "INT", "value": "INT NOT NULL"}


def table_of(tmp_path: Path, data_type: Any) -> ll.Table:
    return ll.create_table(str(tmp_path / "t"), ll.Schema([("id", "INT"), ("a", data_type)]))


def rows_of(array: Any) -> pa.Table:
    return pa.table({"id": pa.array(range(len(array)), pa.int32()), "a": array})


@pytest.mark.parametrize("name", TYPES)
def test_nulls_with_required_parts(tmp_path: Path, name: str) -> None:
    """G1: a column that the data leaves out is null, and so is an array of nulls, whatever its type requires inside."""
    table = table_of(tmp_path, TYPES[name])
    table.append(pa.table({"id": pa.array([1, 2], pa.int32())}))
    table.append(rows_of(pa.nulls(2, table.arrow_schema.field("a").type)))
    assert table.to_arrow().column("a").null_count == 4
    table.append(table.to_arrow())
    assert table.to_arrow().column("a").null_count == 8


HIDDEN = pa.array([{"x": 1}, None, {"x": 3}], pa.struct([("x", pa.int32())]))
"""Field x is null where its row is, as Arrow likes it."""


@pytest.mark.parametrize(
    ("data_type", "array", "expected"),
    [
        (TYPES["row"], HIDDEN, [{"x": 1}, None, {"x": 3}]),
        (TYPES["row"], HIDDEN.slice(1), [None, {"x": 3}]),
        (TYPES["row"], pa.array([{"x": 2**40}, None]).slice(1), [None]),
        (
            TYPES["nested"],
            pa.array([{"z": 1, "x": {"y": "a"}}, None, {"x": {"y": ""}, "z": None}]),
            [{"x": {"y": "a"}, "z": 1}, None, {"x": {"y": ""}, "z": None}],
        ),
        (
            TYPES["stamps"],
            pa.array([[{"t": 1}, None], None, []], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))),
            [[{"t": 1}, None], None, []],
        ),
        (
            TYPES["map"],
            pa.array([[(1, None), (2, {"x": 0})], None], pa.map_(pa.int32(), pa.struct([("x", pa.date32())]))),
            [[(1, None), (2, {"x": 0})], None],
        ),
    ],
)
def test_hidden_nulls_are_allowed(tmp_path: Path, data_type: Any, array: Any, expected: list[Any]) -> None:
    """G1: required fields of rows that are null, at every position, also in slices."""
    table = table_of(tmp_path, data_type)
    table.append(rows_of(array))
    found = table.to_arrow().column("a")
    assert found.equals(pa.chunked_array([pa.array(expected, found.type)]))


@pytest.mark.parametrize(
    ("data_type", "array", "named"),
    [
        (TYPES["row"], pa.array([{"x": 1}, {"x": None}]), "a.x"),
        (TYPES["nested"], pa.array([{"x": {"y": None}}]), "a.x.y"),
        (TYPES["nested"], pa.array([{"x": None}], pa.struct([("x", pa.struct([("y", pa.string())]))])), "a.x"),
        (TYPES["stamps"], pa.array([[{"t": None}]], pa.list_(pa.struct([("t", pa.timestamp("ns"))]))), "a.element.t"),
        (TYPES["map"], pa.array([[(1, {"x": None})]], pa.map_(pa.int32(), pa.struct([("x", pa.date32())]))), "a.value.x"),
        (TYPES["vector"], pa.array([[1.0, None]], pa.list_(pa.float32(), 2)), "a.element"),
        (TYPES["vector"], pa.array([[1.0, None]], pa.list_(pa.float32())), "a.element"),
        ({"type": "ARRAY", "element": "INT NOT NULL"}, pa.array([[1, None]], pa.large_list(pa.int32())), "a.element"),
        (COUNTS, pa.array([[(1, None)]], pa.map_(pa.int32(), pa.int32())), "a.value"),
    ],
)  # fmt: skip
def test_visible_nulls_are_refused(tmp_path: Path, data_type: Any, array: Any, named: str) -> None:
    """G1: one error that names the part, never a file with nulls in it that no reader takes."""
    table = table_of(tmp_path, data_type)
    with pytest.raises(InvalidArgument, match=f"column '{named}'"):
        table.append(rows_of(array))
    assert table.snapshot() is None and not list(tmp_path.rglob("*.parquet"))
