"""Fixtures of the tests beside Apache Paimon's connector for Spark.

Owns: the running connector. Must not know: what is compared.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from interop.spark_env import SparkConnector, connector


@pytest.fixture(scope="module")
def spark_connector() -> Iterator[SparkConnector | None]:
    """The connector; None where its jar is not there."""
    jar = connector()
    made = None if jar is None else SparkConnector(jar)
    yield made
    if made is not None:
        made.close()
