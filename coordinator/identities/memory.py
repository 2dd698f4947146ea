"""Exactly once: a table's memory of commit users and their identifiers, as values and as text.

Owns: `Memory`, which travels in a property of each snapshot that lakelatch makes, and the rule for shortening long names.
Must not know: stores, files of identities (`pages`), the order in which snapshots are read (`recall`). Source: architecture §3
(identity), decision 13; H8.
Invariants: a memory states from which snapshot on it is complete, and never claims more. No user is forgotten: a user leaves
the property only for a page that the property names.
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

IDENTIFIERS_PROPERTY = "lakelatch.identifiers"
"""JSON: {"since": id, "page": file or null, "users": {user: [last identifier, its snapshot's id, its snapshot's identity]}},
the most recent user last. The first version of this form had no "page", and dropped the least recent of more than 200 users.
"""
REMEMBERED_USERS = 200
"""The property holds up to this many users; when there are more, the less recent half of them moves into a page."""
LONGEST_NAME = 128
"""Names longer than this many bytes are stored as hashes, to bound the size of the property."""
_HASHED = "sha256:"

Remembered = tuple[int, SnapshotRef]
"""A commit user's last identifier, and the snapshot that carried it."""


@dataclass(frozen=True)
class Memory:
    """Last identifiers of commit users, as of one snapshot.

    Attributes:
        since: the memory is complete for snapshots from this id on; older snapshots must be read themselves. 1: complete.
        users: name (see `name_of`) -> last identifier and its snapshot, the least recent user first.
        page: the file with the users that were moved out of the property; None where there are none.
    """

    since: int = 1
    users: Mapping[str, Remembered] = field(default_factory=dict)
    page: str | None = None

    @property
    def complete(self) -> bool:
        """Whether a user that is neither in this memory nor in its page is certainly unknown."""
        return self.since <= 1

    def overflows_with(self, *names: str | None) -> bool:
        """Whether these users, and some more, are more than the property may hold."""
        return len({*self.users, *(name for name in names if name is not None)}) > REMEMBERED_USERS

    def with_commit(self, user: str, identifier: int, snapshot: SnapshotRef) -> Memory:
        """The memory after one more commit of a user, which becomes the most recent user."""
        return self.with_name(name_of(user), identifier, snapshot)

    def with_name(self, name: str, identifier: int, snapshot: SnapshotRef) -> Memory:
        """The same for a user by its name here (see `name_of`)."""
        users = {n: r for n, r in self.users.items() if n != name}
        return replace(self, users={**users, name: (identifier, snapshot)})

    def divided(self) -> tuple[dict[str, Remembered], dict[str, Remembered]]:
        """The users that leave the property when it overflows, and the more recent ones that stay."""
        users, leaving = list(self.users.items()), len(self.users) - REMEMBERED_USERS // 2
        return dict(users[:leaving]), dict(users[leaving:])

    def over(self, older: Memory) -> Memory:
        """This memory, extended by the memory of an older snapshot."""
        kept = {name: found for name, found in older.users.items() if name not in self.users}
        return Memory(min(self.since, older.since), {**kept, **self.users}, self.page or older.page)

    def to_property(self) -> str:
        out = {"since": self.since, "page": self.page, "users": users_to_json(self.users)}
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
    """The memory in one snapshot: complete if lakelatch made the snapshot, only the snapshot's own identity if another writer
    did.

    Raises:
        TableCorrupt: the property is garbled, or names a page outside its folder (H16).
    """
    text = snapshot.own_properties.get(IDENTIFIERS_PROPERTY)
    if text is None:
        alone = Memory(since=snapshot.id)
        if snapshot.commit_identifier == BATCH_IDENTIFIER:
            return alone
        return alone.with_commit(
            snapshot.commit_user, snapshot.commit_identifier, SnapshotRef(snapshot.id, snapshot.identity)
        )
    where = f"snapshot-{snapshot.id}: property '{IDENTIFIERS_PROPERTY}'"
    try:
        raw = parse_json(text)
        since, page, users = int(raw["since"]), raw.get("page"), users_from_json(raw["users"])
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
    """Check the name of a page or leaf that was read from a table's own file.

    Raises:
        TableCorrupt: it points outside the folder (H16), or is not such a name.
    """
    if not safe_name(name, where).startswith(IDENTITY_PREFIX):
        raise TableCorrupt(f"{where} names {name!r}, which is not a file of identities")
    return name


def is_ours(snapshot: Snapshot) -> bool:
    """Whether a snapshot carries the memory of those before it, as lakelatch's snapshots do."""
    return IDENTIFIERS_PROPERTY in snapshot.own_properties


def users_to_json(users: Mapping[str, Remembered]) -> dict[str, Any]:
    return {name: [identifier, ref.id, ref.identity] for name, (identifier, ref) in users.items()}


def users_from_json(raw: Any) -> dict[str, Remembered]:
    """Parse the users by name.

    Raises:
        ValueError, TypeError, AttributeError: `users_to_json` did not write it.
    """
    found: dict[str, Remembered] = {}
    for name, (identifier, snapshot_id, identity) in raw.items():
        if type(identifier) is not int or type(snapshot_id) is not int or type(identity) is not str:
            raise TypeError(f"what is remembered of {name!r} is not [identifier, snapshot id, snapshot identity]")
        kept = name if name.startswith(_HASHED) else name_of(name)
        found[kept] = (identifier, SnapshotRef(snapshot_id, identity))
    return found
