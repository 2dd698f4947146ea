"""What the indexes of a data file say of a predicate.

Owns: `FileIndex`: from a predicate to the rows that may be kept. Must not know: stores, schemas, which file it is.
Source: data-layer §10; format-metadata §8.4.

Invariants: a row that the predicate keeps is never left out; an index is read only where the predicate asks for it; where
nothing is known all rows may be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyroaring import BitMap

from ..predicate import And, Comparison, Not, Or, Predicate
from ..types import AtomicType
from .bitmap import BitmapReader
from .block import Block, Fetch
from .bloom import BloomReader
from .bsi import BsiReader
from .container import parse_container
from .keys import NEVER, KeyForm, Question, question_of
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


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column of a predicate as the data file has it.

    Attributes:
        name: there.
        data_type: there; every value of it has its own, equal value in the predicate's column.
        trimmed: readers drop the blanks at its values' ends (CHAR in ORC).
    """

    name: str
    data_type: AtomicType
    trimmed: bool = False


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

    def rows(self, predicate: Predicate, columns: Mapping[str, IndexedColumn]) -> BitMap | None:
        """The rows that may be kept.

        Args:
            predicate: bound.
            columns: by name in the predicate, those that the file has and can be asked for.

        Returns:
            Positions in the file, not to be changed; None: all may be kept.

        Raises:
            TableCorrupt: an index that is asked is damaged.
            Unsupported: an index of a later version.
        """
        return self._rows(predicate, columns, negated=False)

    def _rows(self, predicate: Predicate, columns: Mapping[str, IndexedColumn], negated: bool) -> BitMap | None:
        match predicate:
            case Comparison():
                return self._leaf(predicate, columns, negated)
            case Not(part=part):
                return self._rows(part, columns, not negated)
            case And(parts=parts) | Or(parts=parts):
                every = isinstance(predicate, And) is not negated
                return self._all(parts, columns, negated) if every else self._any(parts, columns, negated)
            case _:
                return None

    def _all(self, parts: tuple[Predicate, ...], columns: Mapping[str, IndexedColumn], negated: bool) -> BitMap | None:
        found: BitMap | None = None
        for part in parts:
            rows = self._rows(part, columns, negated)
            if rows is not None:
                found = rows if found is None else found & rows
                if not found:
                    break
        return found

    def _any(self, parts: tuple[Predicate, ...], columns: Mapping[str, IndexedColumn], negated: bool) -> BitMap | None:
        found = BitMap()
        for part in parts:
            rows = self._rows(part, columns, negated)
            if rows is None:
                return None
            found = found | rows
        return found

    def _leaf(self, leaf: Comparison, columns: Mapping[str, IndexedColumn], negated: bool) -> BitMap | None:
        column = columns.get(leaf.column)
        kinds = self._parts.get(column.name) if column is not None else None
        if column is None or not kinds:
            return None
        question = question_of(leaf, negated, column.data_type, trimmed=column.trimmed)
        if question is None or question == NEVER:
            return None if question is None else BitMap()
        found: BitMap | None = None
        for kind in KINDS:
            if kind not in kinds or not takes(kind, column.data_type):
                continue
            rows = self._asked(column, kind, question)
            if rows is not None:
                found = rows if found is None else found & rows
                if not found:
                    break
        return found

    def _asked(self, column: IndexedColumn, kind: str, question: Question) -> BitMap | None:
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
