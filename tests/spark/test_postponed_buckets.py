"""Tables with postponed buckets from Spark: rows go to real buckets at once, or are set aside for a compaction."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
KEYED: dict[str, Any] = {"primary_key": ["part", "id"], "partition_by": "part"}
ASIDE = {"bucket": "-2", "postpone.batch-write-fixed-bucket": "false"}


def frame(spark: Any, first: int, count: int, v: str) -> Any:
    return spark.range(first, first + count, 1, 2).selectExpr("cast(id % 2 AS int) part", "id", f"'{v}' v")


def rows_of(table: ll.Table) -> dict[int, str]:
    rows = table.refresh().to_arrow(columns=["id", "v"])
    found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows, "a key is in two buckets"
    return found


def test_rows_go_to_as_many_buckets_as_their_partition_has(spark: Any, tmp_path: Path) -> None:
    """One partition has four buckets, the other gets six. Each bucket gets one file of a job, and keys stay where they are."""
    url = str(tmp_path / "t")
    options = {"bucket": "-2", "postpone.default-bucket-num": "4", "write-only": "true"}
    lake.write(frame(spark, 0, 100, "a").where("part = 0"), url, options=options, **KEYED)
    table = ll.open_table(url)
    table.alter(ll.set_option("postpone.default-bucket-num", "6"))
    lake.write(frame(spark, 0, 200, "b"), url)
    assert rows_of(table) == dict.fromkeys(range(200), "b")
    buckets = Counter((e.partition, e.bucket, e.total_buckets) for e in table.entries())
    assert Counter((total, files) for (_, _, total), files in buckets.items()) == {(4, 2): 4, (6, 1): 6}
    assert table.verify("all", data=True) == []

    lake.register(spark)
    table.upsert(pa.table({"part": [i % 2 for i in range(60)], "id": range(60), "v": ["c"] * 60}))
    frame(spark, 30, 60, "d").write.format("lakelatch").mode("append").save(url)
    expected = {i: "d" if 30 <= i < 90 else "c" if i < 30 else "b" for i in range(200)}
    assert rows_of(table) == expected
    assert {e.total_buckets for e in table.entries()} == {4, 6}
    lake.write(frame(spark, 0, 10, "o"), url, mode="overwrite", partition={})
    assert rows_of(table) == dict.fromkeys(range(10), "o")


def test_rows_are_set_aside_until_a_compaction(spark: Any, tmp_path: Path) -> None:
    """Of several rows with one key the last one of the frame counts. A job that fails leaves no file."""
    url = str(tmp_path / "t")
    twice = spark.range(0, 200, 1, 4).selectExpr("0 part", "id * 7 % 100 id", "concat('n', id) v")
    lake.write(twice, url, options=ASIDE, commit_user="night-ly", identifier=1, **KEYED)
    table = ll.open_table(url)
    assert rows_of(table) == {}
    assert {(e.bucket, e.file.min_sequence_number) for e in table.entries()} == {(-2, -1)}
    assert all(e.file.file_name.startswith("data--u-night-ly-s-") for e in table.entries())
    table.compact()
    expected = {n * 7 % 100: f"n{n}" for n in range(200)}
    assert rows_of(table) == expected

    lake.register(spark)
    spark.range(20).selectExpr("0 part", "id", "'source' v").write.format("lakelatch").mode("append").save(url)
    deletes = spark.range(0, 10, 1, 2).selectExpr("0 part", "id", "'' v", "'-D' op")
    lake.write(deletes, url, row_kind="op")
    table.compact()
    expected = {i: "source" if i < 20 else v for i, v in expected.items() if i >= 10}
    assert rows_of(table) == expected

    before = {path.name for path in Path(url).rglob("data-*")}
    wrong = spark.range(0, 40, 1, 4).selectExpr("0 part", "id", "'' v", "if(id = 39, '?', '+I') op")
    with pytest.raises(ll.InvalidArgument, match="is no row kind"):
        lake.write(wrong, url, row_kind="op")
    assert {path.name for path in Path(url).rglob("data-*")} == before
