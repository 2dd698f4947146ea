"""Collects the rows of a growing file by their keys.

Owns: collecting keys batch by batch, and numbering them in order. Must not know: the use of the numbers.
Invariant: Memory holds one number per row, and each distinct key about once per batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..typed import Array


@dataclass(frozen=True)
class RankedRows:
    """The rows of a file, all in ascending order, with the number of the key of each.

    Attributes:
        keys: a `pa.Array` of distinct keys.
        numbers: for each of these, the index of its key in `keys`.
    """

    keys: Any
    positions: Array
    numbers: Array
    nulls: Array

    @property
    def row_count(self) -> int:
        return len(self.positions) + len(self.nulls)

    def by_key(self) -> tuple[Array, Array]:
        """The rows that have a key, sorted by key and position, and the number of rows of each key."""
        order = np.argsort(self.numbers, kind="stable")
        return self.positions[order], np.bincount(self.numbers, minlength=len(self.keys))


class KeyedRows:
    def __init__(self) -> None:
        self._chunks: list[Any] = []

    def add(self, keys: Any) -> None:
        if len(keys):
            self._chunks.append(keys.dictionary_encode())

    def ranked(self) -> RankedRows:
        if not self._chunks:
            none = np.zeros(0, np.int64)
            return RankedRows(pa.array([], pa.int64()), none, none, none)
        whole = pa.chunked_array(self._chunks).unify_dictionaries()
        dictionary = whole.chunk(0).dictionary
        indices = pa.concat_arrays([chunk.indices for chunk in whole.chunks])
        order = np.asarray(pc.sort_indices(dictionary))
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        is_null = np.asarray(indices.is_null())
        numbers = rank[np.asarray(indices.drop_null())]
        keys = dictionary.take(pa.array(order))
        return RankedRows(keys, np.flatnonzero(~is_null), numbers, np.flatnonzero(is_null))
