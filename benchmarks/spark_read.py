"""What a scan costs beside `spark.read.parquet` on the very same files.

Each query is measured on Spark's own reader, on `lakelatch.spark.read` (planning included), on its Arrow leg alone (what
changed schemas take), in a registered session by SQL, by the table's name and by the source's, and on the data source that an
unregistered session has. Target: at most 1.1 x the CPU of Spark's reader, and in a registered session at most 1.05 x that of
`lakelatch.spark.read` without columns and filter, which Spark adds in all of these; a count of all rows from metadata alone. With
`--files N` the rows lie in N files.

A statement costs about seven milliseconds more than `lakelatch.spark.read`, for reading its text and the view that Spark makes of
the table, so that a query must take a few tenths of a second for the second target: `--registered --rows 100000000 --rounds 30`,
and `--queries` for some of the queries, since all columns of so many rows take a quarter of a minute each time.

With `--registered`, each query first runs on a small table of the same columns, many times in each way. Without that, the JVM
compiles the parser, the analyser and the planner while it is measured: that was 10 to 40 % of the time of 22 rounds of these
queries, in the background, and so on the account of whichever way came next.

With `--small 48 400 5000`, tables of so many small files are read, in 50 partitions and with the filter on the frame. Target: at
most 1.2 x the wall and the CPU of `spark.read.parquet` of the same files, given as paths.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_session import WARM_UP, arguments, facts, make_rows, measure, report, session


def queries(rows: int) -> dict[str, tuple[list[str], str | None, Callable[[Any], Any]]]:
    """Name -> columns, predicate, action on the frame."""
    from pyspark.sql import functions as F  # noqa: N812

    def noop(df: Any) -> None:
        df.write.format("noop").mode("overwrite").save()

    everything = ["id", "k", "amt", "name", "city", "ts"]
    return {
        "count": ([], None, lambda df: df.count()),
        "sum of one column": (["amt"], None, lambda df: df.agg(F.sum("amt")).collect()),
        "1 % of rows": (everything, f"id < {rows // 100}", noop),
        "all columns": (everything, None, noop),
    }


def variants(spark: Any, url: str, files: list[str], columns: list[str], where: str | None, act: Any) -> dict[str, Any]:
    import lakelatch.spark as lake
    from lakelatch.spark.reading import scan

    def of(frame: Any) -> None:
        act((frame.where(where) if where else frame).select(*columns))

    def arrow() -> None:
        limits = scan.NATIVE_FILES, scan.NATIVE_FILE_BYTES
        scan.NATIVE_FILES, scan.NATIVE_FILE_BYTES = 0, 1 << 60
        try:
            act(lake.read(spark, url, columns, where))
        finally:
            scan.NATIVE_FILES, scan.NATIVE_FILE_BYTES = limits

    def source() -> None:
        lake.unregister(spark)
        try:
            of(spark.read.format("lakelatch").load(url))
        finally:
            known(spark, Path(url).parent.parent)

    name = f"lake.{DATABASE}.{Path(url).name}"
    chosen = f"SELECT {', '.join(columns) or '*'} FROM {name}" + (f" WHERE {where}" if where else "")
    return {
        "spark.read.parquet": lambda: of(spark.read.parquet(*files)),
        "lakelatch.spark.read": lambda: act(lake.read(spark, url, columns, where)),
        "the same, without columns and where": lambda: of(lake.read(spark, url)),
        "its Arrow leg": arrow,
        "spark.sql": lambda: act(spark.sql(chosen)),
        "spark.table": lambda: of(spark.table(name)),
        "spark.read of a registered session": lambda: of(spark.read.format("lakelatch").load(url)),
        "data source": source,
    }


DATABASE = "bench"
OF_REGISTERED = (
    "the same, without columns and where",
    "spark.sql",
    "spark.table",
    "spark.read of a registered session",
)


def known(spark: Any, warehouse: Path) -> None:
    """Register the session, with the benchmark's folder as the catalog `lake`."""
    import lakelatch.spark as lake

    lake.register(spark, catalog="lake", warehouse=str(warehouse))


WARM_ROWS, WARM_ROUNDS = 100_000, 60
"""How large the table is on which the ways of a registered session are warmed up, and how often each runs on it."""
WARM_UP_REGISTERED = 5
"""Rounds on the large table, for the code that scans."""
PARTITIONS = 50
ROWS_OF_A_FILE = 20


