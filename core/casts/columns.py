"""Building blocks of casts: conversion to NumPy and back, conversion of single values, and fitting of decimals.

Owns: `Cast`, `CastFailure` and the conversions between forms. Must not know: which casts exist. Source: format/schema §5.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..rows.types import AtomicType
from ..rows.values import EXACT

Cast = Callable[[Any], Any]

WIDE_DIGITS = 76
"""Enough digits for every decimal at every scale."""


class CastFailure(Exception):
    """A value cannot be converted to the new type; Apache Paimon fails to read it too."""


def numpy_of(array: Any) -> Any:
    """The values as a NumPy array, with 0 for null."""
    return pc.fill_null(array, 0).to_numpy(zero_copy_only=False) if array.null_count else array.to_numpy()


def with_nulls_of(array: Any, values: Any, arrow: Any) -> Any:
    with np.errstate(over="ignore"):
        made = values.astype(arrow.to_pandas_dtype())
    return pa.array(made, arrow, mask=array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None)


def by_value(array: Any, convert: Callable[[Any], Any], arrow: Any) -> Any:
    """Convert each distinct value once, to what `pa.array` accepts for `arrow`, or to None. May raise OverflowError."""
    floating = pa.types.is_floating(array.type)
    bits = pa.int64() if array.type == pa.float64() else pa.int32()  # keeps 0.0 and -0.0 apart
    encoded = (array.view(bits) if floating else array).dictionary_encode()
    distinct = encoded.dictionary.view(array.type) if floating else encoded.dictionary
    try:
        made = pa.array([convert(value) for value in distinct.to_pylist()], arrow)
    except pa.ArrowInvalid as error:
        raise OverflowError(str(error)) from error
    return made.take(encoded.indices)


def unscaled(array: Any) -> Any:
    """The lowest 64 bits of the unscaled decimals; arbitrary for nulls."""
    _, data = array.buffers()
    words = np.frombuffer(data, np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]


def fitted(array: Any, target: AtomicType) -> Any:
    """Decimals rounded half up to the scale of `target`, or null if the digits before the point do not fit."""
    scale = max(array.type.scale, target.scale)
    wide = array.cast(pa.decimal256(WIDE_DIGITS, scale))
    if scale > target.scale:
        rounded = pc.round(wide, target.scale, "half_towards_infinity")
        wide = rounded.cast(pa.decimal256(WIDE_DIGITS, target.scale))
    most = pa.scalar(Decimal(10**target.precision - 1).scaleb(-target.scale, EXACT), wide.type)
    fits = pc.less_equal(pc.abs(wide), most)
    return pc.if_else(fits, wide, pa.scalar(None, wide.type)).cast(pa.decimal128(target.precision, target.scale))
