"""Makes bitmap indexes.

Owns: the bytes of versions 1 and 2 as they are written. Must not know: how they are read (see `bitmap`), containers.
Source: format-metadata §8.4. Apache Paimon writes the bitmaps in the order of a hash table; here they are sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import InvalidArgument
from .bitmap import VERSION_1, VERSION_2
from .keys import Key, KeyForm
from .positions import KeyedRows
from .roaring import bitmap_of, serialized

DEFAULT_BLOCK_BYTES = 16 << 10

Array = Any
"""`numpy.ndarray`"""


class BitmapBuilder:
    """Makes a bitmap index.

    Args:
        version: 1 or 2.
        block_bytes: of version 2: a block of values is no larger.

    Raises:
        InvalidArgument: another version.
    """

    def __init__(self, form: KeyForm, version: int, block_bytes: int) -> None:
        if version not in (VERSION_1, VERSION_2):
            raise InvalidArgument(f"a bitmap index has version {VERSION_1} or {VERSION_2}, not {version}")
        self._form, self._version, self._block_bytes = form, version, block_bytes
        self._rows = KeyedRows()

    def add(self, keys: Any) -> None:
        """Add a column's keys."""
        self._rows.add(keys)

    def finish(self) -> bytes:
        """The index.

        Raises:
            InvalidArgument: a value that is larger than a block.
        """
        grouped = self._rows.grouped()
        bodies: list[bytes] = []
        at = 0
        null_offset, null_length = 0, 0
        if len(grouped.nulls):
            null_bytes = serialized(bitmap_of(grouped.nulls))
            null_offset, null_length = -1 - int(grouped.nulls[0]), len(null_bytes)
            if len(grouped.nulls) > 1:
                bodies.append(null_bytes)
                null_offset, at = 0, len(null_bytes)
        offsets = np.full(len(grouped.keys), -1, np.int64)
        lengths = offsets.copy()
        single = grouped.counts == 1
        offsets[single] = -1 - grouped.positions[grouped.starts[single]]
        for number in np.flatnonzero(~single).tolist():
            body = serialized(bitmap_of(grouped.rows(number)))
            offsets[number], lengths[number] = at, len(body)
            at += len(body)
            bodies.append(body)
        head = [bytes((self._version,)), _i32(grouped.row_count), _i32(len(grouped.keys))]
        head.append(bytes((bool(len(grouped.nulls)),)))
        if len(grouped.nulls):
            head.append(_i32(null_offset))
        if self._version == VERSION_1:
            parts = _spelled(grouped.keys, (offsets,), self._form)
        else:
            head += [_i32(null_length)] if len(grouped.nulls) else []
            parts = self._blocks(grouped.keys, offsets, lengths)
        return b"".join((*head, *parts, *bodies))

    def _blocks(self, keys: Any, offsets: Array, lengths: Array) -> list[bytes]:
        """The values of version 2, and what leads to them."""
        entries = _spelled(keys, (offsets, lengths), self._form)
        blocks: list[list[bytes]] = []
        firsts: list[Key] = []
        room = 0
        values = keys.to_pylist()
        for key, entry in zip(values, entries, strict=True):
            if len(entry) > room:
                blocks.append([])
                firsts.append(key)
                room = self._block_bytes - 4
                if len(entry) > room:
                    raise InvalidArgument(
                        f"a value of {len(entry) - 8} bytes is larger than a block of a bitmap index, {self._block_bytes} bytes",
                        next_step="raise option 'file-index.bitmap.<column>.index-block-size', or use a bloom filter",
                    )
            blocks[-1].append(entry)
            room -= len(entry)
        bodies = [b"".join((_i32(len(block)), *block)) for block in blocks]
        at = 0
        directory = [_i32(len(blocks))]
        for first, body in zip(firsts, bodies, strict=True):
            directory += [self._form.spelled(first), _i32(at)]
            at += len(body)
        return [*directory, _i32(at), *bodies]


def _spelled(keys: pa.Array, numbers: tuple[Array, ...], form: KeyForm) -> list[bytes]:
    """Each value's bytes, with its numbers behind it."""
    if not len(keys):
        return []
    tails = np.stack(numbers, axis=1).astype(">i4")
    if form.is_text:
        rest = tails.tobytes()
        size = 4 * len(numbers)
        return [form.spelled(key) + rest[i * size : (i + 1) * size] for i, key in enumerate(keys.to_pylist())]
    heads = form.numbers(np.asarray(keys))
    whole = np.concatenate(
        [heads.view(np.uint8).reshape(len(keys), -1), tails.view(np.uint8).reshape(len(keys), -1)], 1
    )
    data, size = whole.tobytes(), whole.shape[1]
    return [data[i * size : (i + 1) * size] for i in range(len(keys))]


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)
