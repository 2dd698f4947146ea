"""Runs Spark with Apache Paimon's connector: does what each line of JSON on stdin says, and answers with a line on stdout.

An answer is null, or the end of a trace. Arrow files carry the rows. See `spark_env.py`.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def catalog(warehouse: str) -> dict[str, str]:
    """The tables of a folder as those of the catalog `paimon`, for SQL."""
    return {
        "spark.sql.extensions": "org.apache.paimon.spark.extensions.PaimonSparkSessionExtensions",
        "spark.sql.catalog.paimon": "org.apache.paimon.spark.SparkCatalog",
        "spark.sql.catalog.paimon.warehouse": warehouse,
    }


def run(spark: Any, request: dict[str, Any]) -> str | None:
    """One request: None where it went well, else the end of the trace."""
    path, file = request["path"], request["file"]
    try:
        if request["do"] == "read":
            rows = spark.read.format("paimon").load(path).toArrow()
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
        elif request["do"] == "sql":
            if file is not None:
                with pa.ipc.open_file(file) as reader:
                    spark.createDataFrame(reader.read_all()).createOrReplaceTempView("src")
            spark.sql(request["sql"]).collect()
        else:
            with pa.ipc.open_file(file) as reader:
                rows = reader.read_all()
            frame = spark.createDataFrame(rows)
            frame.coalesce(1).write.format("paimon").mode("append").save(path)
    except Exception:
        return traceback.format_exc()[-3000:]
    return None


if __name__ == "__main__":
    answers = sys.stdout
    sys.stdout = sys.stderr
    builder = SparkSession.builder.master("local[1]").appName("lakelatch-tests").config("spark.jars", sys.argv[1])
    more = catalog(sys.argv[2]) if len(sys.argv) > 2 else {}
    for key, value in (SETTINGS | more).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(run(session, json.loads(line))), file=answers, flush=True)
