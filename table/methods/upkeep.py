"""The methods of `Table` that look after its metadata: statistics, manifests, indexes.

Owns: these methods. Must not know: how the operations work, rows. Source: format/commit §3; format/snapshot §6.
Invariant: the rows of the table stay the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...backends.requests.refusals import raise_undone
from ...coordinator.surroundings import MACHINE
from ...core import arguments
from ...core.errors import InvalidArgument, LakelatchError, OutcomeUnknown
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.maintenance.deletion import Progress
    from ...coordinator.maintenance.manifests import ManifestPlan
    from ...core.expressions.tree import Predicate
    from ...core.statistics.table_statistics import TableStatistics
    from ..reindexing import IndexRewrite


class Upkeep(OpenTable):
    """The methods of `Table` for its statistics, manifests and indexes."""

    def statistics(self) -> TableStatistics | None:
        """The statistics that `analyze`, or Apache Paimon's ANALYZE, made last; None if there are none for this schema."""
        from ..analysis import read_statistics

        timeline, snapshot, _ = self._seen()
        return read_statistics(timeline, snapshot)

    def analyze(
        self,
        columns: Sequence[str] | None = None,
        *,
        dry_run: bool = False,
        commit_user: str | None = None,
        identifier: int | None = None,
        progress: Progress | None = None,
    ) -> TableStatistics:
        """Count the rows and, of each column, its different values, nulls, bounds and lengths, and commit the result.

        All rows are read once. The commit, of kind ANALYZE, changes no rows and meets no conflict; later commits carry the
        statistics on until the schema changes. Columns that are not analyzed keep what an earlier run found, if the schema is
        the same.

        Args:
            columns: the columns to analyze; None for all of a type with statistics (no ARRAY, MAP, ROW, TIME, VARIANT or BLOB),
                [] for the number of rows only.
            dry_run: commit nothing.
            commit_user, identifier: make the commit exactly once, as for `append`.
            progress: called with the number of rows read so far, and about how many there are.

        Returns:
            The statistics. Distinct values are exact up to 65 536, and beyond that right to about one percent.

        Raises:
            InvalidArgument: there is no snapshot or column, or a column's type has no statistics.
            TableCorrupt: a file is missing or damaged.
            RetriesExhausted, StoreUnavailable, OutcomeUnknown: as for any commit.

        Source: format/snapshot §6.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://analyze-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipt = table.append(pa.table({"v": [1, 1, None]}))
        >>> table.analyze().columns["v"].distinct_count, table.statistics().row_count
        (1, 3)
        """
        from ...coordinator.commit.committer import new_commit_user
        from ...coordinator.commit.message import PendingUpload
        from ...coordinator.commit.request import CommitRequest, Remarks
        from ...core.statistics.table_statistics import TableStatistics
        from ..analysis import analyzed, read_statistics
        from ..writing.transaction import check_identity

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        check_identity(commit_user, identifier)
        if not dry_run and self._has_landed(commit_user, identifier):
            made = self.statistics()
            if made is not None:
                return made
        timeline, snapshot, schema = self._seen()
        if snapshot is None:
            raise InvalidArgument(f"{self.url} has no snapshot yet: there is nothing to analyze")
        found = analyzed(timeline, snapshot, schema, columns, progress)
        before = read_statistics(timeline, snapshot)
        if before is not None and before.schema_id == schema.id:
            merged = {**before.columns, **found.columns}
            found = TableStatistics(found.snapshot_id, found.schema_id, found.row_count, found.size, merged)
        if dry_run:
            return found
        name = f"stat-{MACHINE.new_uuid()}-0"
        key = self.paths.statistics(name)
        request = CommitRequest(
            "ANALYZE",
            (),
            commit_user or new_commit_user(schema),
            identifier,
            uploads=(PendingUpload(key, found.to_json()),),
            remarks=Remarks(statistics=name),
        )
        try:
            self.committer.commit(request)
        except OutcomeUnknown:
            raise
        except LakelatchError as error:
            raise_undone(error, lambda: timeline.store.delete_many([key]))
        return found

    def _has_landed(self, commit_user: str | None, identifier: int | None) -> bool:
        if commit_user is None or identifier is None:
            return False
        return self.committer.lookup(commit_user, identifier) is not None

    def compact_manifests(
        self, *, dry_run: bool = False, commit_user: str | None = None, identifier: int | None = None
    ) -> ManifestPlan:
        """Merge all small manifests, and drop entries of files that were deleted, with a commit of its own.

        Commits merge some manifests by themselves (options `manifest.merge-min-count` and
        `manifest.full-compaction-threshold-size`). This does it at once and completely, so that plans of reads and of commits
        become cheaper. The rows stay the same, and jobs that commit meanwhile lose nothing: what they have committed is merged
        too.

        Args:
            dry_run: change nothing.
            commit_user, identifier: make the commit exactly once, as for `append`.

        Returns:
            What was done, or with `dry_run` would be. Prints as one line.

        Raises:
            RetriesExhausted: other jobs committed all the time; run it again.
            TableCorrupt: a manifest is missing or damaged.

        Source: format/manifests §5; format/commit §3.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://manifests-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(3)]
        >>> done = table.compact_manifests()
        >>> len(done.manifests), len(done.after), done.receipt.snapshot_id
        (3, 1, 4)
        """
        from ...coordinator.commit.committer import new_commit_user
        from ...coordinator.maintenance.manifests import compact_manifests, plan_manifests
        from ..writing.transaction import check_identity

        self._check_not_pinned()
        check_identity(commit_user, identifier)
        timeline, schema = self.timeline, self.timeline.latest_schema()
        plan = plan_manifests(timeline, schema)
        if dry_run or not plan.is_due:
            return plan
        return compact_manifests(self.committer, timeline, plan, commit_user or new_commit_user(schema), identifier)

    def rewrite_file_index(
        self,
        where: Predicate | str | None = None,
        *,
        full: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> IndexRewrite:
        """Give existing data files the indexes that the options `file-index.*` name now, without rewriting the files.

        New files get their indexes when they are written. After an option was set, or changed, this makes those of the files that
        were there before, and drops those that no option names any more. The rows stay the same. It can run while other jobs
        write: what they append is kept, and files that they replace are left to them.

        Args:
            where: a predicate on partition columns, or its text, that chooses the partitions.
            full: also make anew the indexes of files that have them, for example with another option `fpp`.
            dry_run: change nothing.
            progress: called with the number of files done so far and their total.

        Returns:
            What was done, or with `dry_run` would be. Prints as one line.

        Raises:
            Unsupported: the table has data evolution.
            InvalidArgument: an option names a column that the table does not have.
            TableCorrupt: a file is missing or damaged.
            RetriesExhausted, StoreUnavailable, OutcomeUnknown: as for any commit; run it again.

        Source: format/file-indexes §1; format/commit §3.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://index-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipt = table.append(pa.table({"v": [1, 5, 9]}))
        >>> table.alter(ll.set_option("file-index.bitmap.columns", "v")).id
        1
        >>> print(table.rewrite_file_index())
        1 file got other indexes, snapshot 2
        >>> table.plan(where="v = 4").files_pruned_by_index
        1
        """
        from ..reindexing import IndexRewrite, plan_indexes, rewrite_indexes
        from ..writing.writer import check_writable

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        timeline, schema = self.timeline, self.timeline.latest_schema()
        check_writable(schema, keyed=True)
        plan = plan_indexes(timeline, schema, where, full)
        if dry_run or not plan.groups:
            return IndexRewrite(plan)
        return rewrite_indexes(self.refresh().committer, timeline, schema, plan, progress)
