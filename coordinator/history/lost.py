"""What a snapshot says of the attempts that its commit lost.

Owns: the property with the list of them, and reading it. Must not know: how an attempt is made.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.snapshot import Snapshot

ATTEMPTS_PROPERTY = "lakelatch.attempts"
"""JSON list, one object per lost attempt: the id, the winner's identity and commit user."""


def lost_attempts(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The lost attempts of a commit, as recorded in its own snapshot.

    Returns:
        For each attempt: the snapshot id that it wanted (`id`), the identity of the snapshot that won (`to`) and that
        snapshot's commit user (`by`).

    Raises:
        TableCorrupt: the record is garbled; names the property.
    """
    text = snapshot.own_properties.get(ATTEMPTS_PROPERTY, "[]")
    try:
        return [{key: attempt[key] for key in ("id", "to", "by")} for attempt in parse_json(text)]
    except (ValueError, TypeError, KeyError) as error:
        raise TableCorrupt(f"snapshot-{snapshot.id}: property '{ATTEMPTS_PROPERTY}' is garbled: {error!r}") from error
