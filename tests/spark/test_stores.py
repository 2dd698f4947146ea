"""Spark's workers reach every kind of store with the driver's options, and Spark scans the stores that it can open."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import java_home
import pytest
from report import not_here
from servers import maven

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.sessions import session

pytestmark = pytest.mark.spark

HOSTS = {"s3": "s3_host", "gcs": "gcs_host", "adls": "azure_host", "hdfs": "hdfs_host"}


def written(spark: Any, server: Any) -> tuple[str, dict[str, Any]]:
    """A table of 300 rows in two partitions, which tasks wrote in one commit."""
    url, options = f"{server.new_root()}/table", server.storage_options()
    df = spark.range(300).selectExpr("id", "concat('row ', id) AS name", "cast(id % 2 AS int) AS half")
    receipt = lake.write(df, url, partition_by=["half"], commit_user="etl", identifier=1, storage_options=options)
    assert lake.write(df, url, commit_user="etl", identifier=1, storage_options=options).replayed
    assert ll.open_table(url, storage_options=options).snapshot().id == receipt.snapshot_id == 1
    return url, options


def leg_of(df: Any) -> str:
    plan = df._jdf.queryExecution().toString()
    assert ("FileScan parquet" in plan) != ("MapInArrow" in plan), plan
    return "native" if "FileScan parquet" in plan else "arrow"


def secrets_of(options: dict[str, Any]) -> list[str]:
    return [str(value) for name, value in options.items() if name in ("key", "secret", "connection_string")]


@pytest.mark.parametrize(("kind", "leg"), [("s3", "arrow"), ("gcs", "arrow"), ("adls", "arrow"), ("hdfs", "native")])
def test_a_round_through_spark(
    spark: Any,
    kind: str,
    leg: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """G8, H19: Spark's own scan reads the rows if PySpark's jars have a client; else Arrow does, and the log says why."""
    monkeypatch.setattr(session.FILE_SYSTEMS, "_known", {})
    url, options = written(spark, request.getfixturevalue(HOSTS[kind]))
    with caplog.at_level(logging.INFO, logger="lakelatch"):
        read = lake.read(spark, url, where="half = 1 AND id < 200", storage_options=options)
        again = lake.read(spark, url, columns=["name"], storage_options=options)
    assert leg_of(read) == leg
    assert sorted((row.id, row.name, row.half) for row in read.collect()) == [
        (n, f"row {n}", 1) for n in range(1, 200, 2)
    ]
    assert sorted(row.name for row in again.collect()) == sorted(f"row {n}" for n in range(300))
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    said = {
        "s3": [
            "this session cannot open s3a:// URLs",
            "pass them as where= and columns=",
            f"spark.jars.packages=org.apache.hadoop:hadoop-aws:{session._hadoop_of(spark)} (docs/stores)",
        ],
        "gcs": [
            "this session cannot open gs:// URLs",
            "shaded jar of com.google.cloud.bigdataoss:gcs-connector",
        ],
    }
    if kind in said:
        (warning,) = warnings  # one warning for two reads
        assert all(part in warning for part in said[kind])
    else:
        assert warnings == []
    assert caplog.text.count("is read by Arrow") == (0 if leg == "native" else 2), caplog.text
    if kind == "adls":
        assert "abfss://CONTAINER@ACCOUNT" in caplog.text
    shown = caplog.text + read._jdf.queryExecution().toString()
    assert not [secret for secret in secrets_of(options) if secret in shown]


CLIENTS = {
    "s3": [
        maven.Artifact("org.apache.hadoop:hadoop-aws:3.4.2", alone=True),  # the SDK bundle that it depends on is 600 MB
        *(maven.Artifact(f"software.amazon.awssdk:{name}:2.29.52") for name in ("s3", "s3-transfer-manager", "sts")),
    ],
    "gcs": [maven.Artifact("com.google.cloud.bigdataoss:gcs-connector:3.1.3", classifier="shaded", alone=True)],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLIENTS)
def test_a_session_with_the_stores_client_scans_natively(kind: str, request: pytest.FixtureRequest) -> None:
    """The package that the warning names is enough: Spark's class loader finds it, and it gets the storage options."""
    jars = maven.fetched(f"spark-{kind}", CLIENTS[kind])
    if jars is None:
        not_here(f"Spark's client of {kind}", "there is no Maven to fetch it with")
    server = request.getfixturevalue(HOSTS[kind])
    order = {"url": f"{server.new_root()}/table", "options": server.storage_options()}
    order["jars"] = ",".join(str(jar) for jar in jars.glob("*.jar") if "slf4j" not in jar.name)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("native_child.py"))],
        check=False,
        env={**os.environ, "JAVA_HOME": str(java_home.wire())},
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["rows"] == list(range(1, 300, 2))
    assert "FileScan parquet" in told["plan"]
    assert not [secret for secret in secrets_of(server.storage_options()) if secret in done.stdout + done.stderr]
