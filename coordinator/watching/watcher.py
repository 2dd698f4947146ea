"""What those who watch commits are told, and by which names.

Owns: `Watcher`, `About`, `Ended`, and which events are trouble. Must not know: who watches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ...backends.metered import StoreRequest
from ..protocol import events as ev
from ..protocol.events import Event
from ..protocol.machine import CommitState

TROUBLE = (
    ev.AnswerLost,
    ev.BaseAged,
    ev.ConflictFound,
    ev.FoundAnother,
    ev.FoundNothing,
    ev.JournalUnsure,
    ev.LineageBroken,
    ev.LineageUnread,
    ev.ReadBackFailed,
    ev.ResolveFailed,
    ev.TakenOver,
    ev.UploadFailed,
)
"""What makes a commit look, send or try again, or end: worth a line at INFO."""

RETRY_REASONS: dict[type[Any], str] = {
    ev.RetryGranted: "lost race",
    ev.BaseAged: "base too old",
    ev.FoundNothing: "nothing landed",
    ev.ReadBackFailed: "no answer to a look",
    ev.LineageUnread: "no answer to a look",
}
"""Why a commit does something again; the last three where it goes on after them."""


@dataclass(frozen=True, slots=True)
class About:
    """Which commit is watched.

    Attributes:
        doing: `commit`, or `resolve` where its outcome is looked for later.
        commit: the id that its journal entries have, and its metadata files' names.
        table: URL of the table, without credentials.
    """

    doing: str
    commit: str
    table: str
    branch: str
    commit_user: str
    identifier: int | None
    kind: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended.

    Attributes:
        outcome: `committed`, `replayed`, the code of the error that says why not (`commit-conflict`, …, `outcome-unknown`),
            or the class of one that is none of ours.
        snapshot_id: where it landed, or may have.
    """

    outcome: str
    seconds: float
    snapshot_id: int | None = None
    reason: str = ""
    attempts: int = 0

    @property
    def landed(self) -> bool:
        return self.outcome in ("committed", "replayed")


class Watcher(Protocol):
    """Somebody who watches one commit. Told by the threads that carry it out."""

    def happened(self, event: Event, state: CommitState) -> None:
        """An event, and the state that it led to."""

    def requested(self, request: StoreRequest) -> None:
        """A request to the store has ended."""

    def ended(self, how: Ended) -> None:
        """Its caller is about to be told. The hint, and what is tidied up, may come after it."""
