"""The stream writer of the data source in the steps in which Spark calls it, each in a fresh object. No session is started.

A batch is planned, sent to its tasks, written, and committed or aborted; it is repeated as after a crash (G3, H5, H8).
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import types as spark

import lakelatch as ll
from lakelatch.spark.options.source_options import SourceOptions
from lakelatch.spark.streams.writer import QUERY_ID, StreamSourceWriter

ATTEMPTS = itertools.count()
SCHEMA = spark.StructType().add("k", spark.LongType()).add("v", spark.StringType())


@pytest.fixture(autouse=True)
def no_task_left() -> Iterator[None]:
    """The context of a task ends with its test."""
    yield
    TaskContext._taskContext = None


class Query:
    """One streaming query that writes into a table."""

    def __init__(self, url: str, name: str | None = "q-1", overwrite: bool = False, **options: str) -> None:
        self.url, self.name, self.overwrite = url, name, overwrite
        self.options = {"path": url, **{key.replace("_", "-"): value for key, value in options.items()}}
        self.schema = SCHEMA if "row-kind" not in self.options else WITH_KIND

    def writer(self) -> StreamSourceWriter:
        return StreamSourceWriter(SourceOptions(self.options), self.schema, self.overwrite)

    def tasks(self, *rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The messages of a batch's tasks, each with its rows."""
        sent = cloudpickle.dumps(self.writer())
        return [self._task(pickle.loads(sent), number, given) for number, given in enumerate(rows)]

    def _task(self, writer: StreamSourceWriter, number: int, rows: Sequence[tuple[Any, ...]]) -> Any:
        context = TaskContext._getOrCreate()
        context._partitionId, context._taskAttemptId = number, next(ATTEMPTS)
        context._localProperties = {} if self.name is None else {QUERY_ID: self.name}
        names = self.schema.names
        columns = [pa.array([row[i] for row in rows], pa.string() if i else pa.int64()) for i in range(len(names))]
        message = writer.write(iter([pa.RecordBatch.from_arrays(columns, names=names)] if rows else []))
        return pickle.loads(pickle.dumps(message))

    def batch(self, number: int, *rows: Sequence[tuple[Any, ...]]) -> None:
        self.writer().commit(self.tasks(*rows), number)


WITH_KIND = spark.StructType([*SCHEMA.fields, spark.StructField("op", spark.StringType())])


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    return ll.create_table(str(tmp_path / "table"), pa.schema([("k", pa.int64()), ("v", pa.string())]))


def keys(table: ll.Table) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


def data_files(table: ll.Table) -> int:
    return len(list(Path(table.url).rglob("data-*")))


