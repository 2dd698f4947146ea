"""The readers that `merge.py` measures, each in a process of its own: prints what it took as one JSON line.

    python merge_readers.py READER REQUEST

Must not import lakelatch at the top: pypaimon runs in an environment without it.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Found = tuple[int, list[float] | None]
"""The number of rows, and the sums of columns `k` and `amt`; None if nobody looks at them."""
KEYS, NEWEST = "id", "_SEQUENCE_NUMBER"
VALUES = ("k", "amt", "name", "city", "ts")


def lakelatch(request: Mapping[str, Any]) -> Callable[[], Found]:
    import lakelatch as ll
    from lakelatch.table.reading.arrow import SplitReader
    from lakelatch.table.scan.fallback import file_schemas_of

    table = ll.open_table(request["url"])
    if request.get("memory") is None:
        return lambda: _of_arrow(table.to_arrow())
    plan = table.plan()
    schemas = file_schemas_of(table.timeline, table.schema, plan.splits)

    def streamed() -> Found:
        reader = SplitReader(table.schema, None, None, schemas, merge_memory=request["memory"])
        return sum(batch.num_rows for batch in reader.batches(table.store, plan.splits)), None

    return streamed


def polars(request: Mapping[str, Any]) -> Callable[[], Found]:
    """Files of all buckets, oldest run first, so that the last row of a key is the newest: nothing has to be sorted."""
    import polars as pl

    runs = [file for files in zip(*request["buckets"], strict=True) for file in files]
    columns = ["id", "_VALUE_KIND", *VALUES]

    def merged() -> Found:
        rows = pl.scan_parquet(runs).select(columns)
        if request["engine"] == "deduplicate":
            made = rows.unique(subset=KEYS, keep="last").filter(pl.col("_VALUE_KIND") % 2 == 0)
        elif request["engine"] == "partial-update":
            made = rows.group_by(KEYS).agg(pl.col(name).drop_nulls().last() for name in VALUES)
        else:
            made = rows.group_by(KEYS).agg(
                pl.col("k").max(),
                pl.col("amt").sum(),
                pl.col("name").drop_nulls().last(),
                pl.col("city").drop_nulls().last(),
                pl.col("ts").max(),
            )
        return _of_polars(made.collect(engine="streaming" if request["engine"] != "deduplicate" else "in-memory"))

    return merged


def polars_over(request: Mapping[str, Any]) -> Callable[[], Found]:
    """The rows whose sequence number is the largest of their key, by polars' streaming engine."""
    import polars as pl

    files = [file for bucket in request["buckets"] for file in bucket]
    if request["engine"] != "deduplicate":
        raise SystemExit("only for deduplicate")
    newest = pl.col(NEWEST) == pl.col(NEWEST).max().over(KEYS)
    rows = pl.scan_parquet(files).select("id", "_VALUE_KIND", NEWEST, *VALUES)
    rows = rows.filter(newest).filter(pl.col("_VALUE_KIND") % 2 == 0).select("id", *VALUES)
    return lambda: _of_polars(rows.collect(engine="streaming"))


def _of_polars(found: Any) -> Found:
    return found.height, [float(found["k"].cast(int).sum()), float(found["amt"].sum())]


def duckdb(request: Mapping[str, Any]) -> Callable[[], Found]:
    import duckdb

    files = [file for bucket in request["buckets"] for file in bucket]
    source = f"read_parquet({files})"
    if request["engine"] == "deduplicate":
        newest = f"row_number() OVER (PARTITION BY {KEYS} ORDER BY {NEWEST} DESC) = 1"
        query = (
            f"FROM (SELECT * FROM {source} QUALIFY {newest}) SELECT id, {', '.join(VALUES)} WHERE _VALUE_KIND % 2 = 0"
        )
    else:
        made = {name: f"arg_max({name}, {NEWEST}) FILTER ({name} IS NOT NULL)" for name in VALUES}
        if request["engine"] == "aggregation":
            made |= {"k": "max(k)", "amt": "sum(amt)", "ts": "max(ts)"}
        listed = ", ".join(f"{text} AS {name}" for name, text in made.items())
        query = f"SELECT {KEYS}, {listed} FROM {source} GROUP BY {KEYS}"

    def merged() -> Found:
        found = duckdb.sql(query).arrow()
        return _of_arrow(found if hasattr(found, "num_rows") else found.read_all())

    return merged


def pypaimon(request: Mapping[str, Any]) -> Callable[[], Found]:
    from pypaimon.table.file_store_table import FileStoreTable

    table = FileStoreTable.from_path(request["url"])

    def merged() -> Found:
        builder = table.new_read_builder()
        return _of_arrow(builder.new_read().to_arrow(builder.new_scan().plan().splits()))

    return merged


def java(request: Mapping[str, Any]) -> Callable[[], Found]:
    """The loop over rows runs inside the JVM."""
    import jpype
    from interop.java import jvm

    home = jvm.java_home.wire()
    path = [str(jvm.bundle_jar()), str(jvm.pyspark_jars() / "*")]
    jpype.startJVM(str(home / "lib/server/libjvm.so"), "-Xmx4g", "-Dlog4j2.level=ERROR", classpath=path)
    from interop.java.paimon import PaimonJava

    table = PaimonJava().open(request["url"])
    streams, spliterators = jpype.JClass("java.util.stream.StreamSupport"), jpype.JClass("java.util.Spliterators")
    iterator = jpype.JClass("org.apache.paimon.reader.RecordReaderIterator")

    def merged() -> Found:
        builder = table.newReadBuilder()
        source = builder.newRead().createReader(builder.newScan().plan().splits())
        found = spliterators.spliteratorUnknownSize(iterator(source), 0)
        return int(streams.stream(found, False).count()), None

    return merged


def _of_arrow(table: Any) -> Found:
    import pyarrow.compute as pc

    return table.num_rows, [float(pc.sum(table[name]).as_py()) for name in ("k", "amt")]


READERS: dict[str, Callable[[Mapping[str, Any]], Callable[[], Found]]] = {
    "lakelatch": lakelatch,
    "polars": polars,
    "polars-over": polars_over,
    "duckdb": duckdb,
    "pypaimon": pypaimon,
    "java": java,
}


def python_of(reader: str) -> Path:
    """The interpreter of a reader."""
    if reader != "pypaimon":
        return Path(sys.executable)
    from interop.pypaimon_env import interpreter

    return interpreter()


def environment_of(reader: str) -> dict[str, str]:
    tests = str(Path(__file__).resolve().parent.parent / "tests")
    kept = {key: value for key, value in os.environ.items() if reader != "pypaimon" or not key.startswith("PYTHON")}
    if reader != "pypaimon":
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, [kept.get("PYTHONPATH", ""), tests]))
    return kept


def peak_mib() -> float:
    """The peak of this program's memory (`getrusage` would tell that of the process that started it, if it was larger)."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    request = json.loads(sys.argv[2])
    merged = READERS[sys.argv[1]](request)
    before, wall, cpu = peak_mib(), [], []
    for _ in range(request["times"]):
        began, cpu_began = time.perf_counter(), time.process_time()
        rows, sums = merged()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - cpu_began)
    answer = {
        "wall": statistics.median(wall[1:] or wall),
        "cpu": statistics.median(cpu[1:] or cpu),
        "rows": rows,
        "before": before,
        "peak": peak_mib(),
    }
    print(json.dumps(answer if sums is None else answer | {"sums": sums}))


if __name__ == "__main__":
    main()
