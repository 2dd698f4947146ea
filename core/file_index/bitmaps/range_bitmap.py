"""Reads and builds range-bitmap indexes: a sorted dictionary of a column's values, and bit slices of each row's number in it.

Owns: the bytes of the index, its answers to comparisons, and its builder. Must not know: containers, columns.
Source: format/file-indexes §4; Apache Paimon's `RangeBitmap`. Invariant: Numbers in the dictionary sort like the values, so
every range is exact.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from pyroaring import BitMap

from ..block import Block, Cursor
from ..dictionary import Dictionary, check_version, dictionary_bytes
from ..keys import Key, KeyForm, Question
from ..positions import KeyedRows
from .roaring import all_rows, read_bitmap, serialized
from .slices import SliceBuilder, below, equal_to

VERSION = 1
DEFAULT_CHUNK_BYTES = 16 << 10
_MOST_SLICES = 64
_SLICES_HEAD_BYTES = 10


class RangeBitmapReader:
    """Raises TableCorrupt where it is damaged or not for so many rows, Unsupported for a later version."""

    def __init__(self, block: Block, form: KeyForm, rows: int) -> None:
        self._block, self._form, self._row_count = block, form, rows
        head = Cursor(block)
        length = head.number(4)
        check_version(head.number(1), block)
        found, self._count = head.number(4), head.number(4)
        if found != rows or not 0 <= self._count <= rows:
            raise block.damaged(f"it covers {found} rows with {self._count} values; the file has {rows} rows")
        self._ends: tuple[Key, Key] | None = (self._key(head), self._key(head)) if self._count else None
        size = head.number(4)
        if length != head.at - 4:
            raise block.damaged(f"its head has {head.at - 4} bytes instead of {length}")
        self._dictionary_part = block.part(head.at, size)
        self._slices_part = block.part(head.at + size, block.length - head.at - size)

    def _key(self, head: Cursor) -> Key:
        if self._form.is_text:
            return head.take(head.count(4, 1, "bytes"))
        return int(self._form.keys(np.frombuffer(head.take(self._form.width), self._form.code))[0])

    @cached_property
    def _dictionary(self) -> Dictionary:
        return Dictionary(self._dictionary_part, self._form, self._count)

    @cached_property
    def _slices(self) -> _Slices:
        return _Slices(self._slices_part, self._row_count)

    def rows(self, question: Question) -> BitMap | None:
        if not self._count:
            return all_rows(self._row_count) if question.op == "is_null" else BitMap()
        match question.op:
            case "is_null":
                return all_rows(self._row_count) - self._slices.present
            case "in":
                return self._equal(question.keys)
            case "not_in":
                return self._slices.present - self._equal(question.keys)
            case op:
                number, is_there = self._find(question.keys[0])
                smaller = self._below(number + (is_there and op in ("<=", ">")))
                return smaller if op in ("<", "<=") else self._slices.present - smaller

    def _find(self, key: Key) -> tuple[int, bool]:
        """The number of smaller values, and whether the value exists; values beyond both ends need no dictionary."""
        assert self._ends is not None
        low, high = self._ends
        if key < low:  # type: ignore[operator]
            return 0, False
        if key > high:  # type: ignore[operator]
            return self._count, False
        return self._dictionary.find(key)

    def _equal(self, keys: tuple[Key, ...]) -> BitMap:
        found = BitMap()
        for number, is_there in map(self._find, keys):
            if is_there:
                slices = self._slices
                found |= equal_to(slices.present, slices.slice, slices.count, number)
        return found

    def _below(self, number: int) -> BitMap:
        if number <= 0:
            return BitMap()
        slices = self._slices
        return (
            slices.present.copy()
            if number >= self._count
            else below(slices.present, slices.slice, slices.count, number)
        )

    def check(self) -> None:
        slices = self._slices
        if any(not slices.slice(i).issubset(slices.present) for i in range(slices.count)):
            raise self._block.damaged("a row without a value has bits set")
        if not self._count:
            if slices.present:
                raise self._block.damaged("rows have values, but its dictionary is empty")
            return
        self._dictionary.check()
        ends = self._dictionary.find(self._ends[0]), self._dictionary.find(self._ends[1])  # type: ignore[index]
        if ends != ((0, True), (self._count - 1, True)):
            raise self._block.damaged("its smallest and largest values are not those of its dictionary")
        if below(slices.present, slices.slice, slices.count, self._count) != slices.present:
            raise self._block.damaged("a row has a value that is not in its dictionary")


class _Slices:
    def __init__(self, block: Block, rows: int) -> None:
        self._block, self._row_count = block, rows
        head = Cursor(block)
        length = head.number(4)
        check_version(head.number(1), block)
        self.count, present_bytes, index_bytes = head.number(1), head.number(4), head.number(4)
        if not 0 <= self.count <= _MOST_SLICES or index_bytes != 8 * self.count:
            raise block.damaged(f"{self.count} slices have {index_bytes} bytes of offsets")
        if length != _SLICES_HEAD_BYTES + index_bytes:
            raise block.damaged(f"the head of its slices has {length} bytes")
        self._places = np.frombuffer(head.take(index_bytes), ">i4").reshape(self.count, 2).tolist()
        self.present = read_bitmap(block.read(head.at, present_bytes), 0, rows, block)[0]
        self._body_at = head.at + present_bytes
        self._read: dict[int, BitMap] = {}

    def slice(self, bit: int) -> BitMap:
        if bit not in self._read:
            at, length = self._places[bit]
            data = self._block.read(self._body_at + at, length)
            self._read[bit] = read_bitmap(data, 0, self._row_count, self._block)[0]
        return self._read[bit]


class RangeBitmapBuilder:
    def __init__(self, form: KeyForm, chunk_bytes: int) -> None:
        self._form, self._chunk_bytes = form, chunk_bytes
        self._rows = KeyedRows()

    def add(self, keys: Any) -> None:
        self._rows.add(keys)

    def finish(self) -> bytes:
        ranked = self._rows.ranked()
        count = len(ranked.keys)
        builder = SliceBuilder()
        builder.add(ranked.positions, ranked.numbers.astype(np.uint64))
        # Apache Paimon counts the bits of the largest number; without values, this is -1, in which all bits are set.
        bits = max((count - 1).bit_length(), 1) if count else _MOST_SLICES
        dictionary = dictionary_bytes(ranked.keys, self._form, self._chunk_bytes)
        ends = [self._form.spelled(ranked.keys[i].as_py()) for i in ((0, count - 1) if count else ())]
        head = b"".join((bytes((VERSION,)), _i32(ranked.row_count), _i32(count), *ends, _i32(len(dictionary))))
        present, slices = serialized(builder.present), [serialized(s) for s in builder.padded(bits)]
        places, at = [], 0
        for each in slices:
            places += [_i32(at), _i32(len(each))]
            at += len(each)
        index = b"".join(places)
        slices_head = b"".join((bytes((VERSION, len(slices))), _i32(len(present)), _i32(len(index)), index))
        return b"".join((_i32(len(head)), head, dictionary, _i32(len(slices_head)), slices_head, present, *slices))


def _i32(number: int) -> bytes:
    return number.to_bytes(4, "big")
