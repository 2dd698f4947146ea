"""Tests predicates: the tree, binding, and evaluation on Arrow columns and on single rows."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.binding import bind
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.evaluate import to_arrow_mask
from lakelatch.core.expressions.tree import And, Comparison, Not, Or, columns_of
from lakelatch.core.rows.arrow import arrow_schema
from lakelatch.core.rows.types import (
    ArrayType,
    AtomicType,
    Field,
    decimal,
    parse_atomic,
    string,
    timestamp,
    varbinary,
)
from lakelatch.core.rows.values import column_values, sql_key
from lakelatch.tests.golden_filters import golden_folder, golden_predicate
from lakelatch.tests.predicates import FIELDS, evaluate, predicates, tables, values_of
from lakelatch.tests.values import decode_rows, encode_rows, sort_rows

INT = AtomicType("INT")


def keep(predicate: Any, values: list[Any], data_type: Any, arrow: Any = None) -> list[Any]:
    """The values of column `c` that a predicate keeps, after a check that the Arrow mask and `evaluate` agree."""
    field = [Field(0, "c", data_type)]
    array = arrow if arrow is not None else pa.array(values, arrow_schema(field).field(0).type)
    bound = bind(predicate, field)
    assert bind(bound, field) == bound
    mask = to_arrow_mask(bound, pa.table({"c": array})).to_pylist()
    assert mask == [evaluate(bound, {"c": v}) is True for v in column_values(array, data_type)]
    return [v for v, kept in zip(values, mask, strict=True) if kept]


# -------------------------------------------------------------------------------------------------------------- trees


def test_trees_are_values() -> None:
    """G4: Predicates are frozen, hashable, compared by value, and can be pickled for a worker."""
    one = (col("a") == 1) & col("b").is_in(["x", "y"]) & ~col("c").is_null()
    two = And((Comparison("=", "a", (1,)), Comparison("in", "b", ("x", "y")), Not(Comparison("is_null", "c"))))
    assert one == two and hash(one) == hash(two) and pickle.loads(pickle.dumps(one)) == two
    assert (col("a") > 1) | (col("b") < 2) | (col("c") != 3) == Or(
        (Comparison(">", "a", (1,)), Comparison("<", "b", (2,)), Comparison("!=", "c", (3,)))
    )
    assert columns_of(one) == {"a", "b", "c"}
    assert str(one) == "a = 1 AND b IN ('x', 'y') AND NOT (c IS NULL)"


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda: (col("a") == 1) and (col("b") == 2), "& | ~"),
        (lambda: 1 < col("a") < 5, "& | ~"),
        (lambda: not col("a"), "compare it"),
        (lambda: (col("a") == 1) & col("b"), "put each comparison in brackets"),
        (lambda: (col("a") == 1) & True, "put each comparison in brackets"),
        (lambda: col("a") == None, "is_null"),  # noqa: E711
        (lambda: col("a").starts_with(col("b")), "another column can only be compared with ="),
        (lambda: col("a") == (col("b") == 1), "not with a condition"),
        (lambda: col("a").is_in("abc"), "list of values"),
    ],
)
def test_errors_of_misuse_suggest_a_fix(mistake: Any, message: str) -> None:
    """G4: Python's `and`, chained comparisons and None never give a silently wrong filter."""
    with pytest.raises(InvalidArgument) as caught:
        mistake()
    assert message in str(caught.value)


# ------------------------------------------------------------------------------------------------------------ binding


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (col("cariier") == "AA", "did you mean 'carrier'"),
        (col("month") == "May", "column 'month'"),
        (col("carrier") == 5, "column 'carrier'"),
        (col("month").starts_with("1"), "needs a column of text"),
        (col("tags") == 1, "cannot be compared"),
        (Comparison("~", "month", (1,)), "unknown operator"),
    ],
)
def test_binding_rejects_invalid_predicates(predicate: Any, message: str) -> None:
    """G4: The error for an invalid predicate names the column."""
    fields = [Field(0, "month", INT), Field(1, "carrier", string()), Field(2, "tags", ArrayType(INT))]
    with pytest.raises(InvalidArgument, match=message):
        bind(predicate, fields)
    assert bind(col("tags").is_null(), fields) == col("tags").is_null()


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (col("c") > 1.5, [2, 127]),
        (col("c") >= 1.5, [2, 127]),
        (col("c") < 1.5, [-128, 0, 1]),
        (col("c") <= -0.5, [-128]),
        (col("c") == 1.5, []),
        (col("c") != 1.5, [-128, 0, 1, 2, 127]),
        (~(col("c") == 1.5), [-128, 0, 1, 2, 127]),
        (col("c") < 1000, [-128, 0, 1, 2, 127]),
        (col("c") > 1000, []),
        (col("c") >= -1e300, [-128, 0, 1, 2, 127]),
        (col("c") < -128.5, []),
        (~(col("c") < 127.5), []),
        (col("c").is_in([1, 1.5, 1000, "2"]), [1, 2]),
        (~col("c").is_in([1.5]), [-128, 0, 1, 2, 127]),
        (col("c").between(0, Decimal("1.99")), [0, 1]),
    ],
)
def test_numbers_that_are_not_values_of_the_column(predicate: Any, kept: list[int]) -> None:
    """G4: A literal that is not a value of the column can still be compared with it; null is never kept."""
    assert keep(predicate, [-128, 0, 1, 2, 127, None], AtomicType("TINYINT")) == kept
    exact = [None if v is None else Decimal(v) for v in (-128, 0, 1, 2, 127, None)]
    assert keep(predicate, exact, decimal(3, 0)) == kept


