"""What is understood of a statement, where its names stand, and which statements are left to Spark. Starts no session."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.spark.grammar import other_statements as other
from lakelatch.spark.grammar import row_statements as rows
from lakelatch.spark.grammar import table_statements as tables
from lakelatch.spark.grammar.pieces import Condition, Query
from lakelatch.spark.grammar.reading import may_be_ours, understand
from lakelatch.spark.grammar.words import at, words_of


def read(sql: str, **about: Any) -> Any:
    return understand(sql, **about)


def used(query: Query, sql: str) -> list[tuple[str, str, bool]]:
    """Each table that a query reads: its name, the text that is replaced, and whether it has another name."""
    return [(str(use.name), sql[use.start : use.end], use.aliased) for use in query.tables]


# ----------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        (r"'it''s' 'x\'y' r'a\b' 'a\tb' 'A' ", ["it's", "x'y", r"a\b", "a\tb", "A"]),
        ('"a""b" "\'"', ['a"b', "'"]),
        (
            "`a``b`.`c d` ä.1_a.2b",
            ["a`b", ".", "c d", "ä", ".", "1_a", ".", "2b"],
        ),
        ("10L 1.5e3 X'1F' 2BD -1", ["10L", "1.5e3", "X'1F'", "2BD", "-", "1"]),
        ("a -- b\nc /* d /* e */ f */ g;;", ["a", "c", "g"]),
        ("-- x\\\n INSERT INTO t\nSELECT 1", ["SELECT", "1"]),
        ("CALL sys.f(x => 1)", ["CALL", "sys", ".", "f", "(", "x", "=>", "1", ")"]),
        ("SHOW TABLES 'x' EXECUTE IMMEDIATE 'y'", ["SHOW", "TABLES", "x", "EXECUTE", "IMMEDIATE", "y"]),
        ("GROUP BY NOT IN", ["GROUP", "BY", "NOT", "IN"]),
        ("", []),
    ],
)
def test_words_are_those_of_sparks_lexer(sql: str, values: list[str]) -> None:
    words = words_of(sql)
    assert [word.value for word in words] == values
    assert all(sql[word.start : word.end] == word.raw for word in words)


def test_places_are_counted_as_people_do() -> None:
    sql = "SELECT 1,\n  x"
    assert at(sql, sql.index("x")) == "at line 2, column 3" and at(sql, 0) == "at line 1, column 1"
    with pytest.raises(InvalidArgument, match="check quotes"):
        words_of("SELECT 'x")


# --------------------------------------------------------------------------------------------------------------- queries


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT a.b.c, 'FROM lake.a.x' FROM lake.a.t -- JOIN lake.a.u", [("lake.a.t", "lake.a.t", False)]),
        (
            "SELECT * FROM lake.a.t x, lake.`select`.`from` AS y",
            [("lake.a.t", "lake.a.t", True), ("lake.select.from", "lake.`select`.`from`", True)],
        ),
        ("SELECT * FROM lake.order.by WHERE lake.order.by.x = 1", [("lake.order.by", "lake.order.by", False)]),
        ("WITH t AS (SELECT * FROM t), u AS (SELECT * FROM t) SELECT * FROM u, t", [("t", "t", False)]),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT * FROM r) SELECT * FROM r", []),
        ("SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) JOIN x", [("x", "x", False)]),
        ("WITH x AS (SELECT 1) SELECT * FROM y WHERE EXISTS (SELECT 1 FROM X)", [("y", "y", False)]),
        ("FROM lake.a.t SELECT a", [("lake.a.t", "lake.a.t", False)]),
        (
            "FROM lake.a.t |> JOIN lake.b.c USING (a)",
            [("lake.a.t", "lake.a.t", False), ("lake.b.c", "lake.b.c", False)],
        ),
        ("TABLE lake.a.t UNION ALL TABLE t", [("lake.a.t", "lake.a.t", True), ("t", "t", True)]),
        ("WITH x AS (TABLE lake.a.t) TABLE x", [("lake.a.t", "lake.a.t", True)]),
        ("SELECT * FROM f(TABLE(lake.a.t))", [("lake.a.t", "lake.a.t", True)]),
        ("SELECT * FROM range(3) r, VALUES (1) AS v(a), lake.a.t", [("lake.a.t", "lake.a.t", False)]),
        ("SELECT * FROM lake.a.t VERSION AS OF 3 x", [("lake.a.t", "lake.a.t VERSION AS OF 3", True)]),
        (
            "SELECT * FROM lake.a.t FOR SYSTEM_VERSION AS OF 'v' WHERE 1=1",
            [("lake.a.t", "lake.a.t FOR SYSTEM_VERSION AS OF 'v'", False)],
        ),
        (
            "SELECT * FROM t TIMESTAMP AS OF current_date() - INTERVAL '1' DAY, u@v3, `u`@20260102030405006 z",
            [
                ("t", "t TIMESTAMP AS OF current_date() - INTERVAL '1' DAY", False),
                ("u", "u@v3", False),
                ("u", "`u`@20260102030405006", True),
            ],
        ),
        (
            "SELECT * FROM t TIMESTAMP AS OF CASE WHEN a THEN '1' END || (b) AS x",
            [("t", "t TIMESTAMP AS OF CASE WHEN a THEN '1' END || (b)", True)],
        ),
        ("SELECT version AS off, x.version FROM t", [("t", "t", False)]),
        ("SELECT * FROM t WITH ('a' = 'b', c.d 1) x", [("t", "t WITH ('a' = 'b', c.d 1)", True)]),
        ("SELECT * FROM IDENTIFIER('lake.a.t')", [("lake.a.t", "IDENTIFIER('lake.a.t')", False)]),
        ("SELECT /*+ BROADCAST(t) */ x -> y.z FROM t LATERAL VIEW explode(a) tt AS c", [("t", "t", False)]),
        (
            "SELECT s:a.b, m['k'].z, t.* EXCEPT (q), x::int FROM lake.a.t GROUP BY ALL",
            [("lake.a.t", "lake.a.t", False)],
        ),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (3) LIMIT 1", [("t", "t", False)]),
        ("SELECT TRANSFORM(a) USING 'cat' AS (b) FROM lake.a.t", [("lake.a.t", "lake.a.t", False)]),
        (
            "(SELECT * FROM a.t) UNION ALL (SELECT * FROM a.u) EXCEPT SELECT 1",
            [("a.t", "a.t", False), ("a.u", "a.u", False)],
        ),
        ("SELECT :p, ? FROM lakelatch.`/x y/z`", [("lakelatch./x y/z", "lakelatch.`/x y/z`", False)]),
        ("EXPLAIN EXTENDED SELECT * FROM lake.a.t", [("lake.a.t", "lake.a.t", False)]),
    ],
)
def test_which_names_of_a_query_are_tables(sql: str, found: list[tuple[str, str, bool]]) -> None:
    query = read(sql)
    assert isinstance(query, Query)
    assert query.text == sql
    assert used(query, sql) == found


def test_what_stands_in_braces_is_python_s() -> None:
    sql = "SELECT {x}, * FROM {df[a]} JOIN lake.a.t"
    assert used(read(sql, formatted=True), sql) == [("lake.a.t", "lake.a.t", False)]


def test_another_name_goes_behind_a_sample() -> None:
    sql = "SELECT * FROM t TABLESAMPLE (10 PERCENT) REPEATABLE (3) LIMIT 1"
    (use,) = read(sql).tables
    assert sql[: use.alias_at].endswith("REPEATABLE (3)")


def test_names_in_several_parts_that_are_no_tables_are_told() -> None:
    query = read("SELECT a.t.x, t.* , f.g(1) FROM lake.a.t WHERE lake.a.t.y = 'a.b'")
    assert [str(name) for name in query.references] == ["a.t.x", "f.g", "lake.a.t.y"]


@pytest.mark.parametrize("sql", ["SELECT a b c FROM lake.a.t", "SELECT * FROM f(TABLE(lake.a.t) PARTITION BY x, 1)"])
def test_a_query_that_is_not_understood_is_refused_with_its_names(sql: str) -> None:
    found = read(sql)
    assert isinstance(found, other.Refused) and found.form
    assert "lake.a.t" in [str(name) for name in (*found.names, *found.others)]


# ------------------------------------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize(
    ("sql", "name", "query", "about"),
    [
        ("INSERT INTO t VALUES (1)", "t", "VALUES (1)", {}),
        ("insert overwrite table a.`b``c` (SELECT 1);", "a.b`c", "(SELECT 1)", {"overwrite": True}),
        ("INSERT INTO t (a, `b`) SELECT 1, ';'", "t", "SELECT 1, ';'", {"columns": ("a", "b")}),
        ("INSERT INTO t BY NAME SELECT 1 a", "t", "SELECT 1 a", {"by_name": True}),
        (
            "INSERT OVERWRITE t PARTITION (m = -1, n = 'x', o = NULL, d = DATE '2026-01-01', p) TABLE s",
            "t",
            "TABLE s",
            {"overwrite": True, "partition": {"m": "-1", "n": "x", "o": None, "d": "2026-01-01"}, "unvalued": ("p",)},
        ),
        ("INSERT INTO IDENTIFIER('a.t') VALUES (1)", "a.t", "VALUES (1)", {}),
        ("INSERT INTO t WITH ('commit-user' = 'x') SELECT 1", "t", "SELECT 1", {"options": {"commit-user": "x"}}),
        ("WITH x AS (SELECT 1 a) INSERT INTO t SELECT a FROM x", "t", "WITH x AS (SELECT 1 a) SELECT a FROM x", {}),
        ("FROM s INSERT INTO a.t SELECT 'INSERT'", "a.t", "FROM s SELECT 'INSERT'", {}),
        (
            "INSERT OVERWRITE t PARTITION (a = 1) IF NOT EXISTS SELECT 1",
            "t",
            "SELECT 1",
            {"overwrite": True, "partition": {"a": "1"}, "if_not_exists": True},
        ),
        ("INSERT WITH SCHEMA EVOLUTION INTO t SELECT 1", "t", "SELECT 1", {"evolves": True}),
    ],
)
def test_an_insert(sql: str, name: str, query: str, about: dict[str, Any]) -> None:
    found = read(sql)
    assert str(found.name) == name and sql[found.name.start : found.name.end].replace("`", "")
    assert re.sub(r"\s+", " ", found.query.text).strip() == query
    assert len(found.query.text) <= len(sql)
    assert found == rows.Insert(found.name, found.query, **about)


def test_what_a_query_says_stays_at_its_place() -> None:
    sql = "INSERT INTO t\nSELECT x\nFROM lake.a.u"
    query = read(sql).query
    assert query.text == "             \nSELECT x\nFROM lake.a.u"


def test_a_merge_with_every_clause() -> None:
    sql = (
        "MERGE WITH SCHEMA EVOLUTION INTO lake.a.t AS t USING (SELECT * FROM lake.a.s VERSION AS OF 2) s"
        " ON t.id = s.id AND CASE WHEN s.m THEN true END"
        " WHEN MATCHED AND s.x THEN DELETE"
        " WHEN MATCHED THEN UPDATE SET t.a = CASE WHEN s.a > 1 THEN 1 END, `b` = DEFAULT"
        " WHEN NOT MATCHED BY TARGET AND f(s.a, 1) THEN INSERT (a, b) VALUES (s.a, coalesce(s.b, 1))"
        " WHEN NOT MATCHED THEN INSERT *"
        " WHEN NOT MATCHED BY SOURCE AND y IN (SELECT y FROM q) THEN UPDATE SET z = 1;"
    )
    found = read(sql)
    assert (str(found.name), found.alias, str(found.source_alias), found.evolves) == ("lake.a.t", "t", "s", True)
    assert found.source.text.strip() == "SELECT * FROM (SELECT * FROM lake.a.s VERSION AS OF 2) s"
    assert used(found.source, sql) == [("lake.a.s", "lake.a.s VERSION AS OF 2", False)]
    assert found.condition.text.text == "t.id = s.id AND CASE WHEN s.m THEN true END"
    told = [
        (
            c.kind,
            c.action,
            c.condition and c.condition.text.text,
            c.set and [(str(a.column), a.value and a.value.text.text) for a in c.set],
        )
        for c in found.clauses
    ]
    assert told == [
        ("matched", "delete", "s.x", None),
        ("matched", "update", None, [("t.a", "CASE WHEN s.a > 1 THEN 1 END"), ("b", None)]),
        ("not matched", "insert", "f(s.a, 1)", [("a", "s.a"), ("b", "coalesce(s.b, 1)")]),
        ("not matched", "insert", None, None),
        ("not matched by source", "update", "y IN (SELECT y FROM q)", [("z", "1")]),
    ]
    (subquery,) = found.clauses[-1].condition.subqueries
    assert (sql[subquery.start : subquery.end], subquery.kind) == ("(SELECT y FROM q)", "in")


@pytest.mark.parametrize(
    ("source", "alias", "query"),
    [
        ("s", "s", "SELECT * FROM s"),
        ("lake.a.s@v3 AS x", "x", "SELECT * FROM lake.a.s@v3 AS x"),
        ("lake.a.s", "lake.a.s", "SELECT * FROM lake.a.s"),
        ("range(3)", "None", "SELECT * FROM range(3)"),
        ("(SELECT 1 AS s)", "None", "SELECT * FROM (SELECT 1 AS s)"),
    ],
)
def test_the_source_of_a_merge(source: str, alias: str, query: str) -> None:
    found = read(f"MERGE INTO t USING {source} ON true WHEN MATCHED THEN DELETE")
    assert (str(found.source_alias), found.source.text.strip()) == (alias, query)


def test_an_update_and_a_delete() -> None:
    sql = "WITH c AS (SELECT 1) UPDATE a.t x SET x.b.c = (SELECT max(b) FROM s), d = 'WHERE' WHERE x.id NOT IN (SELECT id FROM c)"
    found = read(sql)
    assert (str(found.name), found.alias) == ("a.t", "x")
    assert [(str(a.column), a.value.text.text) for a in found.set] == [
        ("x.b.c", "(SELECT max(b) FROM s)"),
        ("d", "'WHERE'"),
    ]
    (inner,) = found.set[0].value.subqueries
    assert inner.kind == "scalar" and inner.query.text.split() == "WITH c AS (SELECT 1) SELECT max(b) FROM s".split()
    assert used(inner.query, sql) == [("s", "s", False)]
    assert found.condition.subqueries[0].kind == "in"
    assert read("DELETE FROM a.b.t") == rows.Delete(read("DELETE FROM a.b.t").name)
    deleted = read("DELETE FROM t AS q WHERE a = :p AND EXISTS (SELECT 1)")
    assert (deleted.alias, deleted.condition.subqueries[0].kind) == ("q", "exists")
    assert isinstance(deleted.condition, Condition) and deleted.condition.text.column == 26
    assert read("TRUNCATE TABLE t PARTITION (a = 1)").partition == {"a": "1"}


# ---------------------------------------------------------------------------------------------------------------- tables


def test_a_create_table_with_every_clause() -> None:
    found = read(
        "/* x */ create or replace table `my db`.t (id BIGINT NOT NULL, d DECIMAL(10, 2) COMMENT 'a)') using LakeLatch\n"
        "OPTIONS (path 's3://b/t', 'storage.profile' = \"me\", a.b 1) partitioned by (id, days(d)) -- y\n"
        "COMMENT 'it''s' LOCATION r'a\\b' TBLPROPERTIES ('k.v'='w\\n') CLUSTERED BY (id) INTO 4 BUCKETS AS SELECT * FROM s"
    )
    assert found.columns.text == "id BIGINT NOT NULL, d DECIMAL(10, 2) COMMENT 'a)'"
    assert found.query.text.strip() == "SELECT * FROM s"
    assert found == tables.CreateTable(
        name=found.name,
        columns=found.columns,
        using="LakeLatch",
        partition_by=("id", "days(d)"),
        location="a\\b",
        comment="it's",
        options={"path": "s3://b/t", "storage.profile": "me", "a.b": "1"},
        properties={"k.v": "w\n"},
        query=found.query,
        replace=True,
        other=("CLUSTERED BY",),
    )


@pytest.mark.parametrize(
    ("sql", "action"),
    [
        ("ALTER TABLE t SET LOCATION 'x'", tables.OtherAction("SET LOCATION")),
        ("ALTER TABLE t SET TBLPROPERTIES ('a'='b', c.d = 1)", tables.SetProperties({"a": "b", "c.d": "1"})),
        ("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a', b.c)", tables.UnsetProperties(("a", "b.c"), True)),
        (
            "ALTER TABLE t DROP PARTITION (a = 1), PARTITION (b = 'x') PURGE",
            tables.DropPartitions(({"a": "1"}, {"b": "x"}), purge=True),
        ),
        ("COMMENT ON TABLE t IS NULL", tables.SetComment(None)),
    ],
)
def test_an_alter_table(sql: str, action: tables.Action) -> None:
    assert read(sql).action == action


def test_the_columns_of_an_alter_table() -> None:
    added = read(
        "ALTER TABLE t ADD COLUMNS (a INT NOT NULL COMMENT 'x', b.c STRUCT<a: INT, b: ARRAY<INT>> DEFAULT f(1) AFTER d)"
    ).action
    told = [
        (str(c.column), c.type.text, c.nullable, c.comment, c.default and c.default.text, c.after)
        for c in added.columns
    ]
    assert told == [
        ("a", "INT", False, "x", None, None),
        ("b.c", "STRUCT<a: INT, b: ARRAY<INT>>", True, None, "f(1)", "d"),
    ]
    altered = read(
        "ALTER TABLE t ALTER COLUMN a TYPE MAP<INT, INT>, b.c DROP NOT NULL, d FIRST, e SET DEFAULT 1 + 1"
    ).action
    one, two, three, four = altered.columns
    assert (one.type.text, two.nullable, three.after, four.default.text) == ("MAP<INT, INT>", True, "", "1 + 1")
    renamed = read("ALTER TABLE t RENAME COLUMN a.b TO c").action
    assert (str(renamed.column), renamed.to) == ("a.b", "c")
    assert [str(n) for n in read("ALTER TABLE t DROP COLUMNS IF EXISTS (a, b.c)").action.columns] == ["a", "b.c"]


@pytest.mark.parametrize(
    ("sql", "kind", "about"),
    [
        ("SHOW TABLES IN lake.a LIKE 'x*'", other.ShowTables, {"like": "x*"}),
        ("SHOW TABLES 'x'", other.ShowTables, {"like": "x", "inside": None}),
        ("SHOW TABLE EXTENDED IN a LIKE 'b'", other.ShowTables, {"extended": True}),
        ("SHOW NAMESPACES", other.ShowDatabases, {"inside": None}),
        ("DESC FORMATTED t", other.Describe, {"extended": True, "column": None}),
        ("DESCRIBE history", other.Describe, {"extended": False}),
        ("DESCRIBE HISTORY lake.a.t LIMIT 3", other.DescribeHistory, {"limit": 3}),
        ("DESCRIBE SCHEMA EXTENDED lake.a", other.DescribeDatabase, {"extended": True}),
        ("USE lake.a", other.Use, {"catalog": False}),
        ("SET CATALOG 'lake'", other.Use, {"catalog": True}),
        ("OPTIMIZE t WHERE a = 1 ZORDER BY (a, b)", other.Optimize, {"zorder": ("a", "b")}),
        ("VACUUM t RETAIN 168 HOURS DRY RUN", other.Vacuum, {"hours": 168.0, "dry_run": True}),
        ("DROP DATABASE IF EXISTS lake.x CASCADE", other.DropDatabase, {"if_exists": True, "cascade": True}),
        ("CREATE SCHEMA lake.x COMMENT 'c'", other.CreateDatabase, {"comment": "c"}),
        ("DROP TABLE IF EXISTS t PURGE", tables.DropTable, {"if_exists": True, "purge": True}),
        ("CREATE TABLE c LIKE a.t TBLPROPERTIES ('a'='b')", tables.CreateTableLike, {"properties": {"a": "b"}}),
        ("ALTER TABLE t RENAME TO u", tables.RenameTable, {}),
    ],
)
def test_other_statements(sql: str, kind: type, about: dict[str, Any]) -> None:
    found = read(sql)
    assert type(found) is kind
    assert {key: getattr(found, key) for key in about} == about


def test_the_arguments_of_a_call() -> None:
    found = read("CALL lake.sys.compact(`table` => 'a.b', where => \"x = 1, y\", m => map('a', 1), 5)")
    assert [(a.name, a.value.text) for a in found.arguments] == [
        ("table", "'a.b'"),
        ("where", '"x = 1, y"'),
        ("m", "map('a', 1)"),
        (None, "5"),
    ]
    assert read("RESTORE TABLE t TO VERSION AS OF 3").to.value.text == "3"


# -------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("sql", "what", "names"),
    [
        ("EXECUTE IMMEDIATE 'DELETE FROM lake.a.t'", "EXECUTE IMMEDIATE", ["lake.a.t"]),
        ("BEGIN DECLARE x INT; INSERT INTO t VALUES (x); END", "BEGIN … END", ["t"]),
        ("FROM s INSERT INTO t SELECT a INSERT INTO u SELECT b", "FROM … INSERT of several tables", ["s", "t", "u"]),
        ("ANALYZE TABLE a.t COMPUTE STATISTICS", "ANALYZE TABLE", ["a.t"]),
        ("INSERT INTO t SELEC 1", "a statement of this form", ["t"]),
        ("MERGE INTO t USING s ON true", "a statement of this form", ["t", "s"]),
    ],
)
def test_what_is_refused_names_its_tables(sql: str, what: str, names: list[str]) -> None:
    found = read(sql)
    assert (found.what, [str(name) for name in found.names]) == (what, names)


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "-- nothing",
        "SELECT 'open",
        "CREATE FUNCTION f AS 'x.Y'",
        "DROP VIEW v",
        "CREATE INDEX i ON t (a)",
        "GRANT SELECT ON t TO u",
    ],
)
def test_other_forms_are_left_to_spark(sql: str) -> None:
    assert read(sql) is None


@pytest.mark.parametrize(
    ("sql", "ours"),
    [
        ("SELECT a FROM lakes", False),
        ("select 1 from Lake.a.b", True),
        ("SELECT 'lake' FROM x", True),
        ("SELECT * FROM t VERSION AS OF 3", True),
        ("SELECT * FROM t@v3", True),
        ("SELECT * FROM lakelatch.`/x`", True),
        ("SELECT * FROM IDENTIFIER('la' || 'ke.a.t')", True),
        ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", True),
        ("WITH x AS (SELECT 1) SELECT * FROM x", False),
        ("-- INSERT\n/* x */ SELECT 1", False),
        ("/*+ hint */ DELETE FROM t", False),
        ("-- x\nDELETE FROM t", True),
        ("SET spark.sql.ansi.enabled = true", False),
        ("SET CATALOG lake", True),
        ("ADD JAR x", False),
        ("", False),
    ],
)
def test_a_cheap_look_tells_what_is_surely_not_ours(sql: str, ours: bool) -> None:
    assert may_be_ours(sql, ["lake"], current=False) is ours


@pytest.mark.timeout(60)
@pytest.mark.parametrize("before", [" " * 9000, "\n  \n" * 3000, "/* a */ " * 2000, "-- x\n  " * 2000])
def test_a_long_way_to_the_first_word_is_gone_once(before: str) -> None:
    """Programs that make statements leave blank lines and comments in them, and sometimes nothing else."""
    for after in ("", "%", "/*", "--"):
        assert not may_be_ours(before + after, ["lake"], current=True)
    assert may_be_ours(f"{before}SELECT 1 FROM lake.a.b", ["lake"], current=False)


def test_names_of_one_part_may_be_ours_once_use_has_chosen_a_catalog() -> None:
    assert may_be_ours("SELECT * FROM t", ["lake"], current=True) and not may_be_ours(
        "SELECT * FROM t", ["lake"], current=False
    )
