"""The reports that watchers get: attributes, labels and times of spans and metrics, and the fields of records."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import pytest
from exported import Exported
from opentelemetry.sdk.trace import ReadableSpan

from lakelatch.backends.around.metered import StoreRequest
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.machine import CommitState, Phase, Repeats
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.watching.batches import StreamBatch
from lakelatch.coordinator.watching.logs import COMMIT_LOG, REQUEST_LOG, Logged, somebody_reads
from lakelatch.coordinator.watching.observe import Watch, watch
from lakelatch.coordinator.watching.telemetry import RETRY_REASONS, Instruments, Traced, count_batch, instruments
from lakelatch.coordinator.watching.watcher import About, Ended

ABOUT = About("commit", "0123456789abcdef", "s3://lake/t", "dev", "etl", 7, "APPEND")
REQUEST = StoreRequest("get", "snapshot/snapshot-1", "ok", requests=2, sent=3, received=4, seconds=0.25)
OURS = SnapshotRef(5, "ours")


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    return Exported(monkeypatch)


def at(phase: Phase, attempt: int = 1) -> CommitState:
    return CommitState(phase=phase, repeats=Repeats(attempt=attempt))


def named(exported: Exported, name: str) -> ReadableSpan:
    (found,) = [span for span in exported.spans() if span.name == f"lakelatch.{name}"]
    return found


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("lakelatch."): value for name, value in (span.attributes or {}).items()}


def test_the_span_of_a_commit_names_it_and_its_outcome(exported: Exported) -> None:
    Traced(ABOUT).ended(Ended("committed", 0.5, 9, "", 2))
    span = named(exported, "commit")
    assert attributes(span) == {
        "table": "s3://lake/t",
        "branch": "dev",
        "commit": "0123456789abcdef",
        "commit_user": "etl",
        "kind": "APPEND",
        "identifier": 7,
        "outcome": "committed",
        "attempts": 2,
        "snapshot_id": 9,
    }
    assert span.status.is_unset
    labels = exported.metrics()
    assert labels["lakelatch.commits"] == labels["lakelatch.commit.duration"] == {("commit", "APPEND", "committed"): 1}


def test_a_span_without_identifier_or_snapshot_leaves_them_out(exported: Exported) -> None:
    Traced(replace(ABOUT, identifier=None, doing="resolve")).ended(Ended("commit-conflict", 0.5, None, "a reason", 1))
    span = named(exported, "resolve")
    assert not {"identifier", "snapshot_id"} & set(attributes(span))
    assert not span.status.is_ok
    assert span.status.description == "commit-conflict: a reason"


@pytest.mark.parametrize(("outcome", "landed"), [("committed", True), ("replayed", True), ("outcome-unknown", False)])
def test_which_outcomes_landed(exported: Exported, outcome: str, landed: bool) -> None:
    how = Ended(outcome, 0.1)
    assert how.landed is landed
    Traced(ABOUT).ended(how)
    assert named(exported, "commit").status.is_ok is landed


def test_a_request_is_a_span_of_its_own_with_its_time(exported: Exported) -> None:
    traced = Traced(ABOUT)
    before_ns = time.time_ns()
    traced.requested(REQUEST)
    after_ns = time.time_ns()
    traced.happened(ev.CommitRequested("etl", 7, "APPEND", True), at(Phase.COLLECT))
    traced.requested(REQUEST)
    traced.ended(Ended("committed", 0.5))
    under_nothing, under_collect = (s for s in exported.spans() if s.name == "lakelatch.request get")
    assert attributes(under_nothing) == {
        "operation": "get",
        "outcome": "ok",
        "key": "snapshot/snapshot-1",
        "requests": 2,
        "sent_bytes": 3,
        "received_bytes": 4,
    }
    assert under_nothing.kind.name == "CLIENT"
    assert under_nothing.start_time and under_nothing.end_time
    assert before_ns <= under_nothing.end_time <= after_ns
    assert under_nothing.end_time - under_nothing.start_time == 250_000_000
    assert parent(under_nothing) == named(exported, "commit").context.span_id
    assert parent(under_collect) == named(exported, "collect").context.span_id
    metrics = exported.metrics()
    assert metrics["lakelatch.requests"] == {("get", "ok"): 4}
    assert metrics["lakelatch.request.duration"] == {("get", "ok"): 2}


def parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def test_spans_follow_the_phases(exported: Exported) -> None:
    """One span per phase, however many events it has; a wait belongs to the commit, not to an attempt."""
    traced, aged = Traced(ABOUT), ev.ChangesCollected(1, 0)
    for phase, attempt in (
        *((Phase.COLLECT, 1), (Phase.COLLECT, 1), (Phase.COMPACT_MANIFESTS, 1), (Phase.BASE_LIST, 1)),
        *((Phase.DELTA_LIST, 1), (Phase.PUBLISH, 1), (Phase.RETRY, 1), (Phase.RETRY, 1)),
        *((Phase.COLLECT, 2), (Phase.PUBLISH, 2), (Phase.VERIFY, 2), (Phase.DONE, 2)),
    ):
        traced.happened(aged, at(phase, attempt))
    traced.ended(Ended("committed", 0.5, 9, "", 2))
    traced.happened(aged, at(Phase.COLLECT, 3))
    assert traced._attempt is None, "no span begins that nobody would end"
    spans = exported.spans()
    assert [span.name.removeprefix("lakelatch.") for span in spans] == [
        *("collect", "compact manifests", "upload", "publish", "attempt", "wait"),
        *("collect", "publish", "verify", "attempt", "commit"),
    ]
    ids = {span.context.span_id: span.name.removeprefix("lakelatch.") for span in spans}
    above = [ids[span.parent.span_id] for span in spans if span.parent is not None]
    assert above == [*["attempt"] * 4, "commit", "commit", *["attempt"] * 3, "commit"]
    numbers = [attributes(span)["attempt"] for span in spans if span.name == "lakelatch.attempt"]
    assert numbers == [1, 2]


def test_a_base_that_aged_begins_another_attempt_without_a_wait(exported: Exported) -> None:
    traced = Traced(ABOUT)
    traced.happened(ev.ChangesCollected(1, 0), at(Phase.PUBLISH, 1))
    traced.happened(ev.BaseAged(), at(Phase.COLLECT, 2))
    traced.ended(Ended("committed", 0.5))
    assert [s.name.removeprefix("lakelatch.") for s in exported.spans()] == [
        *("publish", "attempt", "collect", "attempt", "commit")
    ]


def test_trouble_is_noted_on_the_span_where_it_occurred(exported: Exported) -> None:
    traced = Traced(ABOUT)
    traced.happened(ev.ResolveFailed("store-unavailable", "no answer"), at(Phase.DONE))
    traced.happened(ev.CommitRequested("etl", 7, "APPEND", True), at(Phase.COLLECT))
    traced.happened(ev.ChangesCollected(1, 0), at(Phase.PUBLISH))
    traced.happened(ev.FoundAnother(OURS, "somebody"), at(Phase.RETRY))
    traced.ended(Ended("committed", 0.5))
    assert [event.name for event in named(exported, "commit").events] == ["ResolveFailed"]
    (met,) = named(exported, "publish").events
    assert met.name == "FoundAnother"
    assert (met.attributes or {})["lakelatch.user"] == "somebody"
    assert "lakelatch.event" not in (met.attributes or {})
    assert not any(isinstance(value, dict) for value in (met.attributes or {}).values())
    assert named(exported, "collect").events == ()


def test_riders_and_a_ride_are_attributes_of_the_commit(exported: Exported) -> None:
    leads, rides = Traced(ABOUT), Traced(replace(ABOUT, doing="resolve"))
    leads.happened(ev.RidersChosen(0, ("a", "b")), at(Phase.GATHER))
    leads.happened(ev.LatestResolved(OURS, "uuid", 0), at(Phase.COLLECT))
    rides.happened(ev.LatestResolved(OURS, "", 0, aboard=OURS), at(Phase.VERIFY))
    for traced in (leads, rides):
        traced.ended(Ended("committed", 0.5))
    assert attributes(named(exported, "commit"))["riders"] == 2
    assert "carried" not in attributes(named(exported, "commit"))
    assert attributes(named(exported, "resolve"))["carried"] is True
    assert "riders" not in attributes(named(exported, "resolve"))
    assert named(exported, "look for riders").end_time


PHASES = {
    Phase.COLLECT: "collect",
    Phase.REGISTER: "register intent",
    Phase.GATHER: "look for riders",
    Phase.RIDE: "ride",
    Phase.COMPACT_MANIFESTS: "compact manifests",
    Phase.BASE_LIST: "upload",
    Phase.DELTA_LIST: "upload",
    Phase.PUBLISH: "publish",
    Phase.VERIFY: "verify",
}
"""As docs/observability.md lists them; a wait is below no attempt."""


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: str(phase.value))
def test_each_phase_has_its_span(exported: Exported, phase: Phase) -> None:
    traced = Traced(ABOUT)
    traced.happened(ev.ChangesCollected(1, 0), at(phase))
    traced.ended(Ended("committed", 0.5))
    assert parent(named(exported, PHASES[phase])) == named(exported, "attempt").context.span_id


def test_an_attempt_that_begins_in_the_phase_in_which_the_last_one_ended_has_its_own_span(exported: Exported) -> None:
    traced = Traced(ABOUT)
    for attempt in (1, 2):
        traced.happened(ev.BaseAged(), at(Phase.COLLECT, attempt))
    traced.ended(Ended("committed", 0.5))
    assert [s.name.removeprefix("lakelatch.") for s in exported.spans()] == [
        *("collect", "attempt", "collect", "attempt", "commit")
    ]


def test_metrics_have_units(exported: Exported) -> None:
    traced = Traced(ABOUT)
    traced.requested(REQUEST)
    traced.happened(ev.BaseAged(), at(Phase.COLLECT))
    traced.ended(Ended("committed", 0.5))
    count_batch(StreamBatch("read", "lake/t", "planned", 7, snapshots=2, behind=3, rows=10, size=99))
    data = exported._metrics.get_metrics_data()
    assert data is not None
    found = [m for resource in data.resource_metrics for scope in resource.scope_metrics for m in scope.metrics]
    assert {metric.name.removeprefix("lakelatch."): metric.unit for metric in found} == {
        "commits": "{commit}",
        "commit.duration": "s",
        "retries": "{retry}",
        "requests": "{request}",
        "request.duration": "s",
        "stream.batches": "{batch}",
        "stream.snapshots": "{snapshot}",
        "stream.rows": "{row}",
        "stream.bytes": "By",
        "stream.behind": "{snapshot}",
    }


def test_a_process_has_its_metrics_once() -> None:
    assert isinstance(instruments(), Instruments)
    assert instruments() is instruments()


def test_an_end_that_tells_no_more() -> None:
    assert Ended("committed", 0.5) == Ended("committed", 0.5, snapshot_id=None, reason="", attempts=0)


@pytest.mark.parametrize("name", ["commit", "request"])
def test_durations_are_counted_from_milliseconds_to_minutes(exported: Exported, name: str) -> None:
    """The SDK's own bounds are for milliseconds: every commit would fall below the first of them."""
    traced = Traced(ABOUT)
    traced.requested(REQUEST)
    traced.ended(Ended("committed", 0.5))
    data = exported._metrics.get_metrics_data()
    assert data is not None
    (found,) = (
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == f"lakelatch.{name}.duration"
    )
    assert found.unit == "s"
    (point,) = found.data.data_points
    bounds: Any = getattr(point, "explicit_bounds", None)
    assert list(bounds) == [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0]


