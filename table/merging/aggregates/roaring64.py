"""Bitmaps of 64-bit numbers as Java's `Roaring64Bitmap` writes them.

Owns: reading and writing these bytes. Must not know: columns, keys of tables. Source: format/primary-keys §4.

They are a radix tree of the high 48 bits, then containers of the low 16 bits. All numbers are little-endian, but for the keys of
leaves. Invariant: Bytes that are no such bitmap are an error, never another bitmap.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pyroaring import BitMap

from ....core.errors import TableCorrupt

Bitmap64 = Mapping[int, BitMap]
"""The low 16 bits of the numbers, by their high 48 bits."""

_EMPTY, _NOT_EMPTY = 0, 1
_INNER_BYTES = {0: 4, 1: 16, 2: 256, 3: 32}
"""The bytes that follow the header of an inner node, by its type: for up to 4, 16, 48 and 256 children."""
_LEAF = 4
_RUN, _BITMAP, _ARRAY = 0, 1, 2
_TRIMMED = 0xFE
_KEY_BYTES = 6
_END = "<QII"
"""The number of containers, and the place of the last one."""
_LARGEST_ARRAY = 4096
_NO_CHILD = 0xFF


def read_bitmap64(data: bytes) -> dict[int, BitMap]:
    """The bitmap that some bytes hold; `TableCorrupt` if they hold none.

    >>> [hex(high) for high in read_bitmap64(write_bitmap64({0: BitMap([3]), 0x2540B: BitMap([0xE401])}))]
    ['0x0', '0x2540b']
    """
    reader = _Reader(data)
    try:
        if reader.number("<B") == _EMPTY:
            return {}
        count = reader.number("<Q")
        leaves = list(reader.leaves())
        containers = reader.containers()
        reader.take(struct.calcsize(_END))
        found = {key: low for key, index in leaves if (low := containers[index]) is not None}
    except (struct.error, KeyError, IndexError, ValueError, RecursionError) as error:
        raise TableCorrupt(f"a value of {len(data)} bytes is no bitmap of 64-bit numbers (function 'rbm64')") from error
    if len(found) != count:
        raise TableCorrupt("a bitmap of 64-bit numbers (function 'rbm64') has another number of keys than it says")
    return found


def union64(one: Bitmap64, other: Bitmap64) -> dict[int, BitMap]:
    both = dict(one)
    for high, low in other.items():
        both[high] = both[high] | low if high in both else low
    return both


def write_bitmap64(bitmap: Bitmap64) -> bytes:
    keys = sorted(bitmap)
    if not keys:
        return bytes([_EMPTY])
    order = {key: index for index, key in enumerate(keys)}
    parts = [
        struct.pack("<BQ", _NOT_EMPTY, len(keys)),
        *_nodes([k.to_bytes(_KEY_BYTES, "big") for k in keys], 0, order),
    ]
    parts.append(struct.pack("<IBI", 1, _TRIMMED, len(keys)))
    parts += [_container(bitmap[key]) for key in keys]
    parts.append(struct.pack(_END, len(keys), 0, len(keys) - 1))
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._place = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return int(value)

    def take(self, count: int) -> bytes:
        taken = self._data[self._place : self._place + count]
        if len(taken) < count:
            raise IndexError(count)
        self._place += count
        return taken

    def leaves(self) -> Iterator[tuple[int, int]]:
        """The key and the container of each leaf. Nodes come before their children."""
        left = 1
        while left:
            kind, children, prefix = self.number("<B"), self.number("<H"), self.number("<B")
            self.take(prefix)
            left -= 1
            if kind == _LEAF:
                yield int.from_bytes(self.take(_KEY_BYTES), "big"), self.number("<Q")
            else:
                self.take(_INNER_BYTES[kind])
                left += children

    def containers(self) -> list[BitMap | None]:
        found: list[BitMap | None] = []
        for _ in range(self.number("<I")):
            self.number("<B")  # is the list cut to its length?
            found += (self._container() if self.number("<B") else None for _ in range(self.number("<I")))
        return found

    def _container(self) -> BitMap:
        kind, count = self.number("<B"), self.number("<I")
        if kind == _ARRAY:
            return BitMap(np.frombuffer(self.take(2 * count), "<u2").astype(np.uint32))
        if kind == _BITMAP:
            return BitMap(_set_bits(self.take(8192)))
        if kind != _RUN:
            raise ValueError(kind)
        runs = np.frombuffer(self.take(4 * self.number("<H")), "<u2").astype(np.int64).reshape(-1, 2)
        result = BitMap()
        for start, length in runs.tolist():
            result.add_range(start, start + length + 1)
        return result


def _set_bits(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")).astype(np.uint32)


def _nodes(keys: Sequence[bytes], depth: int, order: Mapping[int, int]) -> Iterator[bytes]:
    """The nodes of the subtree of ascending keys that share `depth` bytes."""
    if len(keys) == 1:
        yield struct.pack("<BHB", _LEAF, 0, 0) + keys[0] + struct.pack("<Q", order[int.from_bytes(keys[0], "big")])
        return
    end = depth
    while keys[0][end] == keys[-1][end]:
        end += 1
    children: dict[int, list[bytes]] = {}
    for key in keys:
        children.setdefault(key[end], []).append(key)
    kind, body = _inner(list(children))
    yield struct.pack("<BHB", kind, len(children), end - depth) + keys[0][depth:end] + body
    for below in children.values():
        yield from _nodes(below, end + 1, order)


def _inner(branches: Sequence[int]) -> tuple[int, bytes]:
    """The type of a node with children at these bytes, ascending, and how it finds them."""
    if len(branches) <= 4:
        return 0, bytes(branches).ljust(4, b"\0")[::-1]
    if len(branches) <= 16:
        keys = bytes(branches).ljust(16, b"\0")
        return 1, keys[7::-1] + keys[:7:-1]
    if len(branches) <= 48:
        places = np.full(256, _NO_CHILD, np.uint8)
        places[list(branches)] = np.arange(len(branches))
        return 2, places.reshape(32, 8)[:, ::-1].tobytes()
    mask = np.zeros(256, np.uint8)
    mask[list(branches)] = 1
    return 3, np.packbits(mask, bitorder="little").tobytes()


def _container(low: BitMap) -> bytes:
    """One container in its smallest form, as after `runOptimize`."""
    values = np.array(low.to_array(), np.int64)
    starts = np.flatnonzero(np.diff(values, prepend=-2) != 1)
    head = struct.pack("<BBI", 1, _ARRAY, len(values))
    plain = 2 * len(values) if len(values) <= _LARGEST_ARRAY else 8192
    if 2 + 4 * len(starts) < plain:
        ends = np.append(starts[1:], len(values)) - 1
        runs = np.stack([values[starts], values[ends] - values[starts]], axis=1).astype("<u2")
        return struct.pack("<BBIH", 1, _RUN, len(values), len(starts)) + runs.tobytes()
    if len(values) <= _LARGEST_ARRAY:
        return head + values.astype("<u2").tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[values] = 1
    return struct.pack("<BBI", 1, _BITMAP, len(values)) + np.packbits(bits, bitorder="little").tobytes()
