"""dbt on tables of lakelatch: dbt-spark's method `session`, on a session that has registered a warehouse.

`python run.py WAREHOUSE COMMAND…`, in this folder, runs `dbt COMMAND…`: for example `python run.py s3://lake build`.
It needs dbt-core and dbt-spark beside lakelatch[spark].
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from dbt.adapters.spark.impl import SparkAdapter
from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

import lakelatch.spark as lake


def knowing(build: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """dbt-spark replaces and merges into tables of formats that it knows; ours can do what it expects of Iceberg's."""

    def relations(self: Any, *args: Any, **kwargs: Any) -> list[Any]:
        found = build(self, *args, **kwargs)
        return [each.incorporate(is_iceberg="Provider: lakelatch" in (each.information or "")) for each in found]

    return relations


def main(warehouse: str, command: list[str]) -> bool:
    """Run a command of dbt. The session that dbt-spark asks for is this one, because it is the process's."""
    spark = SparkSession.builder.appName("dbt").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    lake.register(spark, catalog="lake", warehouse=warehouse)
    spark.sql("USE lake")
    SparkAdapter._build_spark_relation_list = knowing(SparkAdapter._build_spark_relation_list)
    here = os.path.dirname(os.path.abspath(__file__))
    return dbtRunner().invoke([*command, "--project-dir", here, "--profiles-dir", here]).success


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2:]) else 1)
