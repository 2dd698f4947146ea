"""How many bytes rows take, and batches cut so that none takes too many.

Owns: `row_bytes`, `widths`, `spans`, `pieces`. Must not know: tables, files.
Invariants: A piece has at least one row, and but for that no more bytes than are asked for. Encoded columns count with what they
stand for: a dictionary of a few long texts becomes large when it is decoded. Arrow's arrays of texts end at 2 GiB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

PIECE_BYTES = 64 << 20
"""No step of a read or a write takes more at once, unless a single row is larger."""
_kinds = pa.types


def row_bytes(array: Any) -> Any:
    """The bytes of each value, about, as a NumPy array.

    >>> row_bytes(pa.array(["abc", None], pa.string())).tolist(), row_bytes(pa.array([[1, 2], []])).tolist()
    ([7, 4], [20, 4])
    """
    t = array.type
    if isinstance(t, pa.BaseExtensionType):
        return row_bytes(array.storage)
    if _kinds.is_dictionary(t):
        known = np.append(row_bytes(array.dictionary), 0)
        return known[pc.fill_null(array.indices.cast(pa.int64()), -1).to_numpy(zero_copy_only=False)]
    if _kinds.is_run_end_encoded(t):
        return row_bytes(array.values)[run_numbers(array)]
    if _kinds.is_string_view(t) or _kinds.is_binary_view(t):
        array = array.cast(pa.large_string() if _kinds.is_string_view(t) else pa.large_binary())
        return pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False) + 4
    if _is_text(t):
        return pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False) + 4
    if _kinds.is_struct(t):
        return sum((row_bytes(part) for part in array.flatten()), np.zeros(len(array), np.int64))
    if _kinds.is_map(t):
        array = array.cast(pa.list_(pa.struct([t.key_field, t.item_field])))
        t = array.type
    if is_list(t):
        ends = np.cumsum(np.concatenate(([0], row_bytes(array.flatten()))))
        places = list_offsets(array)
        return ends[places[1:]] - ends[places[:-1]] + 4
    return np.full(len(array), fixed_bytes(t) or 0)


@lru_cache(maxsize=1024)
def fixed_bytes(t: Any) -> int | None:
    """The bytes of each value of a type, rounded up; None if they vary.

    >>> fixed_bytes(pa.int32()), fixed_bytes(pa.bool_()), fixed_bytes(pa.string())
    (4, 1, None)
    """
    if t == pa.null() or t.num_fields or _is_text(t) or _is_encoded(t) or isinstance(t, pa.BaseExtensionType):
        return None
    try:
        return -(-int(t.bit_width) // 8)
    except ValueError:  # a view
        return None


def run_numbers(array: Any) -> Any:
    rows = np.arange(array.offset, array.offset + len(array))
    return np.searchsorted(np.asarray(array.run_ends), rows, side="right")


def is_list(t: Any) -> bool:
    return bool(
        _kinds.is_list(t)
        or _kinds.is_large_list(t)
        or _kinds.is_fixed_size_list(t)
        or _kinds.is_list_view(t)
        or _kinds.is_large_list_view(t)
    )


def list_offsets(array: Any) -> Any:
    """Where each list begins in `array.flatten()`, and where the last one ends. A null takes no elements."""
    lengths = pc.list_value_length(array)
    if array.null_count:
        lengths = pc.if_else(array.is_valid(), lengths, pa.scalar(0, lengths.type))
    return np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False), dtype=np.int64)))


def spans(sizes: Any, most_bytes: int | None = None) -> Iterator[slice]:
    """Ranges of rows of these sizes that take at most so many bytes each (`PIECE_BYTES` by default), or are one row.

    >>> [(span.start, span.stop) for span in spans([5, 5, 20, 1, 1], 10)]
    [(0, 2), (2, 3), (3, 5)]
    """
    most = PIECE_BYTES if most_bytes is None else most_bytes
    ends, start = np.cumsum(sizes), 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + most, side="right")), start + 1)
        yield slice(start, stop)
        start = stop


def widths(batch: pa.RecordBatch) -> Any:
    fixed = [fixed_bytes(t) for t in batch.schema.types]
    varying = (row_bytes(batch.column(i)) for i, size in enumerate(fixed) if size is None)
    return sum(varying, np.full(batch.num_rows, sum(size or 0 for size in fixed)))


def pieces(batch: pa.RecordBatch, most_bytes: int | None = None) -> Iterator[pa.RecordBatch]:
    """A batch in slices of at most so many bytes, `PIECE_BYTES` by default.

    >>> [part.num_rows for part in pieces(pa.record_batch({"a": ["x" * 50] * 5}), 120)]
    [2, 2, 1]
    """
    most = PIECE_BYTES if most_bytes is None else most_bytes
    if sum(map(_most_bytes, batch.columns)) <= most:
        yield batch
        return
    for span in spans(widths(batch), most):
        yield batch.slice(span.start, span.stop - span.start)


def _most_bytes(array: Any) -> Any:
    """What an array takes at most when it is decoded; infinite if that would have to be computed."""
    t = array.type
    if _kinds.is_dictionary(t):
        return len(array) * (int(row_bytes(array.dictionary).max(initial=0)) + 4)
    try:
        return math.inf if _is_encoded(t) else array.nbytes
    except pa.ArrowTypeError:  # pyarrow up to 21 cannot tell of views
        return math.inf


def _is_text(t: Any) -> bool:
    return bool(
        _kinds.is_string(t)
        or _kinds.is_large_string(t)
        or _kinds.is_binary(t)
        or _kinds.is_large_binary(t)
        or _kinds.is_fixed_size_binary(t)
    )


@lru_cache(maxsize=1024)
def _is_encoded(t: Any) -> bool:
    if _kinds.is_dictionary(t) or _kinds.is_run_end_encoded(t):
        return True
    return any(_is_encoded(t.field(i).type) for i in range(t.num_fields))
