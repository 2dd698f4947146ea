"""The tables of a catalog as temporary views: made when they are mentioned, and following every commit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as spark_lake
from lakelatch.spark.sessions.session import is_connect

pytestmark = pytest.mark.spark

FIELDS = pa.schema([("k", pa.int64()), ("p", pa.string())])


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "p": ["a"] * len(keys)}, schema=FIELDS)


@pytest.fixture
def session(spark: Any) -> Iterator[Any]:
    """The session, which forgets the views afterwards."""
    yield spark
    spark_lake.unregister(spark)
    for found in spark.catalog.listTables():
        if found.isTemporary:
            spark.catalog.dropTempView(found.name)


@pytest.fixture
def lake(tmp_path: Path) -> ll.Catalog:
    made = ll.open_catalog(str(tmp_path / "lake"))
    for name in ("air.flights", "air.old.ones", "sea.ships"):
        made.create_database(name[:3], exist_ok=True)
        made.create_table(name, FIELDS, partition_by=["p"]).append(rows(1, 2))
    return made


def views(session: Any) -> list[str]:
    return sorted(found.name for found in session.catalog.listTables() if found.isTemporary)


def test_views_are_made_when_mentioned_and_follow_new_commits(session: Any, lake: ll.Catalog) -> None:
    before = views(session)
    assert spark_lake.use(session, lake.url) == ["air_flights", "air_old_ones", "sea_ships"]
    assert views(session) == before
    assert session.sql("SELECT count(*) FROM Air_Flights").first()[0] == 2
    assert views(session) == sorted([*before, "air_flights"])
    frame = session.table("air_flights")
    lake["air.flights"].append(rows(3))
    assert session.sql("SELECT max(air_flights.k) FROM air_flights JOIN sea_ships USING (p)").first()[0] == 3
    assert session.table("air_flights").count() == 3
    assert frame.count() == (3 if is_connect(session) else 2), "Spark Connect plans a frame again, by the view's name"
    lake["air.flights"].alter(ll.add_column("w", "INT"))
    assert session.table("air_flights").columns == ["k", "p", "w"]
    made = ll.open_table(lake.url_of("air.flights"))
    made.overwrite(pa.table({"k": [9], "p": ["a"], "w": [1]}).cast(made.arrow_schema), partition={})
    assert [tuple(row) for row in session.sql("SELECT k, w FROM air_flights").collect()] == [(9, 1)]
    assert session.sql("SELECT count(*) FROM {rows}", rows=session.range(3)).first()[0] == 3

    lake.drop_table("sea.ships")
    with pytest.raises(ll.TableNotFound):
        session.sql("SELECT * FROM sea_ships")
    assert "sea_ships" not in views(session)
    lake.create_table("sea.ships", FIELDS).append(rows(5))
    assert session.sql("SELECT k FROM sea_ships").first()[0] == 5
    assert "sea_ships" in spark_lake.use(session, lake.url), "again, for tables that were made since"


def test_no_view_hides_another_table(session: Any, lake: ll.Catalog) -> None:
    assert spark_lake.use(session, lake.url, "sea") == ["ships"]
    assert session.table("ships").count() == 2
    session.range(1).createOrReplaceTempView("air_FLIGHTS")
    with pytest.raises(
        ll.InvalidArgument, match=r"view 'air_(FLIGHTS|flights)', which the view of air\.flights would hide"
    ):
        spark_lake.use(session, lake.url)
    lake.create_table("air.old_ones", FIELDS)
    with pytest.raises(ll.InvalidArgument, match="would both be the view 'old_ones'"):
        spark_lake.use(session, lake.url, "air")
    with pytest.raises(ll.InvalidArgument, match="no database 'none'"):
        spark_lake.use(session, lake.url, "none")
