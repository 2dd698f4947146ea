"""The part of a table that looks after it: expiry, compaction, rollback, orphans.

Owns: the maintenance methods of `Table`. Must not know: how any of it is done, rows.
Source: architecture §7; format/commit §9, §11, §12.
Invariant: it goes by the options that the table has now, not by those that it was opened with.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

from ..coordinator.commit.committer import new_commit_user
from ..coordinator.commit.receipt import Receipt
from ..coordinator.commit.request import Isolation
from ..coordinator.history.timeline import Timeline
from ..coordinator.maintenance.deletion import Progress
from ..coordinator.maintenance.expire import ExpiryPlan, apply_expiry, plan_expiry
from ..coordinator.maintenance.orphans import (
    DAY_MS,
    YOUNGEST_MS,
    OrphanPlan,
    apply_clean,
    plan_orphans,
    store_clock_ms,
)
from ..coordinator.maintenance.retention import Retention
from ..coordinator.maintenance.rollback import RollbackPlan, plan_rollback, protect, unprotect
from ..coordinator.surroundings import MACHINE
from ..core.errors import InvalidArgument, LakelatchError, OutcomeUnknown
from ..core.metadata.schema import TableSchema
from ..core.predicates.predicate import Predicate
from .compaction.plan import plan_compaction
from .compaction.run import Compaction, rewriter_of, rewritten_here, run_compaction
from .opened import OpenTable
from .travel import epoch_millis, snapshot_at
from .writing.transaction import check_identity
from .writing.writer import check_writable

Moment: TypeAlias = str | int | datetime | None
"""ISO text with a zone, milliseconds since 1970, a datetime with a zone; None: not said."""


class Maintenance(OpenTable):
    """The maintenance methods of `Table`."""

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

        Without arguments the table's options decide. A run that is cut off is finished by running it again. Tags, branches
        and consumers keep what they need; the newest snapshot stays, and so does one that is so young (at most a minute)
        that another job may just be committing on what it knows of it.

        Args:
            retain_max: no more than so many snapshots stay, however young; option `snapshot.num-retained.max`.
            retain_min: so many stay, however old; option `snapshot.num-retained.min`.
            older_than: snapshots whose successor is older than this go; ISO text with zone, milliseconds since 1970, or a
                datetime. By default the time that option `snapshot.time-retained` says.
            max_deletes: at most so many snapshots go in one run; option `snapshot.expire.limit`.
            dry_run: delete nothing.
            progress: called with how many files are deleted by now, and of how many.

        Returns:
            What was deleted, or with `dry_run` would be; prints as one line.

        Raises:
            TableCorrupt: what a snapshot, tag or branch needs cannot be read: nothing was deleted.
            Unsupported: changelogs that outlive snapshots, files outside of the table.
            CommitConflict: the history changed meanwhile: run it again.

        Source: format/commit §9.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://expire-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(3)]
        >>> print(table.expire(dry_run=True))
        no snapshot expires
        """
        timeline, schema = self._maintained()
        retention = Retention.of(
            schema.options,
            MACHINE.wall_ms,
            retain_max=retain_max,
            retain_min=retain_min,
            older_than_ms=None if older_than is None else epoch_millis(older_than),
            max_deletes=max_deletes,
        )
        plan = plan_expiry(timeline, schema, retention)
        return plan if dry_run else apply_expiry(timeline, plan, progress)

    def compact(
        self,
        where: Predicate | str | None = None,
        *,
        target_size: int | str | None = None,
        min_files: int | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Compaction:
        """Rewrite small files into large ones, and files of which many rows are deleted without these; the rows stay the same.

        It may run beside writers: rows that others append meanwhile always stay, and so does what an overwrite, a delete or
        another compaction did first; such a group of files is given up, and told in `given_up`. It commits after every
        gigabyte that it has rewritten: a run that is cut off is finished by running it again.

        Args:
            where: which partitions: a predicate, or its text, on partition columns.
            target_size: how large files are to become, in bytes or as text (`128 mb`); option `target-file-size`. Smaller
                than 0.7 of it (option `compaction.small-file-ratio`) is small.
            min_files: so many small files are worth rewriting where together they do not make a whole one; option
                `compaction.min.file-num`, 5 by default.
            dry_run: change nothing.
            progress: called with how many files are rewritten by now, and of how many.

        Returns:
            What was done, or with `dry_run` would be; prints as one line.

        Raises:
            Unsupported: the table is not written by lakelatch, or is clustered; names the option.
            TableCorrupt: a file is missing, damaged, or holds other rows than its manifest says.
            RetriesExhausted, StoreUnavailable, OutcomeUnknown: as any commit's; run it again.

        Source: format/data-files §6.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://compact-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(6)]
        >>> print(table.compact())
        6 files became 1, snapshot 7
        >>> sorted(table.to_arrow()["v"].to_pylist())
        [0, 1, 2, 3, 4, 5]
        """
        timeline, schema = self._maintained()
        plan = plan_compaction(timeline, schema, where, target_size, min_files)
        if dry_run or not plan.groups:
            return Compaction(plan)
        rewriter = rewriter_of(self.store, timeline, schema, plan.groups, plan.target_bytes)
        return run_compaction(self.committer, timeline, schema, plan, rewritten_here(rewriter), progress=progress)

    def plan_rollback(
        self,
        *,
        snapshot: int | None = None,
        tag: str | None = None,
        timestamp: Moment = None,
    ) -> RollbackPlan:
        """What `rollback` with the same arguments would change; prints as one line. Changes nothing."""
        timeline, schema = self._maintained()
        check_writable(schema)
        found = snapshot_at(timeline, snapshot=snapshot, tag=tag, timestamp=timestamp)
        key = timeline.paths.snapshot(found.id) if tag is None else timeline.paths.tag(tag)
        return plan_rollback(timeline, found, key)

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
        """Make an earlier state the newest: one commit, an overwrite with the files of then.

        Nothing is taken away: the snapshots in between stay, and jobs that write meanwhile meet one more overwrite. The
        schema stays what it is. Tags `rollback-<id>-…` are left on the earlier snapshot, so that Apache Paimon's expiry, which
        goes by the snapshot that once deleted the files, keeps them; they may go once the snapshots up to this commit have.

        Args:
            snapshot, tag, timestamp: the state, as for `at`.
            commit_user, identifier: exactly once, as for `append`.
            isolation: `snapshot`: rows that others append meanwhile stay; `serializable`: they are a conflict.

        Raises:
            TableCorrupt: files of that state are gone; names them.
            CommitConflict: another overwrite came in between.

        Source: format/commit §11.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://rollback-doctest/t", pa.schema([("v", pa.int64())]))
        >>> receipts = [table.append(pa.table({"v": [n]})) for n in range(3)]
        >>> print(table.plan_rollback(snapshot=1))
        back to snapshot 1, as snapshot 4: 0 files with 0 rows come back, 2 with 2 go
        >>> table.rollback(snapshot=1).snapshot_id, table.to_arrow()["v"].to_pylist()
        (4, [0])
        """
        check_identity(commit_user, identifier)
        if commit_user is not None and identifier is not None:
            replayed = self.committer.lookup(commit_user, identifier)
            if replayed is not None:
                return replayed
        plan, schema = (
            self.plan_rollback(snapshot=snapshot, tag=tag, timestamp=timestamp),
            self.timeline.latest_schema(),
        )
        made = protect(self.timeline, schema, plan, MACHINE.new_uuid().hex[:8])
        user = commit_user or new_commit_user(schema)
        try:
            return self.committer.commit(plan.request(user, identifier, isolation, made[0]))
        except OutcomeUnknown:
            raise
        except LakelatchError:
            unprotect(self.timeline, made)
            raise

    def orphans(self, *, older_than: Moment = None) -> OrphanPlan:
        """The files of this table that no snapshot, tag or branch names; prints as one line. Changes nothing.

        Args:
            older_than: only files older than this; ISO text with zone, milliseconds since 1970, or a datetime. By default
                those older than a day; a job may have written its files long before it commits them.

        Raises:
            TableCorrupt: what a snapshot, tag or branch names cannot be read: nothing is known to be an orphan then.
            InvalidArgument: less than an hour ago.

        Source: format/commit §12.

        >>> import pyarrow as pa, lakelatch as ll
        >>> print(ll.create_table("memory://orphans-doctest/t", pa.schema([("v", pa.int64())])).orphans())
        0 of 0 files are orphans: 0 bytes
        """
        timeline, schema = self._maintained()
        return plan_orphans(timeline, schema, _orphans_until(MACHINE.wall_ms, older_than))

    def clean(self, *, older_than: Moment = None, progress: Progress | None = None) -> OrphanPlan:
        """Delete the files that `orphans` finds, by the store's clock, after a second look at what came since.

        Args:
            older_than: as for `orphans`.
            progress: called with how many files are deleted by now, and of how many.

        Returns:
            What was deleted.
        """
        timeline, schema = self._maintained()
        now_ms = store_clock_ms(self.store, MACHINE.new_uuid().hex)
        return apply_clean(plan_orphans(timeline, schema, _orphans_until(now_ms, older_than)), progress)

    def _maintained(self) -> tuple[Timeline, TableSchema]:
        """What maintenance works on: the options as they are now, not as they were when the table was opened."""
        self._check_not_pinned()
        return self.timeline, self.timeline.latest_schema()


def _orphans_until(now_ms: int, older_than: Moment) -> int:
    until_ms = now_ms - DAY_MS if older_than is None else epoch_millis(older_than)
    if until_ms > now_ms - YOUNGEST_MS:
        raise InvalidArgument(
            "files younger than an hour may belong to a job that is about to commit them",
            next_step="choose an earlier time: a day ago is the default",
        )
    return until_ms
