"""The rows of one key, in the order of format/primary-keys §3, become one as the engine says (format/primary-keys §4)."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.merge_rules import merge_rules
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import AtomicType, DataType, Field
from lakelatch.table.merging.codes import ordered_codes, same_codes
from lakelatch.table.merging.merge import columns_to_merge, merge_section

INT = AtomicType("INT")
ADD, BEFORE, AFTER, DELETE = range(4)


def merged(rows: list[tuple[Any, ...]], types: list[DataType] | None = None, **options: str) -> list[tuple[Any, ...]]:
    """Rows of (sequence number, kind, key, values…), merged; the columns are `k`, `a`, `b`, …"""
    types = types or [INT] * (len(rows[0]) - 3)
    fields = [Field(0, "k", AtomicType("INT", nullable=False))]
    fields += [Field(i + 1, "abcdef"[i], kind) for i, kind in enumerate(types)]
    texts = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    schema = new_schema(fields, primary_keys=["k"], options={"bucket": "1"} | texts)
    rules = merge_rules(schema)
    assert rules is not None
    names = [f.name for f in fields]
    assert columns_to_merge(rules, fields, names) <= {*names}
    columns = {
        "_SEQUENCE_NUMBER": pa.array([r[0] for r in rows], pa.int64()),
        "_VALUE_KIND": pa.array([r[1] for r in rows], pa.int8()),
    } | {f.name: pa.array([r[2 + i] for r in rows], to_arrow(f.type)) for i, f in enumerate(fields)}
    count, found = merge_section(rules, columns.__getitem__, schema.fields, names)
    result = list(zip(*(found[name].to_pylist() for name in names), strict=True))
    assert count == len(result)
    return sorted(result)


def test_the_newest_row_wins_and_a_delete_removes_its_key() -> None:
    rows = [
        (1, ADD, 1, 10),
        (5, AFTER, 2, 20),
        (3, ADD, 3, 30),
        (2, AFTER, 1, 11),
        (4, BEFORE, 2, 0),
        (9, DELETE, 3, 31),
    ]
    assert merged(rows) == [(1, 11), (2, 20)]
    assert merged(rows, ignore_delete="true") == [(1, 11), (2, 20), (3, 30)]


def test_at_one_sequence_number_the_row_that_adds_is_newer() -> None:
    assert merged([(7, AFTER, 1, 2), (7, BEFORE, 1, 1)]) == [(1, 2)]


def test_sequence_fields_come_before_sequence_numbers_and_nulls_are_oldest() -> None:
    rows = [(1, ADD, 1, 5, 1), (2, ADD, 1, 4, 9), (3, ADD, 1, None, 9), (1, ADD, 2, 5, 1), (2, ADD, 2, 5, None)]
    assert merged(rows, sequence__field="a") == [(1, 5, 1), (2, 5, None)]
    assert merged(rows, sequence__field="a,b") == [(1, 5, 1), (2, 5, 1)]
    assert merged(rows, sequence__field="a", sequence__field__sort_order="descending") == [(1, 4, 9), (2, 5, None)]


def test_the_oldest_row_stays_in_first_row_tables() -> None:
    rows = [(2, ADD, 1, 20), (1, ADD, 1, 10), (1, DELETE, 2, 5)]
    assert merged(rows, merge_engine="first-row") == [(1, 10)]
    rows += [(0, DELETE, 1, 0)]
    assert merged(rows, merge_engine="first-row", ignore_delete="true") == [(1, 10)]
    with pytest.raises(InvalidArgument, match="first-row"):
        merged(rows, merge_engine="first-row")


@pytest.mark.parametrize(
    "values",
    [
        pa.array([None, -3, 0, 2**62], pa.int64()),
        pa.array([None, -math.inf, -0.0, 0.0, 1e-300, math.inf, math.nan], pa.float64()),
        pa.array([-1.5, -0.0, 0.0, math.nan], pa.float32()),
        pa.array(["", "A", "Z", "a", "é", "\U0001f600"]),
        pa.array([None, False, True]),
        pa.array([b"", b"\x00", b"\x7f", b"\x80", b"\xff"]),
        pa.array([None, -5, 0, 7], pa.decimal128(20, 2)),
        pa.array([-1, 0, 1], pa.timestamp("us")),
        pa.array([None, -1, 0], pa.date32()),
    ],
)
def test_codes_compare_like_values(values: Any) -> None:
    mixed = pa.concat_arrays([values[::-1], values])
    codes = ordered_codes(mixed).tolist()
    half = len(values)
    assert codes[half:] == codes[:half][::-1] == sorted(set(codes))
    same = same_codes(mixed).tolist()
    assert same[half:] == same[:half][::-1]
    assert len(set(same)) == half