REPEATS: dict[type[ev.Event], str] = {
    ev.RetryGranted: "lost race",
    ev.BaseAged: "base too old",
    ev.FoundNothing: "nothing landed",
    ev.ReadBackFailed: "no answer to a look",
    ev.LineageUnread: "no answer to a look",
}
"""As docs/observability.md lists them."""


@pytest.mark.parametrize(("kind", "reason"), list(REPEATS.items()), ids=lambda value: str(value))
def test_retries_are_counted_by_reason(exported: Exported, kind: Callable[..., ev.Event], reason: str) -> None:
    """Only where the commit goes on after them."""
    arguments: dict[Any, tuple[Any, ...]] = {ev.RetryGranted: (5,), ev.ReadBackFailed: ("x",), ev.LineageUnread: ("x",)}
    event, traced = kind(*arguments.get(kind, ())), Traced(ABOUT)
    traced.happened(event, at(Phase.COLLECT))
    traced.happened(event, replace(at(Phase.DONE), outcome=do.Undecided(OURS, "why")))
    traced.happened(ev.HintSkipped("late"), at(Phase.COLLECT))
    assert exported.metrics()["lakelatch.retries"] == {(reason,): 1}
    assert REPEATS == RETRY_REASONS


@pytest.fixture
def records(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str, dict[str, Any]]]]:
    """Level, text and dict of each record."""
    caplog.set_level(logging.DEBUG, logger="lakelatch")
    return lambda: [(r.levelname, r.getMessage(), vars(r)["lakelatch"]) for r in caplog.records]


