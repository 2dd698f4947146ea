"""Statements of SQL that read and change rows of a registered warehouse. Runs again under Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark

FLIGHTS = pa.table(
    {
        "month": pa.array([1, 1, 2], pa.int32()),
        "id": [1, 2, 3],
        "carrier": ["AA", "UA", None],
        "delay": [2.0, None, -3.5],
    }
)


@pytest.fixture(scope="module")
def home(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ll.Catalog]:
    """A warehouse, which the session knows as `lake`."""
    url = str(tmp_path_factory.mktemp("warehouse"))
    lake.register(spark, catalog="lake", warehouse=url)
    catalog = ll.open_catalog(url)
    catalog.create_database("air")
    yield catalog
    lake.unregister(spark)


@pytest.fixture
def flights(home: ll.Catalog) -> Iterator[Any]:
    """A table `lake.air.flights` with three rows, in two snapshots and a tag `first`."""
    table = home.create_table("air.flights", FLIGHTS.schema, partition_by=["month"])
    table.append(FLIGHTS.slice(0, 2))
    table.create_tag("first")
    table.append(FLIGHTS.slice(2))
    yield table
    home.drop_table("air.flights")


def ids(frame: Any) -> list[int]:
    return sorted(row[0] for row in frame.collect())


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM lake.air.flights", [1, 2, 3]),
        ("select ID from LAKE.air.flights as f where F.Month = 1", [1, 2]),
        ("SELECT lake.air.flights.id FROM lake.air.flights WHERE air.flights.month = 1 AND flights.id > 1", [2]),
        ("SELECT flights.id FROM lake.`air`.`flights` TABLESAMPLE (100 PERCENT)", [1, 2, 3]),
        ("SELECT id FROM (SELECT air.flights.* FROM lake.air.flights)", [1, 2, 3]),
        ("SELECT id FROM (TABLE lake.air.flights)", [1, 2, 3]),
        ("FROM lake.air.flights SELECT id WHERE id < 3", [1, 2]),
        ("FROM lake.air.flights |> WHERE id < 3 |> SELECT id", [1, 2]),
        ("SELECT id FROM lake.air.flights VERSION AS OF 1", [1, 2]),
        ("SELECT id FROM lake.air.flights VERSION AS OF '1'", [1, 2]),
        ("SELECT id FROM lake.air.flights FOR SYSTEM_VERSION AS OF 'first' x", [1, 2]),
        ("SELECT id FROM lake.air.flights@v1", [1, 2]),
        ("SELECT id FROM lake.air.flights TIMESTAMP AS OF current_timestamp() + INTERVAL 1 DAY", [1, 2, 3]),
        ("SELECT a.id FROM lake.air.flights@v1 a JOIN lake.air.flights b ON a.id = b.id", [1, 2]),
        ("SELECT id FROM lake.air.flights WHERE id NOT IN (SELECT id FROM lake.air.flights VERSION AS OF 1)", [3]),
        ("WITH f AS (SELECT * FROM lake.air.flights@v1) SELECT id FROM f", [1, 2]),
        (
            "WITH flights AS (SELECT 9 AS id) SELECT id FROM flights UNION ALL SELECT id FROM lake.air.flights@v1",
            [1, 2, 9],
        ),
        ("SELECT id FROM lake.air.flights WITH ('snapshot' = '1', 'where' = 'id = 2')", [2]),
        ("SELECT id FROM IDENTIFIER('lake.air.flights') WHERE id = 1", [1]),
        ("SELECT 1 AS id, 'FROM lake.air.none {x}' AS s FROM lake.air.flights -- lake.air.none\n LIMIT 1", [1]),
        ("SELECT /*+ BROADCAST(f) */ f.id FROM lake.air.flights f, LATERAL (SELECT f.id + 1 AS z) WHERE z = 4", [3]),
        ("SELECT id FROM lake.air.flights LATERAL VIEW explode(array(1, 2)) tt AS c WHERE c = 2", [1, 2, 3]),
        ("SELECT snapshot_id AS id FROM lake.air.`flights$snapshots`", [1, 2]),
    ],
)
def test_a_query_reads_what_its_names_say(spark: Any, flights: Any, query: str, expected: list[int]) -> None:
    assert ids(spark.sql(query)) == expected


# ------------------------------------------------------------------------------------------------ DELETE and UPDATE


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("DELETE FROM lake.air.flights WHERE id = 1", [2, 3]),
        ('delete from LAKE.air.flights as F where f.MONTH = 1 AND F.carrier = "UA"', [1, 3]),
        ("DELETE FROM lake.air.flights WHERE lake.air.flights.id > 1 AND flights.month = 1 /* x */", [1, 3]),
        ("DELETE FROM lake.air.flights WHERE carrier IS NULL OR delay IS NULL", [1]),
        ("DELETE FROM lake.air.flights WHERE NOT (id IN (1, 2L))", [1, 2]),
        ("DELETE FROM lake.air.flights WHERE id IN (SELECT id FROM lake.air.flights VERSION AS OF 1)", [3]),
        ("DELETE FROM lake.air.flights WHERE id NOT IN (SELECT id FROM lake.air.flights@v1 WHERE id > 7)", []),
        ("DELETE FROM lake.air.flights WHERE id IN (SELECT id FROM lake.air.flights@v1 WHERE id > 7)", [1, 2, 3]),
        ("DELETE FROM lake.air.flights WHERE id = (SELECT max(id) FROM lake.air.flights)", [1, 2]),
        ("DELETE FROM lake.air.flights WHERE EXISTS (SELECT 1 FROM lake.air.flights WHERE id = 9)", [1, 2, 3]),
        ("WITH x AS (SELECT 2 AS k) DELETE FROM lake.air.flights WHERE id IN (SELECT k FROM x)", [1, 3]),
        ("DELETE FROM lake.air.flights WHERE current_date() - INTERVAL 1 DAY > DATE '2020-01-01' AND id = 3", [1, 2]),
        ("DELETE FROM lake.air.flights WHERE carrier = upper(concat('a', 'a'))", [2, 3]),
        ("DELETE FROM lake.air.flights WHERE carrier = regexp_replace('xx', 'x', 'A')", [2, 3]),
        ("DELETE FROM lake.air.flights WHERE CAST(id AS STRING) = '2' AND delay IS NULL", [1, 3]),
        ("DELETE FROM lake.air.flights WHERE carrier LIKE 'A%' OR delay BETWEEN -4 AND -3", [2]),
        ("DELETE FROM lake.air.flights", []),
        ("TRUNCATE TABLE lake.air.flights", []),
        ("TRUNCATE TABLE lake.air.flights PARTITION (MONTH = 1)", [3]),
    ],
)
def test_a_delete_takes_the_rows_that_spark_would_find(
    spark: Any, flights: Any, statement: str, left: list[int]
) -> None:
    before = flights.refresh().snapshot().id
    result = spark.sql(statement)
    assert ids(spark.sql("SELECT id FROM lake.air.flights")) == left
    assert flights.refresh().snapshot().id == before + 1
    if "TRUNCATE" not in statement:
        assert result.columns == ["num_affected_rows"]
        assert result.collect() == [(3 - len(left),)]


@pytest.mark.parametrize(
    ("assignments", "expected"),
    [
        ("SET delay = delay + 1 WHERE id = 1", [(1, "AA", 3.0), (2, "UA", None), (3, None, -3.5)]),
        (
            "SET carrier = 'it''s', delay = NULL WHERE flights.id < 3",
            [(1, "it's", None), (2, "it's", None), (3, None, -3.5)],
        ),
        (
            'f SET F.CARRIER = coalesce(f.carrier, "?"), delay = DEFAULT',
            [(1, "AA", None), (2, "UA", None), (3, "?", None)],
        ),
        (
            "SET delay = CASE WHEN id = 1 THEN 0.0 WHEN id = 2 THEN 5 ELSE delay END",
            [(1, "AA", 0.0), (2, "UA", 5.0), (3, None, -3.5)],
        ),
        (
            "SET delay = (SELECT count(*) FROM lake.air.flights) WHERE id IN (SELECT 3)",
            [(1, "AA", 2.0), (2, "UA", None), (3, None, 3.0)],
        ),
        ("SET id = id + 10, delay = id WHERE month = 2", [(1, "AA", 2.0), (2, "UA", None), (13, None, 3.0)]),
    ],
)
def test_an_update_sees_the_row_as_it_was(
    spark: Any, flights: Any, assignments: str, expected: list[tuple[Any, ...]]
) -> None:
    affected = spark.sql(f"UPDATE lake.air.flights {assignments}").collect()
    assert rows(spark.sql("SELECT id, carrier, delay FROM lake.air.flights")) == sorted(expected, key=repr)
    changed = len(set(expected) - {(1, "AA", 2.0), (2, "UA", None), (3, None, -3.5)})
    assert affected[0][0] >= changed > 0


@pytest.mark.parametrize(
    ("statement", "words", "kind"),
    [
        ("DELETE FROM lake.air.flights WHERE nobody = 1", "no column nobody, at line 1, column 36", ll.InvalidArgument),
        ("DELETE FROM lake.air.flights\nWHERE id =\n  t.id", "no column t.id, at line 3, column 3", ll.InvalidArgument),
        ("DELETE FROM lake.air.flights x WHERE flights.id = 1", "no column flights.id", ll.InvalidArgument),
        (
            "DELETE FROM lake.air.flights WHERE EXISTS (SELECT 1 FROM range(3) r WHERE r.id = flights.id)",
            "depends on the row",
            ll.Unsupported,
        ),
        (
            "DELETE FROM lake.air.flights WHERE regexp_like(carrier, 'A')",
            "regexp_like(…) of columns, at line 1",
            ll.Unsupported,
        ),
        (
            "DELETE FROM lake.air.flights WHERE id = (SELECT id FROM lake.air.flights)",
            "several rows",
            ll.InvalidArgument,
        ),
        ("DELETE FROM lake.air.none WHERE id = 1", "TABLE_OR_VIEW_NOT_FOUND", ll.TableNotFound),
        ("DELETE FROM lake.air.`flights$snapshots`", "system table", ll.Unsupported),
        ("DELETE FROM lake.flights", "write lake.DATABASE.TABLE", ll.InvalidArgument),
        ("UPDATE lake.air.flights SET id = 1, ID = 2", "two values", ll.InvalidArgument),
        ("UPDATE lake.air.flights SET nobody = 2", "no column nobody", ll.InvalidArgument),
        ("TRUNCATE TABLE lake.air.flights PARTITION (id = 1)", "partitioned by month", ll.InvalidArgument),
        ("EXECUTE IMMEDIATE 'DELETE FROM lake.air.flights'", "EXECUTE IMMEDIATE on lake.air.flights", ll.Unsupported),
        ("BEGIN DELETE FROM lake.air.flights; END", "BEGIN … END on lake.air.flights", ll.Unsupported),
        ("CREATE VIEW v AS SELECT * FROM lake.air.flights", "CREATE VIEW over lake.air.flights", ll.Unsupported),
        ("CACHE TABLE c AS SELECT * FROM lake.air.flights", "CACHE over lake.air.flights", ll.Unsupported),
        ("ANALYZE TABLE lake.air.flights COMPUTE STATISTICS", "ANALYZE TABLE on lake.air.flights", ll.Unsupported),
        ("SELECT * FROM lake.air.none", "TABLE_OR_VIEW_NOT_FOUND", ll.TableNotFound),
        ("SELECT * FROM lake.air.flights VERSION AS OF 99", "99", ll.LakelatchError),
        ("SELECT * FROM lake.air.flights VERSION AS OF 'no'", "no", ll.LakelatchError),
        ("SELECT * FROM lake.air.flights PIVOT PIVOT", "lake", Exception),
    ],
)
def test_a_statement_that_cannot_be_carried_out_changes_nothing(
    spark: Any, flights: Any, statement: str, words: str, kind: type[Exception]
) -> None:
    before = flights.refresh().snapshot().id
    with pytest.raises(kind, match=words.replace("(", r"\(").replace(")", r"\)")):
        spark.sql(statement).collect()
    assert flights.refresh().snapshot().id == before


# ------------------------------------------------------------------------------------------------------------ MERGE


MERGE = "MERGE INTO lake.air.flights AS t USING {} AS s ON t.id = s.id "


@pytest.mark.parametrize(
    ("source", "clauses", "expected", "counts"),
    [
        (
            "(SELECT 1 AS month, 2L AS id, 'DL' AS carrier, 9.0D AS delay UNION ALL SELECT 3, 7L, 'B6', 1.0D)",
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            [(1, "AA", 2.0), (2, "DL", 9.0), (3, None, -3.5), (7, "B6", 1.0)],
            (2, 1, 0, 1),
        ),
        (
            "(SELECT id, 1 AS x FROM lake.air.flights VERSION AS OF 1)",
            "WHEN MATCHED AND s.x + t.delay > 2 THEN DELETE WHEN MATCHED THEN UPDATE SET delay = t.id, carrier = upper('x')"
            " WHEN NOT MATCHED BY SOURCE AND month = 2 THEN UPDATE SET delay = NULL",
            [(2, "X", 2.0), (3, None, None)],
            (3, 2, 1, 0),
        ),
        (
            "range(2, 6)",
            "WHEN NOT MATCHED AND id > 4 THEN INSERT (MONTH, id, carrier) VALUES (9, s.id, CASE WHEN s.id = 5 THEN 'five' END)"
            " WHEN NOT MATCHED BY SOURCE THEN DELETE",
            [(2, "UA", None), (3, None, -3.5), (5, "five", None)],
            (2, 0, 1, 1),
        ),
        (
            "(SELECT 2 AS ID, 5 AS Delay, 'x' AS extra, 1 AS month, 'c' AS carrier)",
            "WHEN MATCHED THEN UPDATE SET *",
            [(1, "AA", 2.0), (2, "c", 5.0), (3, None, -3.5)],
            (1, 1, 0, 0),
        ),
    ],
)
def test_a_merge_has_every_clause(
    spark: Any, flights: Any, source: str, clauses: str, expected: list[Any], counts: tuple[int, ...]
) -> None:
    before = flights.refresh().snapshot().id
    result = spark.sql(MERGE.format(source) + clauses)
    assert result.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert result.collect() == [counts]
    assert rows(spark.sql("SELECT id, carrier, delay FROM lake.air.flights")) == sorted(expected, key=repr)
    assert flights.refresh().snapshot().id == before + 1


def test_a_merge_takes_sources_of_every_kind(spark: Any, flights: Any) -> None:
    spark.range(1, 2).createOrReplaceTempView("one")
    delete = "ON flights.id = one.id WHEN MATCHED THEN DELETE"
    assert spark.sql(f"MERGE INTO lake.air.flights USING one {delete}").first()[0] == 1
    spark.sql(
        "WITH two AS (SELECT 2 AS id) MERGE INTO lake.air.flights t USING two s ON s.id = t.id WHEN MATCHED THEN DELETE"
    )
    spark.sql(
        "MERGE INTO lake.air.flights s USING lake.air.flights t ON t.id = s.id WHEN MATCHED THEN UPDATE SET delay = t.id"
    )
    assert rows(spark.sql("SELECT id, delay FROM lake.air.flights")) == [(3, 3.0)]
    spark.sql(
        "MERGE INTO lake.air.flights USING lake.air.flights@v1 b ON air.flights.id = b.id WHEN NOT MATCHED THEN INSERT *"
    )
    assert ids(spark.sql("SELECT id FROM lake.air.flights")) == [1, 2, 3]
    spark.catalog.dropTempView("one")


def test_a_merge_with_schema_evolution_adds_the_columns_of_its_source(spark: Any, flights: Any) -> None:
    source = "(SELECT 3 AS id, 'n' AS note)"
    spark.sql(MERGE.replace("MERGE", "MERGE WITH SCHEMA EVOLUTION").format(source) + "WHEN MATCHED THEN UPDATE SET *")
    assert rows(spark.sql("SELECT id, delay, note FROM lake.air.flights WHERE note IS NOT NULL")) == [(3, -3.5, "n")]


@pytest.mark.parametrize(
    ("source", "clauses", "words"),
    [
        ("(SELECT 1 AS id UNION ALL SELECT 1)", "WHEN MATCHED THEN UPDATE SET delay = 1", "change the same row"),
        ("(SELECT 1 AS id)", "WHEN MATCHED THEN UPDATE SET *", "source has no column month"),
        ("(SELECT 1 AS id)", "WHEN NOT MATCHED THEN INSERT *", "source has no column month"),
        ("(SELECT 1 AS id, 2 AS ID)", "WHEN MATCHED THEN DELETE", "two columns id"),
        ("(SELECT 1 AS id)", "WHEN MATCHED AND id = 1 THEN DELETE", "AMBIGUOUS_REFERENCE"),
        ("(SELECT 1 AS id)", "WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)", "no column t.id"),
        ("(SELECT 1 AS id)", "WHEN NOT MATCHED BY SOURCE AND s.id = 1 THEN DELETE", "no column s.id"),
    ],
)
def test_a_merge_that_cannot_be_carried_out_changes_nothing(
    spark: Any, flights: Any, source: str, clauses: str, words: str
) -> None:
    before = flights.refresh().snapshot().id
    with pytest.raises(ll.InvalidArgument, match=words):
        spark.sql(MERGE.format(source) + clauses)
    assert flights.refresh().snapshot().id == before


# ----------------------------------------------------------------------------------------------------------- INSERT


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO lake.air.flights VALUES (3, 4, 'DL', 1.5)", [1, 2, 3, 4]),
        ("INSERT INTO TABLE lake.air.flights (ID, month) VALUES (4, 3)", [1, 2, 3, 4]),
        ("INSERT INTO lake.air.flights BY NAME SELECT 4 AS Id, 3 AS month", [1, 2, 3, 4]),
        ("INSERT INTO lake.air.flights PARTITION (month = 3) SELECT 4, 'x', 1.0", [1, 2, 3, 4]),
        ("WITH x AS (SELECT 4 AS id) INSERT INTO lake.air.flights (month, id) SELECT 3, id FROM x", [1, 2, 3, 4]),
        ("FROM lake.air.flights INSERT INTO lake.air.flights (month, id) SELECT 3, id + 3 WHERE id = 1", [1, 2, 3, 4]),
        ("INSERT INTO lake.air.flights SELECT month, id + 3, carrier, delay FROM lake.air.flights@v1", [1, 2, 3, 4, 5]),
        ("INSERT OVERWRITE lake.air.flights SELECT 1, 9, 'x', 0.0", [9]),
        ("INSERT OVERWRITE lake.air.flights PARTITION (Month = 1) SELECT 9, 'x', 0.0", [3, 9]),
        ("INSERT OVERWRITE lake.air.flights SELECT * FROM lake.air.flights WHERE id > 1", [2, 3]),
        ("INSERT INTO lake.air.flights REPLACE WHERE month = 1 SELECT 1, 9, 'x', 0.0", [3, 9]),
        (
            "INSERT INTO lake.air.flights REPLACE WHERE flights.month = 2 SELECT * FROM lake.air.flights@v1 WHERE false",
            [1, 2],
        ),
    ],
)
def test_an_insert_is_one_commit(spark: Any, flights: Any, statement: str, expected: list[int]) -> None:
    before = flights.refresh().snapshot().id
    spark.sql(statement)
    assert ids(spark.sql("SELECT id FROM lake.air.flights")) == expected
    assert flights.refresh().snapshot().id == before + 1


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("INSERT INTO lake.air.flights VALUES (1)", "has 1 columns"),
        ("INSERT INTO lake.air.flights (id, ID, month, carrier) VALUES (1, 2, 3, 'x')", "two values"),
        ("INSERT INTO lake.air.flights PARTITION (month) SELECT 1, 2, 'x', 1.0", "has no value"),
        ("INSERT INTO lake.air.flights REPLACE WHERE id = 1 SELECT * FROM lake.air.flights", "only whole partitions"),
        ("INSERT INTO lake.air.flights REPLACE USING (id) SELECT * FROM lake.air.flights", "REPLACE USING"),
        ("INSERT OVERWRITE lake.air.flights PARTITION (month = 1) IF NOT EXISTS SELECT 1, 'x', 1.0", "IF NOT EXISTS"),
        ("INSERT INTO lake.air.flights REPLACE WHERE month = 1 SELECT 2, 9, 'x', 0.0", "month"),
        ("INSERT INTO lake.air.`flights$files` SELECT 1", "system table"),
    ],
)
def test_an_insert_that_cannot_be_carried_out_changes_nothing(
    spark: Any, flights: Any, statement: str, words: str
) -> None:
    before = flights.refresh().snapshot().id
    with pytest.raises(ll.LakelatchError, match=words):
        spark.sql(statement)
    assert flights.refresh().snapshot().id == before
