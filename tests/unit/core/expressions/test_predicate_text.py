"""Tests the parsing and printing of predicates."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.binding import bind, condition_of
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.sql import parse_expression
from lakelatch.core.expressions.tree import Comparison, comparisons
from lakelatch.core.rows.types import AtomicType, Field, decimal, string, timestamp, varbinary

A, B, C = col("a"), col("b"), col("c")


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a = 1", A == 1),
        ("a == 1", A == 1),
        ("a<>1", A != 1),
        ("A != 1", col("A") != 1),
        ("1 < a", A > 1),
        ("-1.5 >= a", Decimal("-1.5") >= A),
        ("a > +.5e3", Decimal(500) < A),
        ("a = 1 AND b = 2 OR c = 3", ((A == 1) & (B == 2)) | (C == 3)),
        ("a = 1 and (b = 2 or c = 3)", (A == 1) & ((B == 2) | (C == 3))),
        ("(a = 1 AND b = 2) AND c = 3", (A == 1) & (B == 2) & (C == 3)),
        ("NOT a = 1 AND b = 2", ~(A == 1) & (B == 2)),
        ("NOT NOT a = 1", A == 1),
        ("a LIKE '50!%%' ESCAPE '!'", A.like(r"50\%%")),
        ("a IS NULL or b is not null", A.is_null() | B.is_not_null()),
        ("a IN (1, 2.5, NULL, '3')", Comparison("in", "a", (1, Decimal("2.5"), None, "3"))),
        ("a NOT IN (1)", ~A.is_in([1])),
        ("a BETWEEN 1 AND 2 AND b = 3", A.between(1, 2) & (B == 3)),
        ("a NOT BETWEEN '2024-01-01' AND '2024-02-01'", ~A.between("2024-01-01", "2024-02-01")),
        ("a LIKE 'x%'", A.starts_with("x")),
        ("a LIKE '%x'", A.ends_with("x")),
        ("a LIKE '%x%'", A.contains("x")),
        ("a LIKE 'x'", A == "x"),
        ("a NOT LIKE 'x_y%'", ~A.like("x_y%")),
        (r"a LIKE 'x\%'", A.like(r"x\%")),
        ("a = 'it''s'", A == "it's"),
        ("a = ''", A == ""),
        ("a = TRUE and b = false", (A == True) & (B == False)),  # noqa: E712
        ("a AND NOT b", (A == True) & ~(B == True)),  # noqa: E712
        ("a = NULL", Comparison("=", "a", (None,))),
        ("a = DATE '2024-01-01'", A == "2024-01-01"),
        ("a >= timestamp '2024-01-01 00:00:00'", A >= "2024-01-01 00:00:00"),
        ("date = '2024-01-01' AND timestamp > 5", (col("date") == "2024-01-01") & (col("timestamp") > 5)),
        ("a = X'00fF'", A == b"\x00\xff"),
        ('`a b` = 1 AND "c""d" = 2 AND `or` = 3', (col("a b") == 1) & (col('c"d') == 2) & (col("or") == 3)),
        ("größe = 1", col("größe") == 1),
        ("a = 1 -- the rest is a note\n AND b = 2", (A == 1) & (B == 2)),
        (
            "month = 1 AND carrier IN ('AA','UA') AND NOT (a IS NULL OR b LIKE 'x%')",
            (col("month") == 1) & col("carrier").is_in(["AA", "UA"]) & ~(A.is_null() | B.starts_with("x")),
        ),
    ],
)
def test_text_and_columns_give_the_same_tree(text: str, predicate: Any) -> None:
    """G4: Text and `col()` give the same predicate."""
    fields = _fields_for(predicate)
    assert condition_of(text, fields) == bind(predicate, fields)


def _fields_for(predicate: Any) -> list[Field]:
    """Columns of types that the values of a condition fit."""
    kinds: dict[str, Any] = {}
    for leaf in comparisons(predicate):
        kind = kinds.setdefault(leaf.column, AtomicType("BOOLEAN"))
        for value in leaf.literals:
            if isinstance(value, bytes):
                kind = varbinary()
            elif isinstance(value, str) and kind != decimal(20, 2):
                is_time = value[:4].isdecimal() and len(value) > 9
                kind = timestamp(9) if is_time and len(value) > 10 else AtomicType("DATE") if is_time else string()
            elif not isinstance(value, bool) and value is not None:
                kind = decimal(20, 2)
        kinds[leaf.column] = kind
    return [Field(i, name, kind) for i, (name, kind) in enumerate(kinds.items())]


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 1, "a value is expected"),
        ("a =", 4, "a value is expected"),
        ("a = 1 b = 2", 7, "an operator or the end"),
        ("a = 1 AND", 10, "a value is expected"),
        ("(a = 1", 7, "')' is expected"),
        ("a IN ()", 7, "a value is expected"),
        ("a IN (1 2)", 9, "')' is expected"),
        ("a NOT 1", 7, "IN, LIKE or BETWEEN"),
        ("a BETWEEN 1 OR 2", 13, "AND is expected"),
        ("a = 'open", 5, "unexpected"),
        ("a = 1.2.3", 5, "unexpected"),
        ("a = 1x", 5, "unexpected"),
        ("a = X'0'", 6, "an operator or the end"),
        ("a LIKE 'x' ESCAPE 'ab'", 19, "one character"),
        ("a; DROP TABLE t", 2, "unexpected"),
        ("(" * 500 + "a = 1", 62, "brackets"),
        ("a = " + "9" * 5000, 5, "the number is too long"),
    ],
)
def test_errors_name_the_position(text: str, position: int, problem: str) -> None:
    """G4: The error for an invalid filter names the position."""
    with pytest.raises(InvalidArgument) as caught:
        parse_expression(text, "where")
    assert f"position {position}:" in str(caught.value) and problem in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.text("abAND ORNOTISULIKE()='\"`%0129.,<>-x\n", max_size=30))
def test_any_text_is_a_predicate_or_an_error(text: str) -> None:
    """G4: No text crashes the parser."""
    try:
        parse_expression(text, "where")
    except InvalidArgument as error:
        assert "position" in str(error)


def test_printed_predicates_can_be_parsed() -> None:
    """G4: The filter that a plan prints can be parsed again."""
    fields = [
        Field(0, "i", AtomicType("INT")),
        Field(1, "d", AtomicType("DOUBLE")),
        Field(2, "s p", string()),
        Field(3, "t", timestamp(9)),
        Field(4, "y", varbinary()),
        Field(5, "b", AtomicType("BOOLEAN")),
        Field(6, "z", timestamp(6, local_zone=True)),
    ]
    predicate = bind(
        (col("i").is_in([1, -2]) | ~Comparison("=", "d", (math.nan,)) | (col("d") < 1e300))
        & (col("s p") != "it's")
        & (col("t") > "2024-01-01T00:00:00.000000001")
        & (col("z") > "2024-01-01T00:00:00.5+02:00")
        & ((col("y") == b"\x00") | (col("b") == False) | col("s p").like("a_%")),  # noqa: E712
        fields,
    )
    assert condition_of(str(predicate), fields) == predicate
