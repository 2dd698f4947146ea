"""DELETE, UPDATE and MERGE from Spark, by Delta's names, with and without a job, classic and Connect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument
from lakelatch.spark import row_job

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("p", pa.int32()),
        ("note", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("x", pa.float64()),
    ]
)
KINDS: dict[str, dict[str, Any]] = {
    "copies": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}, "partition_by": ["p"]},
    "key": {"options": {"bucket": "2"}, "primary_key": ["id"]},
}


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The jobs that ran; even the smallest files are changed by executors."""
    ran: list[Any] = []
    run_job = row_job.run_job
    monkeypatch.setattr(row_job, "DRIVER_BYTES", -1)
    monkeypatch.setattr(row_job, "run_job", lambda *a: ran.append(a) or run_job(*a))
    return ran


def made(folder: Path, kind: str) -> ll.Table:
    table = ll.create_table(str(folder / kind), SCHEMA, **KINDS[kind])
    for first in (0, 4, 8):
        ids = list(range(first, first + 4))
        rows = {
            "id": ids,
            "p": [i % 2 for i in ids],
            "note": [f"n{i}" for i in ids],
            "at": [i * 3_600_000_000 for i in ids],
        }
        table.append(pa.table(rows | {"x": [0.5] * 4}).cast(SCHEMA))
    return table


@pytest.mark.parametrize("kind", KINDS if os.environ.get("LAKELATCH_SPARK") != "connect" else ["vectors"])
def test_rows_are_changed_by_executors(spark: Any, tmp_path: Path, jobs: list[Any], kind: str) -> None:
    table = made(tmp_path, kind)
    target = lake.LakeTable.forPath(spark, table.url)
    source = spark.range(3, 14).selectExpr("id", "concat('s', id) AS note", "rand() AS x")
    merge = target.merge(source.alias("src"), "t.id = src.id AND t.id >= 0")
    merge = merge.whenMatchedDelete("src.id = 3").whenMatchedUpdate(set={"note": "src.note || t.note", "x": "src.x"})
    receipt = merge.whenNotMatchedInsertAll("src.id < 13").whenNotMatchedBySourceDelete("t.id = 0").execute()
    assert (receipt.rows_inserted, receipt.rows_updated, receipt.rows_deleted) == (1, 8, 2)
    found = {row["id"]: row["note"] for row in target.toDF().collect()}
    assert found == {1: "n1", 2: "n2", 12: "s12"} | {i: f"s{i}n{i}" for i in range(4, 12)}
    assert target.delete("id > 10 OR p + 0 = 3").rows_deleted == 2
    changed = {"note": "upper(note)", "at": ll.lit("2024-01-01 00:00:00")}
    assert target.update("at < '1970-01-01 03:00:00'", changed).rows_updated == 2
    assert {r["note"] for r in target.alias("z").toDF().where("z.id < 3").collect()} == {"N1", "N2"}
    assert [str(f) for f in table.verify("all", data="deep")] == []
    assert len(jobs) == (0 if kind == "key" else 3)
    told = [row["operation"] for row in target.history(6).collect() if row["kind"] != "COMPACT"]
    assert told[:3] == ["UPDATE", "DELETE", "MERGE"]


def test_a_merge_that_landed_runs_nothing(spark: Any, tmp_path: Path, jobs: list[Any]) -> None:
    table = made(tmp_path, "copies")
    target = lake.LakeTable.forPath(spark, table.url).alias("people")
    for replayed in (False, True):
        source = spark.sql("SELECT 5L AS id, 'new' AS note, IF(rand() >= 0, 1, 2) AS extra")
        if replayed:
            source = spark.sql("SELECT raise_error('the source is read again') AS id")
        merge = target.merge(source, "people.id = s.id", commit_user="nightly", identifier=4).withSchemaEvolution()
        receipt = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        assert receipt.replayed is replayed
    assert table.to_arrow(where="id = 5").to_pylist()[0]["extra"] == 1
    assert len(jobs) == 1
    detail = target.detail().collect()[0]
    assert (detail["files"], detail["snapshot_id"]) == (3, 4)
    target.restoreToVersion(3)
    assert target.toDF().where("id = 5").collect()[0]["note"] == "n5"


def test_what_delta_takes_and_we_do_not_is_named(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    target = lake.LakeTable.forPath(spark, made(tmp_path, "copies").url)
    for change in (
        lambda: target.delete(F.col("id") == 1),
        lambda: target.update("id = 1", {"note": F.lit("x")}),
        lambda: target.merge(spark.range(1), F.col("id") == 1),
    ):
        with pytest.raises(InvalidArgument, match="as SQL text"):
            change()
    with pytest.raises(InvalidArgument, match="no table 'nothing'"):
        lake.LakeTable.forName(spark, "nothing")
    lake.register(spark)
    spark.sql(f"CREATE TABLE row_changes_by_name USING lakelatch LOCATION '{target.table.url}'")
    try:
        named = lake.LakeTable.forName(spark, "row_changes_by_name")
        assert named.update(set={"x": "x * 2"}).rows_updated == 12
        assert named.delete().rows_deleted == 12
        assert named.toDF().collect() == []
    finally:
        spark.sql("DROP TABLE row_changes_by_name")
