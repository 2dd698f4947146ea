"""Statements with values, names and settings that are rare, and beside other writers. Runs again under Spark Connect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

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
    for key in ("lakelatch.commit-user", "lakelatch.identifier", "spark.sql.caseSensitive"):
        spark.conf.unset(key)
    lake.unregister(spark)


def rows(catalog: ll.Catalog, name: str = "db.t") -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in catalog[name].to_arrow().to_pylist()), key=repr)


def test_what_another_row_would_compute_anew_is_refused(spark: Any, home: ll.Catalog) -> None:
    for text in (
        "id = CAST(rand() * 3 AS INT)",
        "v = concat('a', uuid())",
        "id = (SELECT 1 WHERE x = t.id)",
    ):
        with pytest.raises(ll.Unsupported, match="MERGE INTO"):
            spark.sql(f"DELETE FROM lake.db.t WHERE {text}")
    assert len(rows(home)) == 3


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", 'v = "a"'),
        ("spark.sql.parser.escapedStringLiterals", r"v = 'a\\b'"),
        ("spark.sql.legacy.consecutiveStringLiterals.enabled", "v = 'a''b'"),
    ],
)
def test_a_text_that_means_something_else_in_this_session_is_refused(
    spark: Any, home: ll.Catalog, key: str, text: str
) -> None:
    spark.conf.set(key, "true")
    try:
        with pytest.raises(ll.Unsupported, match="give it as a parameter"):
            spark.sql(f"DELETE FROM lake.db.t WHERE {text}")
    finally:
        spark.conf.unset(key)
    spark.sql(f"DELETE FROM lake.db.t WHERE {text}")


def test_values_of_every_type_are_computed_once(spark: Any, home: ll.Catalog) -> None:
    """What Spark computes comes back as a literal of its type; all of these are true."""
    values = (
        "try_cast('x' AS INT) IS NULL",
        "sqrt(4.0D) = 2.0D",
        "pow(2, 3) > 7.5",
        "date_sub(DATE '2026-03-01', 1) = DATE '2026-02-28'",
        "to_timestamp('2026-01-01 00:00:00') = TIMESTAMP '2026-01-01 00:00:00'",
        "TIMESTAMP_NTZ '2026-01-01 00:00:00' + INTERVAL '1' DAY = TIMESTAMP_NTZ '2026-01-02 00:00:00'",
        "unhex('1F') = X'1F'",
        "round(try_divide(10, 4), 1) = 2.5",
        "isnull(NULL) AND NOT isnotnull(NULL)",
        "replace('it''s', 's', 't') = \"it't\"",
        "1 IN (SELECT 1) AND 1.5 NOT IN (SELECT 2.5) AND id NOT IN (SELECT id FROM lake.db.t WHERE id > 99)",
        "now() > TIMESTAMP '2020-01-01 00:00:00' AND current_date > DATE '2020-01-01'",
    )
    assert spark.sql(f"UPDATE lake.db.t SET v = 'seen' WHERE {' AND '.join(values)}").first()[0] == 3
    for value in values:
        assert spark.sql(f"SELECT count(*) FROM lake.db.t WHERE {value}").first()[0] == 3, value


def test_merges_without_keys(spark: Any, home: ll.Catalog) -> None:
    for condition in ("false", "1 = 0", "t.id IS NULL"):
        merge = f"MERGE INTO lake.db.t t USING (SELECT 9L id, 'z' v) s ON {condition}"
        assert spark.sql(f"{merge} WHEN NOT MATCHED THEN INSERT *").first()[0] == 1
    merge = (
        "MERGE INTO lake.db.t t USING (SELECT 3 AS most) s ON t.id <= s.most AND t.v <=> NULL WHEN MATCHED THEN DELETE"
    )
    assert spark.sql(merge).first()[0] == 1
    assert len(rows(home)) == 5


def test_use_does_not_let_spark_read_its_own_table_of_the_name(spark: Any, home: ll.Catalog) -> None:
    spark.sql("CREATE TABLE t (id BIGINT) USING parquet")
    spark.sql("USE lake.db")
    try:
        for statement in (
            "SET VAR x = (SELECT max(id) FROM t)",
            "CACHE TABLE t",
            "EXPLAIN DELETE FROM t",
            "LOAD DATA INPATH '/x' INTO TABLE t",
        ):
            with pytest.raises(ll.Unsupported, match=r"lake\.db\.t"):
                spark.sql(statement)
        assert spark.sql("DESCRIBE QUERY SELECT * FROM t").count() == 2
        assert spark.sql("SELECT count(*) FROM spark_catalog.default.t").first()[0] == 0
    finally:
        spark.sql("USE spark_catalog.default")
        spark.sql("DROP TABLE t")
    assert len(rows(home)) == 3


def test_queries_in_conditions_bring_values_of_every_type(spark: Any, home: ll.Catalog) -> None:
    spark.sql(
        "CREATE TABLE lake.db.typed (id INT, b BOOLEAN, d DATE, n DECIMAL(38, 10), f DOUBLE, t TIMESTAMP, z TIMESTAMP_NTZ,"
        " x BINARY, s STRING)"
    )
    spark.sql(
        "INSERT INTO lake.db.typed VALUES (1, true, DATE '1582-10-14', 1234567890123456789012345678.0123456789, double('NaN'),"
        " TIMESTAMP '1900-01-01 00:00:00.000001', TIMESTAMP_NTZ '2999-12-31 23:59:59', X'00FF', 'a`b''c'),"
        " (2, NULL, NULL, NULL, -0.0D, NULL, NULL, NULL, NULL)"
    )
    for column in ("id", "b", "d", "n", "f", "t", "z", "x", "s"):
        counted = spark.sql(
            f"UPDATE lake.db.typed SET id = id WHERE {column} IN (SELECT {column} FROM lake.db.typed WHERE id = 1)"
        )
        assert counted.first()[0] == 1, column
    assert (
        spark.sql("DELETE FROM lake.db.typed WHERE s NOT IN (SELECT s FROM lake.db.typed WHERE id = 2)").first()[0] == 0
    )
    assert (
        spark.sql("DELETE FROM lake.db.typed WHERE id NOT IN (SELECT id FROM lake.db.typed WHERE id = 1)").first()[0]
        == 1
    )


def test_nested_values_and_odd_names(spark: Any, home: ll.Catalog) -> None:
    spark.sql(
        "CREATE TABLE lake.db.n (`a b` INT, `c.d` STRING, `e``f` STRUCT<x: INT, y: ARRAY<STRING>>, m MAP<STRING, INT>)"
    )
    spark.sql(
        "INSERT INTO lake.db.n VALUES (1, 'one', named_struct('x', 1, 'y', array('p')), map('k', 1)), (2, 'two', NULL, NULL)"
    )
    source = "(SELECT 2 AS `a b`, NULL AS `c.d`, named_struct('x', 5, 'y', array('q')) AS `e``f`, map('z', 9) AS m)"
    merge = f"MERGE INTO lake.db.n USING {source} s ON n.`a b` = s.`a b`"
    assert spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *").first()[0] == 1
    assert spark.sql("UPDATE lake.db.n SET `c.d` = 'x' WHERE n.`e``f`.x = 5 AND `c.d` IS NULL").first()[0] == 1
    assert spark.sql("SELECT n.`e``f`.y[0], m['z'] FROM lake.db.n WHERE `c.d` = 'x'").collect() == [("q", 9)]
    with pytest.raises(ll.Unsupported, match="set the whole column"):
        spark.sql("UPDATE lake.db.n SET `e``f`.x = 5")
    with pytest.raises(ll.InvalidArgument, match="2 columns"):
        spark.sql("DELETE FROM lake.db.n WHERE (`a b`, `c.d`) IN (SELECT 1, 'x')")


def test_statements_stand_beside_the_views_of_use(spark: Any, home: ll.Catalog) -> None:
    lake.use(spark, home.url)
    spark.sql("DELETE FROM lake.db.t WHERE id IN (SELECT id FROM db_t WHERE v = 'a')")
    assert spark.sql("SELECT count(*) FROM db_t JOIN lake.db.t USING (id)").first()[0] == 2
    spark.sql("INSERT OVERWRITE lake.db.t SELECT * FROM db_t WHERE id = 2")
    assert spark.sql("SELECT id FROM db_t").collect() == [(2,)]
    spark.sql("MERGE INTO lake.db.t USING db_t ON t.id = db_t.id WHEN MATCHED THEN UPDATE SET v = 'new'")
    assert spark.table("db_t").collect() == [(2, "new")]


def test_another_writer_comes_between(spark: Any, home: ll.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that is added while a statement looks for its rows is found, too: isolation is serializable."""
    from lakelatch.table.rowlevel.edit import Edit

    finds, others = Edit.find, [pa.table({"id": [7], "v": ["a"]})]

    def find(self: Any, batch: Any) -> Any:
        if others:
            home["db.t"].append(others.pop())
        return finds(self, batch)

    monkeypatch.setattr(Edit, "find", find)
    assert spark.sql("DELETE FROM lake.db.t WHERE v = 'a'").first()[0] == 2
    assert not others and rows(home) == [(2, "b"), (3, None)]


