"""SQL on tables of Spark's catalog: rows reach the table that a statement names, or none. Runs again under Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def catalog(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """The tables `a` and `b` of the catalog, with the same columns and a row each, and the folder that they are in."""
    lake.register(spark)
    home = str(tmp_path_factory.mktemp("lake"))
    for name in "ab":
        spark.sql(f"CREATE TABLE {name} (k INT, p INT) USING lakelatch PARTITIONED BY (p) LOCATION '{home}/{name}'")
        ll.open_table(f"{home}/{name}").append(
            pa.table({"k": pa.array([1], pa.int32()), "p": pa.array([1], pa.int32())})
        )
    yield spark, home
    for name in "ab":
        spark.sql(f"DROP TABLE {name}")


def counts(home: str) -> tuple[int, int]:
    return ll.open_table(f"{home}/a").count(), ll.open_table(f"{home}/b").count()


def test_a_statement_creates_the_table_from_its_columns(spark: Any, tmp_path: Path) -> None:
    lake.register(spark)
    url = str(tmp_path / "it's new")
    quoted = url.replace("'", "\\'")
    columns = "id BIGINT NOT NULL COMMENT 'the key', `day` DATE, st STRUCT<a: INT, b: ARRAY<STRING>>, c CHAR(3)"
    statement = (
        f"CREATE TABLE IF NOT EXISTS made ({columns}) USING `LakeLatch` -- a comment\n"
        f"PARTITIONED BY (day) LOCATION '{quoted}' COMMENT 'people' TBLPROPERTIES ('target-file-size' = '1 mb')"
    )
    for _ in range(2):
        spark.sql(statement)
    schema = ll.open_table(url).schema
    assert [(f.name, str(f.type.nullable), f.description) for f in schema.fields[:2]] == [
        ("id", "False", "the key"),
        ("day", "True", None),
    ]
    assert (schema.partition_keys, schema.comment) == (("day",), "people")
    assert ll.open_table(url).options["target-file-size"] == "1 mb"
    spark.sql("INSERT INTO made VALUES (1, DATE'2026-01-01', struct(1, array('x')), 'abc')")
    assert [tuple(row) for row in spark.sql("SELECT id, st.b[0], c FROM made").collect()] == [(1, "x", "abc")]
    spark.sql("DROP TABLE made")
    with pytest.raises(ll.InvalidArgument, match="other columns"):
        spark.sql(f"CREATE TABLE made (id INT) USING lakelatch LOCATION '{quoted}'")
    spark.sql(f"CREATE TABLE made USING lakelatch LOCATION '{quoted}'")
    assert spark.table("made").count() == 1
    spark.sql("DROP TABLE made")
    assert ll.open_table(url).count() == 1


def test_rows_reach_the_table_that_insert_names(catalog: tuple[Any, str]) -> None:
    """The columns of a query carry the mark of the table that they come from; a write must not believe it."""
    spark, home = catalog
    spark.sql("INSERT INTO a SELECT * FROM b")
    assert counts(home) == (2, 1)
    spark.sql("INSERT OVERWRITE TABLE b SELECT * FROM a")
    assert counts(home) == (2, 2)
    spark.table("b").write.insertInto("a")
    assert counts(home) == (4, 2)
    spark.table("b").writeTo("a").append()
    assert counts(home) == (6, 2)
    with pytest.raises(Exception, match="the source needs the table's URL"):
        spark.table("b").write.format("lakelatch").mode("append").save()
    assert counts(home) == (6, 2)


def test_insert_overwrite_follows_the_session(catalog: tuple[Any, str]) -> None:
    spark, home = catalog
    spark.sql("INSERT OVERWRITE a VALUES (1, 1), (2, 2)")
    assert counts(home)[0] == 2
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE a VALUES (3, 2)")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert sorted(ll.open_table(f"{home}/a").to_arrow()["k"].to_pylist()) == [1, 3]
    spark.sql("INSERT INTO a PARTITION (p = 9) VALUES (4)")
    assert ll.open_table(f"{home}/a").count(where="p = 9") == 1
    with pytest.raises(ll.InvalidArgument, match=r"1 columns.*needs 2: k, p"):
        spark.sql("INSERT INTO a VALUES (4)")


@pytest.mark.parametrize(
    ("statement", "way"),
    [
        ("ALTER TABLE a SET LOCATION '/elsewhere'", "RENAME TO"),
        ("CREATE TABLE c LIKE a", "LOCATION"),
        ("CREATE TABLE c LIKE a USING parquet", "AS SELECT"),
        ("CREATE TABLE a USING lakelatch LOCATION '/x' AS SELECT 1 AS k", "CREATE OR REPLACE"),
        ("CREATE TABLE c (k INT) USING lakelatch LOCATION '/x' AS SELECT 1 AS k", "leave the columns out"),
        ("REPLACE TABLE c USING lakelatch LOCATION '/x' AS SELECT 1 AS k", "CREATE TABLE"),
        ("CREATE OR REPLACE TABLE a (k INT) USING lakelatch LOCATION '/x'", "DROP TABLE"),
        ("CREATE TABLE c (k INT) USING lakelatch", "LOCATION"),
        ("CREATE TABLE c USING lakelatch OPTIONS (path '/x', brnch 'y')", "branch"),
        ("FROM a INSERT INTO a SELECT * INSERT INTO b SELECT *", "once for each table"),
        ("BEGIN INSERT INTO a SELECT * FROM a; END", "one by one"),
    ],
)
def test_what_a_python_source_cannot_do_is_refused_with_the_way_that_works(
    catalog: tuple[Any, str], statement: str, way: str
) -> None:
    spark, home = catalog
    before = counts(home)
    with pytest.raises(ll.LakelatchError, match=r"\(.*" + way):
        spark.sql(statement)
    assert counts(home) == before
    assert not spark.catalog.tableExists("c")


def test_a_partition_column_without_a_value_is_the_last_one(spark: Any, tmp_path: Path) -> None:
    """For Spark it is the last column of the query in any case, so that values could end up in others."""
    lake.register(spark)
    spark.sql(f"CREATE TABLE first (d INT, id INT) USING lakelatch PARTITIONED BY (d) LOCATION '{tmp_path / 'first'}'")
    spark.sql(f"CREATE TABLE last (id INT, d INT) USING lakelatch PARTITIONED BY (d) LOCATION '{tmp_path / 'last'}'")
    try:
        with pytest.raises(ll.Unsupported, match=r"\(leave PARTITION out"):
            spark.sql("INSERT INTO first PARTITION (d) VALUES (1, 2)")
        spark.sql("INSERT INTO last PARTITION (d) VALUES (1, 2)")
        assert spark.table("first").count() == 0 and spark.table("last").collect() == [(1, 2)]
    finally:
        spark.sql("DROP TABLE first")
        spark.sql("DROP TABLE last")


def test_an_overwrite_of_a_part_in_a_dynamic_session_replaces_partitions_that_get_rows(
    spark: Any, tmp_path: Path
) -> None:
    """As Spark does: of a whole partition it replaces that one, whether it gets rows or not."""
    lake.register(spark)
    url = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE part (id INT, d STRING, h INT) USING lakelatch PARTITIONED BY (d, h) LOCATION '{url}'")
    spark.sql("INSERT INTO part VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1)")

    def left() -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in ll.open_table(url).to_arrow().to_pylist())

    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.sql("INSERT OVERWRITE part PARTITION (d = 'a') SELECT 9, 2")
        assert left() == [(1, "a", 1), (3, "b", 1), (9, "a", 2)]
        spark.sql("INSERT OVERWRITE part PARTITION (d = 'a') SELECT 9, 2 WHERE false")
        assert left() == [(1, "a", 1), (3, "b", 1), (9, "a", 2)]
        spark.sql("INSERT OVERWRITE part PARTITION (d = 'a', h = 1) SELECT 8 WHERE false")
        assert left() == [(3, "b", 1), (9, "a", 2)]
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    spark.sql("INSERT OVERWRITE part PARTITION (d = 'a') SELECT 7, 3")
    assert left() == [(3, "b", 1), (7, "a", 3)]
    for session in ("static", "dynamic"):
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", session)
        try:
            for number in (5, 6):
                spark.sql(f"INSERT OVERWRITE part PARTITION (d = NULL) SELECT {number}, 1")
        finally:
            spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        assert left() == [(3, "b", 1), (6, None, 1), (7, "a", 3)]
    spark.sql("INSERT INTO part PARTITION (h = NULL) SELECT 4, 'b'")
    assert (4, "b", None) in [tuple(row.values()) for row in ll.open_table(url).to_arrow().to_pylist()]
    spark.sql("DROP TABLE part")


def test_save_as_table_passes_on_what_the_writer_was_told(spark: Any, tmp_path: Path) -> None:
    """The kind of each row was forgotten, so that a row that deletes was stored."""
    lake.register(spark)
    url = str(tmp_path / "t")
    keyed = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.string())])
    table = ll.create_table(url, keyed, primary_key=["k"], options={"bucket": "1"})
    table.upsert(pa.table({"k": [1, 2], "v": ["a", "b"]}, keyed))
    spark.sql(f"CREATE TABLE keyed USING lakelatch OPTIONS (path '{url}')")
    gone = spark.createDataFrame([(1, None, "-D")], "k int, v string, op string").write.format("lakelatch")
    about = {"row-kind": "op", "commit-user": "etl", "identifier": "3", "property.why": "test"}
    gone.mode("append").options(**about).saveAsTable("keyed")
    assert table.to_arrow()["k"].to_pylist() == [2]
    made = table.snapshots()[-1]
    assert (made.commit_user, made.commit_identifier, made.properties["why"]) == ("etl", 3, "test")
    with pytest.raises(ll.InvalidArgument, match="mode overwrite only"):
        spark.range(1).write.format("lakelatch").mode("append").option("read-snapshot", 1).saveAsTable("keyed")
    spark.sql("DROP TABLE keyed")


def test_other_statements_are_sparks(catalog: tuple[Any, str]) -> None:
    """Tables of other formats, temporary views and statements with mistakes pass as they are."""
    spark, _ = catalog
    spark.sql("CREATE TABLE other USING parquet AS SELECT * FROM a")
    spark.sql("INSERT INTO other VALUES (:k, 1)", args={"k": 7})
    assert spark.sql("SELECT * FROM other WHERE k = {k}", k=7).count() == 1
    spark.sql("DROP TABLE other")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        spark.sql("INSERT INTO a SELEC 1")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("INSERT INTO nowhere VALUES (1)")


def test_save_as_table_names_a_table_that_can_be_read(spark: Any, tmp_path: Path) -> None:
    """With a path it creates the table and its name; without one it follows the name; other formats stay Spark's."""
    lake.register(spark)
    url = str(tmp_path / "t")
    df = spark.sql("SELECT 1 AS k, 1 AS p UNION ALL SELECT 2, 2")
    with pytest.raises(ll.InvalidArgument, match="option\\('path', url\\)"):
        df.write.format("lakelatch").saveAsTable("saved")
    df.write.format("lakelatch").partitionBy("p").option("path", url).saveAsTable("saved")
    assert ll.open_table(url).schema.partition_keys == ("p",)
    assert spark.table("saved").count() == 2
    for mode, rows in (("append", 4), ("ignore", 4), ("overwrite", 2)):
        df.write.saveAsTable("saved", format="lakelatch", mode=mode)
        assert spark.sql("SELECT * FROM saved").count() == rows
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        df.write.format("lakelatch").saveAsTable("saved")
    spark.sql("DROP TABLE saved")
    with pytest.raises(ll.InvalidArgument, match="there is a table at"):
        df.write.format("lakelatch").option("path", url).saveAsTable("saved")
    assert ll.open_table(url).count() == 2
    df.write.format("parquet").saveAsTable("saved")
    assert spark.table("saved").count() == 2
    spark.sql("DROP TABLE saved")


