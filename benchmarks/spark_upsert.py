"""What upserts cost on Spark, beside Spark's own shuffle + sort + Parquet, and beside Apache Paimon's connector where its jar is.

Write: the same rows into 16 buckets by a BIGINT key. Target: at most 1.3 x the CPU of
`df.repartition(…).sortWithinPartitions(…).write.parquet`. Read: all columns of a table of three runs, in which one row in three
has a newer version and one in fifty of those deletes; of the same table compacted; and with deletion vectors on one row in a
hundred. The yardstick is Spark's own scan of the same files, without a merge. Targets: 1.4 x, 1.1 x and 1.3 x.

The connector runs in the same session; its jar is in the folder that `LAKELATCH_TOOLS` names. It reads the very
files that lakelatch reads. Sizes are arguments: `--rows 400000 --rounds 1` is a trial.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_session import CODEC, arguments, facts, make_rows, measure, report, session

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

COLUMNS = ("id", "k", "amt", "name", "city", "ts")


def connector() -> Path | None:
    """The jar of Apache Paimon's connector."""
    named = os.environ.get("LAKELATCH_TOOLS")
    return next(iter(sorted(Path(named).glob("paimon-spark-*.jar"))), None) if named else None


def more_arguments(parser: Any) -> None:
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--only", choices=["write", "read"], help="one of the two parts")
    parser.add_argument("--key", choices=["id", "name"], default="id", help="the primary key: BIGINT or STRING")


def noop(df: Any) -> None:
    df.write.format("noop").mode("overwrite").save()


def table_options(args: Any, **more: str) -> dict[str, str]:
    return {"bucket": str(args.buckets), "write-only": "true", "file.compression.zstd-level": "1", **more}


def make_table(url: str, args: Any, **more: str) -> Any:
    import lakelatch as ll

    types = {"id": "BIGINT", "k": "INT", "amt": "DOUBLE", "name": "STRING", "city": "STRING"}
    columns = [(name, types.get(name, "TIMESTAMP(6) WITH LOCAL TIME ZONE")) for name in COLUMNS]
    return ll.create_table(url, ll.Schema(columns), primary_key=[args.key], options=table_options(args, **more))


def writes(spark: Any, source: str, folder: Path, args: Any, has_connector: bool) -> dict[str, Callable[[], None]]:
    """Spark's own write, ours, and the connector's."""
    import lakelatch.spark as lake

    df = spark.read.parquet(source)

    def native() -> None:
        target = str(folder / f"parquet-{uuid.uuid4()}")
        sorted_rows = df.repartition(args.buckets, args.key).sortWithinPartitions(args.key)
        sorted_rows.write.options(**CODEC).parquet(target)
        shutil.rmtree(target, ignore_errors=True)

    def ours() -> None:
        target = str(folder / f"table-{uuid.uuid4()}")
        make_table(target, args)
        lake.write(df, target, storage_options={"fsync": False})
        shutil.rmtree(target, ignore_errors=True)

    def theirs() -> None:
        target = str(folder / f"table-{uuid.uuid4()}")
        make_table(target, args)
        df.write.format("paimon").mode("append").save(target)
        shutil.rmtree(target, ignore_errors=True)

    chosen = {"shuffle + sort + write.parquet": native, "lakelatch.spark.write": ours}
    if has_connector:
        chosen["Apache Paimon's connector"] = theirs
    return chosen


def make_runs(spark: Any, source: str, url: str, args: Any) -> None:
    """Three runs: all rows, then a third of them and another third anew, with some deletes."""
    import lakelatch.spark as lake

    make_table(url, args)
    df = spark.read.parquet(source)
    lake.write(df, url)
    for run in (1, 2):
        some = df.where(f"pmod(xxhash64(id), 3) = {run}")
        kind = f"CASE WHEN pmod(id, 50) = {run} THEN '-D' ELSE '+U' END AS op"
        lake.write(some.selectExpr(*(c if c != "amt" else "amt + 1 AS amt" for c in COLUMNS), kind), url, row_kind="op")