def test_a_map_without_a_type_is_named(spark: Any, home: ll.Catalog) -> None:
    home.create_table("db.m", pa.schema([("id", pa.int64()), ("m", pa.map_(pa.string(), pa.int32()))]))
    merge = "MERGE INTO lake.db.m USING (SELECT 1 AS id, {} AS m) s ON m.id = s.id WHEN NOT MATCHED THEN INSERT *"
    with pytest.raises(ll.InvalidArgument, match=r"column 'm' of the source.*CAST\(map\(\) AS MAP<STRING, INT>\)"):
        spark.sql(merge.format("map()"))
    spark.sql(merge.format("CAST(map() AS MAP<STRING, INT>)"))
    assert rows(home, "db.m") == [(1, [])]


VALUES = """
    SELECT 1 AS id, CAST(0.1 AS FLOAT) AS f, -2.55BD AS m, ' x ' AS s, CAST('NaN' AS DOUBLE) AS d, 7L AS b
    UNION ALL SELECT 2, CAST(1.5 AS FLOAT), 2.50BD, 'Straße', -2.5D, -3L
    UNION ALL SELECT 3, NULL, NULL, NULL, NULL, NULL
"""
ALIKE = [
    "f = 0.1",
    "f = 1.5",
    "f < 0.1",
    "f > 0.1",
    "f IN (0.1, 1.5)",
    "f = CAST(0.1 AS FLOAT)",
    "f * 2 = 0.2",
    "CAST(m AS DOUBLE) = -2.55D",
    "m / 3 = 0.833333",
    "CAST(m AS DECIMAL(12,1)) = 2.5",
    "CAST('1.5' AS DECIMAL(5, 1)) < m",
    "CAST(s AS BINARY) = X'207820'",
    "CAST(s AS STRING) = ' x '",
    "CAST(s AS VARCHAR(10)) = 'x'",
    "greatest(b, d) > 100",
    "upper(s) = 'STRASSE'",
    ".5 + b > 7",
    "b = .5e1 + 2",
    "b = 7.0D",
    "b > -.5",
]


