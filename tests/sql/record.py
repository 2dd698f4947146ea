"""Runs the statement files through Apache Paimon's connector for Spark, and writes what it answers.

Run by hand after a statement was added: `python tests/sql/record.py [file …]`, where `tests/given.py` finds the connector's jar.
Each file gets a warehouse of its own, whose catalog is called `lake`.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

import java_home  # noqa: E402
from interop.spark_env import connector  # noqa: E402
from statements import RECORDED, answer, files  # noqa: E402

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.paimon.spark.SparkCatalog",
}


def main() -> None:
    from pyspark.sql import SparkSession

    java_home.wire()
    jar = connector()
    chosen = set(sys.argv[1:])
    made = json.loads(gzip.decompress(RECORDED.read_bytes())) if RECORDED.exists() and chosen else {}
    for name, statements in files().items():
        if chosen and name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            builder = SparkSession.builder.master("local[1]").config("spark.jars", str(jar))
            settings = {**SETTINGS, "spark.sql.catalog.lake.warehouse": f"{folder}/lake"}
            for key, value in {**settings, "spark.sql.warehouse.dir": f"{folder}/spark"}.items():
                builder = builder.config(key, value)
            session = builder.getOrCreate()
            session.sparkContext.setLogLevel("OFF")
            answers = [{"sql": statement, **answer(session, statement)} for statement in statements]
            made[name] = [{key: value for key, value in one.items() if key != "message"} for one in answers]
            session.stop()
    text = json.dumps(made, sort_keys=True).replace(str(tempfile.gettempdir()), "/tmp")
    RECORDED.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main()
