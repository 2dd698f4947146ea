"""The rows by which two tables differ, where order means nothing and equal rows are counted.

Owns: numbering equal rows, choosing those that one side has more often, and those that the other side has too.
Must not know: files, snapshots.
Invariants: Values are compared as they are stored, so nulls are equal, NaN equals NaN, and 0.0 differs from -0.0. Nothing is done
row by row: columns become numbers, and numbers become rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NULL = -1


def differing_rows(before: pa.Table, after: pa.Table) -> tuple[Any, Any]:
    """The positions of the rows of `before` that `after` lacks, and of those of `after` that `before` lacks, ascending.

    Args:
        before, after: with the same columns.

    >>> one, other = pa.table({"a": [1, 2, 2, 3]}), pa.table({"a": [2, 3, 3]})
    >>> [positions.tolist() for positions in differing_rows(one, other)]
    [[0, 2], [2]]
    """
    both = pa.concat_tables([before, after])
    if not both.num_rows or not both.num_columns:
        shorter = min(before.num_rows, after.num_rows)
        return np.arange(shorter, before.num_rows), np.arange(shorter, after.num_rows)
    columns = [_numbers(_combined(column)) for column in both.columns]
    rows = _numbers_of_rows(columns)
    old, new = rows[: before.num_rows], rows[before.num_rows :]
    kinds = int(rows.max()) + 1
    return _surplus(old, new, kinds), _surplus(new, old, kinds)


def rows_with_partner(one: pa.Table, other: pa.Table) -> tuple[Any, Any]:
    """For each row of either table, whether the other table has an equal row.

    >>> [found.tolist() for found in rows_with_partner(pa.table({"k": [1, 2]}), pa.table({"k": [2, 3]}))]
    [[False, True], [True, False]]
    """
    both = pa.concat_tables([one, other])
    if not both.num_rows:
        return np.zeros(0, bool), np.zeros(0, bool)
    rows = _numbers_of_rows([_numbers(_combined(column)) for column in both.columns])
    old, new = rows[: one.num_rows], rows[one.num_rows :]
    return np.isin(old, new), np.isin(new, old)


def _surplus(one: Any, other: Any, kinds: int) -> Any:
    """The positions of the rows of one side that come after as many equal rows as the other side has."""
    order = np.argsort(one, kind="stable")
    counts = np.bincount(one, minlength=kinds)
    rank = np.empty(len(one), np.int64)
    rank[order] = np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.flatnonzero(rank >= np.bincount(other, minlength=kinds)[one])


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def _numbers(array: pa.Array) -> Any:
    """A number for each value, the same for equal values; -1 for null."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _numbers(array.storage)
    if pa.types.is_struct(kind):
        rows = _numbers_of_rows([_numbers(child) for child in array.flatten()] or [np.zeros(len(array), np.int64)])
        return np.where(_valid(array), rows, _NULL)
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        return _numbers_of_lists(array, _numbers(entries), array.offsets.to_numpy(), is_sorted=False)
    if pa.types.is_fixed_size_list(kind):
        offsets = (array.offset + np.arange(len(array) + 1)) * kind.list_size
        return _numbers_of_lists(array, _numbers(array.values), offsets, is_sorted=True)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _numbers_of_lists(array, _numbers(array.values), array.offsets.to_numpy(), is_sorted=True)
    if pa.types.is_floating(kind):
        array = _bits(array)
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL)
    indices = pc.fill_null(array.dictionary_encode().indices, _NULL)
    return indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _valid(array: pa.Array) -> Any:
    return array.is_valid().to_numpy(zero_copy_only=False)


def _bits(array: pa.Array) -> pa.Array:
    """Floats as whole numbers, by which -0.0 differs from 0.0 and every NaN is the same."""
    values = array.fill_null(0).to_numpy(zero_copy_only=False).copy()
    values[np.isnan(values)] = np.nan
    bits = values.view({2: np.int16, 4: np.int32, 8: np.int64}[values.dtype.itemsize])
    return pa.array(bits, mask=~_valid(array))


def _numbers_of_rows(columns: Sequence[Any]) -> Any:
    """A number for each row of several columns of numbers."""
    rows = columns[0]
    for column in columns[1:]:  # two at a time, so that a pair fits into one number
        spread = int(column.max(initial=0)) + 2
        rows = _numbers(pa.array((rows + 1) * spread + (column + 1)))
    return _numbers(pa.array(rows)) if len(columns) == 1 else rows


def _numbers_of_lists(array: pa.Array, values: Any, offsets: Any, is_sorted: bool) -> Any:
    """A number for each list of numbered values; the order of a map's entries means nothing."""
    valid = _valid(array)
    lengths = np.where(valid, np.diff(offsets), 0)
    positions = np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
    taken = values[positions]
    if not is_sorted:
        taken = taken[np.lexsort((taken, np.repeat(np.arange(len(lengths)), lengths)))]
    ends = np.concatenate(([0], np.cumsum(lengths))) * taken.itemsize
    texts = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(lengths), [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(taken)]
    )
    return np.where(valid, _numbers(texts), _NULL)
