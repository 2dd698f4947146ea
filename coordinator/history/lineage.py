"""Did a snapshot that was sent land, and is it a part of the table's history?

Owns: the one classifier: reading a name back, the lineage check, and both together for whoever asks later; taking a snapshot
away again that landed on another table. Must not know: commits, who asks, the order of steps (the machine).
Source: architecture §3 (VERIFY), decisions 1, 3, 16 and 17; H2, H3, H6, H9, H21.
Invariants: what cannot be read, or not be told, is `Untold`, never a loss and never a fork; a base below EARLIEST proves
nothing; after an unanswered send, another's snapshot under the name proves a loss only where the history reaches it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from ...backends.store import ObjectNotFound
from ...core.errors import LakelatchError, StoreUnavailable, TableNotFound
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.typed import assert_never
from ..protocol import events as ev
from ..protocol.events import SnapshotRef
from .rule import Gap
from .timeline import Timeline, base_of, ref_of

FENCED = "fenced"
ANOTHER_TABLE = TableNotFound.code


@dataclass(frozen=True, slots=True)
class Ours:
    """The name holds our snapshot; whether it is a part of the history is another question."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The name is free: the send may still land (H9)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """It is ours, and a part of the history."""


@dataclass(frozen=True, slots=True)
class Fork:
    """It is ours, and no part of the history. `code` names the error class: it was fenced, or landed on another table."""

    reason: str
    code: str = FENCED


@dataclass(frozen=True, slots=True)
class Lost:
    """The name is another's in the history, proven: nothing of ours can land there. `winner` where it is still there."""

    reason: str
    winner: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Free:
    """The name is free, and the base stands: the same bytes can be sent again."""


@dataclass(frozen=True, slots=True)
class Untold:
    """Nothing is proven: something could not be read, or what is there shows neither one nor the other."""

    reason: str


Held: TypeAlias = Ours | Lost | Nothing | Untold
Lineage: TypeAlias = Standing | Fork | Untold
Landing: TypeAlias = Standing | Fork | Lost | Free | Untold


class BaseIs(Enum):
    """What became of the snapshot that another was built on."""

    THERE = "there"
    REPLACED = "replaced"
    BELOW_EARLIEST = "below EARLIEST"  # about to be expired, or created again on a name that expiry had freed
    GONE = "gone"


# ------------------------------------------------------------------------------------------------------- one question


def did_it_land(timeline: Timeline, tried: ev.SnapshotPrepared) -> Landing:
    """What became of a snapshot that was sent, perhaps long ago, and perhaps without an answer."""
    try:
        held = read_name(timeline, tried, doubtful=True)
        if isinstance(held, Nothing):
            seen = _at_free_name(timeline, tried)
            if not isinstance(seen, Untold) or timeline.find(tried.snapshot.id) is None:
                return seen
            held = read_name(timeline, tried, doubtful=True)  # taken while the history was looked at
        match held:
            case Ours():
                return check_lineage(timeline, tried)
            case Nothing():
                return Untold(f"snapshot {tried.snapshot.id} came and went while the history was looked at")
            case Lost() | Untold():
                return held
            case _:
                assert_never(held)
    except LakelatchError as error:
        return Untold(error.message)


def read_name(timeline: Timeline, tried: ev.SnapshotPrepared, *, doubtful: bool) -> Held:
    """What the name of a snapshot holds: ours, another's, nothing? (H2, H3)

    Args:
        doubtful: some send got no answer: it may have landed, and been expired since, before another took the name.
    """
    ours = tried.snapshot
    key = timeline.paths.snapshot(ours.id)
    try:
        held = timeline.store.get(key)
        if held == tried.text.encode():
            return Ours()
        found = parse_snapshot(held, key)
        if found.identity == ours.identity:
            return Ours()
        unproven = _out_of_reach(timeline, found) if doubtful else None
    except ObjectNotFound:
        return Nothing()
    except LakelatchError as error:
        return Untold(error.message)
    lost = f"snapshot {ours.id} is another's (by '{found.commit_user}')"
    return Lost(lost, found) if unproven is None else Untold(f"{lost}, and {unproven}")


def _out_of_reach(timeline: Timeline, found: Snapshot) -> str | None:
    """Why the history does not show that it goes through this very snapshot; None where it does."""
    ids = timeline.snapshot_ids()
    if found.id not in ids:
        return "the listing does not show it"
    history = timeline.history(ids)
    if isinstance(history, Gap):
        return history.reason
    if found.id not in history or found.id < _begin(timeline, history):
        return (
            "the history does not reach down to it any more: it may have been created on a name that expiry had freed"
        )
    following = timeline.find(found.id + 1)
    named = base_of(following) if following is not None else None
    return None if named in (None, ref_of(found)) else f"snapshot {found.id + 1} stands on another snapshot {found.id}"


