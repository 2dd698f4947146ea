"""Streams of Spark into tables and out of them: each row once, whatever ends in between (G3, H5, H8).

Most of them run by night; by day a batch from table to table whose answer is lost, and the steps of the stream writer alone.
Under Spark Connect, batches that are repeated and the sink of `foreachBatch` run by day too (`test_connect`).
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from databases import COLUMNS, DEBEZIUM, MAXWELL, Database
from lost_answers import MARK

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
DDL = "k bigint, v string"
UNDER_CONNECT = os.environ.get("LAKELATCH_SPARK") == "connect"
BY_DAY_UNDER_CONNECT = pytest.mark.spark if UNDER_CONNECT else pytest.mark.slow
OPS = "k bigint, v string, op string"


def rows(*keys: int, v: str = "x") -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": [v] * len(keys)})


def keys(url: str) -> list[int]:
    return sorted(ll.open_table(url).to_arrow()["k"].to_pylist())


def data_files(url: str) -> int:
    return len(list(Path(url.removeprefix("lost://")).rglob("data-*")))


def noted(path: str) -> list[Any]:
    """What a function of `foreachBatch` has noted. Under Spark Connect it runs in a process of the server."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


class Job:
    """A streaming job: its source, its sink, its checkpoint."""

    def __init__(self, spark: Any, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.source, self.checkpoint, self.url = folder / "in", folder / "checkpoint", str(folder / "table")
        self.source.mkdir()
        self.files = 0
        lake.register(spark)

    def add(self, data: pa.Table) -> None:
        """A file of rows for the source."""
        self.files += 1
        pq.write_table(data, self.source / f"{self.files}.parquet")

    def rows(self, ddl: str = DDL) -> Any:
        return self.spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1).parquet(str(self.source))

    def changes(self, url: str, **options: Any) -> Any:
        return self.spark.readStream.format("lakelatch").options(**options).load(url)

    def run(self, writer: Any, url: str | None = None) -> Any:
        """Run all batches that there are; raises the query's error."""
        writer = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        query = writer.start() if url is None else writer.format("lakelatch").start(url)
        try:
            assert query.awaitTermination(120), "the query does not end"
        finally:
            query.stop()
        return query

    def forget_last_batch(self) -> int:
        """What a crash between the commit and Spark's own log of it leaves behind. Returns the number of the batch."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink(missing_ok=True)
        return last


@pytest.fixture
def job(spark: Any, tmp_path: Path) -> Job:
    return Job(spark, tmp_path)


@BY_DAY_UNDER_CONNECT
def test_a_batch_that_is_repeated_lands_once_also_from_a_copy_of_the_checkpoint(job: Job) -> None:
    """The commit user is the query's id, the identifier the number of the batch; files of a repeated batch are deleted."""
    table = ll.create_table(job.url, SCHEMA)
    for key in (1, 2):
        job.add(rows(key))
    query = job.run(job.rows().writeStream, job.url)
    assert [(s.commit_user, s.commit_identifier) for s in table.snapshots()] == [(query.id, 0), (query.id, 1)]
    files = data_files(job.url)
    assert job.forget_last_batch() == 1
    moved = job.folder / "copy"
    shutil.copytree(job.checkpoint, moved)
    shutil.rmtree(job.checkpoint)
    job.checkpoint = moved
    job.add(rows(3))
    assert job.run(job.rows().writeStream, job.url).id == query.id
    assert keys(job.url) == [1, 2, 3]
    assert [s.commit_identifier for s in table.snapshots()] == [0, 1, 2]
    assert data_files(job.url) == files + 1


@pytest.mark.slow
def test_row_kinds_and_complete_mode(job: Job) -> None:
    table = ll.create_table(job.url, SCHEMA, primary_key=["k"], options={"bucket": "2", "write-only": "true"})
    table.upsert(rows(1, 2, v="old"))
    job.add(rows(1, 2, 3, v="new").append_column("op", pa.array(["u", "d", "c"])))
    job.run(job.rows(OPS).writeStream.option("row-kind", "op"), job.url)
    assert sorted(table.to_arrow().to_pylist(), key=repr) == [{"k": 1, "v": "new"}, {"k": 3, "v": "new"}]
    job.checkpoint = job.folder / "other"
    totals = str(job.folder / "totals")
    ll.create_table(totals, pa.schema([("op", pa.string()), ("count", pa.int64())])).append(
        pa.table({"op": ["gone"], "count": [9]})
    )
    counted = job.rows(OPS).groupBy("op").count()
    job.run(counted.writeStream.outputMode("complete"), totals)
    assert sorted((r["op"], r["count"]) for r in ll.open_table(totals).to_arrow().to_pylist()) == [
        ("c", 1),
        ("d", 1),
        ("u", 1),
    ]


