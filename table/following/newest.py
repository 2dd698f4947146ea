"""The newest snapshot, as a reader that asks again and again looks for it.

Owns: `Newest`. Must not know: what is read. Source: format/snapshot §1; H7, H21.
Invariants: while nothing comes, one request tells so: the next id is free. That something came, or nothing for long, is looked at
in full, which also sees that the history went back, or that the table was dropped.
"""

from __future__ import annotations

from ...coordinator.history.timeline import Timeline
from ...core.metadata.snapshot import Snapshot

GLANCES = 10
"""After so many glances that showed nothing, the next look is in full."""


class Newest:
    """The newest snapshot of a branch, which is remembered."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._glances = 0
        self.snapshot: Snapshot | None = None

    def glance(self) -> Snapshot | None:
        """The newest snapshot now, if the history only grows. Errors as for `look`."""
        held = self.snapshot
        if held is None or self._glances >= GLANCES or self._timeline.find(held.id + 1) is not None:
            return self.look()
        self._glances += 1
        return held

    def look(self) -> Snapshot | None:
        """The newest snapshot now. Errors as for `Timeline.look`."""
        self._glances = 0
        self.snapshot = self._timeline.latest(self.snapshot)
        return self.snapshot
