"""Reads bitmap indexes, which hold the rows of each value of a column.

Owns: the bytes of versions 1 and 2, and the rows that they keep for a comparison. Must not know: containers, columns.
Source: format/file-indexes §3. Version 2 has sorted values in blocks, so a value is found without reading all of them.

Invariant: The rows of a value are exactly those that had it. A single row is stored instead of the offset of its bitmap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
from pyroaring import BitMap

from ...errors import Unsupported
from ...typed import Array
from ..block import Block, Cursor
from ..keys import Key, KeyForm, Question
from .roaring import all_rows, read_bitmap

VERSION_1, VERSION_2 = 1, 2
Entry = tuple[int, int]
"""Offset and length of a bitmap in the body. A negative offset means the single row -1 - offset; length -1 is unknown."""


class BitmapReader:
    """Raises TableCorrupt where it is damaged or not for so many rows, Unsupported for a later version."""

    def __init__(self, block: Block, form: KeyForm, rows: int) -> None:
        self._block, self._form, self._row_count = block, form, rows
        head = Cursor(block)
        self.version = head.number(1)
        if self.version not in (VERSION_1, VERSION_2):
            raise Unsupported(
                f"{block.where}: version {self.version}; supported are {VERSION_1} and {VERSION_2}",
                next_step="to read the rows without the index, set option 'file-index.read.enabled' = false",
            )
        found = head.number(4)
        if found != rows:
            raise block.damaged(f"it covers {found} rows; the file has {rows}")
        self._count = head.count(4, form.width, "values")
        self._nulls: Entry | None = None
        if head.number(1):
            self._nulls = (head.number(4), head.number(4) if self.version == VERSION_2 else -1)
        self._values: _List | _Blocks
        if self.version == VERSION_2:
            self._values = _Blocks(head, form)
        else:
            self._values = _List(head, form, self._count, self._nulls)
        self._found: dict[Key | None, BitMap] = {}

    def rows(self, question: Question) -> BitMap | None:
        match question.op:
            case "is_null":
                return self._rows_of(None).copy()
            case "in":
                return self._union(question.keys)
            case "not_in":
                return all_rows(self._row_count) - self._rows_of(None) - self._union(question.keys)
            case _:
                return None

    def _union(self, keys: tuple[Key, ...]) -> BitMap:
        return BitMap.union(BitMap(), *map(self._rows_of, keys))

    def _rows_of(self, key: Key | None) -> BitMap:
        if key not in self._found:
            entry = self._nulls if key is None else self._values.find(key)
            self._found[key] = self._bitmap(entry) if entry is not None else BitMap()
        return self._found[key]

    def _bitmap(self, entry: Entry) -> BitMap:
        offset, length = entry
        if offset < 0:
            if -1 - offset >= self._row_count:
                raise self._block.damaged(f"it names row {-1 - offset}; the file has {self._row_count}")
            return BitMap((-1 - offset,))
        if length < 0:
            length = self._values.length_at(offset)
        data = self._block.read(self._values.body_start + offset, length)
        return read_bitmap(data, 0, self._row_count, self._block)[0]

    def check(self) -> None:
        seen = self._rows_of(None).copy()
        count, number, last = len(seen), -1, None
        for number, (key, entry) in enumerate(self._values.entries()):
            if self.version == VERSION_2 and last is not None and not last < key:  # type: ignore[operator]
                raise self._block.damaged(f"its value number {number} is out of order")
            rows, last = self._bitmap(entry), key
            count += len(rows)
            seen |= rows
        if number + 1 != self._count:
            raise self._block.damaged(f"it has {number + 1} values instead of {self._count}")
        if count != self._row_count or len(seen) != self._row_count:
            raise self._block.damaged(
                f"its values cover {len(seen)} rows, {count} times; the file has {self._row_count}"
            )


class _List:
    """The values of version 1, one after another in any order."""

    def __init__(self, head: Cursor, form: KeyForm, count: int, nulls: Entry | None) -> None:
        self._block = head.block
        if form.is_text:
            self._entries: dict[Key, int] = {}
            for _ in range(count):
                key = head.take(head.count(4, 1, "bytes"))
                self._entries[key] = head.number(4)
        else:
            table = _table(head, form, count, 1)
            self._entries = dict(zip(form.keys(table["key"]).tolist(), table["offset"].tolist(), strict=True))
        self.body_start = head.at
        offsets = {*self._entries.values(), *([nulls[0]] if nulls else [])}
        self._offsets = np.array(sorted(offset for offset in offsets if offset >= 0), np.int64)

    def find(self, key: Key) -> Entry | None:
        offset = self._entries.get(key)
        return None if offset is None else (offset, -1)

    def length_at(self, offset: int) -> int:
        after = int(np.searchsorted(self._offsets, offset, "right"))
        end = int(self._offsets[after]) if after < len(self._offsets) else self._block.length - self.body_start
        return end - offset

    def entries(self) -> Iterator[tuple[Key, Entry]]:
        return ((key, (offset, -1)) for key, offset in self._entries.items())


class _Blocks:
    """The values of version 2, sorted, in blocks whose first values are known."""

    def __init__(self, head: Cursor, form: KeyForm) -> None:
        self._block, self._form = head.block, form
        number = head.count(4, form.width + 4, "blocks")
        self._firsts: list[Key] = []
        if form.is_text:
            offsets = []
            for _ in range(number):
                self._firsts.append(head.take(head.count(4, 1, "bytes")))
                offsets.append(head.number(4))
        else:
            table = _table(head, form, number, 1)
            self._firsts, offsets = form.keys(table["key"]).tolist(), table["offset"].tolist()
        size = head.number(4)
        self._starts = [*offsets, size]
        if any(a >= b for a, b in zip(self._starts, self._starts[1:], strict=False)) or size < 0:
            raise head.block.damaged("its blocks are out of order")
        self._blocks_start = head.at
        self.body_start = head.at + size
        self._read: dict[int, dict[Key, Entry]] = {}

    def find(self, key: Key) -> Entry | None:
        number = bisect_right(self._firsts, key) - 1
        return None if number < 0 else self._in_block(number).get(key)

    def length_at(self, offset: int) -> int:
        raise self._block.damaged(f"the length of the bitmap at {offset} is missing")

    def entries(self) -> Iterator[tuple[Key, Entry]]:
        for number in range(len(self._firsts)):
            yield from self._in_block(number).items()

    def _in_block(self, number: int) -> dict[Key, Entry]:
        if number not in self._read:
            start, end = self._starts[number], self._starts[number + 1]
            data = self._block.read(self._blocks_start + start, end - start)
            cursor = Cursor(Block(lambda a, b: data[a:b], 0, len(data), self._block.where))
            count = cursor.count(4, self._form.width + 8, "values")
            self._read[number] = self._parsed(cursor, count)
        return self._read[number]

    def _parsed(self, cursor: Cursor, count: int) -> dict[Key, Entry]:
        if not self._form.is_text:
            table = _table(cursor, self._form, count, 2)
            places = zip(table["offset"].tolist(), table["length"].tolist(), strict=True)
            return dict(zip(self._form.keys(table["key"]).tolist(), places, strict=True))
        found: dict[Key, Entry] = {}
        for _ in range(count):
            key = cursor.take(cursor.count(4, 1, "bytes"))
            found[key] = (cursor.number(4), cursor.number(4))
        return found


def _table(cursor: Cursor, form: KeyForm, count: int, numbers: int) -> Array:
    parts = [("key", form.code), ("offset", ">i4"), ("length", ">i4")][: numbers + 1]
    kind = np.dtype(parts)
    return np.frombuffer(cursor.take(count * kind.itemsize), kind)
