"""Did a snapshot that was sent land, and is it part of the table's history?

Owns: the classifier that answers both: reading a name back, the lineage check, and both together for later look-ups; also the
removal of a snapshot that landed on another table. Must not know: commits, its callers, the order of steps (the machine).
Source: architecture §3 (VERIFY), decisions 1, 3, 16 and 17; H2, H3, H6, H9, H21.
Invariants: what cannot be read or decided is `Untold`, never a loss and never a fork. A base below EARLIEST proves nothing.
After an unanswered send, another writer's snapshot under the name proves a loss only where the history reaches it.
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
from ..protocol.snapshot_ref import SnapshotRef
from .rule import Gap
from .timeline import Timeline, base_of, ref_of

FENCED = "fenced"
ANOTHER_TABLE = TableNotFound.code


@dataclass(frozen=True, slots=True)
class Ours:
    """The name holds this writer's snapshot; whether that is part of the history is another question."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """The name is free: the send may still land (H9)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """It is this writer's snapshot, and part of the history."""


@dataclass(frozen=True, slots=True)
class Fork:
    """It is this writer's snapshot, but was not built on the history. `code` says whether it is fenced or on another table.
    `survives`: every reader sees it all the same, because another snapshot has taken the place of its base.
    """

    reason: str
    code: str = FENCED
    survives: bool = False


@dataclass(frozen=True, slots=True)
class Lost:
    """The name provably belongs to another snapshot of the history, `winner` (if it still exists): nothing can land there."""

    reason: str
    winner: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Free:
    """The name is free and the base still exists: the same bytes can be sent again."""


@dataclass(frozen=True, slots=True)
class Untold:
    """Nothing is proven: something could not be read, or the files found allow either answer."""

    reason: str


Held: TypeAlias = Ours | Lost | Nothing | Untold
Lineage: TypeAlias = Standing | Fork | Untold
Landing: TypeAlias = Standing | Fork | Lost | Free | Untold


class BaseIs(Enum):
    THERE = "there"
    REPLACED = "replaced"
    BELOW_EARLIEST = "below EARLIEST"  # about to be expired, or created again under a name that expiry had freed
    GONE = "gone"


# ------------------------------------------------------------------------------------------------------- one question


def did_it_land(timeline: Timeline, tried: ev.SnapshotPrepared) -> Landing:
    """Classify a snapshot that was sent, perhaps long ago, and perhaps without an answer."""
    try:
        held = read_name(timeline, tried, doubtful=True)
        if isinstance(held, Nothing):
            seen = _at_free_name(timeline, tried)
            if not isinstance(seen, Untold) or timeline.find(tried.snapshot.id) is None:
                return seen
            held = read_name(timeline, tried, doubtful=True)  # created while the history was read
        match held:
            case Ours():
                return check_lineage(timeline, tried)
            case Nothing():
                return Untold(f"snapshot {tried.snapshot.id} appeared and disappeared while the history was read")
            case Lost() | Untold():
                return held
            case _:
                assert_never(held)
    except LakelatchError as error:
        return Untold(error.message)


def read_name(timeline: Timeline, tried: ev.SnapshotPrepared, *, doubtful: bool) -> Held:
    """What the name of a snapshot holds: this writer's snapshot, another one, or nothing (H2, H3). `doubtful`: a send got no
    answer, so it may have landed and expired before another snapshot took the name.
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
    lost = f"snapshot {ours.id} belongs to another writer ('{found.commit_user}')"
    return Lost(lost, found) if unproven is None else Untold(f"{lost}, but {unproven}")


def _out_of_reach(timeline: Timeline, found: Snapshot) -> str | None:
    """The reason why the history is not seen to go through this very snapshot; None where it is."""
    ids = timeline.snapshot_ids()
    if found.id not in ids:
        return "the listing does not show it"
    history = timeline.history(ids)
    if isinstance(history, Gap):
        return history.reason
    if found.id not in history or found.id < _begin(timeline, history):
        return (
            "the history no longer reaches down to it: it may have been created under a name that an expiry had freed"
        )
    following = timeline.find(found.id + 1)
    named = base_of(following) if following is not None else None
    return None if named in (None, ref_of(found)) else f"snapshot {found.id + 1} builds on another snapshot {found.id}"


def _begin(timeline: Timeline, history: range) -> int:
    earliest = timeline.hint("EARLIEST")
    return earliest if earliest is not None and earliest in history else history.start


# ------------------------------------------------------------------------------------------------------------ lineage


