"""Read one section of files and merge its rows by primary key.

Owns: `SectionReader`, `DEFAULT_MEMORY`. Must not know: how rows are merged, output columns that are constant.
Source: format/primary-keys §2, §5, §6.

Invariants: Rows that a deletion vector marks are gone before the merge. Only conditions on key columns skip row groups. A section
that is larger than the given memory is merged one range of keys after another (see `windows`). Engines that keep whole rows copy
only the rows that stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...backends.store import Store
from ...core import options as opt
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND, MergeRules
from ...core.rows.arrow import to_arrow
from ...core.rows.sizes import fixed_bytes
from ...core.rows.types import Field
from ...core.statistics.pruning import split_predicate
from ..formats.data_source import BATCH_ROWS
from ..formats.external import located
from ..formats.file_rows import Rows, joined
from ..merging.merge import chosen_rows, columns_to_merge, merge_section, newest_rows
from ..merging.sections import are_in_order, sorted_runs
from ..scan.split import Split
from .deletion import deleted_rows, live_mask
from .run_reader import RunReader
from .set_aside import PARTS_WHILE_SET_ASIDE, takes_too_much, windows_set_aside
from .windows import SORTING_BYTES, Piece, Window, windows

DEFAULT_MEMORY = opt.MERGE_MEMORY.default
_ORDER = (ROW_SEQUENCE, VALUE_KIND)
_ALWAYS_TAKEN = 40 << 20
"""By decoders, threads and libraries that are loaded late, however few rows are read."""
_FOR_WHOLE_ROWS = 3
"""The part of the memory for rows that wait to be merged, where merged rows are copied batch by batch."""
_FOR_MADE_ROWS = 8
"""The same, where the columns of a range are joined and new ones are made of them."""
_READ_WHOLE = 1.8
"""By so much, rows that are merged at once may exceed that part: no decoder stays open for them, and none is cut."""


class ColumnRows:
    def __init__(self, count: int, columns: Mapping[str, Any]) -> None:
        self._count, self._columns = count, columns

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._columns.values())

    def column(self, name: str) -> Any:
        return self._columns[name]

    def kept(self, mask: pa.BooleanArray, columns: Sequence[str] | None = None) -> ColumnRows:
        names = self._columns if columns is None else columns
        return ColumnRows(mask.true_count, {name: self._columns[name].filter(mask) for name in names})

    def slice(self, offset: int, length: int | None = None) -> ColumnRows:
        count = max(self._count - offset, 0) if length is None else min(length, max(self._count - offset, 0))
        return ColumnRows(count, {name: array.slice(offset, length) for name, array in self._columns.items()})


class SectionReader:
    """Reads and merges sections. It can be pickled to another machine. Merged rows must fulfil the bound predicate `residual`."""

    def __init__(
        self,
        schema: TableSchema,
        rules: MergeRules,
        wanted: Sequence[Field],
        residual: Predicate | None,
        file_schemas: Mapping[int, TableSchema],
    ) -> None:
        self._rules, self._fields = rules, schema.fields
        self._wanted = [f.name for f in wanted]
        needed = columns_to_merge(rules, schema.fields, self._wanted)
        self._read = [f for f in schema.fields if f.name in needed and f.name not in schema.partition_keys]
        self._file_schemas, self._options = file_schemas, schema.options
        self._readers: dict[tuple[Field, ...], RunReader] = {}
        self._on_keys = None if residual is None else split_predicate(residual, rules.key_names)[0]

    def check(self, files: Sequence[DataFile]) -> None:
        """Refuse files that cannot be read, before any is opened; errors as for `RunReader.check`."""
        for file in files:
            self._reader(*_ORDER).check([file])

    def batches(
        self, store: Store, split: Split, section: Sequence[int], alone: bool, memory: int = DEFAULT_MEMORY
    ) -> Iterator[Rows]:
        """The merged rows of a section, in any order, some at a time, in about so many bytes.

        Raises:
            TableCorrupt: a file is missing or damaged, or a large one is not sorted by key.
            InvalidArgument, Unsupported: the engine cannot merge these rows.
        """
        files = [split.files[i] for i in section]
        runs = sorted_runs(files, self._rules)
        if self._is_ordered_by_file(files, runs):
            order = [(VALUE_KIND,) if _may_delete(file) else () for file in files]
            for window in self._windows(store, split, section, runs, order, alone, memory):
                yield from self._kept(window, _live(window, files, newest_rows(self._rules, window.column)))
                window.release()
            return
        for window in self._windows(store, split, section, runs, [_ORDER] * len(files), alone, memory):
            if self._rules.keeps_whole_rows:
                is_kept = np.zeros(len(window), bool)
                is_kept[chosen_rows(self._rules, window.column, self._fields)] = True
                yield from self._kept(window, is_kept)
            else:
                rows = ColumnRows(*merge_section(self._rules, window.column, self._fields, self._wanted))
                window.release()
                for position in range(0, len(rows), BATCH_ROWS):
                    yield rows.slice(position, BATCH_ROWS)
                del rows
            window.release()

    def _is_ordered_by_file(self, files: Sequence[DataFile], runs: Sequence[Sequence[int]]) -> bool:
        """Is the newest row of a key that of the last file which has the key?"""
        rules = self._rules
        if rules.engine != "deduplicate" or rules.sequence_fields:
            return False
        if rules.ignore_delete and any(map(_may_delete, files)):
            return False
        return not rules.has_lookups and are_in_order(files, runs)

    def _windows(
        self,
        store: Store,
        split: Split,
        section: Sequence[int],
        runs: Sequence[Sequence[int]],
        order: Sequence[tuple[Field, ...]],
        alone: bool,
        memory: int,
    ) -> Iterator[Window]:
        """The rows in ranges of keys; `order` says which of `_SEQUENCE_NUMBER` and `_VALUE_KIND` are read of each file."""
        free = max(memory - _ALWAYS_TAKEN, memory // 2)
        budget = free // (_FOR_WHOLE_ROWS if self._rules.keeps_whole_rows else _FOR_MADE_ROWS)
        piece_bytes = budget // (2 * len(runs))
        of_runs = [[split.files[section[i]] for i in run] for run in runs]
        is_cut = not (self._rules.is_on("pk-clustering-override") or self._fits(of_runs, _READ_WHOLE * budget))
        is_set_aside = is_cut and takes_too_much(of_runs, len(self._read) + len(_ORDER), memory)
        part_bytes = budget // PARTS_WHILE_SET_ASIDE if is_set_aside else piece_bytes if is_cut else None
        readers = [self._reader(*fields) for fields in order]
        pieces = [
            (piece for i in run for piece in self._pieces(store, split, section[i], i, readers[i], alone, part_bytes))
            for run in runs
        ]
        keys = [f.name for f in self._rules.keys]
        if is_set_aside:
            deciding = [[*keys, *(f.name for f in fields)] for fields in order]
            return windows_set_aside(pieces, keys, deciding, budget, piece_bytes)
        return windows(pieces, keys, budget if is_cut else None)

    def _fits(self, runs: Sequence[Sequence[DataFile]], memory: float) -> bool:
        """Do all rows surely fit into the memory? Unknown, so False, of columns whose values differ in size."""
        sizes = [fixed_bytes(to_arrow(field.type)) for field in (*self._read, *_ORDER)]
        row_bytes = SORTING_BYTES + sum(size or 0 for size in sizes)
        return None not in sizes and row_bytes * sum(file.row_count for run in runs for file in run) <= memory

    def _kept(self, window: Window, is_kept: Any) -> Iterator[Rows]:
        start = 0
        for rows in joined(piece.rows for piece in window.pieces):
            end = start + len(rows)
            kept = rows.kept(pa.array(is_kept[start:end]), self._wanted)
            start = end
            if len(kept):
                yield kept

    def _reader(self, *order: Field) -> RunReader:
        if order not in self._readers:
            self._readers[order] = RunReader([*self._read, *order], self._file_schemas, self._options)
        return self._readers[order]

    def _pieces(
        self,
        store: Store,
        split: Split,
        index: int,
        number: int,
        reader: RunReader,
        alone: bool,
        part_bytes: int | None,
    ) -> Iterator[Piece]:
        file, where = split.files[index], f"data file {split.keys[index]}"
        deleted = deleted_rows(store, split, (index,))
        found = reader.rows({file: located(store, split.keys[index])}, self._on_keys, alone, part_bytes=part_bytes)
        for position, rows in _ended(found, file.row_count):
            live = None if deleted is None else live_mask(deleted, position, len(rows))
            yield Piece(number, file.level, rows if live is None else rows.kept(live), where)


def _ended(found: Iterator[tuple[int, Rows]], count: int) -> Iterator[tuple[int, Rows]]:
    """The rows of a file. Its reader ends before the last of them are passed on, so that nothing else of the file is held."""
    for position, rows in found:
        more = list(found) if position + len(rows) == count else []
        yield position, rows
        yield from more


def _may_delete(file: DataFile) -> bool:
    """May the file have rows that delete? Old files do not say."""
    return file.delete_row_count != 0


def _live(window: Window, files: Sequence[DataFile], is_newest: Any) -> Any:
    """Which of the newest rows do not delete. Only files that may have such rows have kinds."""
    for piece, of_piece in _by_piece(window, is_newest):
        if _may_delete(files[piece.file]):
            kinds = piece.rows.column(VALUE_KIND.name).to_numpy(zero_copy_only=False)
            of_piece &= kinds & 1 == 0
    return is_newest


def _by_piece(window: Window, rows: Any) -> Iterator[tuple[Piece, Any]]:
    """The pieces of a window, each with its part of an array that has a value for each row: a view."""
    start = 0
    for piece in window.pieces:
        end = start + len(piece.rows)
        yield piece, rows[start:end]
        start = end
