"""Writes as users of `df.write.parquet` know them: overwrite modes. Runs again under Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
DDL = "month int, v string"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@contextmanager
def settings(spark: Any, **values: str) -> Iterator[None]:
    """Set settings of the session, whose dots are written as underscores, and unset them afterwards."""
    keys = {name.replace("_", "."): value for name, value in values.items()}
    for key, value in keys.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in keys:
            spark.conf.unset(key)


def months(url: str) -> list[tuple[int, str]]:
    table = ll.open_table(url).to_arrow()
    return sorted(zip(table["month"].to_pylist(), table["v"].to_pylist(), strict=True))


def year(url: str) -> str:
    """A table with a row of each of twelve months."""
    table = ll.create_table(url, ll.Schema([("month", "INT"), ("v", "STRING")]), partition_by="month")
    table.append(pa.table({"month": pa.array(range(1, 13), pa.int32()), "v": ["old"] * 12}))
    return url


def others(*replaced: int) -> list[tuple[int, str]]:
    return [(m, "old") for m in range(1, 13) if m not in replaced]


def test_a_dynamic_session_replaces_only_the_partitions_that_have_rows(spark: Any, url: str) -> None:
    """One row of March replaces March alone, through the source and through `lakelatch.spark.write`."""
    lake.register(spark)
    march = spark.createDataFrame([(3, "new")], DDL)
    with settings(spark, spark_sql_sources_partitionOverwriteMode="DYNAMIC"):
        march.write.format("lakelatch").mode("overwrite").save(year(url))
        assert months(url) == sorted([*others(3), (3, "new")])
        receipt = lake.write(spark.createDataFrame([(4, "new"), (13, "new")], DDL), url, mode="overwrite")
        assert months(url) == sorted([*others(3, 4), (3, "new"), (4, "new"), (13, "new")])
        assert receipt.partitions_replaced == 1
        assert ": 1 partition replaced, " in str(receipt)
        march.where("false").write.format("lakelatch").mode("overwrite").save(url)
        spark.createDataFrame([], DDL).write.format("lakelatch").mode("overwrite").save(url)
        assert len(months(url)) == 13


def test_option_group_reaches_the_commit_on_every_way_to_write(spark: Any, url: str) -> None:
    """A value that no commit knows comes back as the commit's error; one that it knows is taken."""
    lake.register(spark)
    ll.create_table(url, ll.Schema([("month", "INT"), ("v", "STRING")]))
    frame = spark.createDataFrame([(1, "x")], DDL)
    with pytest.raises(ll.InvalidArgument, match="group 'on'"):
        lake.write(frame, url, group="on")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="group 'on'"):
        frame.write.format("lakelatch").mode("append").option("group", "on").save(url)
    assert months(url) == []
    lake.write(frame, url, group="auto")
    frame.write.format("lakelatch").mode("append").option("group", "auto").save(url)
    assert months(url) == [(1, "x"), (1, "x")]


def test_an_overwrite_option_goes_before_the_setting_of_the_session(spark: Any, url: str) -> None:
    lake.register(spark)
    march = spark.createDataFrame([(3, "new")], DDL)
    source = march.write.format("lakelatch").mode("overwrite")
    source.option("partitionOverwriteMode", "dynamic").save(year(url))
    assert months(url) == sorted([*others(3), (3, "new")])
    with settings(spark, spark_sql_sources_partitionOverwriteMode="dynamic"):
        source.option("partitionOverwriteMode", "static").save(url)
        assert months(url) == [(3, "new")]
        lake.write(spark.createDataFrame([(4, "x"), (5, "x")], DDL), url, mode="overwrite", partition={})
        assert months(url) == [(4, "x"), (5, "x")]
        march.drop("month").write.format("lakelatch").mode("overwrite").option("partition", "month=4").save(url)
        assert months(url) == [(4, "new"), (5, "x")]
        with pytest.raises(Exception, match="'partition' and partitionOverwriteMode 'dynamic'"):
            source.option("partition", "month=3").option("partitionOverwriteMode", "dynamic").save(url)


def test_a_static_session_replaces_the_whole_table(spark: Any, url: str) -> None:
    """As Spark's own file sources; a table without partitions is replaced in both modes."""
    lake.register(spark)
    march = spark.createDataFrame([(3, "new")], DDL)
    march.write.format("lakelatch").mode("overwrite").save(year(url))
    assert months(url) == [(3, "new")]
    flat = url + "-flat"
    ll.create_table(flat, ll.Schema([("month", "INT"), ("v", "STRING")])).append(
        pa.table({"month": pa.array([1], pa.int32()), "v": ["old"]})
    )
    with settings(spark, spark_sql_sources_partitionOverwriteMode="dynamic"):
        march.write.format("lakelatch").mode("overwrite").save(flat)
        assert months(flat) == [(3, "new")]
        assert lake.write(march, flat, mode="overwrite").partitions_replaced is None
    with pytest.raises(ll.InvalidArgument, match="partition"):
        lake.write(march, url, mode="overwrite")
    receipt = lake.write(march, url, mode="overwrite", partition={})
    assert (receipt.partitions_replaced, months(url)) == (1, [(3, "new")])


