"""Which rows of a source have the keys of a row of the table.

Owns: `KeyJoin`. Must not know: clauses, where rows come from.
Source: format/binary-row §2 (floats). Invariants: A null never equals anything. 0.0 equals -0.0, and NaN equals NaN, as in SQL.
No Python code runs per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.expressions.functions import as_type, unified
from ...core.expressions.scope import Scope
from .operation import distinct

_is = pa.types


class KeyJoin:
    """Finds the rows of a source by their keys, which have the types of `common`.

    >>> join = KeyJoin([pa.array([7, None, 8, 7])], 4)
    >>> [found.tolist() for found in join.pairs([pa.array([8, None, 7])], 3)]
    [[0, 2, 2], [2, 0, 3]]
    """

    def __init__(self, keys: Sequence[pa.Array], rows: int) -> None:
        self._rows = rows
        self._columns: list[_Column] = []
        self._combined: list[Any] = []
        codes = np.zeros(rows, np.int64)
        for key in keys:
            column = _Column(key)
            found = column.codes(key)
            both = np.where((codes < 0) | (found < 0), -1, codes * column.size + found)
            known = distinct(both[both >= 0])
            codes = _places(known, both)
            self._columns.append(column)
            self._combined.append(known)
        by_code = np.argsort(codes, kind="stable")
        self._order = by_code[np.searchsorted(codes[by_code], 0) :]
        size = int(codes.max(initial=-1)) + 1
        self._starts = np.searchsorted(codes[self._order], np.arange(size + 1))

    def pairs(self, keys: Sequence[pa.Array], rows: int) -> tuple[Any, Any]:
        """The pairs of rows with equal keys: places in the batch, ascending, and places in the source."""
        codes = np.zeros(rows, np.int64)
        for column, known, key in zip(self._columns, self._combined, keys, strict=True):
            found = column.codes(key)
            codes = _places(known, np.where((codes < 0) | (found < 0), -1, codes * column.size + found))
        if not len(self._order):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        here = np.flatnonzero(codes >= 0)
        starts = self._starts[codes[here]]
        counts = self._starts[codes[here] + 1] - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(here, counts), self._order[np.repeat(starts, counts) + within]


def _places(known: Any, values: Any) -> Any:
    """The place of each value among the distinct ones, -1 for others."""
    if not len(known):
        return np.full(len(values), -1, np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, places, -1)


class _Column:
    def __init__(self, values: pa.Array) -> None:
        self._numbers = _integers(values)
        if self._numbers is not None:
            self._distinct = distinct(self._numbers[0][self._numbers[1]])
            self.size = max(len(self._distinct), 1)
            self._numbers = (self._distinct, self._distinct)
        else:
            self._set = pc.unique(_plain(values)).drop_null()
            self.size = max(len(self._set), 1)

    def codes(self, values: pa.Array) -> Any:
        """A number for each value, -1 for nulls and values that the source does not have."""
        if self._numbers is not None:
            numbers = _integers(values)
            assert numbers is not None
            return np.where(numbers[1], _places(self._distinct, numbers[0]), -1)
        found = pc.index_in(_plain(values), value_set=self._set)
        return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _integers(values: pa.Array) -> tuple[Any, Any] | None:
    """The values as integers, and which are not null; None for other types."""
    t = values.type
    if _is.is_boolean(t) or not (_is.is_integer(t) or _is.is_temporal(t)) or _is.is_interval(t):
        return None
    if _is.is_uint64(t):
        return None
    valid = pc.is_valid(values).to_numpy(zero_copy_only=False)
    wide = values if _is.is_integer(t) else values.cast(pa.int32() if t.bit_width == 32 else pa.int64())
    return pc.fill_null(wide.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), valid


def _plain(values: pa.Array) -> pa.Array:
    """Values that are equal have equal bytes: 0.0 for -0.0."""
    if not _is.is_floating(values.type):
        return values
    return pc.add(values.cast(pa.float64()), 0.0)


def as_common(where: str, column: pa.Array, target: pa.DataType) -> pa.Array:
    """A key column as the type that both sides have in common."""
    return as_type(Scope(where), column, target)


def common(where: str, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Key columns of both sides with one type. Refuses columns that have none."""
    return unified(Scope(where), columns)
