"""Writes and reads DataFrames on a real session: rows, identities, failures, legs. Runs again under Spark Connect."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.sessions.session import FileSystems

pytestmark = pytest.mark.spark
DDL = "part int, k bigint, v string"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def frame(spark: Any, rows: list[tuple[Any, ...]], ddl: str = DDL) -> Any:
    return spark.createDataFrame(rows, ddl)


def contents(url: str) -> list[tuple[Any, ...]]:
    table = ll.open_table(url).to_arrow()
    return sorted(zip(*(table[name].to_pylist() for name in table.schema.names), strict=True), key=repr)


def data_files(url: str) -> set[str]:
    return {path.name for path in Path(url).rglob("data-*")}


def failing(spark: Any, rows: int, url: str) -> Any:
    """A frame of two tasks, one of which fails after the other has written its file."""
    before = len(data_files(url))

    def fail_late(batches: Any) -> Any:
        import time
        from pathlib import Path

        from pyspark import TaskContext

        for batch in batches:
            context = TaskContext.get()
            if context is not None and context.partitionId() == 1:
                deadline = time.monotonic() + 60
                while len(list(Path(url).rglob("data-*"))) == before and time.monotonic() < deadline:
                    time.sleep(0.1)
                time.sleep(3)  # Spark must hear of the other task's files: those of a task that it kills are orphans
                raise ValueError("planned failure")
            yield batch

    return spark.range(rows).selectExpr("1 part", "id k", "'x' v").repartition(2).mapInArrow(fail_late, DDL)


def test_each_mode_replaces_the_right_rows(spark: Any, url: str) -> None:
    """Append, and static, partial, dynamic and whole-table overwrite are one commit each; the frame may omit the partition."""
    lake.write(frame(spark, [(1, 1, "a"), (2, 2, "b")]), url, partition_by=["part"])
    lake.write(frame(spark, [(1, 3, "c")]), url)
    assert contents(url) == [(1, 1, "a"), (1, 3, "c"), (2, 2, "b")]
    lake.write(frame(spark, [(9, "d")], "k bigint, v string"), url, mode="overwrite", partition={"part": 1})
    assert contents(url) == [(1, 9, "d"), (2, 2, "b")]
    lake.write(frame(spark, [(2, 5, "e"), (3, 6, None)]), url, mode="overwrite-partitions")
    assert contents(url) == [(1, 9, "d"), (2, 5, "e"), (3, 6, None)]
    lake.write(frame(spark, [(7, 7, "z")]), url, mode="overwrite", partition={})
    assert contents(url) == [(7, 7, "z")]
    kinds = [s.commit_kind for s in ll.open_table(url).snapshots()]
    assert kinds == ["APPEND", "APPEND", "OVERWRITE", "OVERWRITE", "OVERWRITE"]


def test_a_missing_table_is_created_only_on_request(spark: Any, url: str) -> None:
    with pytest.raises(ll.TableNotFound):
        lake.write(frame(spark, [(1, 1, "a")]), url)
    lake.write(frame(spark, [(1, 1, "a")]), url, options={"commit.max-retries": "3"})
    assert ll.open_table(url).options["commit.max-retries"] == "3"


def test_a_misspelt_table_option_creates_no_table(spark: Any, url: str) -> None:
    with pytest.raises(ll.InvalidArgument, match=r"did you mean 'snapshot\.time-retained'"):
        lake.write(frame(spark, [(1, 1, "a")]), url, options={"snapshot.time-retaned": "1 h"})
    assert not ll.is_table(url)


def test_a_column_that_another_handle_added_is_read_and_written(spark: Any, url: str) -> None:
    """By Spark, by the data source, and by a handle that was opened before the change."""
    lake.write(frame(spark, [(1, 1, "a")]), url, options={})
    before, other = ll.open_table(url), ll.open_table(url)
    other.alter(ll.add_column("w", "INT"))
    lake.write(frame(spark, [(2, 2, "b", 5)], f"{DDL}, w int"), url)
    lake.register(spark)
    expected = [(1, None), (2, 5)]
    for found in (lake.read(spark, url), spark.read.format("lakelatch").load(url)):
        assert sorted((row.k, row.w) for row in found.collect()) == expected
    assert sorted(zip(*before.to_arrow(columns=["k", "w"]).to_pydict().values(), strict=True)) == expected


def test_one_task_writes_all_rows_of_a_bucket(spark: Any, url: str) -> None:
    """Each partition and bucket gets one file, whatever the frame's number of tasks and type of keys."""
    schema = ll.Schema([("part", "INT"), ("k", "BIGINT"), ("t", "TIME(3)"), ("v", "STRING")])
    ll.create_table(url, schema, partition_by="part", options={"bucket": "3", "bucket-key": "t,k"})
    rows = spark.range(60).repartition(4).selectExpr("id % 2 part", "cast(id as int) k", "cast(id as int) t", "'x' v")
    lake.write(rows, url)
    lake.write(rows.drop("part"), url, mode="overwrite", partition={"part": 1})
    table = ll.open_table(url)
    places = [(e.partition, e.bucket) for e in table.entries()]
    assert len(places) == len(set(places)) == 6
    assert {e.total_buckets for e in table.entries()} == {3}
    assert table.count() == 90
    assert sum(table.count(where=ll.col("k") == k) for k in range(60)) == 90
    with pytest.raises(Exception, match=r"column 't'"):
        lake.write(spark.range(1).selectExpr("1 part", "id k", "-1 t"), url)
    assert data_files(url) >= {e.file.file_name for e in table.entries()}
    assert table.snapshot() is not None and table.snapshot().id == 2


