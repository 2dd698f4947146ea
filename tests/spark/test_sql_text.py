"""What is understood of a statement, and which statements are left to Spark. Starts no session."""

from __future__ import annotations

import pytest

from lakelatch.spark.sql.sql_text import CreateTable, Insert, Other, understand


def test_a_create_table_with_every_clause() -> None:
    found = understand(
        "/* x */ create table if not exists `my db`.t (id BIGINT NOT NULL, d DECIMAL(10, 2) COMMENT 'a)') using LakeLatch\n"
        "OPTIONS (path 's3://b/t', 'storage.profile' = \"me\", a.b 1) partitioned by (id, `d`) -- y\n"
        "COMMENT 'it''s' LOCATION r'a\\b' TBLPROPERTIES ('k.v'='w\\n');"
    )
    assert found == CreateTable(
        name="`my db`.t",
        using="LakeLatch",
        columns="id BIGINT NOT NULL, d DECIMAL(10, 2) COMMENT 'a)'",
        partition_by=("id", "d"),
        location="a\\b",
        comment="it's",
        options={"path": "s3://b/t", "storage.profile": "me", "a.b": "1"},
        properties={"k.v": "w\n"},
        if_not_exists=True,
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (1)", Insert("t", False, "VALUES (1)")),
        ("insert overwrite table a.`b``c` (SELECT 1);", Insert("a.`b``c`", True, "(SELECT 1)")),
        ("INSERT INTO t (a, `b`) SELECT 1, ';'", Insert("t", False, "SELECT 1, ';'", columns=("a", "b"))),
        ("INSERT INTO t BY NAME SELECT 1 a", Insert("t", False, "SELECT 1 a", by_name=True)),
        (
            "INSERT OVERWRITE t PARTITION (m = -1, n = 'x', o = NULL, p) TABLE s",
            Insert("t", True, "TABLE s", {"m": "-1", "n": "x", "o": None}, unvalued=("p",)),
        ),
        ("INSERT INTO t FROM s SELECT a", Insert("t", False, "FROM s SELECT a")),
        ("INSERT INTO IDENTIFIER('a.t') VALUES (1)", Insert("a.t", False, "VALUES (1)")),
        ("DELETE FROM identifier ('t')", Other("DELETE", "t")),
        ("WITH x AS (SELECT 1 a) INSERT INTO t SELECT a FROM x", Other("WITH … INSERT", "t")),
        ("FROM s INSERT OVERWRITE TABLE a.t SELECT a INSERT INTO u SELECT b", Other("FROM … INSERT", "a.t", ("u",))),
        ("BEGIN DECLARE x INT; INSERT INTO t VALUES (x); END", Other("BEGIN … INSERT", "t")),
        ("MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE", Other("MERGE", "t")),
        ("DELETE FROM a.b.t", Other("DELETE", "a.b.t")),
        ("UPDATE t SET a = 1", Other("UPDATE", "t")),
        ("TRUNCATE TABLE t", Other("TRUNCATE", "t")),
        ("ALTER TABLE t SET LOCATION 'x'", Other("ALTER TABLE", "t")),
        ("CREATE TABLE c LIKE t", Other("CREATE TABLE … LIKE", "t")),
        ("SELECT * FROM x, a.t VERSION AS OF 3 WHERE true", Other("VERSION AS OF", "a.t")),
        ("WITH v AS (SELECT * FROM t FOR SYSTEM_TIME AS OF '2026') SELECT * FROM v", Other("SYSTEM_TIME AS OF", "t")),
    ],
)
def test_what_a_statement_names(sql: str, expected: object) -> None:
    assert understand(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "-- nothing",
        "SELECT 'INSERT INTO t VALUES (1)'",
        "SELECT version AS of FROM t",
        "CREATE TABLE t (a INT)",
        "CREATE TABLE t (a INT) STORED AS parquet",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TEMPORARY VIEW v USING lakelatch OPTIONS (path 'x')",
        "ALTER TABLE t RENAME TO u",
        "ALTER VIEW v AS SELECT 1",
        "INSERT INTO t SELEC 1",
        "INSERT INTO IDENTIFIER(:name) SELECT 1",
        "FROM t SELECT 'INSERT INTO t'",
        "INSERT INTO t REPLACE WHERE a = 1 SELECT 1",
        "INSERT OVERWRITE DIRECTORY '/x' USING parquet SELECT 1",
        "INSERT INTO t (a, b",
        "INSERT INTO t PARTITION (p = :x) SELECT 1",
        "INSERT INTO t PARTITION (p = DATE '2026-01-01') SELECT 1",
        "INSERT INTO 'unclosed",
        "SET x = 1",
        "DROP TABLE t",
    ],
)
def test_other_statements_are_left_to_spark(sql: str) -> None:
    assert understand(sql) is None
