"""Find rows by their primary key.

Owns: `KeySet`. Must not know: files, levels. Source: format/lookup-compaction §1.
Invariants: Two keys are the same if `core.rows.value_numbers` says so: nulls are equal, -0.0 differs from 0.0, NaNs are equal.
Memory holds the keys that are looked for, and a few numbers for each row of a batch. Where the first key column is of numbers and
ascends, as in sorted files, the keys are searched for in it, and no other row is looked at.
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
    """Keys that are looked for, given by their columns. No key is there twice.

    >>> wanted = KeySet([pa.array([7, 3, None]), pa.array(["x", "x", "y"])])
    >>> wanted.places([pa.array([3, None, 3]), pa.array(["x", "y", "y"])]).tolist()
    [1, 2, -1]
    >>> rows, places = wanted.find([pa.array([1, 3, 5, 7]), pa.array(["x", "x", "x", "x"])])
    >>> rows.tolist(), places.tolist()
    ([1, 3], [1, 0])
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
        searched = _numbers(columns[0])
        self._searched = None if searched is None else np.unique(searched)

    def __len__(self) -> int:
        return len(self._places)

    def places(self, columns: Sequence[Any]) -> Array:
        """For each row, the position of its key among the keys that are looked for; -1 for another key."""
        rows, found = self.find(columns)
        places = np.full(len(columns[0]), NOT_FOUND)
        places[rows] = found
        return places

    def find(self, columns: Sequence[Any]) -> tuple[Array, Array]:
        """The rows whose keys are looked for, ascending, and the position of each one's key."""
        rows = self._search(columns[0])
        if rows is not None:
            columns = [column.take(pa.array(rows)) for column in columns]
        places = self._look_at(columns)
        found = np.flatnonzero(places >= 0)
        return found if rows is None else rows[found], places[found]

    def _search(self, column: Any) -> Array | None:
        """The rows whose first value is looked for; None where it cannot be searched."""
        values, searched = _numbers(column), self._searched
        if values is None or searched is None or not len(values) or (values[1:] < values[:-1]).any():
            return None
        wanted = searched[np.searchsorted(searched, values[0]) : np.searchsorted(searched, values[-1], "right")]
        if len(wanted) > len(values):
            return None
        begins, ends = np.searchsorted(values, wanted), np.searchsorted(values, wanted, "right")
        counts = ends - begins
        skipped = np.cumsum(counts) - counts
        return np.repeat(begins - skipped, counts) + np.arange(counts.sum())

    def _look_at(self, columns: Sequence[Any]) -> Array:
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
    combined, numbers = np.unique(codes, return_inverse=True)
    return np.asarray(numbers, np.int64), np.asarray(combined, np.int64)


def _numbers(column: Any) -> Array | None:
    """The values of a column of whole numbers, dates or times, as they lie in memory; None for another one, or with nulls."""
    kind = column.type
    if column.null_count or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)) or pa.types.is_interval(kind):
        return None
    if pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return np.asarray(column)


def _comparable(column: Any) -> Any:
    """A column whose equal values are the same key."""
    if not pa.types.is_floating(column.type):
        return column
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    values = column.fill_null(0).to_numpy().astype(np.float64)
    return pa.array(float_codes(values), mask=~valid)


def _index_in(column: Any, values: Any) -> Array:
    found = pc.index_in(column, value_set=values)
    return np.asarray(found.fill_null(NOT_FOUND).to_numpy(), np.int64)
