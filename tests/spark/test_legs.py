"""Both legs of a read give the rows of `Table.to_arrow`, for any predicate and type, and for tables of Apache Paimon."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from figures import NIGHTLY
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from plans import plan_of
from predicates import FIELDS, predicates, tables

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.expressions.binding import bind
from lakelatch.core.expressions.evaluate import to_arrow_mask
from lakelatch.spark.predicate import Untranslatable, to_column
from lakelatch.spark.reading import native, scan
from lakelatch.spark.types import arrow_field_for_spark, batch_for_spark, from_spark_schema, spark_schema

pytestmark = pytest.mark.spark


@pytest.fixture
def arrow_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "NATIVE_FILES", -1)
    monkeypatch.setattr(scan, "NATIVE_FILE_BYTES", 1 << 60)


def is_native(df: Any) -> bool:
    plan = plan_of(df)
    assert ("FileScan parquet" in plan) != ("MapInArrow" in plan), plan
    return "FileScan parquet" in plan


def rows_of(df: Any) -> list[str]:
    """Sorted rows in Spark's JSON, which distinguishes null, NaN and -0.0 and shows all digits."""
    table = df.toArrow()
    return sorted(json.dumps(row, default=repr) for row in table.to_pylist())


def plain(schema: Any) -> Any:
    """The columns without their metadata, which say at which snapshot they were read."""
    return type(schema)([type(f)(f.name, f.dataType, f.nullable) for f in schema.fields])


def expected_rows(table: Any, columns: list[str] | None = None, where: Any = None) -> list[str]:
    """The same for `Table.to_arrow`, converted to Spark's types."""
    fields = [f for f in table.schema.fields if columns is None or f.name in columns]
    schema = pa.schema([arrow_field_for_spark(f) for f in fields])
    batches = [batch_for_spark(b, fields, schema) for b in table.to_batches(columns=columns, where=where)]
    return sorted(json.dumps(row, default=repr) for row in pa.Table.from_batches(batches, schema=schema).to_pylist())


# --------------------------------------------------------------------------------------------------------- predicates

# Each example is a Spark job, so failing examples are not shrunk.
JOBS = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])


@settings(JOBS, max_examples=6 if NIGHTLY else 3)
@given(table=tables(max_rows=8).filter(len), conditions=st.lists(predicates(), min_size=40, max_size=40))
def test_conditions_keep_the_same_rows_in_spark_and_in_arrow(
    spark: Any, table: pa.Table, conditions: list[Any]
) -> None:
    """Both legs agree on NaN, signed zeros, nulls in IN, LIKE, and literals between two values of the column's type."""
    table = table.append_column("n_row", pa.array(range(table.num_rows), pa.int64()))
    frame = spark.createDataFrame(table)
    columns, masks = [], []
    for condition in conditions:
        bound = bind(condition, FIELDS)
        with contextlib.suppress(Untranslatable):
            columns.append(to_column(bound, FIELDS).alias(f"c{len(columns)}"))
            masks.append((bound, to_arrow_mask(bound, table).to_pylist()))
    found = frame.select("n_row", *columns).orderBy("n_row").collect()
    for i, (bound, mask) in enumerate(masks):
        assert [row[i + 1] is True for row in found] == mask, str(bound)


@settings(JOBS, max_examples=2 if NIGHTLY else 1)
@given(table=tables(max_rows=30), conditions=st.lists(predicates(), min_size=6, max_size=6))
def test_filters_that_reach_the_files_keep_the_same_rows(
    spark: Any, tmp_path_factory: pytest.TempPathFactory, table: pa.Table, conditions: list[Any]
) -> None:
    """Spark rewrites conditions when it pushes them into Parquet; the rows must stay the same."""
    url = str(tmp_path_factory.mktemp("pushed") / "table")
    made = ll.create_table(url, table.schema)
    made.append(table)
    for condition in conditions:
        got = rows_of(lake.read(spark, url, where=condition))
        assert got == expected_rows(made, where=condition), str(condition)


# -------------------------------------------------------------------------------------------------------------- types

