"""Tests buckets against known vectors and files of Apache Paimon, and the fast path against the slow path."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.schema import parse_schema
from lakelatch.core.options import BUCKET_FUNCTION
from lakelatch.core.rows.binary.binary_row import row_bytes
from lakelatch.core.rows.binary.hive_hash import value_hash
from lakelatch.core.rows.bucket import BucketFunction, bucket_of, bucket_of_row, buckets, key_hashes, murmur_hash
from lakelatch.core.rows.types import Field, decimal, parse_atomic, string, timestamp
from lakelatch.core.rows.values import column_values
from lakelatch.tests.golden_filters import golden_root
from lakelatch.tests.values import decode_rows

INT, BIGINT = parse_atomic("INT"), parse_atomic("BIGINT")


@pytest.mark.parametrize(
    ("values", "types", "hash_"),
    [
        ([0], [INT], -300363099),
        ([1], [INT], 1465514398),
        ([2], [INT], 1340390384),
        ([3], [INT], -771300025),
        (["abc"], [string()], -101922419),
        (["abcdefgh"], [string()], -843760178),
        ([None], [INT], -1748325344),
        (["a", 5], [string(), INT], 1712963185),
        ([7], [BIGINT], murmur_hash(row_bytes([7], [INT]))),
    ],
)
def test_hashes_of_the_format(values: list[Any], types: list[Any], hash_: int) -> None:
    """G8: The hashes are those of Apache Paimon."""
    assert murmur_hash(row_bytes(values, types)) == hash_


def test_murmur_of_raw_bytes() -> None:
    """G8: The published test vector."""
    data = bytes([3, 10, 20, 30, 40, 50, 67, 89, 111, 51, 33, 67, 70, 25, 48, 10])
    assert murmur_hash(data) & 0xFFFFFFFF == 0x46BDAB5B


def test_the_remainder_is_that_of_java() -> None:
    """G8: The remainder has the sign of the dividend, which is then dropped; Python's % would give another bucket."""
    assert [bucket_of(h, 4) for h in (-7, 7, -(2**31), -300363099)] == [3, 3, 0, 3]


def test_columns_and_rows_agree() -> None:
    """G8: Nulls, empty and very long texts, slices, chunks and dictionaries get the same buckets as single rows."""
    texts = ["", "a", "1234567", "12345678", "x" * 2000, "ü漢🚀", None, "y" * 5000, "z" * 31] * 3
    table = pa.table(
        {
            "s": pa.chunked_array([pa.array(texts[:10]), pa.array(texts[10:])]),
            "d": pa.array([Decimal(10) ** (i % 30) * (-1) ** i for i in range(27)], pa.decimal128(38, 2)),
            "t": pa.array([None if i % 5 == 0 else -(i**9) for i in range(27)], pa.int64()).cast(pa.timestamp("us")),
            "k": pa.array(["a", "b", None] * 9).dictionary_encode(),
        }
    ).slice(1)
    fields = [
        Field(0, "s", string()),
        Field(1, "d", decimal(38, 2)),
        Field(2, "t", timestamp(6)),
        Field(3, "k", string()),
    ]
    types = [f.type for f in fields]
    columns = [column_values(table[f.name], f.type) for f in fields]
    expected = [murmur_hash(row_bytes(row, types)) for row in zip(*columns, strict=True)]
    assert key_hashes([table[f.name] for f in fields], types).tolist() == expected
    assert buckets(table, fields, 7).tolist() == [bucket_of(h, 7) for h in expected]
    assert buckets(table.slice(0, 0), fields, 7).tolist() == []


def test_more_rows_than_one_block() -> None:
    """G8: No row is lost or repeated between two blocks."""
    numbers = np.arange(70_000, dtype=np.int32)
    hashes = key_hashes([pa.array(numbers)], [INT])
    for i in (0, 16_383, 16_384, 65_536, 69_999):
        assert hashes[i] == murmur_hash(row_bytes([i], [INT]))


def test_function_mod() -> None:
    """G8: The function is floorMod, and null counts as 0."""
    table = pa.table({"a": pa.array([-1, 5, None, -(2**63)], pa.int64())})
    field = [Field(0, "a", BIGINT)]
    assert buckets(table, field, 4, BucketFunction.MOD).tolist() == [3, 1, 0, 0]
    assert [bucket_of_row([v], [BIGINT], 4, BucketFunction.MOD) for v in (-1, 5, None)] == [3, 1, 0]
    with pytest.raises(InvalidArgument, match="mod"):
        buckets(pa.table({"a": ["x"]}), [Field(0, "a", string())], 4, BucketFunction.MOD)


