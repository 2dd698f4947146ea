"""What a change of rows does to one data file of a table without a primary key.

Owns: `FileChanger`, which is pickled to other machines, and `FileChange`. Must not know: other files, index files, commits.
Source: format/deletion-vectors §1, §2; format/data-files §7 (row tracking).
Invariants: A file is written anew only if one of its rows changes. Rows that stay keep their order and their row ids. A row that
is updated keeps its id, and loses its number, so that it gets that of the commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...backends.store import Store
from ...coordinator.commit.message import PendingUpload
from ...core import options as opt
from ...core.errors import Unsupported
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.paths import TablePaths
from ...core.rows.whole import one_batch, taken
from ..reading.positions import PositionReader
from ..scan.fallback import FileSchemas
from ..scan.split import Split
from ..writing.files.data_writer import DataFileWriter, FileSettings
from ..writing.unfinished import unfinished
from .operation import DELETED, Found, Operation, distinct, made

_NONE = np.zeros(0, np.int64)
HELD_BYTES = 16 << 20
"""The bytes of new rows of a file above which they get files of their own; others are collected."""


@dataclass(frozen=True)
class FileChange:
    """The change of one file.

    Attributes:
        deleted, updated: how many rows.
        positions: the rows that leave the file: deleted ones, and updated ones that are written elsewhere.
        rows: the new rows that are written elsewhere; None for none.
        is_gone: no row of the file stays.
        new_files, uploads: what takes the place of the file, if it is written anew.
        written: the keys of new files that are in the store already.
        met: the rows of the source that meet any of its rows.
    """

    split: Split
    deleted: int = 0
    updated: int = 0
    positions: Any = field(default_factory=lambda: _NONE)
    rows: pa.Table | None = None
    is_gone: bool = False
    is_rewritten: bool = False
    new_files: tuple[DataFile, ...] = ()
    uploads: tuple[PendingUpload, ...] = ()
    written: tuple[str, ...] = ()
    met: Any = field(default_factory=lambda: _NONE)

    @property
    def changes(self) -> bool:
        return bool(self.deleted or self.updated)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all new files, in the store or on their way with a commit."""
        return (*self.written, *(upload.key for upload in self.uploads))


