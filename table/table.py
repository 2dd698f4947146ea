"""A table, as its users hold it.

Owns: `Table`: the methods that people type, each a few lines over the rooms below. Must not know: Spark, the shell.
Source: architecture §5. Invariants: reading pins one snapshot per call; a table of `at()` is read only; every change is one
commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..backends.store import Store
from ..coordinator.alteration import alter
from ..coordinator.commit.committer import Committer
from ..coordinator.commit.request import Isolation
from ..coordinator.explain import explain
from ..coordinator.history.timeline import Timeline
from ..coordinator.journal.lines import Journal
from ..coordinator.journal.object_journal import open_journal
from ..core import options as opt
from ..core.errors import InvalidArgument
from ..core.metadata.data_file import ManifestEntry
from ..core.metadata.folding import live
from ..core.metadata.schema import TableSchema
from ..core.metadata.schema_changes import SchemaChange, add_column
from ..core.metadata.snapshot import Snapshot
from ..core.paths import DEFAULT_BRANCH, TablePaths
from ..core.predicates.predicate import Predicate
from ..core.predicates.sql import parse_where
from . import system
from .changes import Changes
from .maintenance import Maintenance
from .reading.arrow import arrow_schema_of, read_batches
from .scan.plan import ScanPlan, count_rows, plan_scan
from .travel import schema_at, snapshot_at
from .verify.whole import Which, verify_store
from .writing.conform import batches_of
from .writing.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa

    from .verify.finding import Finding

Where = Predicate | str | None


class Table(Changes, Maintenance):
    """One branch of one table. Made by `open_table` and `create_table`.

    Args:
        store: bound to the table's root.
        schema: the newest schema, or the one of the snapshot that is read.
        pinned: the snapshot that this table shows for ever; None = always the latest.
        first_schema: the bytes of schema 0, by which commits know the table again (see `Timeline`).
    """

    def __init__(
        self,
        store: Store,
        schema: TableSchema,
        *,
        branch: str = DEFAULT_BRANCH,
        journal: str | Journal | None = None,
        pinned: Snapshot | None = None,
        first_schema: bytes | None = None,
    ) -> None:
        self.store = store
        self._schema = schema
        self._branch = branch
        self.paths = TablePaths(branch, schema.options.get(opt.DATA_FILE_DIRECTORY))
        self.timeline = Timeline(store, self.paths)
        self.pinned = pinned
        self._journal = journal or schema.options.get(opt.COMMIT_JOURNAL) or None
        self._committer: Committer | None = None
        self._first_schema = first_schema

    def __repr__(self) -> str:
        at = f" at snapshot {self.pinned.id}" if self.pinned is not None else ""
        return f"Table({self.url}{at})"

    # -------------------------------------------------------------------------------------------------- what it is

    @property
    def url(self) -> str:
        """The table's root, without credentials."""
        return self.store.url

    @property
    def schema(self) -> TableSchema:
        """Columns, keys and options; `schema.fields` are the columns."""
        return self._schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns as an Arrow schema: what `to_arrow` gives."""
        return arrow_schema_of(self._schema, None)

    @property
    def options(self) -> dict[str, str]:
        """The table's options as their texts."""
        return dict(self._schema.option_texts)

    def schemas(self) -> list[TableSchema]:
        """Every schema that the table ever had, oldest first."""
        return [self.timeline.schema(i) for i in self.timeline.schema_ids()]

    def snapshot(self) -> Snapshot | None:
        """The snapshot that a read would see now; None for a table without one."""
        return self.pinned if self.pinned is not None else self.timeline.latest()

    def snapshots(self) -> list[Snapshot]:
        """Every snapshot that is still there, oldest first."""
        found = self.timeline.parallel(self.timeline.find, self.timeline.snapshot_ids())
        return [s for s in found if s is not None]

    def history(self) -> list[dict[str, Any]]:
        """One dict per snapshot, newest first: id, time, kind, user, identifier, rows added, rows in all, attempts."""
        return [system.history_row(s) for s in reversed(self.snapshots())]

    def entries(self, snapshot: Snapshot | None = None) -> list[ManifestEntry]:
        """The live data files of a snapshot (this table's by default), as manifest entries."""
        chosen = snapshot if snapshot is not None else self.snapshot()
        return live(self.timeline.entries(self.timeline.manifests(chosen))) if chosen is not None else []

    def files(self) -> pa.Table:
        """One row per live data file: partition, bucket, path, rows, bytes, level, schema, sequence numbers."""
        return system.files_table(self._schema, self.paths, self.entries())

    def partitions(self) -> pa.Table:
        """One row per partition: its path, rows, bytes, files."""
        return system.partitions_table(self._schema, self.entries())

    def explain(self, commit: int | tuple[str, int] | Snapshot | None = None) -> str:
        """How a snapshot came to be: its base, attempts, whom it lost to, what it changed.

        Args:
            commit: a snapshot id, an identity (commit user, identifier), or a snapshot; the latest by default.
        """
        if isinstance(commit, tuple):
            receipt = self.committer.lookup(*commit)
            if receipt is None:
                raise InvalidArgument(f"{self.url} knows no commit {commit[1]} of {commit[0]!r}")
            commit = receipt.snapshot_id
        found = snapshot_at(self.timeline, snapshot=commit) if isinstance(commit, int) else commit or self.snapshot()
        if found is None:
            raise InvalidArgument(f"{self.url} has no snapshot yet")
        return explain(self.timeline, found)

    def verify(self, snapshots: Which = None, data: bool = False) -> list[Finding]:
        """What is wrong with the table's files; empty for a sound table.

        All schemas, snapshots, tags and hints are always read, and the lineage of the snapshots is checked. For the
        snapshots that are chosen, every list, manifest, index manifest and file that they reference is looked for, and
        what the metadata says is added up.

        Args:
            snapshots: ids; "all": every snapshot and tag; None: the newest snapshot (of `at`: that one), and the one that
                it was built on.
            data: open the footer of each data file too, and compare row counts and statistics.

        Raises:
            StoreUnavailable: the store did not answer: nothing is known.
        """
        if snapshots is None and self.pinned is not None:
            snapshots = [self.pinned.id]
        return verify_store(self.store, branch=self.paths.branch, snapshots=snapshots, data=data)

    # --------------------------------------------------------------------------------------------------- time travel

    def at(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: str | int | datetime | None = None,
    ) -> Table:
        """The same table, read only, as it was.

        Args:
            snapshot: a snapshot id.
            tag: a tag's name.
            timestamp: ISO text with zone, milliseconds since 1970, or a datetime: the newest snapshot not after it.
        """
        found = snapshot_at(self.timeline, snapshot=snapshot, tag=tag, timestamp=timestamp)
        return Table(self.store, schema_at(self.timeline, found, self._schema), branch=self._branch, pinned=found)

    def branch(self, name: str) -> Table:
        """A branch of this table."""
        timeline = Timeline(self.store, TablePaths(name))
        if not timeline.schema_ids():
            raise InvalidArgument(f"{self.url} has no branch {name!r}")
        schema, first_schema = timeline.opened()
        return Table(self.store, schema, branch=name, journal=self._journal, first_schema=first_schema)

    # ------------------------------------------------------------------------------------------------------- reading

    def plan(self, where: Where = None) -> ScanPlan:
        """What a read would open: splits, and the files that were considered and pruned, and why. Printable."""
        return self.scan(_predicate(where))

    def scan(self, where: Predicate | None, columns: Sequence[str] | None = None) -> ScanPlan:
        """The plan of a read of some columns (see `plan_scan`)."""
        as_of_ms = None if self.pinned is None else self.pinned.time_ms
        return plan_scan(self.timeline, self.snapshot(), self._schema, where, columns, as_of_ms)

    def to_batches(
        self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Rows as record batches, streamed; memory is bounded by a few files' row groups.

        Args:
            columns: names in the order wanted; None = all, [] = none, but the right number of rows.
            where: `ll.col(...)` predicate or its text.
            limit: at most so many rows.
        """
        predicate = _predicate(where)
        names = list(columns) if columns is not None else None
        plan = self.scan(predicate, names)
        yield from read_batches(self.store, self.timeline, plan, self._schema, names, predicate, limit)

    def to_arrow(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> pa.Table:
        """Rows as one Arrow table; arguments as for `to_batches`."""
        import pyarrow as pa

        names = list(columns) if columns is not None else None
        schema = arrow_schema_of(self._schema, names)
        return pa.Table.from_batches(self.to_batches(columns, where, limit), schema=schema)

    def to_pandas(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> Any:
        """Rows as a pandas frame."""
        return self.to_arrow(columns, where, limit).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None, where: Where = None, limit: int | None = None) -> Any:
        """Rows as a polars frame."""
        import polars

        return polars.from_arrow(self.to_arrow(columns, where, limit))

    def count(self, where: Where = None) -> int:
        """How many rows; from metadata alone where that is exact."""
        predicate = _predicate(where)
        plan = self.scan(predicate, [])
        known = count_rows(plan)
        if known is not None:
            return known
        batches = read_batches(self.store, self.timeline, plan, self._schema, [], predicate, None)
        return sum(batch.num_rows for batch in batches)

    # ------------------------------------------------------------------------------------------------------ changing

    def alter(self, *changes: SchemaChange) -> TableSchema:
        """Change columns or options: all of it, or nothing, as one new schema.

        Args:
            changes: `ll.add_column(...)`, `ll.rename_column(...)`, `ll.update_type(...)`, `ll.set_option(...)`, ...

        Returns:
            The new schema; this table uses it from now on. Rows that are there are read as it says; nothing is rewritten.

        Raises:
            InvalidArgument: the format does not allow it; nothing was changed.
            CommitConflict: the table's first files were committed meanwhile, and do not allow it; nothing was changed.
            OutcomeUnknown: the store does not say; `resolve()` asks again.
        """
        if self.pinned is not None:
            raise InvalidArgument(f"{self!r} is read only", next_step="open the table without at()")
        self._show(alter(self.timeline, changes, self._committer_with))
        return self._schema

    def _show(self, schema: TableSchema) -> None:
        """Use another schema from now on: for reading, and for where files are written."""
        self._schema = schema
        self.paths = TablePaths(self._branch, schema.options.get(opt.DATA_FILE_DIRECTORY))
        self.timeline = Timeline(self.store, self.paths)
        self._committer = None

    def _committer_with(self, schema: TableSchema) -> Committer:
        paths = TablePaths(self._branch, schema.options.get(opt.DATA_FILE_DIRECTORY))
        journal = open_journal(self._journal, self.store)
        return Committer(self.store, paths, schema, journal, first_schema=self._first_schema)

    def _evolve_to(self, data: Any) -> Iterator[pa.RecordBatch]:
        """Add the columns that the first batch has and the table lacks; the batches, as they were."""
        batches = batches_of(data)
        first = next(batches, None)
        if first is None:
            return iter(())
        self._show(self.timeline.latest_schema())  # others may have added them already
        new = [column for column in first.schema if column.name not in self._schema.by_name]
        if new:
            self.alter(*(add_column(column.name, column.type) for column in new))
        return chain([first], batches)

    def transaction(
        self,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
    ) -> Transaction:
        """Several appends, or one overwrite, as one snapshot; leaving by an exception publishes nothing."""
        return Transaction(
            self.committer,
            self.timeline,
            commit_user=commit_user,
            identifier=identifier,
            isolation=isolation,
            properties=dict(properties or {}),
            watermark_ms=watermark_ms,
        )

    @property
    def committer(self) -> Committer:
        """What commits to this table; made on first use."""
        if self.pinned is not None:
            raise InvalidArgument(f"{self!r} is read only", next_step="open the table without at()")
        if self._committer is None:
            self._committer = self._committer_with(self._schema)
        return self._committer


def _predicate(where: Where) -> Predicate | None:
    return parse_where(where) if isinstance(where, str) else where