def test_a_batch_looks_at_the_table_once_however_often_spark_pickles_its_writer(
    table: ll.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 4.1 pickles it twice: with the tasks, and alone. The tasks of both have one name."""
    opened: list[str] = []
    real = SourceOptions.table
    monkeypatch.setattr(SourceOptions, "table", lambda self: opened.append(self.url) or real(self))
    writer = Query(table.url).writer()
    jobs = {pickle.loads(cloudpickle.dumps(writer))._task.job for _ in range(2)}
    assert (len(opened), len(jobs)) == (1, 1)


def test_a_repeated_batch_lands_once_and_its_files_are_deleted(table: ll.Table) -> None:
    """Spark repeats the last batch if it did not note that it landed; beside other queries with the same numbers."""
    one, other = Query(table.url), Query(table.url, "q-2")
    for number in range(3):
        for query in (one, other):
            query.batch(number, [(number, query.name)], [(number, "second task")])
            query.batch(number, [(number, query.name)], [(number, "second task")])
    assert keys(table) == sorted([0, 1, 2] * 4)
    assert {(s.commit_user, s.commit_identifier) for s in table.snapshots()} == {
        (name, number) for name in ("q-1", "q-2") for number in range(3)
    }
    assert data_files(table) == 12


def test_a_batch_below_the_last_one_that_landed_is_refused(table: ll.Table) -> None:
    """An old copy of a checkpoint numbers other rows like batches that have landed."""
    query = Query(table.url)
    query.batch(0, [(0, "a")])
    query.batch(1, [(1, "b")])
    with pytest.raises(ll.InvalidArgument, match="identifier 0 of 'q-1' is not above 1"):
        query.batch(0, [(2, "c")])
    assert keys(table) == [0, 1]
    assert data_files(table) == 2


def test_an_abort_deletes_only_what_no_commit_can_have_named(table: ll.Table) -> None:
    query = Query(table.url)
    query.batch(0, [(0, "a")])
    told = query.tasks([(1, "b")], [(2, "c")])
    query.writer().abort(told, 1)  # all tasks have ended, so a commit was tried, and it is not known how that ended
    assert data_files(table) == 3
    query.writer().abort([told[0], None], 0)  # batch 0 has landed
    assert data_files(table) == 3
    query.writer().abort([None, None], 1)
    query.writer().abort([told[0], None], 1)
    assert data_files(table) == 2
    assert keys(table) == [0]


def test_complete_mode_replaces_all_rows_once(table: ll.Table) -> None:
    query = Query(table.url, overwrite=True)
    query.batch(0, [(1, "a")])
    told = query.tasks([(2, "b")])
    table.append(pa.table({"k": [9], "v": ["meanwhile"]}))
    query.writer().commit(told, 1)
    assert keys(table) == [2, 9], "rows that others append while the batch runs stay"
    query.batch(1, [(3, "c")])
    assert keys(table) == [2, 9]
    query.batch(2, [])
    assert keys(table) == []


def test_rows_of_a_key_table_count_in_the_order_of_the_tasks(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    options = {"bucket": "1", "write-only": "true"}
    table = ll.create_table(str(tmp_path / "keyed"), schema, primary_key=["k"], options=options)
    query = Query(table.url, row_kind="op")
    query.batch(0, [(1, "a", "c"), (2, "a", "c"), (3, "a", "c")], [(1, "b", "u"), (2, None, "d")])
    assert sorted((r["k"], r["v"]) for r in table.to_arrow().to_pylist()) == [(1, "b"), (3, "a")]
    table.upsert(pa.table({"k": [1], "v": ["others"]}))
    query.batch(1, [(1, "newest", "u")])
    assert table.to_arrow(where="k = 1")["v"].to_pylist() == ["newest"], "a batch begins when it is planned"


def test_a_batch_without_rows_makes_no_snapshot_and_one_without_a_query_is_refused(
    table: ll.Table, tmp_path: Path
) -> None:
    Query(table.url).batch(0, [], [])
    assert table.snapshot() is None
    with pytest.raises(ll.InvalidArgument, match="no task has told the id of the query"):
        Query(table.url, None).batch(0, [(1, "a")])
    checkpoint = tmp_path / "checkpoint"
    with pytest.raises(ll.InvalidArgument, match="no query at the checkpoint"):
        Query(table.url, None, checkpointLocation=str(checkpoint)).batch(0, [(1, "a")])
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text(json.dumps({"id": "q-9"}))
    Query(table.url, None, checkpointLocation=str(checkpoint)).batch(0, [(1, "a")])
    assert table.snapshot().commit_user == "q-9"  # type: ignore[union-attr]


@pytest.mark.parametrize("options", [{"commit_user": "me", "identifier": "1"}, {"from": "latest"}, {"columns": "k"}])
def test_options_that_do_not_go_with_a_stream_into_a_table_are_refused(
    table: ll.Table, options: dict[str, str]
) -> None:
    with pytest.raises(ll.InvalidArgument, match=r"do not go with writeStream|goes with readStream|goes with reading"):
        Query(table.url, **options).batch(0, [(1, "a")])


@pytest.mark.parametrize("option", ["isolation", "group"])
def test_an_option_of_the_commit_reaches_it(tmp_path: Path, option: str) -> None:
    """A value that no commit knows comes back as the commit's error."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("k", pa.int64()), ("v", pa.string())]))
    with pytest.raises(ll.InvalidArgument, match=f"{option} 'none such'"):
        Query(table.url, **{option: "none such"}).batch(0, [(1, "a")])
    with pytest.raises(ll.InvalidArgument, match="'read-snapshot' does not go with writeStream"):
        Query(table.url, read_snapshot="1").batch(0, [(1, "a")])
    assert table.refresh().snapshots() == []
