"""Changes of a table's rows and columns, as its users ask for them: each one commit, or one new schema.

Owns: the methods of `Table` that change it. Must not know: what a commit is made of. Source: architecture §3 (isolation).
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
        self._check_not_pinned()
        self._show(alter(self.timeline, changes, self._committer_with))
        return self._schema

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
        """Add rows: one commit.

        Args:
            data: pa.Table, RecordBatch, RecordBatchReader, iterable of batches, pandas or polars frame; columns by name.
            commit_user, identifier: exactly once: the second call answers the first one's receipt. Both or neither;
                the identifiers of a user grow.
            properties: kept in the snapshot.
            watermark_ms: milliseconds; the table's watermark never goes back.
            evolve: columns that the table lacks are added to it first, a change of its own.
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
        """Replace rows: one commit.

        Args:
            partition: the partition to replace, in whole or in part; {} = the whole table.
            dynamic: replace each partition that `data` touches.
            isolation: `snapshot`: rows that others append meanwhile stay; `serializable`: they are a conflict.
            read_snapshot: id of the snapshot that `data` was made from: "meanwhile" begins there; now by default.
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
        """Delete the rows of partitions, each given in whole or in part."""
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
