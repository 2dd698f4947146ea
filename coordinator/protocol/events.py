"""What can happen during a commit, as values in the past tense.

Owns: the frozen event values and their JSON form (the journal's lines). Must not know: where events come from, clocks, stores.
Invariant: the events of one commit, in order, determine its state; the machine has no other input.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, TypeAlias, get_args

from .snapshot_ref import SnapshotRef


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """A caller requested a commit.

    Attributes:
        user, identifier: the identity; identifier None = exactly-once was not requested.
        kind: APPEND, OVERWRITE, COMPACT.
        has_data: small data files travel with the commit and are uploaded beside the metadata.
        rides: after a lost race it may ride with another commit, and it may carry others.
        in_order: its identifier must be above all that its user has committed, or be the last of them.
    """

    user: str
    identifier: int | None
    kind: str
    has_data: bool
    rides: bool = False
    in_order: bool = False


@dataclass(frozen=True, slots=True)
class LatestResolved:
    """The snapshot to build on is known.

    Attributes:
        base: that snapshot; None where the table has none.
        snapshot_uuid: the new uuid of this attempt's snapshot.
        inspected_through: every snapshot up to this id was searched for the identity (0 = none).
        last_identifier: the largest identifier of this user that the table remembers.
        replay_of: the snapshot that the same identity made earlier.
        doubt: why the same identity may have landed earlier although nobody remembers it; empty where it has not.
        aboard: the snapshot that carries this commit, which rides in it.
        closed: both snapshots that could carry it are published without it, so that its intent holds no more.
        crowded: others commit too, so that it is worth asking them to carry this commit.
    """

    base: SnapshotRef | None
    snapshot_uuid: str
    inspected_through: int
    last_identifier: int | None = None
    replay_of: SnapshotRef | None = None
    aboard: SnapshotRef | None = None
    closed: bool = False
    crowded: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class IntentPrepared:
    """The commit is about to ask others to carry it; from here on it counts as registered.

    Attributes:
        base: the snapshot that the intent is registered on. The two that follow may carry it.
        name: the intent's file.
        manifests: the names of the manifests of this commit that it names.
        text: its content. With the journal's events, this is all that another process needs to look for it.
    """

    base: SnapshotRef
    name: str
    manifests: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class IntentRegistered:
    """Others may know the intent by now. `reason`: why the store does not say that it is kept; empty if it does."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class IntentRefused:
    """The store refused the intent, so nobody knows of it."""

    reason: str


@dataclass(frozen=True, slots=True)
class RidersChosen:
    """The intents of others were looked at.

    Attributes:
        rank: how many others may lead before this commit, by the order that all of them see.
        riders: the ids of the commits that it carries if it leads now.
    """

    rank: int
    riders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NobodyCame:
    """The next snapshot is not there yet."""


@dataclass(frozen=True, slots=True)
class SnapshotSeen:
    """While the commit waited, another one was published. It may carry this one."""

    winner: SnapshotRef


@dataclass(frozen=True, slots=True)
class RiderTakenOver:
    """This process finishes another's commit: its writer is gone, every snapshot that it sent has lost, and its intent is open.

    Attributes:
        user, identifier, kind: as in `CommitRequested`.
        base: the snapshot that the intent is registered on.
        files: the intents that nobody needs once the commit has ended.
    """

    user: str
    identifier: int | None
    kind: str
    base: SnapshotRef
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Resumed:
    """The outcome was unknown. By now every snapshot that was sent is known to have lost, and the intent is still open."""


@dataclass(frozen=True, slots=True)
class ResolveFailed:
    """The latest snapshot cannot be read; `code` names the error to raise, `next_step` is what its reason asks for."""

    code: str
    reason: str
    next_step: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ChangesCollected:
    """The entries are settled for this base; counts the files added and deleted."""

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
        beside: other files of this commit that the snapshot references, and that were written together with the list.
    """

    name: str
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaListWritten:
    """The delta list, its manifests and the new index manifest, if there is one, are durable."""

    name: str
    manifests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ManifestsWritten:
    """The delta manifests are durable, and no list names them yet."""

    manifests: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UploadFailed:
    """A file that the snapshot would reference could not be made durable. `next_step` is what the reason asks for."""

    what: str
    reason: str
    next_step: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class SnapshotPrepared:
    """The snapshot of this attempt is built; its bytes never change from here on, whichever process sends them (H9).

    With the events before it, this is all that another process needs to finish the commit.

    Attributes:
        snapshot, base: the snapshot, and the one that it is built on.
        text: the snapshot file.
        names: metadata files of this commit that it references; None in a journal of a version that did not record them.
    """

    snapshot: SnapshotRef
    base: SnapshotRef | None
    text: str
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ClosingPrepared:
    """A snapshot without rows is built, which is to take the next id away from whoever could carry this commit.

    It is not the commit's own: nobody has to send it again, and it may stand whatever becomes of the commit.
    """

    snapshot: SnapshotRef
    base: SnapshotRef | None
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Another process finishes this commit: its writer makes no further attempt."""


