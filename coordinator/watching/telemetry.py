"""Spans and metrics of commits and metrics of streams, through OpenTelemetry's API; the application decides where they go.

Owns: `Traced`, `count_batch`, the names of spans, metrics and attributes (docs/observability.md lists them). Must not know:
exporters, the SDK. Imported by `observe` and `batches` only if the application has imported OpenTelemetry.
Invariants: a span's parent is the span that was open when it began, whichever thread ends it. Every span that is begun is ended,
however the commit ends. Spans are made from events after the fact, and cost the commit nothing but time. Labels of metrics have
few values each: never a key, user or id; only those of streams name the table (H19).
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from ...backends.around.metered import StoreRequest
from ..protocol import events as ev
from ..protocol.events import Event, event_json
from ..protocol.machine import CommitState, Phase
from .batches import StreamBatch
from .watcher import TROUBLE, About, Ended

SCOPE = "lakelatch"
_NAMES = {
    Phase.COLLECT: "collect",
    Phase.REGISTER: "register intent",
    Phase.GATHER: "look for riders",
    Phase.RIDE: "ride",
    Phase.COMPACT_MANIFESTS: "compact manifests",
    Phase.BASE_LIST: "upload",
    Phase.DELTA_LIST: "upload",
    Phase.PUBLISH: "publish",
    Phase.VERIFY: "verify",
    Phase.RETRY: "wait",
}
"""The spans of phases. Both lists and the data are uploaded side by side, in one span."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
RETRY_REASONS: dict[type[Any], str] = {
    ev.RetryGranted: "lost race",
    ev.BaseAged: "base too old",
    ev.FoundNothing: "nothing landed",
    ev.ReadBackFailed: "no answer to a look",
    ev.LineageUnread: "no answer to a look",
}
"""The reason why a step is repeated; the last three count only where the commit goes on after them."""


class Instruments:
    def __init__(self, meter: metrics.Meter) -> None:
        self.commits = meter.create_counter("lakelatch.commits", "{commit}", "commits, by how they ended")
        self.commit_s = self._seconds(meter, "lakelatch.commit.duration", "from the first step of a commit to its end")
        self.retries = meter.create_counter("lakelatch.retries", "{retry}", "steps that were done again, by reason")
        self.requests = meter.create_counter("lakelatch.requests", "{request}", "requests to the store")
        self.request_s = self._seconds(meter, "lakelatch.request.duration", "of requests to the store")
        self.batches = meter.create_counter("lakelatch.stream.batches", "{batch}", "batches of streams")
        self.batch_snapshots = meter.create_counter(
            "lakelatch.stream.snapshots", "{snapshot}", "that streams have read"
        )
        self.batch_rows = meter.create_counter("lakelatch.stream.rows", "{row}", "of the files of batches")
        self.batch_bytes = meter.create_counter("lakelatch.stream.bytes", "By", "of the files of batches")
        self.behind = meter.create_gauge("lakelatch.stream.behind", "{snapshot}", "that a stream has still to read")

    @staticmethod
    def _seconds(meter: metrics.Meter, name: str, what: str) -> metrics.Histogram:
        return meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=_SECONDS)


@cache
def instruments() -> Instruments:
    """The metrics of this process; a meter that is configured later still gets them."""
    return Instruments(metrics.get_meter(SCOPE))


def count_batch(batch: StreamBatch) -> None:
    meters, labels = instruments(), {"lakelatch.doing": batch.doing, "lakelatch.table": batch.table}
    meters.batches.add(1, {**labels, "lakelatch.outcome": batch.outcome})
    if batch.outcome == "replayed":
        return  # its rows have been counted
    meters.batch_snapshots.add(batch.snapshots, labels)
    meters.batch_rows.add(batch.rows or 0, labels)
    meters.batch_bytes.add(batch.size or 0, labels)
    if batch.behind is not None:
        meters.behind.set(batch.behind, labels)


