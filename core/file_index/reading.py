"""Answers questions with the indexes of a data file.

Owns: `FileIndex`, which returns the rows that may be kept for a question. Must not know: stores, schemas, the data
file. Source: format/file-indexes §1, §5. Invariants: A row that the predicate keeps is never excluded. An index is read
only if a question needs it. If nothing is known, all rows may be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyroaring import BitMap

from ..rows.types import AtomicType
from ..typed import assert_never
from .asking import AllOf, AnyOf, Asked, IndexedColumn, OneColumn
from .bitmaps.bitmap import BitmapReader
from .bitmaps.bsi import BsiReader
from .bitmaps.range_bitmap import RangeBitmapReader
from .block import Block, Fetch
from .bloom import BloomReader
from .container import parse_container
from .keys import KeyForm, Question
from .options import BITMAP, BLOOM, BSI, KINDS, RANGE_BITMAP, takes


class IndexReader(Protocol):
    def rows(self, question: Question) -> BitMap | None:
        """The positions in the file of the rows that may be kept; None means all."""

    def check(self) -> None:
        """Read the whole index and check it. Raises TableCorrupt."""


_READERS: dict[str, Callable[[Block, KeyForm, int], IndexReader]] = {
    BLOOM: BloomReader,
    BITMAP: BitmapReader,
    BSI: BsiReader,
    RANGE_BITMAP: RangeBitmapReader,
}


class FileIndex:
    """The indexes of one data file with `rows` rows, whose container may be of unknown length. Raises TableCorrupt."""

    def __init__(self, fetch: Fetch, length: int | None, rows: int, where: str) -> None:
        self._row_count = rows
        self._parts = parse_container(fetch, length, where)
        self._readers: dict[tuple[str, str], IndexReader] = {}

    @property
    def kinds(self) -> frozenset[tuple[str, str]]:
        return frozenset((column, kind) for column, kinds in self._parts.items() for kind in kinds)

    def rows(self, asked: Asked) -> BitMap | None:
        """The positions that may be kept, which must not be modified; None means all."""
        match asked:
            case OneColumn(column=column, question=question):
                return self._one_column(column, question)
            case AllOf(parts=parts):
                return self._all(parts)
            case AnyOf(parts=parts):
                return self._any(parts)
            case _:
                assert_never(asked)

    def _all(self, parts: tuple[Asked, ...]) -> BitMap | None:
        found: BitMap | None = None
        for part in parts:
            rows = self.rows(part)
            if rows is not None:
                found = rows if found is None else found & rows
                if not found:
                    break
        return found

    def _any(self, parts: tuple[Asked, ...]) -> BitMap | None:
        found = BitMap()
        for part in parts:
            rows = self.rows(part)
            if rows is None:
                return None
            found = found | rows
        return found

    def _one_column(self, column: IndexedColumn, question: Question) -> BitMap | None:
        kinds = self._parts.get(column.name)
        if not kinds:
            return None
        if question.op == "in" and not question.keys:
            return BitMap()
        found: BitMap | None = None
        for kind in KINDS:
            if kind not in kinds or not takes(kind, column.data_type):
                continue
            rows = self._answer(column, kind, question)
            if rows is not None:
                found = rows if found is None else found & rows
                if not found:
                    break
        return found

    def _answer(self, column: IndexedColumn, kind: str, question: Question) -> BitMap | None:
        block = self._parts[column.name][kind]
        if block is None:
            return None  # an index without rows
        return self._reader(column, kind, block).rows(question)

    def _reader(self, column: IndexedColumn, kind: str, block: Block) -> IndexReader:
        if (column.name, kind) not in self._readers:
            form = KeyForm.of(column.data_type)
            self._readers[column.name, kind] = _READERS[kind](block, form, self._row_count)
        return self._readers[column.name, kind]

    def check(self, type_of: Callable[[str], AtomicType | None]) -> None:
        """Read all indexes. `type_of` gives the type of a column of the file or of `column[key]`. Raises TableCorrupt."""
        for name, kinds in self._parts.items():
            data_type = type_of(name)
            for kind, block in kinds.items():
                if block is not None:
                    block.read(0, block.length)
                if block is not None and data_type is not None and kind in KINDS and takes(kind, data_type):
                    self._reader(IndexedColumn(name, data_type), kind, block).check()
