"""Spark's own Python methods for names of tables: `table`, `saveAsTable`, `insertInto`, `writeTo`. Runs under Connect too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import lakelatch as ll
import lakelatch.spark as spark_lake
from lakelatch.core.errors import InvalidArgument, TableExists, TableNotFound, Unsupported

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[ll.Catalog]:
    made = ll.open_catalog(str(tmp_path / "lake"))
    made.create_database("air")
    spark_lake.register(spark, catalog="lake", warehouse=made.url)
    yield made
    spark_lake.unregister(spark)


@pytest.fixture
def frame(spark: Any, lake: ll.Catalog) -> Any:
    return spark.createDataFrame([(1, 1, "a"), (1, 2, "b"), (2, 3, "c")], "month int, id bigint, v string")


def ids(lake: ll.Catalog, name: str = "air.t") -> list[int]:
    return sorted(lake[name].to_arrow()["id"].to_pylist())


def test_tables_are_read_by_their_names(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    frame.writeTo("lake.air.t").create()
    frame.writeTo("lake.air.`odd name`").create()
    lake["air.t"].create_branch("dev", snapshot=1)
    lake["air.t$branch_dev"].append(pa.table({"id": [9]}))
    lake["air.t"].append(pa.table({"id": [4]}))
    assert spark.table("lake.air.t").count() == spark.read.table("LAKE.air.t").count() == 4
    assert spark.table("lake.air.`odd name`").count() == 3
    assert spark.table("lake.air.t$branch_dev").count() == 4
    assert spark.table("lake.air.`t$snapshots`").count() == 2
    assert spark.table("lake.air.t").where("t.id > 3").select("t.id").collect() == [(4,)]
    assert spark.read.option("snapshot", 1).table("lake.air.t").count() == 3
    assert spark.read.option("columns", "id").option("where", "id = 3").table("lake.air.t").collect() == [(3,)]
    spark.sql("USE lake.air")
    assert spark.table("t").count() == spark.read.table("air.t").count() == 4
    frame.limit(1).createOrReplaceTempView("t")
    assert spark.table("t").count() == 1, "a temporary view goes before a table"
    spark.catalog.dropTempView("t")
    spark.sql("USE spark_catalog")
    with pytest.raises(TableNotFound, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("lake.air.nope").count()
    with pytest.raises(InvalidArgument, match="snapsot"):
        spark.read.option("snapsot", 1).table("lake.air.t")
    spark.range(5).createOrReplaceTempView("five")
    assert spark.table("five").count() == spark.read.table("five").count() == 5
    spark.catalog.dropTempView("five")


def test_write_to_makes_replaces_and_appends(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    writer = (
        frame.writeTo("lake.air.t").using("lakelatch").partitionedBy(F.col("month")).tableProperty("file.format", "orc")
    )
    writer.create()
    table = lake["air.t"]
    assert (table.schema.partition_keys, table.options, ids(lake)) == (("month",), {"file.format": "orc"}, [1, 2, 3])
    with pytest.raises(TableExists):
        frame.writeTo("lake.air.t").create()
    frame.select("v", "id", "month").writeTo("lake.air.t").append()
    assert ids(lake) == [1, 1, 2, 2, 3, 3], "by name"
    frame.where("month = 2").writeTo("lake.air.t").overwritePartitions()
    assert ids(lake) == [1, 1, 2, 2, 3]
    frame.where("id = 1").writeTo("lake.air.t").overwrite(F.col("month") == 1)
    assert ids(lake) == [1, 3]
    frame.writeTo("lake.air.t").overwrite(F.lit(True))
    assert ids(lake) == [1, 2, 3]
    again = frame.withColumn("id", F.col("id") + 10).writeTo("lake.air.t").partitionedBy("month")
    again.tableProperty("file.format", "orc").createOrReplace()
    frame.writeTo("lake.air.t").partitionedBy("month").tableProperty("file.format", "orc").replace()
    assert (ids(lake), table.refresh().at(snapshot=1).count()) == ([1, 2, 3], 3)
    frame.writeTo("lake.air.u").createOrReplace()
    assert ids(lake, "air.u") == [1, 2, 3]
    frame.writeTo("lake.air.u").overwritePartitions()
    assert (ids(lake, "air.u"), lake["air.u"].snapshot().id) == ([1, 2, 3], 2)


def test_what_write_to_cannot_do_is_refused_and_writes_nothing(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    frame.writeTo("lake.air.t").partitionedBy("month").create()
    to = "lake.air.t"
    for attempt, kind in [
        (lambda: frame.writeTo(to).overwrite(F.col("id") == 1), Unsupported),
        (lambda: frame.writeTo(to).overwrite((F.col("month") == 1) | (F.col("month") == 2)), Unsupported),
        (lambda: frame.writeTo(to).overwrite(F.col("nope") == 1), InvalidArgument),
        (lambda: frame.writeTo(to).overwrite(F.col("month") == 1), InvalidArgument),
        (lambda: frame.writeTo(to).partitionedBy("month").append(), InvalidArgument),
        (lambda: frame.writeTo(to).tableProperty("a", "b").append(), InvalidArgument),
        (lambda: frame.writeTo(to).option("nope", 1).append(), InvalidArgument),
        (lambda: frame.writeTo(to).option("branch", "x").append(), InvalidArgument),
        (lambda: frame.writeTo(to).clusterBy("id"), Unsupported),
        (lambda: frame.writeTo(to).using("parquet"), Unsupported),
        (lambda: frame.drop("v").withColumn("w", F.lit(1)).writeTo(to).append(), InvalidArgument),
        (lambda: frame.writeTo("lake.air.`t$snapshots`").append(), Unsupported),
        (lambda: frame.writeTo("lake.air.nope").append(), TableNotFound),
        (lambda: frame.writeTo("lake.air.nope").replace(), TableNotFound),
        (lambda: frame.writeTo("lake.nodb.t").create(), InvalidArgument),
        (lambda: frame.writeTo("lake.air.t$branch_x").create(), Unsupported),
        (lambda: frame.writeTo("lake.air.w").partitionedBy(F.years("id")).create(), ll.LakelatchError),
    ]:
        with pytest.raises(kind):
            attempt()
    assert (lake["air.t"].snapshot().id, lake.tables("air")) == (1, ["t"])


def test_write_to_takes_the_options_of_a_write(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    for _ in range(2):
        frame.writeTo("lake.air.t").option("commit-user", "etl").option("identifier", 1).createOrReplace()
    assert (ids(lake), lake["air.t"].snapshot().commit_user) == ([1, 2, 3], "etl")
    for _ in range(2):
        frame.writeTo("lake.air.t").options(**{"commit-user": "etl", "identifier": 2}).append()
    assert len(ids(lake)) == 6
    frame.withColumn("w", F.lit(1)).writeTo("lake.air.t").option("mergeSchema", True).append()
    assert lake["air.t"].schema.names[-1] == "w"


def test_save_as_table_makes_appends_and_overwrites(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    frame.write.partitionBy("month").saveAsTable("lake.air.t")
    with pytest.raises(TableExists):
        frame.write.saveAsTable("lake.air.t")
    frame.write.mode("ignore").saveAsTable("lake.air.t")
    assert (ids(lake), lake["air.t"].schema.partition_keys) == ([1, 2, 3], ("month",))
    frame.select("v", "id", "month").write.format("lakelatch").saveAsTable("lake.air.t", mode="append")
    assert ids(lake) == [1, 1, 2, 2, 3, 3]
    frame.where("id = 1").write.mode("overwrite").saveAsTable("lake.air.t")
    assert ids(lake) == [1]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        frame.where("id = 3").write.mode("overwrite").saveAsTable("lake.air.t")
        assert ids(lake) == [1, 3]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    with pytest.raises(Unsupported, match="json"):
        frame.write.format("json").mode("append").saveAsTable("lake.air.t")
    with pytest.raises(InvalidArgument, match="partitionBy"):
        frame.write.partitionBy("id").mode("append").saveAsTable("lake.air.t")
    for attempt in ("saveAsTable", "insertInto"):
        with pytest.raises(Unsupported, match="system table"):
            getattr(frame.write.mode("append"), attempt)("lake.air.t$tags")
    frame.write.mode("append").option("commit-user", "etl").option("identifier", 5).saveAsTable("lake.air.made")
    assert lake["air.made"].snapshot().commit_identifier == 5
    assert ids(lake) == [1, 3]


def test_insert_into_takes_columns_by_position(spark: Any, lake: ll.Catalog, frame: Any, tmp_path: Path) -> None:
    frame.write.partitionBy("month").saveAsTable("lake.air.t")
    frame.toDF("x", "y", "z").write.insertInto("lake.air.t")
    assert ids(lake) == [1, 1, 2, 2, 3, 3]
    frame.where("id = 1").write.insertInto("lake.air.t", overwrite=True)
    assert ids(lake) == [1]
    frame.where("id = 3").write.mode("overwrite").insertInto("lake.air.t")
    assert ids(lake) == [3]
    with pytest.raises(InvalidArgument, match="needs 3: month, id, v"):
        frame.select("id").write.insertInto("lake.air.t")
    with pytest.raises(InvalidArgument, match="partitionBy"):
        frame.write.partitionBy("month").insertInto("lake.air.t")
    with pytest.raises(TableNotFound):
        frame.write.insertInto("lake.air.nope")
    url = str(tmp_path / "one")
    ll.create_table(url, pa.schema([("a", pa.int32()), ("id", pa.int64()), ("b", pa.string())]))
    spark.sql(f"CREATE TABLE by_name USING lakelatch OPTIONS (path '{url}')")
    try:
        frame.write.insertInto("by_name")
        frame.toDF("a", "id", "b").writeTo("by_name").append()
        assert ll.open_table(url).count() == 6
        with pytest.raises(Unsupported, match="saveAsTable"):
            frame.writeTo("by_name").create()
    finally:
        spark.sql("DROP TABLE by_name")


def test_a_session_that_was_not_registered_has_sparks_methods(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    frame.writeTo("lake.air.t").create()
    spark_lake.unregister(spark)
    for attempt in (
        lambda: spark.table("lake.air.t").count(),
        lambda: spark.read.table("lake.air.t").count(),
        lambda: spark.range(1).writeTo("lake.air.t").append(),
        lambda: spark.range(1).write.mode("append").saveAsTable("lake.air.t"),
        lambda: spark.range(1).write.insertInto("lake.air.t"),
    ):
        with pytest.raises(Exception, match=r"lake|LAKE"):
            attempt()
    assert ids(lake) == [1, 2, 3]


def test_a_table_is_loaded_as_read_reads_it(
    spark: Any, lake: ll.Catalog, frame: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frame.writeTo("lake.air.t").create()
    lake["air.t"].append(pa.table({"id": [4]}))
    url = lake.url_of("air.t")
    source = spark.read.format("lakelatch")
    assert source.load(url).count() == 4
    assert "FileScan parquet" in plan_of(source.load(url).where("id > 2").select("v"))
    assert spark.read.format("lakelatch").option("snapshot", 1).load(url).count() == 3
    assert spark.read.load(url, format="lakelatch", where="id > 2", columns="id").orderBy("id").collect() == [
        (3,),
        (4,),
    ]
    assert spark.read.format("lakelatch").option("timestamp", 4_000_000_000_000).load(path=url).count() == 4
    assert spark.read.format("lakelatch").option("system", "snapshots").load(url).count() == 2
    assert "_row_kind" in spark.read.format("lakelatch").option("incremental-between", "1,2").load(url).columns
    assert spark.read.format("lakelatch").schema("id bigint").load(url).count() == 4
    assert spark.read.format("lakelatch").option("timeZone", "UTC").option("where", "id = 1").load(url).count() == 1
    with pytest.raises(InvalidArgument, match="snapsot"):
        spark.read.format("lakelatch").option("snapsot", 1).load(url)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TableNotFound):
        source.load("lake/air.db/t")  # a relative path begins where the session was registered
    spark_lake.register(spark)
    assert source.load("lake/air.db/t").count() == 4
    spark_lake.unregister(spark)
    assert "FileScan parquet" not in plan_of(spark.read.format("lakelatch").load(url))


def ways(spark: Any, lake: ll.Catalog) -> dict[str, Any]:
    """The same few rows of `air.t`, by each way of a registered session; the first is what the others are compared with."""
    url = lake.url_of("air.t")
    return {
        "lakelatch.spark.read": lambda: spark_lake.read(spark, url).where("id > 2").select("id", "v"),
        "spark.sql": lambda: spark.sql("SELECT id, v FROM lake.air.t WHERE id > 2"),
        "spark.table": lambda: spark.table("lake.air.t").where("id > 2").select("id", "v"),
        "spark.read": lambda: spark.read.format("lakelatch").load(url).where("id > 2").select("id", "v"),
    }


@pytest.mark.classic
def test_every_way_has_the_plan_of_read(spark: Any, lake: ll.Catalog, frame: Any) -> None:
    """So none of them costs more than another while the query runs."""
    frame.writeTo("lake.air.t").create()
    plans = {}
    for way, make in ways(spark, lake).items():
        physical = make()._jdf.queryExecution().executedPlan().toString()
        plans[way] = re.sub(r"#\d+L?|lakelatch-plan-\w+", "", physical)
    assert "FileScan parquet" in plans["lakelatch.spark.read"] and "GreaterThan(id,2)" in plans["lakelatch.spark.read"]
    assert plans == dict.fromkeys(plans, plans["lakelatch.spark.read"])


@pytest.mark.classic
def test_every_way_plans_a_table_once_and_asks_the_jvm_little(
    spark: Any, lake: ll.Catalog, frame: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a way costs beside `read` comes before the query runs. Nothing is kept: the same text sees the next snapshot."""
    from py4j.clientserver import JavaClient

    frame.writeTo("lake.air.t").create()
    views = temporary_views(spark)
    seen, send, plan = {"messages": 0, "plans": 0}, JavaClient.send_command, ll.Table.plan

    def sent(self: Any, command: str, *given: Any, **named: Any) -> Any:
        seen["messages"] += not command.startswith("m\n")  # what is let go may be of any test before
        return send(self, command, *given, **named)

    def planned(self: Any, *given: Any, **named: Any) -> Any:
        seen["plans"] += 1
        return plan(self, *given, **named)

    monkeypatch.setattr(JavaClient, "send_command", sent)
    monkeypatch.setattr(ll.Table, "plan", planned)
    asked = {}
    for way, make in ways(spark, lake).items():
        make()
        seen.update(messages=0, plans=0)
        made = make()
        asked[way] = seen["messages"]
        assert seen["plans"] == 1, way
        assert made.count() == 1, way
    first = asked.pop("lakelatch.spark.read")
    assert max(asked.values()) < first + 15, (first, asked)
    for number, make in enumerate(ways(spark, lake).values(), 4):
        lake["air.t"].append(pa.table({"id": [number]}))
        assert make().count() == number - 2
    assert temporary_views(spark) == views, "those of a statement end with it"


