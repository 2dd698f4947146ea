"""One PySpark job of the demo, in a process of its own: it waits at the gate, writes its rows, and says how it went.

`demo_job.py JOB.json` with: name, source (a Parquet file), url, storage_options, mode, partition, ready, gate, result.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

import lakelatch.spark as lake


def session(name: str) -> SparkSession:
    """A small session: one core, a JVM that starts fast."""
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
    return (
        SparkSession.builder.master("local[1]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", quick)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    spark = session(job["name"])
    spark.sparkContext.setLogLevel("ERROR")
    df = spark.read.parquet(job["source"])
    df.limit(1).collect()  # everything is warm: what comes after the gate is the write
    Path(job["ready"]).touch()
    while not Path(job["gate"]).exists():
        time.sleep(0.01)
    receipt = lake.write(
        df,
        job["url"],
        mode=job["mode"],
        partition=job["partition"],
        commit_user=job["name"],
        identifier=1,
        storage_options=job["storage_options"],
    )
    Path(job["result"]).write_text(json.dumps(receipt.to_dict()))


if __name__ == "__main__":
    main()
