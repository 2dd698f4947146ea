"""Tests columns against values.

Owns: `tested`, which carries out a bound `Comparison` on an Arrow column. Must not know: SQL text, statistics.
Source: format/statistics §3.

Invariants: SQL's three-valued logic. NaN equals itself and is larger than every other number; 0.0 and -0.0 are equal, as in SQL.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..rows.dates import FarDate, date_to_days
from ..rows.values import NANOS_PER_MILLI, NANOS_PER_UNIT, time_to_millis
from .tree import Comparison

_KERNELS = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_NULL = pa.nulls(1, pa.bool_())[0]


def tested(leaf: Comparison, array: Any) -> Any:
    """For which rows a bound comparison is true, false or unknown, given the values of its column or field.

    >>> tested(Comparison(">", "a", (1,)), pa.array([1, 2, None])).to_pylist()
    [False, True, None]
    """
    op = leaf.op
    if op == "is_null":
        return pc.is_null(array)
    if op == "is_not_null":
        return pc.is_valid(array)
    if op == "in":
        return _in(array, leaf.literals)
    value = leaf.literals[0]
    if value is None:
        return _constant(array, None)
    if op in _KERNELS:
        return _compare(array, op, value)
    if op == "starts_with":
        return pc.starts_with(array, pattern=value)
    if op == "ends_with":
        return pc.ends_with(array, pattern=value)
    if op == "contains":
        return pc.match_substring(array, pattern=value)
    return pc.match_substring_regex(array, pattern=like_regex(value, "\\A", "\\z"))


def _constant(array: Any, value: bool | None) -> Any:
    return pc.if_else(pc.is_valid(array), pa.scalar(value, pa.bool_()), _NULL)


def _compare(array: Any, op: str, value: Any) -> Any:
    if pa.types.is_floating(array.type):
        return _compare_float(array, op, float(value))
    whole = _as_integers(array)
    if whole is not None:
        numbers, factor = whole
        return _compare_integer(numbers, op, Fraction(_as_integer(value), factor))
    return _KERNELS[op](array, pa.scalar(value, array.type))


# ------------------------------------------------------------------------------------------------- integers and times


def _as_integers(array: Any) -> tuple[Any, int] | None:
    """A column of numbers or times as integers without a copy, and the size of its unit in units of the literal."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()), NANOS_PER_UNIT[kind.unit]
    if pa.types.is_date(kind):
        return array.cast(pa.date32()).cast(pa.int32()), 1
    if pa.types.is_time(kind):
        ticks = pa.int32() if pa.types.is_time32(kind) else pa.int64()
        return array.cast(ticks), NANOS_PER_UNIT[kind.unit]
    return (array, 1) if pa.types.is_integer(kind) else None


def _as_integer(value: Any) -> int:
    if isinstance(value, (dt.date, FarDate)):
        return date_to_days(value)
    return time_to_millis(value) * NANOS_PER_MILLI if isinstance(value, dt.time) else int(value)


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
    """Arrow's kernels differ from SQL as Spark has it only for NaN."""
    if op == "!=":
        return pc.invert(_compare_float(array, "=", value))
    if op in ("<", "<="):
        return pc.invert(_compare_float(array, ">=" if op == "<" else ">", value))
    if math.isnan(value):
        return _constant(array, False) if op == ">" else pc.is_nan(array)
    compared = _KERNELS[op](array, pa.scalar(value, array.type))
    return compared if op == "=" else pc.or_(compared, pc.is_nan(array))


def _in(array: Any, literals: tuple[Any, ...]) -> Any:
    values = [v for v in literals if v is not None]
    found = _is_in(array, values)
    if len(values) < len(literals):  # x IN (1, NULL) is true or unknown, never false
        return pc.if_else(found, pa.scalar(True), _NULL)
    return pc.if_else(pc.is_valid(array), found, _NULL)


def _is_in(array: Any, values: list[Any]) -> Any:
    if not values:
        return _constant(array, False)
    if pa.types.is_floating(array.type):
        found = pc.is_in(array, value_set=pa.array([v for v in values if v != 0], array.type))
        if any(v == 0 for v in values):  # Arrow takes the two zeros for two values here
            found = pc.or_(found, pc.fill_null(_compare_float(array, "=", 0.0), False))
        return found
    whole = _as_integers(array)
    if whole is None:
        return pc.is_in(array, value_set=pa.array(values, array.type))
    numbers, factor = whole
    bits = numbers.type.bit_width
    ticks = [n // factor for n in (_as_integer(v) for v in values) if n % factor == 0]
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
