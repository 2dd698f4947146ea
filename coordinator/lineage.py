"""Is a snapshot that holds its name a part of the table's history?

Owns: reading a name back, the lineage check. Must not know: commits, who asks, the order of steps (the machine).
Source: design §3 (VERIFY), decisions 1 and 3; H2, H3, H6. Invariant: what cannot be read is told as unread, never as broken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..backends.store import ObjectNotFound
from ..core.errors import LakelatchError
from ..core.snapshot import Snapshot, parse_snapshot
from .protocol import events as ev
from .protocol.events import Event, SnapshotRef
from .timeline import Timeline, base_of, contiguous_runs


def read_name(timeline: Timeline, ours: SnapshotRef, data: bytes) -> tuple[Event, Snapshot | None]:
    """What the name of a snapshot holds: ours, another's (then that one too), nothing? (H2, H3)

    Args:
        data: the bytes that were, or may have been, sent.
    """
    key = timeline.paths.snapshot(ours.id)
    try:
        held = timeline.store.get(key)
        if held == data:
            return ev.FoundOurs(), None
        found = parse_snapshot(held, key)
    except ObjectNotFound:
        return ev.FoundNothing(), None
    except LakelatchError as error:
        return ev.ReadBackFailed(error.message), None
    if found.identity == ours.identity:
        return ev.FoundOurs(), None
    return ev.FoundAnother(SnapshotRef(ours.id, found.identity), found.commit_user), found


def check_lineage(
    timeline: Timeline, base: SnapshotRef | None, ours: SnapshotRef, delta: Callable[[], Collection[str]]
) -> Event:
    """Does a snapshot that holds its name stand on the base that was read? (H6)

    Args:
        delta: the names of its delta manifests, asked for where nothing else tells.
    """
    try:
        found = timeline.find(base.id) if base is not None else None
        if base is not None and found is not None:
            if found.identity == base.identity:
                return ev.LineageVerified()
            return ev.LineageBroken(
                f"snapshot {base.id}, on which snapshot {ours.id} was built, was replaced by another"
            )
        ids = timeline.snapshot_ids()
        if ours.id not in ids:
            return ev.LineageUnread(f"the listing does not show snapshot {ours.id} yet, though it landed")
        runs = contiguous_runs(ids)
        if len(runs) == 1 and runs[0].start == ours.id:
            return _continued(timeline, ours, len(ids) == 1, delta)
    except LakelatchError as error:
        return ev.LineageUnread(error.message)
    return ev.LineageBroken(f"snapshot {ours.id} was created on a name that expiry or a rollback had freed")


def stands(timeline: Timeline, snapshot: Snapshot) -> bool:
    """Is a snapshot that was found under its name proven to be a part of the history?"""
    ours = SnapshotRef(snapshot.id, snapshot.identity)

    def delta() -> set[str]:
        return {line.file_name for line in timeline.delta_manifests(snapshot)}

    return isinstance(check_lineage(timeline, base_of(snapshot), ours, delta), ev.LineageVerified)


def _continued(timeline: Timeline, ours: SnapshotRef, alone: bool, delta: Callable[[], Collection[str]]) -> Event:
    """Our snapshot is the oldest of one run: was its base expired in order, or did expiry end exactly below our name?

    The next snapshot tells: it was built on ours, or on the one that had our name before (decision 1).
    """
    following = timeline.find(ours.id + 1)
    if following is None and not alone:
        return ev.LineageUnread(f"snapshot {ours.id + 1} was listed, and is gone: an expiry is under way")
    if following is None and (hinted := timeline.hint("LATEST") or 0) > ours.id:
        # A hint proves nothing, but it is reason enough to doubt a listing that shows ours alone (H7, decision 3).
        return ev.LineageUnread(f"LATEST says {hinted}, and the listing shows snapshot {ours.id} alone")
    if following is None:
        return ev.LineageVerified()
    named = base_of(following)
    if named is not None:
        broken = ev.LineageBroken(f"snapshot {following.id} stands on another snapshot {ours.id}, since expired")
        return ev.LineageVerified() if named == ours else broken
    inherited = {m.file_name for m in timeline.manifest_list(following.base_manifest_list)}
    if inherited.intersection(delta()):
        return ev.LineageVerified()
    return ev.LineageUnread(f"snapshot {following.id}, of another writer, does not say what it stands on")
