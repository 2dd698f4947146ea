"""Read the changes between two states as rows with their kind, snapshot and time.

Owns: `read_changes`, the columns that describe a change. Must not know: how a range was chosen, how rows are compared.
Source: format/snapshot §4. Invariants: The changes of a snapshot come together, in the order of the snapshots; rows that went
come before rows that came. Memory holds the changed files of one partition where rows must be compared, and a few row groups
elsewhere.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.metadata.data_file import IndexEntry, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ...core.predicates.predicate import Predicate, bind
from ..formats.data_source import BATCH_ROWS
from ..reading.arrow import LOCAL_READ_THREADS, READ_THREADS, SplitReader, arrow_schema_of, gathered
from ..reading.read_ahead import in_order
from ..scan.fallback import file_schemas_of
from ..scan.file_pruning import FilePruner
from ..scan.plan import runs_of
from ..scan.refusals import check_changes_readable, check_files_readable
from ..scan.split_planning import SplitPlanner
from .changed_files import ChangedFiles, files_between, files_changed_by
from .row_difference import differing_rows
from .window import Window

ROW_KIND, SNAPSHOT_ID, COMMIT_TIME = "_row_kind", "_snapshot_id", "_commit_time"
DESCRIPTION = pa.schema(
    [
        pa.field(ROW_KIND, pa.string(), nullable=False),
        pa.field(SNAPSHOT_ID, pa.int64(), nullable=False),
        pa.field(COMMIT_TIME, pa.timestamp("ms", tz="UTC"), nullable=False),
    ]
)
"""The columns that follow the rows' own: "+I" or "-D"; the snapshot that made the change, and its time."""
INSERT, DELETE = "+I", "-D"


