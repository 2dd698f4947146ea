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
