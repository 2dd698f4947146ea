"""Commits as others see them while they run: log records here, spans and metrics in `telemetry`; both off until asked for.

Owns: `Watch`, who is told what; the log records. Must not know: what a commit does next, or how any of it is carried out.
Source: design §3 (events out). Invariants: nobody who watches changes an outcome (H17): what a watcher raises ends its
watching, and nothing else; where nobody listens a commit pays for one look at a logger's level; no option's value, no bytes
of a file and no row is ever told, so no credentials are (H19).

Logger `lakelatch.commit`: INFO for how a commit ended and for what made it try again, DEBUG for every other event;
`lakelatch.request`: DEBUG, one record per request to the store. Each record has an attribute `lakelatch`: a dict that can be
written as JSON.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Protocol

from ..backends.metered import StoreRequest
from ..core.errors import OutcomeUnknown
from .protocol import effects as do
from .protocol import events as ev
from .protocol.effects import Outcome
from .protocol.events import Event, event_json
from .protocol.machine import CommitState

COMMIT_LOG = logging.getLogger("lakelatch.commit")
REQUEST_LOG = logging.getLogger("lakelatch.request")
for _log in (COMMIT_LOG, REQUEST_LOG):
    _log.addHandler(logging.NullHandler())  # else Python prints what nobody asked for

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


class Watch:
    """Everybody who watches one commit, from `with` to its end.

    Args:
        watchers: may be empty.
        clock: seconds, never set back.
    """

    def __init__(self, watchers: Sequence[Watcher], clock: Callable[[], float]) -> None:
        self._watchers = list(watchers)
        self._clock, self._began, self._told = clock, clock(), False

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not self._told:
            self._end(Ended(getattr(error, "code", type(error).__name__), self._seconds()))

    @property
    def heard(self) -> Callable[[StoreRequest], None] | None:
        """For a metered store: whom to tell of requests, None where nobody wants to know."""
        return self.requested if self._watchers else None

    def happened(self, event: Event, state: CommitState) -> None:
        for watcher in tuple(self._watchers):
            self._tell(watcher, watcher.happened, event, state)

    def requested(self, request: StoreRequest) -> None:
        for watcher in tuple(self._watchers):
            self._tell(watcher, watcher.requested, request)

    def ended(self, outcome: Outcome, attempts: int) -> None:
        """Tell how it ended, once."""
        if self._watchers:
            seconds = self._seconds()
            match outcome:
                case do.Committed(snapshot=snapshot, replayed=replayed):
                    how = Ended("replayed" if replayed else "committed", seconds, snapshot.id, "", attempts)
                case do.NotCommitted(code=code, reason=reason):
                    how = Ended(code, seconds, None, reason, attempts)
                case do.Undecided(snapshot=snapshot, reason=reason):
                    how = Ended(OutcomeUnknown.code, seconds, snapshot.id, reason, attempts)
            self._end(how)

    def _end(self, how: Ended) -> None:
        self._told = True
        for watcher in tuple(self._watchers):
            self._tell(watcher, watcher.ended, how)

    def _seconds(self) -> float:
        return self._clock() - self._began

    def _tell(self, watcher: Watcher, what: Callable[..., None], *told: object) -> None:
        try:
            what(*told)
        except Exception:  # a filter, a handler or an exporter of the application's (H17)
            if watcher in self._watchers:
                self._watchers.remove(watcher)


class Logged:
    """Writes log records.

    The dict of each begins with the fields of `About` and `at`, what the record is about: the event's class, `StoreRequest`
    or `Ended`; the fields of that follow. A snapshot's bytes, which `SnapshotPrepared` has, are left out.
    """

    def __init__(self, about: About) -> None:
        self._head = asdict(about)
        self._who = f"{about.doing} {about.commit[:8]} of {about.table}"

    def happened(self, event: Event, state: CommitState) -> None:
        level = logging.INFO if isinstance(event, TROUBLE) else logging.DEBUG
        if COMMIT_LOG.isEnabledFor(level):
            fields = event_json(event)
            name = fields.pop("event")
            fields.pop("text", None)
            told = {**self._head, "at": name, "phase": state.phase.value, "attempt": state.attempt, **fields}
            said = " ".join(f"{key}={value}" for key, value in fields.items())
            COMMIT_LOG.log(level, "%s: %s %s", self._who, name, said, extra={"lakelatch": told})

    def requested(self, request: StoreRequest) -> None:
        if REQUEST_LOG.isEnabledFor(logging.DEBUG):
            told = {**self._head, "at": "StoreRequest", **asdict(request)}
            what = f"{request.operation} {request.key}: {request.outcome}"
            REQUEST_LOG.debug("%s: %s in %.1f ms", self._who, what, request.seconds * 1000, extra={"lakelatch": told})

    def ended(self, how: Ended) -> None:
        level = logging.WARNING if how.outcome == OutcomeUnknown.code else logging.INFO
        told = {**self._head, "at": "Ended", **asdict(how)}
        where = "" if how.snapshot_id is None else f", snapshot {how.snapshot_id}"
        why = f": {how.reason}" if how.reason else ""
        tries = "1 attempt" if how.attempts == 1 else f"{how.attempts} attempts"
        said = f"{how.outcome}{where} after {tries} in {how.seconds * 1000:.0f} ms{why}"
        COMMIT_LOG.log(level, "%s: %s", self._who, said, extra={"lakelatch": told})


def watch(about: About, clock: Callable[[], float]) -> Watch:
    """Whoever wants to know of this commit: loggers whose level says so, OpenTelemetry where the application uses it.

    Where nobody in this process has imported OpenTelemetry there is nobody to give a span to, and it is not imported.
    """
    watchers: list[Watcher] = []
    if COMMIT_LOG.isEnabledFor(logging.INFO) or REQUEST_LOG.isEnabledFor(logging.DEBUG):
        watchers.append(Logged(about))
    if "opentelemetry.trace" in sys.modules or "opentelemetry.metrics" in sys.modules:
        from .telemetry import Traced

        watchers.append(Traced(about))
    return Watch(watchers, clock)
