"""Exactly once: what a table remembers of commit users and their identifiers.

Owns: `Memory` (it travels in the properties of each snapshot of ours), and looking an identity up through a base.
Must not know: the machine, how snapshots are written. Source: design §3 (identity), H8.
Invariants: the look-up goes through the very base that a publish will stand on; a user that was found is found with its
*largest* identifier; what is not remembered any more (more than `REMEMBERED_USERS` users since, and expired) is forgotten,
never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..core.errors import TableCorrupt
from ..core.json_text import parse_json
from ..core.snapshot import BATCH_IDENTIFIER, Snapshot
from .protocol.events import SnapshotRef

IDENTIFIERS_PROPERTY = "lakelatch.identifiers"
"""JSON: {"since": id, "users": {commit user: [last identifier, its snapshot's id, its snapshot's identity]}}, newest last."""
REMEMBERED_USERS = 200
_WALK = 20
"""How many foreign snapshots are walked past to carry the memory of one of ours forward."""

Find = Callable[[int], Snapshot | None]
Remembered = tuple[int, SnapshotRef]


@dataclass(frozen=True)
class Memory:
    """Last identifiers of commit users.

    Attributes:
        since: complete for snapshots from this id on; older ones must be asked themselves.
        users: commit user -> (last identifier, snapshot that carried it), least recent first.
    """

    since: int
    users: Mapping[str, Remembered] = field(default_factory=dict)

    def with_commit(self, user: str, identifier: int, snapshot: SnapshotRef) -> Memory:
        """The memory after one more commit; the least recent user falls out where there are too many."""
        users = {u: r for u, r in self.users.items() if u != user}
        users[user] = (identifier, snapshot)
        return Memory(self.since, dict(list(users.items())[-REMEMBERED_USERS:]))

    @property
    def full(self) -> bool:
        """May a user have fallen out?"""
        return len(self.users) >= REMEMBERED_USERS

    def to_property(self) -> str:
        users = {u: [identifier, ref.id, ref.identity] for u, (identifier, ref) in self.users.items()}
        return json.dumps({"since": self.since, "users": users}, separators=(",", ":"), ensure_ascii=False)


def memory_of(snapshot: Snapshot) -> Memory | None:
    """The memory that a snapshot of ours carries; None for another writer's."""
    text = snapshot.own_properties.get(IDENTIFIERS_PROPERTY)
    if text is None:
        return None
    try:
        raw = parse_json(text)
        users = {str(u): (int(i), SnapshotRef(int(s), str(x))) for u, (i, s, x) in raw["users"].items()}
        return Memory(int(raw["since"]), users)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableCorrupt(
            f"snapshot-{snapshot.id}: property '{IDENTIFIERS_PROPERTY}' is garbled: {error!r}"
        ) from error


def memory_through(base: Snapshot | None, find: Find) -> Memory:
    """The memory to carry into the next snapshot: that of the newest snapshot of ours, and foreign ones above it.

    Args:
        find: reads a snapshot by id, None where it is gone.
    """
    if base is None:
        return Memory(1)
    foreign: list[Snapshot] = []
    snapshot: Snapshot | None = base
    while snapshot is not None:
        memory = memory_of(snapshot)
        if memory is not None:
            return _add_foreign(memory, foreign)
        foreign.append(snapshot)
        if len(foreign) > _WALK:
            break
        snapshot = find(snapshot.id - 1) if snapshot.id > 1 else None
    return _add_foreign(Memory(foreign[-1].id), foreign)


def _add_foreign(memory: Memory, newest_first: list[Snapshot]) -> Memory:
    for snapshot in reversed(newest_first):
        if snapshot.commit_identifier != BATCH_IDENTIFIER:
            ref = SnapshotRef(snapshot.id, snapshot.identity)
            memory = memory.with_commit(snapshot.commit_user, snapshot.commit_identifier, ref)
    return memory


@dataclass(frozen=True, slots=True)
class Trace:
    """What was found of one commit user.

    Attributes:
        last_identifier, snapshot: its largest identifier and who carried it; None where the user is unknown.
        inspected_through: the id of the base that was looked through; 0 where the table has no snapshot.
    """

    last_identifier: int | None
    snapshot: SnapshotRef | None
    inspected_through: int


def trace(user: str, base: Snapshot | None, find: Find) -> Trace:
    """Look a commit user up through `base`, newest first.

    One snapshot of ours answers for all before it; only other writers' snapshots are walked past.
    """
    inspected = base.id if base is not None else 0
    snapshot = base
    while snapshot is not None:
        if snapshot.commit_user == user and snapshot.commit_identifier != BATCH_IDENTIFIER:
            return Trace(snapshot.commit_identifier, SnapshotRef(snapshot.id, snapshot.identity), inspected)
        memory = memory_of(snapshot)
        below = snapshot.id - 1
        if memory is not None:
            if user in memory.users:
                identifier, carrier = memory.users[user]
                return Trace(identifier, carrier, inspected)
            if not memory.full:
                below = min(below, memory.since - 1)
        snapshot = find(below) if below > 0 else None
    return Trace(None, None, inspected)
