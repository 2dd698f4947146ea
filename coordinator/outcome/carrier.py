"""Finds the snapshot that carries an identity which is known to have landed.

Owns: `carrier_of`. Must not know: what a receipt is. Source: decision 88; H6.
Invariant: a snapshot that is returned with its identity names the commit itself.
"""

from __future__ import annotations

from bisect import bisect_left

from ...core.metadata.snapshot import Snapshot
from ..history.timeline import Timeline, ref_of
from ..identities.memory import name_of
from ..identities.recall import Known, Recalled, recall
from ..intents.carried import carried_by
from ..protocol.snapshot_ref import SnapshotRef


def carrier_of(
    user: str, identifier: int, found: Recalled, base: Snapshot | None, timeline: Timeline, known: Known
) -> SnapshotRef:
    """The snapshot of an identity that has landed, as `recall` found on the base. Of the last identifier and a few recent ones
    it is remembered. That of others is searched for: each snapshot remembers what had landed by then.

    Returns:
        Its id and identity; the identity is empty if it has expired, and the id is 0 if not even that is remembered.
    """
    trace = found.trace
    assert trace is not None and base is not None
    if trace.last == identifier:
        return trace.carrier
    recent = dict(trace.recent).get(identifier)
    if recent is not None:
        return _named_by(timeline.find(recent), user, identifier) or SnapshotRef(recent, "")
    ids = [number for number in timeline.snapshot_ids() if number <= base.id]

    def has_landed(number: int) -> bool:
        there = timeline.find(number)
        return there is not None and recall(user, there, timeline, known, identifier=identifier).says(identifier)

    first = bisect_left(ids, True, key=has_landed)
    landed = timeline.find(ids[first]) if first < len(ids) else None
    return _named_by(landed, user, identifier) or SnapshotRef(0, "")


def _named_by(snapshot: Snapshot | None, user: str, identifier: int) -> SnapshotRef | None:
    return ref_of(snapshot) if snapshot is not None and carries(snapshot, user, identifier) else None


def carries(snapshot: Snapshot, user: str, identifier: int) -> bool:
    """Whether a snapshot carries a commit, as its own or as a rider."""
    own = (snapshot.commit_user, snapshot.commit_identifier) == (user, identifier)
    return own or any((one.user, one.identifier) == (name_of(user), identifier) for one in carried_by(snapshot))
