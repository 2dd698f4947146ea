"""A driver that copies a table into another as a stream, until it is killed or nothing is left. Prints a line when it runs."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import SparkSession

import lakelatch.spark as lake


def copy(spark: Any, source: str, target: str, checkpoint: str, **trigger: Any) -> Any:
    """Start the query."""
    lake.register(spark)
    stream = spark.readStream.format("lakelatch").option("from", "earliest").option("maxSnapshotsPerTrigger", 2)
    writer = stream.load(source).writeStream.format("lakelatch").option("checkpointLocation", checkpoint)
    return writer.trigger(**trigger).start(target)


def main(source: str, target: str, checkpoint: str) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    query = copy(spark, source, target, checkpoint, processingTime="0 seconds")
    print("running", flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
