"""Arrow expressions as predicates: no row is lost, and what can be pushed down is."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicates import DOMAINS, FIELDS, tables

from lakelatch.core.expressions.arrow_filters import names_in, wider_predicate
from lakelatch.core.expressions.evaluate import to_arrow_mask
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import AtomicType, Field, RowType, string, timestamp

OPERATORS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")


def scalars(name: str) -> st.SearchStrategy[pa.Scalar]:
    """Literals of a column's domain in its Arrow type, and for floats in the other one too."""
    kind, domain = DOMAINS[name]
    types = [pa.float32(), pa.float64()] if kind.root in ("FLOAT", "DOUBLE") else [to_arrow(kind)]
    values = domain if kind.root != "TIMESTAMP" else [value // 1000 for value in domain]
    return st.builds(pa.scalar, st.sampled_from(values), st.sampled_from(types))


def leaves() -> st.SearchStrategy[Any]:
    def of(name: str) -> st.SearchStrategy[Any]:
        field, values = pc.field(name), scalars(name)
        compared = st.builds(lambda op, v: getattr(field, op)(pc.scalar(v)), st.sampled_from(OPERATORS), values)
        mirrored = st.builds(lambda v: pc.scalar(v) > field, values)
        listed = st.lists(values.filter(lambda v: True), min_size=1, max_size=3).map(
            lambda found: field.isin(pa.array([v.as_py() for v in found], found[0].type))
        )
        nulls = st.sampled_from([field.is_null(), field.is_valid(), field.is_null(nan_is_null=name in "fd")])
        return st.one_of(compared, mirrored, listed, nulls)

    texts = st.sampled_from(["", "a", "ab", "prefix"])
    tested = texts.flatmap(
        lambda text: st.sampled_from([pc.starts_with(pc.field("s"), text), pc.match_substring(pc.field("s"), text)])
    )
    return st.one_of(*map(of, DOMAINS), tested, st.just(pc.field("b")), st.just(pc.scalar(True)))


def expressions() -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a: ~a, inner),
            st.builds(lambda a, b: pc.if_else(a.is_valid(), b, pa.scalar(None, pa.bool_())), inner, inner),
        ),
        max_leaves=5,
    )


@settings(max_examples=60, deadline=None)
@given(tables(max_rows=12).filter(len), st.lists(expressions(), min_size=4, max_size=4))
def test_no_row_that_arrow_keeps_is_lost(table: pa.Table, tried: list[Any]) -> None:
    """G4: NaN, signed zeros, nulls, negations, literals of another precision."""
    numbered = table.append_column("row", pa.array(range(table.num_rows)))
    for expression in tried:
        found = wider_predicate(expression, FIELDS)
        if found is None:
            continue
        try:
            kept = numbered.filter(expression)["row"].to_pylist()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            continue
        mask = to_arrow_mask(found, table).to_pylist()
        assert all(mask[row] for row in kept), (str(expression), str(found))


A, S = pc.field("a"), pc.field("st", "x")
COLUMNS = [
    Field(0, "a", AtomicType("INT")),
    Field(1, "f", AtomicType("DOUBLE")),
    Field(2, "s", string()),
    Field(3, "st", RowType((Field(4, "x", AtomicType("BIGINT")),))),
    Field(5, "t", timestamp(6)),
    Field(6, "z", timestamp(6, local_zone=True)),
    Field(7, "b", AtomicType("BOOLEAN")),
    Field(8, 'o\'k: "x"', AtomicType("INT")),
    Field(9, "d", AtomicType("DATE")),
]
MOMENT = dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)


@pytest.mark.parametrize(
    ("expression", "pushed"),
    [
        (A == 1, "a = 1"),
        (pc.scalar(1) < A, "a > 1"),
        ((A > 1) & (pc.abs(A) == 2), "a > 1"),
        ((A > 1) | (pc.abs(A) == 2), None),
        (~(A.isin([1, 2])), None),
        (A.isin([1, 2]), "a IN (1, 2)"),
        (A.isin([1, None]), None),
        (pc.if_else(A.is_valid(), A.isin([3]), pa.scalar(None, pa.bool_())), "a IS NOT NULL AND a IN (3)"),
        (pc.if_else(A.is_valid(), A.isin([3]), True), None),
        (~(A == 1), "NOT (a = 1)"),
        (~((A == 1) & (pc.abs(A) == 2)), None),
        (S >= 7, "st.x >= 7"),
        (pc.field("st").is_null(), "st IS NULL"),
        (pc.field("st") == 1, None),
        (pc.field("f") < 0.0, "f <= 0.0"),
        (pc.field("f") == 0.0, "f = 0.0"),
        (pc.field("f") != 1.0, None),
        (~(pc.field("f") > 1.0), None),
        (pc.field("f") > pc.scalar(float("nan")), None),
        (pc.field("f").is_null(nan_is_null=True), None),
        (pc.field("b"), "b = TRUE"),
        (~pc.field("b"), "NOT (b = TRUE)"),
        (pc.starts_with(pc.field("s"), "x"), "s LIKE 'x%'"),
        (pc.starts_with(pc.field("s"), "x", ignore_case=True), None),
        (pc.field("s") == "a: 'b'\nend: 'equal'", "s = 'a: ''b''\nend: ''equal'''"),
        (pc.field('o\'k: "x"') == 1, '`o\'k: "x"` = 1'),
        (Decimal("1.5") == A, "a IN ()"),
        (A < 1.5, "a <= 1"),
        (A == 1e300, None),
        (pc.field("z") >= pc.scalar(MOMENT), "z >= TIMESTAMP '2024-01-01 00:00:00"),
        (pc.field("t") >= pc.scalar(MOMENT), None),
        (pc.field("t") >= pc.scalar(MOMENT.replace(tzinfo=None)), "t >= TIMESTAMP '2024-01-01 00:00:00"),
        (pc.field("d") == pc.scalar(dt.date(2024, 1, 1)), "d = '2024-01-01'"),
        (pc.field("d") == pa.scalar(10**7, pa.date32()), None),
        (pc.field("gone") == 1, None),
        (A == "x", None),
    ],
)
def test_what_is_pushed_down(expression: Any, pushed: str | None) -> None:
    found = wider_predicate(expression, COLUMNS)
    assert (found is None) is (pushed is None), str(found)
    assert pushed is None or str(found).startswith(pushed)


def test_the_columns_that_an_expression_needs() -> None:
    assert names_in((A == 1) & pc.starts_with(pc.field("s"), "x") | (S > 1), COLUMNS) == {"a", "s", "st"}
    strange = [*COLUMNS, Field(10, "two\nlines", string())]
    assert names_in(A == 1, strange) == {field.name for field in strange}  # not understood: all
    assert wider_predicate(A == 1, strange) is None