HEAD = {
    "doing": "commit",
    "commit": "0123456789abcdef",
    "table": "s3://lake/t",
    "branch": "dev",
    "commit_user": "etl",
    "identifier": 7,
    "kind": "APPEND",
}


def test_records_of_events(records: Any) -> None:
    logged = Logged(ABOUT)
    logged.happened(ev.ChangesCollected(3, 1), at(Phase.COLLECT, 2))
    logged.happened(ev.AnswerLost("silence"), at(Phase.PUBLISH, 2))
    logged.happened(ev.SnapshotPrepared(OURS, None, "the bytes"), at(Phase.PUBLISH))
    who = "commit 01234567 of s3://lake/t: "
    quiet, trouble, prepared = records()
    assert quiet == ("DEBUG", f"{who}ChangesCollected added=3 deleted=1", quiet[2])
    assert quiet[2] == {**HEAD, "at": "ChangesCollected", "phase": "collect", "attempt": 2, "added": 3, "deleted": 1}
    assert trouble[:2] == ("INFO", f"{who}AnswerLost reason=silence")
    assert "text" not in prepared[2] and "the bytes" not in prepared[1]


def test_records_of_requests(records: Any) -> None:
    Logged(ABOUT).requested(REQUEST)
    (told,) = records()
    assert told[:2] == ("DEBUG", "commit 01234567 of s3://lake/t: get snapshot/snapshot-1: ok in 250.0 ms")
    assert told[2].items() >= {**HEAD, "at": "StoreRequest", "operation": "get", "seconds": 0.25}.items()


