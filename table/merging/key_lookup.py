"""Find rows by their primary key.

Owns: `KeySet`. Must not know: files, levels. Source: format/lookup-compaction §1.

Invariants: Two keys are the same if `core.rows.value_numbers` says so: nulls are equal, -0.0 differs from 0.0, NaNs are equal.
Memory holds the keys that are looked for, and a few numbers for each row of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.typed import Array
from .codes import float_codes

NOT_FOUND = -1


class KeySet:
    """Keys that are looked for.

    Args:
        columns: the key columns, as Arrow arrays. No key is there twice.

    >>> wanted = KeySet([pa.array([7, 3, None]), pa.array(["x", "x", "y"])])
    >>> wanted.places([pa.array([3, None, 3]), pa.array(["x", "y", "y"])]).tolist()
    [1, 2, -1]
    """

    def __init__(self, columns: Sequence[Any]) -> None:
        self._values: list[Any] = []
        self._combined: list[Array] = []
        numbers = np.zeros(len(columns[0]), np.int64)
        for column in map(_comparable, columns):
            values = column.unique()
            codes = _index_in(column, values)
            numbers, combined = _numbered(numbers * len(values) + codes)
            self._values.append(values)
            self._combined.append(combined)
        self._places = np.empty(len(numbers), np.int64)
        self._places[numbers] = np.arange(len(numbers))

    def __len__(self) -> int:
        return len(self._places)

    def places(self, columns: Sequence[Any]) -> Array:
        """For each row, the position of its key among the keys that are looked for; -1 for another key.

        Args:
            columns: the key columns of some rows, of the same types.
        """
        numbers = np.zeros(len(columns[0]), np.int64)
        for column, values, combined in zip(map(_comparable, columns), self._values, self._combined, strict=True):
            codes = _index_in(column, values)
            wanted = numbers * len(values) + codes
            at = np.minimum(np.searchsorted(combined, wanted), max(len(combined) - 1, 0))
            found = (numbers >= 0) & (codes >= 0)
            if len(combined):
                found &= combined[at] == wanted
            numbers = np.where(found, at, NOT_FOUND)
        if not len(self):
            return numbers
        return np.where(numbers >= 0, self._places[numbers], NOT_FOUND)


def _numbered(codes: Array) -> tuple[Array, Array]:
    """A number for each code, in the order of codes, and the codes by number."""
    combined, numbers = np.unique(codes, return_inverse=True)
    return np.asarray(numbers, np.int64), np.asarray(combined, np.int64)


def _comparable(column: Any) -> Any:
    """A column whose equal values are the same key."""
    if not pa.types.is_floating(column.type):
        return column
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy().astype(np.float64)
    return pa.array(float_codes(values), mask=~valid)


def _index_in(column: Any, values: Any) -> Array:
    found = pc.index_in(column, value_set=values)
    return np.asarray(found.fill_null(NOT_FOUND).to_numpy(zero_copy_only=False), np.int64)
