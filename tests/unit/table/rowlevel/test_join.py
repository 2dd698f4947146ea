"""Which rows of a source have the key of a row of the table: the same pairs that comparing each with each finds."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.table.rowlevel.join import KeyJoin

DAY, NOON = dt.date(2024, 2, 29), dt.time(12, 30, 1, 5)
COLUMNS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "integers": (pa.int32(), [5, None, -3, 5, 0, 9], [0, 5, 7, None, -3, -4, 10]),
    "many integers": (pa.int64(), [*range(40, 0, -1), None, 7], [None, *range(-2, 45)]),
    "unsigned": (pa.uint8(), [255, 0, None], [0, 1, 255]),
    "true and false": (pa.bool_(), [True, None, True], [False, True, None]),
    "days": (pa.date32(), [DAY, None], [DAY + dt.timedelta(1), DAY, None]),
    "times of day": (pa.time32("ms"), [NOON.replace(microsecond=5000), None], [NOON.replace(microsecond=0), None]),
    "fine times of day": (pa.time64("us"), [NOON, dt.time(0), None], [NOON.replace(microsecond=6), NOON, None]),
    "times": (
        pa.timestamp("us"),
        [dt.datetime(1969, 1, 1), None],
        [None, dt.datetime(1969, 1, 1), dt.datetime(1970, 1, 1)],
    ),
    "points in time": (pa.timestamp("ms", "UTC"), [dt.datetime(2024, 1, 1)], [dt.datetime(2024, 1, 1), None]),
    "spans of time": (pa.duration("us"), [dt.timedelta(1), None], [dt.timedelta(0), dt.timedelta(1), None]),
    "intervals": (pa.month_day_nano_interval(), [(1, 2, 3), None, (0, 0, 0)], [(1, 2, 4), (1, 2, 3), None]),
    "texts": (pa.string(), ["b", "", None, "b"], ["", "a", None, "b", "B"]),
    "bytes": (pa.binary(), [b"\x00", b"", None], [b"", b"\x00\x00", b"\x00", None]),
    "decimals": (pa.decimal128(9, 2), [Decimal("1.50"), None], [Decimal("1.5"), Decimal("0.00"), None]),
    "fractions": (pa.float64(), [0.5, -0.0, None, 0.0], [0.0, -0.0, 0.5, 1.0, None]),
    "tiny fractions": (pa.float64(), [1e-300, 5e-324, -1e-300], [2e-300, 1e-300, 0.0, 5e-324]),
    "short fractions": (pa.float32(), [0.1, -0.0], [0.0, 0.1, -0.1]),
}


def pairs(source: list[pa.Array], rows: list[pa.Array]) -> list[tuple[int, int]]:
    found = KeyJoin(source, len(source[0])).pairs(rows, len(rows[0]))
    return list(zip(*(places.tolist() for places in found), strict=True))


def compared(source: list[tuple[Any, ...]], rows: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
    """Each row with each row of the source."""
    return [
        (i, j)
        for i, row in enumerate(rows)
        for j, other in enumerate(source)
        if None not in (*row, *other) and row == other
    ]


@pytest.mark.parametrize("kind", COLUMNS)
def test_rows_with_equal_keys_are_found(kind: str) -> None:
    t, source, rows = COLUMNS[kind]
    kept, asked = pa.array(source, t), pa.array(rows, t)
    expected = compared([(v,) for v in kept.to_pylist()], [(v,) for v in asked.to_pylist()])
    assert pairs([kept], [asked]) == expected


@pytest.mark.parametrize("t", [pa.float32(), pa.float64()])
def test_not_a_number_equals_itself(t: pa.DataType) -> None:
    assert pairs([pa.array([1.0, math.nan], t)], [pa.array([math.nan, 1.0, 2.0], t)]) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("first", COLUMNS)
@pytest.mark.parametrize("second", ["many integers", "texts"])
def test_all_columns_of_a_key_must_be_equal(first: str, second: str) -> None:
    """Every pair of values is in the table once; the source has some of them, and some twice."""
    (one, source, asked), (other, more, wanted) = COLUMNS[first], COLUMNS[second]
    kept = [(source[i % len(source)], more[(i * 5) % len(more)]) for i in range(60)]
    rows = [(a, b) for a in asked for b in wanted]
    given = [pa.array([k[0] for k in kept], one), pa.array([k[1] for k in kept], other)]
    table = [pa.array([r[0] for r in rows], one), pa.array([r[1] for r in rows], other)]
    stored = [list(zip(*(c.to_pylist() for c in side), strict=True)) for side in (given, table)]
    assert pairs(given, table) == compared(*stored)


def test_three_columns_are_a_key_as_well() -> None:
    source = [(a, b, c) for c in "xy" for b in (3, 1) for a in (9, None, 7)]
    rows = [(a, b, c) for a in (7, 8, 9, None) for b in (1, 2, 3) for c in "xyz"]
    types = (pa.int64(), pa.int16(), pa.string())
    sides = [[pa.array([r[i] for r in side], t) for i, t in enumerate(types)] for side in (source, rows)]
    assert pairs(*sides) == compared(source, rows)


@pytest.mark.parametrize("t", [pa.int64(), pa.string(), pa.float64()])
@pytest.mark.parametrize("source", [[], [None, None]])
def test_a_source_without_any_key_meets_nothing(t: pa.DataType, source: list[None]) -> None:
    kept = pa.array(source, t)
    rows = pa.array([None, 1, 0], pa.int64()).cast(t)
    assert pairs([kept], [rows]) == []
    assert pairs([kept, kept], [rows, rows]) == []


def test_a_source_may_be_asked_again_and_again() -> None:
    join = KeyJoin([pa.array([2, 1, 2])], 3)
    assert [places.tolist() for places in join.pairs([pa.array([2, 3])], 2)] == [[0, 0], [0, 2]]
    assert [places.tolist() for places in join.pairs([pa.array([], pa.int64())], 0)] == [[], []]
    assert [places.tolist() for places in join.pairs([pa.array([3, 1])], 2)] == [[1], [1]]