@dataclass(frozen=True, slots=True)
class JournalUnsure:
    """It is not known whether the journal holds the last event, or whether another process acts on it."""

    reason: str


@dataclass(frozen=True, slots=True)
class CommitResolved:
    """How a commit ended, found out after its writer died or gave up. Not an event of the machine: it is final.

    Attributes:
        snapshot: the snapshot that landed, None where none did.
        code, reason: for a commit that did not land, the error's class and the reason.
    """

    snapshot: SnapshotRef | None
    code: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BaseAged:
    """The base was known for too long to publish on it, and was gone when it was looked up again (H6)."""


@dataclass(frozen=True, slots=True)
class SnapshotPublished:
    """The store reports that it created the snapshot file."""


@dataclass(frozen=True, slots=True)
class PublishRefused:
    """The store reports that the name exists, perhaps because of this commit's own earlier send (H3).

    Attributes:
        earlier_send: an earlier send was neither accepted nor refused, and may still land (H9).
    """

    earlier_send: bool = False


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The answer of the store, if there was one, proves nothing (H2)."""

    reason: str


@dataclass(frozen=True, slots=True)
class FoundOurs:
    """Read back: the name holds this commit's bytes."""


@dataclass(frozen=True, slots=True)
class FoundAnother:
    """Read back: the name holds another writer's snapshot."""

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
    """The base still exists with the identity that was read, or it expired in order."""


@dataclass(frozen=True, slots=True)
class LineageBroken:
    """This commit's snapshot stands on a freed name, so it is not part of the history (H6).

    `code` names the error class; "table-not-found" means that it landed on another table, and was deleted again (H21).
    `table_gone`: no table exists any more where it landed.
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
    | IntentPrepared
    | IntentRegistered
    | IntentRefused
    | RidersChosen
    | NobodyCame
    | SnapshotSeen
    | RiderTakenOver
    | Resumed
    | ResolveFailed
    | ChangesCollected
    | ConflictFound
    | ManifestsCompacted
    | DataUploaded
    | BaseListWritten
    | DeltaListWritten
    | ManifestsWritten
    | UploadFailed
    | SnapshotPrepared
    | ClosingPrepared
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

    Raises:
        KeyError, TypeError: it did not write this.

    >>> event_from_json({"event": "FoundAnother", "winner": {"id": 1, "identity": "u"}, "user": "me", "at_ms": 5}).winner
    SnapshotRef(id=1, identity='u')
    """
    kind = EVENT_TYPES[raw["event"]]
    values: dict[str, Any] = {}
    for one in fields(kind):
        if one.name not in raw and one.default is not MISSING:
            continue
        value = raw.get(one.name)
        if isinstance(value, dict):
            value = SnapshotRef(**value)
        elif isinstance(value, list):
            value = tuple(value)
        if one.name in raw and not _is_of(value, str(one.type)):
            raise TypeError(f"field '{one.name}' of {kind.__name__} is {raw[one.name]!r}, not {one.type}")
        values[one.name] = value
    return kind(**values)  # type: ignore[no-any-return]


def _is_of(value: Any, declared: str) -> bool:
    """Whether a value from JSON has the declared type of an event's field, such as `SnapshotRef | None`."""
    if isinstance(value, tuple):
        return "tuple" in declared and all(isinstance(one, str) for one in value)
    if isinstance(value, SnapshotRef) and (type(value.id), type(value.identity)) != (int, str):
        return False
    return any(type(value) in _OF_JSON[kind] for kind in declared.split(" | ") if kind in _OF_JSON)


_OF_JSON: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bool": (bool,),
    "int": (int, float),  # milliseconds may have a fraction
    "None": (type(None),),
    "SnapshotRef": (SnapshotRef,),
}
