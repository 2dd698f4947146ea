"""Numbers for values of any type: two values of a column share one only if they are equal, as Apache Paimon 2.0 has it.

Owns: `value_numbers`, `row_numbers`, `same_values`. Must not know: keys, changelogs.
Invariants: Nulls are equal, NaN equals NaN, 0.0 differs from -0.0, and the order of a map's entries means nothing, at any depth.
Nothing is done value by value: columns become numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..typed import Array

_NULL = -1


def value_numbers(array: Any) -> Array:
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return value_numbers(array.storage)
    if pa.types.is_struct(kind):
        rows = row_numbers([value_numbers(child) for child in array.flatten()] or [np.zeros(len(array), np.int64)])
        return np.asarray(np.where(_valid(array), rows, _NULL))
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        return _numbers_of_lists(array, value_numbers(entries), array.offsets.to_numpy(), is_sorted=False)
    if pa.types.is_fixed_size_list(kind):
        offsets = (array.offset + np.arange(len(array) + 1)) * kind.list_size
        return _numbers_of_lists(array, value_numbers(array.values), offsets, is_sorted=True)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _numbers_of_lists(array, value_numbers(array.values), array.offsets.to_numpy(), is_sorted=True)
    if pa.types.is_floating(kind):
        array = _bits(array)
    if pa.types.is_null(kind):
        return np.full(len(array), _NULL)
    indices = pc.fill_null(array.dictionary_encode().indices, _NULL)
    return np.asarray(indices.to_numpy(zero_copy_only=False), np.int64)


def same_values(one: Any, other: Any) -> Array:
    """Which values of two arrays of one type are equal.

    >>> same_values(pa.array([[1], [2, None], None]), pa.array([[1], [2, 3], None])).tolist()
    [True, False, True]
    """
    numbers = value_numbers(pa.concat_arrays([one, other]))
    return np.asarray(numbers[: len(one)] == numbers[len(one) :])


def _valid(array: Any) -> Any:
    return array.is_valid().to_numpy(zero_copy_only=False)


def _bits(array: pa.Array) -> pa.Array:
    values = array.fill_null(0).to_numpy(zero_copy_only=False).copy()
    values[np.isnan(values)] = np.nan
    bits = values.view({2: np.int16, 4: np.int32, 8: np.int64}[values.dtype.itemsize])
    return pa.array(bits, mask=~_valid(array))


def row_numbers(columns: Sequence[Array]) -> Array:
    rows = columns[0]
    for column in columns[1:]:  # two at a time, so that a pair fits into one number
        spread = int(column.max(initial=0)) + 2
        rows = value_numbers(pa.array((rows + 1) * spread + (column + 1)))
    return value_numbers(pa.array(rows)) if len(columns) == 1 else rows


def _numbers_of_lists(array: Any, values: Array, offsets: Array, is_sorted: bool) -> Array:
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
    return np.asarray(np.where(valid, value_numbers(texts), _NULL))
