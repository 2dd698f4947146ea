"""What an append costs beside Spark's own Parquet writer: the same rows, the same codec, no shuffle.

`lakelatch` writes rows, statistics and metadata, and commits; with fsync (its default) and without (as Spark's writer, which
never syncs). Target: at most 1.2 x the CPU of `df.write.parquet`.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Any

from spark_session import CODEC, arguments, facts, make_rows, measure, report, session


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
        shutil.rmtree(target)

    def append(fsync: bool) -> Any:
        target = folder / f"table-{uuid.uuid4()}"
        lake.write(df, str(target), options={}, storage_options={"fsync": fsync})
        shutil.rmtree(target)

    variants = {
        "df.write.parquet": native,
        "lakelatch append": lambda: append(True),
        "lakelatch append, no fsync": lambda: append(False),
        "read only (noop)": lambda: df.write.format("noop").mode("overwrite").save(),
    }
    results = measure(variants, args.rounds)
    report("append of one DataFrame", facts(spark, args), results, args.json)
    spark.stop()
    if args.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
