"""Fixtures of the tests beside Apache Paimon 2.0.0, whose jar is its connector for Spark.

Owns: the running connector, and the process with 2.0.0. Must not know: what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from interop.java.jvm import VERSION
from interop.java.release_child import OtherRelease
from interop.spark_env import SparkConnector, connector


@pytest.fixture(scope="module")
def spark_connector() -> Iterator[SparkConnector | None]:
    """The connector; None where its jar is not there."""
    jar = connector()
    made = None if jar is None else SparkConnector(jar)
    yield made
    if made is not None:
        made.close()


@pytest.fixture(scope="module")
def newer_java() -> Iterator[OtherRelease | None]:
    """Apache Paimon 2.0.0; None where its jar is not there."""
    jar = connector()
    made = None if jar is None else OtherRelease(jar)
    yield made
    if made is not None:
        made.close()


@pytest.fixture
def each_java(paimon_java: Any, newer_java: OtherRelease | None) -> dict[str, Any]:
    """The releases that are here, by name."""
    return {VERSION: paimon_java} | ({} if newer_java is None else {"2.0.0": newer_java})