def data_files(url: str) -> list[str]:
    import lakelatch as ll

    return [f"{url}/{name}" for name in ll.open_table(url).files()["file_path"].to_pylist()]


def reads(spark: Any, url: str, has_connector: bool) -> dict[str, Callable[[], None]]:
    """A scan of all files by Spark, and what the readers of tables take."""
    import lakelatch.spark as lake

    raw = spark.read.parquet(data_files(url)[0]).select(*COLUMNS).schema

    chosen = {
        "scan without a merge": lambda: noop(spark.read.schema(raw).parquet(*data_files(url))),
        "lakelatch.spark.read": lambda: noop(lake.read(spark, url)),
    }
    if has_connector:
        chosen["Apache Paimon's connector"] = lambda: noop(spark.read.format("paimon").load(url))
    return chosen


def mark_rows(url: str) -> None:
    """Deletes one row in a hundred of each file, by vectors, and says so in the table's options."""
    import numpy as np
    from marked_rows import mark

    import lakelatch as ll

    table, dice = ll.open_table(url), np.random.default_rng(1)
    counts = {e.file.file_name: e.file.row_count for e in table.entries()}
    mark(table, {name: np.sort(dice.choice(n, n // 100, replace=False)).tolist() for name, n in counts.items()})
    path = Path(url) / "schema" / "schema-0"
    path.write_text(path.read_text().replace('"options": {', '"options": {"deletion-vectors.enabled": "true",'))


def same_rows(spark: Any, url: str, has_connector: bool) -> int:
    """The number of rows, on which all readers agree."""
    import lakelatch as ll
    import lakelatch.spark as lake

    counts = [
        ll.open_table(url).to_arrow(columns=["id"]).num_rows,
        lake.read(spark, url).agg({"id": "count"}).first()[0],
    ]
    if has_connector:
        counts.append(spark.read.format("paimon").load(url).agg({"id": "count"}).first()[0])
    assert len(set(counts)) == 1, counts
    return int(counts[0])


def main() -> None:
    args = arguments(__doc__.partition("\n")[0] if __doc__ else "", more_arguments)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="lakelatch-bench-"))
    jar = connector()
    spark = session(args.plain_daemon, {"spark.jars": str(jar)} if jar else {})
    has_connector = jar is not None
    source = str(folder / "source")
    if not Path(source).exists():
        make_rows(spark, args.rows, source)
    described = {
        "buckets": args.buckets,
        "key": args.key,
        "connector": jar.name if jar else "none",
        **facts(spark, args),
    }
    if args.only != "read":
        results = measure(writes(spark, source, folder, args, has_connector), args.rounds)
        report(f"upsert of one DataFrame into {args.buckets} buckets", described, results, args.json)
    if args.only != "write":
        measure_reads(spark, source, folder, args, described, has_connector)
    spark.stop()
    if args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)


def measure_reads(
    spark: Any, source: str, folder: Path, args: Any, described: dict[str, Any], has_connector: bool
) -> None:
    import lakelatch as ll

    url, marked = str(folder / f"runs-{args.rows}"), str(folder / f"marked-{args.rows}")
    if not ll.is_table(url):
        make_runs(spark, source, url, args)
    rows = same_rows(spark, url, has_connector)
    results = measure(reads(spark, url, has_connector), args.rounds)
    report("all columns of three runs", {**described, "rows left": rows}, results, args.json)
    ll.open_table(url).compact(full=True)
    same_rows(spark, url, has_connector)
    results = measure(reads(spark, url, has_connector), args.rounds)
    report("all columns, compacted", {**described, "rows left": rows}, results, args.json)
    if not ll.is_table(marked):
        shutil.copytree(url, marked)
        mark_rows(marked)
    rows = same_rows(spark, marked, has_connector)
    results = measure(reads(spark, marked, has_connector), args.rounds)
    report("all columns, with deletion vectors", {**described, "rows left": rows}, results, args.json)


if __name__ == "__main__":
    main()