def test_decimals_between_two_steps() -> None:
    """G4: 0.005 lies between 0.00 and 0.01 of a DECIMAL(9, 2)."""
    values = [Decimal("-0.01"), Decimal("0.00"), Decimal("0.01")]
    assert keep(col("c") > 0.005, values, decimal(9, 2)) == values[2:]
    assert keep(col("c") <= "-0.005", values, decimal(9, 2)) == values[:1]


# --------------------------------------------------------------------------------------------------------- evaluation


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (col("c") == 1, [1]),
        (~(col("c") == 1), [2]),
        (~~(col("c") == 1), [1]),
        (col("c").is_null(), [None]),
        (~col("c").is_null(), [1, 2]),
        (Comparison("=", "c", (None,)), []),
        (~Comparison("=", "c", (None,)), []),
        (Comparison("in", "c", (1, None)), [1]),
        (~Comparison("in", "c", (1, None)), []),
        (Comparison("in", "c"), []),
        (~Comparison("in", "c"), [1, 2]),
        ((col("c") == 1) | col("c").is_null(), [1, None]),
        (~((col("c") == 1) | (col("c") > 5)), [2]),
        (~((col("c") == 1) & col("c").is_null()), [1, 2]),
        (~((col("c") == 1) & col("c").is_not_null()), [2, None]),
        (And(()), [1, 2, None]),
        (Or(()), []),
    ],
)
def test_three_valued_logic(predicate: Any, kept: list[Any]) -> None:
    """G4: As in SQL, unknown is not true, and neither is its negation."""
    assert keep(predicate, [1, 2, None], INT) == kept


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_floats_compare_as_in_sql(kind: str) -> None:
    """G4: NaN is the largest value and equals itself, and the two zeros are one value."""
    ordered = [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan]
    array = [*ordered, None]
    field = parse_atomic(kind)
    for literal in ordered:
        first = [sql_key(v) < sql_key(literal) for v in ordered].count(True)
        end = [sql_key(v) <= sql_key(literal) for v in ordered].count(True)
        for op, expected in (
            ("=", ordered[first:end]),
            ("!=", ordered[:first] + ordered[end:]),
            ("<", ordered[:first]),
            ("<=", ordered[:end]),
            (">", ordered[end:]),
            (">=", ordered[first:]),
            ("in", ordered[first:end]),
        ):
            assert repr(keep(Comparison(op, "c", (literal,)), array, field)) == repr(expected), (op, literal)
    assert repr(keep(col("c").is_in([0.0, math.nan]), array, field)) == "[-0.0, 0.0, nan]"


def test_a_float_literal_means_the_nearest_value_of_the_column() -> None:
    """G4: 0.1 finds 0.1 in a FLOAT column."""
    assert len(keep(col("c") == 0.1, [0.1, 0.2], AtomicType("FLOAT"))) == 1


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit(unit: str) -> None:
    """G4: A literal that is finer than the column's unit or out of its range can still be compared."""
    array = pa.array([-1, 0, 1, None], pa.int64()).cast(pa.timestamp(unit))
    values = column_values(array, timestamp(9))
    for text in (
        "1969-12-31T23:59:59.999999999",
        "1970-01-01",
        "1970-01-01T00:00:00.000000001",
        "9999-12-31",
        "0001-01-01",
    ):
        for op in ("=", "!=", "<", "<=", ">", ">="):
            keep(Comparison(op, "c", (text,)), values, timestamp(9), array)
    assert keep(col("c") > "1970-01-01", values, timestamp(9), array) == values[2:3]
    assert keep(col("c").is_in(["1970-01-01", "9999-12-31"]), values, timestamp(9), array) == [0]


