"""Decimals as whole numbers of their smallest unit, and back.

Owns: `decimal_units`, `decimal_array`. Must not know: precisions: a number that has more digits than its type stays as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ....core.typed import Array

_WORD = 2**64


def decimal_units(array: Any) -> Array:
    """The units of decimals of 128 bits, as Python's numbers; 0 for null.

    >>> from decimal import Decimal
    >>> decimal_units(pa.array([Decimal("-1.50"), None, Decimal("99")], pa.decimal128(38, 2))).tolist()
    [-150, 0, 9900]
    """
    if not len(array):
        return np.zeros(0, object)
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    low, high = words[:, 0], words[:, 1]
    units = low.astype(object)
    wide = np.flatnonzero(high != low >> 63)
    units[wide] = high[wide].astype(object) * _WORD + low[wide].view(np.uint64).astype(object)
    if array.null_count:
        units[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return units


def decimal_array(units: Array, has: Array, kind: Any) -> Any:
    """Decimals of a type of 128 bits; null where `has` is false.

    >>> decimal_array(np.array([-150, 7, 12345], object), np.array([True, False, True]), pa.decimal128(4, 2)).to_pylist()
    [Decimal('-1.50'), None, Decimal('123.45')]
    """
    known = np.where(has, units, 0)
    words = np.empty((len(known), 2), np.uint64)
    words[:, 0] = known & (_WORD - 1)
    words[:, 1] = (known >> 64) & (_WORD - 1)
    valid = pa.py_buffer(np.packbits(has, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(known), [valid, pa.py_buffer(words.tobytes())])
