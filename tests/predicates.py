"""Random tables and random predicates over them, for property tests.

Owns: the strategies, and what a condition means for one row (`evaluate`), written without Arrow. Must not know: what is tested.
Small domains, so that comparisons often meet equal values.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakelatch.core.expressions.masks import like_regex
from lakelatch.core.expressions.tree import And, Comparison, Not, Or
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import AtomicType, Field, decimal, string, timestamp, varbinary
from lakelatch.core.rows.values import column_values, sql_key, to_arrow_array

_LONG = "prefix-of-sixteen"
_TEXTS = ["", "a", "ab", "b", _LONG, _LONG + "-1", _LONG + "-2", "\U0010ffff" * 20, "\uffff", "zz%", "a_b"]
_BYTES = [b"", b"a", b"\xff" * 20, b"\xff", b"a" * 17, b"a" * 18]
_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -1.5]

DOMAINS: dict[str, tuple[Any, list[Any]]] = {
    "i": (AtomicType("INT"), [-(2**31), -1, 0, 1, 2, 2**31 - 1]),
    "f": (AtomicType("FLOAT"), _FLOATS),
    "d": (AtomicType("DOUBLE"), _FLOATS),
    "s": (string(), _TEXTS),
    "y": (varbinary(), _BYTES),
    "b": (AtomicType("BOOLEAN"), [True, False]),
    "n": (decimal(20, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.50"), Decimal("999999999999999999.99")]),
    "t": (timestamp(6), [-1000, 0, 1000, 253_402_300_799_999_999_000]),
    "a": (AtomicType("DATE"), [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
}
FIELDS = [Field(i, name, domain[0]) for i, (name, domain) in enumerate(DOMAINS.items())]
_OFF_GRID: dict[str, list[Any]] = {"i": [0.5, -1.5, 10**12, -(10**12)], "n": ["0.005", 10**25]}


def tables(max_rows: int = 6) -> st.SearchStrategy[pa.Table]:
    """Tables with the columns of `FIELDS`; any value may be null."""
    row = st.tuples(*(st.none() | st.sampled_from(values) for _, values in DOMAINS.values()))
    return st.lists(row, max_size=max_rows).map(_table)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(FIELDS)
    arrays = [to_arrow_array(list(c), f.type, to_arrow(f.type)) for c, f in zip(columns, FIELDS, strict=True)]
    return pa.Table.from_arrays(arrays, names=[f.name for f in FIELDS])


def values_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, values in the form of `core.rows.values`."""
    columns = {f.name: column_values(table[f.name], f.type) for f in FIELDS}
    return [{name: values[i] for name, values in columns.items()} for i in range(table.num_rows)]


def predicates() -> st.SearchStrategy[Any]:
    """Trees of every operator, not yet bound."""
    return st.recursive(_leaves(), _joined, max_leaves=5)


def _joined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return several.map(And) | several.map(Or) | parts.map(Not)


@st.composite
def _leaves(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(list(DOMAINS)))
    data_type, values = DOMAINS[name]
    literal = st.none() | st.sampled_from([_literal(v, data_type) for v in values] + _OFF_GRID.get(name, []))
    operators = ["=", "!=", "<", "<=", ">", ">=", "is_null", "is_not_null", "in"]
    if name in "sy":
        operators += ["starts_with", "ends_with", "contains"] + ["like"] * (name == "s")
    op = draw(st.sampled_from(operators))
    if op in ("is_null", "is_not_null"):
        return Comparison(op, name)
    if op == "in":
        return Comparison(op, name, tuple(draw(st.lists(literal, max_size=3))))
    if op == "like":
        return Comparison(op, name, (draw(st.sampled_from(["a%", "%b", "_", "a\\_b", "prefix%1", "%", ""])),))
    if op in ("starts_with", "ends_with", "contains"):
        text = draw(st.sampled_from(values))
        return Comparison(op, name, (text[: draw(st.integers(0, 20))],))
    return Comparison(op, name, (draw(literal),))


def _literal(value: Any, data_type: AtomicType) -> Any:
    """A timestamp as a user can write it: a bare number has no unit."""
    if data_type.root != "TIMESTAMP":
        return value
    return pa.scalar(value // 1000, pa.timestamp("us"))


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def evaluate(predicate: Any, row: Mapping[str, Any]) -> bool | None:
    """What a bound condition of comparisons is for one row; None means unknown."""
    match predicate:
        case Comparison(column=column):
            return _compared(predicate, row[column])
        case And(parts=parts):
            answers = [evaluate(p, row) for p in parts]
            return False if False in answers else None if None in answers else True
        case Or(parts=parts):
            answers = [evaluate(p, row) for p in parts]
            return True if True in answers else None if None in answers else False
        case Not(part=part):
            answer = evaluate(part, row)
            return None if answer is None else not answer
    raise AssertionError(predicate)


def _compared(leaf: Comparison, value: Any) -> bool | None:
    if leaf.op in ("is_null", "is_not_null"):
        return (value is None) == (leaf.op == "is_null")
    if value is None:
        return None
    if leaf.op == "in":
        if any(v is not None and sql_key(v) == sql_key(value) for v in leaf.literals):
            return True
        return None if None in leaf.literals else False
    literal = leaf.literals[0]
    if literal is None:
        return None
    if leaf.op in _OPERATORS:
        return _OPERATORS[leaf.op](sql_key(value), sql_key(literal))
    if leaf.op == "starts_with":
        return bool(value.startswith(literal))
    if leaf.op == "ends_with":
        return bool(value.endswith(literal))
    return literal in value if leaf.op == "contains" else re.fullmatch(like_regex(literal), value) is not None
