"""Reading a table with a primary key whose rows must be merged, beside others that merge the same files.

    python benchmarks/merge.py --rows 1000000 --buckets 4 --runs 3
    python benchmarks/merge.py --rows 10000000 --buckets 16 --runs 5

For integer and text keys and each merge engine: polars and DuckDB make the same rows of the raw Parquet files, pypaimon and
Apache Paimon's Java read the table. Each reader is a process of its own that reads `--times` times; wall and CPU seconds are
medians without the first, memory is the process's peak and what it was before. Rows must be equal in number and in the sums of
two columns. Java counts the rows that it has merged and never looks at their values; it runs on one thread, with the JVM's
defaults. polars has two lines for deduplicate, because neither query is the fastest everywhere.
With `--memory` lakelatch alone reads one bucket that is ten times as large as the memory that it may take.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE)]

import merge_readers  # noqa: E402
from recorded import add_json, record  # noqa: E402

import lakelatch as ll  # noqa: E402
from lakelatch.coordinator.commit.message import CommitMessage  # noqa: E402
from lakelatch.core.rows.binary.binary_row import encode_row  # noqa: E402
from lakelatch.core.rows.bucket import buckets  # noqa: E402
from lakelatch.table.writing.files.key_files import KeyFileWriter  # noqa: E402

COLUMNS: list[tuple[str, pa.DataType]] = [
    ("k", pa.int32()),
    ("amt", pa.float64()),
    ("name", pa.string()),
    ("city", pa.string()),
    ("ts", pa.timestamp("us")),
]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update", "ignore-delete": "true"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.k.aggregate-function": "max",
        "fields.amt.aggregate-function": "sum",
        "fields.ts.aggregate-function": "max",
    },
}
FIRST_RUN = 0.5
"""The share of rows in the oldest run; the others have the rest, and nine of ten of their keys are in it."""
DELETED = 0.02
MISSING = 0.4
"""The share of nulls in the newer runs of tables that are updated partially."""


def ids_of(rng: Any, rows: int, runs: int) -> list[Any]:
    """The keys of each run, ascending."""
    first = int(rows * FIRST_RUN)
    later = (rows - first) // max(runs - 1, 1)
    found = [np.arange(first, dtype=np.int64) * 3]
    for number in range(1, runs):
        known = rng.choice(first, int(later * 0.9), replace=False) * 3
        new = rng.choice(first, later - len(known), replace=False) * 3 + 1 + number % 2
        found.append(np.sort(np.concatenate([known, new])))
    return found


def rows_of(rng: Any, ids: Any, key: str, engine: str, run: int, first_number: int) -> pa.RecordBatch:
    """The rows of one run, sorted by id, with sequence numbers in any order."""
    count = len(ids)
    has_nulls = engine == "partial-update" and run > 0
    values: dict[str, Any] = {
        "k": rng.integers(0, 1000, count).astype(np.int32),
        "amt": rng.integers(0, 10_000, count) / 4,
        "name": pa.array(rng.permutation(count) + run * 10**9).cast(pa.string()),
        "city": pa.array(rng.integers(0, 200, count)).cast(pa.string()),
        "ts": pa.array(rng.integers(0, 10**15, count), pa.timestamp("us")),
    }
    columns = {
        "_SEQUENCE_NUMBER": pa.array(first_number + rng.permutation(count)),
        "_VALUE_KIND": pa.array(
            np.where(rng.random(count) < (DELETED if run and engine == "deduplicate" else 0), 3, 0), pa.int8()
        ),
        "id": pa.array(ids),
    }
    for name, kind in COLUMNS:
        mask = pa.array(rng.random(count) < (MISSING if has_nulls else 0))
        columns[name] = pa.array(values[name], kind).filter(pa.array(np.ones(count, bool)))
        if has_nulls:
            columns[name] = pa.compute.if_else(mask, pa.scalar(None, kind), columns[name])
    if key == "string":
        texts = np.char.add("user-", np.char.zfill(ids.astype("U12"), 12))
        columns["id"] = pa.array(texts.tolist(), pa.string())
    fields = [pa.field(n, c.type, n not in ("id", "_SEQUENCE_NUMBER", "_VALUE_KIND")) for n, c in columns.items()]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def build(url: str, key: str, engine: str, args: argparse.Namespace) -> ll.Table:
    """A table of some runs, one commit each, with one file of level 0 in each bucket."""
    kind = pa.string() if key == "string" else pa.int64()
    schema = pa.schema([pa.field("id", kind, nullable=False), *COLUMNS])
    options = {"bucket": str(args.buckets), "write-only": "true", "target-file-size": "1 gb", **ENGINES[engine]}
    table = ll.create_table(url, schema, primary_key=["id"], options=options)
    rng = np.random.default_rng(7)
    number = 0
    for run, ids in enumerate(ids_of(rng, args.rows, args.runs)):
        batch = rows_of(rng, ids, key, engine, run, number)
        number += batch.num_rows
        of_bucket = buckets(batch, [table.schema.by_name["id"]], args.buckets)
        messages = []
        for bucket in range(args.buckets):
            writer = KeyFileWriter(table.store, table.schema, f"bucket-{bucket}/", f"data-{uuid.uuid4()}-")
            writer.write(batch.filter(pa.array(of_bucket == bucket)))
            writer.finish()
            messages.append(CommitMessage(encode_row([], []), bucket, args.buckets, tuple(writer.files)))
        with table.transaction() as transaction:
            transaction.append_messages(messages)
    return table


def told(reader: str, found: dict[str, Any]) -> str:
    if "error" in found:
        return f"    {reader:<12} {found['error'][-120:]}"
    return (
        f"    {reader:<12} {found['wall']:>8.3f} {found['cpu']:>8.3f} {found['rows']:>12,}"
        f" {found['before']:>8.0f} {found['peak']:>8.0f}"
    )


def recorded_of(found: dict[str, Any]) -> dict[str, Any]:
    if "error" in found:
        return {"left out": found["error"][-80:]}
    return {"wall s": found["wall"], "CPU s": found["cpu"], "peak MiB": found["peak"]}


def read(reader: str, request: dict[str, Any]) -> dict[str, Any]:
    """One reader in a process of its own."""
    python = merge_readers.python_of(reader)
    command = [str(python), str(HERE / "merge_readers.py"), reader, json.dumps(request)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=merge_readers.environment_of(reader)
    )
    if done.returncode:
        return {"error": " ".join(done.stderr.split())}
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def compare(url: str, key: str, engine: str, args: argparse.Namespace) -> None:
    table = build(url, key, engine, args)
    plan = table.plan()
    runs = [[str(Path(url) / k) for k in split.keys] for split in plan.splits]
    print(f"{engine}, {key} keys: {plan.row_count:,} rows in {plan.file_count} files, {plan.size / 2**20:.0f} MiB")
    print(f"    {'':<12} {'wall s':>8} {'CPU s':>8} {'rows':>12} {'MiB':>8} {'peak':>8}")
    request = {"url": url, "buckets": runs, "engine": engine, "times": args.times, "memory": None}
    sums: dict[str, Any] = {}
    rows = []
    for reader in args.readers.split(","):
        found = read(reader, request)
        print(told(reader, found), flush=True)
        rows.append({"reader": reader} | recorded_of(found))
        if "sums" in found:
            sums[reader] = (found["rows"], *found["sums"])
        elif "rows" in found:
            sums[reader] = (found["rows"],)
    record(args.json, f"{engine}, {key} keys: {plan.row_count:,} rows in {plan.file_count} files", rows)
    expected = next((s for s in sums.values() if len(s) > 1), ())
    wrong = {reader: s for reader, s in sums.items() if s != expected[: len(s)]}
    if wrong:
        raise SystemExit(f"the readers do not agree: {sums}")


def beyond_memory(url: str, key: str, engine: str, args: argparse.Namespace) -> None:
    """One bucket of ten times the memory that the read may take."""
    table = build(url, key, engine, args)
    whole = table.to_arrow().nbytes if args.rows <= 2_000_000 else args.rows * 70
    memory = whole // 10
    request = {"url": url, "times": 1, "memory": memory}
    found = read("lakelatch", request)
    print(f"{engine}, {key} keys: one bucket, about {whole / 2**20:.0f} MiB of rows; may take {memory / 2**20:.0f} MiB")
    if "error" in found:
        raise SystemExit(found["error"])
    taken = found["peak"] - found["before"]
    print(f"    takes {taken:.0f} MiB ({taken * 2**20 / memory:.2f} x), {found['wall']:.2f} s, {found['rows']:,} rows")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="in all runs together")
    parser.add_argument("--buckets", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--keys", default="integer,string")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--readers", default=",".join(merge_readers.READERS))
    parser.add_argument("--memory", action="store_true", help="measure one bucket of ten times the memory instead")
    add_json(parser)
    args = parser.parse_args()
    if args.memory:
        args.buckets = 1
    with TemporaryDirectory() as folder:
        for key in args.keys.split(","):
            for engine in args.engines.split(","):
                (beyond_memory if args.memory else compare)(f"{folder}/{key}-{engine}", key, engine, args)


if __name__ == "__main__":
    main()
