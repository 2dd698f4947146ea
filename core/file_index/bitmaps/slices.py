"""Bit slices of the numbers of rows: for each bit, the rows whose number has it.

Owns: comparing all rows with one number, and building slices. Must not know: bytes, the meaning of the numbers.
Source: O'Neil and Quass, "Improved query performance with variant indexes" (SIGMOD 1997).
Invariant: A row is in a slice only if it has a number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from pyroaring import BitMap

from ...typed import Array
from .roaring import bitmap_of


def below(present: BitMap, slice_of: Callable[[int], BitMap], count: int, number: int) -> BitMap:
    """The rows whose number is smaller. `slice_of` gives the rows whose number has a bit, of `count` bits.

    >>> slices = [BitMap([1]), BitMap([2])]  # row 0 has number 0, row 1 has 1, row 2 has 2
    >>> list(below(BitMap([0, 1, 2]), slices.__getitem__, 2, 2))
    [0, 1]
    """
    if number <= 0:
        return BitMap()
    if number >> count:
        return present.copy()
    found, equal = BitMap(), present
    for bit in reversed(range(count)):
        if number >> bit & 1:
            found |= equal - slice_of(bit)
            equal = equal & slice_of(bit)
        else:
            equal = equal - slice_of(bit)
        if not equal:
            break
    return found


def equal_to(present: BitMap, slice_of: Callable[[int], BitMap], count: int, number: int) -> BitMap:
    if number < 0 or number >> count:
        return BitMap()
    equal = present.copy()
    for bit in reversed(range(count)):
        if not equal:
            break
        equal = equal & slice_of(bit) if number >> bit & 1 else equal - slice_of(bit)
    return equal


class SliceBuilder:
    def __init__(self) -> None:
        self.present = BitMap()
        self.slices: list[BitMap] = []

    def add(self, positions: Array, numbers: Array) -> None:
        if not len(positions):
            return
        self.present |= bitmap_of(positions)
        bits = int(numbers.max()).bit_length()
        self.slices += [BitMap() for _ in range(len(self.slices), bits)]
        for bit in range(bits):
            has_it = (numbers >> np.uint64(bit)) & np.uint64(1) == 1
            self.slices[bit] |= bitmap_of(positions[has_it])

    def padded(self, count: int) -> Sequence[BitMap]:
        return [*self.slices, *(BitMap() for _ in range(len(self.slices), count))]