@pytest.mark.parametrize(
    ("how", "level", "said"),
    [
        (Ended("committed", 0.0124, 9, "", 1), "INFO", "committed, snapshot 9 after 1 attempt in 12 ms"),
        (Ended("commit-conflict", 1.0, None, "why", 2), "INFO", "commit-conflict after 2 attempts in 1000 ms: why"),
        (
            Ended("outcome-unknown", 1.0, 9, "why", 2),
            "WARNING",
            "outcome-unknown, snapshot 9 after 2 attempts in 1000 ms: why",
        ),
    ],
    ids=lambda value: value.outcome if isinstance(value, Ended) else "",
)
def test_records_of_ends(records: Any, how: Ended, level: str, said: str) -> None:
    Logged(ABOUT).ended(how)
    assert records() == [(level, f"commit 01234567 of s3://lake/t: {said}", {**HEAD, "at": "Ended", **asdict(how)})]


def test_no_record_is_made_for_a_disabled_level(caplog: pytest.LogCaptureFixture) -> None:
    logged = Logged(ABOUT)
    with caplog.at_level(logging.INFO, logger="lakelatch"):
        logged.happened(ev.ChangesCollected(3, 1), at(Phase.COLLECT))
        logged.requested(REQUEST)
        assert caplog.records == []
        logged.happened(ev.AnswerLost("silence"), at(Phase.PUBLISH))
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("commit", "request_", "reads"),
    [
        (logging.WARNING, logging.WARNING, False),
        (logging.INFO, logging.WARNING, True),
        (logging.WARNING, logging.DEBUG, True),
        (logging.WARNING, logging.INFO, False),
    ],
)
def test_which_loggers_are_enabled(caplog: pytest.LogCaptureFixture, commit: int, request_: int, reads: bool) -> None:
    with caplog.at_level(commit, logger=COMMIT_LOG.name), caplog.at_level(request_, logger=REQUEST_LOG.name):
        assert somebody_reads() is reads