def test_columns_are_matched_by_name(spark: Any, url: str) -> None:
    """Spark matches Arrow columns by position, so two columns of one type must not be swapped."""
    lake.write(frame(spark, [("a", "b")], "x string, y string"), url, options={})
    lake.write(frame(spark, [("B", "A")], "y string, x string"), url)
    lake.write(frame(spark, [("only",)], "y string"), url)
    assert contents(url) == [("A", "B"), ("a", "b"), (None, "only")]
    with pytest.raises(ll.InvalidArgument, match="nope"):
        lake.write(frame(spark, [("a", "b")], "x string, nope string"), url)


def test_a_value_that_does_not_fit_is_rejected_not_truncated(spark: Any, url: str) -> None:
    ll.create_table(url, ll.Schema([("k", "INT"), ("c", "VARCHAR(3)")]))
    for rows, ddl, column in (([(2**40, "a")], "k bigint, c string", "k"), ([(1, "abcd")], "k int, c string", "c")):
        with pytest.raises(Exception, match=rf"column '{column}'"):
            lake.write(frame(spark, rows, ddl), url)
    assert contents(url) == []
    assert data_files(url) == set()


def test_a_replayed_identity_runs_no_second_job(spark: Any, url: str) -> None:
    """G3, H8: Running a job again is harmless, and starts no Spark job."""
    df = frame(spark, [(1, 1, "a")])
    first = lake.write(df, url, commit_user="nightly", identifier=3, options={})
    files = data_files(url)
    again = lake.write(df, url, commit_user="nightly", identifier=3)
    assert (again.replayed, again.snapshot_id) == (True, first.snapshot_id)
    assert data_files(url) == files
    assert contents(url) == [(1, 1, "a")]


def test_a_rerun_for_another_partition_is_told_and_a_faithful_one_is_not(spark: Any, url: str) -> None:
    """By the function and by the source, where the second run hands over no files, and so has no number of rows."""
    df, about = frame(spark, [(1, 1, "a")]), {"commit_user": "nightly", "identifier": 3}
    options = {"commit.replay": "error"}
    lake.write(df, url, "overwrite", partition={"part": 1}, **about, partition_by=["part"], options=options)
    assert lake.write(df, url, "overwrite", partition={"part": 1}, **about).replayed
    for other in ({"partition": {"part": 2}}, {"partition": {}}, {"mode": "overwrite-partitions"}):
        with pytest.raises(ll.InvalidArgument, match="replaced part=1, and this replaces "):
            lake.write(df, url, **{"mode": "overwrite", **about, **other})
    lake.register(spark)
    for number in (4, 4):
        source = df.write.format("lakelatch").option("commit-user", "nightly").option("identifier", number)
        source.mode("append").save(url)
    assert contents(url) == [(1, 1, "a")] * 2


def test_a_failed_job_leaves_no_row_and_no_file(spark: Any, url: str) -> None:
    """A failed job leaves no visible row, and reports the files that it left."""
    lake.write(frame(spark, [(1, 1, "a")]), url, partition_by=["part"])
    before = data_files(url)
    with pytest.raises(Exception, match="planned failure") as failure:
        lake.write(failing(spark, 1000, url), url, cluster="none")  # or no task writes before all have computed
    assert getattr(failure.value, "left_files", []) == []
    assert data_files(url) == before
    assert contents(url) == [(1, 1, "a")]


