"""A tag on the snapshot of a commit that brought files back, so that no other engine deletes them while an older tag needs them.

Owns: `hold_restored`, `protected_by`, and the properties that ask for it. Must not know: how a rollback or an undo is planned.
Source: format/commit §11; decision 86.
Invariant: when Apache Paimon expires the snapshot that deletes a file, it asks only the last tag before that snapshot. Between
the snapshot that brought a file back and the next one that deletes it there is a tag that holds it.
"""

from __future__ import annotations

import re

from ....backends.store import AlreadyThere, Created
from ....core.errors import StoreUnavailable
from ....core.metadata.snapshot import Snapshot
from ...history.announced import expires_below
from ...history.timeline import Timeline

PROTECTING_TAG = "rollback.tag"
"""Property of a snapshot that brought files back: the tag of the state that they were taken from."""


def protecting_tag(snapshot_id: int, unique: str) -> str:
    """The name of a tag that protects restored files.

    >>> protecting_tag(7, "ab12")
    'rollback-7-ab12'
    """
    return f"rollback-{snapshot_id}-{unique}"


def protected_by(name: str) -> tuple[int, str] | None:
    """The snapshot, and what the tags of one rollback have in common, by the name of such a tag; None for other tags.

    >>> protected_by("rollback-7-ab12cd34"), protected_by("rollback-7"), protected_by("rollback-7-of-may")
    ((7, 'ab12cd34'), None, None)
    """
    found = re.fullmatch(r"rollback-(\d+)-([0-9a-f]{8})", name)
    return None if found is None else (int(found[1]), found[2])


def hold_restored(timeline: Timeline, landed: Snapshot) -> None:
    """Tag a snapshot that brought files back; calling it again does no harm. Raises StoreUnavailable if it may have no tag."""
    named = landed.own_properties.get(PROTECTING_TAG)
    if named is not None:
        hold(timeline, landed, named.rpartition("-")[2])


def hold(timeline: Timeline, landed: Snapshot, unique: str) -> None:
    """The same for a snapshot that is known to have brought files back. One that has expired gets no tag."""
    hold_as(timeline, landed, protecting_tag(landed.id, unique))


def hold_as(timeline: Timeline, landed: Snapshot, tag: str) -> None:
    key = timeline.paths.tag(tag)
    answer = timeline.store.put_if_absent(key, landed.to_json())
    if not isinstance(answer, (Created, AlreadyThere)):
        raise StoreUnavailable(f"{key} may not have been written: {answer.reason}")
    there = timeline.find(
        landed.id
    )  # an expiry that looked for tags earlier has raised EARLIEST above it (decision 10)
    if there is None or there.identity != landed.identity or expires_below(timeline) > landed.id:
        timeline.store.delete_many([key])