def test_a_lost_answer_ends_the_query_and_the_batch_lands_once(job: Job) -> None:
    """H5: Spark calls abort after a commit that raised, and nothing that landed is deleted."""
    url = f"lost://{job.folder / 'table'}"
    ll.create_table(url, SCHEMA, options={"commit.timeout": "1 s"}).append(rows(0))
    source = str(job.folder / "source")
    ll.create_table(source, SCHEMA).append(rows(1, 2))
    (job.folder / "table" / MARK).touch()
    with pytest.raises(Exception, match="not known whether snapshot 2"):
        job.run(job.changes(source).writeStream, url)
    assert not (job.folder / "table" / MARK).exists()
    assert keys(url) == [0, 1, 2]
    job.run(job.changes(source).writeStream, url)
    assert keys(url) == [0, 1, 2]
    assert data_files(url) == 2


@pytest.mark.slow
def test_changes_flow_from_table_to_table(job: Job) -> None:
    """Row kinds in the order of the snapshots, limits, replays, a consumer; and the state first by default."""
    source, target = str(job.folder / "source"), job.url
    options = {"bucket": "1", "write-only": "true"}
    table = ll.create_table(source, SCHEMA, primary_key=["k"], options=options)
    ll.create_table(target, SCHEMA, primary_key=["k"], options=options)
    table.upsert(rows(1, 2, 3, v="a"))

    def copy() -> None:
        changes = job.changes(source, consumer="copy", full="true", **{"row-kinds": "true"})
        job.run(changes.drop("_snapshot_id", "_commit_time").writeStream.option("row-kind", "_row_kind"), target)

    def state(url: str) -> Counter[str]:
        return Counter(map(repr, ll.open_table(url).to_arrow().to_pylist()))

    copy()
    assert state(target) == state(source)
    table.upsert(rows(2, v="b"))
    table.delete(keys=pa.table({"k": [1]}))
    table.upsert(rows(2, 4, v="c"))
    table.compact(full=True)
    copy()
    assert (
        state(target) == state(source) == Counter(map(repr, rows(2, 4, v="c").to_pylist() + rows(3, v="a").to_pylist()))
    )
    job.forget_last_batch()
    table.upsert(rows(5, v="d"))
    copy()  # which repeats the last batch, and ends
    copy()
    assert state(target) == state(source)
    users = [(s.commit_user, s.commit_identifier) for s in ll.open_table(target).snapshots()]
    assert len(set(users)) == len(users)
    (consumer,) = table.consumers()
    assert consumer.next_snapshot >= 5, "it is moved when the next batch begins"


@pytest.mark.slow
def test_starts_columns_filters_and_limits(job: Job) -> None:
    source = str(job.folder / "source")
    table = ll.create_table(source, SCHEMA)
    for key in range(1, 6):
        table.append(rows(key))

    log = str(job.folder / "log")

    def keep(frame: Any, number: int) -> None:
        with open(log, "a") as file:
            file.write(json.dumps(sorted(row.k for row in frame.select("k").collect())) + "\n")

    def read(**options: Any) -> list[Any]:
        shutil.rmtree(job.checkpoint, ignore_errors=True)
        Path(log).unlink(missing_ok=True)
        job.run(job.changes(source, **options).writeStream.foreachBatch(keep))
        return [key for batch in noted(log) for key in batch]

    assert read() == [1, 2, 3, 4, 5], "without options, the state and then what follows it"
    assert read(**{"from": 4, "columns": "k", "where": "k < 5"}) == [4]
    table.overwrite(rows(9), partition={})
    with pytest.raises(Exception, match=r"snapshot 6 removed or replaced rows.*'row-kinds'"):
        read(**{"from": 6})
    assert read(**{"from": 5, "deletes": "ignore"}) == [5, 9]
    assert read(**{"from": 5, "overwrites": "false"}) == [5]
    with pytest.raises(Exception, match="InvalidArgument: there is no snapshot 99 to start at"):
        read(**{"from": 99})
    with pytest.raises(Exception, match="option 'from' goes with readStream only, not with read"):
        job.spark.read.format("lakelatch").option("from", 1).load(source).count()


@pytest.mark.slow
def test_new_columns_appear_after_a_restart_and_a_dropped_one_ends_the_stream(job: Job) -> None:
    source = str(job.folder / "source")
    table = ll.create_table(source, SCHEMA)
    table.append(rows(1))
    log = str(job.folder / "log")

    def keep(frame: Any, number: int) -> None:
        with open(log, "a") as file:
            file.write(json.dumps([sorted(frame.columns), [row.k for row in frame.collect()]]) + "\n")

    def run() -> None:
        job.run(job.changes(source, **{"from": "earliest"}).writeStream.foreachBatch(keep))

    run()
    table.alter(ll.add_column("w", "BIGINT"))
    table.append(pa.table({"k": [2], "v": ["x"], "w": [7]}))
    run()
    assert noted(log) == [[["k", "v"], [1]], [["k", "v", "w"], [2]]]
    table.alter(ll.drop_column("v"))
    stale = job.changes(source, **{"from": "earliest"}).select("k")
    table.alter(ll.rename_column("w", "x"))
    if UNDER_CONNECT:  # where a frame has the columns of the moment when the stream starts
        job.run(stale.writeStream.foreachBatch(keep))
        return
    with pytest.raises(Exception, match="no column 'w'"):
        job.run(stale.writeStream.foreachBatch(keep))


