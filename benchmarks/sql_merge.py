"""What MERGE by SQL costs beside `LakeTable.merge` with the same clauses: one of a hundred rows of a table is updated.

    python benchmarks/sql_merge.py --rows 100000 --rounds 20

Both change a table of their own, in turns. Target: at most 20 ms of CPU more, for reading the statement and its table's names.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from spark_session import arguments, facts, make_rows, measure, report, session

EVERY = 100


def main() -> None:
    args = arguments(__doc__.partition("\n")[0] if __doc__ else "")
    folder = args.folder or Path(tempfile.mkdtemp(prefix="lakelatch-bench-"))
    spark = session(args.plain_daemon)
    import lakelatch.spark as lake

    lake.register(spark, catalog="lake", warehouse=str(folder))
    make_rows(spark, args.rows, str(folder / "source"))
    names = {way: str(folder / "bench.db" / way) for way in ("by_sql", "by_method")}
    for url in names.values():
        lake.write(spark.read.parquet(str(folder / "source")).repartition(1), url, options={})
    spark.read.parquet(str(folder / "source")).where(f"id % {EVERY} = 0").coalesce(1).write.parquet(
        str(folder / "changes.parquet")
    )
    spark.read.parquet(str(folder / "changes.parquet")).createOrReplaceTempView("changes")

    def by_method() -> Any:
        target = lake.LakeTable.forPath(spark, names["by_method"])
        merge = target.merge(spark.table("changes"), "t.id = s.id")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    def by_sql() -> Any:
        spark.sql(
            "MERGE INTO lake.bench.by_sql AS t USING changes AS s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    results = measure({"LakeTable.merge": by_method, "MERGE by SQL": by_sql}, args.rounds)
    report(f"MERGE of {args.rows // EVERY:,} rows", facts(spark, args), results, args.json)
    spark.stop()
    if args.folder is None:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
