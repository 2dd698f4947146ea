"""Expressions give what SQL gives: DuckDB computes the same values, and refuses what we refuse."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

import duckdb
import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.binding import condition_of
from lakelatch.core.expressions.evaluate import condition, evaluate, to_arrow_mask, type_of
from lakelatch.core.expressions.names import Names
from lakelatch.core.expressions.sql import parse_expression
from lakelatch.core.expressions.times import instant_of, local_of
from lakelatch.core.rows.literals import coerce_literal
from lakelatch.core.rows.types import AtomicType, Field, string, timestamp

ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, -7], pa.int32()),
        "b": pa.array([0, 2, 3, None], pa.int64()),
        "f": pa.array([1.5, float("nan"), None, -0.0]),
        "s": ["x", None, "zy", "%_"],
        "d": pa.array([0, 18262, None, -1], pa.int32()).cast(pa.date32()),
        "m": pa.array([Decimal("1.25"), Decimal("-0.35"), None, Decimal("9999.99")], pa.decimal128(6, 2)),
        "x": [True, False, None, True],
        "t": pa.array([0, 1_500_000, None, 1_200_100], pa.timestamp("us")),
    }
)
NAMES = Names({"target": ROWS.schema.names}, {"t": "target"})

SAME_IN_DUCKDB = """
    a + 1 | a - b * 2 | -a | - -3 | a / nullif(b, 0) | case when b <> 0 then a / b else 0 end | b <> 0 and a / b > 0
    s || '!' || a | coalesce(a, b * 2, 7) | m + a | m * 2 - m | d + 1 | d - DATE '2020-01-01' | d = '2020-01-01' | f > 1
    a in (1, 2, null) | a not in (1, 2) | b between 1 and 2 | s like '%y' | s is null or a is not null | not x | x and b > 1
    x or null | a = 1 or b = 3 and x | upper(s) | length(s) | substring(s, 1, 1) | case a when 1 then 'one' when 2 then 'two' end
    cast(cast(t as timestamp) as string) | cast(t as string) like '%.5' | x is true | x is not false | b > 1 is true
    greatest(a, b) | least(a, b) | cast('12' as int) + a | abs(a) | a % 2 | round(m, 1) | f = f | nullif(a, 1)
    case when a > 0 then m else 0 end | year(d) | t.a + t.b | 1.5 + a | cast(m as int) is null | d >= '1970-01-01'
