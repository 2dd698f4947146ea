"""File indexes in Spark: executors write them, and both legs give the right rows with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.reading import scan

pytestmark = pytest.mark.spark
OPTIONS = {
    "file-index.bitmap.columns": "v",
    "file-index.bloom-filter.columns": "k",
    "file-index.bloom-filter.k.items": "50",
    "file-index.range-bitmap.columns": "f",
    "metadata.stats-mode": "none",
}
SCHEMA = [("part", "INT"), ("k", "BIGINT"), ("v", "STRING"), ("f", "DOUBLE")]
CONDITIONS = ("v <> 'text 3' and k < 40", "f = 0.0 or f > 8.5 or v is null", "k = 1000")


@pytest.mark.parametrize(("threshold", "leg"), [("1 mb", "native"), ("1 b", "arrow")])
def test_rows_are_the_same_with_and_without_an_index(
    spark: Any, tmp_path: Path, threshold: str, leg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4: Indexes in the manifest prune files. Spark's own scan ignores index files and reads the whole data file."""
    if leg == "arrow":
        monkeypatch.setattr(scan, "NATIVE_FILES", -1)
        monkeypatch.setattr(scan, "NATIVE_FILE_BYTES", 1 << 60)
    url = str(tmp_path / "t")
    options = {**OPTIONS, "file-index.in-manifest-threshold": threshold}
    table = ll.create_table(url, ll.Schema(SCHEMA), partition_by=["part"], options=options)
    frame = spark.range(60).selectExpr(
        "cast(id % 3 as int) part",
        "id k",
        "case when id % 11 <> 0 then concat('text ', id % 5) end v",
        "case when id % 7 <> 0 then case when id % 13 = 1 then -0.0D else id / 4.0D end end f",
    )
    lake.write(frame.repartition(2), url)
    files = [entry.file for entry in ll.open_table(url).entries()]
    assert {bool(f.extra_files) for f in files} == {threshold == "1 b"}
    assert table.verify(data=True) == []
    if threshold == "1 mb":
        assert table.plan("k = 1000").file_count < len(files)
    assert_counts(spark, table)


def assert_counts(spark: Any, table: ll.Table) -> None:
    """Arrow and Spark both find as many rows as without indexes."""
    found = [table.to_arrow(where=condition).num_rows for condition in CONDITIONS]
    assert [lake.read(spark, table.url, where=condition).count() for condition in CONDITIONS] == found
    table.alter(ll.set_option("file-index.read.enabled", "false"))
    assert [table.to_arrow(where=condition).num_rows for condition in CONDITIONS] == found


def test_compaction_on_executors_writes_indexes(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    table = ll.create_table(url, ll.Schema(SCHEMA), options={**OPTIONS, "file-index.in-manifest-threshold": "1 b"})
    for start in range(0, 25, 5):
        lake.write(spark.range(start, start + 5).selectExpr("1 part", "id k", "'x' v", "0.5D f"), url)
    lake.compact(spark, url)
    (entry,) = table.entries()
    assert entry.file.extra_files == (f"{entry.file.file_name}.index",)
    assert table.to_arrow(where="k = 7").num_rows == 1
    assert table.verify("all", data=True) == []