def _begin(timeline: Timeline, history: range) -> int:
    """Where the history begins: at EARLIEST, where that is among its ids."""
    earliest = timeline.hint("EARLIEST")
    return earliest if earliest is not None and earliest in history else history.start


# ------------------------------------------------------------------------------------------------------------ lineage


def look_at_base(timeline: Timeline, base: SnapshotRef, *, earliest: bool) -> BaseIs:
    """What became of a base?

    Args:
        earliest: look at EARLIEST too, in parallel: an expiry raises it before it deletes anything. It counts only where
            the snapshot that it names is there.
    """

    def hinted() -> int | None:
        return timeline.hint("EARLIEST") if earliest else None

    found, begin = timeline.both(lambda: timeline.find(base.id), hinted)
    if found is None:
        return BaseIs.GONE
    replaced = found.identity != base.identity
    if replaced and not earliest:
        begin = timeline.hint("EARLIEST")
    if begin is not None and begin > base.id and timeline.find(begin) is not None:
        return BaseIs.BELOW_EARLIEST
    return BaseIs.REPLACED if replaced else BaseIs.THERE


def base_stands(timeline: Timeline, base: SnapshotRef | None) -> bool:
    """Is the base still there, so that the name above it cannot be one that expiry freed? (H6)"""
    if base is None:
        return timeline.latest() is None
    return look_at_base(timeline, base, earliest=True) is BaseIs.THERE


def check_lineage(timeline: Timeline, tried: ev.SnapshotPrepared, *, aged: bool = True) -> Lineage:
    """Does a snapshot that holds its name stand on the base that was read? (H6)

    Args:
        aged: the base was not seen just now, so that an expiry may have taken it, and somebody created it again.
    """
    ours, base = tried.snapshot, tried.base
    try:
        state = look_at_base(timeline, base, earliest=aged) if base is not None else BaseIs.GONE
        if state is BaseIs.THERE:
            return Standing()
        ids, other_table = timeline.both(timeline.snapshot_ids, lambda: _another_table(timeline))
        if other_table is not None:
            return Fork(other_table, ANOTHER_TABLE)
        if state is BaseIs.REPLACED and base is not None:
            return Fork(f"snapshot {base.id}, on which snapshot {ours.id} was built, was replaced by another")
        if ours.id not in ids:
            return Untold(f"the listing does not show snapshot {ours.id} yet, though it landed")
        history = timeline.history(ids)
        if isinstance(history, Gap):
            return Untold(history.reason)
        if ours.id not in history and ref_of(timeline.find(ours.id)) != ours:
            return Untold(
                f"the name of snapshot {ours.id} is another's by now, below the history: it was ours, or is freed"
            )
        if ours.id not in history:
            return Fork(f"snapshot {ours.id} was created on a name that expiry or a rollback had freed")
        if ours.id > history.start and state is BaseIs.GONE:
            return Untold(f"snapshot {ours.id - 1}, on which it was built, was gone and is listed again")
        return _continued(timeline, tried, ours.id == history[-1])
    except LakelatchError as error:
        return Untold(error.message)


def stands(timeline: Timeline, snapshot: Snapshot) -> bool:
    """Is a snapshot that was found under its name proven to be a part of the history?"""
    return isinstance(check_lineage(timeline, _as_prepared(snapshot)), Standing)


def refuse_fork(timeline: Timeline, snapshot: Snapshot | None) -> None:
    """What a snapshot says of identities counts only where it is no fork: its name may have been freed since it was listed.

    Raises:
        StoreUnavailable: it is a fork; the next look finds the history.
    """
    found = check_lineage(timeline, _as_prepared(snapshot)) if snapshot is not None else None
    if isinstance(found, Fork):
        raise StoreUnavailable(f"the snapshot that was just read is no part of the history: {found.reason}")


def _as_prepared(snapshot: Snapshot) -> ev.SnapshotPrepared:
    ours = SnapshotRef(snapshot.id, snapshot.identity)
    return ev.SnapshotPrepared(ours, base_of(snapshot), snapshot.to_json().decode())


def _another_table(timeline: Timeline) -> str | None:
    try:
        timeline.check_table()
    except TableNotFound as error:
        return error.message
    return None