def test_statements_change_rows_of_a_name_of_sparks_catalog(spark: Any, tmp_path: Path) -> None:
    """The name has options, which each statement follows: it is a branch here."""
    lake.register(spark)
    url = str(tmp_path / "t")
    table = ll.create_table(url, pa.schema([("k", pa.int32()), ("v", pa.string())]))
    table.append(pa.table({"k": pa.array([1, 2], pa.int32()), "v": ["a", "b"]}))
    table.create_tag("now")
    table.create_branch("dev", tag="now")
    spark.sql(f"CREATE TABLE named USING lakelatch OPTIONS (path '{url}', branch 'dev')")
    dev = table.branch("dev")

    def left() -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in dev.refresh().to_arrow().to_pylist())

    assert spark.sql("UPDATE named SET v = 'x' WHERE default.named.k = 1").first()[0] == 1
    spark.sql("MERGE INTO default.named n USING (SELECT 3 k, 'c' v) s ON n.k = s.k WHEN NOT MATCHED THEN INSERT *")
    assert left() == [(1, "x"), (2, "b"), (3, "c")]
    before = dev.snapshot().id
    spark.sql("DELETE FROM named WHERE k IN (SELECT k FROM named WHERE v = 'b')")
    assert left() == [(1, "x"), (3, "c")]
    assert spark.sql(f"SELECT * FROM named VERSION AS OF {before}").count() == 3
    assert (
        spark.sql(f"SELECT * FROM (SELECT count(*) AS n FROM named@v{before}), named VERSION AS OF {before}").count()
        == 3
    )
    spark.sql(f"INSERT INTO lakelatch.`{url}` VALUES (9, 'main')")
    assert spark.sql(f"SELECT v FROM lakelatch.`file://{url}` WHERE k = 9").collect() == [("main",)]
    spark.sql("TRUNCATE TABLE named")
    assert left() == [] and table.refresh().count() == 3
    spark.sql("DROP TABLE named")