def look_at_base(timeline: Timeline, base: SnapshotRef, *, earliest: bool) -> BaseIs:
    """The state of a base. `earliest`: read EARLIEST too, in parallel, because an expiry raises it before it deletes anything.
    It counts only if the snapshot that it names exists.
    """
    if earliest:
        found, begin = timeline.both(lambda: timeline.find(base.id), lambda: timeline.hint("EARLIEST"))
    else:  # the last request of most commits, which threads for two would only delay
        found, begin = timeline.find(base.id), None
    if found is None:
        return BaseIs.GONE
    replaced = found.identity != base.identity
    if replaced and not earliest:
        begin = timeline.hint("EARLIEST")
    if begin is not None and begin > base.id and timeline.find(begin) is not None:
        return BaseIs.BELOW_EARLIEST
    return BaseIs.REPLACED if replaced else BaseIs.THERE


def base_stands(timeline: Timeline, base: SnapshotRef | None) -> bool:
    """Whether the base still exists, so that the name above it cannot be one that expiry freed (H6)."""
    if base is None:
        return timeline.latest() is None
    return look_at_base(timeline, base, earliest=True) is BaseIs.THERE


def check_lineage(timeline: Timeline, tried: ev.SnapshotPrepared, *, aged: bool = True) -> Lineage:
    """Check that a snapshot that holds its name is built on the base that was read (H6). `aged`: the base was not seen just now,
    so an expiry may have removed it and another writer created it again.
    """
    ours, base = tried.snapshot, tried.base
    try:
        state = look_at_base(timeline, base, earliest=aged) if base is not None else BaseIs.GONE
        if state is BaseIs.THERE:
            return Standing()
        ids, other_table = timeline.both(timeline.snapshot_ids, lambda: _another_table(timeline))
        if other_table is not None:
            return Fork(other_table, ANOTHER_TABLE)
        if ours.id not in ids:
            return Untold(f"the listing does not show snapshot {ours.id} yet, though it landed")
        history = timeline.history(ids)
        if isinstance(history, Gap):
            return Untold(history.reason)
        if state is BaseIs.REPLACED and base is not None:
            reason = f"snapshot {base.id}, on which snapshot {ours.id} was built, was replaced by another"
            return Fork(reason, survives=ours.id in history and ref_of(timeline.find(ours.id)) == ours)
        if ours.id not in history and ref_of(timeline.find(ours.id)) != ours:
            return Untold(
                f"the name of snapshot {ours.id} lies below the history, and holds another snapshot or none by now"
            )
        if ours.id not in history:
            return Fork(f"snapshot {ours.id} was created under a name that expiry or a rollback had freed")
        if ours.id > history.start and state is BaseIs.GONE:
            return Untold(f"snapshot {ours.id - 1}, on which it was built, had disappeared and is listed again")
        return _continued(timeline, tried, ours.id == history[-1])
    except LakelatchError as error:
        return Untold(error.message)


def lineage_of(timeline: Timeline, snapshot: Snapshot, *, aged: bool = True) -> Lineage:
    return check_lineage(timeline, _as_prepared(snapshot), aged=aged)


def stands(timeline: Timeline, snapshot: Snapshot) -> bool:
    return is_read(lineage_of(timeline, snapshot))


def is_read(found: Landing) -> bool:
    """Whether every reader sees a snapshot as part of the history."""
    return isinstance(found, Standing) or (isinstance(found, Fork) and found.survives)


def refuse_fork(timeline: Timeline, snapshot: Snapshot | None) -> None:
    """Raise StoreUnavailable for a fork before its identities count: its name may have been freed since it was listed."""
    found = check_lineage(timeline, _as_prepared(snapshot)) if snapshot is not None else None
    if isinstance(found, Fork) and not found.survives:
        raise StoreUnavailable(f"the snapshot that was just read is not part of the history: {found.reason}")


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
    """This snapshot is the oldest of the history: its base expired in order, or expiry ended exactly below its name. The next
    snapshot decides: it was built on this one, or on the one that had the name before (decision 1). `alone`: there is none.
    """
    ours = tried.snapshot
    following = timeline.find(ours.id + 1)
    if following is not None:
        return _built_on(timeline, following, tried)
    if not alone:
        return Untold(f"snapshot {ours.id + 1} was listed, but no longer exists: an expiry is under way")
    hints = timeline.parallel(timeline.hint, ("LATEST",) if tried.base is None else ("LATEST", "EARLIEST"))
    if (latest := hints[0] or 0) > ours.id and not _left_over(timeline, tried, latest):
        # A hint proves nothing, but is reason enough to doubt a listing that shows this snapshot alone (H7, decision 3).
        return Untold(f"LATEST says {latest}, but the listing shows snapshot {ours.id} alone")
    if tried.base is not None and hints[1] != ours.id:
        return Untold(f"snapshot {tried.base.id} is gone, but EARLIEST does not say that it was expired")
    return Standing()


