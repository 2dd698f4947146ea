"""Spark on a branch: every way to write and read takes a branch, and main stays as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument

pytestmark = pytest.mark.spark


def told(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_branch_from_spark(spark: Any, tmp_path: Path) -> None:
    lake.register(spark)
    url = str(tmp_path / "t")
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "k int, p string")
    lake.write(frame, url, partition_by=["p"])
    table = ll.open_table(url)
    table.create_branch("b", snapshot=1)
    more = spark.createDataFrame([(3, "c", 30)], "k int, p string, x int")
    assert lake.write(more, url, branch="b", evolve=True).snapshot_id == 2
    lake.write(frame.limit(1), url, mode="overwrite", partition={"p": "a"}, branch="b")
    frame.write.format("lakelatch").mode("append").option("branch", "b").save(url)
    wanted = [(1, "a", None), (1, "a", None), (2, "b", None), (2, "b", None), (3, "c", 30)]
    assert told(lake.read(spark, url, branch="b")) == wanted
    assert told(lake.read(spark, url, branch="b", where="p = 'c'", columns=["x"])) == [(30,)]
    assert told(spark.read.format("lakelatch").option("branch", "b").load(url)) == wanted
    assert lake.changes(spark, url, start=1, end=2, branch="b").count() == 1
    assert lake.compact(spark, url, full=True, branch="b", dry_run=True).plan.groups
    assert told(lake.read(spark, url)) == [(1, "a"), (2, "b")]
    assert (table.timeline.snapshot_ids(), table.timeline.schema_ids()) == ([1], [0])
    with pytest.raises(InvalidArgument, match="no branch 'x'"):
        lake.write(frame, url, branch="x")
    table.fast_forward("b")
    assert table.count() == 5


def test_a_sink_compacts_the_branch_that_it_writes(spark: Any, tmp_path: Path) -> None:
    """Not main, which has as many small files."""
    url = str(tmp_path / "t")
    table = ll.create_table(url, ll.Schema([("k", "BIGINT")]), options={"compaction.min.file-num": "2"})
    for key in (1, 2):
        table.append(pa.table({"k": [key]}))
    table.create_branch("b", snapshot=2)
    sink = lake.sink(url, query="q", compact_every=2, branch="b")
    for batch in (0, 1):
        sink(spark.range(10 + batch, 11 + batch).withColumnRenamed("id", "k"), batch)
    branch = ll.open_table(url, branch="b")
    assert [s.commit_kind for s in branch.snapshots()][-3:] == ["APPEND", "APPEND", "COMPACT"]
    assert (len(branch.entries()), branch.to_arrow()["k"].to_pylist()) == (1, [1, 2, 10, 11])
    assert [s.commit_kind for s in table.refresh().snapshots()] == ["APPEND", "APPEND"]
