"""Read the rows of one run of files (see `row_runs`), whose columns may be spread over several files.

Owns: opening the files of a run, cutting their batches to equal lengths, row ids. Must not know: partitions, deletion vectors,
predicates (except for skipping row groups of a single file). Source: format/data-files §7.

Invariants: A file without any wanted column is not opened. Columns from different files are aligned row by row. Row ids and
sequence numbers that a file holds take precedence over those computed from its manifest, but for the numbers of new rows in
tables with `sequence.snapshot-ordering`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from ...backends.store import Store
from ...core import options as opt
from ...core.errors import TableCorrupt
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import SOURCE_APPEND, DataFile
from ...core.metadata.schema import ROW_ID, ROW_SEQUENCE, TableSchema
from ...core.metadata.schemas.merge_rules import VALUE_KIND
from ...core.options import TableOptions
from ...core.rows.types import Field
from ..formats.blob_reader import blob_values
from ..formats.data_source import SMALL_FILE_BYTES, DataSource
from ..formats.file_rows import FileRows, MergedRows, Rows
from ..formats.reading import open_data_file
from ..projection.plan import ProjectionPlan, plan_projection
from ..scan.row_runs import first_row, givers, is_blob, row_count
from .read_ahead import in_order

PARTS_AT_ONCE = 4
"""How many parts of a file are read at the same time where it is the only one that is read."""
_METADATA_BATCH_ROWS = 1 << 20
_SYSTEM = (ROW_ID, ROW_SEQUENCE, VALUE_KIND)

StoredFile = tuple[Store, str]


class RunReader:
    """Reads runs into rows. It can be pickled to another machine. Partition columns are not among its `fields`."""

    def __init__(self, fields: Sequence[Field], file_schemas: Mapping[int, TableSchema], options: TableOptions) -> None:
        self._fields = tuple(fields)
        self._file_schemas, self._options = file_schemas, options
        self._by_snapshot = options.get(opt.SNAPSHOT_ORDERING)
        self._projections: dict[tuple[int, tuple[Field, ...]], ProjectionPlan] = {}

    def check(self, run: Sequence[DataFile]) -> None:
        """Refuse (`Unsupported`), before any file is opened, a changed type from which there is no cast to the new one."""
        for file, fields in givers(run, self._fields, self._file_schemas.__getitem__).items():
            self._projection(file, fields)

    def rows(
        self,
        files: Mapping[DataFile, StoredFile],
        predicate: Predicate | None,
        alone: bool,
        wanted: BitMap | None = None,
        part_bytes: int | None = None,
    ) -> Iterator[tuple[int, Rows]]:
        """The run's batches, each as (position in the run, rows).

        Args:
            files: those of the run, in its order.
            predicate: bound. In a run of one file, row groups that cannot hold a matching row are skipped.
            alone: nothing else is read at the same time.
            wanted: the positions of the wanted rows in a run of one file, whose other row groups are skipped; None = all.
            part_bytes: about how much of a file may be held at a time (see `open_data_file`); None for whole row groups.

        `TableCorrupt`: a file is missing or damaged, or the files differ in their number of rows.
        """
        run = tuple(files)
        given = givers(run, self._fields, self._file_schemas.__getitem__)
        chosen = (predicate, wanted) if len(run) == 1 else (None, None)
        whole = [file for file in given if not is_blob(file)]
        parts = [
            (given[file], self._of_file(file, files[file], given[file], *chosen, alone, part_bytes))
            for file in whole
            if given[file] or len(given) == 1
        ]
        for field in dict.fromkeys(f for file, fields in given.items() if is_blob(file) for f in fields):
            sources = [DataSource(*files[f], f, self._options) for f in given if field in given[f] and is_blob(f)]
            parts.append(([field], self._of_blobs(sources, run, field)))
        if len(parts) == 1:
            return parts[0][1]
        return _side_by_side(parts, row_count(run), files[run[0]][1])

    def _of_file(
        self,
        file: DataFile,
        stored: StoredFile,
        fields: Sequence[Field],
        predicate: Predicate | None,
        wanted: BitMap | None,
        alone: bool,
        part_bytes: int | None,
    ) -> Iterator[tuple[int, FileRows]]:
        projection = self._projection(file, fields)
        found = self._opened(file, stored, projection, predicate, wanted, alone, part_bytes)
        for position, read in found if found is not None else _without_columns(file, projection, stored[1]):
            for rows in read.pieces():
                self._count(rows, file, stored[1], position, fields)
                yield position, rows
                position += len(rows)

    def _count(self, rows: FileRows, file: DataFile, key: str, position: int, fields: Sequence[Field]) -> None:
        if ROW_ID in fields:
            first = file.first_row_id
            ids = None if first is None else np.arange(first + position, first + position + len(rows))
            rows.replace_nulls(ROW_ID.name, pa.nulls(len(rows), pa.int64()) if ids is None else pa.array(ids))
        if ROW_SEQUENCE in fields:
            number = pa.scalar(file.max_sequence_number, pa.int64())
            if self._by_snapshot and _is_stamped(file, key):
                rows.replace(ROW_SEQUENCE.name, pa.repeat(number, len(rows)))
            else:
                rows.replace_nulls(ROW_SEQUENCE.name, pa.repeat(number, len(rows)))

    def _opened(
        self,
        file: DataFile,
        stored: StoredFile,
        projection: ProjectionPlan,
        predicate: Predicate | None,
        wanted: BitMap | None,
        alone: bool,
        part_bytes: int | None,
    ) -> Iterator[tuple[int, FileRows]] | None:
        if all(column.source is None or self._is_counted(column.field, file) for column in projection.columns):
            return None
        opened = open_data_file(*stored, file, projection, self._options, part_bytes=part_bytes)
        if not opened.has_columns:
            return None
        if alone:
            parts = opened.parts(predicate, wanted)
            return in_order(parts, min(PARTS_AT_ONCE, len(parts)))
        return opened.batches(predicate, wanted, threads=file.file_size > SMALL_FILE_BYTES)

    def _is_counted(self, field: Field, file: DataFile) -> bool:
        """Is this a system column that the file lacks, so that its values are computed?"""
        return field in (ROW_ID, ROW_SEQUENCE) and field.name not in (file.write_cols or ())

    def _of_blobs(
        self, sources: Sequence[DataSource], run: Sequence[DataFile], field: Field
    ) -> Iterator[tuple[int, FileRows]]:
        projection = plan_projection([field], [field])
        position = 0
        for values in blob_values(sources, first_row(run), row_count(run)):
            batch = pa.RecordBatch.from_arrays([values], [field.name])
            yield position, FileRows(batch, projection, sources[0].where)
            position += len(values)

    def _projection(self, file: DataFile, fields: Sequence[Field]) -> ProjectionPlan:
        known = (file.schema_id, tuple(fields))
        if known not in self._projections:
            written = (*self._file_schemas[file.schema_id].fields, *_SYSTEM)
            self._projections[known] = plan_projection(written, fields, f"schema {file.schema_id}")
        return self._projections[known]


def _without_columns(file: DataFile, projection: ProjectionPlan, key: str) -> Iterator[tuple[int, FileRows]]:
    """The rows of a file with none of the wanted columns: batches that have only a number of rows."""
    for position in range(0, file.row_count, _METADATA_BATCH_ROWS):
        rows = min(_METADATA_BATCH_ROWS, file.row_count - position)
        yield position, FileRows(pa.record_batch({"": pa.nulls(rows)}).select([]), projection, f"data file {key}")


def _side_by_side(
    parts: Sequence[tuple[Sequence[Field], Iterator[tuple[int, Rows]]]], expected: int, key: str
) -> Iterator[tuple[int, Rows]]:
    owners = {field.name: number for number, (fields, _) in enumerate(parts) for field in fields}
    waiting: list[Rows | None] = [None] * len(parts)
    position = 0
    while position < expected:
        for number, (_, batches) in enumerate(parts):
            if waiting[number] is None:
                waiting[number] = next((rows for _, rows in batches), None)
        ready = [rows for rows in waiting if rows is not None]
        if len(ready) < len(parts):
            raise TableCorrupt(f"files with other columns of the rows of data file {key} have fewer rows than it")
        count = min(map(len, ready))
        yield position, MergedRows([rows.slice(0, count) for rows in ready], owners)
        waiting = [rows.slice(count) if len(rows) > count else None for rows in ready]
        position += count


def _is_stamped(file: DataFile, key: str) -> bool:
    """Whether rows are ordered by the snapshot that added them. A compaction has stored the numbers of its inputs."""
    if file.file_source is None:
        raise TableCorrupt(
            f"data file {key} has no '_FILE_SOURCE', which option '{opt.SNAPSHOT_ORDERING.key}' needs: the file is too old"
        )
    return file.file_source == SOURCE_APPEND
