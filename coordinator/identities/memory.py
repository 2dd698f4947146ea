"""Exactly once: a table's memory of commit users and their identifiers, as values and as text.

Owns: `Memory`, which travels in a property of each snapshot that lakelatch makes, and the rule for shortening long names.
Must not know: stores, files of identities (`pages`), the order in which snapshots are read (`recall`). Source: architecture §3
(identity), decisions 13 and 88; H8.
Invariants: a memory states from which snapshot on it is complete, and never claims more. No user is forgotten: a user, and what
is too much of one, leaves the property only for a page that the property names.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ...core.paths import IDENTITY_PREFIX, safe_name
from ..protocol.snapshot_ref import SnapshotRef
from .trace import Trace, landed_to_json, trace_from_json

IDENTIFIERS_PROPERTY = "lakelatch.identifiers"
"""JSON: {"since": id, "page": file or null, "users": {user: [last identifier, its snapshot's id, its snapshot's identity]},
"landed": {user: what else is known of it}}, the most recent user last. Earlier forms had no "landed", and knew the last
identifier of a user alone; the first one had no "page" either, and dropped the least recent of more than 200 users.
"""
REMEMBERED_USERS = 200
"""When there are more, the less recent half of them moves into a page. A user counts once for each of its ranges."""
LONGEST_NAME = 128
"""Names longer than this many bytes are stored as hashes, to bound the size of the property."""
_HASHED = "sha256:"


def weight(users: Mapping[str, Trace]) -> int:
    return sum(len(trace.ranges) for trace in users.values())


@dataclass(frozen=True)
class Memory:
    """What landed, by commit user, as of one snapshot.

    Attributes:
        since: the memory is complete for snapshots from this id on; older snapshots must be read themselves. 1: complete.
        users: name (see `name_of`) -> what is known of it here, the least recent user first.
        page: the file with what was moved out of the property; None where there is none.
    """

    since: int = 1
    users: Mapping[str, Trace] = field(default_factory=dict)
    page: str | None = None

    @property
    def complete(self) -> bool:
        """Whether what is neither in this memory nor in its page is certainly unknown."""
        return self.since <= 1

    def overflows_with(self, *names: str | None) -> bool:
        """Whether these users, and some more, are more than the property may hold."""
        new = {name for name in names if name is not None and name not in self.users}
        return weight(self.users) + len(new) > REMEMBERED_USERS

    def with_commit(self, user: str, identifier: int, snapshot: SnapshotRef) -> Memory:
        """The memory after one more commit of a user, which becomes the most recent user."""
        return self.with_name(name_of(user), identifier, snapshot)

    def with_name(
        self, name: str, identifier: int, snapshot: SnapshotRef, known: Trace | None = None, query: str = ""
    ) -> Memory:
        """The same for a user by its name here (see `name_of`). `known`: all that is known of it, if it was looked up."""
        here = self.users.get(name)
        if known is not None:
            here = known.short() if here is None else here.over(known) if known.is_short else here
        if here is None:
            new = Trace.of(identifier, snapshot, query=query)
        else:
            new = here.with_landing(identifier, snapshot, query)
        users = {n: trace for n, trace in self.users.items() if n != name}
        return replace(self, users={**users, name: new})

    def with_unread(self, name: str) -> Memory:
        """This memory, in which a user that was not looked up, and is new here, may be known to the page."""
        if self.page is None:
            return self
        return replace(self, users={**self.users, name: replace(self.users[name], unread=1)})

    def divided(self) -> tuple[dict[str, Trace], dict[str, Trace]]:
        """What leaves the property when it overflows: the less recent users, and what is too much of one; and what stays."""
        leaving: dict[str, Trace] = {}
        staying: dict[str, Trace] = {}
        room = REMEMBERED_USERS // 2
        for name, trace in reversed(list(self.users.items())):
            kept = trace.short()
            room -= len(kept.ranges)
            if room >= 0:
                staying[name] = kept
            if room < 0 or kept is not trace:
                leaving[name] = trace
        return dict(reversed(leaving.items())), dict(reversed(staying.items()))

    def over(self, older: Memory) -> Memory:
        kept = {name: trace for name, trace in older.users.items() if name not in self.users}
        both = {n: t.over(older.users[n]) if n in older.users else t for n, t in self.users.items()}
        return Memory(min(self.since, older.since), {**kept, **both}, self.page or older.page)

    def begun(self) -> Memory:
        """This memory, after the snapshots below it have expired: of its users, what is smaller may have landed in those."""
        return Memory(1, {name: trace.with_floor() for name, trace in self.users.items()}, self.page)

    def to_property(self) -> str:
        out = {"since": self.since, "page": self.page, **users_to_json(self.users)}
        return json.dumps(out, separators=(",", ":"), ensure_ascii=False)


def name_of(user: str) -> str:
    """The key of a commit user in the memory: its name, or the hash of a name that is too long.

    >>> name_of("etl"), len(name_of("x" * 10_000))
    ('etl', 71)
    """
    data = user.encode("utf-8", "surrogatepass")
    if len(data) <= LONGEST_NAME and not user.startswith(_HASHED):
        return user
    return _HASHED + hashlib.sha256(data).hexdigest()


def memory_of(snapshot: Snapshot) -> Memory:
    """The memory in one snapshot: complete if lakelatch made the snapshot, else only the snapshot's own identity. Raises
    TableCorrupt if the property is garbled, or names a page outside its folder (H16).
    """
    text = snapshot.own_properties.get(IDENTIFIERS_PROPERTY)
    if text is None:
        alone = Memory(since=snapshot.id)
        if snapshot.commit_identifier == BATCH_IDENTIFIER:
            return alone
        seen = Trace.of(snapshot.commit_identifier, SnapshotRef(snapshot.id, snapshot.identity), unread=2)
        return replace(alone, users={name_of(snapshot.commit_user): seen})
    where = f"snapshot-{snapshot.id}: property '{IDENTIFIERS_PROPERTY}'"
    try:
        raw = parse_json(text)
        since, page, users = int(raw["since"]), raw.get("page"), users_from_json(raw)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableCorrupt(f"{where} is garbled: {error!r}") from error
    if not 1 <= since <= snapshot.id:
        raise TableCorrupt(f"{where} is garbled: it is complete from snapshot {since} on, which cannot be")
    if page is not None and since > 1:
        raise TableCorrupt(f"{where} is garbled: it names page {page!r}, and is not complete before snapshot {since}")
    if "page" not in raw and len(users) >= REMEMBERED_USERS:
        since = snapshot.id  # the first form, and full: users may have been dropped
    return Memory(since, users, None if page is None else identity_file(page, where))


def identity_file(name: str, where: str) -> str:
    """Check the name of a page or leaf from a table's own file. Raises TableCorrupt if it points outside the folder (H16)."""
    if not safe_name(name, where).startswith(IDENTITY_PREFIX):
        raise TableCorrupt(f"{where} names {name!r}, which is not a file of identities")
    return name


