"""The snapshots between a start and an end, for reads of changes.

Owns: `Window`, `window_of`, and the errors for a range that cannot be read. Must not know: files, rows.
Source: format/snapshot §4, §5. Invariant: Every snapshot of a range, or its copy among the changelogs, is there when the read
begins; a range that has partly expired is refused, never shortened.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot
from ..travel import snapshot_at
from .key_changes import Mode


@dataclass(frozen=True)
class Window:
    """What a read of changes covers.

    Attributes:
        before: the state that it starts from, which is not part of it; None for the empty table, or if it has expired.
        snapshots: the snapshots of the range, ascending; copies of those that have expired and whose changes were kept. For a
            difference, only the state that it ends with.
        by_snapshot: report the change of each snapshot; if False, the difference of the two states.
        states_from: the oldest snapshot whose state is still there.
        whole: report all rows of the one snapshot, as far as it and those before it have told of them, as rows that came.
    """

    before: Snapshot | None
    snapshots: tuple[Snapshot, ...]
    by_snapshot: bool = True
    states_from: int = 0
    whole: bool = False

    def pairs(self) -> list[tuple[Snapshot | None, Snapshot]]:
        """Each snapshot with the one before it; None if that one is the empty table or its state has expired."""
        earlier = [s if s is None or s.id >= self.states_from else None for s in (self.before, *self.snapshots)]
        return list(zip(earlier, self.snapshots, strict=False))


def window_of(
    timeline: Timeline, start: int | str, end: int | str | None, newest: Snapshot | None, mode: Mode = "auto"
) -> Window:
    """The snapshots after `start`, up to and with `end`: two ids (0 for the beginning, None for the newest), or two tags.

    Mode "diff" is for the difference of two states, which is the default between tags; others report the change of each snapshot.

    Raises:
        InvalidArgument: there is no such range, or part of it has expired; the error says what exists.
        TableCorrupt: a snapshot of the range is missing.
    """
    if isinstance(start, str) or isinstance(end, str):
        return _between_tags(timeline, start, end, newest, mode)
    for name, value in (("start", start), ("end", end)):
        is_left_out = value is None and name == "end"
        if not is_left_out and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise InvalidArgument(
                f"{name} {value!r} is not a snapshot id", next_step="give an id, 0 or more, or two tags"
            )
    top = 0 if newest is None else newest.id
    last = top if end is None else end
    if last > top:
        there = f"the newest is snapshot {top}" if top else "the table has no snapshot yet"
        raise InvalidArgument(f"there is no snapshot {last} to end at", next_step=there)
    if start > last:
        raise InvalidArgument(
            f"start {start} is after end {last}", next_step="start is the older snapshot, and left out"
        )
    if start == last:
        return Window(None, ())
    if mode == "diff":
        before = snapshot_at(timeline, snapshot=start) if start else None
        return Window(before, (snapshot_at(timeline, snapshot=last),), by_snapshot=False)
    return _after(timeline, start, last)


def _after(timeline: Timeline, start: int, last: int) -> Window:
    """The snapshots from `start` + 1 to `last`; for those that have expired, their copies among the changelogs."""
    first = next((i for i in timeline.history_ids() if i > 0), last)
    kept = range(first, first)
    if start < first - 1:
        kept = _kept_below(timeline, first)
        if start < kept.start - 1:
            raise InvalidArgument(
                f"the changes after snapshot {start} are not all there: the oldest snapshot is {kept.start}"
                + (", as a changelog" if kept else ""),
                next_step=f"start at {kept.start - 1} or later; an expired state may still exist as a tag",
            )

    def found(snapshot_id: int) -> Snapshot:
        return timeline.changelog(snapshot_id) if snapshot_id in kept else snapshot_at(timeline, snapshot=snapshot_id)

    snapshots = timeline.parallel(found, range(start + 1, last + 1))
    return Window(timeline.find(start) if start >= first else None, tuple(snapshots), states_from=first)


def _kept_below(timeline: Timeline, first: int) -> range:
    """The ids right below the oldest snapshot whose changelogs are there."""
    below = first
    for snapshot_id in reversed(timeline.changelog_ids()):
        if snapshot_id < first:
            if snapshot_id != below - 1:
                break
            below = snapshot_id
    return range(below, first)


def _between_tags(
    timeline: Timeline, start: int | str, end: int | str | None, newest: Snapshot | None, mode: Mode
) -> Window:
    if not isinstance(start, str) or not isinstance(end, str):
        raise InvalidArgument(
            f"start {start!r} and end {end!r} must both be tags or both be snapshot ids",
            next_step="look up the snapshot of a tag with at(tag=...).snapshot().id",
        )
    before, after = snapshot_at(timeline, tag=start), snapshot_at(timeline, tag=end)
    if before.id > after.id:
        raise InvalidArgument(
            f"tag {start!r} (snapshot {before.id}) is newer than tag {end!r} (snapshot {after.id})",
            next_step="start is the older tag",
        )
    if mode in ("delta", "changelog"):
        return window_of(timeline, before.id, after.id, newest, mode)
    return Window(before, () if before.id == after.id else (after,), by_snapshot=False)
