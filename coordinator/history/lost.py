"""What a snapshot says of the attempts that its commit lost, and of snapshots whose names another writer took.

Owns: the properties with the lists of them, and reading them. Must not know: how an attempt is made.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.snapshot import Snapshot

ATTEMPTS_PROPERTY = "lakelatch.attempts"
"""JSON list, one object per lost attempt: the id, the winner's identity and commit user."""


REPLACED_PROPERTY = "lakelatch.replaced"
"""JSON list, one object per snapshot that this commit's process knew, and that another writer has renamed over or rolled back
since: its id, identity and commit user, and the identity of the snapshot that has its name now."""


def replaced_property(found: Sequence[tuple[Snapshot, Snapshot]]) -> dict[str, str]:
    told = [{"id": s.id, "identity": s.identity, "user": s.commit_user, "by": by.identity} for s, by in found]
    return {REPLACED_PROPERTY: json.dumps(told, separators=(",", ":"), ensure_ascii=False)} if told else {}


def replaced_before(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The snapshots that were replaced below a snapshot, as its commit found out: `id`, `identity` and `user` of each, and `by`,
    the identity of the one that has its name. Raises TableCorrupt, naming the property, where the record is garbled.
    """
    return _listed(snapshot, REPLACED_PROPERTY, ("id", "identity", "user", "by"))


def lost_attempts(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The lost attempts of a commit, as its own snapshot records them: the snapshot id that each wanted (`id`), the identity of
    the snapshot that won (`to`) and that one's commit user (`by`). Raises TableCorrupt as `replaced_before`.
    """
    return _listed(snapshot, ATTEMPTS_PROPERTY, ("id", "to", "by"))


def _listed(snapshot: Snapshot, name: str, keys: Sequence[str]) -> list[dict[str, Any]]:
    text = snapshot.own_properties.get(name, "[]")
    try:
        return [{key: one[key] for key in keys} for one in parse_json(text)]
    except (ValueError, TypeError, KeyError) as error:
        raise TableCorrupt(f"snapshot-{snapshot.id}: property '{name}' is garbled: {error!r}") from error
