"""New values for some columns of existing rows, in tables with data evolution.

Owns: `updated_columns`, which writes files that hold only these columns, for the rows of existing files. Must not know: how
files are committed, what conflicts. Source: format/data-files §7.
Invariants: A new file has exactly the rows of an existing one, in their order: rows without a new value keep the old one. Only
the named columns are read. Files of an update that fails are deleted, or become orphans.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ..backends.store import Store
from ..coordinator.commit.message import CommitMessage
from ..coordinator.history.timeline import Timeline
from ..core import options as opt
from ..core.errors import InvalidArgument, TableCorrupt, Unsupported
from ..core.metadata.schema import ROW_ID, TableSchema
from ..core.metadata.snapshot import Snapshot
from ..core.paths import TablePaths
from ..core.rows.arrow import arrow_schema
from ..core.rows.types import Field, is_blob_type
from ..core.rows.whole import one_batch, taken
from ..core.typed import Array
from .conforming.conform import Conformer
from .conforming.sources import batches_of
from .reading.arrow import SplitReader
from .scan.fallback import alone, file_schemas_of
from .scan.plan import plan_scan
from .scan.row_runs import first_row, row_count
from .scan.split import Split
from .writing.files.data_writer import DataFileWriter, FileSettings
from .writing.unfinished import discard
from .writing.writer import check_writable

_ON_UPDATE = "global-index.column-update-action"
_ONE_FILE = 1 << 62
"""A size that no file reaches: the new columns of a file's rows must be in one file."""


@dataclass(frozen=True)
class _Run:
    """The files that hold the columns of the same rows, of which `start` is the first row id."""

    start: int
    rows: int
    split: Split


def updated_columns(
    store: Store, timeline: Timeline, schema: TableSchema, snapshot: Snapshot | None, data: Any
) -> list[CommitMessage]:
    """Write files with new values for some columns of a snapshot's rows: `_ROW_ID`, and the columns to change.

    Raises:
        Unsupported: the table has no data evolution, or a column cannot be updated, such as one with a global index; names the
            option or the column.
        InvalidArgument: there is no such column, or no row with an id; or a row is given twice.
    """
    check_writable(schema)
    if not schema.options.get(opt.DATA_EVOLUTION):
        raise Unsupported(
            f"updating single columns needs option '{opt.DATA_EVOLUTION.key}' = true, which this table was created without",
            next_step="overwrite the partitions of the rows instead",
        )
    given = _given(schema, data)
    ids = given.column(ROW_ID.name).to_numpy()
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    if len(ids) and (ids[1:] == ids[:-1]).any():
        twice = int(ids[:-1][ids[1:] == ids[:-1]][0])
        raise InvalidArgument(f"the row with _ROW_ID {twice} is given twice")
    values = given.drop_columns([ROW_ID.name])
    fields = [f for f in schema.fields if f.name in values.schema.names]
    _check_indexes(timeline, snapshot, fields, ids)
    work = _Updates(store, timeline, schema, tuple(fields))
    try:
        return list(work.messages(_runs(timeline, schema, snapshot), ids, values, order))
    except BaseException as error:
        discard(store, work.written, error)
        raise


def _check_indexes(timeline: Timeline, snapshot: Snapshot | None, fields: Sequence[Field], ids: Array) -> None:
    """Refuse new values that a global index would not know: readers of Apache Paimon 2.0 would miss the rows by it."""
    by_id = {field.id: field for field in fields}
    for entry in () if snapshot is None else timeline.index_entries(snapshot):
        index = entry.file.global_index
        if index is None or not ((ids >= index.row_range_start) & (ids <= index.row_range_end)).any():
            continue
        for field_id in (index.index_field_id, *(index.extra_field_ids or ())):
            if field_id in by_id:
                raise Unsupported(
                    f"column '{by_id[field_id].name}' has a global index ({entry.file.index_type}) of the rows, which would not"
                    f" know the new values (option '{_ON_UPDATE}')",
                    next_step="drop the index with Apache Paimon's procedure drop_global_index, and build it again afterwards",
                )