"""


def _value(text: str, rows: pa.Table = ROWS) -> list[object]:
    bound = NAMES.bound(parse_expression(text), "test")
    found = evaluate(bound, {"target": rows.combine_chunks().to_batches()[0]}, rows.num_rows, "test")
    return pa.repeat(found, rows.num_rows).to_pylist() if isinstance(found, pa.Scalar) else found.to_pylist()


@pytest.mark.parametrize("text", [t.strip() for line in SAME_IN_DUCKDB.strip().splitlines() for t in line.split(" | ")])
def test_an_expression_has_the_value_that_duckdb_gives(text: str) -> None:
    t = ROWS
    expected = duckdb.sql(f"SELECT {text} FROM t").fetchall()
    found = _value(text)
    assert [str(v) if v != v else v for v in found] == [str(v) if v != v else v for (v,) in expected], t.num_rows


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a +", "a value is expected"),
        ("a = = 1", "a value is expected"),
        ("1 2", "an operator or the end"),
        ("a / 0", "division by zero"),
        ("9223372036854775807 + a", "overflow"),
        ("s + 1", "does not fit"),
        ("nothing(a)", "no function 'nothing'"),
        ("zz + 1", "no column 'zz'"),
        ("m / (a - a)", "division by zero"),
        ("a = 'x'", "'x' is no int32"),
        ("case a when 1 then 'one' else d end", "'one' is no date32"),
        ("f || s", "does not fit"),
        ("(" * 80 + "a" + ")" * 80, "nested brackets"),
        ("s = d", "does not fit"),
        ("s like 5", "LIKE needs a pattern in quotes"),
    ],
)
def test_an_expression_that_has_no_value_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        _value(text)


AS_IN_SPARK = pa.table(
    {
        "m": pa.array([Decimal("-2.55"), Decimal("2.50"), None], pa.decimal128(10, 2)),
        "w": pa.array([Decimal("12345678901234567890.123456789012345678"), Decimal(1), None], pa.decimal128(38, 18)),
        "f": pa.array([-2.5, float("nan"), None]),
        "n": pa.array([Decimal("1.5"), Decimal(7), None], pa.decimal128(38, 18)),
        "g": pa.array([-2.5, 0.1, None]),
        "i": pa.array([3, 4, None], pa.int32()),
        "s": [" Straße ", "ΟΔΟΣ", None],
        "t": pa.array([0, 1_600_000_000_000_000, None], pa.timestamp("us", "UTC")),
    }
)
IN_2001 = datetime(2001, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("cast(m as double)", [-2.55, 2.5, None]),
        ("cast(m as float)", [-2.549999952316284, 2.5, None]),
        ("f * m", [6.375, float("nan"), None]),
        ("cast(m as double) = -2.55e0", [True, False, None]),
        ("m / 3", [Decimal("-0.850000"), Decimal("0.833333"), None]),
        ("m / 7.25", [Decimal("-0.351724"), Decimal("0.344828"), None]),
        ("2 / m", [Decimal("-0.78431372549"), Decimal("0.80000000000"), None]),
        ("m / -8", [Decimal("0.318750"), Decimal("-0.312500"), None]),
        ("cast(2 as decimal(1, 0)) / 3", [Decimal("0.666667")] * 3),
        ("w / 3", [Decimal("4115226300411522630.041152263004115226"), Decimal("0.333333333333333333"), None]),
        ("n / n", [Decimal("1.000000")] * 2 + [None]),
        ("m / n", [Decimal("-1.700000000000"), Decimal("0.357142857143"), None]),
        ("cast(s as string)", [" Straße ", "ΟΔΟΣ", None]),
        ("cast(s as varchar(20))", [" Straße ", "ΟΔΟΣ", None]),
        ("cast(s as binary)", [" Straße ".encode(), "ΟΔΟΣ".encode(), None]),
        ("cast(' 12 ' as int)", [12] * 3),
        ("cast(i as decimal(3, 1))", [Decimal("3.0"), Decimal("4.0"), None]),
        ("cast(g * 0.05e0 as decimal(4, 2))", [Decimal("-0.13"), Decimal("0.01"), None]),
        ("cast(2.675e0 as decimal(12, 2))", [Decimal("2.68")] * 3),
        ("cast(1.5e-300 as decimal(12, 2))", [Decimal("0.00")] * 3),
        ("greatest(i, f)", [3.0, float("nan"), None]),
        ("9007199254740993 = 9007199254740992e0", [True] * 3),
        ("least(i, f)", [-2.5, 4.0, None]),
        (
            "greatest(t, TIMESTAMP '2001-01-01 00:00:00Z')",
            [IN_2001, datetime(2020, 9, 13, 12, 26, 40, tzinfo=timezone.utc), IN_2001],
        ),
        ("least(t, TIMESTAMP '2001-01-01 00:00:00Z')", [datetime(1970, 1, 1, tzinfo=timezone.utc), IN_2001, IN_2001]),
        ("upper(s)", [" STRASSE ", "ΟΔΟΣ", None]),
        ("lower(s)", [" straße ", "οδος", None]),
        ("upper('ß')", ["SS"] * 3),
    ],
)
def test_an_expression_has_the_value_that_spark_gives(text: str, values: list[object]) -> None:
    """Where Arrow's own functions give another value."""
    bound = Names({"target": AS_IN_SPARK.schema.names}, {"t": "target"}).bound(parse_expression(text), "test")
    found = evaluate(bound, {"target": AS_IN_SPARK.to_batches()[0]}, 3, "test")
    given = pa.repeat(found, 3).to_pylist() if isinstance(found, pa.Scalar) else found.to_pylist()
    assert [str(v) for v in given] == [str(v) for v in values]


def test_types_are_known_without_rows() -> None:
    schemas = {"target": ROWS.schema}
    bound = NAMES.bound(parse_expression("case when a > 1 then m / 3 else a end"), "test")
    assert pa.types.is_decimal(type_of(bound, schemas))
    with pytest.raises(InvalidArgument, match="does not fit"):
        type_of(NAMES.bound(parse_expression("s > 1 + d"), "test"), schemas)


def test_a_name_that_two_tables_have_is_refused() -> None:
    names = Names({"target": ["id", "a"], "source": ["id"]}, {"t": "target", "s": "source"})
    with pytest.raises(InvalidArgument, match=r"'id' is ambiguous \(write t.id or s.id\)"):
        names.bound(parse_expression("id = 1"), "on")
    with pytest.raises(InvalidArgument, match="column of the target, which has no row here"):
        names.bound(parse_expression("t.a"), "values", "source")
    assert str(names.bound(parse_expression("a = s.id"), "on").arguments[1]) == "source.id"  # type: ignore[union-attr]