def test_new_columns_are_added_only_on_request(spark: Any, url: str) -> None:
    """`evolve=True` and option `mergeSchema` add them; names that differ only in case are refused, and nothing is added."""
    lake.register(spark)
    lake.write(spark.createDataFrame([(1, "a")], DDL), url, partition_by="month")
    wider = spark.createDataFrame([(2, "b", 2.5)], DDL + ", delay double")
    with pytest.raises(ll.InvalidArgument, match="no column 'delay'"):
        lake.write(wider, url)
    lake.write(wider, url, evolve=True)
    again = wider.selectExpr("*", "array(1) AS parts")
    again.write.format("lakelatch").mode("append").option("mergeSchema", "true").save(url)
    assert ll.open_table(url).to_arrow(columns=["month", "delay", "parts"]).to_pylist() == [
        {"month": 1, "delay": None, "parts": None},
        {"month": 2, "delay": 2.5, "parts": None},
        {"month": 2, "delay": 2.5, "parts": [1]},
    ]
    for odd, said in (("'x' AS V", "only in case"), ("'x' AS extra, cast(1 AS timestamp) AS delay", "'delay'")):
        with pytest.raises(ll.InvalidArgument, match=said):
            lake.write(spark.sql(f"SELECT 1 AS month, {odd}"), url, evolve=True)
    assert ll.open_table(url).schema.names == ("month", "v", "delay", "parts")
    with settings(spark, spark_sql_caseSensitive="true"):
        lake.write(spark.sql("SELECT 1 AS month, 'x' AS V"), url, evolve=True)
    assert "V" in ll.open_table(url).schema.names


def test_frames_that_are_not_sparks_are_refused_by_name(url: str) -> None:
    """pandas, polars and Arrow tables have another way in, and the error says which."""
    import pandas as pd

    for frame, name in ((pd.DataFrame({"a": [1]}), "pandas.DataFrame"), (pa.table({"a": [1]}), "pyarrow.Table")):
        with pytest.raises(ll.InvalidArgument, match=rf"{name}.*open_table\(url\).append\(df\)"):
            lake.write(frame, url, options={})
    assert not ll.is_table(url)


def test_each_way_to_say_how_creates_a_missing_table(spark: Any, url: str) -> None:
    """`partition_by` alone is enough, as are options; without either, a misspelt URL is not taken for a new table."""
    df = spark.createDataFrame([(1, "a")], DDL)
    with pytest.raises(ll.TableNotFound, match="partition_by"):
        lake.write(df, url, evolve=True)
    lake.write(df, url, partition_by="month")
    assert ll.open_table(url).schema.partition_keys == ("month",)


def test_options_of_ones_own_programs_are_accepted_on_request(spark: Any, url: str) -> None:
    """As in `create_table`: a name that nobody knows is more often misspelt than meant."""
    frame = spark.createDataFrame([(1, "a")], DDL)
    with pytest.raises(ll.InvalidArgument, match=r"no table option 'team.owner'.*allow_unknown=True"):
        lake.write(frame, url, options={"team.owner": "air"})
    assert not ll.is_table(url)
    lake.write(frame, url, options={"team.owner": "air"}, allow_unknown=True)
    assert ll.open_table(url).options["team.owner"] == "air"


def test_a_partitioned_write_makes_few_files(spark: Any, url: str) -> None:
    """Rows are brought together by partition; an argument and an option of the table turn it off."""
    rows = spark.range(200).repartition(4).selectExpr("cast(id % 10 AS int) AS month", "'x' AS v")

    def files(name: str, **how: Any) -> int:
        lake.write(rows, url + name, partition_by="month", **how)
        table = ll.open_table(url + name)
        assert table.count() == 200
        return len(table.entries())

    assert files("auto") == 10
    assert files("none", cluster="none") > 30
    with settings(spark, spark_sql_adaptive_enabled="false"):
        assert files("static") == 10
    assert files("option", options={"partition.sink-strategy": "none"}) > 30
    lake.write(rows.drop("month"), url + "auto", mode="overwrite", partition={"month": 3})
    assert ll.open_table(url + "auto").count(where="month = 3") == 200
    with pytest.raises(ll.InvalidArgument, match="auto or none"):
        lake.write(rows, url, cluster="hash")
