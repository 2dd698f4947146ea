"""ALTER TABLE by SQL, in a registered catalog and for names of Spark's own. Runs under Connect too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lakelatch as ll
import lakelatch.spark as spark_lake
from lakelatch.core.errors import InvalidArgument, Unsupported
from lakelatch.core.rows.types import sql as type_text

pytestmark = pytest.mark.spark
T = "lake.air.t"


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[ll.Catalog]:
    made = ll.open_catalog(str(tmp_path / "lake"))
    spark_lake.register(spark, catalog="lake", warehouse=made.url)
    spark.sql("CREATE DATABASE lake.air")
    spark.sql(
        f"CREATE TABLE {T} (id INT, name STRING, s STRUCT<a: INT, B: STRING>, arr ARRAY<STRUCT<x: INT>>, month INT)"
        " PARTITIONED BY (month)"
    )
    spark.sql(f"INSERT INTO {T} VALUES (1, 'one', named_struct('a', 1, 'B', 'x'), array(named_struct('x', 5)), 1)")
    yield made
    spark_lake.unregister(spark)


def columns(lake: ll.Catalog) -> dict[str, str]:
    return {f.name: type_text(f.type) for f in lake["air.t"].schema.fields}


def condition(spark: Any, text: str) -> str:
    with pytest.raises(AnalysisException) as told:
        spark.sql(text)
    return told.value.getCondition()


def test_columns_are_added_at_their_places(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(
        f"ALTER TABLE {T} ADD COLUMNS (w INT COMMENT 'width' DEFAULT -7 AFTER ID, z DATE FIRST, `a b` DECIMAL(5, 2))"
    )
    assert list(columns(lake)) == ["z", "id", "w", "name", "s", "arr", "month", "a b"]
    w = lake["air.t"].schema.by_name["w"]
    assert (w.description, w.default_value, lake["air.t"].schema.id) == ("width", "-7", 1), (
        "one schema for the statement"
    )
    spark.sql(f"ALTER TABLE {T} ADD COLUMN S.c BIGINT AFTER A")
    spark.sql(f"ALTER TABLE {T} ADD COLUMN arr.element.y STRING")
    assert columns(lake)["s"] == "ROW<a INT, c BIGINT, B STRING>"
    assert columns(lake)["arr"] == "ARRAY<ROW<x INT, y STRING>>"
    spark.sql(f"INSERT INTO {T} (id, month) VALUES (2, 1)")
    assert spark.sql(f"SELECT id, w, s.c, arr[0].y FROM {T} ORDER BY id").collect() == [
        (1, None, None, None),
        (2, -7, None, None),
    ]
    for text, kind in {
        "ADD COLUMN NAME INT": "FIELD_ALREADY_EXISTS",
        "ADD COLUMN s.b INT": "FIELD_ALREADY_EXISTS",
        "ADD COLUMN nope.b INT": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "ADD COLUMN v INT AFTER nope": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    }.items():
        assert condition(spark, f"ALTER TABLE {T} {text}") == kind, text
    for text in ("ADD COLUMN v INT NOT NULL", "ADD COLUMN name.b INT"):
        with pytest.raises(InvalidArgument):
            spark.sql(f"ALTER TABLE {T} {text}")
    with pytest.raises(Unsupported, match="not a constant"):
        spark.sql(f"ALTER TABLE {T} ADD COLUMN v DATE DEFAULT current_date()")
    assert lake["air.t"].schema.id == 3
    spark.sql(f"ALTER TABLE {T} ADD COLUMN IF NOT EXISTS (NAME INT, v INT)")
    assert list(columns(lake))[-1] == "v"
    spark.sql(f"ALTER TABLE {T} ADD COLUMNS (o INT FIRST, p INT AFTER o)")
    assert list(columns(lake))[:2] == ["o", "p"]


def test_names_with_dots_and_quotes(spark: Any, lake: ll.Catalog) -> None:
    spark.sql("CREATE TABLE lake.air.`a.b` (`x.y` INT, `q``t` STRING, z INT)")
    spark.sql("ALTER TABLE lake.air.`a.b` RENAME COLUMN z TO `z.z`")
    spark.sql("ALTER TABLE lake.air.`a.b` ALTER COLUMN `X.Y` COMMENT 'dotted'")
    spark.sql("ALTER TABLE lake.air.`a.b` ALTER COLUMN `z.z` AFTER `x.y`")
    assert [(f.name, f.description) for f in lake["air.a.b"].schema.fields] == [
        ("x.y", "dotted"),
        ("z.z", None),
        ("q`t", None),
    ]
    spark.sql("ALTER TABLE lake.air.`a.b` DROP COLUMN `x.y`")
    for name in ("`n.m`", "`z.z`.n"):
        with pytest.raises(Unsupported, match="dot"):
            spark.sql(f"ALTER TABLE lake.air.`a.b` ADD COLUMN {name} INT")
    assert lake["air.a.b"].schema.names == ("z.z", "q`t")


def test_columns_are_renamed_and_dropped(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(f"ALTER TABLE {T} RENAME COLUMN NAME TO `full name`")
    spark.sql(f"ALTER TABLE {T} RENAME COLUMN s.b TO bb")
    spark.sql(f"ALTER TABLE {T} RENAME COLUMN arr.element.x TO xx")
    spark.sql(f"ALTER TABLE {T} RENAME COLUMN `Full Name` TO NAME")
    assert columns(lake)["s"] == "ROW<a INT, bb STRING>" and "NAME" in columns(lake)
    assert spark.sql(f"SELECT name, s.bb, arr[0].xx FROM {T}").collect() == [("one", "x", 5)]
    for text, kind in {
        "RENAME COLUMN nope TO x": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
        "RENAME COLUMN id TO name": "FIELD_ALREADY_EXISTS",
        "RENAME COLUMN s.a TO BB": "FIELD_ALREADY_EXISTS",
        "DROP COLUMN nope": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    }.items():
        assert condition(spark, f"ALTER TABLE {T} {text}") == kind, text
    for text in ("RENAME COLUMN month TO m", "DROP COLUMN month"):
        with pytest.raises(InvalidArgument):
            spark.sql(f"ALTER TABLE {T} {text}")
    spark.sql(f"ALTER TABLE {T} DROP COLUMNS (name, s.A)")
    spark.sql(f"ALTER TABLE {T} DROP COLUMN IF EXISTS nope")
    assert columns(lake) == {"id": "INT", "s": "ROW<bb STRING>", "arr": "ARRAY<ROW<xx INT>>", "month": "INT"}


def test_columns_are_altered_in_every_way(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN id TYPE BIGINT")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN s.a TYPE BIGINT")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN ID COMMENT 'it''s'")
    spark.sql(f"ALTER TABLE {T} CHANGE COLUMN s.b COMMENT 'in'")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN s FIRST")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN name AFTER month")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN s.B FIRST")
    schema = lake["air.t"].schema
    assert list(columns(lake)) == ["s", "id", "arr", "month", "name"]
    assert columns(lake)["s"] == "ROW<B STRING, a BIGINT>" and columns(lake)["id"] == "BIGINT"
    assert (schema.by_name["id"].description, schema.by_name["s"].type.fields[0].description) == ("it's", "in")
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN id SET DEFAULT 8")
    assert lake["air.t"].schema.by_name["id"].default_value == "8"
    spark.sql(f"ALTER TABLE {T} ALTER COLUMN id DROP DEFAULT")
    assert lake["air.t"].schema.by_name["id"].default_value is None
    assert spark.sql(f"SELECT s.B, s.a, id, name FROM {T}").collect() == [("x", 1, 1, "one")]
    before = lake["air.t"].schema
    with pytest.raises(InvalidArgument):
        spark.sql(f"ALTER TABLE {T} ALTER COLUMN name TYPE INT")
    with pytest.raises(Exception, match="x"):
        spark.sql(f"ALTER TABLE {T} ALTER COLUMN id SET DEFAULT 'x'")
    with pytest.raises(InvalidArgument, match="may already have nulls"):
        spark.sql(f"ALTER TABLE {T} ALTER COLUMN id SET NOT NULL")
    assert lake["air.t"].schema == before
    spark.sql("CREATE TABLE lake.air.n (id INT NOT NULL)")
    spark.sql("ALTER TABLE lake.air.n ALTER COLUMN id DROP NOT NULL")
    assert lake["air.n"].schema.by_name["id"].type.nullable


def test_case_is_told_apart_where_the_session_says_so(spark: Any, lake: ll.Catalog) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert condition(spark, f"ALTER TABLE {T} DROP COLUMN NAME") == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        spark.sql(f"ALTER TABLE {T} ADD COLUMN NAME INT")
        spark.sql(f"ALTER TABLE {T} DROP COLUMN name")
        assert "NAME" in columns(lake) and "name" not in columns(lake)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_properties_and_comments(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(
        f"ALTER TABLE {T} SET TBLPROPERTIES ('file.format' = 'orc', snapshot.num-retained.min 7, 'comment' = 'hello')"
    )
    assert lake["air.t"].options == {"file.format": "orc", "snapshot.num-retained.min": "7"}
    assert lake["air.t"].schema.comment == "hello"
    spark.sql(f"ALTER TABLE {T} UNSET TBLPROPERTIES ('file.format', 'comment')")
    assert condition(spark, f"ALTER TABLE {T} UNSET TBLPROPERTIES ('file.format')") == "UNSET_NONEXISTENT_PROPERTIES"
    spark.sql(f"ALTER TABLE {T} UNSET TBLPROPERTIES IF EXISTS ('file.format')")
    assert (list(lake["air.t"].options), lake["air.t"].schema.comment) == (["snapshot.num-retained.min"], None)
    spark.sql(f"COMMENT ON TABLE {T} IS 'it''s'")
    assert lake["air.t"].schema.comment == "it's"
    spark.sql(f"COMMENT ON TABLE {T} IS NULL")
    assert lake["air.t"].schema.comment is None
    with pytest.raises(InvalidArgument, match="fromat"):
        spark.sql(f"ALTER TABLE {T} SET TBLPROPERTIES ('file.fromat' = 'orc')")


def test_partitions_are_dropped_in_one_commit_with_the_sessions_identity(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(f"INSERT INTO {T} (id, month) VALUES (2, 2), (3, 3), (4, NULL)")
    before = lake["air.t"].snapshot().id
    spark.conf.set("lakelatch.commit-user", "ops")
    spark.conf.set("lakelatch.identifier", "1")
    spark.sql(f"ALTER TABLE {T} DROP PARTITION (MONTH = 1), PARTITION (month = '3')")
    spark.conf.unset("lakelatch.commit-user")
    snapshot = lake["air.t"].snapshot()
    assert (snapshot.id, snapshot.commit_user, snapshot.commit_identifier) == (before + 1, "ops", 1)
    assert sorted(lake["air.t"].to_arrow()["id"].to_pylist()) == [2, 4]
    assert (
        condition(spark, f"ALTER TABLE {T} DROP PARTITION (month = 2), PARTITION (month = 1)") == "PARTITIONS_NOT_FOUND"
    )
    spark.sql(f"ALTER TABLE {T} DROP IF EXISTS PARTITION (month = 1)")
    assert lake["air.t"].snapshot().id == before + 1, "nothing was dropped, and nothing committed"
    for wrong in ("(id = 2)", "(month = 'x')"):
        with pytest.raises(InvalidArgument):
            spark.sql(f"ALTER TABLE {T} DROP PARTITION {wrong}")
    spark.sql(f"ALTER TABLE {T} DROP PARTITION (month = NULL)")
    assert lake["air.t"].to_arrow()["id"].to_pylist() == [2]
    for text in ("ADD PARTITION (month = 9)", "SET LOCATION '/x'", "RECOVER PARTITIONS", "REPLACE COLUMNS (a INT)"):
        with pytest.raises(Unsupported):
            spark.sql(f"ALTER TABLE {T} {text}")


def test_partitions_of_points_in_time_are_those_of_the_sessions_zone(spark: Any, lake: ll.Catalog) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        spark.sql("CREATE TABLE lake.air.ts (id INT, p TIMESTAMP) PARTITIONED BY (p)")
        spark.sql("INSERT INTO lake.air.ts VALUES (1, TIMESTAMP '2026-06-01 10:00:00'), (2, NULL)")
        assert len(spark.sql("SHOW PARTITIONS lake.air.ts").collect()) == 2
        shown = spark.sql("SHOW PARTITIONS lake.air.ts PARTITION (p = '2026-06-01 10:00:00')").collect()
        assert [row[0].startswith("p=2026-06-01") for row in shown] == [True]
        assert spark.sql("SHOW PARTITIONS lake.air.ts PARTITION (p = '2026-06-01 14:00:00')").collect() == []
        spark.sql("CALL lake.sys.compact(table => 'air.ts', partition_idle_time => '0 ms')")
        assert (
            condition(spark, "ALTER TABLE lake.air.ts DROP PARTITION (p = '2026-06-01 14:00:00')")
            == "PARTITIONS_NOT_FOUND"
        )
        spark.sql("ALTER TABLE lake.air.ts DROP PARTITION (p = TIMESTAMP '2026-06-01 10:00:00')")
        assert lake["air.ts"].to_arrow()["id"].to_pylist() == [2]
        with pytest.raises(Unsupported, match="needs a zone"):
            spark.sql("ALTER TABLE lake.air.ts ADD COLUMN t TIMESTAMP DEFAULT TIMESTAMP '2020-01-01 00:00:00'")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_branch_is_altered_alone(spark: Any, lake: ll.Catalog) -> None:
    spark.sql("CALL lake.sys.create_branch(table => 'air.t', branch => 'dev')")
    spark.sql("ALTER TABLE lake.air.`t$branch_dev` ADD COLUMN only_here INT")
    assert "only_here" in lake["air.t$branch_dev"].schema.names and "only_here" not in columns(lake)
    with pytest.raises(Unsupported, match="system table"):
        spark.sql("ALTER TABLE lake.air.`t$snapshots` ADD COLUMN x INT")


def test_the_catalog_of_spark_learns_the_new_columns(spark: Any, lake: ll.Catalog, tmp_path: Path) -> None:
    url = str(tmp_path / "one")
    table = ll.create_table(url, pa.schema([("a", pa.int64())]))
    table.append(pa.table({"a": [1]}))
    table.create_branch("dev", snapshot=1)
    spark.sql(f"CREATE TABLE by_name USING lakelatch OPTIONS (path '{url}') COMMENT 'it''s\\n\\nand'")
    spark.sql(f"CREATE TABLE by_branch USING lakelatch OPTIONS (path '{url}', branch 'dev')")
    try:
        spark.sql("ALTER TABLE by_name ADD COLUMN b STRING DEFAULT 'x'")
        spark.sql("ALTER TABLE default.by_name RENAME COLUMN a TO aa")
        assert spark.table("by_name").columns == ["aa", "b"]
        spark.sql("INSERT INTO by_name VALUES (2, NULL)")
        assert spark.sql("SELECT * FROM by_name ORDER BY aa").collect() == [(1, None), (2, "x")]
        assert "Comment: it's\n\nand\n" in spark.sql("SHOW TABLE EXTENDED LIKE 'by_name'").first()["information"]
        spark.sql("ALTER TABLE by_branch ADD COLUMN c INT")
        assert spark.table("by_branch").columns == ["a", "c"] and table.refresh().schema.names == ("aa", "b")
        spark.sql("ALTER TABLE by_name SET TBLPROPERTIES ('file.format' = 'orc')")
        assert table.refresh().options == {"file.format": "orc"}
        with pytest.raises(InvalidArgument):
            spark.sql("ALTER TABLE by_name DROP COLUMN nope")
        spark.sql("ALTER TABLE by_name RENAME TO other_name")
        assert spark.table("other_name").count() == 2
        spark.sql(f"ALTER TABLE lakelatch.`{url}` DROP COLUMN b")
        assert table.refresh().schema.names == ("aa",)
    finally:
        for name in ("by_name", "other_name", "by_branch"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")
    assert table.refresh().count() == 2
