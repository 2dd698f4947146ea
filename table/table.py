"""`Table`, the public interface of one table.

Owns: the methods of `Table`, each a few lines that call the rooms below. Must not know: Spark, the command line.
Source: architecture §5. Invariants: Each read uses one snapshot. A table returned by `at()` is read only. Every change is one
commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from ..backends.requests.deadline import timed
from ..core import arguments
from ..core.errors import InvalidArgument
from ..core.html_text import facts, grid
from ..core.paths import TablePaths
from .methods.branches import Branches
from .methods.cleaning import Cleaning
from .methods.consumers import Consumers
from .methods.copies import Copies
from .methods.inspection import Inspection
from .methods.maintenance import Maintenance
from .methods.optimizing import Optimizing
from .methods.partitions import Partitions
from .methods.repairs import Repairs
from .methods.row_changes import RowChanges
from .methods.streams import Streams
from .methods.tags import Tags
from .methods.undo import Undo
from .methods.upkeep import Upkeep

if TYPE_CHECKING:
    import pyarrow as pa

    from ..coordinator.history.timeline import Timeline
    from ..core.expressions.tree import Predicate
    from ..core.metadata.data_file import ManifestEntry
    from ..core.metadata.schema import TableSchema
    from ..core.metadata.snapshot import Snapshot
    from .changelog.key_changes import Mode
    from .dataset import TableDataset
    from .reading.pandas_frame import Backend
    from .scan.plan import ScanPlan
    from .verify.finding import Finding
    from .verify.whole import Depth, Which

Where: TypeAlias = "Predicate | str | None"


class Table(
    RowChanges,
    Streams,
    Inspection,
    Maintenance,
    Optimizing,
    Tags,
    Branches,
    Consumers,
    Undo,
    Repairs,
    Cleaning,
    Partitions,
    Copies,
    Upkeep,
):
    """One branch of one table. Made by `open_table` and `create_table`."""

    if not TYPE_CHECKING:  # else every name would be one that a table has

        def __getattr__(self, name: str) -> Any:
            from ..core.other_names import METHODS, advice

            raise AttributeError(f"a table has no attribute {name!r}{advice(name, METHODS)}", name=name, obj=self)

    # -------------------------------------------------------------------------------------------------- what it is

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema, which is the schema of `to_arrow`."""
        from .reading.arrow import arrow_schema_of

        return arrow_schema_of(self._schema, None)

    @property
    def options(self) -> dict[str, str]:
        """The table's options, as text."""
        return dict(self._schema.option_texts)

    @timed("a listing of schemas")
    def schemas(self) -> list[TableSchema]:
        """Every schema that the table ever had, oldest first."""
        return [self.timeline.schema(i) for i in self.timeline.schema_ids()]

    @timed("a listing of snapshots")
    def snapshots(self) -> list[Snapshot]:
        """Every snapshot that has not expired, oldest first."""
        found = self.timeline.parallel(self.timeline.find, self.timeline.snapshot_ids())
        return [s for s in found if s is not None]

    def history(self) -> list[dict[str, Any]]:
        """One dict per snapshot, newest first: id, time, kind, user, identifier, rows added, total rows, attempts."""
        from . import system

        return [system.history_row(s) for s in reversed(self.snapshots())]

    def entries(self, snapshot: Snapshot | None = None) -> list[ManifestEntry]:
        """The live data files of a snapshot (this table's by default), as manifest entries."""
        chosen = snapshot if snapshot is not None else self.snapshot()
        if not hasattr(chosen, "delta_manifest_list") and chosen is not None:
            raise InvalidArgument(f"{chosen!r} is not a snapshot", next_step="give one of snapshots()")
        return self._live(self.timeline, chosen)

    @staticmethod
    def _live(timeline: Timeline, snapshot: Snapshot | None) -> list[ManifestEntry]:
        from ..core.metadata.folding import live

        return live(timeline.entries(timeline.manifests(snapshot))) if snapshot is not None else []

    @timed("a listing of files")
    def files(self, partition: Mapping[str, Any] | str | None = None) -> pa.Table:
        """One row per live data file: partition, bucket, path, rows, bytes, level, schema, sequence numbers.

        Args:
            partition: only files of these partitions: `{"month": 1}` or `"month=1"`, with some or all partition columns.

        Raises:
            InvalidArgument: a column is no partition column, or a value does not fit.
        """
        from . import system
        from .compaction.plan import of_partitions
        from .scan.column_splits import live_files

        timeline, snapshot, schema = self._seen()
        parts = [] if snapshot is None else timeline.entry_parts(timeline.manifests(snapshot))
        chosen = None if partition is None else of_partitions([partition], schema)
        return system.files_table(schema, timeline.paths, live_files(parts), chosen)

    def verify(self, snapshots: Which = None, data: Depth = False) -> list[Finding]:
        """Check the table's files and report every problem. The result is empty for a sound table.

        All schemas, snapshots, tags and hints are read, and the lineage of the snapshots is checked. For the chosen
        snapshots, verify also checks that every manifest list, manifest, index manifest and data file exists, and that the
        counts in the metadata agree. The snapshots that this table's journal reports as landed must be there.

        Args:
            snapshots: ids; "all" for every snapshot and tag; None for the newest snapshot (or the one chosen with `at`)
                and the one that it was built on.
            data: also read the footer of each data file, and compare row counts and statistics. "deep" reads every row as well,
                compares every checksum, and computes counts, bounds and null counts anew; it takes as long as reading the table.

        Raises:
            StoreUnavailable: the store did not answer, so that the check could not be finished.
        """
        from .verify.whole import verify_store

        if snapshots is None and self.pinned is not None:
            snapshots = [self.pinned.id]
        lines = self._journal_lines()
        return verify_store(self.store, branch=self.paths.branch, snapshots=snapshots, data=data, journal=lines)

    # --------------------------------------------------------------------------------------------------- time travel

    @timed("a look at an earlier state")
    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | int | datetime | None = None,
        watermark: str | int | datetime | None = None,
    ) -> Table:
        """The table as it was at an earlier time, read only. Give one of the arguments.

        Args:
            snapshot: a snapshot id. Where it has expired, a tag of it will do.
            tag: a tag's name.
            timestamp: ISO text with zone, milliseconds since 1970, or a datetime. Chooses the newest snapshot that is not
                later; where all of these have expired, the newest tag that is not later.
            watermark: a time in the same forms. Chooses the oldest snapshot whose watermark is not earlier.
        """
        from .travel import schema_at, snapshot_at

        found = snapshot_at(self.timeline, snapshot=snapshot, tag=tag, timestamp=timestamp, watermark=watermark)
        return Table(self.store, schema_at(self.timeline, found, self._schema), branch=self._branch, pinned=found)

    @timed("opening a branch")
    def branch(self, name: str) -> Table:
        """A branch of this table."""
        from ..coordinator.history.timeline import Timeline

        timeline = Timeline(self.store, TablePaths(name))
        if not timeline.schema_ids():
            raise InvalidArgument(f"{self.url} has no branch {name!r}")
        schema, first_schema = timeline.opened()
        return Table(self.store, schema, branch=name, journal=self._journal, first_schema=first_schema)

    # ------------------------------------------------------------------------------------------------------- reading

    def plan(self, where: Where = None, columns: Sequence[str] | None = None) -> ScanPlan:
        """The plan of a read: its splits, how many files were considered, and how many were pruned and why. Can be printed.

        Like every read, it is made with the newest schema, whoever changed it last.

        Args:
            where: a predicate made with `ll.col(...)`, or its text.
            columns: the columns that are read; None = all.
        """
        return self._planned(where, columns)[0]

    @timed("a plan")
    def _planned(self, where: Where, columns: Any) -> tuple[ScanPlan, Timeline, TableSchema, list[str] | None]:
        """A plan, the timeline and schema that it was made with, and the names of the columns."""
        from .scan.plan import plan_scan

        names = None if columns is None else arguments.names(columns, "columns", alone=False)
        as_of_ms = None if self.pinned is None else self.pinned.time_ms
        timeline, snapshot, schema = self._seen()

        def planned() -> ScanPlan:
            return plan_scan(timeline, snapshot, schema, where, names, as_of_ms)

        seen = self._last_seen
        plan = timeline.both(planned, lambda: seen.confirm(timeline))[0] if seen.unread else planned()
        return plan, timeline, schema, names

    scan = plan
    """The earlier name of `plan`."""

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        *,
        batch_size: int | None = None,
        merge_memory: int | str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Stream rows as record batches. Memory holds the row groups of a few files at most.

        Args:
            columns: column names, in the order of the result; None = all, [] = none, with the right number of rows.
            where: a predicate made with `ll.col(...)`, or its text.
            limit: the largest number of rows.
            batch_size: the largest number of rows of a batch; by default as many as the files and the size of the rows suggest.
            merge_memory: about how much memory rows that are merged by primary key may take: bytes, or a text such as "64 mb";
                None for option `read.merge-memory`.
        """
        from .reading.arrow import read_batches

        plan, timeline, schema, names = self._planned(where, columns)
        most = None if batch_size is None else arguments.number_of_rows(batch_size, "batch_size", 1)
        for batch in read_batches(timeline, plan, schema, names, limit, merge_memory):
            step = most or max(batch.num_rows, 1)
            yield from (batch.slice(start, step) for start in range(0, batch.num_rows or 1, step))

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> pa.Table:
        """Rows as one Arrow table. The arguments are those of `to_batches`."""
        import pyarrow as pa

        from .reading.arrow import arrow_schema_of, read_batches

        plan, timeline, schema, names = self._planned(where, columns)
        batches = read_batches(timeline, plan, schema, names, limit)
        return pa.Table.from_batches(batches, schema=arrow_schema_of(schema, names))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        *,
        types_mapper: Callable[[pa.DataType], Any] | None = None,
        dtype_backend: Backend | None = None,
    ) -> Any:
        """Rows as a pandas DataFrame. No value is changed: a column of whole numbers with nulls gets a type such as `Int64`.

        Args:
            columns, where, limit: as for `to_batches`.
            types_mapper, dtype_backend: pandas' types, as in `pyarrow.Table.to_pandas` and `pandas.read_parquet`.
        """
        from .reading.pandas_frame import pandas_frame

        return pandas_frame(self.to_arrow(columns, where, limit), types_mapper, dtype_backend)

    def to_polars(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> Any:
        """Rows as a polars DataFrame. The arguments are those of `to_batches`."""
        import polars

        return polars.from_arrow(self.to_arrow(columns, where, limit))

    def changes(
        self,
        start: int | str,
        end: int | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        overwrites: bool = True,
        mode: Mode = "auto",
    ) -> pa.RecordBatchReader:
        """The rows that came and went after one snapshot, up to and with another.

        The columns of the rows are followed by `_row_kind` ("+I" for a row that came, "-D" for one that went, and with a primary
        key "-U" and "+U" for a row before and after an update), `_snapshot_id` and `_commit_time`. Between two ids, the change of
        each snapshot is reported: appended rows, and for an overwrite or deleted rows what differs from the snapshot before.
        Compactions change no row. Between two tags, the two states are compared, so a row that came and went in between is not
        reported.

        The changes of a table with a primary key are those of its changelog, if option `changelog-producer` is set; otherwise the
        rows as they were written, in which "+I" may also be an update, and "-D" may hold nothing but the key.

        Args:
            start: a snapshot id, which is left out (0 for the beginning), or a tag.
            end: a snapshot id, or a tag if `start` is one; None for the newest snapshot.
            columns: the columns of the rows, in order; None for all. Rows are compared in all columns.
            where: only changes of rows for which this is true: a predicate made with `ll.col(...)`, or its text.
            overwrites: if False, only what Apache Paimon's `incremental-between` gives: rows that were appended, or the
                changelog; of two states that are compared, with a primary key, only rows of the later one, as "+I".
            mode: for a table with a primary key, "changelog" or "delta" (the rows as they were written) choose what is read
                between two snapshots, also of two tags. "diff" compares two states, also of two ids. "auto" is described above.

        Returns:
            A reader of record batches, in the order of the snapshots. Rows are read with this table's newest schema.

        Raises:
            InvalidArgument: there is no such range, or part of it has expired; the error says what exists.
        """
        from .changelog.key_changes import check_mode
        from .changelog.reading import read_changes
        from .changelog.window import window_of

        timeline, newest, schema = self._seen()
        check_mode(mode, schema)
        window = window_of(timeline, start, end, newest, mode)
        return read_changes(timeline, window, schema, columns, where, overwrites, mode)

    def count(self, where: Where = None) -> int:
        """The number of rows. Only metadata is read where it gives the exact number."""
        from .reading.arrow import read_batches
        from .scan.plan import count_rows

        plan, timeline, schema, _ = self._planned(where, [])
        known = count_rows(plan)
        if known is not None:
            return known
        return sum(batch.num_rows for batch in read_batches(timeline, plan, schema, []))

    # --------------------------------------------------------------------------------------------- for other tools

    def to_reader(
        self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None
    ) -> pa.RecordBatchReader:
        """Rows as a reader that fetches them as they are asked for. The arguments are those of `to_batches`.

        The snapshot and the files are chosen now; close the reader to stop early.
        """
        import pyarrow as pa

        from .reading.arrow import arrow_schema_of, read_batches

        plan, timeline, schema, names = self._planned(where, columns)
        batches = read_batches(timeline, plan, schema, names, limit)
        return pa.RecordBatchReader.from_batches(arrow_schema_of(schema, names), batches)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Every row as a stream of Arrow's C interface, which DuckDB, polars, pandas and Arrow accept in place of a frame."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_dataset(self) -> TableDataset:
        """The rows of the newest snapshot, or of the one chosen with `at`, as a `pyarrow.dataset.Dataset`.

        Tools that can read a dataset push their columns and filters down, so that only the files and columns of a query are
        read: `duckdb.sql("FROM dataset WHERE …")`, `polars.scan_pyarrow_dataset(dataset)`, `dataset.scanner(…)`.
        """
        from .dataset import TableDataset

        timeline, snapshot, schema = self._seen()
        as_of_ms = None if self.pinned is None else self.pinned.time_ms
        return TableDataset(timeline, snapshot, schema, as_of_ms)

    def to_duckdb(self, connection: Any, name: str) -> None:
        """Make the rows a view of a DuckDB connection, which reads only the files and columns that a query needs.

        The view shows the snapshot of this moment; call this again for a newer one.

        Args:
            connection: a `duckdb.DuckDBPyConnection`.
            name: the name of the view.
        """
        if not hasattr(connection, "register"):
            raise InvalidArgument(
                f"{type(connection).__name__} is not a DuckDB connection", next_step="pass duckdb.connect()"
            )
        connection.register(name, self.to_dataset())

    def _repr_html_(self) -> str:
        """The columns, keys and options, without a request."""
        from ..core.rows.types import sql

        keys = {"partition": self._schema.partition_keys, "primary key": self._schema.primary_keys}
        told = {key: ", ".join(names) for key, names in keys.items() if names}
        told |= {f"option {key}": value for key, value in sorted(self._schema.option_texts.items())}
        comment = {"comment": self._schema.comment} if self._schema.comment else {}
        columns = [(f.id, f.name, sql(f.type), f.description, f.default_value) for f in self._schema.fields]
        return facts(repr(self), comment | told) + grid(["id", "column", "type", "comment", "default"], columns)
