"""The consumer of a reader of changes: the table remembers how far it has come, and expiry keeps what it has still to read.

Owns: `start_of_consumer`. Must not know: how consumers are stored. Source: format/snapshot §5.

Invariants: a consumer that exists decides where reading goes on. It never names a snapshot above one whose changes have not been
worked on. A state with which a reader begins is not remembered before it has been read, so that it is read again after a failure.
"""

from __future__ import annotations

from collections.abc import Callable

from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.consumers import place_consumer, read_consumer, write_consumer
from ...core.metadata.snapshot import Snapshot
from .position import Position
from .start import Start, before, start_of

Moved = Callable[[Position], None]


def start_of_consumer(
    timeline: Timeline, name: str | None, start: Start, newest: Snapshot | None, full: bool
) -> tuple[Position, Moved | None]:
    """Where a reader begins, and what to call with each position that it has reached.

    Args:
        name: the consumer's name; None for a reader without one.
        start, newest, full: as for `start_of`; for a consumer that does not exist yet.

    Raises:
        InvalidArgument: as for `start_of`; the name cannot be a file's; what the consumer has still to read has expired.
    """
    if name is None:
        return start_of(timeline, start, newest, full), None
    moved = mover(timeline, name)
    known = read_consumer(timeline, name)
    if known is not None:
        return before(timeline, known), moved
    position = start_of(timeline, start, newest, full)
    if not position.whole:
        place_consumer(timeline, name, position.next_snapshot)
    return position, moved


def mover(timeline: Timeline, name: str) -> Moved:
    """A function that moves a consumer to a position."""

    def moved(position: Position) -> None:
        write_consumer(timeline, name, position.next_snapshot)

    return moved