def test_workers_of_the_daemon_have_imported_everything_before_their_first_task(spark: Any) -> None:
    def imported(batches: Any) -> Any:
        import sys

        for batch in batches:
            names = ("pyarrow.parquet", "lakelatch.table.writing.writer")
            yield batch.from_pydict({"k": [name for name in names if name in sys.modules]})

    frame = spark.range(1).repartition(1).mapInArrow(imported, "k string")
    assert [row.k for row in frame.collect()] == ["pyarrow.parquet", "lakelatch.table.writing.writer"]


@pytest.mark.classic
def test_a_retried_task_gives_its_rows_once(spark: Any, url: str) -> None:
    """Each attempt of a task has its own files, and the commit names the files of only one attempt."""
    attempts = Path(url).parent / "attempts"
    attempts.mkdir()

    def stumble(batches: Any) -> Any:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0:
            (attempts / str(context.attemptNumber())).touch()
            if context.attemptNumber() == 0:
                raise ValueError("first attempt")

    df = spark.range(1000).selectExpr("1 part", "id k", "'x' v").repartition(2).mapInArrow(stumble, DDL)
    lake.write(df, url, options={}, cluster="none")
    assert sorted(path.name for path in attempts.iterdir()) == ["0", "1"]
    assert [row[1] for row in contents(url)] == sorted(range(1000), key=repr)
    named = {e.file.file_name for e in ll.open_table(url).entries()}
    assert len(named) == 2 and named <= data_files(url)


ODD = [
    (
        1,
        True,
        -5,
        2**40,
        1.5,
        float("nan"),
        Decimal("12345678901234567890.123456"),
        "漢字 🚀",
        bytearray(b"\x00\xff"),
        dt.date(1, 1, 1),
        dt.datetime(2024, 2, 29, 12, 34, 56, 789123),
        dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
        [1, None, 3],
        {"a": 1, "b": None},
        (7, ["x"]),
    ),
    (2, *[None] * 14),
]
ODD_DDL = (
    "id int, b boolean, s smallint, l bigint, f float, d double, dec decimal(38,6), t string, bin binary, day date,"
    " ts timestamp, ntz timestamp_ntz, arr array<int>, m map<string,int>, st struct<a:int,b:array<string>>"
)


def test_every_type_of_spark_survives_a_round_trip(spark: Any, url: str) -> None:
    """Every type survives a round trip on both legs: Spark's own scan and Arrow (the data source)."""
    df = frame(spark, ODD, ODD_DDL)
    lake.write(df, url, options={})
    back = lake.read(spark, url)
    assert [(f.name, f.dataType.simpleString()) for f in back.schema] == [
        (f.name, f.dataType.simpleString()) for f in df.schema
    ]
    want = sorted(map(repr, df.collect()))
    assert sorted(map(repr, back.collect())) == want
    lake.register(spark)
    source = spark.read.format("lakelatch").load(url)
    assert sorted(map(repr, source.collect())) == want


def test_filters_and_columns_reach_the_native_scan(spark: Any, url: str) -> None:
    """The plan prunes files, and Spark's reader prunes columns and applies filters."""
    lake.write(frame(spark, [(p, p * 10 + i, "x") for p in (1, 2) for i in range(5)]), url, partition_by=["part"])
    found = lake.read(spark, url, columns=["k"], where="part = 1 AND k >= 12")
    assert sorted(row.k for row in found.collect()) == [12, 13, 14]
    assert found.columns == ["k"]
    (file,) = found.inputFiles()
    assert "/part=1/" in unquote(file)
    plan = plan_of(found)
    assert "ReadSchema: struct<k:bigint>" in plan
    assert "PushedFilters: [IsNotNull(k), GreaterThanOrEqual(k,12)]" in plan
    assert "mapInArrow" not in plan and "MapInArrow" not in plan
    assert lake.read(spark, url, columns=[]).count() == 10
    assert lake.read(spark, url, where=ll.col("v") == "nothing").count() == 0


def plan_of(df: Any) -> str:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        df.explain("extended")
    return out.getvalue()


def test_floats_compare_alike_on_every_leg(spark: Any, url: str) -> None:
    """NaN is the largest value, as in Java, in Spark and in `Table.to_arrow`."""
    values = [1.0, float("nan"), float("inf"), -0.0, 0.0, None]
    lake.write(frame(spark, [(v,) for v in values], "d double"), url, options={})
    for text in ("d > 1.0", "d >= 0.0", "NOT d < 1.0", "d IS NULL OR d = 0.0", "d = -0.0", "d > -0.0", "d != 0.0"):
        native = lake.read(spark, url, where=text).count()
        assert native == ll.open_table(url).to_arrow(where=text).num_rows, text