@pytest.mark.parametrize("given", ["f", "m", "s"])
def test_values_are_kept_as_they_were(spark: Any, home: ll.Catalog, given: str) -> None:
    spark.sql(f"CREATE TABLE lake.db.v AS {VALUES}")
    before = spark.table("lake.db.v").orderBy("id").collect()
    spark.sql(f"UPDATE lake.db.v SET {given} = {given}")
    spark.sql(
        f"MERGE INTO lake.db.v t USING lake.db.v s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {given} = s.{given}"
    )
    assert str(spark.table("lake.db.v").orderBy("id").collect()) == str(before)


def test_conditions_take_the_rows_that_a_query_shows(spark: Any, home: ll.Catalog) -> None:
    spark.sql(f"CREATE TABLE lake.db.v AS {VALUES}")
    wrong = []
    for text in ALIKE:
        shown = spark.sql(f"SELECT count(*) FROM lake.db.v WHERE {text}").first()[0]
        if spark.sql(f"UPDATE lake.db.v SET id = id WHERE {text}").first()[0] != shown:
            wrong.append(text)
    assert not wrong


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("v RLIKE 'a'", "RLIKE"),
        ("v ILIKE 'A%'", "ILIKE"),
        ("id DIV 2 = 1", "DIV"),
        ("v IS DISTINCT FROM 'a'", "DISTINCT"),
        ("(id > 1) IS UNKNOWN", "UNKNOWN"),
        ("trim(BOTH ' ' FROM v) = 'a'", "BOTH"),
        ("substring(v FROM 2) = ''", "FROM"),
        ("id::string = '1'", "::"),
        ("id & 1 = 1", "&"),
        ("!(id = 1)", "!"),
        ("id = 1 LIMIT 1", "LIMIT"),
        ("id = 1; DROP TABLE lake.db.t", ";"),
    ],
)
def test_operators_that_only_spark_has_are_named(spark: Any, home: ll.Catalog, text: str, word: str) -> None:
    with pytest.raises(ll.Unsupported, match=rf"{re.escape(word)} with columns, at line 1.*MERGE INTO"):
        spark.sql(f"DELETE FROM lake.db.t WHERE {text}")


