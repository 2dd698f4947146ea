"""What is to be done next, as frozen imperative values; the driver does it and answers with an event.

Owns: the effect values and the outcomes of a commit. Must not know: how anything is done.
Invariant: an effect names everything that it depends on, so that the journal and the lab can show it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from .events import SnapshotRef


@dataclass(frozen=True, slots=True)
class ResolveLatest:
    """Find the snapshot to build on; `at_least` is one that is known to exist."""

    attempt: int
    at_least: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class CollectChanges:
    """Settle the entries of this commit on `base`, and check them for conflicts."""

    base: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class CompactManifests:
    """Merge older manifests where it is due; never when contended (H15)."""

    base: SnapshotRef | None
    contended: bool


@dataclass(frozen=True, slots=True)
class UploadData:
    """Make the data files durable that travel with the commit."""


@dataclass(frozen=True, slots=True)
class WriteBaseList:
    base: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class WriteDeltaList:
    """Write delta manifests and their list; what an earlier attempt wrote and still holds is kept."""

    base: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class PrepareSnapshot:
    """Build the snapshot file, once for all sends of this attempt."""

    snapshot: SnapshotRef


@dataclass(frozen=True, slots=True)
class Publish:
    """Create `snapshot-<id>` atomically. Sent again, it is the same bytes to the same name (H9)."""

    snapshot: SnapshotRef
    send: int


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read what the name holds, and compare it with ours.

    Attributes:
        doubtful: an earlier send got no answer. It may have landed and be gone again, so that another's snapshot proves a
            lost race only where the history still reaches that name.
    """

    snapshot: SnapshotRef
    look: int
    doubtful: bool


@dataclass(frozen=True, slots=True)
class VerifyLineage:
    """Is the base still what it was? (H6)"""

    base: SnapshotRef | None
    published: SnapshotRef
    look: int


@dataclass(frozen=True, slots=True)
class AwaitRetry:
    """Ask the policy for another attempt, and wait."""

    attempt: int
    winner: SnapshotRef


@dataclass(frozen=True, slots=True)
class WriteHint:
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete this commit's private metadata that proven losses left behind (H5)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    snapshot: SnapshotRef
    replayed: bool


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """Told only when nothing of it can still land (G2). `code` names the error class."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Undecided:
    """It may have landed, or land later: what to look for is `snapshot`."""

    snapshot: SnapshotRef
    reason: str


Outcome: TypeAlias = Committed | NotCommitted | Undecided


@dataclass(frozen=True, slots=True)
class Conclude:
    """Tell the caller. What follows it in the same list is done off the acknowledged path."""

    outcome: Outcome


Effect: TypeAlias = (
    ResolveLatest
    | CollectChanges
    | CompactManifests
    | UploadData
    | WriteBaseList
    | WriteDeltaList
    | PrepareSnapshot
    | Publish
    | ReadBack
    | VerifyLineage
    | AwaitRetry
    | WriteHint
    | Discard
    | Conclude
)
