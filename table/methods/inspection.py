"""The methods of `Table` that show what Apache Paimon's system tables show.

Owns: these methods. Must not know: how the rows of a system table are made. Source: format/snapshot §6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.errors import InvalidArgument
from ..opened import OpenTable

if TYPE_CHECKING:
    import pyarrow as pa

    from ...coordinator.commit.receipt import Receipt
    from ...core.expressions.tree import Predicate
    from ...core.metadata.snapshot import Snapshot
    from ..system.definition import View


class Inspection(OpenTable):
    """The system tables of `Table`."""

    def explain(self, commit: int | tuple[str, int | None] | Receipt | Snapshot | None = None) -> str:
        """The history of one commit as text: its base, its attempts, the commits that it lost to, its changes.

        Args:
            commit: a snapshot id, an identity (commit user, identifier), a receipt, or a snapshot; the latest by default.
        """
        from ...coordinator.explain import explain
        from ...core.arguments import plain
        from ...core.metadata.snapshot import Snapshot as Found
        from ..travel import commit_at, snapshot_at

        if type(number := plain(commit)) is int:
            commit = snapshot_at(self.timeline, snapshot=number)
        found = self.snapshot() if commit is None else commit
        if found is None:
            raise InvalidArgument(f"{self.url} has no snapshot yet")
        if isinstance(found, Found):
            return explain(self.timeline, found)
        named = commit_at(self.timeline, self.committer, found)
        return explain(self.timeline, named.snapshot, named.carried)

    def system(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        limit: int | None = None,
    ) -> pa.Table:
        """A system table of Apache Paimon, with its columns and types.

        Of a table of `at()` it is the one of that snapshot. Times are those of this machine's zone, as in Apache Paimon, but
        without a zone in their type.

        Args:
            name: `snapshots`, `schemas`, `options`, `manifests`, `files`, `partitions`, `buckets`, `tags`, `branches`,
                `consumers`, `statistics`, `audit_log`, `ro`, `changelog`, `binlog`, `row_tracking`, `aggregation_fields` or
                `table_indexes`.
            columns: column names, in the order of the result; None for all.
            where: a predicate on the columns of the system table, made with `ll.col(...)`, or its text. Only the files that it
                needs are read: snapshots by `snapshot_id`, tags by `tag_name`, manifests by `partition`, `bucket` and `level`.
            limit: the largest number of rows.

        Raises:
            InvalidArgument: there is no such system table or column.
            TableCorrupt: a file that is needed is missing or damaged.

        Source: format/snapshot §6.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://system-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n, None]})) for n in range(3)]
        >>> table.system("snapshots", ["snapshot_id", "total_record_count"], where="snapshot_id > 1").to_pylist()
        [{'snapshot_id': 2, 'total_record_count': 4}, {'snapshot_id': 3, 'total_record_count': 6}]
        >>> table.system("files", ["null_value_counts"], limit=1).to_pylist()
        [{'null_value_counts': '{v=1}'}]
        """
        return self.system_reader(name, columns, where, limit).read_all()

    def system_reader(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: Predicate | str | None = None,
        limit: int | None = None,
    ) -> pa.RecordBatchReader:
        """A system table as a reader, which fetches rows as they are asked for; arguments and errors as for `system`.

        Use it for `files` of a very large table, and for `audit_log`, `binlog`, `changelog`, `ro` and `row_tracking`, which have
        as many rows as the table.
        """
        from ..system.read import read_system

        return read_system(self.system_view(), name, columns, where, limit)

    def system_view(self) -> View:
        """What system tables are made of, as of now: for reading them in another process."""
        from ..system.definition import View

        timeline, snapshot, schema = self._seen()
        return View(timeline, snapshot, schema, self.pinned is not None)