EVERY = ll.Schema(
    [
        ("b", "BOOLEAN"),
        ("i8", "TINYINT"),
        ("i16", "SMALLINT"),
        ("i32", "INT"),
        ("i64", "BIGINT"),
        ("f32", "FLOAT"),
        ("f64", "DOUBLE"),
        ("d9", "DECIMAL(9, 2)"),
        ("d38", "DECIMAL(38, 10)"),
        ("c", "CHAR(3)"),
        ("vc", "VARCHAR(10)"),
        ("s", "STRING"),
        ("bin", "BINARY(2)"),
        ("by", "BYTES"),
        ("day", "DATE"),
        ("t3", "TIMESTAMP(3)"),
        ("t6", "TIMESTAMP(6)"),
        ("l3", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
        ("l6", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
    ]
)


def test_native_types(spark: Any, tmp_path: Path) -> None:
    """Spark's reader reads every type that it supports, with the same values as Arrow."""
    url = str(tmp_path / "table")
    table = ll.create_table(url, EVERY)
    row = [
        True,
        -128,
        -32768,
        2**31 - 1,
        -(2**63),
        1.5,
        float("nan"),
        "1234567.89",
        "1.5",
        "abc",
        "ä",
        "",
        b"ab",
        b"\xff",
    ]
    moment = "1969-12-31T23:59:59.999"
    values = [*row, "2024-02-29", moment, moment, f"{moment}Z", f"{moment}Z"]
    text = pa.table({f.name: [v, None] for f, v in zip(EVERY.fields, values, strict=True)})
    table.append(text)
    found = lake.read(spark, url)
    assert is_native(found)
    assert rows_of(found) == expected_rows(table)
    assert plain(found.schema) == spark_schema(EVERY.fields)


def test_types_that_only_arrow_reads(spark: Any, tmp_path: Path) -> None:
    """Nanoseconds are rounded down to Spark's microseconds after the filter; TIME is milliseconds of the day."""
    url = str(tmp_path / "table")
    schema = ll.Schema([("k", "INT"), ("n", "TIMESTAMP(9)"), ("t", "TIME(3)")])
    table = ll.create_table(url, schema)
    nanos = pa.array([-1, 1_001, None], pa.timestamp("ns"))
    table.append(pa.table({"k": [1, 2, 3], "n": nanos, "t": pa.array([0, 86_399_999, None], pa.time32("ms"))}))
    found = lake.read(spark, url)
    assert not is_native(found)
    assert found.dtypes[1:3] == [("n", "timestamp_ntz"), ("t", "int")]
    got = {row.k: (str(row.n), row.t) for row in found.collect()}
    assert got[1] == ("1969-12-31 23:59:59.999999", 0)
    assert got[2] == ("1970-01-01 00:00:00.000001", 86_399_999)
    assert got[3] == ("None", None)
    above = lake.read(spark, url, ["k"], where="n > '1970-01-01 00:00:00.000001'")
    assert [row.k for row in above.collect()] == [2], "the filter sees all nine digits"
    assert is_native(lake.read(spark, url, ["k"])), "columns that are not read do not matter"
    lake.write(spark.sql("SELECT 4 k, 1000 t"), url)
    with pytest.raises(ll.InvalidArgument, match="column 't': 86400000"):
        lake.write(spark.sql("SELECT 5 k, 86400000 t"), url)
    assert lake.read(spark, url).count() == 4


def test_the_type_time_if_the_session_supports_it(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    ll.create_table(url, ll.Schema([("t", "TIME(3)")])).append(pa.table({"t": pa.array([1500], pa.time32("ms"))}))
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        found = lake.read(spark, url)
        assert [str(row.t) for row in found.collect()] == ["00:00:01.500000"]
        lake.write(spark.sql("SELECT TIME'01:02:03.004' t"), url)
        assert lake.read(spark, url).count() == 2
        assert from_spark_schema(found.schema)[0].type.root == "TIME"  # type: ignore[union-attr]
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")


@pytest.mark.parametrize("leg", ["native", "arrow"])
def test_variants_survive_a_round_trip(spark: Any, tmp_path: Path, leg: str, request: pytest.FixtureRequest) -> None:
    if leg == "arrow":
        request.getfixturevalue("arrow_only")
    url = str(tmp_path / "table")
    df = spark.sql('SELECT 1 k, parse_json(\'{"a": [1, null, "x"]}\') v UNION ALL SELECT 2, NULL')
    lake.write(df, url, options={})
    assert is_native(lake.read(spark, url)) == (leg == "native")
    found = lake.read(spark, url).selectExpr("k", "to_json(v) j", "variant_get(v, '$.a[2]', 'string') x")
    assert sorted(map(tuple, found.collect())) == [(1, '{"a":[1,null,"x"]}', "x"), (2, None, None)]


# ------------------------------------------------------------------------------------------------------------- tables

GOLDEN = [
    "paimon-java-1.4.2/append_types_parquet",
    "paimon-java-1.4.2/append_nested_parquet",
    "paimon-java-1.4.2/append_evolve_parquet",
    "paimon-java-1.4.2/append_evolve_nested_parquet",
    "paimon-java-1.4.2/append_part_string_special",
    "paimon-java-1.4.2/append_part_ts_decimal",
    "paimon-java-1.4.2/append_part_date_int_bool",
    "paimon-java-1.4.2/append_path_directory",
    "paimon-java-1.4.2/append_prefix_suffix",
    "paimon-java-1.4.2/append_many_small_files",
    "paimon-java-0.7.0-incubating/append_types_parquet",
]
BY_ARROW = [
    "paimon-java-1.4.2/append_dv",
    "paimon-java-1.4.2/append_types_orc",
    "paimon-java-1.4.2/append_nested_avro",
    "paimon-java-1.4.2/append_blob",
]
"""Tables of which Spark's reader may read no file."""
MIXED = ["paimon-java-1.4.2/append_mixed_formats", "paimon-java-1.4.2/append_data_evolution"]
"""Tables of which Spark's reader reads some files, and Arrow the others."""


@pytest.mark.parametrize("table_id", [*GOLDEN, *BY_ARROW, *MIXED])
def test_tables_of_apache_paimon(spark: Any, golden: Callable[[str], Any], table_id: str) -> None:
    """On either leg, the rows are those of `Table.to_arrow`, which golden tests compare with Java's."""
    path = str(golden(table_id).path)
    table = ll.open_table(path)
    assert rows_of(lake.read(spark, path)) == expected_rows(table)
    first = table.schema.names[0]
    assert lake.read(spark, path, columns=[first]).columns == [first]
    assert lake.read(spark, path, columns=[]).count() == table.count()


def test_only_files_that_need_it_leave_the_native_leg(spark: Any, golden: Callable[[str], Any]) -> None:
    """In a table of three formats Spark reads the Parquet file, but not files with deleted rows or with only some columns."""
    for table_id in MIXED:
        plan = plan_of(lake.read(spark, str(golden(table_id).path)))
        assert "FileScan parquet" in plan and "MapInArrow" in plan
    for table_id in BY_ARROW:
        assert not is_native(lake.read(spark, str(golden(table_id).path)))


def test_partition_columns_of_files_that_came_from_hive(spark: Any, tmp_path: Path) -> None:
    """Files from Hive lack their partition columns, so the values come from the manifest (format/data-files §1)."""
    url = str(tmp_path / "table")
    table = ll.create_table(url, pa.schema([("part", pa.int32()), ("k", pa.int64())]), partition_by=["part"])
    table.append(pa.table({"part": pa.array([7], pa.int32()), "k": [1]}))
    assert is_native(lake.read(spark, url))
    file = scan.Split(*split_with_name(table, "part-00000.snappy.parquet"))
    frame = scan.Scan(spark, table, table.plan(), None, {})
    assert not frame._has_plain_names(file)
    assert scan.Scan(spark, table, table.plan(), ["k"], {})._has_plain_names(file), "no partition column is read"


def split_with_name(table: Any, name: str) -> tuple[Any, ...]:

    split = table.plan().splits[0]
    files = (split.files[0]._replace(file_name=name),)
    return split.partition, split.partition_path, 0, -1, files, (f"part=7/bucket-0/{name}",)


def test_odd_names_and_paths(spark: Any, tmp_path: Path) -> None:
    """Dots, backticks, blanks and glob characters in columns, partitions and folders; Spark treats paths as patterns."""
    url = str(tmp_path / "a table [1]{x}")
    table = ll.create_table(url, pa.schema([("a.b`c", pa.int64()), ("p q", pa.string())]), partition_by=["p q"])
    table.append(pa.table({"a.b`c": [1, 2, 3], "p q": ["x/y*z", "100%", None]}))
    lake.write(lake.read(spark, url), url)
    assert rows_of(lake.read(spark, url, where=ll.col("a.b`c") >= 2)) == expected_rows(
        table, where=ll.col("a.b`c") >= 2
    )
    plain = str(tmp_path / "plain")
    lake.write(lake.read(spark, url), plain, partition_by=["p q"])
    found = lake.read(spark, plain, where=ll.col("a.b`c") >= 2)
    assert is_native(found)
    assert rows_of(found) == expected_rows(ll.open_table(plain), where=ll.col("a.b`c") >= 2)


def test_names_that_differ_only_in_case(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    ll.create_table(url, pa.schema([("a", pa.int64()), ("A", pa.int64())])).append(pa.table({"a": [1], "A": [2]}))
    with pytest.raises(ll.Unsupported, match="caseSensitive"):
        lake.read(spark, url)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert [tuple(row) for row in lake.read(spark, url).collect()] == [(1, 2)]
        lake.write(spark.sql("SELECT 20 A, 10 a"), url)
        assert sorted(map(tuple, lake.read(spark, url).collect())) == [(1, 2), (10, 20)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_frame_shows_one_snapshot(spark: Any, tmp_path: Path) -> None:
    """G4: Rows that are committed after the frame was created are not in it."""
    url = str(tmp_path / "table")
    table = ll.create_table(url, pa.schema([("k", pa.int64())]))
    table.append(pa.table({"k": [1]}))
    frame = lake.read(spark, url)
    table.append(pa.table({"k": [2]}))
    assert frame.count() == 1
    assert lake.read(spark, url).count() == 2


@pytest.mark.usefixtures("arrow_only")
def test_the_arrow_leg_alone(spark: Any, tmp_path: Path) -> None:
    """Column order, filters, no columns and an empty table give the same result as on the native leg."""
    url = str(tmp_path / "table")
    table = ll.create_table(url, EVERY)
    assert lake.read(spark, url).count() == 0
    assert plain(lake.read(spark, url).schema) == spark_schema(EVERY.fields)
    table.append(pa.table({"i64": list(range(100)), "s": [str(i) for i in range(100)]}))
    found = lake.read(spark, url, ["s", "i64"], "i64 >= 98")
    assert found.columns == ["s", "i64"]
    assert not is_native(found)
    assert sorted(map(tuple, found.collect())) == [("98", 98), ("99", 99)]
    assert lake.read(spark, url, [], "i64 >= 98").count() == 2


def test_a_file_with_minus_zero_alone_is_found(spark: Any, tmp_path: Path) -> None:
    """G4: Parquet's dictionaries and bounds have -0.0 apart from 0.0, and Spark asks them before it compares."""
    nested = pa.struct([("x", pa.float64())])
    schema = pa.schema([("n", pa.int32()), ("d", pa.float64()), ("f", pa.float32()), ("st", nested)])
    table = ll.create_table(str(tmp_path / "t"), schema)
    for n, zero in enumerate((-0.0, 0.0, 7.0)):
        table.append(pa.table({"n": [n] * 9, "d": [zero] * 9, "f": [zero] * 9, "st": [{"x": zero}] * 9}, schema))
    for column in ("d", "f", "st.x"):
        for test in ("= 0", "<> 0", "< 0", "<= 0", ">= 0", "> 0", "IN (0, 5)", "BETWEEN 0 AND 1", "= -0.0"):
            where = f"{column} {test}"
            found = sorted(row.n for row in lake.read(spark, table.url, where=where).collect())
            assert found == sorted(table.to_arrow(["n"], where)["n"].to_pylist()), where
            assert bool(found) == (test != "< 0")


@pytest.mark.classic
@pytest.mark.parametrize("small", [True, False])
def test_filters_are_not_looked_up_in_small_files(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: bool
) -> None:
    """In dictionaries, page indexes and bloom filters, for which each file is read once more; the rows are the same."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("a", pa.int64())]))
    for value in range(3):
        table.append(pa.table({"a": [value] * 100}))
    if not small:
        monkeypatch.setattr(native, "SMALL_FILE_BYTES", 1)
    read = lake.read(spark, table.url)
    options = read._jdf.queryExecution().optimizedPlan().collectLeaves().head().relation().options()
    for looks in ("dictionary", "columnindex", "bloom"):
        assert options.contains(f"parquet.filter.{looks}.enabled") == small
    assert read.where("a = 1").count() == 100
