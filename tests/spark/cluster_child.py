"""A driver on a standalone cluster, whose executors do not have lakelatch at first. Prints what each step gave as JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import lakelatch as ll
import lakelatch.spark as lake

DDL = "k bigint"


def main() -> None:
    order = json.load(sys.stdin)
    builder = SparkSession.builder.master(order["master"])
    for name, value in order["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    lake.register(spark)
    url, marker = order["url"], Path(order["url"] + "-started")
    ll.create_table(url, pa.schema([("k", pa.int64())]), options={"file.format": "avro"})  # which Arrow reads
    ll.open_table(url).append(pa.table({"k": [1]}))

    def expensive(batches: Any) -> Any:
        marker.touch()
        yield from batches

    steps: dict[str, Callable[[], Any]] = {
        "write": lambda: lake.write(spark.range(2).selectExpr("id k").mapInArrow(expensive, DDL), url).kind,
        "read": lambda: lake.read(spark, url).count(),
        "source write": lambda: spark.range(1).selectExpr("id k").write.format("lakelatch").mode("append").save(url),
        "source read": lambda: spark.read.format("lakelatch").load(url).count(),
    }
    said: dict[str, Any] = {}

    def take(prefix: str, name: str) -> None:
        began = time.monotonic()
        try:
            answer = f"ok {steps[name]()}"
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        said[f"{prefix}: {name}"] = answer
        said[f"{prefix}: {name}, seconds"] = round(time.monotonic() - began, 2)
        print(prefix, name, answer[:120], file=sys.stderr, flush=True)  # shown where the test fails

    for name in steps:
        take("nothing", name)
    said["rows were computed"] = marker.exists()
    context = spark.sparkContext
    for prefix, python in order.get("pythons", {}).items():
        before, context.pythonExec = context.pythonExec, python
        take(prefix, "write")
        context.pythonExec = before
    if order.get("zip"):
        context.addPyFile(order["zip"])
        for name in steps:
            take("zip", name)
    said["rows"] = ll.open_table(url).count()
    spark.stop()
    print("\n" + json.dumps(said))


if __name__ == "__main__":
    main()
