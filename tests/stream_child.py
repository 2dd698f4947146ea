"""A driver that copies a chain of tables, each into the next one, as streams, until it is killed or nothing is left to copy.

Every second step writes through the data source, the others through the sink of `foreachBatch`. A query that fails, because one
of Spark's Python processes was killed, is started again. Prints a line when all queries run, and one for each that failed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lakelatch as ll
import lakelatch.spark as lake

SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.timezone=UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "lakelatch.spark.daemon",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.ui.enabled": "false",
}


def link(spark: Any, source: str, target: str, checkpoint: str, through_sink: bool, **trigger: Any) -> Any:
    """Start the query between two tables."""
    stream = spark.readStream.format("lakelatch").option("from", "earliest").option("consumer", CONSUMER)
    writer = stream.option("maxSnapshotsPerTrigger", 20).load(source).writeStream
    writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
    if through_sink:
        return writer.foreachBatch(lake.sink(target, checkpoint=checkpoint)).start()
    return writer.format("lakelatch").start(target)


CONSUMER = "next"
"""The consumer of each table that is read."""


class Chain:
    """Tables and the checkpoints between them.

    Args:
        folder: holds the tables `0`, `1`, … and the file `finish`, which says that no more rows come.
        checkpoints: the folder of the checkpoints.
    """

    def __init__(self, folder: Path, checkpoints: Path, links: int) -> None:
        self.folder, self.checkpoints = folder, checkpoints
        self.urls = [str(folder / str(i)) for i in range(links + 1)]

    def start(self, spark: Any, number: int, **trigger: Any) -> Any:
        """Start the query that writes table `number`."""
        pair = self.urls[number - 1], self.urls[number]
        return link(spark, *pair, str(self.checkpoints / str(number)), number % 2 == 0, **trigger)

    def run(self, spark: Any) -> Iterator[str]:
        """Run all queries until all rows are in the last table; yields the errors of queries, which are started again.

        They start one after the other: each starts a Python process, which Spark gives ten seconds.
        """
        lake.register(spark)
        running: dict[int, Any] = {}
        for number in range(1, len(self.urls)):
            running[number] = self.start(spark, number, processingTime="1 second")
            while running[number].isActive and running[number].status["message"].startswith("Initializing"):
                time.sleep(0.1)
        print("running", flush=True)
        while not self.finished():
            for number, query in running.items():
                if not query.isActive:
                    yield str(query.exception())
                    running[number] = self.start(spark, number, processingTime="1 second")
                    break  # so that not all of them start at once
            time.sleep(0.5)
        for query in running.values():
            query.stop()

    def finished(self) -> bool:
        """Are all rows in the last table, and do no more come?"""
        counts = [ll.open_table(url).count() for url in (self.urls[0], self.urls[-1])]
        return (self.folder / "finish").exists() and counts[0] <= counts[1]


def main(folder: str, checkpoints: str, links: str) -> None:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2, 2]").appName("lakelatch-chain")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for error in Chain(Path(folder), Path(checkpoints), int(links)).run(spark):
        print("failed:", " ".join(error.split())[:300], flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
