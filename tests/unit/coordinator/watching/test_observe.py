"""Watched commits: log records, spans and metrics of their events, and nothing unless it was asked for."""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from exported import Exported

import lakelatch as ll
from lakelatch.backends.around.faulty import Faults, FaultyStore
from lakelatch.backends.local import LocalStore
from lakelatch.table.table import Table

ROWS = pa.table({"v": [1]})


@pytest.fixture
def url(tmp_path: Path) -> str:
    ll.create_table(str(tmp_path / "table"), ROWS.schema)
    return str(tmp_path / "table")


def one_race_lost(url: str) -> ll.Receipt:
    """A commit of a writer that does not know of another writer's newer snapshot."""
    ours, theirs = ll.open_table(url), ll.open_table(url)
    ours.append(ROWS)
    theirs.append(ROWS)
    receipt = ours.append(ROWS, commit_user="etl", identifier=7)
    ours.committer.settle()
    return receipt


def losing_answers(url: str, **faults: float) -> Table:
    """The table on a store that carries out creates of snapshots without answering them."""
    table = ll.open_table(url)
    table.append(ROWS)  # the probe is a create, too
    store = FaultyStore(LocalStore(url), 1, {"put_if_absent": Faults(**faults)})
    return Table(store, table.schema)


def test_a_lost_race_in_the_log(url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A record for each event and request; INFO shows how it ended, and why it needed a second attempt."""
    with caplog.at_level(logging.DEBUG, logger="lakelatch"):
        receipt = one_race_lost(url)
    told: list[dict[str, Any]] = [r.lakelatch for r in caplog.records if r.lakelatch["commit_user"] == "etl"]  # type: ignore[attr-defined]
    assert len([json.dumps(line) for line in told]) > 20
    events = [line["at"] for line in told if line["at"] != "StoreRequest"]
    assert [e for e in events if e in ("PublishRefused", "FoundAnother", "RetryGranted", "SnapshotPublished")] == [
        "PublishRefused",
        "FoundAnother",
        "RetryGranted",
        "SnapshotPublished",
    ]
    assert events[0] == "CommitRequested"
    assert {"Ended", "HintWritten"} <= set(events)
    assert all(line["table"] == url and line["identifier"] == 7 for line in told)
    (end,) = [line for line in told if line["at"] == "Ended"]
    assert (end["outcome"], end["snapshot_id"], end["attempts"]) == ("committed", receipt.snapshot_id, 2)
    creates = [line for line in told if line.get("operation") == "put_if_absent"]
    assert [(line["key"], line["outcome"]) for line in creates] == [
        ("snapshot/snapshot-2", "already there"),
        ("snapshot/snapshot-3", "created"),
    ]
    shown = [r for r in caplog.records if r.levelno >= logging.INFO and "etl" in repr(r.__dict__)]
    assert [r.lakelatch["at"] for r in shown] == ["FoundAnother", "Ended"]  # type: ignore[attr-defined]
    assert (
        shown[-1]
        .getMessage()
        .startswith(f"commit {end['commit'][:8]} of {url}: committed, snapshot 3 after 2 attempts")
    )
    assert "commitUser" not in caplog.text, "a snapshot's bytes are not logged"


def test_spans_and_metrics_of_a_lost_race(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span for the commit; below it two attempts with their phases, and the wait between; requests below their phase."""
    exported = Exported(monkeypatch)
    receipt = one_race_lost(url)
    spans = exported.spans()
    (whole,) = [
        s for s in spans if s.name == "lakelatch.commit" and dict(s.attributes or {}).get("lakelatch.identifier") == 7
    ]
    by_id = {s.context.span_id: s for s in spans if s.context.trace_id == whole.context.trace_id}

    def path(span: Any) -> str:
        above = f"{path(by_id[span.parent.span_id])} > " if span.parent is not None else ""
        number = span.attributes.get("lakelatch.attempt", "")
        return f"{above}{span.name.removeprefix('lakelatch.')}{number}"

    phases = [path(s) for s in by_id.values() if s.kind.name == "INTERNAL"]
    one = ("collect", "compact manifests", "upload", "publish")
    assert phases == [
        *(f"commit > attempt1 > {phase}" for phase in one),
        "commit > attempt1",
        "commit > wait",
        *(f"commit > attempt2 > {phase}" for phase in (*one, "verify")),
        "commit > attempt2",
        "commit",
    ]
    assert whole.attributes is not None
    assert (whole.attributes["lakelatch.outcome"], whole.attributes["lakelatch.attempts"]) == ("committed", 2)
    assert whole.attributes["lakelatch.snapshot_id"] == receipt.snapshot_id
    (lost,) = [s for s in by_id.values() if path(s).endswith("attempt1 > publish")]
    assert [e.name for e in lost.events] == ["FoundAnother"]
    requests = Counter(path(s) for s in by_id.values() if s.kind.name == "CLIENT")
    assert requests["commit > attempt1 > publish > request put_if_absent"] == 1
    assert requests["commit > attempt1 > upload > request put"] == 4
    assert all(s.start_time <= s.end_time for s in by_id.values() if s.start_time and s.end_time)
    kinds = {("commit", "APPEND", "committed"): 3}
    metrics = exported.metrics()
    assert metrics["lakelatch.commits"] == metrics["lakelatch.commit.duration"] == kinds
    assert metrics["lakelatch.retries"] == {("lost race",): 1}
    assert metrics["lakelatch.requests"]["put_if_absent", "created"] == 4, "EARLIEST is one of them"
    assert metrics["lakelatch.requests"]["put_if_absent", "already there"] == 1


def test_a_lost_answer(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2: the publish is reported as unknown, the read-back with its result, and the commit as landed."""
    exported = Exported(monkeypatch)
    receipt = losing_answers(url, lost=1.0).append(ROWS, commit_user="etl", identifier=1)
    (publish,) = [s for s in exported.spans() if [e.name for e in s.events] == ["AnswerLost"]]
    assert publish.name == "lakelatch.publish"
    metrics = exported.metrics()
    assert metrics["lakelatch.requests"]["put_if_absent", "unknown"] == 1
    assert metrics["lakelatch.commits"] == {("commit", "APPEND", "committed"): 2}
    assert receipt.attempts == 1
    assert "lakelatch.retries" not in metrics


def test_an_unknown_outcome_and_its_resolution(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The unknown outcome is reported with an error status, and its resolution as a span of its own."""
    exported = Exported(monkeypatch)
    table = losing_answers(url, error=1.0)
    with caplog.at_level(logging.INFO, logger="lakelatch"), pytest.raises(ll.OutcomeUnknown) as unknown:
        table.append(ROWS, commit_user="etl", identifier=1)
    ended = [r for r in caplog.records if r.lakelatch["at"] == "Ended"]  # type: ignore[attr-defined]
    assert [(r.levelname, r.lakelatch["outcome"]) for r in ended] == [("WARNING", "outcome-unknown")]  # type: ignore[attr-defined]
    table.store.plan.clear()  # type: ignore[attr-defined]
    assert unknown.value.resolve().snapshot_id == 2
    whole = [s for s in exported.spans() if s.name in ("lakelatch.commit", "lakelatch.resolve")][-2:]
    assert [(s.name, s.status.is_ok) for s in whole] == [("lakelatch.commit", False), ("lakelatch.resolve", True)]
    commits = exported.metrics()["lakelatch.commits"]
    assert commits["commit", "APPEND", "outcome-unknown"] == commits["resolve", "APPEND", "committed"] == 1
    assert exported.metrics()["lakelatch.retries"]["nothing landed",] == 2


def test_a_watcher_that_raises_changes_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """H17: a failing filter of the application loses its own records, and no commit."""

    def broken(record: logging.LogRecord) -> bool:
        raise RuntimeError("a filter's own fault")

    logger = logging.getLogger("lakelatch.commit")
    monkeypatch.setattr(logger, "filters", [broken])
    exported = Exported(monkeypatch)
    with caplog.at_level(logging.DEBUG, logger=logger.name):
        assert one_race_lost(url).snapshot_id == 3
    assert exported.metrics()["lakelatch.commits"] == {("commit", "APPEND", "committed"): 3}


SILENT = """
import sys, time
began = time.perf_counter()
import lakelatch as ll
took = time.perf_counter() - began
assert took < 0.3, took
import pyarrow as pa
table = ll.create_table("table", pa.schema([("v", pa.int64())]))
table.append(pa.table({"v": [1]}))
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""
WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
"""


@pytest.mark.parametrize("before", ["", WITHOUT], ids=["installed", "not installed"])
def test_nothing_is_imported_or_printed_by_default(before: str, tmp_path: Path) -> None:
    """`import lakelatch` stays quick, and OpenTelemetry is not needed."""
    done = subprocess.run(
        [sys.executable, "-c", before + SILENT], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_program_that_configures_no_logging_sees_nothing() -> None:
    """Without a handler of its own, Python would print warnings to stderr."""
    importlib.import_module("lakelatch.coordinator.watching.logs")
    for name in ("lakelatch.commit", "lakelatch.request"):
        assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger(name).handlers)
