"""About how many different values a column has, in bounded memory.

Owns: `DistinctCounter`. Must not know: files. Invariant: up to `SMALLEST` different values the count is exact; beyond, it is
right to a percent or so (the smallest hashes stand for all: the closer they are, the more there are).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..typed import Array

SMALLEST = 1 << 16
_ALL = float(1 << 64)


class DistinctCounter:
    """Counts the different values of batches, without nulls. NaN is one value, and so are both zeros.

    >>> counter = DistinctCounter()
    >>> counter.update(pa.array(["a", None, "b"]))
    >>> counter.update(pa.array(["b"]))
    >>> counter.count
    2
    """

    def __init__(self) -> None:
        self._hashes: Array = np.zeros(0, np.uint64)
        self._is_full = False

    def update(self, array: Any) -> None:
        found = np.unique(_hashes(array))
        if self._is_full:
            found = found[found <= self._hashes[-1]]
        if len(found):
            merged = np.union1d(self._hashes, found)
            self._is_full = self._is_full or len(merged) > SMALLEST
            self._hashes = merged[:SMALLEST]

    @property
    def count(self) -> int:
        if not self._is_full:
            return len(self._hashes)
        return round((SMALLEST - 1) / ((float(self._hashes[-1]) + 1) / _ALL))


def _hashes(array: Any) -> Array:
    values = pc.unique(pc.drop_null(array))
    kind = values.type
    if pa.types.is_floating(kind):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        numbers[np.isnan(numbers)] = np.nan
        return _mixed(numbers.view(np.uint64))
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        wide = values.cast(pa.int32()).cast(pa.int64()) if _bits(kind) == 32 else values.cast(pa.int64())
        return _mixed(wide.to_numpy(zero_copy_only=False).view(np.uint64))
    hashed = np.fromiter((hash(value) for value in values.to_pylist()), np.int64, len(values))
    return _mixed(hashed.view(np.uint64))


def _bits(kind: Any) -> int:
    return int(kind.bit_width) if pa.types.is_temporal(kind) else 64


def _mixed(bits: Array) -> Array:
    """Hashes whose bits all depend on all bits of the values (splitmix64)."""
    out: Array = bits + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        out = (out ^ (out >> np.uint64(shift))) * np.uint64(factor)
    out ^= out >> np.uint64(31)
    return out
