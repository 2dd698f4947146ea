"""MERGE of 1 % and of 30 % of a table's rows and DELETE of 0.1 %, with deletion vectors and by copying files, beside others.

    python benchmarks/merge_into.py --rows 1000000 --rounds 1 --trial
    python benchmarks/merge_into.py --rows 10000000 --rounds 3 --delta-jars FOLDER

The changed rows are spread over all files, which is the hardest case for all. Nine of ten rows of a MERGE's source update a row,
the others are new. Each engine is a process of its own: it writes the table once, and changes a copy of it in each round, after a
first change of a small table that warms it up. CPU is that of the process, its JVM and its workers; bytes are those of the files
that are there after the change and were not before. All engines must end in the same rows.

Apache Paimon's connector is the jar in the folder that `LAKELATCH_TOOLS` names.
Delta's jars are those that `io.delta:delta-spark` for the installed Spark brings. An engine without its jars is left out.
delta-rs and lakelatch-python change rows without Spark.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from merge_engines import KINDS, settings
from recorded import add_json, record
from spark_session import cpu_seconds, session

OPERATIONS = ("merge 1 %", "merge 30 %", "delete 0.1 %")
SHARES = {"merge 1 %": 10, "merge 30 %": 300}
"""Rows of the source, in thousandths of the table's rows."""
FEW_TASKS = {"spark.sql.shuffle.partitions": "4", "spark.databricks.delta.snapshotPartitions": "2"}
"""Spark's and Delta's defaults are for clusters: on two cores most of the time would go into tasks without rows."""
WAYS = {"delta-rs": ("copies",)}
"""How an engine changes rows, if not both with vectors and by copies."""


def files_of(url: Path) -> dict[str, int]:
    """The files of a table with their sizes; a hint that is being replaced may come and go."""
    found = {}
    for path in url.rglob("*"):
        with suppress(FileNotFoundError):
            if path.suffix not in (".crc", ".tmp") and path.is_file():
                found[str(path.relative_to(url))] = path.stat().st_size
    return found


def measured(change: Callable[[], None], url: Path) -> tuple[float, float, int]:
    """CPU seconds, wall seconds and bytes of new files of one change."""
    before, cpu, wall = files_of(url), cpu_seconds(), time.monotonic()
    change()
    spent = cpu_seconds() - cpu, time.monotonic() - wall
    return *spent, sum(size for name, size in files_of(url).items() if name not in before)


def child(engine: str, folder: Path, rounds: int, delta_jars: str | None, trial: bool) -> None:
    """The main function of an engine's process; prints its figures as a line of JSON."""
    warehouse = folder / engine
    given = settings(engine, warehouse, delta_jars)
    if given is None:
        print(json.dumps({"error": "its jar is not here"}))
        return
    java = {"spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1"} if trial else {}
    spark = session(False, FEW_TASKS | java | given) if KINDS[engine].in_spark else None
    home = warehouse / "default.db"
    home.mkdir(parents=True)
    ways = {way: KINDS[engine](spark, way == "vectors") for way in WAYS.get(engine, ("vectors", "copies"))}
    for way, made in ways.items():
        for size in ("small", "large"):
            made.create(str(folder / f"{size}-rows"), str(home / f"{size}_{way}"))
    found: dict[str, Any] = {}
    for number in range(rounds + 1):
        size = "large" if number else "small"
        for (way, made), operation in product(ways.items(), OPERATIONS):
            copy = home / f"copy_{number}_{way}_{OPERATIONS.index(operation)}"
            shutil.copytree(home / f"{size}_{way}", copy)
            merge = partial(made.merge, str(copy), str(folder / f"{size}-{SHARES.get(operation, 0)}"))
            figures = measured(merge if operation in SHARES else partial(made.delete, str(copy)), copy)
            if number:
                told = found.setdefault(f"{operation}, {way}", {"operation": operation, "runs": []})
                told["runs"].append(figures)
                told["sums"] = made.sums(str(copy))
            shutil.rmtree(copy, ignore_errors=True)
    print(json.dumps(found))
    if spark is not None:
        spark.stop()


