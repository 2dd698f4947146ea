"""The methods of `Table` that change its rows or its schema. Each makes one commit, or one new schema.

Owns: these methods. Must not know: how a commit is built. Source: architecture §3 (isolation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..coordinator.alteration import alter
from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Isolation
from ..core.metadata.schema import TableSchema
from ..core.metadata.schema_changes import SchemaChange, add_column
from .opened import OpenTable
from .writing.conform import batches_of

if TYPE_CHECKING:
    import pyarrow as pa


class Changes(OpenTable):
    """The methods of `Table` that change it."""

    def alter(self, *changes: SchemaChange) -> TableSchema:
        """Change columns or options. All changes together make one new schema; if one is refused, none is made.

        Args:
            changes: `ll.add_column(...)`, `ll.rename_column(...)`, `ll.update_type(...)`, `ll.set_option(...)`, ...

        Returns:
            The new schema, which this table uses from now on. Existing rows are read with it; no file is rewritten.

        Raises:
            InvalidArgument: the format does not allow the change; nothing was changed.
            CommitConflict: the change is allowed only for an empty table, and files were committed meanwhile; nothing was
                changed.
            OutcomeUnknown: the store did not confirm the change; call `resolve()` on the error.
        """
        self._check_not_pinned()
        self._show(alter(self.timeline, changes, self._committer_with))
        return self._schema

    def _evolve_to(self, data: Any) -> Iterator[pa.RecordBatch]:
        """Add the columns that the first batch has and the table lacks. Returns all batches, unchanged."""
        batches = batches_of(data)
        first = next(batches, None)
        if first is None:
            return iter(())
        self._show(self.timeline.latest_schema())  # another writer may have added them already
        new = [column for column in first.schema if column.name not in self._schema.by_name]
        if new:
            self.alter(*(add_column(column.name, column.type) for column in new))
        return chain([first], batches)

    def append(
        self,
        data: Any,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
        evolve: bool = False,
    ) -> Receipt:
        """Add rows in one commit.

        Args:
            data: pa.Table, RecordBatch, RecordBatchReader, iterable of batches, pandas or polars frame. Columns are matched
                by name.
            commit_user, identifier: make the commit exactly once: a second call with the same pair writes nothing and
                returns the first call's receipt. Give both or neither. The identifiers of a user must increase.
            properties: stored in the snapshot.
            watermark_ms: milliseconds since 1970. The table's watermark never decreases.
            evolve: first add the columns that the table lacks, as a schema change of its own.
        """
        if evolve:
            data = self._evolve_to(data)
        with self.transaction(
            commit_user=commit_user, identifier=identifier, properties=properties, watermark_ms=watermark_ms
        ) as tx:
            tx.append(data)
        return tx.receipt

    def overwrite(
        self,
        data: Any,
        *,
        partition: Mapping[str, Any] | None = None,
        dynamic: bool = False,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
        properties: Mapping[str, str] | None = None,
        read_snapshot: int | None = None,
    ) -> Receipt:
        """Replace rows in one commit.

        Args:
            partition: the partition to replace, by all or some of its columns; {} = the whole table.
            dynamic: replace every partition that `data` has rows of.
            isolation: with `snapshot`, rows that other writers append meanwhile are kept; with `serializable`, such rows
                are a conflict.
            read_snapshot: id of the snapshot that `data` was computed from, at which "meanwhile" begins. The latest
                snapshot by default.
        """
        with self.transaction(
            commit_user=commit_user, identifier=identifier, isolation=isolation, properties=properties
        ) as tx:
            tx.overwrite(data, partition=partition, dynamic=dynamic, read_snapshot=read_snapshot)
        return tx.receipt

    def drop_partitions(
        self,
        partitions: Iterable[Mapping[str, Any]],
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
    ) -> Receipt:
        """Delete the rows of partitions, each given by all or some of its columns."""
        with self.transaction(commit_user=commit_user, identifier=identifier, isolation=isolation) as tx:
            tx.drop_partitions(partitions)
        return tx.receipt

    def truncate(
        self,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
    ) -> Receipt:
        """Delete all rows."""
        with self.transaction(commit_user=commit_user, identifier=identifier, isolation=isolation) as tx:
            tx.truncate()
        return tx.receipt