def changes_schema(schema: TableSchema, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of a read of changes: the columns that were asked for, then those of `DESCRIPTION`.

    Raises:
        InvalidArgument: an unknown column, or a column of the table that has a name of `DESCRIPTION`.
    """
    chosen = arrow_schema_of(schema, columns)
    for name in DESCRIPTION.names:
        if name in chosen.names:
            raise InvalidArgument(
                f"column '{name}' of the table has a name that reads of changes need",
                next_step="leave it out with columns=[...], or rename it",
            )
    return pa.schema([*chosen, *DESCRIPTION])


def read_changes(
    timeline: Timeline,
    window: Window,
    schema: TableSchema,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    overwrites: bool = True,
) -> pa.RecordBatchReader:
    """The changes of a range of snapshots, or between two states.

    Args:
        window: made by `window_of`.
        schema: the schema that rows are read as.
        columns: the columns of the rows, in order; None for all.
        where: only changes of rows for which this is true.
        overwrites: if False, only rows that APPEND snapshots added, as Apache Paimon reads them.

    Returns:
        Batches of `changes_schema(schema, columns)`, which are read as they are asked for.

    Raises:
        Unsupported: the table has a primary key.
        InvalidArgument: a column or the filter does not fit the table.
    """
    check_changes_readable(schema)
    bound = None if where is None else bind(where, schema.fields)
    result = changes_schema(schema, columns)
    reader = _ChangeReader(timeline, schema, columns, bound, overwrites)
    return pa.RecordBatchReader.from_batches(result, reader.batches(window))


class _ChangeReader:
    def __init__(
        self,
        timeline: Timeline,
        schema: TableSchema,
        columns: Sequence[str] | None,
        where: Predicate | None,
        overwrites: bool,
    ) -> None:
        self._timeline, self._schema, self._where, self._overwrites = timeline, schema, where, overwrites
        self._columns = list(schema.names) if columns is None else list(columns)
        self._result = changes_schema(schema, columns)
        self._codec = codec_of(schema)

    def batches(self, window: Window) -> Generator[pa.RecordBatch, None, None]:
        """The changes, in the order of the snapshots. The next snapshots are already read meanwhile."""
        local = self._timeline.store.capabilities.native_scheme == "file"
        threads = min(LOCAL_READ_THREADS if local else READ_THREADS, len(window.snapshots))
        tasks = (partial(self._changes, before, found, window.by_snapshot) for before, found in window.pairs())
        return gathered(in_order(tasks, threads))

    def _changes(self, before: Snapshot | None, found: Snapshot, by_snapshot: bool) -> Iterator[pa.RecordBatch]:
        if by_snapshot:
            changed = files_changed_by(self._timeline, self._schema, before, found, self._overwrites)
        else:
            changed = files_between(self._timeline, self._schema, before, found)
        if not changed.gone:
            for batch in self._rows(changed.came, changed.came_index, self._columns, found):
                yield self._described(batch, INSERT, found)
            return
        for part in _by_partition(changed):
            yield from self._difference(part, before)

    def _difference(self, changed: ChangedFiles, before: Snapshot | None) -> Iterator[pa.RecordBatch]:
        """The rows that one of two states of a partition has more often than the other. All columns are compared."""
        names = self._schema.names
        read = [*names, *(name for name in self._columns if name not in names)]
        schema = arrow_schema_of(self._schema, read)
        old = pa.Table.from_batches(self._rows(changed.gone, changed.gone_index, read, before), schema=schema)
        new = pa.Table.from_batches(self._rows(changed.came, changed.came_index, read, changed.snapshot), schema=schema)
        lost, added = differing_rows(old.select(names), new.select(names))
        for kind, rows, positions in ((DELETE, old, lost), (INSERT, new, added)):
            for batch in rows.take(pa.array(positions)).to_batches(BATCH_ROWS):
                yield self._described(batch, kind, changed.snapshot)

    def _rows(
        self,
        entries: Sequence[ManifestEntry],
        index: Sequence[IndexEntry],
        columns: Sequence[str],
        snapshot: Snapshot | None,
    ) -> Iterator[pa.RecordBatch]:
        """The live rows of files of a snapshot that fulfil the filter."""
        wanted = self._may_match(entries)
        check_files_readable(self._schema, wanted)
        named_by = "" if snapshot is None else self._timeline.file_of(snapshot)
        planner = SplitPlanner(self._schema, self._schema_of, index, self._timeline.paths.branch, named_by)
        splits = planner.splits(wanted)
        schemas = file_schemas_of(self._timeline, self._schema, splits)
        return SplitReader(self._schema, columns, self._where, schemas).batches(self._timeline.store, splits)

    def _may_match(self, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
        if self._where is None:
            return list(entries)
        pruner = FilePruner(self._where, self._schema, self._schema_of, self._codec)
        return [e for run in runs_of(entries, self._schema) if pruner.may_match(*run) for e in run]

    def _schema_of(self, schema_id: int) -> TableSchema:
        return self._schema if schema_id == self._schema.id else self._timeline.schema(schema_id)

    def _described(self, rows: pa.RecordBatch, kind: str, snapshot: Snapshot) -> pa.RecordBatch:
        """The rows with the columns that describe their change."""
        values: list[Any] = [kind, snapshot.id, snapshot.time_ms]
        told = [pa.repeat(pa.scalar(v, f.type), rows.num_rows) for v, f in zip(values, DESCRIPTION, strict=True)]
        columns = [rows.column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays([*columns, *told], schema=self._result)


def _by_partition(changed: ChangedFiles) -> Iterator[ChangedFiles]:
    """The changed files of each partition. A row never moves between partitions without being changed."""
    parts: dict[bytes, tuple[list[ManifestEntry], list[ManifestEntry]]] = {}
    for side, entries in enumerate((changed.came, changed.gone)):
        for entry in entries:
            parts.setdefault(entry.partition, ([], []))[side].append(entry)
    for came, gone in parts.values():
        yield ChangedFiles(changed.snapshot, tuple(came), tuple(gone), changed.came_index, changed.gone_index)