class Traced:
    """Watches one commit: a span for the commit, below it one per attempt and wait, and below those one per phase and request."""

    def __init__(self, about: About) -> None:
        self._tracer = trace.get_tracer(SCOPE)
        self._about, self._meters = about, instruments()
        attributes: dict[str, Any] = {
            "lakelatch.table": about.table,
            "lakelatch.branch": about.branch,
            "lakelatch.commit": about.commit,
            "lakelatch.commit_user": about.commit_user,
            "lakelatch.kind": about.kind,
        }
        if about.identifier is not None:
            attributes["lakelatch.identifier"] = about.identifier
        self._whole = self._tracer.start_span(f"lakelatch.{about.doing}", attributes=attributes)
        self._attempt: Span | None = None
        self._phase: Span | None = None
        self._phase_name = ""
        self._number = 0
        self._over = False

    def happened(self, event: Event, state: CommitState) -> None:
        """Move on to the span of the phase that the event led to; problems are noted on the span in which they occurred."""
        if self._over:
            return  # the hint: its caller has its answer already
        if isinstance(event, TROUBLE):
            (self._phase or self._whole).add_event(type(event).__name__, _told(event))
        if isinstance(event, ev.RidersChosen):
            self._whole.set_attribute("lakelatch.riders", len(event.riders))
        if isinstance(event, ev.LatestResolved) and event.aboard is not None:
            self._whole.set_attribute("lakelatch.carried", True)
        self._count_retry(event, state)
        name = _NAMES.get(state.phase, "")
        if state.attempt != self._number or (name == "wait" and self._attempt is not None):
            self._end_attempt()
        if name == "wait":
            self._begin_phase(name, self._whole)
            return
        if self._attempt is None and name:
            self._number = state.attempt
            numbered = {"lakelatch.attempt": state.attempt}
            self._attempt = self._tracer.start_span("lakelatch.attempt", _below(self._whole), attributes=numbered)
        if name and self._attempt is not None:
            self._begin_phase(name, self._attempt)

    def _begin_phase(self, name: str, parent: Span) -> None:
        if name == self._phase_name:
            return
        if self._phase is not None:
            self._phase.end()
        self._phase, self._phase_name = self._tracer.start_span(f"lakelatch.{name}", _below(parent)), name

    def _end_attempt(self) -> None:
        for span in (self._phase, self._attempt):
            if span is not None:
                span.end()
        self._phase = self._attempt = None
        self._phase_name = ""

    def _count_retry(self, event: Event, state: CommitState) -> None:
        reason = RETRY_REASONS.get(type(event))
        if reason is not None and state.outcome is None:
            self._meters.retries.add(1, {"lakelatch.reason": reason})

    def requested(self, request: StoreRequest) -> None:
        """A span that has already ended; several requests in one call share one span."""
        labels = {"lakelatch.operation": request.operation, "lakelatch.outcome": request.outcome}
        self._meters.requests.add(request.requests, labels)
        self._meters.request_s.record(request.seconds, labels)
        ended_ns = time.time_ns()
        span = self._tracer.start_span(
            f"lakelatch.request {request.operation}",
            _below(self._phase or self._whole),
            kind=SpanKind.CLIENT,
            attributes={
                **labels,
                "lakelatch.key": request.key,
                "lakelatch.requests": request.requests,
                "lakelatch.sent_bytes": request.sent,
                "lakelatch.received_bytes": request.received,
            },
            start_time=ended_ns - int(request.seconds * 1e9),
        )
        span.end(ended_ns)

    def ended(self, how: Ended) -> None:
        """End the open spans, with an error status if the commit did not land."""
        self._over = True
        self._end_attempt()
        labels = {
            "lakelatch.outcome": how.outcome,
            "lakelatch.kind": self._about.kind,
            "lakelatch.doing": self._about.doing,
        }
        self._meters.commits.add(1, labels)
        self._meters.commit_s.record(how.seconds, labels)
        self._whole.set_attributes({"lakelatch.outcome": how.outcome, "lakelatch.attempts": how.attempts})
        if how.snapshot_id is not None:
            self._whole.set_attribute("lakelatch.snapshot_id", how.snapshot_id)
        if not how.landed:
            self._whole.set_status(Status(StatusCode.ERROR, f"{how.outcome}: {how.reason}"))
        self._whole.end()


def _told(event: Event) -> dict[str, str | int | bool]:
    fields = event_json(event).items()
    return {f"lakelatch.{name}": value for name, value in fields if name != "event" and isinstance(value, str | int)}


def _below(span: Span) -> Context:
    return trace.set_span_in_context(span)