def temporary_views(spark: Any) -> set[str]:
    return {view.name for view in spark.catalog.listTables() if view.isTemporary}


def plan_of(frame: Any) -> str:
    return frame._explain_string() if hasattr(frame, "_explain_string") else frame._jdf.queryExecution().toString()


def test_lists_and_maps_without_any_element_are_written(spark: Any, lake: ll.Catalog) -> None:
    """Spark sends buffers without an address for them, which end a process whose library counts their bytes."""
    spark.sql(
        "CREATE TABLE lake.air.n (id INT, xs ARRAY<ARRAY<INT>>, m MAP<INT, ARRAY<STRING>>, s STRUCT<a: MAP<INT, INT>>)"
    )
    spark.sql("INSERT INTO lake.air.n SELECT 1, NULL, NULL, NULL")
    spark.sql("INSERT INTO lake.air.n SELECT 2, array(), map(), named_struct('a', map())")
    spark.sql(
        "MERGE INTO lake.air.n USING (SELECT 3 AS id, CAST(map() AS MAP<INT, ARRAY<STRING>>) AS m) AS s ON n.id = s.id"
        " WHEN NOT MATCHED THEN INSERT (id, m) VALUES (s.id, s.m)"
    )
    frame = spark.sql("SELECT 4 AS id, CAST(NULL AS ARRAY<ARRAY<INT>>) AS xs")
    frame.write.format("lakelatch").mode("append").save(lake.url_of("air.n"))
    found = sorted(lake["air.n"].to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(r["xs"], r["m"]) for r in found] == [(None, None), ([], []), (None, []), (None, None)]
