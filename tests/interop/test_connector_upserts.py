"""Upserts of PySpark by `lakelatch.spark`, and those of Apache Paimon's connector for Spark, in turns into one table (G8).

The connector is that of version 2, in a Spark process of its own. Where its jar is not there (see `spark_env.connector`),
lakelatch writes both turns, and its two readers are compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from interop.agreement import our_rows
from interop.spark_env import SparkConnector
from values import Row, assert_same_rows, decode_rows, encode_rows

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = [pytest.mark.given, pytest.mark.spark, pytest.mark.slow]
VECTORS = {"deletion-vectors.enabled": "true"}
TABLES: dict[str, dict[str, str]] = {
    "fixed buckets": {"bucket": "3"},
    "one bucket, orc, input": {"bucket": "1", "file.format": "orc", "changelog-producer": "input"},
    "sequence field, avro": {"bucket": "2", "sequence.field": "v", "file.format": "avro"},
    "partial-update": {"bucket": "2", "merge-engine": "partial-update"},
    "aggregation, lookup": {
        "bucket": "2",
        "merge-engine": "aggregation",
        "fields.v.aggregate-function": "sum",
        "changelog-producer": "lookup",
    },
    "vectors": {"bucket": "2", **VECTORS},
    "wide vectors, orc": {"bucket": "1", "deletion-vectors.bitmap64": "true", "file.format": "orc", **VECTORS},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "20"},
    "postponed, in real buckets": {"bucket": "-2", "postpone.default-bucket-num": "2"},
    "postponed, set aside": {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"},
}
DDL = "p int, id int, v bigint, s string"
KEYED: dict[str, Any] = {"primary_key": ["p", "id"], "partition_by": "p"}


def merged(name: str, old: Row | None, new: Row) -> Row:
    """The row of a key after a new one."""
    if old is None or not {"partial-update", "aggregation"} & {*TABLES[name].values()}:
        return old if name.startswith("sequence") and old is not None and old[2] > new[2] else new
    filled = [was if now is None else now for was, now in zip(old, new, strict=True)]
    if "aggregation" in TABLES[name].values():
        filled[2] = old[2] + new[2]
    return filled


@pytest.mark.parametrize("name", TABLES)
def test_the_connector_reads_what_pyspark_upserted_and_goes_on(
    name: str, spark: Any, tmp_path: Path, spark_connector: SparkConnector | None
) -> None:
    """Three upserts and a delete. After each, the connector, lakelatch in Spark and lakelatch alone read the same rows."""
    path = tmp_path / "t"
    expected: dict[tuple[Any, ...], Row] = {}

    def check(where: str) -> None:
        table = ll.open_table(str(path))
        if table.options["bucket"] == "-2":
            table.compact()
        fields, rows = table.schema.fields, list(expected.values())
        assert_same_rows(our_rows(table), rows, f"lakelatch, {where}")
        assert_same_rows(
            encode_rows(lake.read(spark, str(path)).toArrow(), fields), rows, f"lakelatch in Spark, {where}"
        )
        if spark_connector is not None:
            assert_same_rows(spark_connector.rows(path, fields), rows, f"the connector, {where}")

    def upsert(rows: list[Row], by_connector: bool) -> None:
        for row in rows:
            expected[tuple(row[:2])] = merged(name, expected.get(tuple(row[:2])), row)
        if by_connector and spark_connector is not None and TABLES[name].get("bucket") != "-2":
            fields = ll.open_table(str(path)).schema.fields
            spark_connector.append(path, rows, fields)
        else:
            frame = spark.createDataFrame(rows, DDL).repartition(3)
            lake.write(frame, str(path), options=TABLES[name] if not ll.is_table(str(path)) else None, **KEYED)

    upsert([[i % 2, i, i, f"a{i}"] for i in range(60)], False)
    check("after the first upsert")
    upsert([[i % 2, i, 2 * i, None if i % 3 else "b"] for i in range(30, 80)], False)
    check("after the second upsert")
    upsert([[i % 2, i, 40, "c"] for i in range(20, 50)], True)
    check("after the connector's upsert")
    if not {"partial-update", "aggregation"} & {*TABLES[name].values()}:
        gone = [[i % 2, i, 1000, "", "-D"] for i in range(0, 70, 7)]
        lake.write(spark.createDataFrame(gone, f"{DDL}, op string"), str(path), row_kind="op")
        for row in gone:
            expected.pop(tuple(row[:2]), None)
        check("after the delete")
    table = ll.open_table(str(path))
    table.compact(full=True)
    check("after a full compaction")
    assert table.verify("all", data=True) == []
    assert decode_rows(our_rows(table), table.schema.fields).num_rows == len(expected)
