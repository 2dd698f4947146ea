"""The smallest and largest value of Arrow columns, in the format's order.

Owns: the bounds of an array, the bounds in a Parquet footer, truncation. Must not know: modes, manifests, encoded rows.
Source: format/statistics §2; format/binary-row §2. Invariant: Bounds include every non-null value, also NaN and signed zeros.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..rows.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, DataType, Field
from ..rows.values import arrow_scalar_value, order_key, plain_array, root_of

_WITH_BOUNDS = frozenset(
    (
        "BOOLEAN",
        "FLOAT",
        "DOUBLE",
        "DECIMAL",
        "DATE",
        "TIME",
        *INTEGER_ROOTS,
        *STRING_ROOTS,
        *BINARY_ROOTS,
        *TIMESTAMP_ROOTS,
    )
)


class Bounds(NamedTuple):
    min: Any
    max: Any


_UNKNOWN = Bounds(None, None)


def has_bounds(data_type: DataType) -> bool:
    """Does the format store a minimum and maximum for the type? Not for types with parts, VARIANT, BLOB, GEOMETRY."""
    return root_of(data_type) in _WITH_BOUNDS


def array_bounds(array: Any, data_type: DataType) -> Bounds | None:
    array = plain_array(array)
    if pa.types.is_floating(array.type):
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        found = [b for b in map(_float_bounds, chunks) if b is not None]
        return _enclosing(found)
    pair = pc.min_max(array)
    if not pair["min"].is_valid:
        return None
    try:
        return Bounds(arrow_scalar_value(pair["min"], data_type), arrow_scalar_value(pair["max"], data_type))
    except (InvalidArgument, UnicodeDecodeError):
        return _UNKNOWN  # invalid text, or a number that is no time of day: unknown bounds are safe


def _enclosing(found: list[Bounds]) -> Bounds | None:
    if not found:
        return None
    return Bounds(min((b.min for b in found), key=order_key), max((b.max for b in found), key=order_key))


def _float_bounds(array: Any) -> Bounds | None:
    """Bounds in which NaN is the largest value and -0.0 is below 0.0. Arrow ignores NaN and treats both zeros as equal."""
    if array.null_count == len(array):
        return None
    pair = _min_max_with_nan(array)
    low, high = pair
    if low == 0 or high == 0:
        is_zero = pc.equal(array, 0.0)
        zeros = pc.filter(array, pc.fill_null(is_zero, False))
        signs = set(pc.unique(pc.divide(pa.scalar(1.0, array.type), zeros)).to_pylist())
        if low == 0:
            low = -0.0 if -math.inf in signs else 0.0
        if high == 0:
            high = 0.0 if math.inf in signs else -0.0
    return Bounds(low, high)


def _min_max_with_nan(array: Any) -> tuple[float, float]:
    if array.null_count == 0:
        numbers = array.to_numpy(zero_copy_only=True)
        low, high = (
            float(numbers.min()),
            float(numbers.max()),
        )  # NumPy returns NaN if there is one, and is faster than min_max
        if high == high:
            return low, high
        has_nan = True
    else:
        has_nan = bool(pc.any(pc.is_nan(array)).as_py())
    pair = pc.min_max(array)
    return pair["min"].as_py(), math.nan if has_nan else pair["max"].as_py()


# ------------------------------------------------------------------------------------------------------------ footers


def footer_bounds(footer: Any, field: Field) -> Bounds | None:
    """The untruncated bounds of a text column in a Parquet footer: unknown if a row group lacks them, None without values."""
    columns = [footer.schema.column(i) for i in range(footer.num_columns)]
    # The path "a.b" can be field b of a ROW a, or a column of that name.
    index = next((i for i, c in enumerate(columns) if c.path == c.name == field.name), None)
    if index is None:
        return _UNKNOWN
    found: list[Bounds] = []
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(index)
        statistics = chunk.statistics
        if statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values:
            continue
        if statistics is None or not statistics.has_min_max:
            return _UNKNOWN
        low, high = _raw_bytes(statistics.min_raw), _raw_bytes(statistics.max_raw)
        try:
            found.append(Bounds(low.decode(), high.decode()))
        except UnicodeDecodeError:
            return _UNKNOWN
    return _enclosing(found)


def _raw_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


# --------------------------------------------------------------------------------------------------------- truncation


def truncated(bounds: Bounds, length: int) -> Bounds:
    """Text cut to this many code points (format/statistics §2). Both bounds are unknown if the maximum cannot be raised.

    >>> truncated(Bounds("Two roads diverged", "Whether I shall turn"), 16)
    Bounds(min='Two roads diverg', max='Whether I shall!')
    """
    low, high = bounds
    if not isinstance(low, str) or not isinstance(high, str):
        return bounds
    if len(high) > length:
        high = _raised(high[:length])
        if high is None:
            return _UNKNOWN
    return Bounds(low[:length], high)


def _raised(text: str) -> str | None:
    for end in range(len(text), 0, -1):
        point = ord(text[end - 1]) + 1
        if point == 0xD800:
            point = 0xE000  # surrogates are not characters, and have no UTF-8 form
        if point <= sys.maxunicode:
            return text[: end - 1] + chr(point)
    return None