@pytest.mark.parametrize(
    ("value", "type_text", "hash_"),
    [
        (True, "BOOLEAN", 1),
        (-5, "TINYINT", -5),
        (2**40 + 3, "BIGINT", 256 + 3),
        (-1, "BIGINT", 0),
        (-0.0, "FLOAT", 0),
        (1.0, "FLOAT", 0x3F800000),
        (1.0, "DOUBLE", 0x3FF00000),
        ("abc", "STRING", 96354),
        (b"\xff", "BYTES", -1),
        (Decimal("1.50"), "DECIMAL(10, 2)", 31 * 15 + 1),
        (Decimal("-1.50"), "DECIMAL(10, 2)", -31 * 15 + 1),
        (Decimal(100), "DECIMAL(10, 0)", 31 * 1 - 2),
        (Decimal("0.00"), "DECIMAL(10, 2)", 0),
        (None, "STRING", 0),
    ],
)
def test_hive_hashes_of_values(value: Any, type_text: str, hash_: int) -> None:
    """G8: The hashes are Java's hash codes, as in Hive."""
    assert value_hash(value, parse_atomic(type_text)) == hash_


def test_function_hive() -> None:
    """G8: Fields are hashed one by one, and the sign bit is cleared; TIMESTAMP is rejected."""
    table = pa.table({"a": pa.array(["abc", None, "abc", ""]), "b": pa.array([1, 2, -3, None], pa.int32())})
    fields = [Field(0, "a", string()), Field(1, "b", INT)]
    expected = [
        ((31 * value_hash(a, string()) + (b or 0)) & 0x7FFFFFFF) % 5
        for a, b in [("abc", 1), (None, 2), ("abc", -3), ("", 0)]
    ]
    assert buckets(table, fields, 5, BucketFunction.HIVE).tolist() == expected
    assert bucket_of_row(["abc", -3], [string(), INT], 5, BucketFunction.HIVE) == expected[2]
    with pytest.raises(InvalidArgument, match="hive"):
        value_hash(0, timestamp(3))
    with pytest.raises(InvalidArgument, match="default, mod or hive"):
        BucketFunction.parse("crc")


VECTORS = json.loads((Path(__file__).parent / "buckets.json").read_text())
"""Keys from tables that Apache Paimon wrote: [bucket, key values ...] in the encoding of the golden tables."""


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["table"])
def test_buckets_that_apache_paimon_chose(vector: dict[str, Any]) -> None:
    """G8: Columns and single rows of every key type get the same buckets as in Apache Paimon."""
    fields = [Field(i, f"k{i}", parse_atomic(text)) for i, text in enumerate(vector["types"])]
    keys = decode_rows([row[1:] for row in vector["rows"]], fields)
    function = BucketFunction.parse(vector["function"])
    chosen = [row[0] for row in vector["rows"]]
    assert buckets(keys, fields, vector["total"], function).tolist() == chosen
    types = [f.type for f in fields]
    columns = [column_values(keys[f.name], f.type) for f in fields]
    assert [bucket_of_row(k, types, vector["total"], function) for k in zip(*columns, strict=True)] == chosen


if golden_root() is not None:  # without the whole set, the vectors above are used

    @pytest.mark.given
    def test_every_row_of_apache_paimon_lies_in_its_bucket() -> None:
        """G8: Every row of the golden tables with fixed buckets is in its bucket, for every key type."""
        rows, tables, golden = 0, 0, golden_root()
        assert golden is not None
        for root in sorted(golden.glob("paimon-java-*/*/table")):
            schemas = [parse_schema(p.read_bytes(), str(p)) for p in root.glob("schema/schema-*")]
            if len(schemas) != 1 or schemas[0].bucket < 2:
                continue
            schema = schemas[0]
            fields = [schema.by_name[k] for k in schema.bucket_keys]
            function = BucketFunction.parse(schema.options.get(BUCKET_FUNCTION))
            seen = rows
            for path in [*root.rglob("bucket-[0-9]*/data-*.parquet"), *root.rglob("bucket-[0-9]*/data-*.orc")]:
                read = pq.ParquetFile(path).read if path.suffix == ".parquet" else pyarrow.orc.ORCFile(path).read
                table = read(columns=[f.name for f in fields])
                found = buckets(table, fields, schema.bucket, function)
                assert set(found.tolist()) <= {int(path.parent.name.removeprefix("bucket-"))}, path
                rows += table.num_rows
            tables += rows > seen
        assert tables >= 20 and rows > 2000