class Listening:
    """A watcher that keeps its notifications, or raises."""

    def __init__(self, raises: type[BaseException] | None = None) -> None:
        self.told: list[Any] = []
        self._raises = raises

    def _hear(self, *what: Any) -> None:
        self.told.append(what[0])
        if self._raises is not None:
            raise self._raises("of a watcher")

    happened = requested = ended = _hear


def test_each_watcher_is_notified_until_it_raises() -> None:
    """H17: a watcher that raises is no longer notified, and nothing else happens."""
    broken, fine = Listening(ValueError), Listening()
    watching = Watch([broken, fine], lambda: 0.0)
    for event in (ev.ChangesCollected(1, 0), ev.ChangesCollected(2, 0)):
        watching.happened(event, at(Phase.COLLECT))
    watching.requested(REQUEST)
    assert broken.told == [ev.ChangesCollected(1, 0)]
    assert fine.told == [ev.ChangesCollected(1, 0), ev.ChangesCollected(2, 0), REQUEST]


def test_a_watcher_that_raises_in_two_threads_at_once_disturbs_neither() -> None:
    """Each of them finds that it is to be left out, and one comes second."""

    class Twice(Listening):
        def _hear(self, *what: Any) -> None:
            watching._watchers.clear()  # the other thread
            raise ValueError("of a watcher")

        happened = requested = ended = _hear

    watching = Watch([Twice()], lambda: 0.0)
    watching.requested(REQUEST)
    assert watching.heard is None


def test_requests_are_reported_only_if_a_watcher_wants_them() -> None:
    listening = Listening()
    assert Watch([], lambda: 0.0).heard is None
    heard = Watch([listening], lambda: 0.0).heard
    assert heard is not None
    heard(REQUEST)
    assert listening.told == [REQUEST]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (do.Committed(OURS, replayed=False), Ended("committed", 2.5, 5, "", 3)),
        (do.Committed(OURS, replayed=True), Ended("replayed", 2.5, 5, "", 3)),
        (do.NotCommitted("commit-conflict", "why"), Ended("commit-conflict", 2.5, None, "why", 3)),
        (do.Undecided(OURS, "why"), Ended("outcome-unknown", 2.5, 5, "why", 3)),
    ],
    ids=lambda value: getattr(value, "outcome", ""),
)
def test_the_end_is_reported_once(outcome: Any, told: Ended) -> None:
    clock, listening = iter([100.0, 102.5, 104.0]), Listening()
    with pytest.raises(RuntimeError), Watch([listening], lambda: next(clock)) as watching:
        watching.ended(outcome, 3)
        raise RuntimeError("after the end")
    assert listening.told == [told]


def test_an_error_is_an_end_too() -> None:
    class Coded(Exception):
        code = "a-code"

    for error, outcome in ((Coded(), "a-code"), (KeyError(), "KeyError")):
        clock, listening = iter([1.0, 2.0]), Listening()
        with pytest.raises(type(error)), Watch([listening], lambda: next(clock)):  # noqa: B023
            raise error
        assert listening.told == [Ended(outcome, 1.0)]
    with Watch([listening := Listening()], lambda: 0.0):
        pass
    assert listening.told == []


def test_without_loggers_but_with_opentelemetry_there_is_one_watcher(
    exported: Exported, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="lakelatch"):
        with watch(ABOUT, lambda: 0.0) as watching:
            assert watching.heard is not None
            watching.ended(do.Committed(OURS, replayed=False), 1)
        assert caplog.records == []
    assert attributes(named(exported, "commit"))["snapshot_id"] == 5


@pytest.mark.parametrize("module", ["opentelemetry.trace", "opentelemetry.metrics"])
def test_either_part_of_opentelemetry_is_enough(
    exported: Exported, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, module: str
) -> None:
    import sys

    other = {"opentelemetry.trace": "opentelemetry.metrics", "opentelemetry.metrics": "opentelemetry.trace"}[module]
    with caplog.at_level(logging.ERROR, logger="lakelatch"):
        monkeypatch.delitem(sys.modules, other)
        assert watch(ABOUT, lambda: 0.0).heard is not None
        monkeypatch.delitem(sys.modules, module)
        assert watch(ABOUT, lambda: 0.0).heard is None
