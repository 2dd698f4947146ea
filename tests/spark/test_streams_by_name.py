"""`spark.readStream.table` and `writeStream.toTable` by names of a registered catalog. Runs again under Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "day": ["a", "b", "b"]})


@pytest.fixture
def home(spark: Any, tmp_path: Any) -> Iterator[ll.Catalog]:
    """A warehouse with the table `db.t`, which the session knows as `lake`."""
    catalog = ll.open_catalog(str(tmp_path / "warehouse"))
    catalog.create_database("db")
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    lake.register(spark, catalog="lake", warehouse=catalog.url)
    yield catalog
    lake.unregister(spark)


def rows(catalog: ll.Catalog, name: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in catalog[name].to_arrow().to_pylist())


def run(frame: Any, name: str, checkpoint: Any, **how: Any) -> Any:
    """Start a query of all that is there, and wait until it has ended."""
    query = frame.writeStream.trigger(availableNow=True).toTable(name, checkpointLocation=str(checkpoint), **how)
    query.awaitTermination()
    return query


def test_a_stream_from_table_to_table(spark: Any, home: ll.Catalog, tmp_path: Any) -> None:
    def one_run() -> None:
        frame = spark.readStream.option("from", "earliest").table("lake.db.t").select("id", "day")
        run(frame, "lake.db.copy", tmp_path / "checkpoint", partitionBy="day", outputMode="append")

    one_run()
    one_run()  # nothing is new
    assert rows(home, "db.copy") == [(1, "a"), (2, "b"), (3, "b")]
    assert home["db.copy"].schema.partition_keys == ("day",)
    assert len(home["db.copy"].history()) == 1
    writer = spark.readStream.table("lake.db.t").writeStream.partitionBy("day", "id").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "b")).toTable("lake.db.by_two").awaitTermination()
    assert home["db.by_two"].schema.partition_keys == ("day", "id") and len(rows(home, "db.by_two")) == 3
    home["db.t"].append(ROWS.slice(0, 1))
    spark.sql("USE lake.db")
    one_run()
    spark.sql("USE spark_catalog")
    assert rows(home, "db.copy") == [(1, "a"), (1, "a"), (2, "b"), (3, "b")]
    with pytest.raises(ll.InvalidArgument, match=r"partitionBy is \['id'\]"):
        run(spark.readStream.table("lake.db.t"), "lake.db.copy", tmp_path / "c", partitionBy=["id"])


def test_branches_and_what_is_no_stream(spark: Any, home: ll.Catalog, tmp_path: Any) -> None:
    home["db.t"].create_branch("dev")
    home["db.t$branch_dev"].append(ROWS.slice(0, 1))
    frame = spark.readStream.option("from", "earliest").table("lake.db.`t$branch_dev`")
    run(frame, "lake.db.of_dev", tmp_path / "a")
    assert rows(home, "db.of_dev") == [(1, "a")]
    run(spark.readStream.option("from", "earliest").table("lake.db.t"), "lake.db.`t$branch_dev`", tmp_path / "b")
    assert len(rows(home, "db.t$branch_dev")) == 4 and len(rows(home, "db.t")) == 3
    for name in ("lake.db.`t$snapshots`", "lake.db.`t$files`"):
        with pytest.raises(ll.Unsupported, match="system table"):
            spark.readStream.table(name)
        with pytest.raises(ll.Unsupported, match="system table"):
            run(spark.readStream.table("lake.db.t"), name, tmp_path / "c")
    with pytest.raises(ll.InvalidArgument, match="'path' and the name"):
        run(spark.readStream.table("lake.db.t"), "lake.db.of_dev", tmp_path / "c", path="elsewhere")
    with pytest.raises(ll.Unsupported, match="clusterBy"):
        spark.readStream.table("lake.db.t").writeStream.clusterBy("id").toTable("lake.db.other")
    with pytest.raises(ll.Unsupported, match="format"):
        run(spark.readStream.table("lake.db.t"), "lake.db.other", tmp_path / "c", format="parquet")
    assert home.tables("db") == ["of_dev", "t"]


def test_names_of_spark_and_other_sessions_stay_sparks(spark: Any, home: ll.Catalog, tmp_path: Any) -> None:
    rate = spark.readStream.format("rate").load()
    run_by_spark = rate.writeStream.trigger(once=True).toTable(
        "of_spark", format="parquet", checkpointLocation=str(tmp_path / "c")
    )
    try:
        run_by_spark.awaitTermination()
        assert spark.readStream.table("of_spark").columns == ["timestamp", "value"]
    finally:
        run_by_spark.stop()
        spark.sql("DROP TABLE of_spark")
    lake.unregister(spark)
    with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|REQUIRES_SINGLE_PART|SCHEMA_NOT_FOUND"):
        spark.readStream.table("lake.db.t").columns  # noqa: B018  Connect asks only now