@dataclass(frozen=True)
class FileChanger:
    """Applies an operation to those rows of files that fulfil `residual`; None if choosing the files was enough.

    With `marks`, rows are only marked as deleted. With `moves`, an updated row may belong into another partition or bucket.
    """

    store: Store
    schema: TableSchema
    file_schemas: FileSchemas
    operation: Operation
    residual: Predicate | None
    marks: bool
    moves: bool

    @cached_property
    def _tracked(self) -> bool:
        return bool(self.schema.options.get(opt.ROW_TRACKING))

    @cached_property
    def fields(self) -> tuple[Any, ...]:
        """The columns of rows that are written again. Tracked rows keep their ids, which are then stored."""
        return (*self.schema.fields, ROW_ID, ROW_SEQUENCE) if self._tracked else self.schema.fields

    @cached_property
    def _names(self) -> list[str]:
        return [f.name for f in self.fields]

    @cached_property
    def _finder(self) -> PositionReader:
        return PositionReader(self.schema, list(self.operation.columns), self.residual, self.file_schemas)

    @cached_property
    def _whole(self) -> PositionReader:
        return PositionReader(self.schema, self._names, None, self.file_schemas)

    def __getstate__(self) -> dict[str, Any]:
        made = ("_tracked", "fields", "_names", "_finder", "_whole", "_settings")
        return {k: v for k, v in self.__dict__.items() if k not in made}

    def change(self, split: Split, name: str) -> FileChange:
        """What the operation does to one file. `name` is a unique name for new files, which follows the table's prefix."""
        positions, found = self._found(split)
        if not len(positions):
            return FileChange(split, met=found.met)
        is_deleted = found.actions == DELETED
        deleted = int(is_deleted.sum())
        updated = len(positions) - deleted
        change = FileChange(split, deleted, updated, met=found.met)
        leaving = np.ones(len(positions), bool) if self.marks or self.moves else is_deleted
        rows = None
        if updated and (self.marks or self.moves):
            rows = self._new_rows(split, positions[~is_deleted], found, ~is_deleted)
        change = replace(change, positions=positions[leaving], rows=rows)
        if rows is not None and not self.moves and rows.nbytes > HELD_BYTES:
            change = self._with_files(replace(change, rows=None), iter(rows.to_batches()), f"{name}-new")
        if leaving.all() and not self._stays(split, len(positions)):
            return replace(change, is_gone=True)
        return change if self.marks else self._rewritten(change, positions, found, name)

    def _stays(self, split: Split, leaving: int) -> bool:
        live = split.live_rows((0,))
        return live is None or live > leaving

    def _found(self, split: Split) -> tuple[Any, Found]:
        """The rows that change, by their positions in the file."""
        at, parts = [], []
        for positions, batch in self._finder.numbered(self.store, split):
            found = self.operation.find(batch)
            parts.append(found)
            at.append(positions[found.rows])
        if not parts:
            return _NONE, Found.nothing()
        met = distinct(np.concatenate([p.met for p in parts]))
        actions, sources = (np.concatenate([getattr(p, n) for p in parts]) for n in ("actions", "sources"))
        return np.concatenate(at), Found(_NONE, actions, sources, met)

    def _new_rows(self, split: Split, positions: Any, found: Found, chosen: Any) -> pa.Table:
        actions, sources = found.actions[chosen], found.sources[chosen]
        new, done = list[pa.RecordBatch](), 0
        for at, batch in self._whole.numbered(self.store, split, BitMap(positions)):
            part = slice(done, done + len(at))
            new += self._made(batch, actions[part], sources[part])
            done = part.stop
        return pa.Table.from_batches(new)

    def _made(self, batch: pa.RecordBatch, actions: Any, sources: Any) -> Iterator[pa.RecordBatch]:
        done = 0
        for new in made(self.operation, batch.select(self.schema.names), actions, sources):
            if self._tracked:
                ids = batch.column(ROW_ID.name).slice(done, new.num_rows)
                arrays = [*new.columns, ids, pa.nulls(new.num_rows, pa.int64())]
                new = pa.RecordBatch.from_arrays(arrays, schema=self._whole.arrow_schema)
            done += new.num_rows
            yield new

    # -------------------------------------------------------------------------------------------------------- rewriting

    @cached_property
    def _settings(self) -> FileSettings:
        return FileSettings.of(self.schema, self.fields)

    def _rewritten(self, change: FileChange, positions: Any, found: Found, name: str) -> FileChange:
        """The change with new files in the place of the old one."""
        made = self._with_files(change, self._after(change.split, positions, found), name)
        oldest = change.split.files[0].min_sequence_number
        files = made.new_files
        if self._tracked:
            files = tuple(f._replace(min_sequence_number=oldest, max_sequence_number=0) for f in files)
        return replace(made, is_rewritten=True, new_files=files)

    def _with_files(self, change: FileChange, batches: Iterator[pa.RecordBatch], name: str) -> FileChange:
        """The change with new files of some rows, beside the old one."""
        split = change.split
        paths = TablePaths(data_directory=self.schema.options.get(opt.DATA_FILE_DIRECTORY))
        folder = paths.bucket_dir(split.partition_path, split.bucket)
        stem = f"{self.schema.options.get(opt.DATA_FILE_PREFIX)}{name}"
        with unfinished(self.store) as made:
            writer = made.writer(DataFileWriter(self.store, self._settings, folder, stem, travelling=True))
            for batch in batches:
                self._refuse_nulls(batch, split)
                writer.write(batch)
            writer.finish()
        return replace(
            change,
            new_files=(*change.new_files, *writer.files),
            uploads=(*change.uploads, *writer.uploads),
            written=(*change.written, *writer.written_keys),
        )

    def _after(self, split: Split, positions: Any, found: Found) -> Iterator[pa.RecordBatch]:
        for at, batch in self._portions(split, positions, found):
            first, last = np.searchsorted(positions, (at[0], at[-1] + 1))
            here = slice(first, last)
            actions, sources = found.actions[here], found.sources[here]
            places = np.searchsorted(at, positions[here])
            updated = actions != DELETED
            keep = np.ones(len(at), bool)
            if self.moves:
                keep[places] = False
            else:
                keep[places[~updated]] = False
            if not self.moves and updated.any():
                old = places[updated]
                new = self._made(batch.take(pa.array(old)), actions[updated], sources[updated])
                order = np.arange(len(at))
                order[old] = len(at) + np.arange(len(old))
                both = one_batch([batch, *(rows.cast(batch.schema) for rows in new)])
                yield from taken(both, order[keep], batch.schema)
                continue
            if not keep.all():
                batch = batch.filter(pa.array(keep))
            if batch.num_rows:
                yield batch

    def _portions(self, split: Split, positions: Any, found: Found) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """The rows of the file by their positions, in portions whose new values are made at once."""
        for at, batch in self._whole.numbered(self.store, split):
            first, last = np.searchsorted(positions, (at[0], at[-1] + 1))
            cuts = [first + part.stop for part in self.operation.parts(found.sources[first:last])][:-1]
            places = [0, *np.searchsorted(at, positions[cuts]).tolist(), len(at)]
            for start, stop in pairwise(places):
                yield at[start:stop], batch.slice(start, stop - start)

    def _refuse_nulls(self, batch: pa.RecordBatch, split: Split) -> None:
        for column in self.schema.fields:
            if not column.type.nullable and batch.column(column.name).null_count:
                raise Unsupported(
                    f"column '{column.name}' has become NOT NULL, but file {split.keys[0]} has nulls in it",
                    next_step="make the column nullable",
                )
