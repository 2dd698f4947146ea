"""Filters over encoded rows: which there are for a column, and which rows each of them keeps.

Owns: the oracle. Must not know: statistics, readers. Filters are `[op, column, literal ...]` as the golden tables have
them. The order is the format's (format/binary-row §2): NaN is the largest float, -0.0 is below 0.0, text goes by its bytes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from values import Row, decode_date, decode_timestamp

from lakelatch.core.rows.types import BINARY_ROOTS, AtomicType, Field
from lakelatch.core.rows.values import root_of

Filter = list[Any]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def order_of(field: Field) -> Callable[[Any], Any]:
    """From an encoded value of a column to what sorts as the column does."""
    root = field.type.root if isinstance(field.type, AtomicType) else ""
    if root in ("FLOAT", "DOUBLE"):
        return lambda v: (math.isnan(float(v)), 0.0 if v == "NaN" else float(v), math.copysign(1, float(v)))
    if root == "DECIMAL":
        return Decimal
    if root in ("CHAR", "VARCHAR"):
        return lambda v: v.encode()
    if root == "DATE":
        return decode_date
    if root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return decode_timestamp
    return lambda v: v  # hexadecimal and times of day sort as their text


def keeps(filter_: Sequence[Any], field: Field) -> Callable[[Any], bool]:
    """Does the filter keep a row with this encoded value?"""
    op, _, *literals = filter_
    order = order_of(field)
    if op == "is_null":
        return lambda v: v is None
    if op == "is_not_null":
        return lambda v: v is not None
    if op == "between":
        low, high = map(order, literals)
        return lambda v: v is not None and low <= order(v) <= high
    if op == "in":
        chosen = [order(v) for v in literals[0]]
        return lambda v: v is not None and order(v) in chosen
    if op == "starts_with":
        return lambda v: v is not None and v.startswith(literals[0])
    bound, compare = order(literals[0]), _COMPARE[op]
    return lambda v: v is not None and compare(order(v), bound)


def kept(rows: Sequence[Row], filter_: Sequence[Any], fields: Sequence[Field]) -> list[Row]:
    """The rows that a filter keeps."""
    position = [f.name for f in fields].index(filter_[1])
    test = keeps(filter_, fields[position])
    return [row for row in rows if test(row[position])]


def _is_zero(field: Field, value: Any) -> bool:
    """A zero of floats: Java tells its signs apart in filters, and lakelatch does not (decision 100)."""
    return isinstance(field.type, AtomicType) and field.type.root in ("FLOAT", "DOUBLE") and float(value) == 0


def filters_of(field: Field, literals: Sequence[Any]) -> Iterator[Filter]:
    """Every kind of filter on a column.

    Args:
        literals: encoded values of the column, in its order.
    """
    name = field.name
    literals = [value for value in literals if not _is_zero(field, value)] or literals
    yield ["is_null", name]
    yield ["is_not_null", name]
    for literal in literals:
        for op in _COMPARE:
            yield [op, name, literal]
    yield ["between", name, literals[0], literals[len(literals) // 2]]
    yield ["in", name, [literals[0], literals[-1]]]
    if isinstance(field.type, AtomicType) and field.type.root in ("CHAR", "VARCHAR"):
        yield ["starts_with", name, literals[-1][:1]]


SIGNED = ("<", "<=", ">", ">=", "between")


def java_filters_of(field: Field, literals: Sequence[Any]) -> list[Filter]:
    """The filters that Java answers right on files of its own.

    Not ranges of binary: it compares rows as signed bytes, and footers as unsigned ones.
    """
    binary = root_of(field.type) in BINARY_ROOTS
    return [f for f in filters_of(field, literals) if not (binary and f[0] in SIGNED)]
