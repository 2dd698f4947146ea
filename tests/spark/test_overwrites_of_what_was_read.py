"""A frame remembers the snapshot that it was read at: an overwrite with it keeps what others have committed since (H13)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument

pytestmark = pytest.mark.spark

UNDER_CONNECT = os.environ.get("LAKELATCH_SPARK") == "connect"
SCHEMA = pa.schema([("month", pa.int32()), ("shop", pa.string()), ("total", pa.float64())])


def row(shop: str, total: float = 1.0) -> pa.Table:
    return pa.table({"month": [1], "shop": [shop], "total": [total]}, schema=SCHEMA)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A table with the row of shop a."""
    made = f"{tmp_path}/t"
    ll.create_table(made, SCHEMA, partition_by=["month"]).append(row("a"))
    return made


def shops(url: str) -> list[str]:
    return sorted(shop.lower() for shop in ll.open_table(url).to_arrow()["shop"].to_pylist())


def doubled(frame: Any) -> Any:
    return frame.withColumn("total", F.col("total") * 2)


def computed(frame: Any) -> Any:
    """No column is one that was read."""
    return frame.select((F.col("month") + 0).alias("month"), F.upper("shop").alias("shop"), F.lit(2.0).alias("total"))


def grouped(frame: Any) -> Any:
    return computed(frame).groupBy("month").agg(F.max("shop").alias("shop"), F.sum("total").alias("total"))


def cached(frame: Any) -> Any:
    kept = doubled(frame).cache()
    assert kept.count() == 1
    return kept


def checkpointed(frame: Any) -> Any:
    return doubled(frame).localCheckpoint()


def renamed(frame: Any) -> Any:
    return frame.toDF("x", "y", "z").select(
        F.col("x").alias("month"), F.col("y").alias("shop"), F.col("z").alias("total")
    )


def joined_with_itself(frame: Any) -> Any:
    return frame.join(frame.select("shop", F.col("total").alias("other")), "shop").drop("other")


def by_a_view(frame: Any) -> Any:
    frame.createOrReplaceTempView("was_read")
    return frame.sparkSession.sql("SELECT month + 0 AS month, upper(shop) AS shop, total FROM was_read")


CHANGES = [doubled, computed, grouped, cached, checkpointed, renamed, joined_with_itself, by_a_view]


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_others_append_meanwhile_stay(spark: Any, url: str, change: Callable[[Any], Any]) -> None:
    frame = change(lake.read(spark, url))
    ll.open_table(url).append(row("other"))
    lake.write(frame, url, mode="overwrite-partitions")
    assert shops(url) == ["a", "other"]


def test_a_view_of_a_catalog_says_what_it_shows(spark: Any, tmp_path: Path) -> None:
    try:
        catalog = ll.open_catalog(str(tmp_path / "lake"))
        catalog.create_database("air")
        catalog.create_table("air.trips", SCHEMA, partition_by=["month"]).append(row("a"))
        lake.use(spark, str(tmp_path / "lake"))
        frame = spark.sql("SELECT month + 0 AS month, upper(shop) AS shop, total FROM air_trips")
        catalog["air.trips"].append(row("other"))
        lake.write(frame, catalog.url_of("air.trips"), mode="overwrite-partitions")
        assert shops(catalog.url_of("air.trips")) == ["a", "other"]
    finally:
        lake.unregister(spark)


def test_a_table_without_a_snapshot_was_read_too(spark: Any, tmp_path: Path) -> None:
    made = f"{tmp_path}/empty"
    ll.create_table(made, SCHEMA, partition_by=["month"])
    frame = lake.read(spark, made).unionByName(
        spark.createDataFrame([(1, "a", 1.0)], "month int, shop string, total double")
    )
    ll.open_table(made).append(row("other"))
    lake.write(frame, made, mode="overwrite-partitions")
    assert shops(made) == ["a", "other"]


def test_frames_of_other_rows_replace_what_there_is(spark: Any, url: str, tmp_path: Path) -> None:
    other = f"{tmp_path}/other"
    ll.create_table(other, SCHEMA, partition_by=["month"]).append(row("b"))
    frame = lake.read(spark, other)
    ll.open_table(url).append(row("c"))
    lake.write(frame, url, mode="overwrite-partitions")
    assert shops(url) == ["b"]


def test_the_source_says_by_its_columns_what_to_keep(spark: Any, url: str) -> None:
    lake.register(spark)
    frame = doubled(lake.read(spark, url))
    ll.open_table(url).append(row("other"))
    frame.write.format("lakelatch").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(url)
    assert shops(url) == ["a", "other"]


# ----------------------------------------------------------------------------------------- what is refused, not guessed


def test_rows_of_two_snapshots_are_not_guessed_about(spark: Any, url: str) -> None:
    first = lake.read(spark, url)
    ll.open_table(url).append(row("other"))
    both = first.unionByName(lake.read(spark, url))
    with pytest.raises(InvalidArgument, match="from snapshots 1, 2"):
        lake.write(both, url, mode="overwrite-partitions")
    lake.write(both, url, mode="overwrite-partitions", read_snapshot=2)
    assert shops(url) == ["a", "a", "other"]


def test_an_old_snapshot_that_was_chosen_may_mean_either(spark: Any, url: str) -> None:
    old = lake.read(spark, url, snapshot=1)
    lake.write(doubled(old), url, mode="overwrite-partitions")  # it is the newest, so both mean the same
    with pytest.raises(
        InvalidArgument, match="read_snapshot=2 to replace what was committed since, or read_snapshot=1 to keep it"
    ):
        lake.write(doubled(old), url, mode="overwrite-partitions")
    lake.write(old, url, mode="overwrite-partitions", read_snapshot=2)
    assert shops(url) == ["a"]


@pytest.mark.parametrize("save", ["write", "source"])
def test_frames_that_spark_plans_later_are_not_guessed_about(spark: Any, url: str, save: str) -> None:
    lake.register(spark)
    frame = spark.read.format("lakelatch").option("timeZone", "UTC").load(url)  # which only the data source has
    told = "through the data source, and Spark does not say at which snapshot"
    with pytest.raises(Exception, match=told):
        if save == "write":
            lake.write(frame, url, mode="overwrite-partitions")
        else:
            frame.write.format("lakelatch").mode("overwrite").option("partitionOverwriteMode", "dynamic").save(url)
    assert shops(url) == ["a"]


def test_a_statement_that_overwrites_what_it_selects_is_planned_at_once(spark: Any, url: str) -> None:
    lake.register(spark)
    spark.sql(f"CREATE TABLE read_and_written USING lakelatch LOCATION '{url}'")
    try:
        assert spark.table("read_and_written").count() == 1
        ll.open_table(url).append(row("other"))
        spark.sql("INSERT OVERWRITE read_and_written SELECT month, upper(shop), total FROM read_and_written")
        assert shops(url) == ["a", "other"]
        frame = spark.table("read_and_written")  # under Connect by the data source, elsewhere by a scan that knows
        ll.open_table(url).append(row("late"))
        refused = pytest.raises(InvalidArgument, match="through the data source") if UNDER_CONNECT else nullcontext()
        with refused:
            lake.write(frame, url, mode="overwrite-partitions")
        assert shops(url) == ["a", "late", "other"]
    finally:
        spark.sql("DROP TABLE read_and_written")
