"""Streaming queries that write into one table, and a reader that follows it: rows a second, and how old a row is on its way.

`python benchmarks/stream.py [--queries 1 10 50] [--seconds 30] [--rate 10000] [--store local|s3 --latency 20] [--group auto]`:
each query has rows of Spark's `rate` source, which say when they were made. "landed" is the time from there to the commit,
"seen" to the batch of a reader in Python (`Table.follow`). With `--store s3`, the table is on an S3 server of its own
(versitygw; moto where there is no Go) behind toxiproxy, which delays every answer. `--url` and `--storage-option K=V` put it
elsewhere. Walls depend on the machine; run it where nothing else runs. On two cores, a batch needs about half a second of CPU, so
with many queries it is the cores that are measured.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from recorded import add_json, record  # noqa: E402
from servers import s3_server, toxiproxy  # noqa: E402
from spark_session import session  # noqa: E402

import lakelatch as ll  # noqa: E402
import lakelatch.spark as lake  # noqa: E402
from lakelatch.coordinator.history.lost import lost_attempts  # noqa: E402

HEADS = (
    "queries",
    "batches",
    "snapshots",
    "rows/s",
    "landed p50 s",
    "landed p95 s",
    "seen p50 s",
    "seen p95 s",
    "attempts per snapshot",
)


class Reader(threading.Thread):
    """Follows the table, and notes for each batch how old its newest row is when the batch is there."""

    def __init__(self, table: ll.Table) -> None:
        super().__init__(daemon=True)
        self.batches = table.follow("latest", columns=["timestamp"], poll=0.1)
        self.landed: list[float] = []
        self.seen: list[float] = []
        self.rows = 0
        self.ended = False

    def run(self) -> None:
        for batch in self.batches:
            rows = batch.to_arrow()
            if self.ended:
                return
            made = pc.max(rows["timestamp"]).as_py().timestamp()
            self.seen.append(time.time() - made)
            self.landed.append(batch.commit_time_ms / 1000 - made)
            self.rows += rows.num_rows

    def end(self, table: ll.Table) -> None:
        """A last row wakes the reader, which then does not look for others any more."""
        self.ended = True
        table.append(pa.table({"timestamp": pa.array([0], pa.timestamp("us", "UTC")), "value": [0]}))
        self.join(60)


def measured(spark: Any, url: str, options: dict[str, Any], queries: int, given: argparse.Namespace) -> tuple[str, ...]:
    """One line of the table."""
    schema = ll.Schema([("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), ("value", "BIGINT")])
    table = ll.create_table(url, schema, storage_options=options)
    folder = Path(tempfile.mkdtemp())
    running: list[Any] = []
    try:
        for number in range(queries):
            rows = spark.readStream.format("rate").option("rowsPerSecond", given.rate).load()
            writer = rows.writeStream.format("lakelatch").option("group", given.group)
            writer = writer.options(**{f"storage.{k}": _text(v) for k, v in options.items()})
            running.append(writer.option("checkpointLocation", str(folder / str(number))).start(url))
        wait_for_batches(running, given.first_s)
        before, batches = table.snapshots(), -landed_batches(running)
        reader = Reader(table)
        reader.start()
        time.sleep(given.seconds)
        rows, landed, seen = reader.rows, list(reader.landed), list(reader.seen)
        batches += landed_batches(running)
        broken(running)
    finally:
        stop(running)
        shutil.rmtree(folder, ignore_errors=True)
    attempts = [1 + len(lost_attempts(s)) for s in table.snapshots()[len(before) :]]
    reader.end(table)
    told = f"{statistics.mean(attempts):.1f}" if attempts else "-"
    figures = [f"{figure:.2f}" for kind in (landed, seen) for figure in (_quantile(kind, 50), _quantile(kind, 95))]
    return str(queries), str(batches), str(len(landed)), f"{rows / given.seconds:.0f}", *figures, told


def wait_for_batches(running: list[Any], longest_s: float) -> None:
    """Wait until every query has had a batch. The first batches start Python, which takes seconds of CPU for each query."""
    began = time.monotonic()
    while (ready := sum(bool(query.lastProgress) for query in running)) < len(running):
        broken(running)
        if time.monotonic() - began > longest_s:
            raise SystemExit(f"{ready} of {len(running)} queries had a batch after {longest_s:.0f} s (see --first-s)")
        time.sleep(0.5)


def broken(running: list[Any]) -> None:
    """Raise if a query has ended by itself."""
    ended = [query.exception() for query in running if not query.isActive]
    if ended:
        raise SystemExit(f"{len(ended)} of {len(running)} queries have ended: {ended[0]}")


def landed_batches(running: list[Any]) -> int:
    return sum(query.lastProgress["batchId"] + 1 for query in running)


def stop(running: list[Any]) -> None:
    """Stop all queries at once. Spark waits for a query's commit, which takes its time as long as the others commit, too."""
    with ThreadPoolExecutor(max(1, len(running))) as threads:
        list(threads.map(lambda query: query.stop(), running))


def _text(value: Any) -> str:
    """A storage option as an option of Spark."""
    return value if isinstance(value, str) else json.dumps(value)


def _quantile(values: list[float], percent: int) -> float:
    ordered = sorted(values) or [float("nan")]
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


@contextmanager
def place(given: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """The folder or bucket of the tables, and the storage options."""
    if given.url or given.store == "local":
        yield given.url or tempfile.mkdtemp(), dict(pair.split("=", 1) for pair in given.storage_option)
        return
    with s3_server() as server, toxiproxy() as network:
        line = network.proxy(server.endpoint_url)
        print(f"S3 server {server.name}, {given.latency:.0f} ms on each answer", file=sys.stderr)
        with line.toxic("latency", latency=round(given.latency)):
            yield server.new_root(), server.storage_options(line.url)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=10_000, help="rows a second of each query")
    parser.add_argument("--store", choices=("local", "s3"), default="local")
    parser.add_argument("--latency", type=float, default=20.0, metavar="MS", help="added to each answer of --store s3")
    parser.add_argument(
        "--group", choices=("auto", "off"), default="off", help="group commit, as the option of the stream"
    )
    parser.add_argument(
        "--first-s", type=float, default=300.0, help="the longest wait for the first batch of every query"
    )
    parser.add_argument("--url", help="the folder or bucket of the tables, instead of --store")
    parser.add_argument("--storage-option", action="append", default=[], metavar="K=V")
    add_json(parser)
    given = parser.parse_args()
    spark = session(plain_daemon=False)
    lake.register(spark)
    print(*(f"| {' | '.join(line)} |" for line in (HEADS, ["---"] * len(HEADS))), sep="\n", flush=True)
    rows = []
    with place(given) as (folder, options):
        for queries in given.queries:
            line = measured(spark, f"{folder}/{time.time_ns()}", options, queries, given)
            print(f"| {' | '.join(line)} |", flush=True)
            rows.append(dict(zip(HEADS, line, strict=True)))
        where = given.url or (f"S3, {given.latency:.0f} ms on each answer" if given.store == "s3" else "local disk")
        grouped = ", group commit" if given.group == "auto" else ""
        record(given.json, f"{where}{grouped}: {given.rate:,} rows a second of each query, {given.seconds:.0f} s", rows)
        spark.stop()


if __name__ == "__main__":
    main()
