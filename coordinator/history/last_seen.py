"""What a reader saw last, so that its next look at the table takes one round trip less, or three.

Owns: `LastSeen`. Must not know: what is read. Invariant: every look asks the store which snapshot is the newest. What was seen
before only decides what is requested beside that question, so that it may be outdated, or false.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import LakelatchError
from ...core.metadata.snapshot import Snapshot
from .timeline import Timeline


@dataclass(slots=True)
class LastSeen:
    """The snapshot that the last look found, or that the hint named when the table was opened. Threads may share it.

    Attributes:
        snapshot: None if nothing is known.
        lasts: whether the snapshot was still the newest when it was last looked for, so that its lists are worth requesting
            before that is known again.
    """

    snapshot: Snapshot | None = None
    lasts: bool = True

    @classmethod
    def hinted(cls, timeline: Timeline) -> LastSeen:
        """Follow the hint LATEST, in two requests that may fail. A local table has no use for it."""
        if timeline.is_near:
            return cls()
        try:
            number = timeline.hint("LATEST")
            return cls(timeline.find(number) if number else None)
        except LakelatchError:
            return cls()

    def look(self, timeline: Timeline) -> tuple[Timeline, Snapshot | None]:
        """The newest snapshot, and a timeline that may already hold its lists.

        Raises:
            TableCorrupt: as `Timeline.look`.
        """
        seen = None if timeline.is_near else self.snapshot
        if seen is None:
            found = timeline.latest()
        elif self.lasts:
            found, lists = timeline.both(lambda: timeline.latest(seen, beyond=0), lambda: timeline.lists_of(seen))
            timeline = timeline.holding(lists)
        else:
            found = timeline.latest(seen, beyond=0)
        self.snapshot, self.lasts = found, found == seen
        return timeline, found