def _given(schema: TableSchema, data: Any) -> pa.RecordBatch:
    """The rows with the table's types. A null stays null, whatever the column's default is."""
    batches = [batch for batch in batches_of(data) if batch.num_rows]
    names = list(batches[0].schema.names) if batches else [ROW_ID.name]
    if ROW_ID.name not in names:
        raise InvalidArgument(
            f"the rows have no column '{ROW_ID.name}', which says which rows are updated",
            next_step=f"read it with columns=['{ROW_ID.name}', …]",
        )
    for name in names:
        field = schema.by_name.get(name)
        if name in schema.partition_keys:
            raise Unsupported(f"partition column '{name}' cannot be updated: the row would move to another file")
        if field is not None and is_blob_type(field.type):
            raise Unsupported(f"updating column '{name}' of type BLOB is not supported yet")
    fields = [replace(f, default_value=None) for f in schema.fields if f.name in names]
    row_id = replace(ROW_ID, type=replace(ROW_ID.type, nullable=False))
    conform = Conformer((row_id, *fields))
    if batches and not fields and len(names) == 1:
        raise InvalidArgument(f"the rows have only '{ROW_ID.name}': add the columns to change")
    return one_batch([conform(batch) for batch in batches], conform.schema)


def _runs(timeline: Timeline, schema: TableSchema, snapshot: Snapshot | None) -> list[_Run]:
    found = []
    for split in plan_scan(timeline, snapshot, alone(schema), None).splits:
        if split.branch != timeline.paths.branch:
            continue
        for run in split.runs:
            files = [split.files[i] for i in run]
            if files[0].first_row_id is not None:
                part = replace(
                    split,
                    files=tuple(files),
                    keys=tuple(split.keys[i] for i in run),
                    deletions=(),
                    is_one_run=len(run) > 1,
                )
                found.append(_Run(first_row(files), row_count(files), part))
    return sorted(found, key=lambda run: run.start)


class _Updates:
    def __init__(self, store: Store, timeline: Timeline, schema: TableSchema, fields: tuple[Field, ...]) -> None:
        self._store, self._timeline, self._schema = store, timeline, schema
        self._names = [f.name for f in fields]
        self._settings = replace(FileSettings.of(schema, fields), target_bytes=_ONE_FILE)
        self._paths = TablePaths(data_directory=schema.options.get(opt.DATA_FILE_DIRECTORY))
        self._stem = f"{schema.options.get(opt.DATA_FILE_PREFIX)}{uuid.uuid4()}"
        self.written: list[str] = []

    def messages(
        self, runs: Sequence[_Run], ids: Array, values: pa.RecordBatch, order: Array
    ) -> Iterator[CommitMessage]:
        """One message for each run that has some of the rows; `ids` ascend, and `order` is the place of the value of each."""
        starts = np.array([run.start for run in runs], np.int64)
        ends = starts + np.array([run.rows for run in runs], np.int64)
        owners = np.searchsorted(starts, ids, side="right") - 1
        if runs:
            missing = ids[(owners < 0) | (ids >= ends[owners])]
        else:
            missing = ids
        if len(missing):
            raise InvalidArgument(
                f"there is no row with _ROW_ID {int(missing[0])}",
                next_step="the row was deleted, or its id was read from another table",
            )
        for owner in np.unique(owners).tolist():
            first, last = np.searchsorted(owners, [owner, owner + 1]).tolist()
            run = runs[owner]
            yield self._written(run, self._whole(run, ids[first:last] - run.start, values, order[first:last]))

    def _whole(self, run: _Run, places: Array, values: pa.RecordBatch, order: Array) -> Iterator[pa.RecordBatch]:
        """All rows of a run; `places` are the positions in it of the new values, `order` their places among all new values."""
        schema = arrow_schema(self._settings.fields)
        new = taken(values.select(self._names), order, schema)
        if len(places) == run.rows:
            yield from new
            return
        reader = SplitReader(
            self._schema, self._names, None, file_schemas_of(self._timeline, self._schema, [run.split])
        )
        old = list(reader.batches(self._store, [run.split]))
        found = sum(batch.num_rows for batch in old)
        if found != run.rows:
            raise TableCorrupt(
                f"{run.split.keys[0]} has {found} rows, but its manifest says {run.rows}; no column was updated"
            )
        chosen = np.arange(run.rows)
        chosen[places] = run.rows + np.arange(len(places))
        yield from taken(one_batch([*old, *new], schema), chosen, schema)

    def _written(self, run: _Run, rows: Iterator[pa.RecordBatch]) -> CommitMessage:
        split = run.split
        folder = self._paths.bucket_dir(split.partition_path, split.bucket)
        writer = DataFileWriter(self._store, self._settings, folder, f"{self._stem}-{run.start}", travelling=True)
        try:
            for batch in rows:
                writer.write(batch)
            writer.finish()
        except BaseException:
            writer.abort()
            raise
        finally:
            self.written.extend(writer.written_keys)
        (file,) = writer.files
        return CommitMessage(
            split.partition,
            split.bucket,
            split.total_buckets,
            new_files=(file._replace(first_row_id=run.start),),
            uploads=tuple(writer.uploads),
        )
