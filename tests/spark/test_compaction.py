"""Compaction as a Spark job: executors rewrite, and the driver commits once while other writers commit too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import TableCorrupt
from lakelatch.spark import compaction


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    """A table of three partitions with six files each, written with two schemas."""
    schema = pa.schema([("part", pa.int32()), ("v", pa.int64())])
    made = ll.create_table(str(tmp_path / "table"), schema, partition_by="part")
    for value in range(3):
        made.append(pa.table({"part": [1, 2, 3], "v": [value] * 3}))
    made.alter(ll.rename_column("v", "value"))
    for value in range(3, 6):
        made.append(pa.table({"part": [1, 2, 3], "value": [value] * 3}))
    return made


def contents(table: ll.Table) -> list[tuple[Any, ...]]:
    found = table.to_arrow()
    return sorted(zip(found["part"].to_pylist(), found["value"].to_pylist(), strict=True))


def data_files(table: ll.Table) -> set[Path]:
    return set(Path(table.url).rglob("data-*"))


def test_executors_rewrite_and_the_driver_commits_once(
    spark: Any, table: ll.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A concurrent append stays; the partition of a concurrent overwrite is not compacted."""
    before = contents(table)
    assert "18 of 18 files of 3 partitions" in str(lake.compact(spark, table.url, dry_run=True))
    assert table.snapshot().id == 6
    run_job = compaction.run_job

    def and_others(*args: Any) -> Any:
        messages = run_job(*args)
        other = ll.open_table(table.url)
        other.append(pa.table({"part": [1], "value": [100]}))
        other.overwrite(pa.table({"part": [2], "value": [7]}), partition={"part": 2})
        return messages

    monkeypatch.setattr(compaction, "run_job", and_others)
    done = lake.compact(spark, table.url)
    assert (done.files_before, done.files_after, len(done.receipts)) == (12, 2, 1)
    assert [(g.partition, g.files) for g in done.given_up] == [("part=2", 6)]
    assert contents(table) == sorted([(p, v) for p, v in before if p != 2] + [(1, 100), (2, 7)])
    assert table.verify("all", data=True) == []
    assert [s.commit_kind for s in table.snapshots()][6:] == ["APPEND", "OVERWRITE", "COMPACT"]


def test_executors_merge_the_buckets_of_a_table_with_a_primary_key(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    options = {"bucket": "3", "write-only": "true"}
    table = ll.create_table(str(tmp_path / "keyed"), schema, primary_key=["id"], options=options)
    for value in range(3):
        table.upsert(pa.table({"id": list(range(value, 30)), "v": [value] * (30 - value)}))
    table.delete(keys=pa.table({"id": [5]}))
    done = lake.compact(spark, table.url, full=True)
    assert (done.files_before, done.files_after, len(done.receipts)) == (10, 3, 1)
    assert {entry.file.level for entry in table.entries()} == {5}
    assert table.count() == 29 and table.count("v = 2") == 27
    assert table.verify("all", data=True) == []


def test_a_job_that_fails_leaves_no_file(spark: Any, table: ll.Table) -> None:
    files = data_files(table)
    gone = min(files)
    gone.unlink()
    with pytest.raises(TableCorrupt, match=gone.name):
        lake.compact(spark, table.url)
    assert data_files(table) == files - {gone}
    assert table.snapshot().id == 6