@BY_DAY_UNDER_CONNECT
def test_the_sink_of_foreach_batch_is_exactly_once_and_compacts(job: Job) -> None:
    table = ll.create_table(job.url, SCHEMA, options={"compaction.min.file-num": "2"})
    sink = lake.sink(job.url, checkpoint=str(job.checkpoint), compact_every=2)
    for key in (1, 2, 3):
        job.add(rows(key))
    query = job.run(job.rows().writeStream.foreachBatch(sink))
    kinds = [(s.commit_kind, s.commit_user == query.id) for s in table.snapshots()]
    assert kinds == [("APPEND", True), ("APPEND", True), ("COMPACT", False), ("APPEND", True)]
    assert job.forget_last_batch() == 2
    job.run(job.rows().writeStream.foreachBatch(sink))
    assert keys(job.url) == [1, 2, 3]
    assert len(table.snapshots()) == 4
    with pytest.raises(ll.InvalidArgument, match="checkpoint of the query"):
        lake.sink(job.url)
    with pytest.raises(ll.InvalidArgument, match="no query at the checkpoint"):
        lake.sink(job.url, checkpoint=str(job.folder / "none"))(job.spark.range(1), 0)


def test_one_identity_is_not_two_commits(job: Job) -> None:
    """Two parts of a batch under one identity, or two queries under one name: the second one's rows were left out in silence."""
    ll.create_table(job.url, SCHEMA)
    sinks = [lake.sink(job.url, checkpoint=str(job.checkpoint)) for _ in range(2)]

    def each(frame: Any, number: int) -> None:
        for part, sink in enumerate(sinks):
            sink(frame.where(f"k % 2 = {part}"), number)

    job.add(rows(1, 2))
    with pytest.raises(Exception, match=r"was written into .* by a sink already.*query= as its name"):
        job.run(job.rows().writeStream.foreachBatch(each))
    assert keys(job.url) == [2]
    named = [lake.sink(job.url, query=name) for name in ("even", "odd")]

    def parts(frame: Any, number: int) -> None:
        for part, sink in enumerate(named):
            sink(frame.where(f"k % 2 = {part}"), number)

    job.run(job.rows().writeStream.foreachBatch(parts))
    assert keys(job.url) == [1, 2, 2]
    if UNDER_CONNECT:  # where nothing tells the function the id of its query
        return
    job.checkpoint = job.folder / "another"
    job.add(rows(3))
    with pytest.raises(Exception, match=r"'even' belongs to query .*, and this is query"):
        job.run(job.rows().writeStream.foreachBatch(parts))
    assert keys(job.url) == [1, 2, 2]


def test_parts_of_a_batch_that_threads_write_are_not_one_commit(job: Job) -> None:
    """Spark tells only the thread that calls the function which query and run it is; the second part was left out in silence."""
    ll.create_table(job.url, SCHEMA)
    sinks = [lake.sink(job.url, query="parts") for _ in range(2)]

    def each(frame: Any, number: int) -> None:
        with ThreadPoolExecutor(2) as pool:
            written = [pool.submit(sink, frame.where(f"k % 2 = {part}"), number) for part, sink in enumerate(sinks)]
        for one in written:
            one.result()

    job.add(rows(1, 2))
    with pytest.raises(Exception, match=r"was written into .* by a sink already"):
        job.run(job.rows().writeStream.foreachBatch(each))
    assert len(keys(job.url)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["debezium", "maxwell"])
def test_captured_changes_give_the_state_of_the_database(spark: Any, tmp_path: Path, shape: str) -> None:
    """As for `Table.apply_changes`, in any order; a repeated batch runs no job."""
    url, database = str(tmp_path / "table"), Database(7)
    table = ll.create_table(url, ll.Schema(COLUMNS), primary_key=["part", "id"], options={"bucket": "2"})
    for _ in range(60):
        database.change()
    changes = database.debezium if shape == "debezium" else database.maxwell
    database.chance.shuffle(changes)
    schema = DEBEZIUM if shape == "debezium" else MAXWELL
    frame = spark.createDataFrame(pa.Table.from_pylist(changes, schema=schema)).repartition(3)
    sequence = "source.lsn" if shape == "debezium" else "ts"
    about = {"keys": ["id", "part"], "sequence": sequence, "commit_user": "cdc", "identifier": 1}
    lake.apply_changes(frame, url, **about)
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == database.state
    assert lake.apply_changes(frame, url, **about).replayed
    if shape == "debezium":
        with pytest.raises(ll.InvalidArgument, match="sequence: the data has no 'lsn'"):
            lake.apply_changes(frame, url, sequence="lsn")
        with pytest.raises(ll.InvalidArgument, match="column 'op': x is no change of a row"):
            lake.apply_changes(frame.selectExpr("before", "after", "'x' op"), url)
