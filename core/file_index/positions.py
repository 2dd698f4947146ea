"""The rows of a growing file by their keys.

Owns: gathering keys batch by batch, and grouping rows by key. Must not know: what is made of them.
Invariant: memory holds a number per row, and every different key about once a batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = Any
"""`numpy.ndarray`"""


@dataclass(frozen=True)
class GroupedRows:
    """Rows by key.

    Attributes:
        keys: `pa.Array`, ascending.
        positions: the rows that have a key, sorted by it, then by position.
        starts, counts: where in `positions` each key's rows are.
        nulls: the rows that have none.
        row_count: all rows.
    """

    keys: Any
    positions: Array
    starts: Array
    counts: Array
    nulls: Array
    row_count: int

    def rows(self, number: int) -> Array:
        """The rows of a key."""
        start = self.starts[number]
        return self.positions[start : start + self.counts[number]]

    def codes(self) -> Array:
        """For each of `positions` the number of its key."""
        return np.repeat(np.arange(len(self.keys)), self.counts)


class KeyedRows:
    """Takes keys (see `keys.key_array`) in the order of their rows."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []

    def add(self, keys: Any) -> None:
        """The next rows."""
        if len(keys):
            self._chunks.append(keys.dictionary_encode())

    def grouped(self) -> GroupedRows:
        """All rows by their keys."""
        if not self._chunks:
            none = np.zeros(0, np.int64)
            return GroupedRows(pa.array([], pa.int64()), none, none, none, none, 0)
        whole = pa.chunked_array(self._chunks).unify_dictionaries()
        dictionary = whole.chunk(0).dictionary
        indices = pa.concat_arrays([chunk.indices for chunk in whole.chunks])
        order = np.asarray(pc.sort_indices(dictionary))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        is_null = np.asarray(indices.is_null())
        nulls, positions = np.flatnonzero(is_null), np.flatnonzero(~is_null)
        codes = rank[np.asarray(indices.drop_null())]
        by_code = np.argsort(codes, kind="stable")
        counts = np.bincount(codes, minlength=len(order))
        starts = np.cumsum(counts) - counts
        keys = dictionary.take(pa.array(order))
        return GroupedRows(keys, positions[by_code], starts, counts, nulls, len(indices))
