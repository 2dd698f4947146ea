"""What streams of Spark report of their batches, in the steps in which Spark calls them. No session is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from passing_time import Clock
from pyspark.sql import types as spark

import lakelatch as ll
from lakelatch.coordinator.watching.batches import LOG_VARIABLE
from lakelatch.core.errors import InvalidArgument
from lakelatch.spark.options.source_options import SourceOptions
from lakelatch.spark.streams import reader as streams
from lakelatch.spark.streams.reader import TableStreamReader
from lakelatch.spark.streams.writer import BatchMessage, StreamSourceWriter
from lakelatch.table.writing.writer import TableWriter

SCHEMA = spark.StructType().add("v", spark.LongType())
ROWS = pa.table({"v": [1, 2]})


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    return ll.create_table(str(tmp_path / "table"), ROWS.schema)


@pytest.fixture
def lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The lines that were reported so far."""
    path = tmp_path / "log"
    monkeypatch.setenv(LOG_VARIABLE, str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_a_stream_that_reads_tells_how_far_it_is_behind(table: ll.Table, lines: Any) -> None:
    """Three snapshots with a limit of two: one is left. The empty range after a restart is no batch."""
    for _ in range(3):
        table.append(ROWS)
    options = {"path": table.url, "from": "earliest", "maxsnapshotspertrigger": "2"}
    reader = TableStreamReader(options, None, SCHEMA)
    start = reader.initialOffset()
    first = reader.latestOffset()
    reader.partitions(start, first)
    reader.partitions(first, first)
    reader.partitions(first, reader.latestOffset(first))
    told = [(line["snapshot_id"], line["snapshots"], line["rows"], line["behind"]) for line in lines()]
    assert told == [(2, 2, 4, 1), (3, 1, 2, 0)]
    assert all(line["doing"] == "read" and line["size"] > 100 for line in lines())


@pytest.mark.parametrize(("poll", "seconds"), [(None, 1.0), ("250 ms", 0.25), ("1 min", 60.0)])
def test_an_idle_stream_looks_no_more_often_than_its_option_says(
    table: ll.Table, monkeypatch: pytest.MonkeyPatch, poll: str | None, seconds: float
) -> None:
    """Spark asks again at once. A stream that is behind does not wait, nor one that reads up to what is there."""
    clock = Clock()
    monkeypatch.setattr(streams, "MACHINE", clock)
    for _ in range(3):
        table.append(ROWS)
    options = {"path": table.url, "from": "earliest", "maxsnapshotspertrigger": "1"} | ({"poll": poll} if poll else {})
    reader = TableStreamReader(options, None, SCHEMA)
    at = reader.initialOffset()
    for _ in range(3):
        at = reader.latestOffset(at)
    assert clock.now_s == 100.0 and at["snapshot"] == 3
    for looks in range(1, 6):
        assert reader.latestOffset(at) == at
        assert clock.now_s == pytest.approx(100.0 + looks * seconds)
    reader.prepareForTriggerAvailableNow()
    reader.latestOffset(at)
    assert clock.now_s == pytest.approx(100.0 + 5 * seconds)


@pytest.mark.parametrize("poll", ["0 s", "-1 s", "soon", ""])
def test_a_pause_that_is_none_is_refused(table: ll.Table, poll: str) -> None:
    with pytest.raises(InvalidArgument, match="poll"):
        TableStreamReader({"path": table.url, "poll": poll}, None, SCHEMA).initialOffset()


def test_a_stream_that_writes_names_its_replays(table: ll.Table, lines: Any) -> None:
    made = TableWriter(table.store, table.schema, "job", travelling=True)
    made.write_batch(ROWS.to_batches()[0])
    messages = made.finish()
    for number in (0, 0):
        StreamSourceWriter(SourceOptions({"path": table.url}), SCHEMA, False).commit(
            [BatchMessage(list(messages), "q-1")], number
        )
    told = [(line["doing"], line["batch"], line["query"], line["outcome"], line["rows"]) for line in lines()]
    assert told == [("write", 0, "q-1", "committed", 2), ("write", 0, "q-1", "replayed", 2)]
    assert table.count() == 2
