"""CAST of whole columns.

Owns: `cast`. Must not know: the tree, functions' names. Source: architecture §5.
Invariants: As Spark's: a number is seconds since 1970 where it becomes a point in time, and the reverse. What has no meaning is
refused, and never the bits of one type taken for another.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..rows.arrow import to_arrow
from ..rows.types import DataType, sql
from .functions import as_double, rounded
from .scope import Scope, as_instant, as_local, is_instant

_is = pa.types
_MICROS = 1_000_000
_SMALL_DIGITS = 20
"""A double below 10 to minus this power has digits that no DECIMAL of so many after the point sees."""
_ZONED = r":\S*(Z|[+-]\d{2}(:?\d{2})?)$"


def cast(scope: Scope, value: Any, data_type: DataType) -> Any:
    target, given = to_arrow(data_type), value.type
    if _is.is_null(given):
        return pc.cast(value, target)
    if _is_number(given) and _is_moment(target):
        return _moment_of(scope, value, target, data_type)
    if _is_moment(given) and _is_number(target):
        return _seconds_of(scope, value, target, data_type)
    if _is.is_string(given) or _is.is_large_string(given):
        return _of_text(scope, value, target)
    if _is.is_integer(target) and (_is.is_floating(given) or _is.is_decimal(given)):
        value = pc.trunc(value)
    if _is.is_decimal(target) and _is_number(given) and not _is.is_boolean(given):
        value = rounded(_as_decimal(value, target), target.scale)
    if _is.is_decimal(given) and _is.is_floating(target):
        return pc.cast(as_double(value), target)
    if _is.is_floating(given) and _is.is_string(target):
        raise InvalidArgument(f"{scope}: a number of type {given} has no one text: cast it to DECIMAL first")
    if _is.is_timestamp(target) and target.tz is not None:
        value = as_instant(scope, value)
    elif _is.is_timestamp(given):
        value = as_local(scope, value)
    if _is.is_timestamp(given) and _is.is_string(target):
        shown = pc.replace_substring_regex(pc.cast(value, target), r"\.0+$", "")
        return pc.replace_substring_regex(shown, r"(\.\d*[1-9])0+$", r"\1")
    return pc.cast(value, target, safe=not (_is.is_timestamp(given) and _is.is_date(target)))


def _as_decimal(number: Any, target: Any) -> Any:
    """A number that can be rounded to a DECIMAL: of a double, the shortest text that means it, as in Spark."""
    if _is.is_integer(number.type):
        return pc.cast(number, pa.decimal128(20, 0))
    if not _is.is_floating(number.type) or target.scale > _SMALL_DIGITS:
        return number
    is_small = pc.less(pc.abs(number), pa.scalar(10.0**-_SMALL_DIGITS, number.type))
    text = pc.cast(pc.if_else(is_small, pa.scalar(0.0, number.type), number), pa.string())
    return pc.cast(text, pa.decimal256(76, 38))


def _is_number(t: Any) -> bool:
    return bool(_is.is_integer(t) or _is.is_floating(t) or _is.is_decimal(t) or _is.is_boolean(t))


def _is_moment(t: Any) -> bool:
    return bool(_is.is_date(t) or _is.is_time(t) or _is.is_timestamp(t))


def _of_text(scope: Scope, text: Any, target: Any) -> Any:
    """Text with a zone is a point in time by itself, and any other text in the zone of the scope."""
    if _is.is_boolean(target) or _is.is_string(target) or _is.is_binary(target) or _is.is_fixed_size_binary(target):
        return pc.cast(text, target)
    text = pc.utf8_trim_whitespace(text)
    if not (_is.is_timestamp(target) and target.tz is not None):
        return pc.cast(text, target)
    zoned = pc.match_substring_regex(text, _ZONED)
    nothing = pa.scalar(None, text.type)
    instants = pc.cast(pc.if_else(zoned, text, nothing), target)
    local = pc.cast(pc.if_else(zoned, nothing, text), pa.timestamp(target.unit))
    return pc.coalesce(instants, as_instant(scope, local) if _has_any(local) else pc.cast(local, target))


def _has_any(value: Any) -> bool:
    return bool(value.is_valid if isinstance(value, pa.Scalar) else value.null_count < len(value))


def _moment_of(scope: Scope, number: Any, target: Any, data_type: DataType) -> Any:
    """The point in time so many seconds after 1970; fractions below a microsecond are cut off."""
    if not _is.is_timestamp(target) or target.tz is None or _is.is_boolean(number.type):
        raise _refused(scope, number.type, data_type)
    if _is.is_integer(number.type):
        micros = pc.multiply_checked(pc.cast(number, pa.int64()), pa.scalar(_MICROS))
    elif _is.is_decimal(number.type):
        cut = pc.cast(pc.round(number, ndigits=6, round_mode="towards_zero"), pa.decimal128(28, 6))
        micros = pc.cast(pc.multiply(cut, pa.scalar(Decimal(_MICROS), pa.decimal128(7, 0))), pa.int64())
    else:
        micros = pc.cast(pc.trunc(pc.multiply(pc.cast(number, pa.float64()), float(_MICROS))), pa.int64())
    return pc.cast(pc.cast(micros, pa.timestamp("us", target.tz)), target)


def _seconds_of(scope: Scope, moment: Any, target: Any, data_type: DataType) -> Any:
    """The seconds since 1970; an integer has the last whole one."""
    if not is_instant(moment) or _is.is_boolean(target):
        raise _refused(scope, moment.type, data_type)
    if _is.is_integer(target):
        whole = pc.cast(pc.floor_temporal(moment, unit="second"), pa.timestamp("s", moment.type.tz))
        return pc.cast(pc.cast(whole, pa.int64()), target)
    micros = pc.cast(pc.cast(moment, pa.timestamp("us", moment.type.tz), safe=False), pa.int64())
    if _is.is_floating(target):
        return pc.cast(pc.divide(pc.cast(micros, pa.float64()), float(_MICROS)), target)
    parts = pc.multiply(pc.cast(micros, pa.decimal128(19)), pa.scalar(Decimal("0.000001"), pa.decimal128(7, 6)))
    return pc.cast(rounded(parts, target.scale), target)


def _refused(scope: Scope, given: Any, data_type: DataType) -> InvalidArgument:
    return InvalidArgument(
        f"{scope}: {given} cannot be cast to {sql(data_type)}",
        next_step="only TIMESTAMP WITH LOCAL TIME ZONE, a point in time, is a number: of seconds since 1970",
    )
