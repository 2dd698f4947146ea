"""DELETE, UPDATE and MERGE from Spark, by Delta's names, with and without a job, classic and Connect."""

from __future__ import annotations

import datetime as dt
import os
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.expressions.sql import parse_expression
from lakelatch.spark import row_job
from lakelatch.spark.column_text import as_text

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


def columns(F: Any) -> dict[str, Any]:
    """Columns by the text that they mean."""
    c = F.col
    return {
        "(`t`.`id` = `s`.`id`)": c("t.id") == c("s.id"),
        "(((`a` > (1)) AND (NOT (`b` IS NULL))) OR (`x.y` IN ((1), (-2))))": (c("a") > 1) & ~c("b").isNull()
        | c("`x.y`").isin(1, -2),
        "((`a` >= (1)) AND (`a` <= (5)))": c("a").between(1, 5),
        "((`k` LIKE 'it''s%') OR (`k` IS NOT NULL))": c("k").like("it's%") | c("k").isNotNull(),
        "(NOT (`k` = 'x'))": c("k") != "x",
        "(`k` <=> 'x')": c("k").eqNullSafe("x"),
        "(((2) - (- `a`)) / ((`a` * (1.5e0)) % (3)))": (2 - -c("a")) / (c("a") * 1.5 % 3),
        "CASE WHEN (`a` > (1)) THEN 'x' WHEN `b` THEN NULL ELSE 'z' END": F.when(c("a") > 1, "x")
        .when(c("b"), F.lit(None))
        .otherwise("z"),
        "CASE WHEN `b` THEN TRUE END": F.when(c("b"), F.lit(True)),
        "DATE '2024-02-29'": F.lit(dt.date(2024, 2, 29)),
        "TIMESTAMP '1969-12-31 23:59:59.250000+00:00'": F.lit(
            dt.datetime(1969, 12, 31, 23, 59, 59, 250000, dt.timezone.utc)
        ),
        "(1.50)": F.lit(Decimal("1.50")),
        "X'00ff'": F.lit(b"\x00\xff"),
        "CAST(`a` AS BIGINT)": c("a").cast("bigint"),
        "CAST(`a` AS DECIMAL(9, 2))": c("a").cast("decimal(9,2)"),
        "CAST(`a` AS TIMESTAMP(6) WITH LOCAL TIME ZONE)": c("a").cast("timestamp"),
        "coalesce(upper(`k`), concat(`k`, '!'), substring(`k`, (1), (2)))": F.coalesce(
            F.upper("k"), F.concat("k", F.lit("!")), F.substring("k", 1, 2)
        ),
        "day(`d`)": F.dayofmonth("d"),
        "(a + 1 > 2 OR b)": F.expr("a + 1 > 2 OR b"),
        "`s`.`st`.`a`": c("s.st.a").alias("q"),
    }


def test_columns_mean_the_same_text_in_both_kinds_of_session(spark: Any) -> None:
    from pyspark.sql import functions
    from pyspark.sql.connect import functions as remote

    kinds = {"Connect": remote} | ({} if os.environ.get("LAKELATCH_SPARK") == "connect" else {"classic": functions})
    for kind, F in kinds.items():
        for text, column in columns(F).items():
            assert as_text(column, "where") == text, kind
            parse_expression(text)
        for column, part in (
            (F.col("a").try_cast("int"), "Cast"),
            (F.countDistinct("a"), "UnresolvedFunction"),
            (F.transform("a", lambda x: x), "LambdaFunction"),
        ):
            with pytest.raises(InvalidArgument, match=f"(?s)Column of Spark with a part of kind {part}.*as SQL text"):
                as_text(column, "where")
    frame = spark.range(1)
    with pytest.raises(InvalidArgument, match="of a certain DataFrame"):
        as_text(frame["id"] == 1, "where")


def test_conditions_and_values_are_text_or_columns(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    target = lake.LakeTable.forPath(spark, made(tmp_path, "copies").url)
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc)
    assert target.update(F.col("at") < F.lit(noon), {"at": F.lit(noon), "note": F.upper("note")}).rows_updated == 12
    assert target.delete((F.col("id") == 1) | F.col("id").isin(2, 3)).rows_deleted == 3
    source = spark.createDataFrame([(4, 1.0), (99, 2.0)], "id bigint, x double")
    merge = target.merge(source, F.col("t.id") == F.col("s.id")).whenMatchedUpdate(
        F.col("s.x") > 0, set={"note": F.concat(F.col("t.note"), F.lit("!")), "x": F.col("s.x") / 4}
    )
    receipt = merge.whenNotMatchedInsert(values={"id": F.col("s.id"), "x": "s.x"}).execute()
    assert (receipt.rows_updated, receipt.rows_inserted) == (1, 1)
    rows = {row["id"]: row for row in target.table.to_arrow().to_pylist()}
    assert (rows[4]["note"], rows[4]["x"], rows[4]["at"], rows[99]["x"]) == ("N4!", 0.25, noon, 2.0)
    with pytest.raises(InvalidArgument, match="rand"):
        target.delete(F.rand() > 0.5)
    with pytest.raises(InvalidArgument, match=r"condition is of type int.*as SQL text"):
        target.delete(1)


def test_tables_by_name(spark: Any, tmp_path: Path) -> None:
    target = lake.LakeTable.forPath(spark, made(tmp_path, "copies").url)
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


def test_a_table_is_restored_and_its_files_are_rewritten(spark: Any, tmp_path: Path) -> None:
    """A time without a zone is one of the session's. Rewrites keep the rows, and touch the partitions that they are told."""
    table = made(tmp_path, "vectors")
    table.alter(ll.set_option("compaction.min.file-num", 2))
    assert lake.LakeTable.isLakeTable(spark, table.url)
    assert not lake.LakeTable.isLakeTable(spark, str(tmp_path / "nothing"))
    target = lake.LakeTable.forPath(spark, table.url)
    newest = table.snapshot()
    assert newest is not None
    tokyo = dt.timezone(dt.timedelta(hours=9))
    clock = dt.datetime.fromtimestamp(newest.time_ms / 1000 + 0.001, tokyo).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    time.sleep(0.01)
    source = spark.createDataFrame([(1, "s")], "id long, note string")
    target.merge(source.alias("s"), "t.id = s.id").whenNotMatchedBySourceUpdate("t.p = 1", {"note": "'gone'"}).execute()
    notes = {row["id"]: row["note"] for row in target.toDF().collect()}
    assert notes == {i: "gone" if i % 2 and i != 1 else f"n{i}" for i in range(12)}
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        target.restoreToTimestamp(clock)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    before = sorted((row["id"], row["note"]) for row in target.toDF().collect())
    assert before == [(i, f"n{i}") for i in range(12)]
    assert target.optimize().where("p = 0").executeCompaction().files_before == 3
    assert target.optimize().where("p = 1").executeZOrderBy("x", ["id"], full=True).compaction.files_before == 3
    assert sorted((row["id"], row["note"]) for row in target.toDF().collect()) == before
    assert table.files().num_rows == 2
