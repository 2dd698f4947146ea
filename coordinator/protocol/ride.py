"""What the machine remembers about riding with other commits.

Owns: `Ride`. Must not know: phases, stores, how an intent is written. Source: decision 71.
Invariant: an intent counts as registered from the event before its request until both snapshots that could carry it name others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .effects import NotCommitted
from .events import IntentPrepared
from .snapshot_ref import SnapshotRef

POLLS = 4
"""For each commit that may lead before it, a rider looks so many times before it leads itself."""
MOST_WAITED_FOR = 8
"""For so many of them at most, so that a rider does not wait for long where many have died."""


@dataclass(frozen=True, slots=True)
class Ride:
    """The intents of one commit.

    Attributes:
        window: the base of the intent that may still be carried; None if there is none.
        manifests: those that the intent names, which the snapshot that carries it needs.
        asks_first: the commit asks others to carry it before its own first try.
        aboard: the commit was found in another's snapshot.
        spent: why no further intent is registered, once the retry policy grants no other attempt; empty before.
        closing: how the commit ends once nobody can carry it any more: it has given up, and closes its window.
    """

    window: SnapshotRef | None = None
    files: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    rank: int = 0
    asks_first: bool = False
    polls: int = 0
    aboard: bool = False
    spent: str = ""
    closing: NotCommitted | None = None

    def registered(self, intent: IntentPrepared) -> Ride:
        files = tuple(dict.fromkeys((*self.files, intent.name)))
        return replace(self, window=intent.base, files=files, manifests=intent.manifests, asks_first=False)

    @property
    def has_waited(self) -> bool:
        return self.polls >= POLLS * min(self.rank, MOST_WAITED_FOR)

    @property
    def ids(self) -> str:
        assert self.window is not None
        return f"{self.window.id + 1} or {self.window.id + 2}"


ALONE = Ride()
