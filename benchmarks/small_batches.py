"""Rows that come in small batches over many partitions or buckets, beside the same rows in one batch.

    python benchmarks/small_batches.py [--rows 1440000] [--partitions 1800] [--buckets 400] [--times 1] [--only TABLE ...]

Spark and streams send batches of 10 000 rows, each with a few rows of every partition. The rows have 20 columns of numbers and
two of texts (none from Spark). CPU of all threads; of a write from Spark that of the JVM and its Python workers, without their
start. The least of `--times` times. fsync is off. Target: the small batches cost at most 1.3 times as much.
"""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from recorded import add_json, markdown, record
from spark_session import cpu_seconds, session

import lakelatch as ll

BATCH_ROWS = 10_000
NO_FSYNC = {"fsync": False}


def made_rows(count: int, partitions: int) -> pa.Table:
    """Rows in no order, of every partition about as many."""
    dice = np.random.default_rng(1)
    numbers = {f"c{i}": dice.integers(0, 10_000, count) for i in range(18)}
    texts = {f"t{i}": pc.cast(pa.array(dice.integers(0, 1000, count)), pa.string()) for i in range(2)}
    part = pa.array(dice.integers(0, partitions, count), pa.int32())
    return pa.table({"id": dice.permutation(count), "part": part, **numbers, **texts})


def shapes(buckets: int) -> dict[str, dict[str, Any]]:
    """The arguments of `create_table` of each table that is written."""
    return {
        "partitions": {"partition_by": ["part"]},
        "buckets": {"options": {"bucket": str(buckets), "bucket-key": "id"}},
        "keys, partitions": {"primary_key": ["part", "id"], "partition_by": ["part"], "options": {"bucket": "1"}},
        "keys, partitions, dynamic buckets": {"primary_key": ["part", "id"], "partition_by": ["part"]},
        "keys, buckets": {"primary_key": ["id"], "options": {"bucket": str(buckets)}},
    }


def written(folder: Path, rows: pa.Table, batch_rows: int, shape: Mapping[str, Any]) -> tuple[float, int]:
    """The CPU of one write, and how many files it made."""
    table = ll.create_table(str(folder / "table"), rows.schema, storage_options=NO_FSYNC, **shape)
    write = table.upsert if "primary_key" in shape else table.append
    reader = pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches(max_chunksize=batch_rows))
    began = time.process_time()
    write(reader)
    spent, files = time.process_time() - began, len(table.entries())
    shutil.rmtree(folder / "table")
    return spent, files


def from_spark(spark: Any, folder: Path, batch_rows: int) -> tuple[float, int]:
    """The same of `lake.write` in two tasks. Without texts: a batch that has some is made small anyway."""
    import lakelatch.spark as lake

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch_rows)
    frame, target = spark.read.parquet(str(folder / "rows.parquet")).drop("t0", "t1"), str(folder / "table")
    began = cpu_seconds()
    lake.write(frame, target, partition_by="part", cluster="none", storage_options=NO_FSYNC)
    spent, files = cpu_seconds() - began, len(ll.open_table(target).entries())
    shutil.rmtree(target)
    return spent, files


def compared(what: str, count: int, times: int, write: Callable[[int], tuple[float, int]]) -> dict[str, Any]:
    """Both ways by turns."""
    runs = [(write(count), write(BATCH_ROWS)) for _ in range(times)]
    whole, small = (min(run[i][0] for run in runs) for i in range(2))
    found = {"one batch CPU s": whole, "small batches CPU s": small, "ratio": small / whole}
    told = {"rows over": what, **found, "files": runs[0][0][1], "files of small batches": runs[0][1][1]}
    print(told, flush=True)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_440_000)
    parser.add_argument("--partitions", type=int, default=1800)
    parser.add_argument("--buckets", type=int, default=400)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=[*shapes(1), "spark"], help="of the tables")
    add_json(parser)
    args = parser.parse_args()
    rows, lines = made_rows(args.rows, args.partitions), []
    chosen = {what: shape for what, shape in shapes(args.buckets).items() if not args.only or what in args.only}
    with TemporaryDirectory(prefix="lakelatch-bench-") as name:
        folder = Path(name)
        for shape in shapes(2).values():  # imports
            written(folder, rows.slice(0, 10), 10, shape | {"options": {**shape.get("options", {})}})
        for what, shape in chosen.items():
            write = lambda batch_rows, shape=shape: written(folder, rows, batch_rows, shape)  # noqa: E731
            lines.append(compared(what, args.rows, args.times, write))
        if not args.only or "spark" in args.only:
            pq.write_table(rows, folder / "rows.parquet", row_group_size=args.rows // 2)
            spark = session(plain_daemon=False)
            write = lambda batch_rows: from_spark(spark, folder, batch_rows)  # noqa: E731
            write(BATCH_ROWS)  # the JVM and the workers are warm
            lines.append(compared("partitions, from Spark", args.rows, args.times, write))
            spark.stop()
    print(markdown(lines))
    title = f"{args.rows:,} rows in batches of {BATCH_ROWS:,}, {args.partitions:,} partitions or {args.buckets} buckets"
    record(args.json, title, lines)


if __name__ == "__main__":
    main()
