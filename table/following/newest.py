"""The newest snapshot, as a reader that asks again and again looks for it.

Owns: `Newest`. Must not know: what is read. Source: format/snapshot §1; H7, H21.
Invariants: while nothing comes, one request tells so: the next id is free. Now and then the snapshot itself is read again, which
shows that the history went back or the table was dropped, and the hint LATEST, which tells of snapshots beyond a gap. Whatever
is not as it was is looked at in full. That nothing came for long is, too, as a hint may be missing.
"""

from __future__ import annotations

from ...backends.requests.deadline import timed
from ...coordinator.history.timeline import Timeline, ref_of
from ...coordinator.surroundings import MACHINE
from ...core.metadata.snapshot import Snapshot

STANDS = 64
"""It is asked whether the snapshot still stands at the first glance, and after so many more that showed nothing."""
HINTED = 128
"""After so many, what LATEST says."""
GLANCES = 640
"""After so many, the next look is in full. A listing costs more, the more snapshots are kept."""
STALE_S = 30.0
"""After a longer pause than this, the next id may have come and expired meanwhile, so that it is free again."""


class Newest:
    def __init__(self, timeline: Timeline, snapshot: Snapshot | None = None) -> None:
        self._timeline = timeline
        self._glances = 0  # a look sets it to 1, as it has just been asked
        self._asked_s = MACHINE.monotonic_s()
        self.snapshot = snapshot

    @timed("a look for new snapshots", lambda self: self._timeline.store)
    def glance(self) -> Snapshot | None:
        """The newest snapshot now, if the history only grows. Errors as for `look`."""
        held = self.snapshot
        if held is None:
            return self.look()
        if self._glances >= GLANCES:
            return self.look(beyond=1)
        if self._timeline.find(held.id + 1) is not None:
            return self.look()
        before_s, self._asked_s = self._asked_s, MACHINE.monotonic_s()
        is_last = self._is_last(held, self._asked_s - before_s >= STALE_S)
        self._glances += 1
        return held if is_last else self.look()

    def _is_last(self, held: Snapshot, stale: bool) -> bool:
        if (stale or self._glances % STANDS == 0) and ref_of(self._timeline.find(held.id)) != ref_of(held):
            return False
        hinted = stale or self._glances % HINTED == HINTED - 1
        return not hinted or (self._timeline.hint("LATEST") or 0) <= held.id

    @timed("a look for new snapshots", lambda self: self._timeline.store)
    def look(self, beyond: int = 2) -> Snapshot | None:
        """The newest snapshot now. `beyond` and errors as for `Timeline.look`."""
        self._glances, self._asked_s = 1, MACHINE.monotonic_s()
        self.snapshot = self._timeline.latest(self.snapshot, beyond=beyond)
        return self.snapshot
