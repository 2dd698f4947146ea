"""The snapshot that a committer builds on, and how old its knowledge of it may be.

Owns: `Base`, `longest_age_ms`. Must not know: how a base is read. Source: architecture §3 (base knowledge has an age), H6.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...core.metadata.manifest import ManifestFile
from ...core.metadata.snapshot import Snapshot
from ..protocol.snapshot_ref import SnapshotRef
from .timeline import ref_of

LONGEST_AGE_MS = 30_000
SHORTEST_AGE_MS = 1_000
"""The time that a commit needs from looking to publishing, so that a table that retains nothing can still be written."""
JUST_READ_MS = 500
"""A snapshot that was seen so lately is not read again to see whether it is still the one of its id."""
RETENTION_SHARE = 10


def longest_age_ms(time_retained_ms: int) -> float:
    """How old a writer's knowledge may be when it publishes: 30 s, or a tenth of a shorter retention.

    >>> longest_age_ms(3_600_000), longest_age_ms(60_000), longest_age_ms(1)
    (30000, 6000.0, 1000)
    """
    return max(SHORTEST_AGE_MS, min(LONGEST_AGE_MS, time_retained_ms / RETENTION_SHARE))


@dataclass(frozen=True)
class Base:
    """The snapshot that the next one is built on.

    Attributes:
        manifests: the base list's, then the delta list's.
        schema_id: the newest schema at the time of looking.
        seen_ms: monotonic clock when it was known to be the latest, in milliseconds.
        unread: the manifests were not read yet: a commit that rides with another does not need them.
        unhinted: the oldest id of the history, where EARLIEST is missing: the next commit writes it before it publishes (H25).
    """

    snapshot: Snapshot | None
    manifests: tuple[ManifestFile, ...]
    schema_id: int
    seen_ms: float
    unhinted: int | None = None
    unread: bool = False

    @property
    def ref(self) -> SnapshotRef | None:
        return ref_of(self.snapshot)

    @property
    def id(self) -> int:
        return self.snapshot.id if self.snapshot is not None else 0

    @property
    def next_row_id(self) -> int:
        return (self.snapshot.next_row_id if self.snapshot is not None else None) or 0

    def is_fresh(self, now_ms: float, time_retained_ms: int) -> bool:
        return now_ms - self.seen_ms <= longest_age_ms(time_retained_ms)
