"""What became of an intent: is its commit in one of the two snapshots that could carry it?

Owns: `look_for` and its answers. Must not know: who asks, what is done next. Source: decision 71; H2, H6, H9.
Invariants: *closed* is said only where both snapshots were read, belong to the history, and name somebody else. What cannot be
read or decided is `Untold`. Whether the snapshot that carries a commit stands is another question (`lineage`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ...core.metadata.snapshot import Snapshot
from ..history.lineage import Lost, Untold, read_name
from ..history.timeline import Timeline, base_of, ref_of
from ..protocol import events as ev
from ..protocol.snapshot_ref import SnapshotRef
from .carried import carried_by
from .intent import ids_above


@dataclass(frozen=True, slots=True)
class Window:
    """Where an intent may land. `commit`: the id of its commit; `base`: the snapshot that it was registered on."""

    commit: str
    base: SnapshotRef

    @property
    def ids(self) -> tuple[int, int]:
        return ids_above(self.base)


@dataclass(frozen=True, slots=True)
class Aboard:
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class StillOpen:
    """No snapshot carries it so far, and the next one may."""


@dataclass(frozen=True, slots=True)
class Closed:
    """Both snapshots are published without it: nobody can carry it any more."""


Fate: TypeAlias = Aboard | StillOpen | Closed | Untold


def look_for(window: Window, latest: Snapshot | None, timeline: Timeline) -> Fate:
    """What became of an intent, as of the newest snapshot. Needs no request where that is the first that could carry it, and one
    where it is the second. Raises LakelatchError if the store does not answer, or a snapshot is damaged.
    """
    first, last = window.ids
    if latest is None or latest.id < window.base.id:
        return Untold(f"snapshot {window.base.id}, on which its intent was registered, is gone")
    if latest.id == window.base.id:
        stands = ref_of(latest) == window.base
        return StillOpen() if stands else _replaced(window)
    found = {latest.id: latest} if latest.id <= last else {}
    for number in (first, last):
        if number > latest.id:
            continue
        snapshot = found.get(number) or timeline.find(number)
        if snapshot is None:
            return Untold(f"snapshot {number}, which may have carried it, can no longer be read")
        found[number] = snapshot
    aboard = next((s for s in found.values() if _carries(s, window.commit)), None)
    if aboard is not None:
        return Aboard(aboard)
    named = base_of(found[first])
    if named is not None and named != window.base:
        return _replaced(window)
    if latest.id == first:
        return StillOpen()
    if base_of(found[last]) not in (None, ref_of(found[first])):
        return Untold(f"snapshot {last} builds on another snapshot {first}")
    if latest.id > last or base_of(found[last]) is None:
        unproven = next((why for s in found.values() if (why := _out_of_reach(s, timeline)) is not None), None)
        if unproven is not None:
            return unproven
    return Closed()


def aboard_of(window: Window, snapshot: Snapshot) -> Aboard | None:
    """The answer where this snapshot, which need not be the newest, carries the commit: whether it stands is checked anyhow."""
    return Aboard(snapshot) if snapshot.id in window.ids and _carries(snapshot, window.commit) else None


def _carries(snapshot: Snapshot, commit: str) -> bool:
    return any(one.commit == commit for one in carried_by(snapshot))


def _replaced(window: Window) -> Untold:
    return Untold(f"another snapshot {window.base.id} stands where its intent was registered")


def _out_of_reach(snapshot: Snapshot, timeline: Timeline) -> Untold | None:
    """Why it is not seen that the history goes through a snapshot; None where it is (H9)."""
    ours = ev.SnapshotPrepared(SnapshotRef(snapshot.id, ""), base_of(snapshot), "")
    held = read_name(timeline, ours, doubtful=True)
    if isinstance(held, Lost) and held.winner is not None and held.winner.identity == snapshot.identity:
        return None
    return held if isinstance(held, Untold) else Untold(f"snapshot {snapshot.id} was replaced while it was read")
