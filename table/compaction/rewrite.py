"""Rewrite files of one (partition, bucket) into fewer, larger ones with the same rows.

Owns: `Rewriter`, which is pickled to executors. Must not know: how files are chosen, commits.
Source: format/data-files §2, §6 (sequence numbers, file source). Invariants: The new files have exactly the live rows of the old
files, in the same order, or the rewrite fails. A rewrite that fails deletes its files, or names those it could not delete.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...coordinator.commit.message import CommitMessage
from ...core import options as opt
from ...core.errors import TableCorrupt, Unsupported
from ...core.metadata.data_file import SOURCE_COMPACT, DataFile
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.paths import TablePaths
from ..reading.arrow import SplitReader
from ..scan.fallback import FileSchemas
from ..scan.split import Split
from ..writing.files.data_writer import DataFileWriter, FileSettings
from ..writing.unfinished import unfinished


@dataclass(frozen=True)
class Rewriter:
    """Rewrites groups of files. Rows are read and written with `schema`; a file is closed when it has grown to `target_bytes`."""

    store: Store
    schema: TableSchema
    file_schemas: FileSchemas
    target_bytes: int

    @cached_property
    def _written(self) -> TableSchema:
        """The schema with the columns of the new files. Tracked rows keep their ids, which are then stored as columns."""
        if not self._is_tracked:
            return self.schema
        return replace(self.schema, fields=(*self.schema.fields, ROW_ID, ROW_SEQUENCE))

    @property
    def _is_tracked(self) -> bool:
        return bool(self.schema.options.get(opt.ROW_TRACKING))

    @cached_property
    def _settings(self) -> FileSettings:
        return replace(FileSettings.of(self.schema, self._written.fields), target_bytes=self.target_bytes)

    @cached_property
    def _reader(self) -> SplitReader:
        return SplitReader(self.schema, self._written.names, None, self.file_schemas)

    def rewrite(self, group: Split, name: str) -> CommitMessage:
        """Write the live rows of a group into new files; name and errors are as for `KeyRewriter.rewrite`."""
        paths = TablePaths(data_directory=self.schema.options.get(opt.DATA_FILE_DIRECTORY))
        folder = paths.bucket_dir(group.partition_path, group.bucket)
        stem = f"{self.schema.options.get(opt.DATA_FILE_PREFIX)}{name}"
        kind = _TrackedWriter if self._is_tracked else DataFileWriter
        with unfinished(self.store) as made:
            writer = made.writer(kind(self.store, self._settings, folder, stem, travelling=False))
            for batch in self._rows(group):
                self._refuse_nulls(batch, group)
                writer.write(batch)
            writer.finish()
            _check_rows(group, writer.files)
        return CommitMessage(
            group.partition,
            group.bucket,
            group.total_buckets,
            compact_before=group.files,
            compact_after=tuple(self._described(writer.files, group.files[0])),
        )

    def _rows(self, group: Split) -> Iterable[pa.RecordBatch]:
        """The live rows of a group, in the order in which they are written."""
        return self._reader.batches(self.store, [group])

    def _described(self, files: Iterable[DataFile], oldest: DataFile) -> Iterable[DataFile]:
        """Number the rows from the oldest file's number, like Apache Paimon. Tracked rows have their numbers already."""
        first = oldest.min_sequence_number
        for file in files:
            if self._is_tracked:
                yield file._replace(file_source=SOURCE_COMPACT, level=oldest.level)
                continue
            last = first + file.row_count - 1
            yield file._replace(
                file_source=SOURCE_COMPACT,
                min_sequence_number=first,
                max_sequence_number=last,
                level=oldest.level,
            )
            first = last + 1

    def _refuse_nulls(self, batch: pa.RecordBatch, group: Split) -> None:
        for field in self.schema.fields:
            if not field.type.nullable and batch.column(field.name).null_count:
                raise Unsupported(
                    f"column '{field.name}' has become NOT NULL, but files {group.keys[0]} … have nulls in it",
                    next_step="make the column nullable",
                )


class _TrackedWriter(DataFileWriter):
    """Gives each file the smallest and the largest number of its rows."""

    _numbers: tuple[int, int] | None = None

    def _stored(self, rows: pa.Table) -> pa.Table:
        found = pc.min_max(rows.column(ROW_SEQUENCE.name))
        low, high = found["min"].as_py(), found["max"].as_py()
        known = self._numbers if self._output is not None else None
        self._numbers = (low, high) if known is None else (min(low, known[0]), max(high, known[1]))
        return super()._stored(rows)

    def _described(self, file: DataFile, footer: Any) -> DataFile:
        assert self._numbers is not None
        low, high = self._numbers
        return super()._described(file, footer)._replace(min_sequence_number=low, max_sequence_number=high)


def _check_rows(group: Split, written: Iterable[DataFile]) -> None:
    marked = [
        place.vector.cardinality if place is not None else 0 for place in map(group.deletion, range(len(group.files)))
    ]
    if None in marked:
        return
    expected = group.row_count - sum(n for n in marked if n is not None)
    found = sum(file.row_count for file in written)
    if found != expected:
        raise TableCorrupt(
            f"{group.keys[0]} and {len(group.keys) - 1} more files have {found} rows, but their manifests say {expected}"
        )
