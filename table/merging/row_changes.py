"""The rows of a changelog: what a compaction changed in the rows of each primary key.

Owns: `row_changes`, comparing values. Must not know: files, levels, how the rows before and after were found.
Source: format/lookup-compaction §2.

Invariants: A key without a change has no row. The rows are in the order of the keys; of two rows of one key, -U is the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.metadata.merge_rules import VALUE_KIND
from ...core.typed import Array

_INSERT, _UPDATE_BEFORE, _UPDATE_AFTER, _DELETE = 0, 1, 2, 3


def row_changes(
    before: pa.Table, after: pa.Table, has_before: Array, has_after: Array, compared: Sequence[str] | None
) -> pa.Table:
    """The rows of a changelog for some keys.

    Args:
        before, after: for each key the row before and after, with all columns of a changelog file. A row that is not there may
            be any row.
        has_before, has_after: masks: which of these rows are there. A row that deletes is not.
        compared: if the rows before and after are equal in these columns, nothing has changed; None: they always differ.

    Returns:
        Rows with the columns of `before`. A row that was deleted is the row before, with its sequence number.
    """
    updated = has_before & has_after
    if compared is not None:
        both = np.flatnonzero(updated)
        one, other = before.take(pa.array(both)), after.take(pa.array(both))
        same = np.ones(len(both), bool)
        for name in compared:
            same &= same_values(_whole(one, name), _whole(other, name))
        updated[both[same]] = False
    gone, new = has_before & ~has_after, has_after & ~has_before
    olds, news = np.flatnonzero(updated | gone), np.flatnonzero(updated | new)
    kinds = np.concatenate(
        (np.where(gone[olds], _DELETE, _UPDATE_BEFORE), np.where(new[news], _INSERT, _UPDATE_AFTER))
    ).astype(np.int8)
    keys, is_after = np.concatenate((olds, news)), np.repeat([0, 1], [len(olds), len(news)])
    order = np.lexsort((is_after, keys))
    rows = pa.concat_tables([before.take(pa.array(olds)), after.take(pa.array(news))]).take(pa.array(order))
    at = rows.schema.get_field_index(VALUE_KIND.name)
    return rows.set_column(at, rows.schema.field(at), pa.array(kinds[order]))


def same_values(one: Any, other: Any) -> Array:
    """Which values of two arrays of one type are equal, as Apache Paimon has it: nulls are, NaN equals nothing, and -0.0 is 0.0.

    >>> lists = pa.array([[1], [2, None], None]), pa.array([[1], [2, 3], None])
    >>> same_values(*lists).tolist()
    [True, False, True]
    """
    kind = one.type
    if isinstance(one, pa.ExtensionArray):
        return same_values(one.storage, other.storage)
    valid, other_valid = _valid(one), _valid(other)
    there = valid & other_valid
    same = ~valid & ~other_valid
    if pa.types.is_struct(kind):
        parts = zip(one.flatten(), other.flatten(), strict=True)
        return np.asarray(same | (there & np.logical_and.reduce([same_values(*part) for part in parts] or [there])))
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return np.asarray(same | _same_lists(one, other, there))
    if pa.types.is_fixed_size_list(kind):
        as_list = pa.list_(kind.value_field)
        return np.asarray(same | _same_lists(one.cast(as_list), other.cast(as_list), there))
    equal = pc.equal(one, other).fill_null(False)
    return np.asarray(same | equal.to_numpy(zero_copy_only=False))


def _same_lists(one: Any, other: Any, there: Array) -> Array:
    starts, other_starts = (array.offsets.to_numpy()[:-1].astype(np.int64) for array in (one, other))
    lengths, other_lengths = (np.diff(array.offsets.to_numpy()) for array in (one, other))
    same: Array = there & (lengths == other_lengths)
    rows = np.flatnonzero(same & (lengths > 0))
    if not len(rows):
        return same
    sizes = lengths[rows].astype(np.int64)
    begins = np.cumsum(sizes) - sizes
    steps = np.arange(sizes.sum()) - np.repeat(begins, sizes)
    places = pa.array(np.repeat(starts[rows], sizes) + steps)
    other_places = pa.array(np.repeat(other_starts[rows], sizes) + steps)
    equal = np.ones(len(places), bool)
    for values, other_values in zip(_values(one), _values(other), strict=True):
        equal &= same_values(values.take(places), other_values.take(other_places))
    same[rows] = np.logical_and.reduceat(equal, begins)
    return same


def _values(array: Any) -> list[Any]:
    return [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]


def _valid(array: Any) -> Array:
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False), bool)


def _whole(rows: pa.Table, name: str) -> Any:
    combined = rows.column(name).combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