def make_small(folder: Path, files: int) -> str:
    """A table of so many files in partitions; each commit writes one file into each of them."""
    import pyarrow as pa

    import lakelatch as ll

    url, parts = str(folder / f"small-{files}"), min(PARTITIONS, files)
    if ll.is_table(url):
        return url
    schema = pa.schema([("part", pa.int32()), ("id", pa.int64()), ("name", pa.string())])
    table = ll.create_table(url, schema, partition_by=["part"])
    for commit in range(files // parts):
        ids = range(commit * parts * ROWS_OF_A_FILE, (commit + 1) * parts * ROWS_OF_A_FILE)
        part = pa.array([i // ROWS_OF_A_FILE % parts for i in ids], pa.int32())
        table.append(pa.table({"part": part, "id": list(ids), "name": [f"name-{i}" for i in ids]}))
    return url


def small_files(spark: Any, args: Any, folder: Path, count: int) -> None:
    """What filters on the frame cost in a table of small files."""
    from pyspark.sql import functions as F  # noqa: N812

    import lakelatch as ll
    import lakelatch.spark as lake

    url = make_small(folder, count)
    files = [f"{url}/{name}" for name in ll.open_table(url).files()["file_path"].to_pylist()]
    folders = sorted({file.rpartition("/")[0] for file in files})

    for name, where in {"one partition": "part = 1", "few rows of all files": f"id % {ROWS_OF_A_FILE} = 7"}.items():

        def run(frame: Any, where: str = where) -> Any:
            return frame.where(where).agg(F.sum("id")).collect()

        chosen = {
            "spark.read.parquet": lambda: run(spark.read.parquet(*files)),
            "the same, by folders": lambda: run(spark.read.option("basePath", url).parquet(*folders)),
            "lakelatch.spark.read": lambda: run(lake.read(spark, url)),
        }
        if name == "one partition":
            source = spark.read.format("lakelatch").option("where", where)
            chosen["lakelatch.spark.read, where="] = lambda: run(lake.read(spark, url, where="part = 1"))
            chosen["data source, option where"] = lambda source=source: run(source.load(url))
        described = {"filter": where, "files": len(files), "partitions": len(folders), **facts(spark, args)}
        described["rows"] = count * ROWS_OF_A_FILE
        report(f"{count} small files: {name}", described, measure(chosen, args.rounds), args.json)


def more_arguments(parser: Any) -> None:
    parser.add_argument("--files", type=int, default=0, help="number of data files; 0 = one per task")
    parser.add_argument(
        "--no-source", action="store_true", help="leave out the data source, which takes ten times as long"
    )
    parser.add_argument(
        "--registered",
        action="store_true",
        help="only the ways of a registered session, and what they are compared with",
    )
    parser.add_argument("--queries", nargs="*", choices=queries(0), help="only these queries")
    parser.add_argument("--small", type=int, nargs="*", help="read tables of so many small files instead")


def main() -> None:
    args = arguments(__doc__.partition("\n")[0] if __doc__ else "", more_arguments)
    folder = args.folder or Path(tempfile.mkdtemp(prefix="lakelatch-bench-"))
    spark = session(args.plain_daemon)
    known(spark, folder)
    for count in args.small or ():
        small_files(spark, args, folder, count)
    if args.small is None:
        large_files(spark, args, folder)
    spark.stop()
    if args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)


def large_files(spark: Any, args: Any, folder: Path) -> None:
    """What whole columns and few rows cost in a table of large files."""
    import lakelatch as ll

    url = rows_table(spark, args, folder, args.rows)
    files = [f"{url}/{name}" for name in ll.open_table(url).files()["file_path"].to_pylist()]
    for name, (columns, where, act) in queries(args.rows).items():
        if args.queries and name not in args.queries:
            continue
        chosen = variants(spark, url, files, columns, where, act)
        if args.no_source:
            del chosen["data source"]
        warm_up = WARM_UP
        if args.registered:
            warm_up = WARM_UP_REGISTERED
            chosen = {way: chosen[way] for way in OF_REGISTERED}
            small = variants(spark, rows_table(spark, args, folder, WARM_ROWS), [], *queries(WARM_ROWS)[name])
            measure({way: small[way] for way in OF_REGISTERED}, 1, WARM_ROUNDS)
        described = {"query": name, "files": len(files), **facts(spark, args, warm_up)}
        report(f"scan: {name}", described, measure(chosen, args.rounds, warm_up), args.json)


def rows_table(spark: Any, args: Any, folder: Path, rows: int) -> str:
    """A table of so many rows, made unless it is there from an earlier run."""
    import lakelatch as ll
    import lakelatch.spark as lake

    source, url = str(folder / f"source_{rows}"), str(folder / f"{DATABASE}.db" / f"rows_{rows}_{args.files}")
    if not ll.is_table(url):
        if not Path(source).exists():
            make_rows(spark, rows, source)
        df = spark.read.parquet(source)
        lake.write(df.repartition(args.files) if args.files else df, url, options={})
        shutil.rmtree(source)
    return url


if __name__ == "__main__":
    main()
