"""Times without a zone mean the session's zone wherever Spark's users write them, as in Spark's own SQL."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.rows.literals import coerce_literal
from lakelatch.core.rows.types import timestamp
from lakelatch.spark.reading import scan
from lakelatch.spark.sessions.zones import session_zone, zone_named

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
LTZ = timestamp(6, local_zone=True)
MIDNIGHT = dt.datetime(2026, 6, 1, 4, tzinfo=dt.timezone.utc)
"""Midnight of the first of June in New York."""
HOURS = (-24, -4, -1, 0, 1, 20)


@pytest.fixture
def zone(spark: Any) -> Iterator[Any]:
    """Sets the zone of the session, until the end of the test."""
    before = spark.conf.get(ZONE)
    yield lambda name: spark.conf.set(ZONE, name)
    spark.conf.set(ZONE, before)


@pytest.fixture
def table(tmp_path: Path) -> ll.Table:
    """One file for each of the hours around midnight in New York; `h` is the hour."""
    schema = ll.Schema([("ts", "TIMESTAMP(6) WITH LOCAL TIME ZONE"), ("h", "INT")])
    made = ll.create_table(str(tmp_path / "hours"), schema)
    for hour in HOURS:
        moment = MIDNIGHT + dt.timedelta(hours=hour)
        made.append(pa.table({"ts": [moment], "h": pa.array([hour], pa.int32())}))
    return made


def hours_of(frame: Any) -> list[int]:
    return sorted(row.h for row in frame.collect())


TEXTS = (
    "2026-06-01 00:00:00",
    "2026-03-08 02:30:00.000001",  # skipped in New York
    "2026-11-01 01:30:00",  # twice in New York
    "2026-03-29 02:15:00",  # skipped in Berlin
    "2026-10-25 02:15:00",  # twice in Berlin
    "2026-04-05 01:45:00",  # twice on Lord Howe Island, by half an hour
    "1969-12-31 23:59:59.999999",
    "1940-05-16 12:00:00",
    "1883-11-18 12:02:00",
    "0001-01-01 00:00:00",
    "9999-12-31 12:00:00",
    "2026-06-01",
    "2026-06-01 00:00:00+05:30",
)
ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "PST", "UTC", "Z", "+02:00")
ZONES += ("-3:30", "GMT+8", "UTC-01:30", "Europe/Amsterdam")


def test_a_text_is_the_point_in_time_that_spark_takes_it_for(spark: Any, zone: Any) -> None:
    """G4: Gaps, overlaps, offsets and old local times are resolved as by Spark itself; the source's option does the same."""
    for name in ZONES:
        zone(name)
        columns = ", ".join(f"unix_micros(TIMESTAMP '{text}')" for text in TEXTS)
        expected = dict(zip(TEXTS, spark.sql(f"SELECT {columns}").collect()[0], strict=True))
        here = session_zone(spark)
        assert {t: coerce_literal(t, LTZ, "column 'ts'", here) // 1000 for t in TEXTS} == expected, name
        if name == "PST":
            continue  # Python does not know the name
        for text in TEXTS:
            if "/" in name and text < "1970" and "+" not in text:
                with pytest.raises(ll.InvalidArgument, match="before 1970 with their offset"):
                    coerce_literal(text, LTZ, "column 'ts'", zone_named(name))
            else:
                assert coerce_literal(text, LTZ, "column 'ts'", zone_named(name)) // 1000 == expected[text], (
                    name,
                    text,
                )


@pytest.mark.parametrize("name", ["Mars/Phobos", "", "../../etc/passwd", "America", "PST", "+99:00"])
def test_a_zone_that_python_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(ll.InvalidArgument, match=r"does not know the time zone.*an offset such as"):
        zone_named(name)


@pytest.mark.parametrize("name", ["Europe/Berlin", "+05:30"])
def test_a_zone_travels_to_executors(name: str) -> None:
    """Sources are pickled with their options, and tasks fail if one cannot be read again."""
    summer = dt.datetime(2026, 7, 1)
    assert pickle.loads(pickle.dumps(zone_named(name))).utcoffset(summer) == zone_named(name).utcoffset(summer)


