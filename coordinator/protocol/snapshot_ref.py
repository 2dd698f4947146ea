"""`SnapshotRef`, by which the history and the commit machine name a snapshot.

Must not know: events, effects. Apart from them, because whoever only reads a history must not pay for importing them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A snapshot by name *and* identity: ids can be reused, identities cannot (H6, H18)."""

    id: int
    identity: str
