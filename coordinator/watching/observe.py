"""Lets applications watch commits while they run: log records in `logs`, spans and metrics in `telemetry`; off by default.

Owns: `Watch`, which notifies the watchers. Must not know: the steps of a commit. Source: architecture §3 (events out).
Invariants: a watcher never changes an outcome (H17): if it raises, it is no longer notified, and nothing else happens. Without
watchers a commit only pays for checking the level of a logger.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import TracebackType

from ...backends.around.metered import StoreRequest
from ...core.errors import OutcomeUnknown
from ...core.typed import assert_never
from ..protocol import effects as do
from ..protocol.effects import Outcome
from ..protocol.events import Event
from ..protocol.machine import CommitState
from .logs import Logged, somebody_reads
from .watcher import About, Ended, Watcher


class Watch:
    """All watchers of one commit, from `with` to its end."""

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
        """For a metered store: the callback for requests, None where no watcher wants them."""
        return self.requested if self._watchers else None

    def happened(self, event: Event, state: CommitState) -> None:
        for watcher in tuple(self._watchers):
            self._tell(watcher, watcher.happened, event, state)

    def requested(self, request: StoreRequest) -> None:
        for watcher in tuple(self._watchers):
            self._tell(watcher, watcher.requested, request)

    def ended(self, outcome: Outcome, attempts: int) -> None:
        if self._watchers:
            seconds = self._seconds()
            match outcome:
                case do.Committed(snapshot=snapshot, replayed=replayed):
                    how = Ended("replayed" if replayed else "committed", seconds, snapshot.id, "", attempts)
                case do.NotCommitted(code=code, reason=reason):
                    how = Ended(code, seconds, None, reason, attempts)
                case do.Undecided(snapshot=snapshot, reason=reason):
                    how = Ended(OutcomeUnknown.code, seconds, snapshot.id, reason, attempts)
                case _:
                    assert_never(outcome)
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
        except Exception:  # from a filter, a handler or an exporter of the application (H17)
            if watcher in self._watchers:
                self._watchers.remove(watcher)


def watch(about: About, clock: Callable[[], float]) -> Watch:
    """OpenTelemetry is not imported here: if no other module of this process did, there is nothing to send spans to."""
    watchers: list[Watcher] = []
    if somebody_reads():
        watchers.append(Logged(about))
    if "opentelemetry.trace" in sys.modules or "opentelemetry.metrics" in sys.modules:
        from .telemetry import Traced

        watchers.append(Traced(about))
    return Watch(watchers, clock)
