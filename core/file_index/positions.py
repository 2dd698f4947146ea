"""The rows of a growing file by their keys.

Owns: gathering keys batch by batch, numbering them in their order. Must not know: what is made of them.
Invariant: memory holds a number per row, and every different key about once a batch.
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
    """All rows, and the number of each one's key.

    Attributes:
        keys: `pa.Array`, ascending, each once.
        positions: the rows that have a key, ascending.
        numbers: of each of these rows the position of its key in `keys`.
        nulls: the rows that have none, ascending.
    """

    keys: Any
    positions: Array
    numbers: Array
    nulls: Array

    @property
    def row_count(self) -> int:
        return len(self.positions) + len(self.nulls)

    def by_key(self) -> tuple[Array, Array]:
        """The rows that have a key, sorted by it, then by position; and how many there are of each key."""
        order = np.argsort(self.numbers, kind="stable")
        return self.positions[order], np.bincount(self.numbers, minlength=len(self.keys))


class KeyedRows:
    """Takes keys (see `keys.key_array`) in the order of their rows."""

    def __init__(self) -> None:
        self._chunks: list[Any] = []

    def add(self, keys: Any) -> None:
        """The next rows."""
        if len(keys):
            self._chunks.append(keys.dictionary_encode())

    def ranked(self) -> RankedRows:
        """All rows by their keys."""
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