@pytest.mark.parametrize(
    ("predicate", "values", "data_type", "kept"),
    [
        (col("c") > "\uffff", ["\uffff", "\U00010000", "a"], string(), ["\U00010000"]),
        (col("c") <= b"\x7f", [b"\x7f", b"\xff", b""], varbinary(), [b"\x7f", b""]),
        (col("c").starts_with("a"), ["a", "ab", "ba", "", None], string(), ["a", "ab"]),
        (col("c").starts_with(""), ["a", "", None], string(), ["a", ""]),
        (col("c").starts_with(b"\xff"), [b"\xff\x00", b"\x00\xff"], varbinary(), [b"\xff\x00"]),
        (col("c").ends_with("a."), ["a.", "ab", "xa."], string(), ["a.", "xa."]),
        (col("c").contains("%"), ["a%b", "ab"], string(), ["a%b"]),
        (col("c").contains(b"\x00"), [b"a\x00b", b"ab"], varbinary(), [b"a\x00b"]),
        (col("c").like("a_c%"), ["abc", "a\ncd", "ac", "xabc"], string(), ["abc", "a\ncd"]),
        (col("c").like(r"a\%b ~#-&"), ["a%b ~#-&", "axb ~#-&"], string(), ["a%b ~#-&"]),
        (col("c").like("漢_"), ["漢字", "漢", "漢🚀"], string(), ["漢字", "漢🚀"]),
        (~col("c").like("a%"), ["a", "b", None], string(), ["b"]),
        (col("c") == True, [True, False, None], AtomicType("BOOLEAN"), [True]),  # noqa: E712
        (col("c") > False, [True, False, None], AtomicType("BOOLEAN"), [True]),
        (
            col("c") < "2024-01-01",
            [dt.date(2023, 12, 31), dt.date(2024, 1, 1)],
            AtomicType("DATE"),
            [dt.date(2023, 12, 31)],
        ),
        (col("c").is_in([dt.date(1, 1, 1)]), [dt.date(1, 1, 1), None], AtomicType("DATE"), [dt.date(1, 1, 1)]),
        (col("c") >= "12:00", [dt.time(11, 59, 59, 999000), dt.time(12)], AtomicType("TIME"), [dt.time(12)]),
        (
            col("c").is_in(["1.50", 7]),
            [Decimal("1.50"), Decimal("7.00"), Decimal("1.51")],
            decimal(38, 2),
            [Decimal("1.50"), Decimal("7.00")],
        ),
    ],
)
def test_types(predicate: Any, values: list[Any], data_type: Any, kept: list[Any]) -> None:
    """G4: Each type has its own order; text is ordered by UTF-8 bytes."""
    assert keep(predicate, values, data_type) == kept


def test_layouts_of_arrow() -> None:
    """G4: Chunks, dictionaries, views, slices and empty tables work like other columns."""
    field = [Field(0, "c", string())]
    bound = bind(col("c").is_in(["a", "c"]) | (col("c") > "x"), field)
    plain = pa.array(["a", "b", None, "c", "z"])
    for array in (plain, plain.dictionary_encode(), plain.cast(pa.string_view()), plain.cast(pa.large_string())):
        table = pa.table({"c": pa.chunked_array([array.slice(0, 2), array.slice(2)])})
        assert to_arrow_mask(bound, table).to_pylist() == [True, False, False, True, True]
        assert to_arrow_mask(bound, table.slice(3)).to_pylist() == [True, True]
        assert to_arrow_mask(bound, table.slice(0, 0)).to_pylist() == []
    with pytest.raises(InvalidArgument, match="no column 'c'"):
        to_arrow_mask(bound, pa.table({"d": [1]}))


@settings(max_examples=200, deadline=None)
@given(tables(), predicates())
def test_columns_and_rows_agree(table: pa.Table, predicate: Any) -> None:
    """G4: The mask agrees with the definition for random trees and types, with nulls, NaN and zeros."""
    bound = bind(predicate, FIELDS)
    assert bind(bound, FIELDS) == bound
    expected = [evaluate(bound, row) is True for row in values_of(table)]
    assert to_arrow_mask(bound, table).to_pylist() == expected
    assert columns_of(bound) <= columns_of(predicate)


# ------------------------------------------------------------------------------------------------------------- golden


@pytest.mark.given
def test_filters_of_the_golden_tables(tmp_path: Path) -> None:
    """G8: A filter keeps the expected rows of those that Apache Paimon reads."""
    checked = 0
    for path in sorted(golden_folder(tmp_path).glob("paimon-java-*/*/expected.json")):
        expected = json.loads(path.read_text())
        types = dict(expected["columns"])
        whole = {json.dumps(r["at"]): r for r in expected["reads"] if "filter" not in r and "projection" not in r}
        for read in expected["reads"]:
            base = whole.get(json.dumps(read["at"]))
            if (
                "filter" not in read
                or base is None
                or base["columns"] != read["columns"]
                or not set(read["columns"]) <= set(types)
            ):
                continue
            try:
                fields = [Field(i, n, parse_atomic(types[n])) for i, n in enumerate(base["columns"])]
            except Exception:  # a table with nested columns, whose other reads are enough
                continue
            rows = decode_rows(base["rows"], fields)
            bound = bind(golden_predicate(read["filter"], {f.name: f.type for f in fields}), fields)
            kept = rows.filter(to_arrow_mask(bound, rows))
            assert sort_rows(encode_rows(kept, fields)) == sort_rows(read["rows"]), (path, read["filter"])
            checked += 1
    assert checked > 50
