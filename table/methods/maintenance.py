"""The maintenance methods of `Table`: expiry, compaction, rollback.

Owns: these methods. Must not know: how the operations work, rows.
Source: architecture §7; format/commit §9, §11.
Invariant: maintenance uses the table's current options, not those with which it was opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from ...coordinator.surroundings import MACHINE
from ...core import arguments
from ...core.errors import InvalidArgument
from ..opened import OpenTable

if TYPE_CHECKING:
    from ...coordinator.commit.receipt import Receipt
    from ...coordinator.commit.request import Isolation
    from ...coordinator.history.timeline import Timeline
    from ...coordinator.maintenance.deletion import Progress
    from ...coordinator.maintenance.expiry.expire import ExpiryPlan
    from ...coordinator.maintenance.rollback import RollbackPlan
    from ...core.expressions.tree import Predicate
    from ...core.metadata.data_file import PartitionBucket
    from ...core.metadata.schema import TableSchema
    from ..compaction.rescale import RescalePlan
    from ..compaction.run import Compaction

Moment: TypeAlias = str | int | datetime | None
"""ISO text with a zone, milliseconds since 1970, a datetime with a zone; None: not given."""


class Maintenance(OpenTable):
    """The maintenance methods of `Table`."""

    def _afterwards(self, timeline: Timeline, schema: TableSchema) -> list[Callable[[], object]]:
        from ...coordinator.maintenance.expiry.retention import is_automatic

        work = super()._afterwards(timeline, schema)
        if not is_automatic(schema.options):
            return work
        from ...coordinator.maintenance.expiry.automatic import AfterCommit

        return [*work, AfterCommit(timeline, schema.options)]

    def expire(
        self,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than: Moment = None,
        max_deletes: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> ExpiryPlan:
        """Delete the oldest snapshots, and the files that no snapshot, tag or branch needs any more.

        Without arguments the table's options decide. If a run is cut off, run it again to finish it. Whatever tags, branches
        and consumers need is kept. So is the newest snapshot, and any snapshot so young (at most a minute) that a running
        commit may still be based on it.

        Args:
            retain_max: keep at most this many snapshots, however young; option `snapshot.num-retained.max`.
            retain_min: keep at least this many, however old; option `snapshot.num-retained.min`.
            older_than: delete snapshots whose successor is older than this: how long ago (`7 d`), ISO text with zone,
                milliseconds since 1970, or a datetime. By default the time given by option `snapshot.time-retained`.
            max_deletes: delete at most this many snapshots in one run; option `snapshot.expire.limit`.
            dry_run: delete nothing.
            progress: called with the number of files deleted so far and their total.

        Returns:
            What was deleted, or with `dry_run` would be. Prints as one line.

        Raises:
            TableCorrupt: metadata that a snapshot, tag or branch needs cannot be read; nothing was deleted.
            Unsupported: files to delete are in a location that no option names.
            CommitConflict: the history changed meanwhile; run it again.

        Source: format/commit §9.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://expire-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(3)]
        >>> print(table.expire(dry_run=True))
        no snapshot expires
        """
        from ...coordinator.maintenance.expiry.expire import expire, plan_expiry
        from ...coordinator.maintenance.expiry.retention import Retention
        from ..travel import older_than_millis

        arguments.callback(progress, "progress")
        timeline, schema = self._maintained()
        retention = Retention.of(
            schema.options,
            MACHINE.wall_ms,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=None if older_than is None else older_than_millis(older_than, MACHINE.wall_ms),
            max_deletes=max_deletes,
        )
        if dry_run:
            return plan_expiry(timeline, schema, retention)
        self.settle()  # a hint that is written late would name a snapshot that is gone
        return expire(timeline, schema, retention, progress)

    def compact(
        self,
        where: Predicate | str | None = None,
        *,
        partitions: Sequence[Mapping[str, Any] | str] | None = None,
        full: bool = False,
        target_size: int | str | None = None,
        min_files: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Compaction:
        """Rewrite small files into larger ones, and drop deleted rows from files that have many. The table's rows do not change.

        In a table with a primary key the files of each bucket are sorted runs, which a read merges. Compaction merges runs where
        there are as many as option `num-sorted-run.compaction-trigger` says, so that reads have less to do.

        Compaction can run while other jobs write. Rows that they append meanwhile are kept. If an overwrite, a delete or
        another compaction replaces files first, its result is kept: compaction abandons that group of files and reports it
        in `given_up`. It commits after every gigabyte that it has rewritten. If a run is cut off, run it again to finish it.

        Args:
            where: a predicate on partition columns, or its text, that chooses the partitions.
            partitions: the partitions instead of `where`, such as ``[{"month": 1}, "month=2"]``.
            full: rewrite small files however few there are. In a table with a primary key: merge all files of each bucket.
            target_size: the size of new files, in bytes or as text (`128 mb`); option `target-file-size`. A file below
                0.7 of it (option `compaction.small-file-ratio`) counts as small.
            min_files: rewrite small files that together do not fill one new file only if there are at least this many;
                option `compaction.min.file-num`, 5 by default. Not for tables with a primary key.
            dry_run: change nothing.
            progress: called with the number of files rewritten so far and their total.

        Returns:
            What was done, or with `dry_run` would be. Prints as one line.

        Raises:
            Unsupported: lakelatch cannot write the table; names the option.
            TableCorrupt: a file is missing, damaged, or its rows do not agree with its manifest.
            RetriesExhausted, StoreUnavailable, OutcomeUnknown: as for any commit; run it again.

        Source: format/data-files §6.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://compact-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(6)]
        >>> print(table.compact())
        6 files became 1, snapshot 7
        >>> sorted(table.to_arrow()["v"].to_pylist())
        [0, 1, 2, 3, 4, 5]
        """
        from ...core.metadata.schemas.merge_rules import POSTPONED
        from ..compaction.plan import of_partitions, plan_compaction
        from ..compaction.postponed import settle_postponed
        from ..compaction.run import Compaction, rewriter_of, rewritten_here, run_compaction

        arguments.callback(progress, "progress")
        timeline, schema = self._maintained()
        if partitions is not None:
            if where is not None:
                raise InvalidArgument("compact takes where= or partitions=, not both")
            where = of_partitions(partitions, schema)
        plan = plan_compaction(timeline, schema, where, target_size, min_files, full)
        if dry_run or not plan.groups:
            return Compaction(plan)
        settled = settle_postponed(self.committer, timeline, schema, plan)
        if any(group.bucket == POSTPONED for group in plan.groups):
            plan = plan_compaction(timeline, schema, where, target_size, min_files, full).without_postponed
        rewriter = rewriter_of(self.store, timeline, schema, plan.groups, plan.target_bytes)
        done = run_compaction(self.committer, timeline, schema, plan, rewritten_here(rewriter), progress=progress)
        return done.after(settled)

    def plan_rescale(self, where: Predicate | str | None = None) -> RescalePlan:
        """What `rescale` with the same arguments would rewrite. Prints as one line. Changes nothing.

        Raises:
            Unsupported, InvalidArgument: as for `rescale`.
        """
        from ..compaction.plan import chosen_partitions
        from ..compaction.rescale import plan_rescale

        timeline, schema = self._maintained()
        self.refresh()
        return plan_rescale(self.committer, timeline, schema, chosen_partitions(where, schema))

    def rescale(self, where: Predicate | str | None = None, *, progress: Progress | None = None) -> list[Receipt]:
        """Rewrite the partitions that have another number of buckets than option `bucket` says. The rows stay the same.

        Set the option first: ``table.alter(ll.set_option("bucket", "8"))``. Until a partition is rescaled, writes to it are
        refused, because a key must be in one bucket only. Each partition is one commit, and is read again if another job
        changes it meanwhile, so that no row is lost.

        Args:
            where: a predicate on partition columns, or its text, that chooses the partitions.
            progress: called with the number of partitions rewritten so far and their total.

        Returns:
            One receipt for each partition that was rewritten.

        Raises:
            Unsupported: the table has no primary key, or cannot be compacted; names the option.
            InvalidArgument: the table has no fixed buckets, or the predicate chooses rows.
            CommitConflict: other jobs changed a partition again and again; run it again.

        Source: format/binary-row §5; format/primary-keys §7.
        """
        from ..compaction.plan import chosen_partitions
        from ..compaction.rescale import rescale

        arguments.callback(progress, "progress")
        timeline, schema = self._maintained()
        self.refresh()
        return rescale(self.committer, timeline, schema, chosen_partitions(where, schema), progress)

    def _after_write(self, buckets: frozenset[PartitionBucket]) -> None:
        if self._schema.primary_keys:
            from ..compaction.inline import compact_written

            compact_written(self.committer, buckets)

    def plan_rollback(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> RollbackPlan:
        """What `rollback` with the same arguments would change. Prints as one line. Changes nothing."""
        from ...coordinator.maintenance.rollback import plan_rollback
        from ..travel import snapshot_at
        from ..writing.writer import check_writable

        timeline, schema = self._maintained()
        check_writable(schema, keyed=True)
        found = snapshot_at(timeline, snapshot=snapshot, tag=tag, timestamp=timestamp)
        return plan_rollback(timeline, found, timeline.file_of(found))

    def rollback(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
        commit_user: str | None = None,
        identifier: int | None = None,
        isolation: Isolation = "snapshot",
    ) -> Receipt:
        """Make an earlier state the newest, with one commit: an overwrite by the files of that state.

        No snapshot is deleted: those in between stay, and for jobs that write meanwhile the rollback is an ordinary overwrite.
        The schema does not change. Tags `rollback-<id>-…` stay on the earlier snapshot and on that of the rollback. They make
        Apache Paimon's expiry keep the files, because that expiry looks at the snapshots that delete them. Where readers do not
        see level 0 (deletion vectors, `first-row`), a compaction follows at once, as after an upsert.

        Args:
            snapshot, tag, timestamp: the state, as for `at`.
            commit_user, identifier: make the commit exactly once, as for `append`.
            isolation: with `snapshot`, rows that other writers append meanwhile are kept; with `serializable`, such rows
                are a conflict.

        Raises:
            TableCorrupt: files of that state no longer exist; names them.
            CommitConflict: another overwrite was committed meanwhile.

        Source: format/commit §11.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://rollback-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(3)]
        >>> print(table.plan_rollback(snapshot=1))
        back to snapshot 1, as snapshot 4: 0 files with 0 rows come back, 2 with 2 go
        >>> table.rollback(snapshot=1).snapshot_id, table.to_arrow()["v"].to_pylist()
        (4, [0])
        """
        from ...coordinator.commit.committer import new_commit_user
        from ...coordinator.maintenance.rollback import protected
        from ..compaction.inline import show_restored
        from ..writing.transaction import check_identity

        check_identity(commit_user, identifier)
        if commit_user is not None and identifier is not None:
            replayed = self.committer.lookup(commit_user, identifier)
            if replayed is not None:
                return replayed
        plan, schema = (
            self.plan_rollback(snapshot=snapshot, tag=tag, timestamp=timestamp),
            self.timeline.latest_schema(),
        )
        user = commit_user or new_commit_user(schema)
        with protected(self.timeline, schema, plan, commit_user, identifier) as name:
            assert name is not None  # something is to come back
            receipt = self.committer.commit(plan.request(user, identifier, isolation, name))
        show_restored(self, schema, plan.added)
        return receipt

    def _maintained(self) -> tuple[Timeline, TableSchema]:
        """What maintenance works on, with the table's current options, not those with which it was opened."""
        self._check_not_pinned()
        return self.timeline, self.timeline.latest_schema()
