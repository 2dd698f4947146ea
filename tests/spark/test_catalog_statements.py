"""Databases and tables of a registered catalog by SQL: made, listed, described, replaced, dropped. Runs under Connect too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import lakelatch as ll
import lakelatch.spark as spark_lake
from lakelatch.core.errors import InvalidArgument, TableExists, TableNotFound, Unsupported

pytestmark = pytest.mark.spark
ALL_TYPES = """
  `month` INT, `id` BIGINT NOT NULL COMMENT 'it''s', `s` STRUCT<a: INT NOT NULL COMMENT 'in', `b c`: ARRAY<VARCHAR(5)>>,
  `d` DECIMAL(10, 2) DEFAULT 1.5 COMMENT 'dd', `t` TIMESTAMP, `n` TIMESTAMP_NTZ, `c` CHAR(3), `b` BINARY,
  `m` MAP<STRING, DATE>, `v` VARIANT, `day` DATE DEFAULT DATE '2020-01-02', `f` BOOLEAN DEFAULT true, `Odd name` STRING,
  `i` TINYINT, `j` SMALLINT DEFAULT -3, `x` FLOAT, `y` DOUBLE, `text` STRING DEFAULT 'a, ''b'' \\\\ c'
"""


@pytest.fixture
def lake(spark: Any, tmp_path: Path) -> Iterator[ll.Catalog]:
    made = ll.open_catalog(str(tmp_path / "lake"))
    spark_lake.register(spark, catalog="lake", warehouse=made.url)
    spark.sql("CREATE DATABASE lake.air")
    yield made
    spark_lake.unregister(spark)


def rows(spark: Any, text: str, **args: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(text, **args).collect()]


def condition(spark: Any, text: str) -> str:
    """Spark's class of the error that a statement ends in."""
    with pytest.raises(AnalysisException) as told:
        spark.sql(text)
    return told.value.getCondition()


# ----------------------------------------------------------------------------------------------------------- databases


def test_databases_are_made_listed_and_dropped(spark: Any, lake: ll.Catalog) -> None:
    assert condition(spark, "CREATE DATABASE lake.air") == "SCHEMA_ALREADY_EXISTS"
    spark.sql("CREATE SCHEMA IF NOT EXISTS lake.air")
    spark.sql("CREATE NAMESPACE LAKE.sea")
    assert rows(spark, "SHOW DATABASES IN lake") == [("air",), ("sea",)]
    assert spark.sql("SHOW NAMESPACES FROM lake LIKE 'S*|nope'").collect() == [("sea",)]
    assert ("lake",) in rows(spark, "SHOW CATALOGS") and ("spark_catalog",) in rows(spark, "SHOW CATALOGS")
    assert rows(spark, "SHOW CATALOGS LIKE 'la*'") == [("lake",)]
    assert ("Location", f"{lake.url}/air.db") in rows(spark, "DESCRIBE DATABASE lake.air")
    spark.sql("CREATE TABLE lake.sea.ships (id INT)")
    assert condition(spark, "DROP DATABASE lake.sea") == "SCHEMA_NOT_EMPTY"
    assert condition(spark, "DROP DATABASE lake.sea RESTRICT") == "SCHEMA_NOT_EMPTY"
    assert "sea.ships" in lake
    spark.sql("DROP DATABASE lake.sea CASCADE")
    assert lake.databases() == ["air"]
    assert condition(spark, "DROP DATABASE lake.sea") == "SCHEMA_NOT_FOUND"
    spark.sql("DROP DATABASE IF EXISTS lake.sea")
    for clause in ("COMMENT 'x'", "LOCATION '/x'", "WITH DBPROPERTIES (a = 'b')"):
        with pytest.raises(Unsupported, match="keeps none"):
            spark.sql(f"CREATE DATABASE lake.other {clause}")
    with pytest.raises(InvalidArgument):
        spark.sql("CREATE DATABASE lake.sys")
    with pytest.raises(InvalidArgument):
        spark.sql("DROP DATABASE lake")
    assert lake.databases() == ["air"]


