"""The encoding that every comparison of rows goes through is itself compared with golden rows."""

from __future__ import annotations

from collections.abc import Callable

import golden_tables
import pyarrow as pa
import pytest
from golden_tables import GoldenTable
from values import assert_same_rows, decode_rows, encode_rows

from lakelatch.core.metadata.schema import parse_schema
from lakelatch.core.rows.types import AtomicType, Field

INT = AtomicType("INT")


@pytest.mark.parametrize("table_id", golden_tables.packed("append_"))
def test_golden_rows_survive_the_way_to_arrow_and_back(table_id: str, golden: Callable[[str], GoldenTable]) -> None:
    """Every value of every type: encode(decode(rows)) is rows, for whole tables and for slices of them."""
    table = golden(table_id)
    newest = max((table.path / "schema").glob("schema-*"), key=lambda path: int(path.name.split("-")[1]))
    fields = parse_schema(newest.read_bytes(), newest.name).fields
    if any(field.type == AtomicType("VARIANT") for field in fields):
        assert table.name == "append_variant"  # only Java and Spark write those
        return
    names = [field.name for field in fields]
    reads = [r for r in table.expected["reads"] if r["at"] == {"latest": True} and r["columns"] == names]
    assert reads
    for read in reads:
        arrow = decode_rows(read["rows"], fields)
        assert_same_rows(encode_rows(arrow, fields), read["rows"], table_id)
        half = arrow.num_rows // 2
        parts = encode_rows(arrow.slice(0, half), fields) + encode_rows(arrow.slice(half), fields)
        assert_same_rows(parts, read["rows"], table_id)


def test_a_difference_is_found_and_named() -> None:
    """Rows are a bag: a row too many, one too few, and a number of the other kind all fail."""
    fields = [Field(0, "a", INT)]
    rows = encode_rows(pa.table({"a": pa.array([2, 1, 1], pa.int32())}), fields)
    assert rows == [[1], [1], [2]]
    assert_same_rows(rows, [[1], [2], [1]])
    for wrong in ([[1], [2]], [[1], [2], [2]], [[1], [1], [2.0]], [[1], [1], [None]]):
        with pytest.raises(AssertionError, match="missing"):
            assert_same_rows(rows, wrong)
