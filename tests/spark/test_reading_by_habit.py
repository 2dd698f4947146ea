"""Reads as Spark's users write them: filters on the frame, settings of the session, views, relative paths."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.reading import native
from lakelatch.spark.reading.native import by_folders
from lakelatch.spark.sessions.session import is_connect

pytestmark = pytest.mark.spark

ROUNDS = 10
PARTS = 4
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PATHS = "spark.sql.sources.parallelPartitionDiscovery.threshold"


@pytest.fixture(autouse=True)
def paths(spark: Any) -> Iterator[None]:
    """Under Connect, files are paths, and this many are not too many."""
    if is_connect(spark):
        spark.conf.set(PATHS, "1000")
    yield
    spark.conf.unset(PATHS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table of 40 files: 10 in each of 4 partitions. The rows of file n have `id` n."""
    url = str(tmp_path_factory.mktemp("small") / "table")
    schema = pa.schema([("part", pa.int32()), ("id", pa.int64()), ("s", pa.string())])
    table = ll.create_table(url, schema, partition_by=["part"])
    for number in range(ROUNDS):
        parts, ids = pa.array(range(PARTS), pa.int32()), [PARTS * number + part for part in range(PARTS)]
        table.append(pa.table({"part": parts, "id": ids, "s": [f"s{n}" for n in ids]}))
    assert table.plan().file_count == ROUNDS * PARTS > 32
    return url


def plan_of(df: Any) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        df.explain("formatted")
    return out.getvalue()


def ids_of(df: Any) -> list[int]:
    return sorted(row.id for row in df.select("id").collect())


def test_a_filter_on_the_frame_reaches_partitions_and_files(spark: Any, small: str) -> None:
    """`lake.read(url).where(...)` reads as little as `lake.read(url, where=...)`, also where files are many and small."""
    frame = lake.read(spark, small).where("part = 1 AND id > 20").select("s")
    assert sorted(row.s for row in frame.collect()) == sorted(f"s{n}" for n in range(21, 40, 4))
    plan = plan_of(frame)
    assert "PartitionFilters: [isnotnull(part" in plan and "PushedFilters: [IsNotNull(id), GreaterThan(id,20)]" in plan
    assert "struct<id:bigint,s:string>" in plan and "ArrowInPandas" not in plan and "MapInArrow" not in plan
    if not is_connect(spark):
        assert len(lake.read(spark, small).inputFiles()) == ROUNDS * PARTS
    assert ids_of(lake.read(spark, small, where="part >= 2")) == [n for n in range(40) if n % 4 >= 2]
    assert lake.read(spark, small).columns == ["part", "id", "s"]


def test_under_connect_many_paths_would_need_a_job(spark: Any, small: str) -> None:
    """Where Spark would start a task for each file only to look whether it exists, Arrow reads them for less."""
    spark.conf.unset(PATHS)
    frame = lake.read(spark, small)
    assert ("FileScan parquet" in plan_of(frame) or "Scan parquet" in plan_of(frame)) != is_connect(spark)
    assert frame.where("part = 1").count() == ROUNDS


def test_only_files_of_the_plan_are_read(spark: Any, small: str, tmp_path: Path) -> None:
    """G4: Whatever lies in the folders beside them is of another snapshot or of nobody, and a missing file is an error."""
    url = str(tmp_path / "table")
    shutil.copytree(small, url)
    table = ll.open_table(url)
    files = sorted(Path(url).glob("part=*/bucket-0/*.parquet"))
    shutil.copy(files[0], files[0].with_name("data-of-nobody.parquet"))
    shutil.copytree(files[0].parent.parent, Path(url) / "part=77")
    before = lake.read(spark, url)
    table.append(pa.table({"part": pa.array([1], pa.int32()), "id": [1000], "s": ["later"]}))
    assert ids_of(lake.read(spark, url)) == [*range(40), 1000]
    assert ids_of(before) == ids_of(lake.read(spark, url, snapshot=ROUNDS)) == list(range(40))
    shutil.copy(files[0], files[-1].with_name(files[0].name))  # a name of the plan, in another folder of the plan
    assert ids_of(lake.read(spark, url, snapshot=ROUNDS)) == list(range(40))
    files[0].unlink()
    with pytest.raises(Exception, match=files[0].name):
        lake.read(spark, url).collect()