def test_a_table_with_braces_in_its_name(spark: Any, home: ll.Catalog) -> None:
    spark.sql("CREATE TABLE lake.db.`a{b}` AS SELECT 1 AS x")
    assert spark.sql("SELECT lake.db.`a{b}`.x FROM lake.db.`a{b}`").collect() == [(1,)]


def test_a_view_of_a_table_takes_no_rows(spark: Any, home: ll.Catalog) -> None:
    """Spark would write them beside the files that it reads, where nobody finds them."""
    url = f"{home.url}/db.db/t"
    home.create_table("db.empty", ROWS.schema)
    for frame in (
        spark.table("lake.db.t"),
        spark.read.format("lakelatch").load(url),
        lake.read(spark, url),
        lake.read(spark, url, where="id > 1"),
        lake.changes(spark, url, 0, 1).select("id", "v"),
        lake.changes(spark, f"{home.url}/db.db/empty", 0),
        spark.table("lake.db.empty"),
        lake.LakeTable.forPath(spark, url).toDF(),
    ):
        frame.createOrReplaceTempView("shown")
        for write in (
            lambda: spark.sql("INSERT INTO shown VALUES (8, 'lost')"),
            lambda: spark.sql("INSERT OVERWRITE shown VALUES (8, 'lost')"),
            lambda: spark.range(1).selectExpr("id", "'lost' AS v").write.insertInto("shown"),
        ):
            with pytest.raises(AnalysisException, match="UNSUPPORTED_INSERT"):
                write()
    assert (len(rows(home)), rows(home, "db.empty")) == (3, [])
    spark.catalog.dropTempView("shown")


@pytest.mark.parametrize("name", ["lake.db.t", "of_spark"])
def test_what_a_writer_asks_for_and_does_not_get_is_refused(spark: Any, home: ll.Catalog, name: str) -> None:
    frame = spark.sql("SELECT 9L AS id, 'z' AS v")
    spark.sql(f"CREATE TABLE of_spark USING lakelatch LOCATION '{home.url}/db.db/t'")
    try:
        for method in ("bucketBy", "clusterBy"):
            laid = {"bucketBy": lambda w: w.bucketBy(2, "id").sortBy("id"), "clusterBy": lambda w: w.clusterBy("id")}[
                method
            ]
            for write in (
                lambda w: w.mode("append").saveAsTable(name),
                lambda w: w.saveAsTable("lake.db.made"),
                lambda w: w.insertInto(name),
            ):
                with pytest.raises(ll.Unsupported, match=f"{method}.*bucket-key"):
                    write(laid(frame.write.format("lakelatch")))
        with pytest.raises(ll.Unsupported, match=r"without the column 'v'.*DROP COLUMN"):
            frame.select("id").write.format("lakelatch").mode("overwrite").saveAsTable(name)
        assert home.tables("db") == ["t"] and len(rows(home)) == 3
        spark.sql(f"ALTER TABLE {name} DROP COLUMN v")
        frame.select("id").write.format("lakelatch").mode("overwrite").saveAsTable(name)
        assert rows(home) == [(9,)]
    finally:
        spark.sql("DROP TABLE of_spark")


def test_files_are_read_by_their_path_whatever_use_has_chosen(spark: Any, home: ll.Catalog, tmp_path: Any) -> None:
    spark.range(4).write.parquet(str(tmp_path / "files"))
    spark.sql("USE lake.db")
    try:
        assert spark.sql(f"SELECT count(*) FROM parquet.`{tmp_path}/files`").first()[0] == 4
        assert spark.sql("SELECT count(*) FROM t").first()[0] == 3
    finally:
        spark.sql("USE spark_catalog")


