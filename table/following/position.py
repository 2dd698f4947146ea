"""How far a reader of changes has come, in a form that outlives its process.

Owns: `Position` and its two forms, text and JSON. Must not know: tables, how changes are read.
Invariant: a position names its snapshot by id and identity, so that a history that was rolled back is noticed (H18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot

_TEXT = re.compile(r"(?P<id>\d+)@(?P<identity>\S*?)(?P<whole>\+state)?")


@dataclass(frozen=True)
class Position:
    """A place between two snapshots.

    Attributes:
        snapshot_id: everything up to and with this snapshot has been read; 0 for the beginning.
        identity: the identity of that snapshot; empty if it is not known, because the snapshot has expired, or there is none.
        whole: the state of this snapshot is still to be read, as rows that came.

    >>> str(Position(7, "u-1")), Position.parse("7@u-1+state")
    ('7@u-1', Position(snapshot_id=7, identity='u-1', whole=True))
    """

    snapshot_id: int
    identity: str = ""
    whole: bool = False

    @classmethod
    def of(cls, snapshot: Snapshot | None, *, whole: bool = False) -> Position:
        """The position after a snapshot; with `whole`, before its state. None is the empty table."""
        return cls(0) if snapshot is None else cls(snapshot.id, snapshot.identity, whole)

    @classmethod
    def parse(cls, text: str) -> Position:
        found = _TEXT.fullmatch(text)
        if found is None:
            raise InvalidArgument(
                f"{text!r} is not a position", next_step="give the text of a batch's position, unchanged"
            )
        return cls(int(found["id"]), found["identity"], found["whole"] is not None)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Position:
        snapshot_id, identity = value.get("snapshot"), value.get("identity", "")
        if isinstance(snapshot_id, bool) or not isinstance(snapshot_id, int) or not isinstance(identity, str):
            raise InvalidArgument(
                f"{dict(value)!r} is not a position",
                next_step="give it as it was stored, with 'snapshot' and 'identity'",
            )
        return cls(snapshot_id, identity, bool(value.get("state", False)))

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"snapshot": self.snapshot_id, "identity": self.identity}
        return {**told, "state": True} if self.whole else told

    @property
    def next_snapshot(self) -> int:
        """The oldest snapshot that is still to be read."""
        return self.snapshot_id if self.whole else self.snapshot_id + 1

    def __str__(self) -> str:
        return f"{self.snapshot_id}@{self.identity}{'+state' if self.whole else ''}"
