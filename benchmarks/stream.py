"""Streaming queries that write into one table, and a reader that follows it: rows a second, and how old a row is on its way.

`python benchmarks/stream.py [--queries 1 10 50] [--seconds 30] [--rate 10000] [--url URL --storage-option K=V]`: each query
has rows of Spark's `rate` source, which say when they were made. "landed" is the time from there to the commit, "seen" to the
batch of a reader in Python (`Table.follow`). Walls depend on the machine; run it where nothing else runs.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from recorded import add_json, record
from spark_session import session

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.coordinator.history.lost import lost_attempts

HEADS = (
    "queries",
    "commits",
    "rows/s",
    "landed p50 s",
    "landed p95 s",
    "seen p50 s",
    "seen p95 s",
    "attempts per commit",
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


def measured(spark: Any, url: str, options: dict[str, str], queries: int, seconds: float, rate: int) -> tuple[str, ...]:
    """One line of the table."""
    schema = ll.Schema([("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), ("value", "BIGINT")])
    table = ll.create_table(url, schema, storage_options=options)
    reader, folder = Reader(table), Path(tempfile.mkdtemp())
    running = []
    try:
        for number in range(queries):
            rows = spark.readStream.format("rate").option("rowsPerSecond", rate).load()
            writer = rows.writeStream.format("lakelatch").options(**{f"storage.{k}": v for k, v in options.items()})
            running.append(writer.option("checkpointLocation", str(folder / str(number))).start(url))
        while not all(query.lastProgress for query in running):  # the first batches start Python
            broken = [query.exception() for query in running if not query.isActive]
            if broken:
                raise SystemExit(f"a query has ended: {broken[0]}")
            time.sleep(0.2)
        reader.start()
        time.sleep(seconds)
        rows, landed, seen = reader.rows, list(reader.landed), list(reader.seen)
    finally:
        for query in running:
            query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    attempts = [1 + len(lost_attempts(s)) for s in table.snapshots()]
    reader.end(table)
    told = f"{statistics.mean(attempts):.1f}" if attempts else "-"
    figures = [f"{figure:.2f}" for kind in (landed, seen) for figure in (_quantile(kind, 50), _quantile(kind, 95))]
    return str(queries), str(len(landed)), f"{rows / seconds:.0f}", *figures, told


def _quantile(values: list[float], percent: int) -> float:
    ordered = sorted(values) or [float("nan")]
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--rate", type=int, default=10_000, help="rows a second of each query")
    parser.add_argument("--url", help="the folder or bucket of the tables; a temporary folder by default")
    parser.add_argument("--storage-option", action="append", default=[], metavar="K=V")
    add_json(parser)
    given = parser.parse_args()
    options = dict(pair.split("=", 1) for pair in given.storage_option)
    folder = given.url or tempfile.mkdtemp()
    spark = session(plain_daemon=False)
    lake.register(spark)
    print(*(f"| {' | '.join(line)} |" for line in (HEADS, ["---"] * len(HEADS))), sep="\n")
    rows = []
    for queries in given.queries:
        line = measured(spark, f"{folder}/{time.time_ns()}", options, queries, given.seconds, given.rate)
        print(f"| {' | '.join(line)} |", flush=True)
        rows.append(dict(zip(HEADS, line, strict=True)))
    record(given.json, f"{given.rate:,} rows a second of each query, {given.seconds:.0f} s", rows)
    spark.stop()


if __name__ == "__main__":
    main()