@pytest.mark.parametrize("leg", ["native", "arrow"])
def test_a_filter_means_the_session_s_zone(
    spark: Any, zone: Any, table: ll.Table, leg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G4: `where=`, the same text on the frame, and statistics all mean midnight in New York, and not in UTC."""
    if leg == "arrow":
        monkeypatch.setattr(scan.Scan, "_no_native", lambda self: "this test")
    zone("America/New_York")
    for text in ("ts >= '2026-06-01 00:00:00'", "ts >= TIMESTAMP '2026-06-01 00:00:00'", "ts >= DATE '2026-06-01'"):
        assert hours_of(lake.read(spark, table.url, where=text)) == [0, 1, 20], text
        assert hours_of(lake.read(spark, table.url).where(text)) == [0, 1, 20], text
    assert hours_of(lake.read(spark, table.url, where=ll.col("ts") == "2026-06-01 01:00:00")) == [1]
    assert hours_of(lake.read(spark, table.url, where=ll.col("ts") < dt.date(2026, 6, 1))) == [-24, -4, -1]
    assert hours_of(lake.read(spark, table.url, where="ts < '2026-06-01 00:00:00Z'")) == [-24]
    with pytest.raises(ll.InvalidArgument, match=r"has no zone.*tzinfo"):
        lake.read(spark, table.url, where=ll.col("ts") >= dt.datetime(2026, 6, 1))
    zone("UTC")
    assert hours_of(lake.read(spark, table.url, where="ts >= '2026-06-01 00:00:00'")) == [-4, -1, 0, 1, 20]


def test_without_spark_a_filter_needs_a_zone(table: ll.Table) -> None:
    """G4: Nobody says which zone is meant, so nothing is guessed; the error shows what to write."""
    with pytest.raises(ll.InvalidArgument, match=r"column 'ts'.*has no zone.*'2026-06-01 00:00:00Z' for UTC"):
        table.to_arrow(where="ts >= '2026-06-01 00:00:00'")
    assert table.count(where="ts >= '2026-06-01 00:00:00-04:00'") == 3


def test_time_travel_means_the_session_s_zone(spark: Any, zone: Any, table: ll.Table) -> None:
    """G4: A time without a zone is read as Spark reads it; a source, which is not told the session's zone, asks for it."""
    lake.register(spark)
    first = table.at(snapshot=1).pinned
    assert first is not None
    moment = dt.datetime.fromtimestamp((first.time_ms + 1) / 1000, dt.timezone.utc)
    for name in ("Asia/Tokyo", "America/New_York"):
        zone(name)
        local = moment.astimezone(zone_named(name)).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
        assert hours_of(lake.read(spark, table.url, timestamp=local))[0] == HOURS[0]
        source = spark.read.format("lakelatch").option("timestamp", local)
        assert hours_of(source.load(table.url))[0] == HOURS[0], "of a registered session"
        with pytest.raises(Exception, match=r"has no zone.*option 'timeZone'"):  # with a schema, the source reads
            spark.read.format("lakelatch").option("timestamp", local).schema("v INT").load(table.url).count()
        assert hours_of(source.option("timeZone", name).load(table.url))[0] == HOURS[0]
    zone("Pacific/Auckland")
    with pytest.raises(ll.InvalidArgument, match="no snapshot is as old"):
        lake.read(spark, table.url, timestamp="2020-01-01")


def test_a_watermark_chooses_a_snapshot(spark: Any, zone: Any, tmp_path: Path) -> None:
    """G4: the oldest snapshot whose watermark is not earlier, in `read`, in the source and in SQL, in the session's zone."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("v", pa.int64())]))
    for number in (1, 2, 3):
        with table.transaction(watermark_ms=number * 3_600_000) as tx:
            tx.append(pa.table({"v": [number]}))
    lake.register(spark)
    zone("Europe/London")  # an hour ahead in 1970
    assert lake.read(spark, table.url, watermark="1970-01-01 02:00:00").count() == 1
    assert lake.read(spark, table.url, watermark=3_600_001).count() == 2
    source = spark.read.format("lakelatch")
    assert source.option("watermark", "1970-01-01T02:00:01Z").load(table.url).count() == 3
    with pytest.raises(ll.InvalidArgument, match="exactly one of"):
        lake.read(spark, table.url, watermark=1, snapshot=1)


def test_a_partition_is_named_in_the_session_s_zone(spark: Any, zone: Any, tmp_path: Path) -> None:
    """G7: An overwrite replaces the hour that the user means."""
    zone("America/New_York")
    lake.register(spark)
    url = str(tmp_path / "by-hour")
    rows = "SELECT TIMESTAMP '2026-06-01 00:00:00' AS ts, 1 AS v UNION ALL SELECT TIMESTAMP '2026-05-31 20:00:00', 2"
    lake.write(spark.sql(rows), url, partition_by=["ts"])
    one = spark.sql("SELECT TIMESTAMP '2026-06-01 00:00:00' AS ts, 3 AS v")
    lake.write(one, url, "overwrite", partition={"ts": "2026-06-01 00:00:00"})
    assert sorted(row.v for row in lake.read(spark, url).collect()) == [2, 3]
    overwrite = one.selectExpr("ts", "4 AS v").write.format("lakelatch").mode("overwrite")
    overwrite = overwrite.option("partition", "ts=2026-06-01 00:00:00")
    with pytest.raises(Exception, match=r"has no zone.*option 'timeZone'"):
        overwrite.save(url)
    overwrite.option("timeZone", "America/New_York").save(url)
    assert sorted(row.v for row in lake.read(spark, url).collect()) == [2, 4]


CONDITIONS = (
    "ts >= DATE '2026-06-01'",
    "CAST(ts AS DATE) = DATE '2026-06-01'",
    "day(ts) = 31 OR h + 0 = 20",
    "ts > TIMESTAMP '2026-05-31 23:30:00' AND h + 0 < 20",
    "CASE WHEN ts < '2026-06-01 01:00:00' THEN h % 2 = 0 ELSE h = 1 END",
    "CAST(ts AS BIGINT) >= 1780286400 AND CAST(1780290000 AS TIMESTAMP_LTZ) >= ts",
)


@pytest.mark.parametrize("name", ["America/New_York", "Asia/Kolkata"])
def test_a_condition_means_the_same_wherever_it_is_evaluated(spark: Any, zone: Any, table: ll.Table, name: str) -> None:
    """G4: In reads, DELETE, UPDATE and the clauses of MERGE, pushed down or computed, as in Spark's own filter."""
    zone(name)
    frame = lake.read(spark, table.url)
    for condition in CONDITIONS if name == "America/New_York" else CONDITIONS[1:3]:
        expected = hours_of(frame.filter(condition))
        assert hours_of(lake.read(spark, table.url, where=condition)) == expected, condition
        lake.LakeTable.forPath(spark, table.url).update(condition, {"h": "h + 100"})
        assert sorted(h - 100 for h in table.to_arrow()["h"].to_pylist() if h > 50) == expected, condition
        table.undo(table.refresh().snapshots()[-1].id)
    source = spark.createDataFrame([(hour, 1) for hour in HOURS], "h int, v int")
    expected = hours_of(frame.filter("CAST(ts AS DATE) = DATE '2026-06-01' AND ts >= '2026-06-01 01:00:00'"))
    merge = lake.LakeTable.forPath(spark, table.url).merge(
        source, "t.h = s.h AND CAST(t.ts AS DATE) = DATE '2026-06-01'"
    )
    merge.whenMatchedUpdate("t.ts >= '2026-06-01 01:00:00'", {"h": "t.h + 100"}).execute()
    assert sorted(h - 100 for h in table.to_arrow()["h"].to_pylist() if h > 50) == expected
    done = lake.LakeTable.forPath(spark, table.url).delete("CAST(ts AS DATE) = DATE '2026-06-01' AND 1 = 1")
    assert done.rows_deleted == frame.filter("CAST(ts AS DATE) = DATE '2026-06-01'").count()
    table.undo(table.refresh().snapshots()[-1].id)
    for value in (F.lit("2026-06-01 00:00:00"), F.lit("2026-06-01T04:00:00Z"), F.lit(1780286400)):
        condition = (F.col("ts") >= value.cast("timestamp")) & (F.col("ts").cast("long") < 1780290000)
        expected = frame.filter(condition).count()
        assert lake.LakeTable.forPath(spark, table.url).delete(condition).rows_deleted == expected > 0
        table.undo(table.refresh().snapshots()[-1].id)


def test_a_zone_that_python_does_not_know_is_needed_only_for_times(spark: Any, zone: Any, table: ll.Table) -> None:
    zone("PST")
    assert lake.LakeTable.forPath(spark, table.url).delete("h % 2 <> 0").rows_deleted == 2
    with pytest.raises(ll.InvalidArgument, match="does not know the time zone 'PST'"):
        lake.LakeTable.forPath(spark, table.url).delete("day(ts) = 1")
