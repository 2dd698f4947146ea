"""Casts old values to a column's new type with the results of Apache Paimon: the list of casts, and those of numbers and bytes.

Owns: `cast_of`. The casts of times and texts are in other modules. Must not know: schemas, nesting, files.
Source: format/schema §5; decision 11. Apache Paimon casts like Java instead of SQL: integers wrap around, fractions
are dropped, decimals that do not fit become null, and texts that cannot be parsed fail the read.

Invariants: Nulls stay null. A result has exactly the Arrow type of the new data type. Casts work on whole columns, or on
the distinct values of a column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..rows.arrow import to_arrow
from ..rows.types import BINARY_ROOTS, INTEGER_ROOTS, MAX_LENGTH, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType
from .columns import WIDE_DIGITS, Cast, by_value, fitted, numpy_of, unscaled, with_nulls_of
from .texts import plain_text, to_boolean, to_date, to_decimal, to_double, to_integer, to_text, to_time, to_timestamp
from .times import (
    date_to_timestamp,
    seconds_to_timestamp,
    time_to_timestamp,
    timestamp_to_date,
    timestamp_to_seconds,
    timestamp_to_time,
    timestamp_to_timestamp,
)

_FAMILIES = {
    **dict.fromkeys(INTEGER_ROOTS, "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(STRING_ROOTS, "text"),
    **dict.fromkeys(BINARY_ROOTS, "bytes"),
    **dict.fromkeys(TIMESTAMP_ROOTS, "timestamp"),
    "DECIMAL": "decimal",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIME": "time",
}
_COMPACT_DIGITS = 18


def cast_of(source: AtomicType, target: AtomicType) -> Cast | None:
    """The cast of arrays of the old type, whatever its nullability; None if Apache Paimon has no such cast.

    >>> narrow = cast_of(AtomicType("INT"), AtomicType("TINYINT"))
    >>> narrow(pa.array([383, None], pa.int32())).to_pylist()
    [127, None]
    >>> cast_of(AtomicType("DATE"), AtomicType("INT")) is None
    True
    """
    rule = _RULES.get((_FAMILIES.get(source.root, ""), _FAMILIES.get(target.root, "")))
    return None if rule is None else rule(source, target)


# ------------------------------------------------------------------------------------------------------------ numbers


def _number_to_number(source: AtomicType, target: AtomicType) -> Cast:
    arrow = to_arrow(target)
    if source.root in INTEGER_ROOTS and target.root in INTEGER_ROOTS:
        return lambda array: array.cast(arrow, safe=False)  # wraps around
    if target.root in INTEGER_ROOTS:
        bits = 64 if target.root == "BIGINT" else 32  # Java narrows to INT before SMALLINT
        return lambda array: with_nulls_of(array, _saturated(numpy_of(array), bits), arrow)
    return lambda array: with_nulls_of(array, numpy_of(array), arrow)


def _saturated(values: Any, bits: int) -> Any:
    """Floating point numbers as integers, like Java: NaN becomes 0, and numbers out of range the nearest limit."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1)
    out = np.zeros(len(values), np.int64)
    inside = (values > low) & (values < high)
    out[inside] = values[inside].astype(np.int64)
    out[values >= high] = high - 1
    out[values <= low] = low
    return out