def test_a_table_is_created_with_the_rows_of_a_query(spark: Any, tmp_path: Path) -> None:
    lake.register(spark)
    url = str(tmp_path / "t")
    query = "SELECT id AS k, 'a' AS v FROM range(3)"
    spark.sql(f"CREATE TABLE made USING lakelatch PARTITIONED BY (V) LOCATION '{url}' AS {query}")
    table = ll.open_table(url)
    assert (table.count(), table.schema.partition_keys, table.snapshot().id) == (3, ("v",), 1)
    spark.sql(f"CREATE TABLE IF NOT EXISTS made USING lakelatch LOCATION '{url}' AS SELECT 1 AS z")
    spark.sql(
        f"CREATE OR REPLACE TABLE made USING lakelatch PARTITIONED BY (v) LOCATION '{url}' AS SELECT * FROM made WHERE k = 1"
    )
    assert (table.refresh().count(), table.snapshot().id) == (1, 2)
    with pytest.raises(ll.Unsupported, match="ALTER TABLE"):
        spark.sql(
            f"CREATE OR REPLACE TABLE made USING lakelatch PARTITIONED BY (v) LOCATION '{url}' AS SELECT 1L k, 'b' v, 3 z"
        )
    with pytest.raises(ll.Unsupported, match="the name means"):
        spark.sql(f"CREATE OR REPLACE TABLE made USING lakelatch LOCATION '{url}2' AS SELECT 1 AS k")
    assert (table.refresh().count(), table.snapshot().id, table.schema.names) == (1, 2, ("k", "v"))
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        spark.sql(f"CREATE TABLE fails USING lakelatch LOCATION '{url}3' AS SELECT CAST(v AS INT) AS k FROM made")
    assert not Path(f"{url}3").exists() and not spark.catalog.tableExists("fails")
    spark.sql(f"CREATE TABLE alike LIKE made LOCATION '{url}4'")
    assert ll.open_table(f"{url}4").schema.partition_keys == ("v",) and spark.table("alike").count() == 0
    for name in ("made", "alike"):
        spark.sql(f"DROP TABLE {name}")


