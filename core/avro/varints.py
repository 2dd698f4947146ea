"""Read Avro's numbers at many offsets of the same bytes at once.

Owns: `Bytes`, which reads eight bytes at each offset as one word, and decodes numbers (zigzag, seven bits per byte) from words.
Must not know: schemas, records. Source: Avro specification 1.11 (binary encoding).

Invariants: There is no loop over offsets. Nothing is read outside the bytes, since an offset beyond them raises IndexError. A
number of more than ten bytes raises `Irregular`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..typed import Array
from .blocks import Irregular

WORD = 8
PADDING = bytes(2 * WORD)
_SAMPLE = 1 << 16
_MANY = 1 << 12
_ONE, _SEVEN, _TOP = np.uint64(1), np.uint64(7), np.uint64(56)
_GOES_ON = np.uint64(0x8080808080808080)
_SIZES = np.uint64(sum((n + 1) << 8 * (7 - n) for n in range(WORD)))
"""Multiplied by 1 << 8 n, this has n + 1 as its top byte."""
_JOINS = (
    (np.uint64(0x007F007F007F007F), np.uint64(0x7F007F007F007F00), np.uint64(1)),
    (np.uint64(0x00003FFF00003FFF), np.uint64(0x3FFF00003FFF0000), np.uint64(2)),
    (np.uint64(0x000000000FFFFFFF), np.uint64(0x0FFFFFFF00000000), np.uint64(4)),
)
"""Masks for parts of 7, 14 and 28 bits, and the shift that joins every second part to its neighbour."""
_SMALL = np.array([(byte >> 1) ^ -(byte & 1) for byte in range(128)], np.int64)
_SMALL_PAIRS, _PAIR_BITS = np.uint64(0x0002000200020002), np.uint64(0x80FF80FF80FF80FF)
_PAIR_ENDS = np.array([2**16 - 1, 2**32 - 1, 2**48 - 1, 2**64 - 1], np.uint64)


class Bytes:
    """Bytes with `PADDING` behind them; `end` is their number without it."""

    def __init__(self, whole: bytes | Array) -> None:
        self.end = len(whole) - len(PADDING)
        self._hold(whole)

    def _hold(self, whole: bytes | Array) -> None:
        self._source = whole
        self._bytes = np.frombuffer(whole, np.uint8)
        self._words = np.ndarray((self.end + WORD + 1,), "<u8", whole, strides=(1,))

    def slices(self, starts: Sequence[int], ends: Sequence[int]) -> list[bytes]:
        """The bytes between some offsets. For many of them, all bytes become one object first, whose slices are made faster."""
        whole = self._source
        if not isinstance(whole, bytes) and len(starts) >= _MANY:
            whole = whole.tobytes()
            self._hold(whole)
        if isinstance(whole, bytes):
            return [whole[start:end] for start, end in zip(starts, ends, strict=True)]
        view = memoryview(whole.data)
        return [bytes(view[start:end]) for start, end in zip(starts, ends, strict=True)]

    def windows(self, places: Array, width: int) -> Bytes:
        """`width` bytes from each offset, one after another: bytes close together are read faster. May raise IndexError."""
        return Bytes(np.lib.stride_tricks.sliding_window_view(self._bytes, width)[places].reshape(-1))

    def at(self, places: Array) -> Array:
        return self._bytes.take(places)

    def words(self, places: Array) -> Array:
        """The eight bytes at each offset as one word, with the first byte lowest."""
        return self._words[places]

    def places_of(self, needle: bytes) -> Array:
        """The offsets of these bytes, ascending. At most as many bytes as the padding can be searched for."""
        often = np.bincount(self._bytes[:_SAMPLE], minlength=256)
        rarest_first = sorted(range(len(needle)), key=lambda i: often[needle[i]])
        first = rarest_first[0]
        places = np.flatnonzero(self._bytes[first : self.end] == needle[first])
        for i in rarest_first[1:]:
            places = places[self.at(places + i) == needle[i]]
        return places

    def small_pairs(self, places: Array) -> Array:
        """The number of pairs, up to four, of the number 1 and a number of one byte: items that are small and not null."""
        other = (self.words(places) ^ _SMALL_PAIRS) & _PAIR_BITS
        return np.searchsorted(_PAIR_ENDS, (other & (~other + _ONE)) - _ONE, side="right")

    def cut(self, places: Array, width: int) -> bytes:
        count = -(-width // WORD)
        table = np.empty((len(places), count), "<u8")
        for n in range(count):
            table[:, n] = self.words(places + n * WORD)
        return table.view(np.uint8)[:, :width].tobytes()

    def longs(self, places: Array) -> tuple[Array, Array]:
        """The number at each offset, and its end."""
        byte = self.at(places)
        if byte.max(initial=0) < 0x80:
            return _SMALL.take(byte), places + 1
        word = self.words(places)
        ends = ~word & _GOES_ON
        if not ends.all():
            return self._long_longs(places)
        last = ends & (~ends + _ONE)
        sizes = ((last >> _SEVEN) * _SIZES >> _TOP).view(np.int64)
        value = word & (last - _ONE) & ~_GOES_ON
        longest = int(sizes.max(initial=1))
        for step, (stays, moves, far) in enumerate(_JOINS):
            if longest > 1 << step:
                value = (value & stays) | ((value & moves) >> far)
        return _unzigzag(value), places + sizes

    def _long_longs(self, places: Array) -> tuple[Array, Array]:
        value, at = np.zeros(len(places), np.uint64), places.copy()
        more, shift = np.arange(len(places)), 0
        while more.size:
            if shift > 63:
                raise Irregular("a number has too many bytes")
            byte = self.at(at.take(more))
            value[more] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
            at[more] += 1
            more, shift = more[byte >= 0x80], shift + 7
        return _unzigzag(value), at


def _unzigzag(value: Array) -> Array:
    return (value >> _ONE).view(np.int64) ^ -(value & _ONE).view(np.int64)
