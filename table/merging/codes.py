"""Numbers that compare like the values of a column, so that NumPy can sort rows of any type.

Owns: `ordered_codes`. Must not know: keys, engines. Source: format/primary-keys §3.

Invariants: Nulls are equal, and below every value. -0.0 is below 0.0, and all NaNs are equal and above every number, as in Java.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.typed import Array


def ordered_codes(array: Any) -> Array:
    numbers = _numbers(array)
    if numbers is not None:
        return numbers
    codes, values = _dictionary(array)
    ranks = np.empty(len(values) + 1, np.int64)
    ranks[0] = -1  # the code of null
    ranks[pc.sort_indices(values).to_numpy().astype(np.int64) + 1] = np.arange(len(values))
    return np.asarray(ranks[codes + 1], np.int64)


def _numbers(array: Any) -> Array | None:
    """The values of a column without nulls whose type fits into 64 bits; None for other columns."""
    kind = array.type
    if array.null_count or pa.types.is_decimal(kind):
        return None
    if pa.types.is_floating(kind):
        return float_codes(array.to_numpy().astype(np.float64))
    if pa.types.is_integer(kind):
        return np.asarray(array.to_numpy(), np.int64)
    if pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        number = pa.int32() if kind.bit_width == 32 else pa.int64()
        return np.asarray(array.view(number).to_numpy(), np.int64)
    return None


def float_codes(values: Array) -> Array:
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFF_FFFF_FFFF_FFFF), bits)


def _dictionary(array: Any) -> tuple[Array, Any]:
    """The number of each row's value among the different values, -1 for null; and these values."""
    if pa.types.is_floating(array.type):
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        bits = float_codes(array.fill_null(0).to_numpy().astype(np.float64))
        array = pa.array(bits, mask=~valid)
    if pa.types.is_boolean(array.type):
        array = array.cast(pa.int8())
    encoded = array.dictionary_encode()
    return np.asarray(encoded.indices.fill_null(-1).to_numpy(), np.int64), encoded.dictionary
