"""What to do next, as frozen values in the imperative; the driver carries them out and answers with events.

Owns: the effect values and the outcomes of a commit. Must not know: how anything is carried out.
Invariant: an effect names everything that it depends on, so that the journal and the lab can show it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from .snapshot_ref import SnapshotRef


@dataclass(frozen=True, slots=True)
class ResolveLatest:
    """Find the snapshot to build on; `at_least` is one that is known to exist.

    Attributes:
        registered_on: the base of this commit's intent, which may be aboard of a snapshot by now; None if there is none.
    """

    attempt: int
    at_least: SnapshotRef | None
    registered_on: SnapshotRef | None = None


@dataclass(frozen=True, slots=True)
class PrepareIntent:
    """Build the intent to ride above this base. What it names is durable by now."""

    base: SnapshotRef


@dataclass(frozen=True, slots=True)
class RegisterIntent:
    """Make the intent known to others."""

    base: SnapshotRef


@dataclass(frozen=True, slots=True)
class ChooseRiders:
    """Look at the intents of others, and choose those that this base lets it carry.

    Attributes:
        waits: the commit has an intent itself, and leads only if it is the first of them.
    """

    base: SnapshotRef
    waits: bool


@dataclass(frozen=True, slots=True)
class AwaitCarrier:
    """Give another commit the time to publish above the base, and look whether one has."""

    base: SnapshotRef
    poll: int


@dataclass(frozen=True, slots=True)
class VerifyRide:
    """Check that the snapshot that carries this commit is part of the history (H6)."""

    aboard: SnapshotRef
    look: int


@dataclass(frozen=True, slots=True)
class RemoveIntents:
    """Delete this commit's intents: it has landed, or nobody can carry it any more."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CollectChanges:
    """Settle the entries of this commit on `base`, and check them for conflicts.

    Attributes:
        asks_first: others are to carry them, so the manifests of the base are not needed yet.
        closes: the commit gives up, and its next snapshot is to have no rows.
    """

    base: SnapshotRef | None
    asks_first: bool = False
    closes: bool = False


@dataclass(frozen=True, slots=True)
class CompactManifests:
    """Merge older manifests where it is due; never when contended (H15)."""

    base: SnapshotRef | None
    contended: bool


@dataclass(frozen=True, slots=True)
class UploadData:
    """Make the data files durable that travel with the commit."""


@dataclass(frozen=True, slots=True)
class WriteManifests:
    """Write the delta manifests without a list, for others to carry."""

    base: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class WriteBaseList:
    base: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class WriteDeltaList:
    """Write delta manifests and their list; reuses those of an earlier attempt if they still apply."""

    base: SnapshotRef | None


@dataclass(frozen=True, slots=True)
class PrepareSnapshot:
    """Build the snapshot file, once for all sends of this attempt."""

    snapshot: SnapshotRef


@dataclass(frozen=True, slots=True)
class Publish:
    """Create `snapshot-<id>` atomically. A repeated send uses the same bytes and the same name (H9)."""

    snapshot: SnapshotRef
    send: int


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Read the snapshot name, and compare its content with this commit's bytes.

    Attributes:
        doubtful: an earlier send got no answer. It may have landed and be gone again, so another snapshot proves a lost race
            only where the history still reaches that name.
    """

    snapshot: SnapshotRef
    look: int
    doubtful: bool


@dataclass(frozen=True, slots=True)
class VerifyLineage:
    """Check that the base is unchanged (H6)."""

    base: SnapshotRef | None
    published: SnapshotRef
    look: int


@dataclass(frozen=True, slots=True)
class AwaitRetry:
    """Ask the retry policy for another attempt, and wait."""

    attempt: int
    winner: SnapshotRef


@dataclass(frozen=True, slots=True)
class WriteHint:
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Delete this commit's private metadata that is left of proven losses (H5)."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    snapshot: SnapshotRef
    replayed: bool


@dataclass(frozen=True, slots=True)
class NotCommitted:
    """Reported only when nothing of the commit can still land (G2). `code` names the error class, and `next_step` is what the
    reason asks for, if it is not what this class of errors asks for.
    """

    code: str
    reason: str
    next_step: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Undecided:
    """The commit may have landed, or may land later; `snapshot` is the one to look for."""

    snapshot: SnapshotRef
    reason: str


Outcome: TypeAlias = Committed | NotCommitted | Undecided


@dataclass(frozen=True, slots=True)
class Conclude:
    """Return the outcome to the caller. Effects that follow in the same list run afterwards."""

    outcome: Outcome


Effect: TypeAlias = (
    ResolveLatest
    | PrepareIntent
    | RegisterIntent
    | ChooseRiders
    | AwaitCarrier
    | VerifyRide
    | RemoveIntents
    | CollectChanges
    | CompactManifests
    | UploadData
    | WriteManifests
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
