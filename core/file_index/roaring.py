"""Roaring bitmaps in the portable form that all Roaring libraries share.

Owns: reading one that nothing vouches for, and writing one as Apache Paimon does. Must not know: what the positions mean.
Source: format-metadata §8.4, the Roaring format's public specification.
Invariant: bytes are checked before the library in C sees them: index files carry no checksum, and a bitmap whose parts are
out of order is undefined behaviour there.
"""

from __future__ import annotations

import array
from typing import Any

import numpy as np
from pyroaring import BitMap

from .block import Block

_ONLY_ARRAYS, _WITH_RUNS = 12346, 12347
_MOST_CONTAINERS = 1 << 16
_NO_OFFSETS_BELOW = 4
_ARRAY_LIMIT = 4096
_BITSET_BYTES = 8192


def bitmap_of(positions: Any) -> BitMap:
    """A bitmap of a numpy array of positions, each below 2**32.

    >>> list(bitmap_of(np.array([3, 1])))
    [1, 3]
    """
    return BitMap(array.array("I", np.ascontiguousarray(positions, np.uint32).tobytes()))


def all_rows(count: int) -> BitMap:
    """The positions of all rows of a file."""
    rows = BitMap()
    rows.add_range(0, count)
    return rows


def serialized(bitmap: BitMap) -> bytes:
    """A bitmap's bytes, in runs where these are smaller; the bitmap is changed to that form.

    >>> serialized(bitmap_of(np.arange(9))).hex()
    '3b3000000100000800010000000800'
    """
    bitmap.run_optimize()
    return bytes(bitmap.serialize())


def read_bitmap(data: bytes, at: int, rows: int, block: Block) -> tuple[BitMap, int]:
    """The bitmap at a position of some bytes, and where it ends.

    Args:
        rows: of the data file: positions are below it.
        block: where the bytes are from, for errors.

    Raises:
        TableCorrupt: no bitmap, a damaged one, or one of rows that the file does not have.
    """
    try:
        end = _checked_end(memoryview(data), at)
        bitmap = BitMap.deserialize(data[at:end])
    except (ValueError, IndexError) as error:
        raise block.damaged(f"it holds no bitmap: {error}") from error
    if bitmap and bitmap.max() >= rows:
        raise block.damaged(f"it names row {bitmap.max()}, but says that the file has {rows} rows")
    return bitmap, end


def _checked_end(data: memoryview, at: int) -> int:
    """Where a bitmap ends. Raises ValueError for one that is not whole and in order."""
    start = at
    cookie = int.from_bytes(_cut(data, at, 4), "little")
    at += 4
    runs = np.zeros(0, bool)
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = _cut(data, at, (count + 7) // 8)
        at += len(flags)
        runs = np.unpackbits(np.frombuffer(flags, np.uint8), bitorder="little")[:count].astype(bool)
    elif cookie == _ONLY_ARRAYS:
        count = int.from_bytes(_cut(data, at, 4), "little")
        at += 4
        if count > _MOST_CONTAINERS:
            raise ValueError(f"{count} parts")
        runs = np.zeros(count, bool)
    else:
        raise ValueError(f"its first number is {cookie}")
    heads = np.frombuffer(_cut(data, at, 4 * count), "<u2").reshape(count, 2)
    at += 4 * count
    if count > 1 and not (np.diff(heads[:, 0].astype(np.int64)) > 0).all():
        raise ValueError("its parts are out of order")
    offsets = None
    if cookie == _ONLY_ARRAYS or count >= _NO_OFFSETS_BELOW:
        offsets = np.frombuffer(_cut(data, at, 4 * count), "<u4").tolist()
        at += 4 * count
    for i, (head, is_run) in enumerate(zip((heads[:, 1].astype(np.int64) + 1).tolist(), runs.tolist(), strict=True)):
        if offsets is not None and offsets[i] != at - start:
            raise ValueError("its parts are not where it says")
        at = _container_end(data, at, head, is_run)
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
        values = np.frombuffer(_cut(data, at, 2 * cardinality), "<u2").astype(np.int64)
        if not (np.diff(values) > 0).all():
            raise ValueError("its positions are out of order")
        return at + 2 * cardinality
    bits = np.unpackbits(np.frombuffer(_cut(data, at, _BITSET_BYTES), np.uint8))
    if int(bits.sum()) != cardinality:
        raise ValueError("its bits are not as many as it says")
    return at + _BITSET_BYTES


def _cut(data: memoryview, at: int, count: int) -> memoryview:
    found = data[at : at + count]
    if len(found) != count:
        raise ValueError("it is cut off")
    return found
