"""The methods of `Table` that find orphans, delete them, move them aside, and bring them back.

Owns: these methods. Must not know: which files are orphans, rows. Source: architecture §7; format/commit §12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...coordinator.surroundings import MACHINE
from ...core import arguments
from ...core.errors import InvalidArgument
from ..opened import OpenTable
from .maintenance import Moment

if TYPE_CHECKING:
    from ...coordinator.history.timeline import Timeline
    from ...coordinator.maintenance.deletion import Progress
    from ...coordinator.maintenance.orphans import OrphanPlan
    from ...coordinator.maintenance.quarantine import Quarantine, Restored
    from ...core.metadata.schema import TableSchema

KEPT = "7 d"
"""How long a quarantine is kept."""


class Cleaning(OpenTable):
    """The methods of `Table` for files that nothing names."""

    def orphans(self, *, older_than: Moment = None, external: bool = False) -> OrphanPlan:
        """The files in the table's directory that no snapshot, tag or branch names. Prints as one line. Changes nothing.

        Args:
            external: look also at the locations of option `data-file.external-paths`, and at those that an earlier schema named.
                Only where no other table stores files in them, because its files would be taken for orphans.
            older_than: consider only files older than this: how long ago (`2 d`), ISO text with zone, milliseconds since 1970,
                or a datetime. A day ago by default, because a job may write its files long before it commits them.

        Raises:
            TableCorrupt: the metadata of a snapshot, tag or branch cannot be read, so that no file is known to be an orphan.
            InvalidArgument: `older_than` is less than an hour ago.

        Source: format/commit §12.

        >>> import pyarrow as pa, lakelatch as ll
        >>> print(ll.create_table("memory://orphans-doctest/t", pa.schema([("v", pa.int64())])).orphans())
        0 of 0 files are orphans: 0 bytes
        """
        from ...coordinator.maintenance.orphans import plan_orphans

        timeline, schema = self._cleaned()
        return plan_orphans(timeline, schema, orphans_until(MACHINE.wall_ms, older_than), external=external)

    def clean(
        self,
        *,
        older_than: Moment = None,
        external: bool = False,
        quarantine: bool = False,
        keep: str = KEPT,
        progress: Progress | None = None,
    ) -> OrphanPlan:
        """Delete the files that `orphans` finds, after checking again what was committed since. Ages are by the store's clock.

        Quarantines whose time is over are deleted too. Files in them that a snapshot, tag or branch names by then come back.

        Args:
            older_than, external: as for `orphans`.
            quarantine: move the files aside instead, into a folder that other engines do not look into. `restore_quarantine`
                brings them back.
            keep: how long this quarantine is kept, as a duration such as `7 d`.
            progress: called with the number of files deleted or moved so far and their total.

        Returns:
            What was deleted or moved, and the name of the quarantine.

        Raises:
            TableCorrupt, InvalidArgument: as for `orphans`; nothing was deleted.
            StoreUnavailable: the store failed midway; run it again.
        """
        from ...backends.requests.refusals import past_refusals
        from ...coordinator.maintenance.orphans import apply_clean, plan_orphans, store_clock_ms
        from ...coordinator.maintenance.quarantine import expire_quarantines, move_orphans
        from ..travel import duration_ms

        arguments.callback(progress, "progress")
        timeline, schema = self._cleaned()
        unique = MACHINE.new_uuid().hex
        kept_ms = duration_ms(keep, "keep")
        now_ms = store_clock_ms(self.store, unique)
        plan = plan_orphans(timeline, schema, orphans_until(now_ms, older_than), external=external)
        with past_refusals():
            if quarantine:
                done = move_orphans(plan, now_ms, kept_ms, unique[:8], progress)
            else:
                done = apply_clean(plan, progress)
            return expire_quarantines(done, now_ms)

    def quarantines(self) -> list[Quarantine]:
        """What `clean(quarantine=True)` moved aside and is still there, oldest first. Each prints as one line."""
        from ...coordinator.maintenance.quarantine import quarantines

        return quarantines(self.store)

    def restore_quarantine(self, name: str | None = None, *, progress: Progress | None = None) -> Restored:
        """Bring the files of a quarantine back to where they were. Their age begins anew.

        Args:
            name: as `clean` returned it and `quarantines` lists it; None for all.
            progress: called with the number of files that are back and their total.

        Raises:
            InvalidArgument: there is no quarantine of this name.
            StoreUnavailable: the store failed midway; run it again.

        >>> import pyarrow as pa, lakelatch as ll
        >>> table = ll.create_table("memory://quarantine-doctest/t", pa.schema([("v", pa.int64())]))
        >>> table.clean(quarantine=True).quarantine is None, table.quarantines()
        (True, [])
        >>> print(table.restore_quarantine())
        0 files of 0 quarantines: 0 bytes
        """
        from ...coordinator.maintenance.quarantine import restore

        arguments.callback(progress, "progress")
        timeline, schema = self._cleaned()
        return restore(timeline, schema, name, progress)

    def _cleaned(self) -> tuple[Timeline, TableSchema]:
        self._check_not_pinned()
        return self.timeline, self.timeline.latest_schema()


def orphans_until(now_ms: int, older_than: Moment) -> int:
    """Only files older than this are considered, in milliseconds since 1970.

    Raises:
        InvalidArgument: the time is less than an hour ago.
    """
    from ...coordinator.maintenance.orphans import DAY_MS, YOUNGEST_MS
    from ..travel import older_than_millis

    until_ms = now_ms - DAY_MS if older_than is None else older_than_millis(older_than, now_ms)
    if until_ms > now_ms - YOUNGEST_MS:
        raise InvalidArgument(
            "files younger than an hour may belong to a job that is about to commit them",
            next_step="choose an earlier time: a day ago is the default",
        )
    return until_ms
