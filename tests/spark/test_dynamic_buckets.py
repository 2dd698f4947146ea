"""Tables with dynamic buckets from Spark: the tasks of a job choose buckets without asking each other, and no key gets two."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.metadata.hash_index import decode_hashes
from lakelatch.core.places import FileKeys
from lakelatch.spark.options.source_options import SourceOptions
from lakelatch.spark.source_writer import TableSourceWriter

pytestmark = pytest.mark.spark
KEYED: dict[str, Any] = {"primary_key": ["part", "id"], "partition_by": "part"}


def frame(spark: Any, first: int, count: int, v: str) -> Any:
    return spark.range(first, first + count, 1, 3).selectExpr(
        "cast(id % 2 AS int) part", "concat('k', id) id", f"'{v}' v"
    )


def check(url: str, expected: dict[str, str]) -> ll.Table:
    """The rows; and no key in two buckets."""
    table = ll.open_table(url)
    rows = table.to_arrow(columns=["id", "v"])
    assert rows.num_rows == len(expected)
    assert dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True)) == expected
    snapshot, seen = table.snapshot(), Counter[tuple[bytes, int]]()
    assert snapshot is not None
    for entry in table.timeline.index_entries(snapshot):
        data = table.store.get(FileKeys(table.schema).index(entry))
        seen.update((entry.partition, h) for h in decode_hashes(data, entry.file.row_count, "").tolist())
    assert set(seen.values()) == {1} and len(seen) == len(expected)
    return table


def test_frames_are_upserted_into_dynamic_buckets(spark: Any, tmp_path: Path) -> None:
    """New keys of many tasks, known keys, keys written without Spark, two jobs at once, and an overwrite."""
    url = str(tmp_path / "t")
    options = {"dynamic-bucket.target-row-num": "30", "write-only": "true"}
    lake.write(frame(spark, 0, 200, "a"), url, options=options, **KEYED)
    expected = {f"k{i}": "a" for i in range(200)}
    table = check(url, expected)
    assert {e.total_buckets for e in table.entries()} == {-1}
    assert len({e.bucket for e in table.entries()}) >= 4

    table.upsert(frame(spark, 150, 100, "b").toArrow())
    lake.write(frame(spark, 230, 40, "c"), url)
    expected |= {f"k{i}": "b" for i in range(150, 250)} | {f"k{i}": "c" for i in range(230, 270)}
    check(url, expected)

    begun = [threading.Thread(target=lake.write, args=(frame(spark, 260, 60, v), url)) for v in "de"]
    for thread in begun:
        thread.start()
    for thread in begun:
        thread.join()
    winner = {row["v"] for row in ll.open_table(url).to_arrow(where="id = 'k300'").to_pylist()}
    assert winner <= {"d", "e"}
    expected |= {f"k{i}": max(winner) for i in range(260, 320)}
    check(url, expected)

    lake.write(frame(spark, 0, 40, "o"), url, mode="overwrite-partitions")
    check(url, {f"k{i}": "o" for i in range(40)})
    assert {tuple(row) for row in lake.read(spark, url, columns=["id", "v"]).collect()} == {
        (f"k{i}", "o") for i in range(40)
    }


def test_the_data_source_refuses_what_it_cannot_bring_together(tmp_path: Path) -> None:
    """Its tasks would put one new key into two buckets."""
    url = str(tmp_path / "t")
    schema = pa.schema([("part", pa.int32()), ("id", pa.string())])
    table = ll.create_table(url, schema, primary_key=["part", "id"], partition_by=["part"])
    with pytest.raises(
        ll.Unsupported, match=r"cannot write a table with dynamic buckets .* with lakelatch\.spark\.write"
    ):
        TableSourceWriter(SourceOptions({"path": url}, str(tmp_path)), StructType(), overwrite=False)
    assert table.snapshot() is None