ISO = {"partition.legacy-name": "false"}


@pytest.mark.parametrize(
    ("kind", "values", "options", "known"),
    [
        (pa.int64(), [-5, 0, 2**62], {}, 3),
        (pa.int16(), [-5, None], {}, 1),
        (pa.string(), ["AA", "a b", "2024-01-01", "007", "x/y", "100%", "a:b", "Zürich", "z ", "1=2", "%41"], {}, 11),
        (pa.string(), ["AA", None, "__HIVE_DEFAULT_PARTITION__", "", "a\nb", "a*"], {}, 2),
        (pa.date32(), [dt.date(2024, 7, 5), dt.date(1969, 12, 31)], {}, 0),
        (pa.date32(), [dt.date(2024, 7, 5), dt.date(1969, 12, 31), None], ISO, 2),
        (pa.bool_(), [True, False, None], {}, 2),
        (pa.decimal128(9, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1234567.89"), None], {}, 3),
        (pa.timestamp("us"), [dt.datetime(2024, 7, 5, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 123456)], {}, 2),
        (pa.timestamp("us"), [dt.datetime(2024, 7, 5, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 123456)], ISO, 2),
        (pa.timestamp("us", "UTC"), [dt.datetime(2024, 7, 5, 1, tzinfo=dt.timezone.utc)], ISO, 0),
        (pa.float64(), [1.5, -0.0], {}, 0),
    ],
    ids=[
        "numbers",
        "small",
        "texts",
        "odd",
        "legacy",
        "dates",
        "booleans",
        "decimals",
        "legacy-times",
        "times",
        "zoned",
        "floats",
    ],
)
def test_partition_values_are_those_of_the_manifest(
    spark: Any, tmp_path: Path, kind: Any, values: list[Any], options: dict[str, str], known: int
) -> None:
    """G4: Spark reads a value from a folder's name only where that is the value that the manifest has."""
    url = str(tmp_path / "table")
    schema = pa.schema([("k", kind), ("id", pa.int64())])
    table = ll.create_table(url, schema, partition_by=["k"], options=options)
    for number in range(2):
        rows = pa.table({"k": pa.array(values, kind), "id": [10 * number + i for i in range(len(values))]})
        table.append(rows)
    _, from_folders, others = by_folders(table.plan().splits, table.schema)
    assert (len(from_folders), len(others)) == (known, len(table.plan().splits) - known)
    got = lake.read(spark, url).toArrow().select(["k", "id"]).to_pylist()
    assert sorted(got, key=json_of) == sorted(table.to_arrow().to_pylist(), key=json_of)


@pytest.mark.parametrize("odd", [None, "__HIVE_DEFAULT_PARTITION__", "a\nb"], ids=["null", "hive", "line"])
def test_a_join_prunes_partitions_beside_an_odd_one(spark: Any, tmp_path: Path, odd: str | None) -> None:
    """What a query learns of another table leaves out partitions, although one of them is not known by its folder."""
    url = str(tmp_path / "facts")
    values = [*map(str, range(8)), odd]
    table = ll.create_table(url, pa.schema([("p", pa.string()), ("v", pa.int64())]), partition_by=["p"])
    table.append(pa.table({"p": pa.array(values, pa.string()), "v": range(9)}))
    days = str(tmp_path / "days")
    spark.range(8).selectExpr("cast(id as string) as p", "id % 4 as y").write.parquet(days)
    if is_connect(spark):
        spark.conf.set(PATHS, "1000")
    joined = lake.read(spark, url).join(spark.read.parquet(days).where("y = 3"), "p")
    assert sorted(row.v for row in joined.collect()) == [3, 7]
    assert "dynamicpruning" in plan_of(joined).lower()
    assert ("Union" in plan_of(joined)) == (odd is not None)  # no row of a null partition is in a join


def test_columns_that_are_null_in_all_odd_partitions_are_told(spark: Any, tmp_path: Path) -> None:
    """A condition finds the rows that it finds in the table's files, whichever column is null."""
    kind = pa.schema([("p", pa.date32()), ("q", pa.string()), ("id", pa.int32())])
    table = ll.create_table(str(tmp_path / "t"), kind, partition_by=["p", "q"])
    day = dt.date(2024, 1, 1)
    found = [(day, "a"), (None, "a"), (None, "x:y"), (None, None)]
    table.append(pa.table({"p": [p for p, _ in found], "q": [q for _, q in found], "id": range(4)}, kind))
    frame = lake.read(spark, table.url)
    assert frame.where("p IS NULL AND q >= 'a'").count() == 2
    assert frame.where("p <=> NULL").selectExpr("count(p)", "count(q)", "sum(id)").first() == (0, 2, 6)
    assert frame.where("p >= '2020-01-01'").collect() == [(day, "a", 0)]
    lake.write(frame.where("q IS NOT NULL"), str(tmp_path / "copy"), options={})
    assert ll.open_table(str(tmp_path / "copy")).count() == 3


@pytest.mark.parametrize("folder", ["table", "a=1", "a b", "50%"])
def test_the_folder_of_a_table_is_no_partition(spark: Any, tmp_path: Path, folder: str) -> None:
    """A table lies in a folder of any name that its store takes."""
    url = str(tmp_path / folder)
    table = ll.create_table(url, pa.schema([("p", pa.int32()), ("id", pa.int64())]), partition_by=["p"])
    table.append(pa.table({"p": pa.array([1, 2, None], pa.int32()), "id": [1, 2, 3]}))
    found = lake.read(spark, url)
    assert found.columns == ["p", "id"]
    assert sorted((row.id, row.p) for row in found.collect()) == [(1, 1), (2, 2), (3, None)]


def test_a_session_that_ignores_the_logs_of_sinks_reads_all_rows(spark: Any, small: str) -> None:
    """G4: The way by which Spark learns the files can be switched off; then there is another."""
    for switched in ("true", "false"):
        if not is_connect(spark):
            spark.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", switched)
        frame = lake.read(spark, small)
        assert (ids_of(frame), ids_of(frame.where("part = 2"))) == (list(range(40)), list(range(2, 40, 4)))
    spark.conf.unset("spark.sql.streaming.fileStreamSink.ignoreMetadata")


@pytest.mark.classic
def test_a_log_that_is_not_believed_is_an_error(spark: Any, small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """G4: A Spark that passes over the log would find no file of the table: never a frame without rows."""
    monkeypatch.setattr(native, "_NO_LOG", "spark.lakelatch.no.such.setting")
    spark.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", "true")
    try:
        with pytest.raises(Exception, match="the-log-was-ignored"):
            lake.read(spark, small).count()
    finally:
        spark.conf.unset("spark.sql.streaming.fileStreamSink.ignoreMetadata")


@pytest.mark.classic
def test_a_frame_asks_the_jvm_little_for_each_column(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message for each: twelve, as for columns of Spark's functions, made frames over wide tables cost seconds."""
    from py4j.clientserver import JavaClient

    schema = pa.schema([("part", pa.int32()), *((f"c.{i}`", pa.int64()) for i in range(200))])
    table = ll.create_table(str(tmp_path / "t"), schema, partition_by=["part"])
    table.append(pa.Table.from_pylist([dict.fromkeys(schema.names, part) for part in range(3)], schema))
    asked = 0
    send = JavaClient.send_command

    def counted(self: Any, command: str, *given: Any, **named: Any) -> Any:
        nonlocal asked
        asked += not command.startswith("m\n")  # what is let go may be of any test before
        return send(self, command, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(JavaClient, "send_command", counted)
        frame = lake.read(spark, table.url)
    assert asked < 2 * 200
    assert frame.columns == schema.names
    assert sorted(tuple(row) for row in frame.collect()) == [(part,) * 201 for part in range(3)]


def json_of(row: Any) -> str:
    return json.dumps(row, default=str)


def test_a_filtered_query_leaves_the_frame_and_its_view_whole(spark: Any, small: str) -> None:
    """G4: With Spark's setting for filters on, 4.1 would show what one query has planned to the queries after it."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        lake.register(spark)
        frame = spark.read.format("lakelatch").load(small)
        frame.createOrReplaceTempView("small")
        for _ in range(2):
            assert ids_of(frame.where("part = 1")) == list(range(1, 40, 4))
            assert frame.count() == 40
        joined = spark.sql(
            "SELECT a.id x, b.id y FROM small a JOIN small b ON a.id + 1 = b.id WHERE a.part = 1 AND b.part = 2"
        )
        assert sorted(row.x for row in joined.collect()) == list(range(1, 40, 4))
    finally:
        spark.conf.unset(PUSHDOWN)


def test_the_source_reads_what_its_options_ask_for(spark: Any, small: str) -> None:
    """Options reach partitions, files and columns where Spark's filters do not."""
    lake.register(spark)
    source = spark.read.format("lakelatch").option("where", "part = 1 AND id > 20")
    assert ids_of(source.load(small)) == list(range(21, 40, 4))
    chosen = source.option("columns", "s, part").load(small)
    assert chosen.columns == ["s", "part"] and chosen.count() == 5
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW part_three USING lakelatch OPTIONS (path '{small}', where 'part = 3')")
    assert spark.sql("SELECT count(*) FROM part_three").collect()[0][0] == ROUNDS
    with pytest.raises(Exception, match=r"no column 'prt'.*did you mean 'part'"):
        source.option("where", "prt = 1").load(small).count()
    with pytest.raises(Exception, match="do not go with CREATE TABLE"):
        spark.sql(f"CREATE TABLE part_one USING lakelatch OPTIONS (path '{small}', where 'part = 1')")
    with pytest.raises(Exception, match="'where' goes with reading only"):
        chosen.write.format("lakelatch").mode("append").option("where", "part = 1").save(small)


def test_relative_paths_begin_where_the_source_was_registered(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processes that Spark starts run in other folders, under Connect even those of another program."""
    monkeypatch.chdir(tmp_path)
    lake.register(spark)
    lake.write(spark.range(3), "lake/flights", options={})
    spark.range(3, 5).write.format("lakelatch").mode("append").save("lake/flights")
    for df in (lake.read(spark, "lake/flights"), spark.read.format("lakelatch").load("lake/flights")):
        assert ids_of(df) == [0, 1, 2, 3, 4]
    assert ll.open_table(str(tmp_path / "lake" / "flights")).count() == 5


def test_views_after_a_write(spark: Any, tmp_path: Path) -> None:
    """G4: A view keeps its snapshot; made again, or made of a new frame, it shows the new rows."""
    lake.register(spark)
    url = str(tmp_path / "table")
    lake.write(spark.range(3), url, options={})
    create = f"CREATE OR REPLACE TEMPORARY VIEW ids USING lakelatch OPTIONS (path '{url}')"
    spark.sql(create)
    counted = "SELECT count(*) FROM ids"
    assert spark.sql(counted).collect()[0][0] == 3
    spark.range(3, 5).write.format("lakelatch").mode("append").save(url)
    spark.sql("REFRESH TABLE ids")
    assert spark.sql(counted).collect()[0][0] == 3, "if Spark refreshes it now, the page can say so"
    spark.sql(create)
    assert spark.sql(counted).collect()[0][0] == 5
    lake.write(spark.range(5, 6), url)
    lake.read(spark, url).createOrReplaceTempView("ids")
    assert spark.sql(counted).collect()[0][0] == 6