FIELDS = [
    Field(0, "a", AtomicType("INT")),
    Field(1, "b", AtomicType("BIGINT")),
    Field(2, "s", string()),
    Field(3, "x", AtomicType("BOOLEAN")),
]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("1 < a", "a > 1"),
        ("t.a = 1 and not (s like 'x%' or b in (1, 2))", "a = 1 AND NOT (s LIKE 'x%' OR b IN (1, 2))"),
        ("x", "x = TRUE"),
        ("a + 1 = 2 or not x", "(a + 1) = 2 OR NOT (x = TRUE)"),
        ("a = b and a > 1.5", "a = b AND a > 1"),
        ("case when 1.5 < a then b else -b end > length(s)", "CASE WHEN a > 1 THEN b ELSE - b END > LENGTH(s)"),
        ("true and a is not null", "a IS NOT NULL"),
        ("cast(a as bigint) <=> b", "CAST(a AS BIGINT) <=> b"),
    ],
)
def test_comparisons_with_values_are_found_wherever_they_stand(text: str, bound: str) -> None:
    """G4: What can be compared with statistics is a `Comparison`, and the printed condition can be read again."""
    found = condition_of(text, FIELDS, names=NAMES)
    assert str(found) == bound
    assert condition_of(bound, FIELDS) == found == condition_of(found, FIELDS)


def test_an_expression_travels_to_another_machine() -> None:
    bound = NAMES.bound(parse_expression("case when a > 1 then cast(b as string) end"), "test")
    assert pickle.loads(pickle.dumps(bound)) == bound


def test_what_is_unknown_is_not_true() -> None:
    bound = NAMES.bound(parse_expression("a > 1"), "test")
    assert condition(bound, {"target": ROWS.to_batches()[0]}, 4).tolist() == [False, True, False, False]


ZONED = [Field(0, "z", timestamp(6, local_zone=True)), Field(1, "t", timestamp(6)), Field(2, "d", AtomicType("DATE"))]
NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize("zone", [NEW_YORK, ZoneInfo("Asia/Kolkata"), timezone(timedelta(hours=-3)), ZoneInfo("UTC")])
@pytest.mark.parametrize(
    "text",
    [
        "z >= DATE '2024-03-10'",
        "z >= DATE '2024-03-10' OR year(d) = 1",
        "CAST(z AS DATE) = DATE '2024-03-10'",
        "CAST(z AS TIMESTAMP) < TIMESTAMP '2024-03-10 03:00:00'",
        "z = t",
        "z > d",
        "day(z) = 9 AND month(z) = 3",
        "CAST(z AS STRING) LIKE '2024-03-1%'",
        "coalesce(z, t) <> t",
        "CASE WHEN z = t THEN z END = t",
    ],
)
def test_a_time_without_a_zone_is_one_of_the_zone_that_is_given(zone: tzinfo, text: str) -> None:
    """As in SQL with that zone, where the condition is pushed down and where it is computed. Without a zone it is refused."""
    moments = [datetime(2024, 3, 9, hour) for hour in range(24)] + [
        datetime(2024, 3, 10, hour, 30) for hour in range(24)
    ]
    rows = pa.table(
        {
            "z": pa.array(moments, pa.timestamp("us", "UTC")),
            "t": pa.array([m - timedelta(hours=5) for m in moments], pa.timestamp("us")),
            "d": pa.array([m.date() for m in moments], pa.date32()),
        }
    )
    con = duckdb.connect()
    con.execute(f"SET TimeZone = '{'Etc/GMT+3' if isinstance(zone, timezone) else zone}'")
    con.register("rows", rows)
    expected = con.sql(f"SELECT coalesce({text}, false) FROM rows").fetchall()
    bound = condition_of(text, ZONED, zone)
    assert bound is not None
    assert to_arrow_mask(pickle.loads(pickle.dumps(bound)), rows).to_pylist() == [kept for (kept,) in expected]
    with pytest.raises(InvalidArgument, match="zone"):
        condition_of(text, ZONED)


