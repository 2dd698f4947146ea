"""Batches of streams as log records, lines of a file and metrics; nothing of it can disturb a stream (H17)."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from exported import Exported

import lakelatch as ll
from lakelatch.coordinator.watching import telemetry
from lakelatch.coordinator.watching.batches import LOG_VARIABLE, StreamBatch, report_batch

READ = StreamBatch("read", "lake/t", "planned", 7, snapshots=2, behind=3, rows=10, size=99)
ROWS = pa.table({"v": [1, 2]})


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Exported:
    return Exported(monkeypatch)


def test_what_was_read_is_counted_and_how_far_the_stream_is_behind(exported: Exported) -> None:
    report_batch(READ)
    report_batch(StreamBatch("read", "lake/t", "planned", 10, snapshots=3, behind=0, rows=5, size=1))
    metrics = exported.metrics()
    assert metrics["lakelatch.stream.batches"] == {("read", "planned", "lake/t"): 2}
    sums = {
        name: metrics[f"lakelatch.stream.{name}"][("read", "lake/t")]
        for name in ("snapshots", "rows", "bytes", "behind")
    }
    assert sums == {"snapshots": 5, "rows": 15, "bytes": 100, "behind": 0}


def test_a_replayed_batch_is_named_and_its_rows_are_not_counted_again(exported: Exported) -> None:
    for outcome in ("committed", "replayed"):
        report_batch(StreamBatch("write", "lake/t", outcome, 4, batch=1, query="q", rows=10, size=99))
    metrics = exported.metrics()
    assert metrics["lakelatch.stream.batches"] == {
        ("write", "committed", "lake/t"): 1,
        ("write", "replayed", "lake/t"): 1,
    }
    assert metrics["lakelatch.stream.rows"] == {("write", "lake/t"): 10}
    assert "lakelatch.stream.behind" not in metrics


def test_a_batch_of_unknown_size_is_counted_and_its_rows_are_not(exported: Exported) -> None:
    """Neither is how far the stream is behind."""
    report_batch(StreamBatch("write", "lake/t", "committed", 4, batch=0, query="q"))
    metrics = exported.metrics()
    assert metrics["lakelatch.stream.batches"] == {("write", "committed", "lake/t"): 1}
    sums = [metrics[f"lakelatch.stream.{name}"] for name in ("snapshots", "rows", "bytes")]
    assert sums == [{("write", "lake/t"): 0}] * 3
    assert "lakelatch.stream.behind" not in metrics


@pytest.mark.parametrize("outcome", ["committed", "replayed"])
def test_a_batch_of_which_nothing_is_known_but_its_outcome_is_counted_without_an_error(
    outcome: str, exported: Exported
) -> None:
    """Its rows and bytes count as none, and how far the stream is behind is left open."""
    telemetry.count_batch(StreamBatch("write", "lake/t", outcome, None))
    metrics = exported.metrics()
    assert metrics["lakelatch.stream.batches"] == {("write", outcome, "lake/t"): 1}
    known = {name.rpartition(".")[2]: found for name, found in metrics.items() if name.startswith("lakelatch.stream.")}
    sums = {} if outcome == "replayed" else {name: {("write", "lake/t"): 0} for name in ("snapshots", "rows", "bytes")}
    assert known == {"batches": {("write", outcome, "lake/t"): 1}, **sums}


def test_a_process_without_opentelemetry_has_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = list[StreamBatch]()
    monkeypatch.setattr(telemetry, "count_batch", counted.append)
    report_batch(READ)
    monkeypatch.delitem(sys.modules, "opentelemetry.metrics")
    report_batch(READ)
    assert counted == [READ]


@pytest.mark.parametrize(
    ("batch", "line"),
    [
        (READ, "read of lake/t: planned up to snapshot 7, 2 snapshots, 10 rows, 99 bytes, 3 behind"),
        (
            StreamBatch("follow", "lake/t", "planned", 1, snapshots=1, behind=0, rows=0, size=0),
            "follow of lake/t: planned up to snapshot 1, 1 snapshots, 0 rows, 0 bytes, 0 behind",
        ),
        (
            StreamBatch("write", "lake/t", "committed", 4, batch=0, query="q", rows=10),
            "write of lake/t: batch 0 committed snapshot 4, 10 rows",
        ),
        (StreamBatch("write", "lake/t", "replayed", 4, batch=12), "write of lake/t: batch 12 replayed snapshot 4"),
    ],
    ids=lambda value: value.outcome if isinstance(value, StreamBatch) else "",
)
def test_a_record_says_in_a_line_what_is_known_of_a_batch(
    batch: StreamBatch, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="lakelatch.stream"):
        report_batch(batch)
    (record,) = caplog.records
    assert (record.getMessage(), record.levelname) == (line, "INFO")
    told: dict[str, Any] = record.lakelatch  # type: ignore[attr-defined]
    assert StreamBatch(**told) == batch


def test_lines_of_a_file_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log"
    monkeypatch.setenv(LOG_VARIABLE, str(path))
    with warnings.catch_warnings(action="error"):
        report_batch(READ)
        report_batch(READ)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["doing"], line["snapshots"], line["behind"], line["rows"], line["size"]) for line in lines] == [
        ("read", 2, 3, 10, 99)
    ] * 2


def test_what_listens_cannot_disturb_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H17: a filter that raises, an exporter that raises, a file that cannot be written."""

    asked = []

    def broken(*about: Any) -> Any:
        asked.append(about)
        raise RuntimeError("broken")

    monkeypatch.setenv(LOG_VARIABLE, str(tmp_path / "no" / "folder"))
    monkeypatch.setattr(telemetry, "instruments", broken)
    log = logging.getLogger("lakelatch.stream")
    log.addFilter(broken)
    monkeypatch.setattr(log, "level", logging.INFO)
    log.manager._clear_cache()  # type: ignore[attr-defined]
    try:
        report_batch(READ)
    finally:
        log.removeFilter(broken)
        log.manager._clear_cache()  # type: ignore[attr-defined]
    assert len(asked) == 2, "the filter and the exporter were asked, and the batch went on"


def test_following_reports_each_batch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """How many snapshots are behind each batch, its rows and bytes; a compaction is no batch."""
    table = ll.create_table(str(tmp_path / "table"), ROWS.schema)
    for _ in range(2):
        table.append(ROWS)
    table.compact(full=True)
    table.append(ROWS)
    with caplog.at_level(logging.INFO, logger="lakelatch.stream"):
        read = sum(batch.to_arrow().num_rows for batch in table.follow(start="earliest", wait=0))
    told: list[dict[str, Any]] = [record.lakelatch for record in caplog.records]  # type: ignore[attr-defined]
    assert read == sum(line["rows"] for line in told) == 6
    assert [(line["doing"], line["snapshot_id"], line["behind"], line["rows"]) for line in told] == [
        ("follow", 1, 3, 2),
        ("follow", 2, 2, 2),
        ("follow", 4, 0, 2),
    ]
    assert {line["table"] for line in told} == {table.url}
    assert all(line["size"] > 100 for line in told)


def test_a_batch_without_a_snapshot_is_told_without_a_gap() -> None:
    assert str(StreamBatch("follow", "lake/t", "planned", None, behind=3)) == "follow of lake/t: planned, 3 behind"
