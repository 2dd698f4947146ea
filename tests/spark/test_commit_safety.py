"""Which files a Spark job may delete, and which rows its overwrite replaces: G2, G5, H5, H13 in real Spark jobs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lost_answers import MARK

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.spark.jobs.batch_size import BYTES, RECORDS

pytestmark = pytest.mark.spark
DDL = "k bigint, v string"
QUICK = {"commit.max-retries": "1", "commit.timeout": "1 s", "commit.min-retry-wait": "10 ms"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.fixture
def losing(tmp_path: Path) -> str:
    """A table of one row, on a store that can lose an answer."""
    url = f"lost://{tmp_path / 'table'}"
    ll.create_table(url, ll.Schema([("k", "BIGINT"), ("v", "STRING")]), options=QUICK).append(rows(1))
    return url


def rows(*keys: int) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.int64()), "v": ["x"] * len(keys)})


def keys(url: str) -> list[int]:
    return sorted(ll.open_table(url).to_arrow()["k"].to_pylist())


def data_files(url: str) -> set[str]:
    return {path.name for path in Path(url.removeprefix("lost://")).rglob("data-*")}


def lose_next_publish(url: str) -> None:
    (Path(url.removeprefix("lost://")) / MARK).touch()


def test_a_store_of_another_package_is_found_on_the_workers(spark: Any, losing: str) -> None:
    """Without a fault, everything works. So the tests below fail only because of the faults that they inject."""
    lake.write(spark.createDataFrame([(2, "b")], DDL), losing)
    assert sorted(row.k for row in lake.read(spark, losing).collect()) == [1, 2]


def test_after_an_unknown_outcome_nothing_is_deleted(spark: Any, losing: str) -> None:
    """H5, G5: The commit landed, and only its answer was lost. The rows stay, and the error can find them."""
    lose_next_publish(losing)
    with pytest.raises(ll.OutcomeUnknown) as caught:
        lake.write(spark.createDataFrame([(2, "b"), (3, "c")], DDL), losing, commit_user="etl", identifier=1)
    assert keys(losing) == [1, 2, 3]
    assert caught.value.identity["commit_user"] == "etl"
    again = lake.write(spark.createDataFrame([(2, "b"), (3, "c")], DDL), losing, commit_user="etl", identifier=1)
    assert again.replayed
    assert keys(losing) == [1, 2, 3]


@pytest.mark.parametrize("identity", [{}, {"commit-user": "etl", "identifier": "7"}], ids=["none", "given"])
def test_abort_after_commit_raised_deletes_no_landed_row(spark: Any, losing: str, identity: dict[str, str]) -> None:
    """H5: Spark calls abort with all messages when commit raises, even if the commit landed."""
    lake.register(spark)
    lose_next_publish(losing)
    df = spark.createDataFrame([(2, "b"), (3, "c")], DDL).repartition(2)
    with pytest.raises(Exception, match="not known whether snapshot 2"):
        df.write.format("lakelatch").mode("append").options(**identity).save(losing)
    assert not (Path(losing.removeprefix("lost://")) / MARK).exists()
    assert keys(losing) == [1, 2, 3]
    assert sorted(row.k for row in spark.read.format("lakelatch").load(losing).collect()) == [1, 2, 3]


def test_a_refused_commit_leaves_no_file(spark: Any, url: str) -> None:
    """G2: After "not committed" the rows never appear. No request named the files, so they are deleted."""
    table = ll.create_table(url, ll.Schema([("k", "BIGINT"), ("v", "STRING")]))
    table.append(rows(1), commit_user="etl", identifier=5)
    before = data_files(url)
    lake.register(spark)
    df = spark.createDataFrame([(2, "b")], DDL)
    with pytest.raises(ll.InvalidArgument, match=r"lakelatch\.mine"):
        lake.write(df, url, properties={"lakelatch.mine": "1"})
    with pytest.raises(Exception, match=r"lakelatch\.mine"):
        df.write.format("lakelatch").mode("append").option("property.lakelatch.mine", "1").save(url)
    assert keys(url) == [1]
    assert data_files(url) == before


def appending(url: str, key: int) -> Any:
    """A task function that appends a row to the table before it passes its rows on."""

    def task(batches: Any) -> Any:
        import lakelatch as worker_ll

        worker_ll.open_table(url).append(rows_of(key))
        yield from batches

    def rows_of(value: int) -> Any:
        import pyarrow

        return pyarrow.table({"k": pyarrow.array([value], pyarrow.int64()), "v": ["meanwhile"]})

    return task


@pytest.mark.parametrize("way", ["function", "source"])
def test_an_overwrite_replaces_only_rows_from_before_its_job(spark: Any, url: str, way: str) -> None:
    """H13: Rows that another writer appends while the job runs stay."""
    ll.create_table(url, ll.Schema([("k", "BIGINT"), ("v", "STRING")])).append(rows(1, 2))
    df = spark.createDataFrame([(10, "new")], DDL).coalesce(1).mapInArrow(appending(url, 99), DDL)
    if way == "function":
        lake.write(df, url, mode="overwrite")
    else:
        lake.register(spark)
        df.write.format("lakelatch").mode("overwrite").save(url)
    assert keys(url) == [10, 99]


def test_a_serializable_overwrite_conflicts_with_rows_appended_meanwhile(spark: Any, url: str) -> None:
    ll.create_table(url, ll.Schema([("k", "BIGINT"), ("v", "STRING")])).append(rows(1, 2))
    df = spark.createDataFrame([(10, "new")], DDL).coalesce(1).mapInArrow(appending(url, 99), DDL)
    with pytest.raises(ll.CommitConflict):
        lake.write(df, url, mode="overwrite", isolation="serializable")
    assert keys(url) == [1, 2, 99]


@pytest.mark.parametrize("way", ["function", "source"])
def test_an_overwrite_replaces_only_rows_of_its_read_snapshot(spark: Any, url: str, way: str) -> None:
    """H13: The job did not read rows that were appended after its read snapshot, so they stay."""
    ll.create_table(url, ll.Schema([("k", "BIGINT"), ("v", "STRING")])).append(rows(1, 2))
    read = lake.read(spark, url, snapshot=1).selectExpr("k * 10 AS k", "v")
    ll.open_table(url).append(rows(99))
    if way == "function":
        lake.write(read, url, mode="overwrite", read_snapshot=1)
        with pytest.raises(ll.InvalidArgument, match="overwrite only"):
            lake.write(read, url, read_snapshot=1)
        with pytest.raises(ll.CommitConflict, match="snapshot 9"):
            lake.write(read, url, mode="overwrite", read_snapshot=9)
        with pytest.raises(ll.CommitConflict):
            lake.write(read, url, mode="overwrite", read_snapshot=1, isolation="serializable")
    else:
        lake.register(spark)
        writer = read.write.format("lakelatch").option("read-snapshot", 1)
        writer.mode("overwrite").save(url)
        with pytest.raises(Exception, match="go with mode overwrite"):
            writer.mode("append").save(url)
    assert keys(url) == [10, 20, 99]


def test_the_job_runs_once(spark: Any, url: str) -> None:
    """A second action on the frame would write and count everything twice."""
    ll.create_table(url, ll.Schema([("k", "BIGINT"), ("v", "STRING")]))
    log = f"{url}-runs"
    ll.create_table(log, ll.Schema([("k", "BIGINT"), ("v", "STRING")]))
    df = spark.createDataFrame([(10, "new")], DDL).coalesce(1).mapInArrow(appending(log, 1), DDL)
    lake.write(df, url, commit_user="etl", identifier=1)
    assert keys(log) == [1]
    lake.write(df, url, commit_user="etl", identifier=1)
    assert keys(log) == [1], "a replay runs no job"
    lake.register(spark)
    df.write.format("lakelatch").mode("append").option("commit-user", "etl").option("identifier", 1).save(url)
    assert keys(url) == [10]


def test_settings_of_the_session_are_restored(spark: Any, url: str) -> None:
    """Spark's batch limits are lifted while jobs run, including concurrent jobs and a job that fails."""
    before = [spark.conf.get(key) for key in (BYTES, RECORDS)]
    df = spark.range(10).selectExpr("id k", "'x' v")
    lake.write(df, url, options={})
    threads = [threading.Thread(target=lake.write, args=(df, url)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with pytest.raises(Exception, match="boo"):
        lake.write(
            spark.range(10).selectExpr("id k", "raise_error('boo') v").selectExpr("k", "cast(v as string) v"), url
        )
    assert [spark.conf.get(key) for key in (BYTES, RECORDS)] == before
    assert len(keys(url)) == 30


def test_a_limit_that_the_user_set_is_kept(spark: Any, url: str) -> None:
    from lakelatch.spark.jobs.batch_size import large_batches

    schema = spark.range(1).schema
    with large_batches(spark, schema):
        assert spark.conf.get(BYTES) == "2147483647"
    spark.conf.set(BYTES, "1000000")
    try:
        with large_batches(spark, schema):
            assert spark.conf.get(BYTES) == "1000000"
    finally:
        spark.conf.unset(BYTES)
    with large_batches(spark, spark.range(1).selectExpr("X'00' b").schema):
        assert spark.conf.get(BYTES) != "2147483647", "a column of bytes may hold large values"
