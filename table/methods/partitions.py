"""The methods of `Table` for its partitions: list them, drop those that are too old, mark those that are done.

Owns: these methods. Must not know: which partitions are too old. Source: architecture §7; format/commit §9.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

from ...coordinator.surroundings import MACHINE
from ...core import arguments
from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.expressions.zones import zone_of
from ..opened import OpenTable
from .maintenance import Moment

if TYPE_CHECKING:
    import pyarrow as pa

    from ...coordinator.history.timeline import Timeline
    from ...coordinator.maintenance.deletion import Progress
    from ...core.expressions.tree import Predicate
    from ...core.metadata.data_file import ManifestEntry
    from ...core.metadata.schema import TableSchema
    from ..partition_turns import PartitionTurn
    from ..partition_upkeep import MarkedPartitions, PartitionExpiry


_LOG = logging.getLogger("lakelatch.upkeep")


class Partitions(OpenTable):
    """The methods of `Table` for its partitions."""

    def _afterwards(self, timeline: Timeline, schema: TableSchema) -> list[Callable[[], object]]:
        from ..partition_turns import PartitionTurn, drops_after_commits

        work = super()._afterwards(timeline, schema)
        if not drops_after_commits(schema):
            return work
        turn = PartitionTurn(self.store.url, self._branch)
        return [*work, lambda: self._drop_in_turn(turn, schema)]

    def _drop_in_turn(self, turn: PartitionTurn, schema: TableSchema) -> None:
        """Drop old partitions after a commit, if it is time. The drop has a committer of its own, and what follows its commit is
        over before the turn ends, so that it leads to no further drop."""
        from ..partition_turns import drops_after_commits

        if not turn.take(schema.options):
            return
        try:
            apart = type(self)(
                self.store, schema, branch=self._branch, journal=self._journal, first_schema=self._first_schema
            )
            if drops_after_commits(apart.refresh().schema):
                done = apart.expire_partitions()
                apart.committer.settle()
                if done.partitions:
                    _LOG.info("dropped after a commit to %s: %s", self.url, done)
        finally:
            turn.end()

    def partitions(self, where: Predicate | str | None = None) -> pa.Table:
        """One row per partition: its path, rows, bytes, files, and when its newest file was made.

        The time is in milliseconds since 1970 of the wall clock of the file's writer, as if that were UTC, which is what the
        format stores; null if it is unknown.

        Args:
            where: a predicate on partition columns, or its text, that chooses the partitions.

        >>> import pyarrow as pa, lakelatch as ll
        >>> rows = pa.table({"month": [1, 2], "v": [3, 4]})
        >>> table = ll.create_table("memory://partitions-doctest/t", rows.schema, partition_by=["month"])
        >>> receipt = table.append(rows)
        >>> table.partitions("month = 2").select(["partition", "record_count", "file_count"]).to_pylist()
        [{'partition': 'month=2', 'record_count': 1, 'file_count': 1}]
        """
        from .. import system

        schema, entries = self._partition_files(where)
        return system.partitions_table(schema, entries)

    def expire_partitions(
        self,
        *,
        older_than: Moment = None,
        strategy: str | None = None,
        max_partitions: int | None = None,
        time_zone: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> PartitionExpiry:
        """Drop the partitions that are too old. Their files go when the snapshots that hold them expire.

        Writers that run for long do this by themselves in a table with option `partition.expiration-time`.

        A partition is as old as the time that its values stand for: its first column as `yyyy-MM-dd`, also with ` HH:mm:ss`, or
        what options `partition.timestamp-pattern` and `partition.timestamp-formatter` say. Values that stand for no time never
        expire. Rows that other jobs append meanwhile are kept. If a run is cut off, run it again to finish it.

        Args:
            older_than: how old partitions may become: a duration such as `90 d`, or a time; option `partition.expiration-time`.
            strategy: `values-time`, or `update-time` for the time at which a partition's newest file was made; option
                `partition.expiration-strategy`.
            max_partitions: drop at most this many in one run; option `partition.expiration-max-num`, 100 by default.
            time_zone: the zone of the partitions' times, such as `Europe/Berlin`; by default that of this machine.
            dry_run: change nothing.
            progress: called with the number of partitions dropped so far and their total.

        Returns:
            What was dropped, or with `dry_run` would be. Prints as one line.

        Raises:
            InvalidArgument: the table has no partitions, or nothing says how old they may become.
            Unsupported: an option has a date pattern or a strategy that is not supported; names it.
            CommitConflict: another job replaced one of the partitions meanwhile; run it again.

        Source: format/commit §9.

        >>> import pyarrow as pa, lakelatch as ll
        >>> rows = pa.table({"dt": ["2020-01-01", "2999-01-01"], "v": [3, 4]})
        >>> table = ll.create_table("memory://expire-partitions-doctest/t", rows.schema, partition_by=["dt"])
        >>> receipt = table.append(rows)
        >>> [one.partition for one in table.expire_partitions(older_than="90 d").partitions]
        ['dt=2020-01-01']
        """
        from .. import system
        from ..partition_upkeep import plan_partition_expiry
        from ..travel import older_than_millis

        arguments.callback(progress, "progress")
        self._check_not_pinned()
        self.refresh()
        schema, entries = self._partition_files(None)
        totals = system.partition_totals(schema, entries)
        now_ms = MACHINE.wall_ms
        kept_ms = None if older_than is None else now_ms - older_than_millis(older_than, now_ms)
        plan = plan_partition_expiry(schema, totals, now_ms, _zone(time_zone), kept_ms, strategy, max_partitions)
        if dry_run:
            return plan
        receipts, done = [], 0
        for batch in plan.batches:
            with self.transaction() as tx:
                tx.drop_partitions(batch)
            receipts.append(tx.receipt)
            done += len(batch)
            if progress is not None:
                progress(done, len(plan.partitions))
        return replace(plan, receipts=tuple(receipts))

    def mark_done(
        self,
        partitions: Sequence[Mapping[str, Any] | str] | None = None,
        *,
        idle: str | None = None,
        time_zone: str | None = None,
        dry_run: bool = False,
    ) -> MarkedPartitions:
        """Mark partitions as done, for jobs that wait for them, as option `partition.mark-done-action` says.

        Action `success-file` writes a file `_SUCCESS` into the folder of the partition, as Apache Paimon does. It holds the times
        of the first and of the last mark. Action `http-report` posts to the URL of option
        `partition.mark-done-action.http.url`, which must answer `{"result": "SUCCESS"}`.

        Args:
            partitions: their names, such as ``["dt=2026-01-01"]`` or ``[{"dt": "2026-01-01"}]``. A name by some of the columns
                chooses all partitions that fit. None: those that got no file for the time of `idle`, and are not marked since.
            idle: a duration such as `15 min`; option `partition.idle-time-to-done`. With option `partition.time-interval` a
                partition is not idle before the interval that it stands for is over.
            time_zone: the zone of the partitions' and files' times; by default that of this machine.
            dry_run: change nothing.

        Returns:
            The partitions that were marked, or with `dry_run` would be.

        Raises:
            InvalidArgument: a name does not fit the table; or neither `partitions`, nor `idle`, nor the option was given; or
                idle partitions are asked for without action `success-file`, which tells those that are marked already.
            Unsupported: the option names an action that needs a metastore or a Java class; names it.
            StoreUnavailable: the service did not confirm: run it again.

        >>> import pyarrow as pa, lakelatch as ll
        >>> rows = pa.table({"month": [1, 2], "v": [3, 4]})
        >>> table = ll.create_table("memory://mark-done-doctest/t", rows.schema, partition_by=["month"])
        >>> print(table.mark_done([{"month": 1}]))
        1 partitions marked as done: month=1
        """
        from .. import system
        from ..partition_upkeep import (
            BY_FILE,
            MarkedPartitions,
            actions_of,
            idle_partitions,
            mark_partition,
            named_partitions,
        )
        from ..travel import duration_ms

        self._check_not_pinned()
        self.refresh()
        schema, now_ms, zone = self._schema, MACHINE.wall_ms, _zone(time_zone)
        if not schema.partition_keys:
            raise InvalidArgument("the table has no partitions")
        actions = actions_of(schema)
        if partitions is not None and idle is not None:
            raise InvalidArgument("mark_done takes partitions or idle=, not both")
        totals = system.partition_totals(*self._partition_files(None))
        if partitions is not None:
            paths = named_partitions(schema, totals, partitions)
        else:
            option = schema.options.get(opt.PARTITION_IDLE_TIME_TO_DONE)
            idle_ms = option if idle is None else duration_ms(idle, "idle")
            if idle_ms is None:
                raise InvalidArgument(
                    "nothing says which partitions are done",
                    next_step=f"name them, pass idle=, or set option '{opt.PARTITION_IDLE_TIME_TO_DONE.key}'",
                )
            if actions and BY_FILE not in actions:
                raise InvalidArgument(
                    f"only action '{BY_FILE}' remembers which idle partitions are marked already",
                    next_step=f"name the partitions, or add '{BY_FILE}' to option '{opt.PARTITION_MARK_DONE_ACTION.key}'",
                )
            paths = idle_partitions(schema, self.store, totals, now_ms, idle_ms, zone)
        if not dry_run and actions:
            self.timeline.parallel(lambda path: mark_partition(self.store, schema, path, actions, now_ms), paths)
        return MarkedPartitions(tuple(paths), actions)

    def _partition_files(self, where: Predicate | str | None) -> tuple[TableSchema, list[ManifestEntry]]:
        """The live files of the partitions that a predicate chooses."""
        from ..compaction.key_plan import live_files
        from ..compaction.plan import chosen_partitions

        timeline, snapshot, schema = self._seen()
        chosen = chosen_partitions(where, schema)
        return schema, [] if snapshot is None else live_files(timeline, snapshot, schema, chosen)


def _zone(name: str | None) -> tzinfo | None:
    """A time zone by its name; None for that of this machine."""
    return None if name is None else zone_of(name)
