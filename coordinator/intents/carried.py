"""What a snapshot says of the commits that it carries.

Owns: `Carried` and the property that lists them. Must not know: stores, how a leader chooses its riders. Source: decision 71.
Invariant: a snapshot whose commit ever registered an intent, or that carries riders, lists everybody in it, its own commit
first. Other snapshots have no such list, and carry the commit of their user alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.snapshot import Snapshot

CARRIES_PROPERTY = "lakelatch.carries"
"""JSON: one list [commit user, identifier or null, commit id, rows] for each commit in the snapshot, its leader first."""
SAID_PROPERTY = "lakelatch.said"
"""JSON: by commit id, the properties of each carried commit that has some. Those of the leader are the snapshot's own."""
CLOSES_PROPERTY = "lakelatch.closes"
"""The id of a commit that has given up, and that no other snapshot of this id can carry any more. The snapshot has no rows."""


@dataclass(frozen=True, slots=True)
class Carried:
    """One commit in a snapshot. The user is spelt as the memory of identities does; `rows` is the number that it added."""

    user: str
    identifier: int | None
    commit: str
    rows: int

    def __str__(self) -> str:
        return self.user if self.identifier is None else f"{self.user}/{self.identifier}"


def to_property(carried: Iterable[Carried]) -> str:
    rows = [[c.user, c.identifier, c.commit, c.rows] for c in carried]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def carried_by(snapshot: Snapshot) -> tuple[Carried, ...]:
    """The commits that a snapshot lists, its leader first. Raises TableCorrupt, naming the property, if the list is garbled."""
    text = snapshot.own_properties.get(CARRIES_PROPERTY)
    if text is None:
        return ()
    try:
        found = tuple(Carried(*line) for line in parse_json(text))
        for one in found:
            kinds = (type(one.user), type(one.commit), type(one.rows))
            if kinds != (str, str, int) or type(one.identifier) not in (int, type(None)):
                raise TypeError(f"{one!r} is not [user, identifier, commit, rows]")
    except (ValueError, TypeError) as error:
        raise TableCorrupt(f"snapshot-{snapshot.id}: property '{CARRIES_PROPERTY}' is garbled: {error!r}") from error
    return found


def said_by(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    """The properties of the carried commits that have some, by commit id. Raises TableCorrupt if they are garbled."""
    try:
        found = parse_json(snapshot.own_properties.get(SAID_PROPERTY, "{}"))
        for properties in found.values():
            if any(type(text) is not str for text in (*properties, *properties.values())):
                raise TypeError(f"{properties!r} are not texts")
    except (ValueError, TypeError, AttributeError) as error:
        raise TableCorrupt(f"snapshot-{snapshot.id}: property '{SAID_PROPERTY}' is garbled: {error!r}") from error
    return dict(found)


def riders_of(snapshot: Snapshot) -> tuple[Carried, ...]:
    """The commits of others that a snapshot carries. Errors as for `carried_by`."""
    return carried_by(snapshot)[1:]
