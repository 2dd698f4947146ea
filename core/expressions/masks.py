"""Evaluates bound predicates on Arrow columns and on single rows.

Owns: `to_arrow_mask` (vectorised, for columns) and `evaluate` (for one row of Python values, such as a partition). Must
not know: the text of predicates, statistics. Source: format/statistics §3; format/binary-row §2 (floats).

Invariant: Both give the same result for the same row, in SQL's three-valued logic. A mask has false instead of unknown.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..rows.dates import date_to_days
from ..rows.types import INTEGER_ROOTS, TIMESTAMP_ROOTS, DataType, Field
from ..rows.values import (
    NANOS_PER_MILLI,
    NANOS_PER_UNIT,
    order_key,
    plain_array,
    root_of,
    time_to_millis,
)
from .predicate import And, Comparison, Not, Or, Predicate, type_at

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PYTHON: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NULL = pa.nulls(1, pa.bool_())[0]


def to_arrow_mask(predicate: Predicate, table: Any, fields: Sequence[Field]) -> pa.BooleanArray:
    """The rows that a predicate keeps, as a mask.

    Args:
        predicate: a predicate that is bound to `fields` (see `predicate.bind`).
        table: a `pa.Table` or `pa.RecordBatch` with the columns of the predicate.
        fields: the columns of the table with their types.

    Returns:
        One boolean per row, never null.

    >>> from .predicate import bind, col
    >>> from ..rows.types import AtomicType
    >>> fields = [Field(0, "a", AtomicType("INT"))]
    >>> rows = pa.table({"a": pa.array([1, 2, None], pa.int32())})
    >>> to_arrow_mask(bind(col("a") > 1, fields), rows, fields).to_pylist()
    [False, True, False]
    """
    types = {f.name: f.type for f in fields}
    result = _mask(predicate, table, types)
    if isinstance(result, pa.ChunkedArray):
        result = result.combine_chunks()
    if isinstance(result, pa.Scalar):
        result = pa.repeat(result, table.num_rows)
    return pc.fill_null(result, False)


def _mask(predicate: Predicate, table: Any, types: Mapping[str, DataType]) -> Any:
    match predicate:
        case Comparison(column=column):
            if column not in types or table.schema.get_field_index(column) < 0:
                raise InvalidArgument(f"the rows have no column '{column}' to test")
            array = table.column(column)
            for name in predicate.path:
                array = pc.struct_field(array, [name])
            return _leaf(predicate, plain_array(array), root_of(type_at(types[column], predicate)))
        case And(parts=parts):
            return _combined(pc.and_kleene, [_mask(p, table, types) for p in parts], True)
        case Or(parts=parts):
            return _combined(pc.or_kleene, [_mask(p, table, types) for p in parts], False)
        case Not(part=part):
            return pc.invert(_mask(part, table, types))
        case _:
            raise InvalidArgument(f"{predicate!r} is not a predicate", next_step="build it with col(...)")


def _combined(kernel: Any, masks: list[Any], neutral: bool) -> Any:
    return reduce(kernel, masks) if masks else pa.scalar(neutral)


def _leaf(leaf: Comparison, array: Any, root: str) -> Any:
    op = leaf.op
    if op == "is_null":
        return pc.is_null(array)
    if op == "is_not_null":
        return pc.is_valid(array)
    if op == "in":
        return _in(array, leaf.literals, root)
    value = leaf.literals[0]
    if value is None:
        return _constant(array, None)
    if op in _KERNELS:
        return _compare(array, op, value, root)
    if op == "starts_with":
        return pc.starts_with(array, pattern=value)
    if op == "ends_with":
        return pc.ends_with(array, pattern=value)
    if op == "contains":
        return pc.match_substring(array, pattern=value)
    return pc.match_substring_regex(array, pattern=like_regex(value, "\\A", "\\z"))


def _constant(array: Any, value: bool | None) -> Any:
    """`value` for rows in which the column has a value, and null for rows in which it is null."""
    return pc.if_else(pc.is_valid(array), pa.scalar(value, pa.bool_()), _NULL)


def _compare(array: Any, op: str, value: Any, root: str) -> Any:
    if pa.types.is_floating(array.type):
        return _compare_float(array, op, float(value))
    whole = _as_integers(array, root)
    if whole is not None:
        numbers, factor = whole
        return _compare_integer(numbers, op, Fraction(_as_integer(value, root), factor))
    return _KERNELS[op](array, pa.scalar(value, array.type))


# ------------------------------------------------------------------------------------------------- integers and times


def _as_integers(array: Any, root: str) -> tuple[Any, int] | None:
    """A column of numbers or times as integers without a copy, and the size of its unit in units of the literal."""
    if root in TIMESTAMP_ROOTS:
        return array.cast(pa.int64()), NANOS_PER_UNIT[array.type.unit]
    if root == "DATE":
        return (array if pa.types.is_integer(array.type) else array.cast(pa.date32()).cast(pa.int32())), 1
    if root == "TIME":
        if pa.types.is_integer(array.type):
            return array, 1
        ticks = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
        return array.cast(ticks), NANOS_PER_UNIT[array.type.unit]
    return (array, 1) if root in INTEGER_ROOTS else None


def _as_integer(value: Any, root: str) -> int:
    if root == "DATE":
        return date_to_days(value)
    return time_to_millis(value) * NANOS_PER_MILLI if root == "TIME" else int(value)


def _compare_integer(numbers: Any, op: str, value: Fraction) -> Any:
    """Compare with an exact literal, which may lie between two values of the type or out of its range."""
    bits = numbers.type.bit_width
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if value < low or value > high:
        return _constant(numbers, op == "!=" or (op in ("<", "<=") if value > high else op in (">", ">=")))
    if value.denominator != 1:
        if op in ("=", "!="):
            return _constant(numbers, op == "!=")
        op = "<=" if op in ("<", "<=") else ">"
    return _KERNELS[op](numbers, pa.scalar(math.floor(value), numbers.type))


# ------------------------------------------------------------------------------------------------------------- floats


def _compare_float(array: Any, op: str, value: float) -> Any:
    """Compare like Java's `Double.compare`; Arrow's kernels differ only for NaN and the sign of zero."""
    if op == "!=":
        return pc.invert(_compare_float(array, "=", value))
    if op in ("<", "<="):
        return pc.invert(_compare_float(array, ">=" if op == "<" else ">", value))
    if value != value:
        return _constant(array, False) if op == ">" else pc.is_nan(array)
    if value == 0:
        compared = _compare_zero(array, op, math.copysign(1, value) < 0)
    else:
        compared = _KERNELS[op](array, pa.scalar(value, array.type))
    return compared if op == "=" else pc.or_(compared, pc.is_nan(array))


def _compare_zero(array: Any, op: str, negative: bool) -> Any:
    zero = pc.equal(array, pa.scalar(0.0, array.type))
    negative_zero = pc.and_(zero, pc.less(pc.divide(pa.scalar(1.0, array.type), array), pa.scalar(0.0, array.type)))
    if op == "=":
        return negative_zero if negative else pc.and_not(zero, negative_zero)
    above = pc.greater(array, pa.scalar(0.0, array.type))
    if op == ">":
        return pc.or_(above, pc.and_not(zero, negative_zero)) if negative else above
    return pc.or_(above, zero) if negative else pc.or_(above, pc.and_not(zero, negative_zero))


def _in(array: Any, literals: tuple[Any, ...], root: str) -> Any:
    values = [v for v in literals if v is not None]
    found = _is_in(array, values, root)
    if len(values) < len(literals):  # x IN (1, NULL) is true or unknown, never false
        return pc.if_else(found, pa.scalar(True), _NULL)
    return pc.if_else(pc.is_valid(array), found, _NULL)


def _is_in(array: Any, values: list[Any], root: str) -> Any:
    if not values:
        return _constant(array, False)
    if pa.types.is_floating(array.type):
        zeros = [v for v in values if v == 0]
        found = pc.is_in(array, value_set=pa.array([v for v in values if v != 0], array.type))
        for zero in zeros:
            found = pc.or_(found, pc.fill_null(_compare_float(array, "=", zero), False))
        return found
    whole = _as_integers(array, root)
    if whole is None:
        return pc.is_in(array, value_set=pa.array(values, array.type))
    numbers, factor = whole
    bits = numbers.type.bit_width
    ticks = [n // factor for n in (_as_integer(v, root) for v in values) if n % factor == 0]
    fitting = [n for n in ticks if -(1 << (bits - 1)) <= n < 1 << (bits - 1)]
    return pc.is_in(numbers, value_set=pa.array(fitting, numbers.type))


# --------------------------------------------------------------------------------------------------------------- text


def like_regex(pattern: str, start: str = "", end: str = "") -> str:
    r"""A LIKE pattern as a regular expression: `%` matches any text, `_` any character, and `\` escapes both.

    >>> like_regex("a_%")
    '(?s)a..*'
    """
    out, characters = [], iter(pattern)
    for c in characters:
        if c == "\\":
            out.append(re.escape(next(characters, "\\")))
        else:
            out.append({"%": ".*", "_": "."}.get(c) or re.escape(c))
    return "(?s)" + start + "".join(out) + end


# ----------------------------------------------------------------------------------------------------------- one row


def evaluate(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Evaluate a bound predicate on one row; None means unknown.

    Args:
        predicate: a bound predicate.
        row: the values by column, in the form of the module `values`.

    >>> from .predicate import col
    >>> evaluate((col("a") > 1) | col("b").is_null(), {"a": None, "b": 2}) is None
    True
    """
    match predicate:
        case Comparison(column=column):
            if column not in row or predicate.path:
                raise InvalidArgument(f"the row has no column '{'.'.join((column, *predicate.path))}' to test")
            return _evaluate_leaf(predicate, row[column])
        case And(parts=parts):
            answers = [evaluate(p, row) for p in parts]
            return False if False in answers else None if None in answers else True
        case Or(parts=parts):
            answers = [evaluate(p, row) for p in parts]
            return True if True in answers else None if None in answers else False
        case Not(part=part):
            answer = evaluate(part, row)
            return None if answer is None else not answer
        case _:
            raise InvalidArgument(f"{predicate!r} is not a predicate", next_step="build it with col(...)")


def _evaluate_leaf(leaf: Comparison, value: Any) -> bool | None:
    if leaf.op == "is_null":
        return value is None
    if leaf.op == "is_not_null":
        return value is not None
    if value is None:
        return None
    if leaf.op == "in":
        key = order_key(value)
        if any(v is not None and order_key(v) == key for v in leaf.literals):
            return True
        return None if None in leaf.literals else False
    literal = leaf.literals[0]
    if literal is None:
        return None
    if leaf.op in _PYTHON:
        return _PYTHON[leaf.op](order_key(value), order_key(literal))
    if leaf.op == "starts_with":
        return bool(value.startswith(literal))
    if leaf.op == "ends_with":
        return bool(value.endswith(literal))
    return literal in value if leaf.op == "contains" else re.fullmatch(like_regex(literal), value) is not None
