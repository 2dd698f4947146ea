"""The snapshots between a start and an end, for reads of changes.

Owns: `Window`, `window_of`, and the errors for a range that cannot be read. Must not know: files, rows.
Source: format/snapshot §4. Invariant: Every snapshot of a range is there when the read begins; a range that has partly expired
is refused, never shortened.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot
from ..travel import snapshot_at


@dataclass(frozen=True)
class Window:
    """What a read of changes covers.

    Attributes:
        before: the state that it starts from, which is not part of it; None for the empty table, or a snapshot that has
            expired.
        snapshots: the snapshots of the range, ascending. For tags, only the state that it ends with.
        by_snapshot: report the change of each snapshot; if False, the difference of the two states.
    """

    before: Snapshot | None
    snapshots: tuple[Snapshot, ...]
    by_snapshot: bool = True

    def pairs(self) -> list[tuple[Snapshot | None, Snapshot]]:
        """Each snapshot with the one before it; None if that one is the empty table or has expired."""
        return list(zip((self.before, *self.snapshots), self.snapshots, strict=False))


def window_of(timeline: Timeline, start: int | str, end: int | str | None, newest: Snapshot | None) -> Window:
    """The snapshots after `start`, up to and with `end`.

    Args:
        start: the id of a snapshot, which is not part of the result (0 for the beginning), or a tag's name.
        end: the id of a snapshot, or a tag's name if `start` is one; None for the newest snapshot.
        newest: the newest snapshot that a read sees; None for a table without one.

    Raises:
        InvalidArgument: there is no such range of snapshots, or part of it has expired; the error says what exists.
        TableCorrupt: a snapshot of the range is missing.
    """
    if isinstance(start, str) or isinstance(end, str):
        return _between_tags(timeline, start, end)
    for name, value in (("start", start), ("end", end)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
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
    first = next((i for i in timeline.snapshot_ids() if i > 0), last)
    if start < first - 1:
        raise InvalidArgument(
            f"the changes after snapshot {start} are not all there: the oldest snapshot is {first}",
            next_step=f"start at {first - 1} or later; an expired state may still exist as a tag",
        )
    found = timeline.parallel(lambda i: snapshot_at(timeline, snapshot=i), range(start + 1, last + 1))
    return Window(timeline.find(start) if start >= first else None, tuple(found))


def _between_tags(timeline: Timeline, start: int | str, end: int | str | None) -> Window:
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
    return Window(before, () if before.id == after.id else (after,), by_snapshot=False)
