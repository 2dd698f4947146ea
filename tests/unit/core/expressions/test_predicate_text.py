"""Tests the parsing and printing of predicates."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.predicate import Comparison, Not, bind, col
from lakelatch.core.expressions.where import parse_where
from lakelatch.core.rows.types import AtomicType, Field, string, timestamp, varbinary

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
        ("NOT NOT a = 1", ~~(A == 1)),
        ("a IS NULL or b is not null", A.is_null() | B.is_not_null()),
        ("a IN (1, 2.5, NULL, 'x')", Comparison("in", "a", (1, Decimal("2.5"), None, "x"))),
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
    assert parse_where(text) == predicate


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 1, "a value is expected"),
        ("a =", 4, "a value is expected"),
        ("a = b", 5, "single quotes"),
        ('a = "b"', 5, "single quotes"),
        ("a = 1 b = 2", 7, "AND, OR or the end"),
        ("a = 1 AND", 10, "a value is expected"),
        ("(a = 1", 7, "')' is expected"),
        ("a IN ()", 7, "a value is expected"),
        ("a IN (1 2)", 9, "')' is expected"),
        ("a NOT 1", 7, "IN, LIKE or BETWEEN"),
        ("a BETWEEN 1 OR 2", 13, "AND is expected"),
        ("a = 'open", 5, "unexpected"),
        ("a = 1.2.3", 5, "unexpected"),
        ("a = 1x", 5, "unexpected"),
        ("a = - b", 7, "a number is expected"),
        ("a = X'0'", 5, "two digits"),
        ("a LIKE 5", 9, "pattern"),
        ("1 = 1", 5, "a column is expected"),
        ("1", 2, "a comparison with a column"),
        ("a; DROP TABLE t", 2, "unexpected"),
        ("(" * 500 + "a = 1", 102, "brackets"),
        ("NOT " * 500 + "a = 1", 405, "brackets"),
        ("a = " + "9" * 5000, 5, "a number is expected"),
    ],
)
def test_errors_name_the_position(text: str, position: int, problem: str) -> None:
    """G4: The error for an invalid filter names the position."""
    with pytest.raises(InvalidArgument) as caught:
        parse_where(text)
    assert f"position {position}:" in str(caught.value) and problem in str(caught.value)


@settings(max_examples=150, deadline=None)
@given(st.text("abAND ORNOTISULIKE()='\"`%0129.,<>-x\n", max_size=30))
def test_any_text_is_a_predicate_or_an_error(text: str) -> None:
    """G4: No text crashes the parser."""
    try:
        parse_where(text)
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
    assert bind(parse_where(str(predicate)), fields) == predicate
    assert parse_where(str(Not(A == 1))) == Not(A == 1)
