"""Tables with a primary key from Spark: upserts and deletes, their order, jobs at the same time, and filters."""

from __future__ import annotations

import threading
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from values import assert_same_rows, encode_rows

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark
DDL = "part int, id bigint, v string"
KEYED: dict[str, Any] = {"primary_key": ["part", "id"], "partition_by": "part"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def frame(spark: Any, rows: list[tuple[Any, ...]], ddl: str = DDL) -> Any:
    return spark.createDataFrame(rows, ddl)


def rows_of(found: Any) -> list[tuple[Any, ...]]:
    """Sorted rows of a frame or of an Arrow table."""
    table = found if isinstance(found, pa.Table) else found.toArrow()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def contents(spark: Any, url: str, **wanted: Any) -> list[tuple[Any, ...]]:
    """The rows, which are the same for Arrow and for Spark."""
    rows = rows_of(ll.open_table(url).to_arrow(**wanted))
    assert rows_of(lake.read(spark, url, **wanted)) == rows
    return rows


def test_a_frame_is_upserted_and_each_bucket_gets_one_sorted_run(spark: Any, url: str) -> None:
    """Keys are replaced; of several rows with one key the last one of the frame counts, whatever its partitions are."""
    first = spark.range(0, 300, 1, 3).selectExpr("cast(id % 2 AS int) part", "id", "'old' v")
    lake.write(first, url, options={"bucket": "3", "write-only": "true"}, **KEYED)
    table = ll.open_table(url)
    assert len({(e.partition, e.bucket) for e in table.entries()}) == len(table.entries()) == 6
    assert {e.file.level for e in table.entries()} == {0}
    twice = spark.range(0, 200, 1, 4).selectExpr("0 part", "(id * 7 % 100) * 2 id", "concat('new-', id) v")
    receipt = lake.write(twice, url, commit_user="job", identifier=1)
    assert lake.write(twice, url, commit_user="job", identifier=1).replayed
    newest = {n * 7 % 100 * 2: f"new-{n}" for n in range(200)}
    expected = [(n % 2, n, newest.get(n, "old") if n % 2 == 0 else "old") for n in range(300)]
    assert contents(spark, url) == sorted(expected, key=repr)
    new = [e for e in table.refresh().entries() if e.file.max_sequence_number >= 1 << 40]
    assert receipt.snapshot_id == 2
    assert len(new) == 6 + 3


def test_a_column_of_the_frame_says_what_each_row_does(spark: Any, url: str) -> None:
    """`+I -U +U -D` and Debezium's letters; null and unknown kinds are errors that leave nothing behind."""
    lake.write(frame(spark, [(1, n, "a") for n in range(6)]), url, options={"bucket": "2"}, **KEYED)
    changes = [(1, 0, "x", "-D"), (1, 1, "y", "+U"), (1, 2, "z", "d"), (1, 9, "n", "c"), (1, 9, "m", "u")]
    lake.write(frame(spark, changes, f"{DDL}, op string"), url, row_kind="op")
    expected = [(1, 1, "y"), (1, 3, "a"), (1, 4, "a"), (1, 5, "a"), (1, 9, "m")]
    assert contents(spark, url) == expected
    before = {path.name for path in Path(url).rglob("data-*")}
    with pytest.raises(ll.InvalidArgument, match="'op': '\\?' is no row kind"):
        lake.write(frame(spark, [(1, 1, "y", "?")], f"{DDL}, op string"), url, row_kind="op")
    for wrong, said in (
        ({"row_kind": "opp"}, "no column 'opp'"),
        ({"row_kind": "op", "mode": "overwrite", "partition": {}}, "row_kind= goes with mode='append'"),
    ):
        with pytest.raises(ll.InvalidArgument, match=said):
            lake.write(frame(spark, changes, f"{DDL}, op string"), url, **wrong)
    assert {path.name for path in Path(url).rglob("data-*")} == before
    lake.write(frame(spark, [(2, 1, "o")]), url, mode="overwrite", partition={})
    assert contents(spark, url) == [(2, 1, "o")]


def test_keys_of_all_partitions_are_refused_before_anything_is_made(spark: Any, url: str) -> None:
    """Tasks do not know in which partition a key is. The error names a way that works."""
    with pytest.raises(ll.Unsupported, match="lacks the partition column 'part'"):
        lake.write(frame(spark, [(1, 1, "a")]), url, **KEYED | {"primary_key": ["id"]})
    assert not ll.is_table(url)
    schema = pa.schema([("id", pa.int64()), ("p", pa.int64())])
    ll.create_table(url, schema, primary_key=["id"], partition_by=["p"])
    with pytest.raises(ll.Unsupported, match=r"'p' .*upsert\(df\.toArrow\(\)\)"):
        lake.write(spark.range(3).selectExpr("id", "id p"), url)
    ll.open_table(url).upsert(spark.range(3).selectExpr("id", "id p").toArrow())
    ll.open_table(url).upsert(spark.range(3).selectExpr("id", "id + 1 p").toArrow())
    assert contents(spark, url) == [(0, 1), (1, 2), (2, 3)]


def test_two_jobs_at_once_on_the_same_keys_leave_the_rows_of_one_order(spark: Any, url: str) -> None:
    """H14: every key has the value of the same job, and both commits are in the history."""
    lake.write(frame(spark, [(1, 0, "base")]), url, options={"bucket": "4"}, **KEYED)
    receipts, errors = {}, []

    def job(name: str) -> None:
        try:
            rows = spark.range(0, 400, 1, 2).selectExpr("1 part", "id", f"'{name}' v")
            receipts[name] = lake.write(rows, url)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=job, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    rows = contents(spark, url)
    assert len(rows) == 400
    assert len({v for _, _, v in rows}) == 1
    assert {r.snapshot_id for r in receipts.values()} == {2, 3}


def test_what_was_written_is_compacted_by_a_job_of_its_own(spark: Any, url: str, paimon_java: Any) -> None:
    """Unless option `write-only` is set. Java finds each row in the bucket of its key, and reads the same before and after."""
    names = spark.range(90).selectExpr("concat(repeat('k', cast(id % 13 AS int)), id) name", "id n")
    options = {"bucket": "3", "num-sorted-run.compaction-trigger": "1"}
    lake.write(names, url, primary_key="name", options=options)
    some = names.where("n % 3 = 0").selectExpr("name", "-n n", "if(n % 2 = 0, 'd', 'u') op")
    receipt = lake.write(some, url, row_kind="op")
    table = ll.open_table(url)
    assert [s.commit_kind for s in table.snapshots()] == ["APPEND", "APPEND", "COMPACT"]
    assert receipt.snapshot_id == 2
    assert len({e.bucket for e in table.entries()}) == len(table.entries()) == 3
    expected = sorted(n for n in range(90) if n % 3) + sorted(-n for n in range(3, 90, 6))
    for snapshot in (2, 3):
        rows = encode_rows(table.at(snapshot=snapshot).to_arrow(), table.schema.fields)
        assert_same_rows(paimon_java.rows(url, snapshot=snapshot), rows, str(snapshot))
    assert sorted(n for _, n in contents(spark, url)) == sorted(expected)


def test_the_data_source_upserts_too_and_later_partitions_win(spark: Any, url: str) -> None:
    """Its tasks share buckets, because Spark lets no source shuffle; their numbers are apart."""
    lake.register(spark)
    lake.write(
        frame(spark, [(1, n, "a") for n in range(4)]), url, options={"bucket": "2", "write-only": "true"}, **KEYED
    )
    again = spark.range(0, 40, 1, 4).selectExpr("1 part", "id % 4 id", "concat('n-', id) v", "'u' op")
    again.write.format("lakelatch").mode("append").option("row-kind", "op").save(url)
    assert contents(spark, url) == [(1, n, f"n-{36 + n}") for n in range(4)]
    files = [e.file for e in ll.open_table(url).entries() if e.bucket == 0]
    spans = sorted((f.min_sequence_number, f.max_sequence_number) for f in files)
    assert all(before[1] < after[0] for before, after in pairwise(spans)) and len(spans) == 5
    spark.sql(f"CREATE TABLE keyed USING lakelatch OPTIONS (path '{url}')")
    try:
        spark.sql("INSERT INTO keyed VALUES (1, 3, 'sql'), (1, 7, 'sql')")
        assert spark.sql("SELECT v FROM keyed WHERE id >= 3 ORDER BY id").collect() == [("sql",), ("sql",)]
    finally:
        spark.sql("DROP TABLE keyed")


def test_a_filter_brings_back_no_older_row(spark: Any, url: str) -> None:
    """A value that matches in an older version of a key is not a match; keys may be filtered before the merge."""
    lake.write(frame(spark, [(1, n, f"v{n % 5}") for n in range(50)]), url, options={"bucket": "2"}, **KEYED)
    lake.write(frame(spark, [(1, n, "gone") for n in range(0, 50, 5)]), url)
    lake.write(frame(spark, [(1, 1, None, "-D")], f"{DDL}, op string"), url, row_kind="op")
    assert contents(spark, url, where="v = 'v0'") == []
    assert contents(spark, url, where="v = 'v1' AND id < 10") == [(1, 6, "v1")]
    assert contents(spark, url, columns=["v"], where="id = 5") == [("gone",)]
    everything = lake.read(spark, url)
    assert everything.where("v = 'v0'").count() == 0
    assert everything.where("v = 'gone'").count() == 10
    assert lake.read(spark, url, columns=[]).count() == 49


def test_times_of_a_key_are_those_of_the_session(spark: Any, url: str) -> None:
    """A time as a key is one point in time, whatever the zone of the session that writes it."""
    winter, summer = datetime(2026, 1, 1, 12), datetime(2026, 7, 1, 12)
    before = spark.conf.get("spark.sql.session.timeZone")
    try:
        for zone, n in (("UTC", 1), ("America/New_York", 2)):
            spark.conf.set("spark.sql.session.timeZone", zone)
            rows = spark.sql(
                f"SELECT timestamp'2026-01-01 17:00:00Z' at, timestamp_ntz'{winter}' wall, {n} n UNION ALL"
                f" SELECT timestamp'2026-07-01 12:00:00' at, timestamp_ntz'{summer}' wall, {n} n"
            )
            lake.write(rows, url, primary_key=["at", "wall"], options={"bucket": "3"})
        found = rows_of(ll.open_table(url).to_arrow(columns=["n"]))
        assert found == [(1,), (2,), (2,)], "the winter's row was replaced, the summer's is another point in time"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