def test_a_name_that_means_another_table_by_now(spark: Any, tmp_path: Path) -> None:
    """What one statement has found of a name does not hold for the next one."""
    lake.register(spark)
    for name in ("one", "two"):
        ll.create_table(str(tmp_path / name), pa.schema([("k", pa.int64())]))
    spark.sql(f"CREATE TABLE moving USING lakelatch LOCATION '{tmp_path}/one'")
    spark.sql("INSERT INTO moving VALUES (1)")
    spark.sql("ALTER TABLE moving RENAME TO moved")
    spark.sql(f"CREATE TABLE moving USING lakelatch LOCATION '{tmp_path}/two'")
    spark.sql("INSERT INTO moving VALUES (2)")
    spark.sql("DELETE FROM moved WHERE k = 2")
    assert [ll.open_table(str(tmp_path / name)).count() for name in ("one", "two")] == [1, 1]
    for name in ("moving", "moved"):
        spark.sql(f"DROP TABLE {name}")


def reads_by_own_scan(frame: Any) -> bool:
    return "FileScan parquet" in frame._jdf.queryExecution().toString()


@pytest.mark.classic
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT max(k) FROM scanned WHERE k < 3", 2),
        ("SELECT spark_catalog.default.scanned.k FROM scanned WHERE default.scanned.p = 1 AND `scanned`.k = 3", 3),
        ("SELECT default.scanned.* FROM default.scanned JOIN ids ON default.scanned.k = ids.id", 2),
        ("SELECT count(*) FROM ids WHERE id IN (SELECT k FROM scanned)", 1),
        ("WITH few AS (SELECT * FROM scanned WHERE k > 1) SELECT count(*) FROM few AS a, few AS b", 4),
        ("FROM scanned SELECT count(*)", 3),
        ("SELECT count(*) FROM IDENTIFIER('scanned') TABLESAMPLE (1 ROWS)", 1),
        ("SELECT min(scanned.k), max(x.scanned.k) FROM scanned, (SELECT struct(7 AS k) AS scanned) AS x", 1),
    ],
)
def test_a_query_of_a_name_of_sparks_catalog_takes_our_scan(scanned: Any, query: str, expected: int) -> None:
    frame = scanned.sql(query)
    assert reads_by_own_scan(frame) and frame.first()[0] == expected