def is_ours(snapshot: Snapshot) -> bool:
    """Whether a snapshot carries the memory of those before it, as lakelatch's snapshots do."""
    return IDENTIFIERS_PROPERTY in snapshot.own_properties


def users_to_json(users: Mapping[str, Trace]) -> dict[str, Any]:
    """The fields of users: the last identifier of each, as every version reads it, and beside it what else is known."""
    last = {name: [trace.last, trace.carrier.id, trace.carrier.identity] for name, trace in users.items()}
    return {"users": last, "landed": {n: landed_to_json(t) for n, t in users.items() if not t.is_single}}


def users_from_json(raw: Any) -> dict[str, Trace]:
    """The users by name. Raises ValueError, TypeError, KeyError or AttributeError for what `users_to_json` did not write."""
    found: dict[str, Trace] = {}
    landed = raw.get("landed")
    for name, (identifier, snapshot_id, identity) in raw["users"].items():
        if type(identifier) is not int or type(snapshot_id) is not int or type(identity) is not str:
            raise TypeError(f"what is remembered of {name!r} is not [identifier, snapshot id, snapshot identity]")
        kept = name if name.startswith(_HASHED) else name_of(name)
        last = Trace.of(identifier, SnapshotRef(snapshot_id, identity))
        if landed is None:  # an earlier form
            found[kept] = replace(last, unread=1).with_floor()
        else:
            found[kept] = trace_from_json(last, landed[name], name) if name in landed else last
    return found