def test_use_chooses_a_database_and_leaves_sparks_own_alone(spark: Any, lake: ll.Catalog) -> None:
    here = spark.catalog.currentDatabase()
    spark.sql("CREATE TABLE lake.air.t (a INT)")
    spark.sql("USE lake.air")
    assert (rows(spark, "SHOW TABLES"), spark.catalog.currentDatabase()) == ([("air", "t", False)], here)
    spark.sql("INSERT INTO t VALUES (1)")
    assert rows(spark, "SELECT a FROM t") == rows(spark, "SELECT t.a FROM air.t") == [(1,)]
    assert condition(spark, "USE nodb") == "SCHEMA_NOT_FOUND"
    assert rows(spark, "SHOW TABLES") == [("air", "t", False)], "what was current still is"
    spark.sql("USE spark_catalog")
    assert ("air", "t", False) not in rows(spark, "SHOW TABLES")
    spark.sql("SET CATALOG lake")
    assert condition(spark, "SHOW TABLES") == "SCHEMA_NOT_FOUND", "the database 'default' is nobody's"
    spark.sql("USE SCHEMA air")
    assert rows(spark, "SHOW TABLES LIKE 'T'") == [("air", "t", False)]
    spark.sql(f"USE spark_catalog.{here}")
    assert spark.catalog.currentDatabase() == here


# ------------------------------------------------------------------------------------------------------------- tables


