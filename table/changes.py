"""Changes of a table's rows, as its users ask for them: each one commit.

Owns: the methods of `Table` that change rows. Must not know: what a commit is made of. Source: architecture §3 (isolation);
architecture §5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Isolation
from .writing.transaction import Transaction

if TYPE_CHECKING:
    import pyarrow as pa


class Changes(ABC):
    """What `Table` inherits."""

    @abstractmethod
    def transaction(
        self,
        *,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
        properties: Mapping[str, str] | None = None,
        watermark_ms: int | None = None,
    ) -> Transaction:
        """Several appends, or one overwrite, as one snapshot."""

    @abstractmethod
    def _evolve_to(self, data: Any) -> Iterator[pa.RecordBatch]:
        """Add the columns that the first batch has and the table lacks; the batches, as they were."""

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
