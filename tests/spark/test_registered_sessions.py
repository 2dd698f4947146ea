"""A session that knows a catalog: what is registered and given back, names, parameters, identities, and other sessions.

Runs again under Spark Connect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import OutcomeUnknown
from lakelatch.spark.sessions.identity import identity_of

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
    for key in ("lakelatch.commit-user", "lakelatch.identifier", "spark.sql.caseSensitive"):
        spark.conf.unset(key)
    lake.unregister(spark)


def rows(catalog: ll.Catalog, name: str = "db.t") -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in catalog[name].to_arrow().to_pylist()), key=repr)


# ------------------------------------------------------------------------------------------------ what is given back


def test_a_session_gets_everything_back(spark: Any, home: ll.Catalog) -> None:
    sparks = type(spark)
    lake.register(spark)  # once more does no harm
    assert spark.sql("SELECT count(*) FROM lake.db.t").first()[0] == 3
    lake.use(spark, home.url, "db")
    assert spark.sql("SELECT count(*) FROM t").first()[0] == spark.table("t").count() == 3
    lake.unregister(spark)
    assert "sql" not in spark.__dict__ and "table" not in spark.__dict__
    assert not any(view.name == "t" for view in spark.catalog.listTables())
    for kind, method in (
        (sparks, "table"),
        (type(spark.range(0).write), "saveAsTable"),
        (type(spark.range(0).write), "insertInto"),
        (type(spark.range(0)), "writeTo"),
        (type(spark.read), "table"),
    ):
        assert getattr(kind, method).__module__.startswith("pyspark."), method
        assert not hasattr(getattr(kind, method), "__wrapped__"), method
    with pytest.raises(Exception, match="lake"):
        spark.sql("SELECT * FROM lake.db.t").collect()
    lake.unregister(spark)


def test_a_session_that_stays_as_it_is(spark: Any, home: ll.Catalog) -> None:
    lake.unregister(spark)
    told = {"catalogs": {"lake": home.url}}
    assert lake.sql(spark, "SELECT v FROM lake.db.t WHERE id = :id", {"id": 1}, **told).collect() == [("a",)]
    assert lake.sql(spark, "DELETE FROM lake.db.t WHERE id = ?", [2]).first()[0] == 1
    lake.sql(spark, "USE lake.db")
    assert lake.sql(spark, "SELECT count(*) FROM t").first()[0] == 2
    assert lake.sql(spark, "SELECT {x} + 1 AS y", x=4).first()[0] == 5
    assert "sql" not in spark.__dict__
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM t").collect()
    lake.sql(spark, "USE spark_catalog")


@pytest.mark.classic
def test_another_session_knows_nothing(spark: Any, home: ll.Catalog) -> None:
    other = spark.newSession()
    for statement in ("SELECT * FROM lake.db.t", "DELETE FROM lake.db.t", "INSERT INTO lake.db.t VALUES (9, 'x')"):
        with pytest.raises(Exception, match=r"lake|NOT_FOUND"):
            other.sql(statement).collect()
    with pytest.raises(Exception, match=r"lake|NOT_FOUND"):
        other.table("lake.db.t").collect()
    assert len(rows(home)) == 3


@pytest.mark.parametrize("name", ["spark_catalog", "lakelatch", "a.b", "default", ""])
def test_a_name_that_is_taken_is_refused(spark: Any, home: ll.Catalog, name: str) -> None:
    with pytest.raises(ll.InvalidArgument):
        lake.register(spark, catalog=name, warehouse=home.url)
    with pytest.raises(ll.InvalidArgument, match="is the catalog at"):
        lake.register(spark, catalog="LAKE", warehouse=home.url + "2")
    with pytest.raises(ll.InvalidArgument, match="both"):
        lake.register(spark, catalog="x")


# --------------------------------------------------------------------------------------------------------------- names


def test_use_chooses_what_names_of_one_part_mean(spark: Any, home: ll.Catalog) -> None:
    before = spark.catalog.currentDatabase()
    spark.range(7).createOrReplaceTempView("view_of_mine")
    spark.sql("USE lake.db")
    assert spark.sql("SELECT count(*) FROM t").first()[0] == 3
    assert spark.sql("WITH t AS (SELECT 1) SELECT count(*) FROM t").first()[0] == 1
    assert spark.sql("SELECT count(*) FROM view_of_mine, db.t").first()[0] == 21
    assert spark.sql("UPDATE t SET v = 'z' WHERE t.id = 3").first()[0] == 1
    with pytest.raises(ll.TableNotFound, match=r"lake\.db\.nothing"):
        spark.sql("SELECT * FROM nothing")
    spark.sql("CREATE TABLE view_of_mine (id BIGINT)")  # beside the view, and in this catalog
    with pytest.raises(Exception, match=r"INSERT|insert|view|UNSUPPORTED"):
        spark.sql("INSERT INTO view_of_mine VALUES (1)")
    assert home["db.view_of_mine"].count() == 0 and not spark.catalog.tableExists("default.view_of_mine")
    assert spark.catalog.currentDatabase() == before
    spark.sql("USE spark_catalog.default")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM t").collect()
    spark.catalog.dropTempView("view_of_mine")


def test_a_table_that_is_not_there_is_sparks_error_too(spark: Any, home: ll.Catalog) -> None:
    from pyspark.errors import AnalysisException

    for statement in (
        "SELECT * FROM lake.db.nothing",
        "DELETE FROM lake.db.nothing",
        "INSERT INTO lake.db.nothing VALUES (1)",
    ):
        with pytest.raises(AnalysisException) as told:
            spark.sql(statement)
        assert told.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"


def test_branches_and_system_tables_have_names(spark: Any, home: ll.Catalog) -> None:
    table = home["db.t"]
    table.create_tag("now")
    table.create_branch("dev", tag="now")
    spark.sql("INSERT INTO lake.db.`t$branch_dev` VALUES (4, 'd')")
    spark.sql("DELETE FROM lake.db.`t$branch_dev` WHERE `t$branch_dev`.id = 1")
    assert [r[0] for r in rows(home, "db.t$branch_dev")] == [2, 3, 4] and len(rows(home)) == 3
    joined = "SELECT count(*) FROM lake.db.t JOIN lake.db.`t$branch_dev` b ON t.id = b.id"
    assert spark.sql(joined).first()[0] == 2
    assert spark.sql("SELECT count(*) FROM lake.db.`t$branch_dev$snapshots`").first()[0] >= 2
    assert ("now",) in spark.sql("SELECT tag_name FROM lake.db.`t$tags`").collect()


def test_lake_tables_have_the_names_of_statements(spark: Any, home: ll.Catalog) -> None:
    assert lake.LakeTable.forName(spark, "lake.db.t").delete("id = 1").rows_deleted == 1
    spark.sql("USE lake.db")
    assert lake.LakeTable.forName(spark, "`t`").toDF().count() == 2
    spark.sql("USE spark_catalog")
    with pytest.raises(ll.TableNotFound):
        lake.LakeTable.forName(spark, "lake.db.nothing")


def test_tables_of_one_name_stand_side_by_side(spark: Any, home: ll.Catalog) -> None:
    home.create_database("other")
    home.create_table("other.t", ROWS.schema).append(ROWS.slice(0, 2))
    query = "SELECT lake.db.t.id FROM lake.db.t JOIN lake.other.t ON lake.db.t.id = other.t.id WHERE db.t.v IS NOT NULL"
    assert sorted(spark.sql(query).collect()) == [(1,), (2,)]
    spark.sql("MERGE INTO lake.db.t USING lake.other.t ON db.t.id = other.t.id WHEN MATCHED THEN DELETE")
    assert rows(home) == [(3, None)] and len(rows(home, "other.t")) == 2


def test_columns_are_named_like_tables_and_words_of_sql(spark: Any, home: ll.Catalog) -> None:
    schema = pa.schema(
        [("t", pa.struct([("id", pa.int64())])), ("order", pa.int64()), ("s", pa.string()), ("date", pa.date32())]
    )
    home.create_table("db.select", schema)
    spark.sql(
        "INSERT INTO lake.db.`select` VALUES (named_struct('id', 1L), 2, 's', DATE '2026-01-01'), (NULL, 3, 't', NULL)"
    )
    assert spark.sql("SELECT t.id, select.order FROM lake.db.select WHERE lake.db.select.order = 2").collect() == [
        (1, 2)
    ]
    assert (
        spark.sql("DELETE FROM lake.db.`select` WHERE t.id = 1 AND `order` = 2 AND date = DATE '2026-01-01'").first()[0]
        == 1
    )
    assert (
        spark.sql("UPDATE lake.db.`select` AS t SET t.s = concat(s, 'x') WHERE t.order = 3 AND t.t IS NULL").first()[0]
        == 1
    )
    merge = "MERGE INTO lake.db.`select` s USING (SELECT 3L AS t, 'y' AS s) t ON s.order = t.t"
    assert spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET s = t.s").first()[0] == 1
    assert rows(home, "db.select") == [(None, 3, "y", None)]


def test_case_is_told_apart_where_the_session_does(spark: Any, home: ll.Catalog) -> None:
    assert spark.sql("DELETE FROM lake.db.t WHERE ID = 1").first()[0] == 1
    spark.conf.set("spark.sql.caseSensitive", "true")
    with pytest.raises(ll.InvalidArgument, match="no column ID"):
        spark.sql("DELETE FROM lake.db.t WHERE ID = 2")
    with pytest.raises(ll.LakelatchError, match="ID"):
        spark.sql("INSERT INTO lake.db.t BY NAME SELECT 4 AS ID, 'x' AS v")
    assert len(rows(home)) == 2


# ---------------------------------------------------------------------------------------------------------- parameters


def test_parameters_reach_queries_conditions_and_values(spark: Any, home: ll.Catalog) -> None:
    given = {"id": 2, "text": "it's", "name": "lake.db.t"}
    spark.sql("UPDATE lake.db.t SET v = :text WHERE id = :id", args=given)
    assert rows(home)[1] == (2, "it's")
    spark.sql("UPDATE lake.db.t SET v = ? WHERE id IN (SELECT id FROM lake.db.t WHERE id < ?) OR id = ?", ["q", 2, 3])
    assert rows(home) == [(1, "q"), (2, "it's"), (3, "q")]
    spark.sql("INSERT INTO IDENTIFIER(:name) SELECT :id + 2, :text", args=given)
    assert spark.sql("SELECT id FROM IDENTIFIER(:name) WHERE v = :text", args=given).count() == 2
    frame = spark.createDataFrame([(4, "new")], "id bigint, v string")
    merge = "MERGE INTO lake.db.t USING {source} s ON t.id = s.id AND t.id = {four} WHEN MATCHED THEN UPDATE SET *"
    assert spark.sql(merge, source=frame, four=4).first()[0] == 1
    spark.sql("INSERT INTO lake.db.t (v, id) SELECT '{x}', ?", [5])
    spark.sql(
        "MERGE INTO lake.db.t USING (SELECT ? AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = ?", [1, "one"]
    )
    assert rows(home) == [(1, "one"), (2, "it's"), (3, "q"), (4, "new"), (5, "{x}")]
    assert (
        spark.sql("SELECT count(*) FROM {f} JOIN lake.db.t USING (id) WHERE '{{' = {s}", f=frame, s="{").first()[0] == 1
    )
    assert spark.sql("SELECT count(*) FROM lake.db.t TIMESTAMP AS OF :at", {"at": "2999-01-01"}).first()[0] == 5


def test_whole_names_mean_their_own_table_inside_of_other_queries(spark: Any, home: ll.Catalog) -> None:
    """Each table is renamed inside of a statement; a table, a query or an alias of the same last name must not catch it."""
    home.create_database("other")
    home.create_table("other.t", ROWS.schema).append(ROWS.slice(2, 1))
    spark.range(2, 3).createOrReplaceTempView("three")
    ours = "SELECT id FROM lake.db.t WHERE EXISTS (SELECT 1 FROM {} WHERE {} = lake.db.t.id)"
    for text, wanted in {
        ours.format("lake.other.t", "lake.other.t.id"): [3],
        ours.format("lake.other.t", "other.t.id"): [3],
        ours.format("(SELECT 2 AS id) AS t", "t.id"): None,
        ours.format("(SELECT 2 AS id) AS T", "id"): [2],
        f"WITH t AS (SELECT 2 AS id) {ours.format('t', 'id')}": [2],
        "SELECT id, (SELECT max(lake.other.t.id) FROM lake.other.t WHERE lake.other.t.id <= lake.db.t.id) AS t FROM lake.db.t"
        " ORDER BY id": [1, 2, 3],
        "SELECT lake.db.t.id FROM lake.db.t, LATERAL (SELECT * FROM lake.other.t WHERE lake.other.t.id = lake.db.t.id) x": [
            3
        ],
        "SELECT t.id FROM lake.db.t WHERE lake.db.t.id > 2": [3],
        "SELECT t.id FROM lake.db.t WHERE db.t.id IN (SELECT lake.db.t.id FROM lake.db.t VERSION AS OF 1) ORDER BY 1": [
            1,
            2,
            3,
        ],
    }.items():
        if wanted is None:
            with pytest.raises(ll.InvalidArgument, match=r"t\.id, at line 1.*FROM lake\.db\.t AS a"):
                spark.sql(text)
        else:
            assert [row[0] for row in spark.sql(text).collect()] == wanted, text


def test_all_that_spark_puts_in_is_put_in(spark: Any, home: ll.Catalog) -> None:
    """Variables of the environment, variables in variables, and those that are not set, as Spark itself has them."""
    given = {"my.inner": "b", "my.outer": "${my.inner}", "my.quoted": "it''s", "my.tick": "`"}
    for key, value in given.items():
        spark.conf.set(key, value)
    try:
        for variable in (
            "${my.outer}",
            "${spark:my.outer}",
            "${hiveconf:my.inner}",
            "${env:HOME}",
            "${no.such}",
            "${my.quoted}",
        ):
            spark.sql(f"UPDATE lake.db.t SET v = '{variable}' WHERE id = 1")
            wanted = spark.sql(f"SELECT '{variable}'").first()[0]
            assert spark.table("lake.db.t").where("id = 1").first()["v"] == wanted, variable
        with pytest.raises(ll.Unsupported, match="backtick"):
            spark.sql("DELETE FROM lake.db.t WHERE v = '${my.tick}'")
    finally:
        for key in given:
            spark.conf.unset(key)


def test_variables_of_the_session_are_put_in_before_a_statement_is_read(spark: Any, home: ll.Catalog) -> None:
    spark.conf.set("my.table", "lake.db.t")
    try:
        assert spark.sql("SELECT count(*) FROM ${my.table}").first()[0] == 3
        assert spark.sql("DELETE FROM ${my.table} WHERE id = 1").first()[0] == 1
    finally:
        spark.conf.unset("my.table")


# ----------------------------------------------------------------------------------------------------------- identities


def test_a_statement_that_runs_again_lands_once(spark: Any, home: ll.Catalog) -> None:
    statements = (
        "INSERT INTO lake.db.t VALUES (4, 'd')",
        "UPDATE lake.db.t SET v = concat(v, 'x') WHERE id = 4",
        "MERGE INTO lake.db.t USING (SELECT 5L id, 'e' v) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "DELETE FROM lake.db.t WHERE id = 1",
        "INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t WHERE id > 2",
    )
    for run in range(2):
        for number, statement in enumerate(statements):
            spark.sql("SET lakelatch.commit-user = etl")
            spark.sql(f"SET lakelatch.identifier = {number}")
            done = spark.sql(statement)
            assert spark.conf.get("lakelatch.identifier", None) is None
            if run and statement.startswith(("UPDATE", "MERGE", "DELETE")):
                assert done.first()[0] is None  # nothing was done, so nothing was counted
    assert rows(home) == [(3, None), (4, "dx"), (5, "e")]
    assert home["db.t"].snapshot().id == 6


def test_an_identifier_is_of_one_statement(spark: Any, home: ll.Catalog) -> None:
    spark.conf.set("lakelatch.commit-user", "etl")
    with pytest.raises(ll.InvalidArgument, match=r"SET lakelatch\.identifier"):
        spark.sql("INSERT INTO lake.db.t VALUES (4, 'd')")
    spark.conf.set("lakelatch.identifier", "1")
    assert spark.sql("SELECT count(*) FROM lake.db.t").first()[0] == 3
    with pytest.raises(ll.InvalidArgument, match="nobody"):
        spark.sql("DELETE FROM lake.db.t WHERE nobody = 1")
    with pytest.raises(ll.InvalidArgument, match=r"SET lakelatch\.identifier"):
        spark.sql("DELETE FROM lake.db.t WHERE id = 1")
    spark.conf.set("lakelatch.identifier", "1")
    assert spark.sql("DELETE FROM lake.db.t WHERE id = 1").first()[0] == 1
    made = home["db.t"].snapshots()[-1]
    assert (made.commit_user, made.commit_identifier) == ("etl", 1)


def test_an_identifier_stays_where_the_outcome_is_not_known(spark: Any, home: ll.Catalog) -> None:
    spark.conf.set("lakelatch.commit-user", "etl")
    spark.conf.set("lakelatch.identifier", "7")
    with pytest.raises(OutcomeUnknown):
        with identity_of(spark) as about:
            raise OutcomeUnknown("no answer", identity=about)
    assert spark.conf.get("lakelatch.identifier") == "7"


def test_options_of_an_insert(spark: Any, home: ll.Catalog) -> None:
    for _ in range(2):
        spark.sql("INSERT INTO lake.db.t WITH ('commit-user' = 'x', 'identifier' = '1') VALUES (9, 'z')")
    assert len(rows(home)) == 4
    with pytest.raises(ll.InvalidArgument, match="option 'nothing' is unknown"):
        spark.sql("INSERT INTO lake.db.t WITH ('nothing' = 'x') VALUES (9, 'z')")


# --------------------------------------------------------------------------------------------------------------- frames


def test_a_frame_shows_one_snapshot_whatever_comes_later(spark: Any, home: ll.Catalog) -> None:
    """Spark Connect plans a frame again for each action, by the plan that it was given."""
    frame = spark.sql("SELECT * FROM lake.db.t WHERE id < 3")
    spark.sql("DELETE FROM lake.db.t")
    assert frame.count() == 2 and frame.where("id = 1").count() == 1
    assert spark.sql("SELECT * FROM lake.db.t").count() == 0
    assert not any(view.name.startswith("_pyspark") for view in spark.catalog.listTables())


def test_what_others_committed_since_a_frame_was_planned_stays(spark: Any, home: ll.Catalog) -> None:
    spark.sql("INSERT OVERWRITE lake.db.t SELECT id + 10, v FROM lake.db.t")
    assert [r[0] for r in rows(home)] == [11, 12, 13]
    old = home["db.t"].snapshots()[0].id
    spark.sql(f"INSERT OVERWRITE lake.db.t SELECT * FROM lake.db.t VERSION AS OF {old} WHERE id = 1")
    assert rows(home) == [(1, "a")]


def test_a_temporary_view_shows_the_rows_of_its_moment(spark: Any, home: ll.Catalog) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW seen (a, b) AS SELECT * FROM lake.db.t VERSION AS OF 1 WHERE id < :id",
        {"id": 3},
    )
    spark.sql("CREATE TEMP VIEW over AS SELECT a FROM seen")
    spark.sql("DELETE FROM lake.db.t")
    assert spark.sql("SELECT b FROM seen JOIN over USING (a)").count() == spark.table("seen").count() == 2
    with pytest.raises(Exception, match="TEMP_TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM lake.db.t")
    with pytest.raises(ll.InvalidArgument, match="names 1 columns"):
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW seen (a) AS SELECT * FROM lake.db.t")
    for statement in (
        "CREATE TEMPORARY VIEW x COMMENT 'c' AS TABLE lake.db.t",
        "CREATE OR REPLACE VIEW x AS TABLE lake.db.t",
    ):
        with pytest.raises(ll.Unsupported, match="run the text again later"):
            spark.sql(statement)
    for view in ("seen", "over"):
        spark.sql(f"DROP VIEW {view}")


def test_statements_of_spark_read_tables_of_ours(spark: Any, home: ll.Catalog) -> None:
    spark.sql("CREATE TABLE foreign_copy USING parquet AS SELECT * FROM lake.db.t")
    spark.sql("INSERT INTO foreign_copy SELECT id + 10, v FROM lake.db.t WHERE t.id = 1")
    spark.sql("WITH x AS (SELECT * FROM lake.db.t) INSERT INTO foreign_copy SELECT * FROM x WHERE id = 2")
    assert spark.table("foreign_copy").count() == 5
    explained = spark.sql("EXPLAIN SELECT v FROM lake.db.t WHERE id > 1").first()[0]
    assert "FileScan parquet" in explained and "PushedFilters: [IsNotNull(id), GreaterThan(id,1)]" in explained
    spark.sql("INSERT INTO lake.db.t SELECT * FROM foreign_copy WHERE id = 11")
    assert (11, "a") in rows(home)
    spark.sql("DROP TABLE foreign_copy")


def test_times_are_those_of_the_session(spark: Any, home: ll.Catalog) -> None:
    home.create_table("db.times", pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))]))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        spark.sql(
            "INSERT INTO lake.db.times VALUES (1, TIMESTAMP '2026-06-01 00:00:00'), (2, TIMESTAMP '2026-11-01 01:30:00')"
        )
        assert spark.sql("DELETE FROM lake.db.times WHERE at = '2026-06-01 00:00:00'").first()[0] == 1
        later = "UPDATE lake.db.times SET at = timestampadd(HOUR, 1, TIMESTAMP '2026-11-01 01:30:00') WHERE id = 2"
        assert spark.sql(later).first()[0] == 1
        found = spark.sql("SELECT unix_seconds(at) FROM lake.db.times").first()[0]
        assert (
            found == spark.sql("SELECT unix_seconds(timestampadd(HOUR, 1, TIMESTAMP '2026-11-01 01:30:00'))").first()[0]
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_null_partitions_and_keys(spark: Any, home: ll.Catalog) -> None:
    spark.sql("CREATE TABLE lake.db.p (id BIGINT, p STRING) PARTITIONED BY (p)")
    spark.sql("INSERT INTO lake.db.p VALUES (1, NULL), (2, 'x'), (3, NULL)")
    spark.sql("INSERT OVERWRITE lake.db.p PARTITION (p = NULL) SELECT 4")
    assert rows(home, "db.p") == [(2, "x"), (4, None)]
    spark.sql("INSERT INTO lake.db.p REPLACE WHERE p IS NULL SELECT 5, NULL")
    spark.sql("TRUNCATE TABLE lake.db.p PARTITION (p = 'x')")
    assert rows(home, "db.p") == [(5, None)]
    spark.sql(
        "CREATE TABLE lake.db.k (id BIGINT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2')"
    )
    spark.sql("INSERT INTO lake.db.k VALUES (1, 'a'), (2, 'b'), (1, 'c')")
    merge = "MERGE INTO lake.db.k USING (SELECT 2L id, 'z' v UNION ALL SELECT 3L, 'n') s ON k.id = s.id"
    counted = spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *").collect()
    assert counted == [(2, 1, 0, 1)]
    assert spark.sql("DELETE FROM lake.db.k WHERE id = 1").first()[0] == 1
    assert rows(home, "db.k") == [(2, "z"), (3, "n")]
    with pytest.raises(ll.LakelatchError, match="primary key"):
        spark.sql("UPDATE lake.db.k SET id = 9 WHERE id = 2")


def test_tables_with_deletion_vectors_and_a_reader_of_old_frames(spark: Any, home: ll.Catalog) -> None:
    spark.sql(
        "CREATE TABLE lake.db.d TBLPROPERTIES ('deletion-vectors.enabled' = 'true') AS SELECT id, string(id) AS v FROM range(5)"
    )
    before = spark.sql("SELECT * FROM lake.db.d")
    assert spark.sql("DELETE FROM lake.db.d WHERE id = 0").first()[0] == 1
    assert spark.sql("UPDATE lake.db.d SET v = 'x' WHERE id = 1").first()[0] == 1
    assert before.count() == 5
    assert rows(home, "db.d") == [(1, "x"), (2, "2"), (3, "3"), (4, "4")]
    assert spark.sql("SELECT id FROM lake.db.d WHERE v = 'x'").collect() == [(1,)]
