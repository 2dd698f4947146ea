"""What can happen during a commit, in the past tense.

Owns: the frozen event values and their JSON form (the journal's lines). Must not know: who did it, clocks, stores.
Invariant: the events of one commit, in order, determine its state: nothing else is ever fed to the machine.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeAlias, get_args


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A snapshot by name *and* identity: ids are reusable names, identities are not (H6, H18)."""

    id: int
    identity: str


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """Somebody asked for a commit.

    Attributes:
        user, identifier: the identity; identifier None = not asked to be exactly once.
        kind: APPEND, OVERWRITE, COMPACT.
        has_data: small data files travel with the commit and are uploaded beside the metadata.
    """

    user: str
    identifier: int | None
    kind: str
    has_data: bool


@dataclass(frozen=True, slots=True)
class LatestResolved:
    """The snapshot to build on is known.

    Attributes:
        base: None where the table has no snapshot.
        snapshot_uuid: drawn for this attempt's snapshot.
        inspected_through: the identity was looked for in every snapshot up to this id (0 = none).
        last_identifier: the largest identifier of this user that the table remembers.
        replay_of: the snapshot that this very identity made earlier.
    """

    base: SnapshotRef | None
    snapshot_uuid: str
    inspected_through: int
    last_identifier: int | None = None
    replay_of: SnapshotRef | None = None


@dataclass(frozen=True, slots=True)
class ResolveFailed:
    """The latest snapshot cannot be read; `code` names the error to raise."""

    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ChangesCollected:
    """Entries are settled for this base: how many files are added and deleted."""

    added: int
    deleted: int


@dataclass(frozen=True, slots=True)
class ConflictFound:
    """A named check found that another commit changed what this one had read."""

    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class ManifestsCompacted:
    """Older manifests were merged, or not: `mode` is none, minor, full or reused; `written` names new manifests."""

    mode: str
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DataUploaded:
    """The data files that travelled with the commit are durable."""

    count: int


@dataclass(frozen=True, slots=True)
class BaseListWritten:
    """The base list is durable.

    Attributes:
        beside: other files of this commit that the snapshot references and that were written with it.
    """

    name: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaListWritten:
    """The delta list, the manifests that it names, and a new index manifest where there is one, are durable."""

    name: str
    manifests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UploadFailed:
    """Something that the snapshot would reference could not be made durable."""

    what: str
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotPrepared:
    """The snapshot of this attempt is built; from here on it is these bytes, whoever sends them (H9).

    With the events before it, this is all that another process needs to finish the commit.

    Attributes:
        snapshot, base: what it is, and what it stands on.
        text: the snapshot file.
        names: metadata files of this commit that it references; None in a journal of a version that did not record them.
    """

    snapshot: SnapshotRef
    base: SnapshotRef | None
    text: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Somebody else finishes this commit: from here on its writer makes no further attempt."""


@dataclass(frozen=True, slots=True)
class JournalUnsure:
    """It is not known whether the journal holds the last event, or who else acts on what it holds."""

    reason: str


@dataclass(frozen=True, slots=True)
class CommitResolved:
    """How a commit ended, found out after its writer had died or given up. No event of the machine: what it says is final.

    Attributes:
        snapshot: where it landed, None where it did not.
        code, reason: of a commit that did not land: the error's class, and why.
    """

    snapshot: SnapshotRef | None
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BaseAged:
    """The base was known for too long to publish on it, and when it was looked for it was not there any more (H6)."""


@dataclass(frozen=True, slots=True)
class SnapshotPublished:
    """The store says that it created the snapshot file."""


@dataclass(frozen=True, slots=True)
class PublishRefused:
    """The store says that the name exists; it may be our own earlier send (H3).

    Attributes:
        earlier_send: one was neither taken nor refused, and may land yet (H9).
    """

    earlier_send: bool = False


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """No answer that proves anything (H2)."""

    reason: str


@dataclass(frozen=True, slots=True)
class FoundOurs:
    """Read back: the name holds our bytes."""


@dataclass(frozen=True, slots=True)
class FoundAnother:
    """Read back: the name holds somebody else's snapshot."""

    winner: SnapshotRef
    user: str


@dataclass(frozen=True, slots=True)
class FoundNothing:
    """Read back: the name is free. The send may still land (H9)."""


@dataclass(frozen=True, slots=True)
class ReadBackFailed:
    reason: str


@dataclass(frozen=True, slots=True)
class LineageVerified:
    """The base is still there with the identity that was read, or was expired in order."""


@dataclass(frozen=True, slots=True)
class LineageBroken:
    """Our snapshot stands on a freed name: it is no part of the history (H6).

    `code` names the error class; "table-not-found": it landed on another table, and was taken away again (H21).
    `table_gone`: there is no table at all where it landed.
    """

    reason: str
    code: str = "fenced"
    table_gone: bool = False


@dataclass(frozen=True, slots=True)
class LineageUnread:
    reason: str


@dataclass(frozen=True, slots=True)
class HintWritten:
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class HintSkipped:
    reason: str


@dataclass(frozen=True, slots=True)
class RetryGranted:
    """The retry policy allows another attempt after this wait."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class BudgetSpent:
    reason: str


Event: TypeAlias = (
    CommitRequested
    | LatestResolved
    | ResolveFailed
    | ChangesCollected
    | ConflictFound
    | ManifestsCompacted
    | DataUploaded
    | BaseListWritten
    | DeltaListWritten
    | UploadFailed
    | SnapshotPrepared
    | TakenOver
    | JournalUnsure
    | CommitResolved
    | BaseAged
    | SnapshotPublished
    | PublishRefused
    | AnswerLost
    | FoundOurs
    | FoundAnother
    | FoundNothing
    | ReadBackFailed
    | LineageVerified
    | LineageBroken
    | LineageUnread
    | HintWritten
    | HintSkipped
    | RetryGranted
    | BudgetSpent
)

EVENT_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


def event_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object.

    >>> event_json(HintWritten(3))
    {'event': 'HintWritten', 'snapshot_id': 3}
    """
    return {"event": type(event).__name__, **asdict(event)}


def event_from_json(raw: dict[str, Any]) -> Event:
    """The event that `event_json` wrote; unknown keys (a journal's time, say) are ignored.

    >>> event_from_json({"event": "FoundAnother", "winner": {"id": 1, "identity": "u"}, "user": "me", "at_ms": 5}).winner
    SnapshotRef(id=1, identity='u')
    """
    kind = EVENT_TYPES[raw["event"]]
    values: dict[str, Any] = {}
    for field in fields(kind):
        if field.name not in raw and field.default is not MISSING:
            continue
        value = raw.get(field.name)
        if isinstance(value, dict):
            value = SnapshotRef(**value)
        elif isinstance(value, list):
            value = tuple(value)
        values[field.name] = value
    return kind(**values)  # type: ignore[no-any-return]
