"""What a reader saw last, so that its next look at the table takes one round trip less, or three, and few requests.

Owns: `LastSeen`. Must not know: what is read. Invariant: every look asks the store which snapshot is the newest. What was seen
before only decides what is requested beside that question, and what need not be read again because it cannot have changed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from ...backends.store import ObjectNotFound
from ...core.errors import LakelatchError
from ...core.metadata.snapshot import Snapshot
from ..protocol.snapshot_ref import SnapshotRef
from .kept_files import KeptFiles
from .timeline import Timeline, ref_of

KEPT_BYTES = 32 << 20
"""How much of a table's metadata stays in memory: the manifests of some 200 000 files."""


@dataclass(slots=True)
class LastSeen:
    """The snapshot that the last look found, or that the hint named when the table was opened. Threads may share it.

    Attributes:
        lasts: it was still the newest when last looked for: its lists are worth requesting before that is known again.
        listed: the tag that the snapshot's file had in a listing, and the snapshot, if it was read after that listing.
        unread: the same, if it was read beside that listing, so that another may have taken its place in between.
    """

    snapshot: Snapshot | None = None
    lasts: bool = True
    files: KeptFiles = field(default_factory=lambda: KeptFiles(KEPT_BYTES))
    listed: tuple[str, SnapshotRef] | None = None
    unread: tuple[str, SnapshotRef] | None = None

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
        """The newest snapshot, and a timeline that holds what was read before. Raises TableCorrupt as `Timeline.look`."""
        seen, listed = self.snapshot, self.listed
        tag = listed[0] if listed is not None and listed[1] == ref_of(seen) else ""
        if seen is None or (timeline.is_near and not tag):
            found = timeline.look()
        elif self.lasts and not timeline.is_near:
            found, _ = timeline.both(
                lambda: timeline.look(seen, beyond=0, listed=tag), lambda: timeline.read_ahead(seen, self.files)
            )
        else:
            found = timeline.look(seen, beyond=0, listed=tag)
        self.snapshot, self.lasts = found.snapshot, found.snapshot == seen
        ref = ref_of(found.snapshot)
        shown = (found.listed, ref) if found.listed and ref is not None else None
        self.listed, self.unread = (shown, None) if found.read_later else (None, shown)
        return timeline.holding(self.files), found.snapshot

    def confirm(self, timeline: Timeline) -> None:
        """Read the snapshot once more, if it was read beside its listing: then the next look need not read it."""
        shown = self.unread
        if shown is not None:
            with suppress(ObjectNotFound, LakelatchError):
                self.listed = shown if ref_of(timeline.find(shown[1].id)) == shown[1] else None