def _continued(timeline: Timeline, tried: ev.SnapshotPrepared, alone: bool) -> Lineage:
    """Ours is the oldest of the history: was its base expired in order, or did expiry end exactly below our name?

    The next snapshot tells: it was built on ours, or on the one that had our name before (decision 1).

    Args:
        alone: ours is the newest, too.
    """
    ours = tried.snapshot
    following = timeline.find(ours.id + 1)
    if following is not None:
        return _built_on(timeline, following, tried)
    if not alone:
        return Untold(f"snapshot {ours.id + 1} was listed, and is gone: an expiry is under way")
    hints = timeline.parallel(timeline.hint, ("LATEST",) if tried.base is None else ("LATEST", "EARLIEST"))
    if (latest := hints[0] or 0) > ours.id:
        # A hint proves nothing, but it is reason enough to doubt a listing that shows ours alone (H7, decision 3).
        return Untold(f"LATEST says {latest}, and the listing shows snapshot {ours.id} alone")
    if tried.base is not None and hints[1] != ours.id:
        return Untold(f"snapshot {tried.base.id} is gone, and EARLIEST does not say that it was expired")
    return Standing()


def _built_on(timeline: Timeline, following: Snapshot, tried: ev.SnapshotPrepared) -> Lineage:
    """Was the next snapshot built on ours? One of another engine names no base: it inherits our manifests, or does not."""
    ours, named = tried.snapshot, base_of(following)
    if named is not None:
        if named == ours:
            return Standing()
        other = f"snapshot {following.id} stands on another snapshot {ours.id}"
        if tried.base is None and (timeline.hint("EARLIEST") or 0) <= ours.id:
            # Ours is the first of its table: what follows may be left of a table that was dropped here (H21).
            return Untold(f"{other}, and EARLIEST does not say that it was expired")
        return Fork(f"{other}, since expired")
    inherited = {line.file_name for line in timeline.manifest_list(following.base_manifest_list)}
    if inherited & _delta(timeline, tried):
        return Standing()
    return Untold(f"snapshot {following.id}, of another writer, does not say what it stands on")


def _at_free_name(timeline: Timeline, tried: ev.SnapshotPrepared) -> Landing:
    """It never landed, or was expired since, or rolled back: the base, and then the history above, tell which."""
    ours, base = tried.snapshot, tried.base
    state = look_at_base(timeline, base, earliest=True) if base is not None else BaseIs.GONE
    if state is BaseIs.THERE:
        return Free()
    if base is not None and state is BaseIs.REPLACED:
        return Untold(f"snapshot {base.id}, on which it was built, was replaced by another")
    latest = timeline.latest()
    if latest is None and base is None:
        return Free()
    following = timeline.find(ours.id + 1)
    named = base_of(following) if following is not None else None
    if named is not None:
        lost = f"snapshot {ours.id + 1} was built on another snapshot {ours.id}, since expired"
        return Standing() if named == ours else Lost(lost)
    inherited = {m.file_name for m in timeline.manifests(latest)} if latest is not None else set()
    if inherited & _delta(timeline, tried):
        return Standing()
    return Untold(f"snapshot {ours.id} is not there, and neither is the one that it was built on")


def _delta(timeline: Timeline, tried: ev.SnapshotPrepared) -> set[str]:
    """The names of a snapshot's own manifests; none where its list is gone."""
    made = parse_snapshot(tried.text.encode(), timeline.paths.snapshot(tried.snapshot.id))
    try:
        return {line.file_name for line in timeline.delta_manifests(made)}
    except LakelatchError:
        return set()


# ------------------------------------------------------------------------------------------------------ another table


def take_away(timeline: Timeline, tried: ev.SnapshotPrepared) -> str | None:
    """Delete a snapshot of ours that landed on another table, so that this one stays readable (H21, decision 17).

    Only its own writer may do that: nobody else deletes it, so that the name cannot have become another's in between.

    Returns:
        None where it was there, and nothing of it is left; otherwise why it cannot be said that its rows are nowhere.
    """
    ours = tried.snapshot
    key = timeline.paths.snapshot(ours.id)
    try:
        if built := _somebody_built_on(timeline, tried):
            return built
        if not isinstance(read_name(timeline, tried, doubtful=False), Ours):
            return f"snapshot {ours.id} was there, and is gone: it may have moved with the table"
        if _moving(timeline, key):
            return (
                "other files of the table are still there: it may be on its way to another location, with the snapshot"
            )
        timeline.store.delete_many([key])
        return _somebody_built_on(timeline, tried)
    except LakelatchError as error:
        return error.message


def _moving(timeline: Timeline, key: str) -> bool:
    """Is there no table any more, and more than our snapshot all the same? Then somebody is just deleting it, or moving it."""
    if timeline.schema_ids():
        return False
    late = timeline.paths.hint("LATEST")  # a writer of the old table may just have written it
    return any(info.key not in (key, late) for info in timeline.store.list(timeline.paths.snapshot_dir))


def _somebody_built_on(timeline: Timeline, tried: ev.SnapshotPrepared) -> str | None:
    following = timeline.find(tried.snapshot.id + 1)
    if following is None or base_of(following) not in (None, tried.snapshot):
        return None
    return f"snapshot {following.id} may have been built on it already"
