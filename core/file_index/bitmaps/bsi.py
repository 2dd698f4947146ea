"""Reads and builds bit-sliced indexes (`bsi`): bit slices of a column's numbers, with separate slices for negative numbers.

Owns: the bytes of the index, its answers to comparisons, and its builder. Must not know: containers, columns.
Source: format/file-indexes §4; Apache Paimon's `BitSliceIndexBitmapFileIndex`, which calls this kind outdated.

Invariant: Answers are exact for every number. The smallest 64-bit number is rejected, because it has no magnitude.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...errors import InvalidArgument, Unsupported
from ..block import Block, Cursor
from ..keys import KeyForm, Question
from .roaring import all_rows, read_bitmap, serialized
from .slices import SliceBuilder, below, equal_to

VERSION = 1
_MOST_SLICES = 64
_SMALLEST = -(2**63)


@dataclass(frozen=True)
class _Half:
    """The magnitudes of one sign as slices of the differences from `least`."""

    present: BitMap
    slices: tuple[BitMap, ...] = ()
    least: int = 0

    def below(self, number: int) -> BitMap:
        return below(self.present, self.slices.__getitem__, len(self.slices), number - self.least)

    def equal(self, number: int) -> BitMap:
        return equal_to(self.present, self.slices.__getitem__, len(self.slices), number - self.least)


class BsiReader:
    """Raises TableCorrupt where it is damaged or not for so many rows, Unsupported for a later version."""

    def __init__(self, block: Block, form: KeyForm, rows: int) -> None:
        self._block, self._row_count = block, rows
        data = block.read(0, block.length)
        cursor = Cursor(Block(lambda a, b: data[a:b], 0, len(data), block.where))
        self._check_version(cursor)
        found = cursor.number(4)
        if found != rows:
            raise block.damaged(f"it covers {found} rows; the file has {rows}")
        self._positive = self._half(cursor, data)
        self._negative = self._half(cursor, data)

    def _check_version(self, cursor: Cursor) -> None:
        version = cursor.number(1)
        if version != VERSION:
            raise Unsupported(
                f"{self._block.where}: version {version}; supported is {VERSION}",
                next_step="to read the rows without the index, set option 'file-index.read.enabled' = false",
            )

    def _half(self, cursor: Cursor, data: bytes) -> _Half:
        if not cursor.number(1):
            return _Half(BitMap())
        self._check_version(cursor)
        least, _ = cursor.number(8), cursor.number(8)
        present, cursor.at = read_bitmap(data, cursor.at, self._row_count, self._block)
        count = cursor.number(4)
        if not 0 <= count <= _MOST_SLICES:
            raise self._block.damaged(f"it has {count} slices")
        slices = []
        for _ in range(count):
            found, cursor.at = read_bitmap(data, cursor.at, self._row_count, self._block)
            slices.append(found)
        return _Half(present, tuple(slices), least)

    def rows(self, question: Question) -> BitMap | None:
        present = self._positive.present | self._negative.present
        match question.op:
            case "is_null":
                return all_rows(self._row_count) - present
            case "in":
                return self._equal(question)
            case "not_in":
                return present - self._equal(question)
            case "<" | ">=":
                smaller = self._below(self._number(question))
                return smaller if question.op == "<" else present - smaller
            case _:
                smaller = self._below(self._number(question) + 1)
                return smaller if question.op == "<=" else present - smaller

    @staticmethod
    def _number(question: Question) -> int:
        return int(question.keys[0])

    def _equal(self, question: Question) -> BitMap:
        found = BitMap()
        for number in map(int, question.keys):
            found |= self._positive.equal(number) if number >= 0 else self._negative.equal(-number)
        return found

    def _below(self, number: int) -> BitMap:
        if number >= 0:
            return self._positive.below(number) | self._negative.present
        return self._negative.present - self._negative.below(1 - number)

    def check(self) -> None:
        """Check that a row has at most one sign, and has bits only if it has a number. Raises TableCorrupt."""
        if not self._positive.present.isdisjoint(self._negative.present):
            raise self._block.damaged("a row has both a positive and a negative number")
        for half in (self._positive, self._negative):
            if any(not found.issubset(half.present) for found in half.slices):
                raise self._block.damaged("a row without a value has bits set")


class BsiBuilder:
    def __init__(self) -> None:
        self._row_count = 0
        self._positive, self._negative = SliceBuilder(), SliceBuilder()
        self._largest = [0, 0]

    def add(self, keys: Any) -> None:
        positions = np.flatnonzero(np.asarray(keys.is_valid())) + self._row_count
        self._row_count += len(keys)
        numbers = np.asarray(keys.drop_null().cast(pa.int64()))
        if len(numbers) and numbers.min() == _SMALLEST:
            raise InvalidArgument(f"a bsi index cannot hold {_SMALLEST}", next_step="use kind 'range-bitmap'")
        is_negative = numbers < 0
        for half, builder in enumerate((self._positive, self._negative)):
            chosen = is_negative if half else ~is_negative
            magnitudes = np.abs(numbers[chosen]).astype(np.uint64)
            builder.add(positions[chosen], magnitudes)
            self._largest[half] = max([self._largest[half], *([int(magnitudes.max())] if len(magnitudes) else [])])

    def finish(self) -> bytes:
        parts = [bytes((VERSION,)), self._row_count.to_bytes(4, "big")]
        for largest, half in zip(self._largest, (self._positive, self._negative), strict=True):
            parts.append(bytes((bool(half.present),)))
            if half.present:
                slices = half.padded(largest.bit_length())
                parts += [bytes((VERSION,)), (0).to_bytes(8, "big"), largest.to_bytes(8, "big")]
                parts += [serialized(half.present), len(slices).to_bytes(4, "big"), *map(serialized, slices)]
        return b"".join(parts)