def make_sources(rows: int, folder: Path) -> None:
    """The rows of the table, in eight files, and those of the merges; also a small set, to warm up with."""
    for size, count in (("small", min(rows, 20_000)), ("large", rows)):
        for name in (f"{size}-rows", *(f"{size}-{share}" for share in SHARES.values())):
            (folder / name).mkdir(parents=True)
        dice = np.random.default_rng(7)
        for number, ids in enumerate(np.array_split(np.arange(count, dtype=np.int64), 8)):
            pq.write_table(rows_of(dice, ids), folder / f"{size}-rows" / f"{number}.parquet", compression="zstd")
            for share in SHARES.values():
                chosen = ids[dice.random(len(ids)) < share / 1000]
                moved = np.where(dice.random(len(chosen)) < 0.1, chosen + count, chosen)
                pq.write_table(rows_of(dice, moved), folder / f"{size}-{share}" / f"{number}.parquet")


def rows_of(dice: np.random.Generator, ids: Any) -> pa.Table:
    """id BIGINT, k INT, amt DOUBLE, name STRING (unique), city STRING (200 values), ts TIMESTAMP."""
    count = len(ids)
    numbers = pa.array(ids)
    columns = {
        "id": numbers,
        "k": dice.integers(0, 1_000_000, count).astype(np.int32),
        "amt": dice.integers(0, 1_000_000, count) / 8,
        "name": pc.binary_join_element_wise("user", numbers.cast(pa.string()), "-"),
        "city": pc.binary_join_element_wise("city", pa.array(dice.integers(0, 200, count)).cast(pa.string()), "-"),
        "ts": pa.array(1_700_000_000_000_000 + ids * 1_000_003).cast(pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", default=",".join(KINDS), help="which ones, separated by commas")
    parser.add_argument("--delta-jars", help="the folder with the jars of delta-spark")
    parser.add_argument(
        "--trial", action="store_true", help="the JVM compiles less, which a short run does not pay back"
    )
    parser.add_argument("--folder", type=Path, help="where tables are written; a temporary folder by default")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    add_json(parser)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.folder, given.rounds, given.delta_jars, given.trial)
        return
    folder = given.folder or Path(tempfile.mkdtemp(prefix="lakelatch-bench-"))
    make_sources(given.rows, folder)
    print(f"{given.rows:,} rows\n")
    print("| engine | what | CPU s | wall s | MB written |\n|---|---|---|---|---|")
    sums: dict[str, dict[str, Any]] = {}
    rows = []
    for engine in given.engines.split(","):
        of_engine = run(engine, folder, given)
        if not of_engine:
            rows.append({"engine": engine, "what": "left out: it cannot run here"})
        for what, found in of_engine.items():
            cpu, wall, size = (statistics.median(figures) for figures in zip(*found["runs"], strict=True))
            sums.setdefault(found["operation"], {})[f"{engine}, {what}"] = found["sums"]
            print(f"| {engine} | {what} | {cpu:.2f} | {wall:.2f} | {size / 1e6:.1f} |", flush=True)
            rows.append({"engine": engine, "what": what, "CPU s": cpu, "wall s": wall, "MB written": size / 1e6})
    record(given.json, f"{given.rows:,} rows, {given.rounds} rounds", rows)
    if given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = {operation: told for operation, told in sums.items() if len({str(s) for s in told.values()}) > 1}
    if wrong:
        raise SystemExit(f"the engines do not agree: {wrong}")


def run(engine: str, folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one engine, by operation; none if it cannot run."""
    command = [sys.executable, __file__, "--child", engine, "--folder", str(folder), "--rounds", str(given.rounds)]
    command += ["--delta-jars", given.delta_jars] if given.delta_jars else []
    command += ["--trial"] if given.trial else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(folder / engine, ignore_errors=True)
    told = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.stderr[-1500:]}
    if "error" in told:
        print(f"| {engine} | | {' '.join(told['error'].split())} | | |", flush=True)
        return {}
    return told  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
