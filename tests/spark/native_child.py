"""A separate Spark session whose jars include a store's client. Writes a table, reads it, and prints the rows and the plan."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import lakelatch.spark as lake


def main() -> None:
    order = json.load(sys.stdin)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = {"spark.jars": order["jars"], "spark.driver.host": "127.0.0.1", "spark.ui.showConsoleProgress": "false"}
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    df = spark.range(300).selectExpr("id", "cast(id % 2 AS int) AS half")
    lake.write(df, order["url"], partition_by=["half"], storage_options=order["options"])
    read = lake.read(spark, order["url"], where="half = 1", storage_options=order["options"])
    rows = sorted(row.id for row in read.collect())
    print(json.dumps({"rows": rows, "plan": read._jdf.queryExecution().toString()}))
    spark.stop()


if __name__ == "__main__":
    main()
