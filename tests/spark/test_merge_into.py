"""`df.mergeInto` by names of tables of ours. Runs again under Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", None]})


@pytest.fixture
def home(spark: Any, tmp_path: Any) -> Iterator[ll.Catalog]:
    """A warehouse with the table `db.t`, which the session knows as `lake`."""
    catalog = ll.open_catalog(str(tmp_path / "warehouse"))
    catalog.create_database("db")
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    lake.register(spark, catalog="lake", warehouse=catalog.url)
    yield catalog
    spark.conf.unset("lakelatch.commit-user")
    lake.unregister(spark)


@pytest.fixture
def news(spark: Any) -> Any:
    return spark.createDataFrame([(2, "{new}"), (3, "it's"), (4, "d")], "id bigint, v string")


def rows(catalog: ll.Catalog) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in catalog["db.t"].to_arrow().to_pylist())


def test_every_clause(spark: Any, home: ll.Catalog, news: Any) -> None:
    from pyspark.sql import functions as F

    (
        news.alias("s")
        .mergeInto("lake.db.t", F.col("t.id") == F.col("s.id"))
        .whenMatched(F.col("s.v") == "{new}")
        .update({"v": F.concat(F.col("t.v"), F.col("s.v"), F.lit("{}"))})
        .whenMatched()
        .delete()
        .whenNotMatched(F.col("s.id") > 10)
        .insertAll()
        .whenNotMatched()
        .insert({"id": F.col("s.id") * 10, "`v`": F.lit("made")})
        .whenNotMatchedBySource(F.col("t.id") == 1)
        .update({"v": F.lit("left")})
        .whenNotMatchedBySource()
        .delete()
        .merge()
    )
    assert rows(home) == [(1, "left"), (2, "b{new}{}"), (40, "made")]
    assert len(home["db.t"].history()) == 2


def test_the_alias_of_the_frame_may_be_any_name(spark: Any, home: ll.Catalog, news: Any) -> None:
    """`t` is the source here, though `LakeTable` would take it for the table."""
    from pyspark.sql import functions as F

    home.rename_table("db.t", "db.flights")
    merge = news.alias("t").mergeInto("lake.db.flights", F.expr("flights.id = t.id"))
    merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    found = home["db.flights"].to_arrow().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "a"), (2, "{new}"), (3, "it's"), (4, "d")]


def test_names_of_sparks_catalog_columns_that_are_new_and_identities(spark: Any, home: ll.Catalog, news: Any) -> None:
    from pyspark.sql import functions as F

    spark.sql(f"CREATE TABLE of_spark USING lakelatch LOCATION '{home['db.t'].url}'")
    try:
        wider = news.withColumn("n", F.lit(7)).alias("s")
        for _ in range(2):  # the second run changes nothing
            spark.sql("SET lakelatch.commit-user = nightly")
            spark.sql("SET lakelatch.identifier = 1")
            merge = wider.mergeInto("of_spark", F.col("of_spark.id") == F.col("s.id")).withSchemaEvolution()
            merge.whenNotMatched().insertAll().whenMatched().delete().merge()
    finally:
        spark.sql("DROP TABLE of_spark")
    assert rows(home) == [(1, "a", None), (4, "d", 7)]


def test_what_is_wrong_is_told(spark: Any, home: ll.Catalog, news: Any) -> None:
    from pyspark.sql import functions as F

    join = F.col("t.id") == F.col("s.id")
    with pytest.raises(ll.InvalidArgument, match="nothing"):
        news.alias("s").mergeInto("lake.db.t", F.col("t.nothing") == F.col("s.id")).whenMatched().delete().merge()
    with pytest.raises(Exception, match="no_such"):
        news.alias("s").mergeInto("lake.db.no_such", join).whenMatched().delete().merge()
    with pytest.raises(ll.InvalidArgument, match="condition of a clause"):
        news.alias("s").mergeInto("lake.db.t", join).whenMatched(7).delete()
    with pytest.raises(Exception, match=r"(?i)clause|WHEN"):
        news.alias("s").mergeInto("lake.db.t", join).merge()
    assert rows(home)[:2] == [(1, "a"), (2, "b")]