@pytest.fixture(scope="module")
def scanned(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The table `scanned` of three rows in Spark's catalog, `of_a_zone` with an option of the data source, and the view `ids`."""
    lake.register(spark)
    url = str(tmp_path_factory.mktemp("scanned") / "t")
    spark.sql(f"CREATE TABLE scanned (k INT, p INT) USING lakelatch LOCATION '{url}'")
    spark.sql("INSERT INTO scanned VALUES (1, 1), (2, 1), (3, 1)")
    spark.sql(f"CREATE TABLE of_a_zone USING lakelatch OPTIONS (timeZone 'UTC') LOCATION '{url}'")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW ids AS SELECT 2 AS id UNION ALL SELECT 9")
    yield spark
    for name in ("scanned", "of_a_zone"):
        spark.sql(f"DROP TABLE {name}")
    spark.catalog.dropTempView("ids")


@pytest.mark.classic
def test_methods_and_parameters_take_our_scan_too(scanned: Any) -> None:
    frames = (
        scanned.table("scanned").where("k < 3"),
        scanned.read.table("default.scanned").where("scanned.k < 3"),
        scanned.read.option("where", "k < 3").table("scanned"),
        scanned.sql("SELECT * FROM scanned WHERE k < :most", {"most": 3}),
        scanned.sql("SELECT '{{k}}', k FROM scanned WHERE k < {most}", most=3),
    )
    for frame in frames:
        assert reads_by_own_scan(frame) and frame.count() == 2, frame
    scanned.sql("INSERT OVERWRITE scanned SELECT * FROM scanned WHERE k < 9")
    assert scanned.table("scanned").count() == 3


@pytest.mark.classic
def test_what_only_the_data_source_or_the_cache_can_do_is_left_to_it(scanned: Any) -> None:
    for frame in (scanned.sql("SELECT k FROM of_a_zone"), scanned.table("of_a_zone")):
        assert not reads_by_own_scan(frame) and frame.count() == 3
    scanned.catalog.cacheTable("scanned")
    try:
        assert "InMemoryRelation" in scanned.sql("SELECT * FROM scanned")._jdf.queryExecution().toString()
    finally:
        scanned.catalog.uncacheTable("scanned")


@pytest.mark.classic
def test_a_statement_that_spark_carries_out_is_carried_out_once(scanned: Any) -> None:
    """It reads a table of ours, and writes one of another format: the look at its plan must not run it again."""
    scanned.sql("CREATE TABLE plain USING parquet AS SELECT * FROM scanned")
    try:
        scanned.sql("INSERT INTO plain SELECT * FROM scanned")
        scanned.sql("WITH few AS (SELECT * FROM scanned WHERE k = 1) INSERT INTO plain SELECT * FROM few")
        assert scanned.table("plain").count() == 7
    finally:
        scanned.sql("DROP TABLE plain")


@pytest.mark.classic
def test_a_streaming_query_is_left_as_it_is(scanned: Any) -> None:
    scanned.readStream.format("rate").load().createOrReplaceTempView("ticks")
    try:
        for query in ("SELECT * FROM ticks", "SELECT k FROM ticks JOIN scanned ON k = value"):
            assert scanned.sql(query).isStreaming
    finally:
        scanned.catalog.dropTempView("ticks")


@pytest.mark.classic
def test_our_scan_shows_the_columns_that_the_table_has_now(scanned: Any, tmp_path: Path) -> None:
    """Spark's catalog keeps those of the day on which it was told."""
    url = str(tmp_path / "t")
    scanned.sql(f"CREATE TABLE changed (k INT, p INT) USING lakelatch LOCATION '{url}'")
    scanned.sql("INSERT INTO changed VALUES (1, 2)")
    ll.open_table(url).alter(ll.drop_column("p"), ll.add_column("q", "INT"))
    try:
        assert scanned.sql("SELECT * FROM changed").first().asDict() == {"k": 1, "q": None}
    finally:
        scanned.sql("DROP TABLE changed")
