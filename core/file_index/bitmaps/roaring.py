"""Reads and writes Roaring bitmaps in the portable format of all Roaring libraries.

Owns: reading untrusted bitmaps, and writing bitmaps like Apache Paimon. Must not know: the meaning of the positions. Source:
format/file-indexes §3, the Roaring format's public specification. Invariant: Bytes are checked before the C library reads them.
Index files have no checksum, and a bitmap whose parts are out of order causes undefined behaviour in the library.
"""

from __future__ import annotations

import array
import struct
from typing import Any

import numpy as np
from pyroaring import BitMap, BitMap64

from ..block import Block

_ONLY_ARRAYS, _WITH_RUNS = 12346, 12347
_MOST_CONTAINERS = 1 << 16
_NO_OFFSETS_BELOW = 4
_ARRAY_LIMIT = 4096
_BITSET_BYTES = 8192
_COUNT_BYTES, _HIGH_BYTES = 8, 4


def bitmap_of(positions: Any) -> BitMap:
    """A bitmap from a NumPy array of positions, each below 2**32.

    >>> list(bitmap_of(np.array([3, 1])))
    [1, 3]
    """
    return BitMap(array.array("I", np.ascontiguousarray(positions, np.uint32).tobytes()))


def all_rows(count: int) -> BitMap:
    rows = BitMap()
    rows.add_range(0, count)
    return rows


def serialized(bitmap: BitMap) -> bytes:
    """The bytes of a bitmap, with runs where they are smaller; this also converts the bitmap in memory.

    >>> serialized(bitmap_of(np.arange(9))).hex()
    '3b3000000100000800010000000800'
    """
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def read_bitmap(data: bytes, at: int, rows: int, block: Block) -> tuple[BitMap, int]:
    """The bitmap at an offset, and where it ends. Raises TableCorrupt where it is damaged or names a row from `rows` on."""
    try:
        bitmap, end = checked_bitmap(data, at)
    except ValueError as error:
        raise block.damaged(f"its bitmap is invalid: {error}") from error
    if bitmap and bitmap.max() >= rows:
        raise block.damaged(f"it names row {bitmap.max()}; the file has {rows} rows")
    return bitmap, end


def checked_bitmap(data: bytes, at: int = 0) -> tuple[BitMap, int]:
    """Raises ValueError. Some versions of the library would end the process at a wrong count, so bytes are checked first."""
    try:
        end = _checked_end(memoryview(data), at)
    except IndexError as error:
        raise ValueError("it is cut off") from error
    return BitMap.deserialize(data[at:end]), end


def checked_bitmap64(data: bytes) -> BitMap64:
    """A count, and for each upper half the bitmap of the lower ones. Raises ValueError."""
    count, at, before = int.from_bytes(data[:_COUNT_BYTES], "little"), _COUNT_BYTES, -1
    for _ in range(count):
        high, at = int.from_bytes(data[at : at + _HIGH_BYTES], "little"), at + _HIGH_BYTES
        if at > len(data) or high <= before:
            raise ValueError("it is cut off or out of order")
        try:
            at, before = _checked_end(memoryview(data), at), high
        except IndexError as error:
            raise ValueError("it is cut off") from error
    if len(data) < _COUNT_BYTES:
        raise ValueError("it is cut off")
    return BitMap64.deserialize(data[:at])


def _checked_end(data: memoryview, at: int) -> int:
    start = at
    cookie = int.from_bytes(_cut(data, at, 4), "little")
    at += 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = int.from_bytes(_cut(data, at, (count + 7) // 8), "little")
        at += (count + 7) // 8
    elif cookie == _ONLY_ARRAYS:
        count, flags = int.from_bytes(_cut(data, at, 4), "little"), 0
        at += 4
        if count > _MOST_CONTAINERS:
            raise ValueError(f"it has {count} parts")
    else:
        raise ValueError(f"its first number is {cookie}")
    heads = struct.unpack(f"<{2 * count}H", _cut(data, at, 4 * count))
    at += 4 * count
    if any(key >= after for key, after in zip(heads[::2], heads[2::2], strict=False)):
        raise ValueError("its parts are out of order")
    offsets: tuple[int, ...] | None = None
    if cookie == _ONLY_ARRAYS or count >= _NO_OFFSETS_BELOW:
        offsets = struct.unpack(f"<{count}I", _cut(data, at, 4 * count))
        at += 4 * count
    for i, cardinality in enumerate(heads[1::2]):
        if offsets is not None and offsets[i] != at - start:
            raise ValueError("the offsets of its parts are wrong")
        at = _container_end(data, at, cardinality + 1, bool(flags >> i & 1))
    return at


def _container_end(data: memoryview, at: int, cardinality: int, is_run: bool) -> int:
    if is_run:
        count = int.from_bytes(_cut(data, at, 2), "little")
        pairs = np.frombuffer(_cut(data, at + 2, 4 * count), "<u2").reshape(count, 2).astype(np.int64)
        ends = pairs.sum(axis=1)
        in_order = bool((pairs[1:, 0] > ends[:-1]).all()) and (not count or ends[-1] < 1 << 16)
        if not in_order or int((pairs[:, 1] + 1).sum()) != cardinality:
            raise ValueError("its runs are out of order")
        return at + 2 + 4 * count
    if cardinality <= _ARRAY_LIMIT:
        values = np.frombuffer(_cut(data, at, 2 * cardinality), "<u2")
        if not (values[1:] > values[:-1]).all():
            raise ValueError("its positions are out of order")
        return at + 2 * cardinality
    bits = np.unpackbits(np.frombuffer(_cut(data, at, _BITSET_BYTES), np.uint8))
    if int(np.count_nonzero(bits)) != cardinality:
        raise ValueError("its number of bits is wrong")
    return at + _BITSET_BYTES


def _cut(data: memoryview, at: int, count: int) -> memoryview:
    found = data[at : at + count]
    if len(found) != count:
        raise ValueError("it is cut off")
    return found
