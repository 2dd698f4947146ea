"""The interface of watchers: the notifications they get, and the names used in them.

Owns: `Watcher`, `About`, `Ended`, and which events are trouble. Must not know: the watchers themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ...backends.around.metered import StoreRequest
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
"""Events that make a commit look, send or try again, or end: worth a line at INFO."""


@dataclass(frozen=True, slots=True)
class About:
    """Identifies the commit that is watched.

    Attributes:
        doing: `commit`, or `resolve` when its outcome is looked up later.
        commit: the id in its journal entries and in the names of its metadata files.
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
    """How a commit ended.

    Attributes:
        outcome: `committed`, `replayed`, the code of the error that gives the reason (`commit-conflict`, …, `outcome-unknown`),
            or the class of an exception that is not lakelatch's.
        snapshot_id: the snapshot that landed, or may have.
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
    """Watches one commit. Called from the threads that carry it out."""

    def happened(self, event: Event, state: CommitState) -> None:
        """An event, and the state that it led to."""

    def requested(self, request: StoreRequest) -> None:
        """A request to the store has ended."""

    def ended(self, how: Ended) -> None:
        """Called just before the caller gets its answer. The hint and the clean-up may follow."""