BEFORE, MIDNIGHT = datetime(1969, 12, 31, 23, 59, 59, 500_000), datetime(2024, 1, 1, 5)
"""The second one is midnight in New York."""


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("CAST(z AS BIGINT) = -1", [True, False]),
        ("CAST(z AS BIGINT) = 1704085200", [False, True]),
        ("CAST(z AS DOUBLE) = -0.5e0", [True, False]),
        ("CAST(z AS DECIMAL(12, 1)) = -0.5", [True, False]),
        ("CAST(z AS DECIMAL(12, 0)) = -1", [True, False]),
        ("z >= CAST(1704085200 AS TIMESTAMP_LTZ)", [False, True]),
        ("z >= CAST(n AS TIMESTAMP_LTZ)", [False, True]),
        ("z = CAST(-0.5000001 AS TIMESTAMP_LTZ)", [True, False]),
        ("z = CAST(-0.5e0 AS TIMESTAMP_LTZ(3))", [True, False]),
        ("z >= CAST('2024-01-01' AS TIMESTAMP_LTZ)", [False, True]),
        ("z = CAST('2024-01-01T05:00:00Z' AS TIMESTAMP_LTZ)", [False, True]),
        ("z = CAST('2024-01-01 07:00:00+02:00' AS TIMESTAMP_LTZ)", [False, True]),
        ("z = CAST(s AS TIMESTAMP_LTZ)", [True, True]),
        ("t = CAST('2024-01-01' AS TIMESTAMP_NTZ)", [False, True]),
        ("CAST(NULL AS TIMESTAMP_LTZ) = z", [False, False]),
    ],
)
def test_a_cast_of_a_point_in_time_is_as_in_spark(text: str, kept: list[bool]) -> None:
    """A number is seconds, and a text with a zone needs no other one. The bits of one type were taken for another."""
    fields = [*ZONED, Field(3, "s", AtomicType("VARCHAR", length=99)), Field(4, "n", AtomicType("INT"))]
    rows = pa.table(
        {
            "z": pa.array([BEFORE, MIDNIGHT], pa.timestamp("us", "UTC")),
            "t": pa.array([BEFORE, datetime(2024, 1, 1)], pa.timestamp("us")),
            "s": [" 1970-01-01 00:59:59.5+01", "2024-01-01 00:00:00"],
            "n": pa.array([1704085200] * 2, pa.int32()),
        }
    )
    bound = condition_of(text, fields, NEW_YORK)
    assert bound is not None
    assert to_arrow_mask(bound, rows).to_pylist() == kept


@pytest.mark.parametrize(
    "text",
    [
        "CAST(d AS INT) = 1",
        "CAST(1 AS DATE) = d",
        "CAST(t AS BIGINT) = 1",
        "CAST(1 AS TIMESTAMP) = t",
        "CAST(TRUE AS TIMESTAMP_LTZ) = z",
        "CAST(z AS BOOLEAN)",
        "CAST(1 AS TIME) IS NULL",
    ],
)
def test_a_cast_that_has_no_meaning_is_refused(text: str) -> None:
    moment = {"z": pa.array([MIDNIGHT], pa.timestamp("us", "UTC")), "t": pa.array([MIDNIGHT], pa.timestamp("us"))}
    rows = pa.table(moment | {"d": pa.array([1], pa.date32())})
    with pytest.raises(InvalidArgument, match=r"cannot be cast to .*seconds since 1970"):
        bound = condition_of(text, ZONED, NEW_YORK)
        assert bound is not None
        to_arrow_mask(bound, rows)


def test_a_time_that_the_clock_skips_is_moved_forward() -> None:
    """02:30 does not exist in New York on that day, and 01:30 exists twice on another; literals and columns mean the same."""
    times = ["2024-03-10 02:30:00", "2024-11-03 01:30:00", "2024-07-05 12:00:00"]
    rows = pa.table({"t": pa.array([datetime.fromisoformat(text) for text in times], pa.timestamp("us"))})
    found = instant_of(rows["t"].combine_chunks(), NEW_YORK)
    literals = [coerce_literal(text, ZONED[0].type, "z", NEW_YORK) for text in times]
    assert found.cast(pa.int64()).to_pylist() == [int(literal) // 1000 for literal in literals]
    back = local_of(found, NEW_YORK).to_pylist()
    assert [str(moment) for moment in back] == ["2024-03-10 03:30:00", *times[1:]]


def test_a_condition_of_thousands_of_operators_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="too deep"):
        condition_of(" + ".join(["a"] * 3000) + " > 1", FIELDS)
    many = condition_of(" OR ".join(["a = 1"] * 3000), FIELDS)
    assert many is not None and to_arrow_mask(many, ROWS).to_pylist() == [True, False, False, False]
