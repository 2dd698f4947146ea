"""The consumer of a reader of changes: the table remembers how far it has come, and expiry keeps what it has still to read.

Owns: `start_of_consumer`, `Mover`. Must not know: how consumers are stored. Source: format/snapshot §5.

Invariants: a consumer that exists decides where reading goes on. It never names a snapshot above one whose changes have not been
worked on. A state with which a reader begins is not remembered before it has been read, so that it is read again after a failure.
A store that takes one write a second of a name gets one a second, of the newest position.
"""

from __future__ import annotations

import math

from ...backends.store import rewrite_seconds
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.expiry.consumers import place_consumer, read_consumer, write_consumer
from ...coordinator.surroundings import MACHINE
from ...core.metadata.snapshot import Snapshot
from .position import Position
from .start import Start, before, start_of


def start_of_consumer(
    timeline: Timeline, name: str | None, start: Start, newest: Snapshot | None, full: bool
) -> tuple[Position, Mover | None]:
    """Where a reader begins, and what to call with each position that it has reached, if it has a consumer.

    A consumer that is new begins as `start_of` says. `InvalidArgument`: what one has still to read has expired.
    """
    if name is None:
        return start_of(timeline, start, newest, full), None
    moved = Mover(timeline, name)
    known = read_consumer(timeline, name)
    if known is not None:
        return before(timeline, known), moved
    position = start_of(timeline, start, newest, full)
    if not position.whole:
        place_consumer(timeline, name, position.next_snapshot)
        moved.written_s = MACHINE.monotonic_s()
    return position, moved


class Mover:
    def __init__(self, timeline: Timeline, name: str) -> None:
        self._timeline, self._name = timeline, name
        self._every_s = rewrite_seconds(timeline.store)
        self.written_s = -math.inf
        self._waits: Position | None = None

    def __call__(self, position: Position) -> None:
        """Move the consumer now, or with a later position, if the store would not take it so soon."""
        self._waits = position
        if MACHINE.monotonic_s() - self.written_s >= self._every_s:
            self._write(position)

    def settle(self) -> None:
        """Move the consumer to the last position, at the latest a moment from now."""
        if self._waits is not None:
            MACHINE.sleep(max(0.0, self.written_s + self._every_s - MACHINE.monotonic_s()))
            self._write(self._waits)

    def _write(self, position: Position) -> None:
        write_consumer(self._timeline, self._name, position.next_snapshot)
        self.written_s, self._waits = MACHINE.monotonic_s(), None