def _integer_to_decimal(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: fitted(array.cast(pa.int64()).cast(pa.decimal128(19, 0)), target)


def _float_to_decimal(source: AtomicType, target: AtomicType) -> Cast:
    as_text, as_decimal = plain_text(AtomicType("DOUBLE")), to_decimal(target)
    return lambda array: as_decimal(as_text(array.cast(pa.float64())))


def _decimal_to_decimal(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: fitted(array, target)


def _decimal_to_integer(source: AtomicType, target: AtomicType) -> Cast:
    def cast(array: Any) -> Any:
        wide = array.cast(pa.decimal256(WIDE_DIGITS, source.scale))
        whole = pc.trunc(wide).cast(pa.decimal128(38, 0))
        return with_nulls_of(array, unscaled(whole), to_arrow(target))  # the lowest 64 bits, as Java takes them

    return cast


def _decimal_to_float(source: AtomicType, target: AtomicType) -> Cast:
    if source.precision > _COMPACT_DIGITS:
        return lambda array: by_value(array, float, pa.float64()).cast(to_arrow(target), safe=False)
    power = float(10**source.scale)
    return lambda array: with_nulls_of(array, unscaled(array) / power, to_arrow(target))


def _integer_to_boolean(source: AtomicType, target: AtomicType) -> Cast:
    return lambda array: pc.not_equal(array, pa.scalar(0, array.type))


def _boolean_to_number(source: AtomicType, target: AtomicType) -> Cast:
    if target.root == "DECIMAL":
        return lambda array: fitted(array.cast(pa.int8()).cast(pa.decimal128(3, 0)), target)
    return lambda array: array.cast(pa.int8()).cast(to_arrow(target))


def _integer_to_timestamp(source: AtomicType, target: AtomicType) -> Cast | None:
    return seconds_to_timestamp(target) if source.root in ("INT", "BIGINT") else None


def _timestamp_to_integer(source: AtomicType, target: AtomicType) -> Cast | None:
    return timestamp_to_seconds(target) if target.root in ("INT", "BIGINT") else None


# -------------------------------------------------------------------------------------------------------------- bytes


def _bytes_to_bytes(source: AtomicType, target: AtomicType) -> Cast:
    length = target.length
    if target.root == "BINARY":
        zeros = pa.scalar(bytes(length), pa.binary())
        return lambda array: pc.binary_slice(pc.binary_join_element_wise(array, zeros, b""), 0, length)
    return lambda array: array if length == MAX_LENGTH else pc.binary_slice(array, 0, length)


def _text_to_bytes(source: AtomicType, target: AtomicType) -> Cast:
    cut = _bytes_to_bytes(source, target)
    return lambda array: cut(array.cast(pa.binary()))


def _bytes_to_text(source: AtomicType, target: AtomicType) -> Cast:
    """Text is never truncated; bytes that are not UTF-8 are replaced like in Java."""

    def cast(array: Any) -> Any:
        try:
            return array.cast(pa.string())
        except pa.ArrowInvalid:
            return by_value(array, lambda value: value.decode("utf-8", "replace"), pa.string())

    return cast


# -------------------------------------------------------------------------------------------------------------- rules

_Rule = Callable[[AtomicType, AtomicType], "Cast | None"]

_RULES: dict[tuple[str, str], _Rule] = {
    **{(old, new): _number_to_number for old in ("integer", "float") for new in ("integer", "float")},
    ("integer", "decimal"): _integer_to_decimal,
    ("float", "decimal"): _float_to_decimal,
    ("decimal", "decimal"): _decimal_to_decimal,
    ("decimal", "integer"): _decimal_to_integer,
    ("decimal", "float"): _decimal_to_float,
    ("integer", "boolean"): _integer_to_boolean,
    **{("boolean", new): _boolean_to_number for new in ("integer", "float", "decimal")},
    ("integer", "timestamp"): _integer_to_timestamp,
    ("timestamp", "integer"): _timestamp_to_integer,
    ("timestamp", "timestamp"): timestamp_to_timestamp,
    ("timestamp", "date"): lambda source, target: timestamp_to_date,
    ("timestamp", "time"): lambda source, target: timestamp_to_time,
    ("date", "timestamp"): lambda source, target: date_to_timestamp(target),
    ("time", "timestamp"): lambda source, target: time_to_timestamp(target),
    **{(old, "text"): to_text for old in set(_FAMILIES.values()) - {"bytes"}},
    ("bytes", "text"): _bytes_to_text,
    ("bytes", "bytes"): _bytes_to_bytes,
    ("text", "bytes"): _text_to_bytes,
    ("text", "boolean"): lambda source, target: to_boolean,
    ("text", "integer"): lambda source, target: to_integer(target),
    ("text", "float"): lambda source, target: to_double(target),
    ("text", "decimal"): lambda source, target: to_decimal(target),
    ("text", "date"): lambda source, target: to_date,
    ("text", "time"): lambda source, target: to_time,
    ("text", "timestamp"): lambda source, target: to_timestamp(target),
}
