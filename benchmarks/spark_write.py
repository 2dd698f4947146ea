"""What an append costs beside Spark's own Parquet writer: the same rows, the same codec, no shuffle.

`lakelatch` writes rows, statistics and metadata, and commits; with fsync (its default) and without (as Spark's writer, which
never syncs). Target: at most 1.2 x the CPU of `df.write.parquet`.

Then the same rows into 50 partitions, of which each of 8 tasks has rows: with `cluster="auto"` and "none", beside Spark's own
partitioned writer, with and without the same rebalancing. Target: at most 2 files for each partition.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

from spark_session import CODEC, arguments, facts, make_rows, measure, report, session

PARTITIONS, TASKS = 50, 8


def partitioned(spark: Any, source: str, folder: Path, rounds: int) -> tuple[dict[str, Any], dict[str, int]]:
    """The medians of each variant, and how many files it made."""
    import lakelatch as ll
    import lakelatch.spark as lake

    df = spark.read.parquet(source).repartition(TASKS).selectExpr("*", f"cast(id % {PARTITIONS} AS int) AS part")
    files: dict[str, int] = {}

    def native(name: str, frame: Any) -> None:
        target = folder / f"parquet-{uuid.uuid4()}"
        frame.write.options(**CODEC).partitionBy("part").parquet(str(target))
        files[name] = len(list(target.rglob("*.parquet")))
        shutil.rmtree(target, ignore_errors=True)

    def ours(name: str, cluster: Any) -> None:
        target = folder / f"table-{uuid.uuid4()}"
        lake.write(df, str(target), partition_by="part", cluster=cluster, storage_options={"fsync": False})
        files[name] = len(ll.open_table(str(target)).entries())
        shutil.rmtree(target, ignore_errors=True)

    variants = {
        "df.write.partitionBy.parquet": lambda: native("df.write.partitionBy.parquet", df),
        "the same, rebalanced": lambda: native("the same, rebalanced", df.hint("rebalance", "part")),
        "lakelatch, cluster=auto": lambda: ours("lakelatch, cluster=auto", "auto"),
        "lakelatch, cluster=none": lambda: ours("lakelatch, cluster=none", "none"),
    }
    return measure(variants, rounds), files


def main() -> None:
    args = arguments(__doc__.partition("\n")[0] if __doc__ else "")
    folder = args.folder or Path(tempfile.mkdtemp(prefix="lakelatch-bench-"))
    spark = session(args.plain_daemon)
    import lakelatch.spark as lake

    source = str(folder / "source")
    if not Path(source).exists():
        make_rows(spark, args.rows, source)
    df = spark.read.parquet(source)

    def native() -> None:
        target = folder / f"parquet-{uuid.uuid4()}"
        df.write.options(**CODEC).parquet(str(target))
        shutil.rmtree(target, ignore_errors=True)

    def append(fsync: bool) -> Any:
        target = folder / f"table-{uuid.uuid4()}"
        lake.write(df, str(target), options={}, storage_options={"fsync": fsync})
        shutil.rmtree(target, ignore_errors=True)

    variants = {
        "df.write.parquet": native,
        "lakelatch append": lambda: append(True),
        "lakelatch append, no fsync": lambda: append(False),
        "read only (noop)": lambda: df.write.format("noop").mode("overwrite").save(),
    }
    results = measure(variants, args.rounds)
    report("append of one DataFrame", facts(spark, args), results, args.json)
    results, files = partitioned(spark, source, folder, args.rounds)
    report(f"{PARTITIONS} partitions from {TASKS} tasks", {**facts(spark, args), "files": files}, results, args.json)
    spark.stop()
    if args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
