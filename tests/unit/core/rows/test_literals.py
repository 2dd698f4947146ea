"""Tests the literals that users write, and the conversion of values from and to Arrow."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.dates import FarDate
from lakelatch.core.rows.literals import coerce_literal
from lakelatch.core.rows.types import AtomicType, DataType, decimal, string, timestamp, varbinary
from lakelatch.core.rows.values import arrow_scalar_value, column_values, order_key, to_arrow_array, to_arrow_scalar

INT, BIGINT, DATE, TIME = AtomicType("INT"), AtomicType("BIGINT"), AtomicType("DATE"), AtomicType("TIME")
FLOAT, DOUBLE, BOOLEAN = AtomicType("FLOAT"), AtomicType("DOUBLE"), AtomicType("BOOLEAN")
LTZ = timestamp(6, local_zone=True)
NOON = 1_720_180_800_000_000_000  # 2024-07-05T12:00 UTC


@pytest.mark.parametrize(
    ("literal", "data_type", "value"),
    [
        (None, INT, None),
        (pd.NA, INT, None),
        (pd.NaT, timestamp(6), None),
        (5, INT, 5),
        (np.int64(5), INT, 5),
        ("5", INT, 5),
        (5.0, INT, 5),
        (Decimal("5.00"), INT, 5),
        (5, DOUBLE, 5.0),
        (Decimal("0.1"), DOUBLE, 0.1),
        ("NaN", DOUBLE, math.nan),
        (0.1, FLOAT, float(np.float32(0.1))),
        ("1.5", decimal(10, 2), Decimal("1.50")),
        (0.1, decimal(10, 2), Decimal("0.10")),
        (7, decimal(38, 10), Decimal("7.0000000000")),
        (True, BOOLEAN, True),
        (np.bool_(False), BOOLEAN, False),
        ("TRUE", BOOLEAN, True),
        ("x", string(), "x"),
        (b"\xff", varbinary(), b"\xff"),
        (bytearray(b"ab"), varbinary(), b"ab"),
        ("2024-07-05", DATE, dt.date(2024, 7, 5)),
        (dt.date(1, 1, 1), DATE, dt.date(1, 1, 1)),
        (dt.datetime(2024, 7, 5), DATE, dt.date(2024, 7, 5)),
        (np.datetime64("2024-07-05"), DATE, dt.date(2024, 7, 5)),
        (pd.Timestamp("2024-07-05"), DATE, dt.date(2024, 7, 5)),
        ("12:34", TIME, dt.time(12, 34)),
        ("12:34:56.789", TIME, dt.time(12, 34, 56, 789000)),
        ("2024-07-05", timestamp(6), NOON - 43_200 * 10**9),
        ("2024-07-05T12:00", timestamp(6), NOON),
        ("2024-07-05 12:00:00.123456789", timestamp(9), NOON + 123_456_789),
        ("9999-12-31 23:59:59.999999999", timestamp(9), 253_402_300_799_999_999_999),
        ("0001-01-01", timestamp(3), -62_135_596_800_000_000_000),
        ("0000-12-30", DATE, FarDate(-719_164)),
        ("+10000-01-01", DATE, FarDate(2_932_897)),
        ("10000-01-01", DATE, FarDate(2_932_897)),
        ("0000-12-30 00:00:01", timestamp(3), (-719_164 * 86_400 + 1) * 10**9),
        ("-0001-03-04", timestamp(3), -719_831 * 86_400 * 10**9),
        ("2024-07-05T12:00:00Z", LTZ, NOON),
        ("2024-07-05T14:00:00+02:00", LTZ, NOON),
        (pa.scalar(NOON // 1000, pa.timestamp("us", "Asia/Tokyo")), LTZ, NOON),
        (dt.datetime(2024, 7, 5, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))), LTZ, NOON),
        (dt.date(2024, 7, 5), timestamp(6), NOON - 43_200 * 10**9),
        (np.datetime64("2024-07-05T12:00:00.000000001"), timestamp(9), NOON + 1),
        (pd.Timestamp("2024-07-05T12:00:00.000000001"), timestamp(9), NOON + 1),
        (pa.scalar(NOON + 1, pa.timestamp("ns")), timestamp(9), NOON + 1),
    ],
)
def test_literals_that_fit(literal: Any, data_type: DataType, value: Any) -> None:
    """G4: A filter means exactly what the user wrote, to the last digit; coercing twice changes nothing."""
    once = coerce_literal(literal, data_type, "column 'c'")
    assert repr(once) == repr(value)
    assert repr(coerce_literal(once, data_type, "column 'c'")) == repr(value)


@pytest.mark.parametrize(
    ("literal", "data_type"),
    [
        (True, INT),
        (2**31, INT),
        (1.5, INT),
        ("five", INT),
        (math.inf, BIGINT),
        (True, DOUBLE),
        (1e300, FLOAT),
        ("1.234", decimal(10, 2)),
        (10**8, decimal(10, 2)),
        (math.nan, decimal(10, 2)),
        (1, BOOLEAN),
        (5, string()),
        ("\ud800", string()),
        ("text", varbinary()),
        ("2024-7-5", DATE),
        ("2024-02-30", DATE),
        (dt.datetime(2024, 7, 5, 1), DATE),
        ("25:00", TIME),
        ("12:34:56.7891", TIME),
        (dt.time(1, 2, 3, 4), TIME),
        (NOON, timestamp(6)),
        ("2024-07-05T12:00Z", timestamp(6)),
        (dt.datetime(2024, 7, 5, tzinfo=dt.timezone.utc), timestamp(6)),
        ("yesterday", timestamp(6)),
        (b"x", AtomicType("BLOB")),
    ],
)
def test_literals_that_do_not_fit(literal: Any, data_type: DataType) -> None:
    """G4: An error names the column; there is never a silent guess."""
    with pytest.raises(InvalidArgument, match="column 'c'"):
        coerce_literal(literal, data_type, "column 'c'")


@pytest.mark.parametrize(
    "literal",
    [
        "2024-07-05",
        "2024-07-05 12:00:00.5",
        dt.date(2024, 7, 5),
        dt.datetime(2024, 7, 5, 12),
        pd.Timestamp("2024-07-05"),
        np.datetime64("2024-07-05T12:00"),
        pa.scalar(NOON, pa.timestamp("ns")),
    ],
)
def test_a_time_without_a_zone_names_no_point_in_time(literal: Any) -> None:
    """G4: It is not taken for UTC: the error shows how to write it, and what it shows is accepted."""
    with pytest.raises(InvalidArgument, match=r"column 'c'.*has no zone") as caught:
        coerce_literal(literal, LTZ, "column 'c'")
    for way in re.findall("text such as '(.*?)'|text '(.*?)'|offset '(.*?)'", caught.value.next_step):
        coerce_literal(next(filter(None, way)), LTZ, "column 'c'")
    assert "zone" in str(caught.value) and ("Z'" in caught.value.next_step)
    assert coerce_literal(literal, timestamp(9), "column 'c'") is not None, "a column without a zone needs none"


NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("literal", "utc"),
    [
        ("2024-07-05 08:00:00", "2024-07-05 12:00:00"),
        ("2024-07-05 12:00:00Z", "2024-07-05 12:00:00"),
        (dt.date(2024, 1, 5), "2024-01-05 05:00:00"),
        (
            "2024-03-10 02:30:00.000000001",
            "2024-03-10 07:30:00.000000001",
        ),  # skipped: Spark moves it forward by an hour
        ("2024-11-03 01:30:00", "2024-11-03 05:30:00"),  # twice: Spark means the first
        ("1880-01-01", "1880-01-01 04:56:02"),  # before there were zones
        ("0001-01-01", "0001-01-01 04:56:02"),
        ("9999-07-01", "9999-07-01 04:00:00"),
    ],
)
def test_text_without_a_zone_is_of_the_zone_that_the_caller_names(literal: Any, utc: str) -> None:
    """G4: Gaps and overlaps of a zone are resolved as Spark resolves them, to the last digit."""
    found = coerce_literal(literal, timestamp(9, local_zone=True), "column 'c'", NEW_YORK)
    assert found == coerce_literal(utc, timestamp(9), "column 'c'")
    assert coerce_literal(found, LTZ, "column 'c'", ZoneInfo("Asia/Tokyo")) == found, "coercing twice changes nothing"


def test_an_object_without_a_zone_is_refused_though_a_zone_is_named() -> None:
    """G4: PySpark takes a datetime without a zone for one of Python's own zone, and text for one of the session's."""
    for literal in (dt.datetime(2024, 7, 5), np.datetime64("2024-07-05"), pa.scalar(NOON, pa.timestamp("ns"))):
        with pytest.raises(InvalidArgument, match="has no zone"):
            coerce_literal(literal, LTZ, "column 'c'", NEW_YORK)


def test_an_instant_does_not_fit_a_column_without_a_zone() -> None:
    for literal in (pa.scalar(NOON, pa.timestamp("ns", "UTC")), coerce_literal("2024-07-05Z", LTZ, "column 'c'")):
        with pytest.raises(InvalidArgument, match="the column has no time zone"):
            coerce_literal(literal, timestamp(9), "column 'c'")
        with pytest.raises(InvalidArgument, match="a date is needed"):
            coerce_literal(literal, DATE, "column 'c'")


@pytest.mark.parametrize(
    ("arrow", "data_type", "values"),
    [
        (pa.array([1, None, -(2**63)], pa.timestamp("ns")), timestamp(9), [1, None, -(2**63)]),
        (pa.array([253402300799999], pa.timestamp("ms", "UTC")), LTZ, [253_402_300_799_999_000_000]),
        (pa.array([0, 86_399_999, None], pa.time32("ms")), TIME, [dt.time(), dt.time(23, 59, 59, 999000), None]),
        (pa.array([45_296_789], pa.int32()), TIME, [dt.time(12, 34, 56, 789000)]),
        (pa.array([dt.date(1, 1, 1), None]), DATE, [dt.date(1, 1, 1), None]),
        (pa.chunked_array([["a"], ["b", None]]), string(), ["a", "b", None]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), string(), ["x", "y", "x"]),
        (pa.array(["x"], pa.string_view()), string(), ["x"]),
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), decimal(10, 2), [Decimal("1.50")]),
    ],
)
def test_columns_as_values(arrow: Any, data_type: DataType, values: list[Any]) -> None:
    """G8: The conversion from Arrow to the values of the format loses nothing."""
    assert column_values(arrow, data_type) == values
    assert arrow_scalar_value(arrow[0], data_type) == values[0]


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        ([1_000_000, None], timestamp(3)),
        ([1, None], timestamp(9)),
        ([dt.time(1, 2, 3, 4000)], TIME),
        ([dt.date(9999, 12, 31)], DATE),
        ([FarDate(-719_164), None, FarDate(2**31 - 1), dt.date(1970, 1, 1)], DATE),
        ([Decimal(-99999999999999999999999999999999999999)], decimal(38, 0)),
        ([0.5, None], FLOAT),
        ([b"", None], varbinary()),
    ],
)
def test_values_as_columns_and_back(values: list[Any], data_type: DataType) -> None:
    """G8: Partition columns are filled with exactly the value of the partition."""
    array = to_arrow_array(values, data_type, to_arrow(data_type))
    assert array.type == to_arrow(data_type)
    assert column_values(array, data_type) == values
    assert to_arrow_scalar(values[0], data_type, to_arrow(data_type)).equals(array[0])


def test_values_that_arrow_cannot_hold_are_an_error() -> None:
    """G4: A timestamp after 2262 in nanoseconds is rejected and does not wrap around."""
    with pytest.raises(Unsupported, match="timestamp"):
        to_arrow_scalar(253_402_300_799_999_999_999, timestamp(9), pa.timestamp("ns"))
    with pytest.raises(InvalidArgument, match="digits"):
        to_arrow_scalar(1, timestamp(9), pa.timestamp("us"))
    with pytest.raises(InvalidArgument, match="TIME"):
        column_values(pa.array([1], pa.time64("us")), TIME)


def test_the_order_of_floats_is_that_of_java() -> None:
    """G8: NaN is the largest value and equals itself, and -0.0 is below 0.0."""
    ordered = [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, math.nan]
    keys = [order_key(v) for v in ordered]
    assert keys == sorted(keys) and len(set(keys)) == len(keys)
    assert order_key(float("nan")) == order_key(math.nan)


@pytest.mark.parametrize(
    ("array", "data_type"),
    [
        (pa.array([7], pa.int8()), AtomicType("TINYINT")),
        (pa.array([1 << 40]), BIGINT),
        (pa.array([True]), BOOLEAN),
        (pa.array([-0.0], pa.float32()), FLOAT),
        (pa.array([Decimal("1.50")], pa.decimal128(38, 2)), decimal(38, 2)),
        (pa.array(["x"]).dictionary_encode(), string()),
        (pa.array([b"x"]), varbinary(5)),
        (pa.array([-800_000], pa.date32()), DATE),
        (pa.array([3_000_000], pa.int32()), DATE),
        (pa.array([1000], pa.time32("ms")), TIME),
        (pa.array([1000], pa.int32()), TIME),
        (pa.array([1_234_567_891], pa.timestamp("ns")), timestamp(9)),
        (pa.array([5], pa.timestamp("ms", "UTC")), LTZ),
    ],
)
def test_one_scalar_has_the_form_of_a_column(array: pa.Array, data_type: DataType) -> None:
    (value,) = column_values(array, data_type)
    found = arrow_scalar_value(array[0], data_type)
    assert (repr(found), type(found)) == (repr(value), type(value))