@pytest.mark.parametrize("form", ["{}", "array({})", "map('k', {})", "named_struct('s', {})"])
def test_a_struct_without_one_of_the_fields_is_refused(spark: Any, home: ll.Catalog, form: str) -> None:
    """The field would be null, in silence; Spark refuses it too."""
    whole, part = form.format("named_struct('x', 1, 'y', 2.5)"), form.format("named_struct('x', 1)")
    double = form.format("named_struct('x', 1, 'y', 2.5D)")
    spark.sql(f"CREATE TABLE lake.db.n AS SELECT 1 AS id, {double} AS c")
    spark.sql(f"INSERT INTO lake.db.n VALUES (2, {whole})")
    spark.sql(f"INSERT INTO lake.db.n BY NAME SELECT {whole} AS c, 3 AS id")
    for statement in (
        f"INSERT INTO lake.db.n VALUES (4, {part})",
        f"INSERT INTO lake.db.n BY NAME SELECT {part} AS c, 5 AS id",
        f"INSERT OVERWRITE lake.db.n SELECT 6, {part}",
    ):
        with pytest.raises(ll.InvalidArgument, match=r"STRUCT_MISSING_FIELDS.*'c'.*'y'"):
            spark.sql(statement)
    with pytest.raises(ll.InvalidArgument, match="STRUCT_MISSING_FIELDS"):
        spark.sql(f"SELECT 7, {part}").write.insertInto("lake.db.n")
    assert [r.id for r in spark.sql("SELECT id FROM lake.db.n ORDER BY id").collect()] == [1, 2, 3]
    assert spark.sql("SELECT count(DISTINCT to_json(struct(c))) FROM lake.db.n").first()[0] == 1


def test_texts_with_braces_beside_what_python_names(spark: Any, home: ll.Catalog) -> None:
    """With keywords, a statement is one of Python's format strings, inside of quotes too."""
    home["db.t"].append(pa.table({"id": pa.array([4, 5], pa.int64()), "v": ["{x}", "x7"]}))
    spark.sql("UPDATE lake.db.t SET v = concat(v, '{{}}') WHERE v = '{{x}}' OR v = 'x{n}'", n=7)
    spark.sql("DELETE FROM lake.db.t WHERE id IN (SELECT id FROM {frame}) AND v <> '{{'", frame=spark.range(3))
    assert rows(home) == [(3, None), (4, "{x}{}"), (5, "x7{}")]


def test_defaults_parameters_and_variables_where_a_value_stands(spark: Any, home: ll.Catalog) -> None:
    spark.sql("CREATE TABLE lake.db.d (id INT, n INT DEFAULT 7, s STRING DEFAULT 'x')")
    spark.sql("INSERT INTO lake.db.d VALUES (1, DEFAULT, 'DEFAULT'), (2, 3, default)")
    spark.sql("INSERT INTO lake.db.d (n, id) VALUES (DEFAULT, 3)")
    assert rows(home, "db.d") == [(1, 7, "DEFAULT"), (2, 3, "x"), (3, 7, "x")]
    with pytest.raises(AnalysisException, match="DEFAULT"):
        spark.sql("INSERT INTO lake.db.d VALUES (4, coalesce(DEFAULT, 1), 'y')")
    assert spark.sql("SELECT count(*) FROM lake.db.d VERSION AS OF :v", {"v": 1}).first()[0] == 2
    assert (
        spark.sql("SELECT count(*) FROM lake.db.d VERSION AS OF :v WHERE id > :id", {"v": "2", "id": 2}).first()[0] == 1
    )
    spark.sql("DECLARE VARIABLE chosen INT DEFAULT 2")
    try:
        assert spark.sql("DELETE FROM lake.db.d WHERE id = chosen").first()[0] == 1
        assert spark.sql("UPDATE lake.db.d SET n = session.chosen WHERE id = 3").first()[0] == 1
    finally:
        spark.sql("DROP TEMPORARY VARIABLE chosen")
    assert rows(home, "db.d") == [(1, 7, "DEFAULT"), (3, 2, "x")]


def test_a_source_of_merge_may_name_its_columns(spark: Any, home: ll.Catalog) -> None:
    clauses = "ON t.id = x.id WHEN MATCHED THEN UPDATE SET v = x.v WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO lake.db.t t USING (SELECT 1L, 'q') AS x(id, v) {clauses}")
    spark.sql(f"MERGE INTO lake.db.t t USING (VALUES (4L, 'w')) x (id, v) {clauses}")
    assert rows(home) == [(1, "q"), (2, "b"), (3, None), (4, "w")]
