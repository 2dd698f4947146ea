"""The session of these tests: classic, or Spark Connect where LAKELATCH_SPARK=connect says so (a process has one kind)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import java_home
import pytest

CONNECT = os.environ.get("LAKELATCH_SPARK") == "connect"

if CONNECT:

    @pytest.fixture(scope="session")
    def spark() -> Iterator[Any]:
        """A Connect session on a server of its own; no sparkContext, no JVM in this process."""
        java_home.wire()
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.remote("local[2]").config("spark.sql.session.timeZone", "UTC")
        # Its workers begin each task three times as fast, and the daemon is run by a test.
        builder = builder.config("spark.python.daemon.module", "lakelatch.spark.daemon")
        session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        yield session
        session.stop()