def _left_over(timeline: Timeline, tried: ev.SnapshotPrepared, latest: int) -> bool:
    """Whether a LATEST above the first snapshot of a table comes from a writer of another table, which was dropped here (H21).

    Then EARLIEST names the first snapshot, no snapshot is where LATEST says, and another listing shows the first one alone, too.
    """
    if tried.base is not None or timeline.hint("EARLIEST") != tried.snapshot.id:
        return False
    nothing = all(found is None for found in timeline.parallel(timeline.find, (latest, latest + 1)))
    return nothing and timeline.snapshot_ids() == [tried.snapshot.id]


def _built_on(timeline: Timeline, following: Snapshot, tried: ev.SnapshotPrepared) -> Lineage:
    """Whether the next snapshot was built on this one. Another engine's names no base, so its inherited manifests decide."""
    ours, named = tried.snapshot, base_of(following)
    if named is not None:
        if named == ours:
            return Standing()
        other = f"snapshot {following.id} builds on another snapshot {ours.id}"
        if tried.base is None and (timeline.hint("EARLIEST") or 0) <= ours.id:
            # This snapshot is the first of its table: the next one may be left over from a table that was dropped here (H21).
            return Untold(f"{other}, but EARLIEST does not say that it was expired")
        return Fork(f"{other}, since expired")
    inherited = {line.file_name for line in timeline.manifest_list(following.base_manifest_list)}
    if inherited & _delta(timeline, tried):
        return Standing()
    return Untold(f"snapshot {following.id}, of another writer, does not say what it was built on")


def _at_free_name(timeline: Timeline, tried: ev.SnapshotPrepared) -> Landing:
    """The snapshot never landed, or it was expired or rolled back since: the base, and then the history above, decide."""
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
    return Untold(f"snapshot {ours.id} does not exist, and neither does the one that it was built on")


def _delta(timeline: Timeline, tried: ev.SnapshotPrepared) -> set[str]:
    """The names of a snapshot's own manifests; empty where its list is gone."""
    made = parse_snapshot(tried.text.encode(), timeline.paths.snapshot(tried.snapshot.id))
    try:
        return {line.file_name for line in timeline.delta_manifests(made)}
    except LakelatchError:
        return set()


# ------------------------------------------------------------------------------------------------------ another table


def take_away(timeline: Timeline, tried: ev.SnapshotPrepared) -> str | None:
    """Delete this writer's snapshot, which landed on another table, so that that table stays readable (H21, decision 17).

    Only its own writer may do that. No other process deletes it, so the name cannot have passed to another writer meanwhile.

    Returns:
        None if it existed and nothing of it is left; otherwise the reason why its rows may still be somewhere.
    """
    ours = tried.snapshot
    key = timeline.paths.snapshot(ours.id)
    try:
        if built := _somebody_built_on(timeline, tried):
            return built
        if not isinstance(read_name(timeline, tried, doubtful=False), Ours):
            return f"snapshot {ours.id} existed, and is gone: it may have moved with the table"
        if _moving(timeline, tried):
            return (
                "other files of the table are still there: it may be on its way to another location, with the snapshot"
            )
        timeline.store.delete_many([key])
        return _somebody_built_on(timeline, tried)
    except LakelatchError as error:
        return error.message


def _moving(timeline: Timeline, tried: ev.SnapshotPrepared) -> bool:
    """Whether a table is being deleted or moved: it has no schema any more, but other files besides this snapshot."""
    if timeline.schema_ids():
        return False
    expected = {timeline.paths.snapshot(tried.snapshot.id)}
    expected.add(timeline.paths.hint("LATEST"))  # a writer of the old table may just have written it
    if tried.base is None:
        expected.add(timeline.paths.hint("EARLIEST"))  # the table's first commit wrote it itself
    return any(info.key not in expected for info in timeline.store.list(timeline.paths.snapshot_dir))


def _somebody_built_on(timeline: Timeline, tried: ev.SnapshotPrepared) -> str | None:
    following = timeline.find(tried.snapshot.id + 1)
    if following is None or base_of(following) not in (None, tried.snapshot):
        return None
    return f"snapshot {following.id} may have been built on it already"
