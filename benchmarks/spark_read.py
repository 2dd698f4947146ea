"""What a scan costs beside `spark.read.parquet` on the very same files.

Each query is measured on Spark's own reader, on `lakelatch.spark.read` (planning included), on its Arrow leg alone (what
changed schemas take) and on the data source. Target: at most 1.1 x the CPU of Spark's reader; a count of all rows from
metadata alone. With `--files N` the rows lie in N files, to see where the Arrow leg takes over.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spark_session import arguments, facts, make_rows, measure, report, session


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
    from lakelatch.spark import scan

    def native() -> None:
        df = spark.read.parquet(*files)
        act((df.where(where) if where else df).select(*columns))

    def arrow() -> None:
        limits = scan.NATIVE_FILES, scan.NATIVE_FILE_BYTES
        scan.NATIVE_FILES, scan.NATIVE_FILE_BYTES = 0, 1 << 60
        try:
            act(lake.read(spark, url, columns, where))
        finally:
            scan.NATIVE_FILES, scan.NATIVE_FILE_BYTES = limits

    def source() -> None:
        df = spark.read.format("lakelatch").load(url)
        act((df.where(where) if where else df).select(*columns))

    return {
        "spark.read.parquet": native,
        "lakelatch.spark.read": lambda: act(lake.read(spark, url, columns, where)),
        "its Arrow leg": arrow,
        "data source": source,
    }


def main() -> None:
    args = arguments(
        __doc__.partition("\n")[0] if __doc__ else "",
        lambda parser: parser.add_argument(
            "--files", type=int, default=0, help="number of data files; 0 = one per task"
        ),
    )
    folder = args.folder or Path(tempfile.mkdtemp(prefix="lakelatch-bench-"))
    spark = session(args.plain_daemon)
    import lakelatch as ll
    import lakelatch.spark as lake

    lake.register(spark)
    source, url = str(folder / "source"), str(folder / f"table-{args.rows}-{args.files}")
    if not Path(source).exists():
        make_rows(spark, args.rows, source)
    if not ll.is_table(url):
        df = spark.read.parquet(source)
        lake.write(df.repartition(args.files) if args.files else df, url, options={})
    files = [f"{url}/{name}" for name in ll.open_table(url).files()["file_path"].to_pylist()]
    for name, (columns, where, act) in queries(args.rows).items():
        chosen = variants(spark, url, files, columns, where, act)
        described = {"query": name, "files": len(files), **facts(spark, args)}
        report(f"scan: {name}", described, measure(chosen, args.rounds), args.json)
    spark.stop()
    if args.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