def test_a_table_is_made_as_the_statement_says(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(
        f"CREATE TABLE lake.air.t ({ALL_TYPES}) USING paimon PARTITIONED BY (MONTH) COMMENT 'c''mon'"
        " TBLPROPERTIES ('bucket' = '-1')"
    )
    schema = lake["air.t"].schema
    assert (schema.partition_keys, schema.comment, lake["air.t"].options) == (("month",), "c'mon", {"bucket": "-1"})
    inner = schema.by_name["s"].type.fields
    assert [(f.name, f.type.nullable, f.description) for f in inner] == [("a", False, "in"), ("b c", True, None)]
    defaults = {f.name: f.default_value for f in schema.fields if f.default_value is not None}
    assert defaults == {"d": "1.50", "day": "2020-01-02", "f": "true", "j": "-3", "text": "a, 'b' \\ c"}
    assert (schema.by_name["id"].type.nullable, schema.by_name["id"].description) == (False, "it's")
    spark.sql("INSERT INTO lake.air.t (month, id) VALUES (1, 1)")
    assert rows(spark, "SELECT d, day, f, j, text FROM lake.air.t")[0][2:] == (True, -3, "a, 'b' \\ c")


def test_the_text_of_show_create_table_makes_the_same_table(spark: Any, lake: ll.Catalog) -> None:
    options = "TBLPROPERTIES ('primary-key' = 'month,id', 'bucket' = '2', 'file.format' = 'orc')"
    spark.sql(f"CREATE TABLE lake.air.`odd one` ({ALL_TYPES}) PARTITIONED BY (month) COMMENT 'c''mon' {options}")
    before = lake["air.odd one"]
    (text,) = rows(spark, "SHOW CREATE TABLE lake.air.`odd one`")[0]
    spark.sql("DROP TABLE lake.air.`odd one`")
    assert "air.odd one" not in lake
    spark.sql(text)
    after = lake["air.odd one"]
    for part in ("fields", "partition_keys", "primary_keys", "comment"):
        assert getattr(after.schema, part) == getattr(before.schema, part), part
    assert after.options == before.options
    assert rows(spark, "SHOW CREATE TABLE lake.air.`odd one`") == [(text,)]


def test_a_type_that_sql_has_no_text_for_is_refused_by_show_create_table(spark: Any, lake: ll.Catalog) -> None:
    lake.create_table("air.odd", ll.Schema([("id", "INT"), ("t", "TIMESTAMP(9)"), ("ms", "MULTISET<INT>")]))
    with pytest.raises(Unsupported, match="column 't'"):
        spark.sql("SHOW CREATE TABLE lake.air.odd")
    spark.sql("CREATE TABLE lake.air.same LIKE lake.air.odd")
    assert lake["air.same"].schema.fields == lake["air.odd"].schema.fields


def test_mistakes_in_create_table_make_no_table(spark: Any, lake: ll.Catalog) -> None:
    for text, kind in {
        "(a INT, A STRING)": InvalidArgument,
        "(a INT) USING parquet": Unsupported,
        "(a INT) LOCATION '/x'": Unsupported,
        "(a INT) CLUSTERED BY (a) INTO 4 BUCKETS": Unsupported,
        "(a INT) PARTITIONED BY (b)": Unsupported,
        "(a DATE) PARTITIONED BY (days(a))": Unsupported,
        "(a INT, PRIMARY KEY (a))": Unsupported,
        "(a INT GENERATED ALWAYS AS (1))": Unsupported,
        "(a INT DEFAULT rand())": Unsupported,
        "(a DATE DEFAULT current_date())": Unsupported,
        "(a ARRAY<INT> DEFAULT array(1))": Unsupported,
        "(a INTERVAL DAY)": InvalidArgument,
        "(a VARCHAR(2) DEFAULT 'abc')": InvalidArgument,
        "(a TIMESTAMP DEFAULT TIMESTAMP '2020-01-01 00:00:00')": Unsupported,
        "(a BINARY DEFAULT X'00')": Unsupported,
        "(a INT) TBLPROPERTIES ('bukket' = '1')": InvalidArgument,
        "(a INT) OPTIONS (bucket '1') TBLPROPERTIES ('bucket' = '2')": InvalidArgument,
        "(a INT) AS SELECT 1 AS a": InvalidArgument,
        "": InvalidArgument,
    }.items():
        with pytest.raises(kind):
            spark.sql(f"CREATE TABLE lake.air.wrong {text}")
        assert lake.tables("air") == [], text
    assert condition(spark, "CREATE TABLE lake.nodb.t (a INT)") == "SCHEMA_NOT_FOUND"
    with pytest.raises(Unsupported, match=r"\$branch_dev"):
        spark.sql("CREATE TABLE lake.air.`t$branch_dev` (a INT)")
    spark.sql("CREATE TABLE lake.air.t (a INT)")
    assert condition(spark, "CREATE TABLE lake.air.t (b INT)") == "TABLE_OR_VIEW_ALREADY_EXISTS"
    spark.sql("CREATE TABLE IF NOT EXISTS lake.air.t (b INT)")
    assert lake["air.t"].schema.names == ("a",)


def test_a_table_of_a_query_has_its_rows_in_one_commit_or_is_taken_back(spark: Any, lake: ll.Catalog) -> None:
    query = "SELECT id, id % 2 AS p, concat('v', id) AS v FROM range(5)"
    spark.sql(
        f"CREATE TABLE lake.air.t PARTITIONED BY (p) COMMENT 'made' TBLPROPERTIES ('file.format' = 'orc') AS {query}"
    )
    table = lake["air.t"]
    assert (table.count(), table.snapshot().id, table.schema.partition_keys, table.schema.comment) == (
        5,
        1,
        ("p",),
        "made",
    )
    with pytest.raises(TableExists):
        spark.sql(f"CREATE TABLE lake.air.t AS {query}")
    with pytest.raises(Exception, match="never"):
        spark.sql("CREATE TABLE lake.air.failed AS SELECT id FROM range(3) WHERE assert_true(id < 1, 'never') IS NULL")
    assert lake.tables("air") == ["t"]
    spark.sql("CREATE TABLE lake.air.u AS SELECT * FROM lake.air.t WHERE p = 0")
    assert lake["air.u"].count() == 3


def test_create_or_replace_keeps_the_history(spark: Any, lake: ll.Catalog) -> None:
    spark.sql(
        "CREATE OR REPLACE TABLE lake.air.t PARTITIONED BY (p) AS SELECT id, id % 2 AS p, 'x' AS old FROM range(4)"
    )
    spark.sql(
        "CREATE OR REPLACE TABLE lake.air.t PARTITIONED BY (p) AS SELECT max(id) AS id, p, 'y' AS old FROM lake.air.t GROUP BY p"
    )
    table = lake["air.t"]
    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [2, 3]
    assert (table.snapshot().id, table.schema.id) == (2, 0), "one commit, and no other schema"
    assert rows(spark, "SELECT count(*) FROM lake.air.t VERSION AS OF 1") == [(4,)]
    for text, why in {
        "AS SELECT 1L AS id, 1L AS p, 'x' AS old": "partitions",
        "PARTITIONED BY (p) AS SELECT 1L AS id, 1L AS p": "the columns id, p, old",
        "PARTITIONED BY (p) AS SELECT 1 AS id, 1L AS p, 'x' AS old": "the type of 'id'",
        "PARTITIONED BY (p) COMMENT 'x' AS SELECT 1L AS id, 1L AS p, 'x' AS old": "the comment None",
        "PARTITIONED BY (p) TBLPROPERTIES ('file.format' = 'orc') AS SELECT 1L AS id, 1L AS p, 'x' AS old": "the options",
    }.items():
        with pytest.raises(Unsupported, match=why):
            spark.sql(f"CREATE OR REPLACE TABLE lake.air.t {text}")
    assert table.refresh().snapshot().id == 2
    spark.sql("REPLACE TABLE lake.air.t (id BIGINT, p BIGINT, old STRING) PARTITIONED BY (p)")
    assert (table.refresh().count(), table.snapshot().id) == (0, 3)
    with pytest.raises(TableNotFound, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("REPLACE TABLE lake.air.nope AS SELECT 1 AS a")


def test_tables_are_made_like_others_renamed_and_dropped(spark: Any, lake: ll.Catalog) -> None:
    keyed = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    spark.sql(f"CREATE TABLE lake.air.t (id INT NOT NULL COMMENT 'x', v STRING) {keyed}")
    spark.sql("CREATE TABLE lake.air.u LIKE lake.air.t TBLPROPERTIES ('bucket' = '3')")
    assert (lake["air.u"].schema.primary_keys, lake["air.u"].options["bucket"]) == (("id",), "3")
    spark.range(1).createOrReplaceTempView("plain_view")
    spark.sql("CREATE TABLE lake.air.w LIKE plain_view")
    assert lake["air.w"].schema.names == ("id",)
    spark.catalog.dropTempView("plain_view")
    spark.sql("CREATE TABLE IF NOT EXISTS lake.air.u LIKE lake.air.w")
    spark.sql("CREATE DATABASE lake.sea")
    for old, new in (("lake.air.w", "x"), ("lake.air.x", "air.y"), ("lake.air.y", "lake.sea.z")):
        spark.sql(f"ALTER TABLE {old} RENAME TO {new}")
    assert list(lake) == ["air.t", "air.u", "sea.z"]
    assert condition(spark, "ALTER TABLE lake.air.nope RENAME TO other") == "TABLE_OR_VIEW_NOT_FOUND"
    assert condition(spark, "ALTER TABLE lake.air.t RENAME TO nodb.t") == "SCHEMA_NOT_FOUND"
    with pytest.raises(TableExists):
        spark.sql("ALTER TABLE lake.air.t RENAME TO air.u")
    spark.sql("DROP TABLE lake.sea.z PURGE")
    spark.sql("DROP TABLE lake.air.u")
    assert list(lake) == ["air.t"]
    assert condition(spark, "DROP TABLE lake.air.u") == "TABLE_OR_VIEW_NOT_FOUND"
    spark.sql("DROP TABLE IF EXISTS lake.air.u")
    lake["air.t"].create_branch("dev")
    with pytest.raises(Unsupported, match="delete_branch"):
        spark.sql("DROP TABLE lake.air.`t$branch_dev`")
    with pytest.raises(Unsupported, match="branch 'dev'"):
        spark.sql("SHOW CREATE TABLE lake.air.`t$branch_dev`")
    assert ("Name", "lake.air.t$branch_dev", "") in rows(spark, "DESCRIBE EXTENDED lake.air.`t$branch_dev`")
    assert "dev" in lake["air.t"].branches()


# ---------------------------------------------------------------------------------------------------------- describing


def test_tables_are_listed_and_described_in_sparks_columns(spark: Any, lake: ll.Catalog) -> None:
    columns = "month INT, `a b` STRING COMMENT 'x' DEFAULT 'y'"
    spark.sql(f"CREATE TABLE lake.air.flights ({columns}) PARTITIONED BY (month) COMMENT 'all'")
    spark.sql("CREATE TABLE lake.air.fleet (id INT)")
    spark.sql("INSERT INTO lake.air.flights VALUES (1, 'p'), (2, 'q'), (NULL, 'r')")
    listed = spark.sql("SHOW TABLES IN lake.air LIKE 'FL*'")
    assert listed.columns == ["namespace", "tableName", "isTemporary"]
    assert listed.collect() == [("air", "fleet", False), ("air", "flights", False)]
    told = rows(spark, "SHOW TABLE EXTENDED IN lake.air LIKE 'flights'")[0]
    assert told[:3] == ("air", "flights", False) and f"Location: {lake.url_of('air.flights')}" in told[3].splitlines()
    described = spark.sql("DESCRIBE lake.air.flights")
    assert described.columns == ["col_name", "data_type", "comment"]
    plain = [("month", "int", None), ("a b", "string", "x")]
    parted = [("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), ("month", "int", None)]
    assert described.collect() == plain + parted
    more = {row[0]: row[1] for row in rows(spark, "DESCRIBE TABLE EXTENDED lake.air.flights")}
    assert (more["Name"], more["Comment"], more["Provider"]) == ("lake.air.flights", "all", "lakelatch")
    assert rows(spark, "DESC lake.air.flights `A b`") == [
        ("col_name", "a b"),
        ("data_type", "string"),
        ("comment", "x"),
    ]
    assert rows(spark, "SHOW COLUMNS IN lake.air.flights") == [("month",), ("a b",)]
    assert rows(spark, "SHOW COLUMNS IN flights IN lake.air") == [("month",), ("a b",)]
    assert rows(spark, "SHOW PARTITIONS lake.air.flights") == [("month=1",), ("month=2",), ("month=null",)]
    assert rows(spark, "SHOW PARTITIONS lake.air.flights PARTITION (MONTH = 2)") == [("month=2",)]
    assert rows(spark, "SHOW TBLPROPERTIES lake.air.flights ('nope')")[0][1].startswith(
        "Table lake.air.flights does not have"
    )
    assert rows(spark, "DESCRIBE lake.air.`flights$tags`")[0] == ("tag_name", "string", None)
    assert rows(spark, f"DESCRIBE lakelatch.`{lake.url_of('air.fleet')}`") == [("id", "int", None)]
    for text, expected in {
        "DESCRIBE lake.air.nope": "TABLE_OR_VIEW_NOT_FOUND",
        "SHOW PARTITIONS lake.air.fleet": "INVALID_PARTITION_OPERATION.PARTITION_SCHEMA_IS_EMPTY",
        "SHOW TABLES IN lake.nodb": "SCHEMA_NOT_FOUND",
        "DESCRIBE lake.air.fleet nope": "COLUMN_NOT_FOUND",
    }.items():
        assert condition(spark, text) == expected, text
    with pytest.raises(Unsupported, match="PARTITION"):
        spark.sql("DESCRIBE lake.air.flights PARTITION (month = 1)")


# ------------------------------------------------------------------------------------------------------------ care


def test_a_table_is_looked_after_by_the_statements_of_delta(spark: Any, lake: ll.Catalog, tmp_path: Path) -> None:
    table = lake.create_table("air.t", pa.schema([("month", pa.int32()), ("id", pa.int64())]), partition_by=["month"])
    for n in range(3):
        table.append(pa.table({"month": [1, 2], "id": [n, n]}, schema=table.arrow_schema))
    path, metrics = rows(spark, "OPTIMIZE lake.air.t FULL WHERE month = 1")[0]
    assert (path, metrics["numFilesRemoved"], metrics["numFilesAdded"], metrics["snapshots"]) == (table.url, 3, 1, [4])
    assert rows(spark, "OPTIMIZE lake.air.t ZORDER BY (id)")[0][1]["numFilesAdded"] == 2
    with pytest.raises(InvalidArgument, match="chooses rows"):
        spark.sql("OPTIMIZE lake.air.t WHERE id = 1")
    orphan = tmp_path / "lake" / "air.db" / "t" / "month=1" / "bucket-0" / "data-orphan-0.parquet"
    orphan.write_bytes(b"1")
    assert rows(spark, "VACUUM lake.air.t RETAIN 168 HOURS DRY RUN") == []
    import os

    os.utime(orphan, (1_500_000_000, 1_500_000_000))
    expected = [(f"{table.url}/month=1/bucket-0/{orphan.name}",)]
    assert (rows(spark, "VACUUM lake.air.t RETAIN 168 HOURS DRY RUN"), orphan.exists()) == (expected, True)
    assert (rows(spark, "VACUUM lake.air.t"), orphan.exists()) == (expected, False)
    with pytest.raises(InvalidArgument, match="younger than an hour"):
        spark.sql("VACUUM lake.air.t RETAIN 0 HOURS")
    assert [row[0] for row in rows(spark, "DESCRIBE HISTORY lake.air.t LIMIT 2")] == [5, 4]
    assert rows(spark, "DESCRIBE DETAIL lake.air.t")[0][3] == 5
    assert rows(spark, "RESTORE TABLE lake.air.t TO VERSION AS OF 2")[0][-1] == 6
    assert table.refresh().count() == 4
    table.create_tag("one", snapshot=1)
    assert rows(spark, "RESTORE lake.air.t TO VERSION AS OF 'one'")[0][-1] == 7
    assert rows(spark, "RESTORE lake.air.t TO TIMESTAMP AS OF current_timestamp()")[0][-1] == 7, (
        "the newest: nothing is done"
    )
    assert (table.refresh().count(), table.snapshot().id) == (2, 7)
    with pytest.raises(InvalidArgument, match="nope"):
        spark.sql("RESTORE lake.air.t TO VERSION AS OF 'nope'")