def test_time_travel_is_an_argument_or_an_option(spark: Any, url: str) -> None:
    first = lake.write(frame(spark, [(1, 1, "a")]), url, options={})
    lake.write(frame(spark, [(2, 2, "b")]), url)
    assert lake.read(spark, url, snapshot=first.snapshot_id).count() == 1
    lake.register(spark)
    assert spark.read.format("lakelatch").option("snapshot", first.snapshot_id).load(url).count() == 1
    assert spark.read.format("lakelatch").load(url).count() == 2


def test_the_data_source_writes_and_serves_sql(spark: Any, url: str) -> None:
    """The format's name, a temporary view, INSERT INTO and overwrite work; an identity lands once."""
    lake.write(frame(spark, [(1, 1, "a")]), url, options={})
    lake.register(spark)
    df = frame(spark, [(2, 2, "b")])
    for _ in range(2):
        df.write.format("lakelatch").mode("append").option("commit-user", "etl").option("identifier", 1).save(url)
    assert contents(url) == [(1, 1, "a"), (2, 2, "b")]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW lake USING lakelatch OPTIONS (path '{url}')")
    spark.sql("INSERT INTO lake VALUES (3, 3, 'c')")
    assert [row.n for row in spark.sql("SELECT count(*) n FROM lake WHERE k > 1").collect()] == [2]
    frame(spark, [(9, 9, "z")]).write.format("lakelatch").mode("overwrite").save(url)
    assert contents(url) == [(9, 9, "z")]


def test_a_source_job_that_fails_leaves_nothing(spark: Any, url: str) -> None:
    """H5: Spark calls abort, which deletes the files of the job; rows that had landed stay."""
    lake.write(frame(spark, [(1, 1, "a")]), url, options={})
    lake.register(spark)
    before = data_files(url)
    with pytest.raises(Exception, match="planned failure"):
        failing(spark, 1000, url).write.format("lakelatch").mode("append").save(url)
    assert data_files(url) == before
    assert contents(url) == [(1, 1, "a")]


def test_object_stores_that_spark_cannot_open_are_read_by_arrow(spark: Any, s3: Any) -> None:
    """PySpark's own jars lack S3A, so reads and writes go through Python; the executors receive the credentials."""
    base, options = s3
    url = f"{base}/table"
    lake.write(frame(spark, [(1, 1, "a"), (2, 2, "b")]), url, partition_by=["part"], storage_options=options)
    found = lake.read(spark, url, where="part = 2", storage_options=options)
    assert [tuple(row) for row in found.collect()] == [(2, 2, "b")]


def test_which_stores_the_session_can_open(spark: Any, caplog: pytest.LogCaptureFixture) -> None:
    """PySpark's jars contain a client for HDFS but not for S3. A session is tested once, without using the network."""
    systems = FileSystems()
    assert [systems.opening(spark, scheme) for scheme in ("file", "hdfs", "s3a", "s3a", "nowhere")] == [
        {},
        {},
        None,
        None,
        None,
    ]
    assert [
        record.getMessage().partition(" so ")[0] for record in caplog.records if record.name == "lakelatch.spark"
    ] == ["this session cannot open s3a:// URLs,"]


@pytest.mark.parametrize("file_format", ["parquet", "orc"])
def test_filters_on_the_fields_of_rows(spark: Any, tmp_path: Path, file_format: str) -> None:
    """`st.a` as text and as a column, on Spark's own scan (Parquet), on Arrow's (ORC) and through the source."""
    url = str(tmp_path / "table")
    schema = ll.Schema([("id", "INT"), ("st", "ROW<a INT, `b c` STRING>")])
    table = ll.create_table(url, schema, options={"file.format": file_format})
    sts = [{"a": 1, "b c": "x"}, None, {"a": None, "b c": "y"}, {"a": 4, "b c": None}]
    table.append(pa.Table.from_pylist([{"id": i, "st": st} for i, st in enumerate(sts)], table.arrow_schema))
    for where, expected in [
        ("st.a > 1", [3]),
        (ll.col("st.a") <= 1, [0]),
        ("st.a IS NULL", [1, 2]),
        ("st.`b c` LIKE 'y%' OR st.a IN (4)", [2, 3]),
        ("NOT (st.a = 1)", [3]),
    ]:
        found = lake.read(spark, url, columns=["id"], where=where)
        assert sorted(row.id for row in found.collect()) == expected, where
        assert table.to_arrow(columns=["id"], where=where)["id"].to_pylist() == expected, where
    lake.register(spark)
    loaded = spark.read.format("lakelatch").load(url).where("st.a > 1")
    assert [row.id for row in loaded.collect()] == [3]
