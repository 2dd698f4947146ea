"""Spark's own expressions give each row the bucket that the format gives it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from plans import plan_of

import lakelatch as ll
from lakelatch.core.metadata.schema import TableSchema
from lakelatch.core.rows.bucket import BucketFunction, buckets
from lakelatch.core.rows.types import Field
from lakelatch.spark.rows.bucket_expressions import BUCKET, with_bucket
from lakelatch.table.conforming.conform import Conformer

pytestmark = pytest.mark.spark

DICE = random.Random(14)
TEXTS = ["", "a", "1234567", "12345678", "ä" * 4, "\x00", "x" * 255, "x" * 256, "ü" * 40_000, "user-12345-99"]
VALUES: dict[str, list[Any]] = {
    "TINYINT": [0, 1, -1, 127, -128],
    "SMALLINT": [0, -1, 255, 256, 2**15 - 1, -(2**15)],
    "INT": [0, 42, -1, 2**31 - 1, -(2**31)],
    "BIGINT": [0, 42, -1, 2**32, 2**63 - 1, -(2**63), *(DICE.randrange(-(2**63), 2**63) for _ in range(200))],
    "DATE": [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31)],
    "BOOLEAN": [True, False],
    "STRING": [*TEXTS, *("s" * DICE.randrange(20) + str(n) for n in range(100))],
    "BYTES": [text.encode() for text in TEXTS] + [b"\xff\xfe", b"\x80" * 9],
}
SPARKS = {
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "DATE": "date",
    "BOOLEAN": "boolean",
    "STRING": "string",
    "BYTES": "binary",
}
KEYS: dict[bool, list[tuple[str, ...]]] = {
    False: [("BIGINT",), ("SMALLINT", "DATE"), ("BOOLEAN", "TINYINT", "INT"), ("STRING",), ("BYTES",)],
    True: [("BIGINT", "BOOLEAN"), ("STRING",)],
}
"""The keys of tables, by whether their columns can be null."""


def test_spark_computes_the_bucket_of_every_key_as_the_format_does(spark: Any, tmp_path: Any) -> None:
    """Numbers, dates and text, whether the session is in ANSI mode or not; a text that can be null takes another way."""
    fields = [(f"c{i}", kind) for i, kind in enumerate(VALUES)]
    names = {kind: name for name, kind in fields}
    longest = max(map(len, VALUES.values()))
    columns = [[None, *(values[i % len(values)] for i in range(longest))] for values in VALUES.values()]
    rows = list(zip(*columns, strict=True))
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        for null, keys in KEYS.items():
            spark.conf.set("spark.sql.ansi.enabled", str(not null).lower())
            ddl = ", ".join(f"{name} {SPARKS[kind]}" for name, kind in fields)
            frame = spark.createDataFrame(rows if null else rows[1:], ddl).coalesce(1)
            schema = ll.Schema([(name, kind if null else f"{kind} NOT NULL") for name, kind in fields])
            tables = []
            for i, kinds in enumerate(keys):
                options = {"bucket": "7", "bucket-key": ",".join(names[kind] for kind in kinds)}
                tables.append(ll.create_table(f"{tmp_path}/{null}-{i}", schema, options=options).schema)
                frame = with_bucket(frame, tables[i], {name: name for name, _ in fields})
                frame = frame.withColumnRenamed(BUCKET, f"bucket of {i}")
            found = frame.toArrow()
            for i, table in enumerate(tables):
                assert found[f"bucket of {i}"].to_pylist() == expected(table, found), (keys[i], null)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def expected(table: TableSchema, found: pa.Table) -> list[int]:
    fields = [table.by_name[name] for name in table.bucket_keys]
    function = BucketFunction.parse(table.option_texts.get("bucket-function.type", "default"))
    return [int(b) for part in found.to_batches() for b in buckets(_only(fields, part), fields, 7, function)]


def _only(fields: Sequence[Field], batch: pa.RecordBatch) -> pa.RecordBatch:
    return Conformer(fields)(batch.select([f.name for f in fields]))


@pytest.mark.parametrize(("kind", "function"), [("BIGINT", "default"), ("STRING", "default"), ("BIGINT", "mod")])
def test_common_keys_need_no_python_worker(spark: Any, tmp_path: Any, kind: str, function: str) -> None:
    """A bucket that Python computes would cost as much as the rest of the write."""
    schema = ll.Schema([("k", f"{kind} NOT NULL")])
    options = {"bucket": "7", "bucket-key": "k", "bucket-function.type": function}
    table = ll.create_table(str(tmp_path / "table"), schema, options=options).schema
    frame = with_bucket(spark.createDataFrame([(v,) for v in VALUES[kind]], f"k {SPARKS[kind]}"), table, {"k": "k"})
    plan = plan_of(frame)
    assert "Project" in plan and "Python" not in plan and "Arrow" not in plan
    if function == "mod":
        found = frame.toArrow()
        assert found[BUCKET].to_pylist() == expected(table, found)
