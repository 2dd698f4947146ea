"""Builds bitmap indexes.

Owns: writing the bytes of versions 1 and 2. Must not know: how they are read (see `bitmap`), containers.
Source: format/file-indexes §3. Apache Paimon writes the bitmaps in the order of a hash table; here they are sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import InvalidArgument
from ...typed import Array
from ..keys import KeyForm
from ..positions import KeyedRows
from .bitmap import VERSION_1, VERSION_2
from .roaring import bitmap_of, serialized

DEFAULT_BLOCK_BYTES = 16 << 10


class BitmapBuilder:
    """`block_bytes` is the maximum size of a block of values, for version 2."""

    def __init__(self, form: KeyForm, version: int, block_bytes: int) -> None:
        if version not in (VERSION_1, VERSION_2):
            raise InvalidArgument(f"a bitmap index has version {VERSION_1} or {VERSION_2}, not {version}")
        self._form, self._version, self._block_bytes = form, version, block_bytes
        self._rows = KeyedRows()

    def add(self, keys: Any) -> None:
        self._rows.add(keys)

    def finish(self) -> bytes:
        ranked = self._rows.ranked()
        positions, counts = ranked.by_key()
        starts = np.cumsum(counts) - counts
        bodies: list[bytes] = []
        at = 0
        null_offset, null_length = 0, 0
        if len(ranked.nulls):
            null_bytes = serialized(bitmap_of(ranked.nulls))
            null_offset, null_length = -1 - int(ranked.nulls[0]), len(null_bytes)
            if len(ranked.nulls) > 1:
                bodies.append(null_bytes)
                null_offset, at = 0, len(null_bytes)
        numbers = np.full((len(counts), 2), -1, np.int64)  # offset, length
        single = counts == 1
        numbers[single, 0] = -1 - positions[starts[single]]
        for number in np.flatnonzero(~single).tolist():
            body = serialized(bitmap_of(positions[starts[number] : starts[number] + counts[number]]))
            numbers[number] = at, len(body)
            at += len(body)
            bodies.append(body)
        has_nulls = len(ranked.nulls) > 0
        head = [bytes((self._version,)), _i32(ranked.row_count), _i32(len(counts)), bytes((has_nulls,))]
        if has_nulls:
            head.append(_i32(null_offset))
        if self._version == VERSION_1:
            return b"".join((*head, *_entries(ranked.keys, numbers[:, :1], self._form), *bodies))
        if has_nulls:
            head.append(_i32(null_length))
        return b"".join((*head, *self._blocks(ranked.keys, numbers), *bodies))

    def _blocks(self, keys: Any, numbers: Array) -> list[bytes]:
        blocks: list[bytes] = []
        directory: list[bytes] = []
        at = 0
        for first, count, entries in self._cut(keys, numbers):
            directory += [self._form.spelled(keys[first].as_py()), _i32(at)]
            blocks += [_i32(count), entries]
            at += 4 + len(entries)
        return [_i32(len(directory) // 2), *directory, _i32(at), *blocks]

    def _cut(self, keys: Any, numbers: Array) -> Iterator[tuple[int, int, bytes]]:
        if not len(keys):
            return
        room = self._block_bytes - 4
        entries = _entries(keys, numbers, self._form)
        sizes = np.array([len(e) for e in entries]) if self._form.is_text else np.full(len(keys), self._form.width + 8)
        if sizes.max() > room:
            raise InvalidArgument(
                f"a value of {sizes.max() - 8} bytes is larger than a block of a bitmap index, {self._block_bytes} bytes",
                next_step="raise option 'file-index.bitmap.<column>.index-block-size', or use a bloom filter",
            )
        whole = b"".join(entries)
        ends = np.concatenate([[0], np.cumsum(sizes)])
        first = 0
        while first < len(keys):
            stop = int(np.searchsorted(ends, ends[first] + room, "right")) - 1
            yield first, stop - first, whole[ends[first] : ends[stop]]
            first = stop


def _entries(keys: pa.Array, numbers: Array, form: KeyForm) -> list[bytes]:
    tails = np.ascontiguousarray(numbers, ">i4")
    if form.is_text:
        return [form.spelled(key) + tail.tobytes() for key, tail in zip(keys.to_pylist(), tails, strict=True)]
    heads = form.numbers(np.asarray(keys)).view(np.uint8).reshape(len(keys), form.width)
    return [np.concatenate([heads, tails.view(np.uint8).reshape(len(keys), 4 * numbers.shape[1])], axis=1).tobytes()]


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)
