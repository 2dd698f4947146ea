"""The session of these tests: classic, or Spark Connect if LAKELATCH_SPARK=connect. A process has only one kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import java_home
import pytest
import ready_workers

CONNECT = os.environ.get("LAKELATCH_SPARK") == "connect"

if CONNECT:

    @pytest.fixture(scope="session")
    def spark() -> Iterator[Any]:
        """A Connect session with its own server; this process has no sparkContext and no JVM."""
        java_home.wire()
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
        # Workers start tasks three times as fast with the daemon, and the daemon is tested too.
        builder = builder.config("spark.python.daemon.module", "lakelatch.spark.daemon")
        with ready_workers.on_the_path():
            session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        yield session
        session.stop()


@pytest.fixture
def no_views(spark: Any) -> None:
    """No temporary view of another test hides a table."""
    for known in spark.catalog.listTables():
        if known.isTemporary:
            spark.catalog.dropTempView(known.name)
