"""What the indexes of a data file answer.

Owns: `FileIndex`: from what is asked to the rows that may be kept. Must not know: stores, schemas, which file it is.
Source: format/file-indexes §1, §5.

Invariants: a row that the predicate keeps is never left out; an index is read only where it is asked; where
nothing is known all rows may be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyroaring import BitMap

from ..rows.types import AtomicType
from ..typed import assert_never
from .asking import AllOf, AnyOf, Asked, IndexedColumn, OneColumn
from .bitmap import BitmapReader
from .block import Block, Fetch
from .bloom import BloomReader
from .bsi import BsiReader
from .container import parse_container
from .keys import KeyForm, Question
from .options import BITMAP, BLOOM, BSI, KINDS, RANGE_BITMAP, takes
from .range_bitmap import RangeBitmapReader


class IndexReader(Protocol):
    """One index of one column."""

    def rows(self, question: Question) -> BitMap | None:
        """The rows that may be kept, positions in the file; None: all may."""

    def check(self) -> None:
        """Read all of it. Raises TableCorrupt."""


_READERS: dict[str, Callable[[Block, KeyForm, int], IndexReader]] = {
    BLOOM: BloomReader,
    BITMAP: BitmapReader,
    BSI: BsiReader,
    RANGE_BITMAP: RangeBitmapReader,
}


class FileIndex:
    """The indexes of one data file.

    Args:
        fetch: gives the container's bytes.
        length: of the container; None where nobody says.
        rows: of the data file.
        where: the data file, for errors.

    Raises:
        TableCorrupt: no container, or a damaged one.
    """

    def __init__(self, fetch: Fetch, length: int | None, rows: int, where: str) -> None:
        self._row_count = rows
        self._parts = parse_container(fetch, length, where)
        self._readers: dict[tuple[str, str], IndexReader] = {}

    def rows(self, asked: Asked) -> BitMap | None:
        """The rows that may be kept.

        Args:
            asked: of columns as this file has them (see `asking.asked_of`).

        Returns:
            Positions in the file, not to be changed; None: all may be kept.

        Raises:
            TableCorrupt: an index that is asked is damaged.
            Unsupported: an index of a later version.
        """
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
            return None  # made of no row at all
        return self._reader(column, kind, block).rows(question)

    def _reader(self, column: IndexedColumn, kind: str, block: Block) -> IndexReader:
        if (column.name, kind) not in self._readers:
            form = KeyForm.of(column.data_type)
            self._readers[column.name, kind] = _READERS[kind](block, form, self._row_count)
        return self._readers[column.name, kind]

    def check(self, type_of: Callable[[str], AtomicType | None]) -> None:
        """Read all indexes.

        Args:
            type_of: the type of a column of the file, also of `column[key]`; None for one that it does not have.

        Raises:
            TableCorrupt: one is damaged, or does not cover the file's rows.
            Unsupported: one of a later version.
        """
        for name, kinds in self._parts.items():
            data_type = type_of(name)
            for kind, block in kinds.items():
                if block is not None:
                    block.read(0, block.length)
                if block is not None and data_type is not None and kind in KINDS and takes(kind, data_type):
                    self._reader(IndexedColumn(name, data_type), kind, block).check()
