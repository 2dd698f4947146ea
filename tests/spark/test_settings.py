"""Settings of a session: none of those that Spark lists changes a row that is read or written (G4).

Each setting of `SET -v` is tried with each value that it may have: both values of a flag, the words that Spark names when it
refuses another, a small and a large number. In every run those that concern files, types, dates and Arrow are tried, many at
once; by night all, one by one. A setting with a value of a form that is not known here fails the test, so that somebody looks
at it.
"""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from report import tell

import lakelatch as ll
import lakelatch.spark as lake

pytestmark = pytest.mark.spark

NIGHTLY = os.environ.get("LAKELATCH_NIGHTLY") == "1"
CONCERN_ROWS = re.compile(
    r"parquet|\.files\.|\.orc\.|legacy|ansi|arrow|timeZone|caseSensitive|rebase|timestamp", re.IGNORECASE
)
ZONE = "spark.sql.session.timeZone"
ONLY_HOW_PYTHON_SHOWS_IT = {"spark.sql.execution.pyspark.binaryAsBytes"}
UNUSABLE = {
    ("spark.sql.execution.pandas.udf.buffer.size", "1"): "Spark needs a larger buffer for any Python",
    ("spark.sql.execution.arrow.compression.codec", "lz4"): "Spark cannot send an empty text to Python",
    ("spark.sql.pyspark.udf.profiler", "memory"): "needs a package for profiling",
}
TEXTS = {
    "spark.sql.defaultPath": ["SYSTEM_PATH", "CURRENT_SCHEMA, SYSTEM_PATH", "CURRENT_SCHEMA"],
    "spark.sql.experimental.optimizer.pyTranspilers": ["catalyst"],
    "spark.sql.files.ignoredPathSegmentRegex": ["parquet$", "bucket-|=", "_spark_metadata|^[0-9]+$", ""],
    "spark.sql.session.timeZone": ["America/New_York", "Asia/Kathmandu", "UTC"],
    "spark.sql.streaming.multipleWatermarkPolicy": ["max"],
    "spark.sql.streaming.stateStore.encodingFormat": ["avro"],
    "spark.sql.ui.explainMode": ["extended"],
}
FREE = {"spark.connect.ml.backend.classes"} | {
    f"spark.sql.{name}"
    for name in (
        "adaptive.customCostEvaluatorClass",
        "adaptive.optimizer.excludedRules",
        "catalog.spark_catalog",
        "columnNameOfCorruptRecord",
        "defaultCatalog",
        "extendedExplainProviders",
        "maven.additionalRemoteRepositories",
        "optimizer.excludedRules",
        "redaction.options.regex",
        "redaction.string.regex",
        "sources.default",
        "streaming.checkpointLocation",
        "streaming.disabledV2Writers",
        "thriftserver.scheduler.pool",
        "timeTravelTimestampKey",
        "timeTravelVersionKey",
        "udt.allowedDynamicUDTClasses",
    )
}
"""Settings that take any text: names of classes, rules, tables and places, which say nothing about rows of files."""

SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("part", pa.string()),
        ("day", pa.date32()),
        ("zoned", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("millis", pa.timestamp("ms")),
        ("wide", pa.decimal128(38, 10)),
        ("money", pa.decimal128(7, 2)),
        ("single", pa.float32()),
        ("double", pa.float64()),
        ("text", pa.string()),
        ("bytes", pa.binary()),
        ("flag", pa.bool_()),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("row", pa.struct([("a", pa.int8()), ("B", pa.string())])),
    ]
)


def row(number: int, part: str | None, year: int) -> dict[str, Any]:
    moment = dt.datetime(year, 1, 1, 1, 2, 3, 456000, tzinfo=dt.timezone.utc)
    return {
        "id": number,
        "part": part,
        "day": dt.date(year, 1, 1),
        "zoned": moment,
        "local": moment.replace(tzinfo=None),
        "millis": moment.replace(tzinfo=None),
        "wide": Decimal("1234567890123456789012345678.0000000001"),
        "money": Decimal("-1.50"),
        "single": -0.0,
        "double": float("nan"),
        "text": "ü ",
        "bytes": b"\x00\xff",
        "flag": True,
        "list": [1, None],
        "map": [("k", None)],
        "row": {"a": 1, "B": "x"},
    }


ROWS = [
    row(1, "a", 1500),  # before Gregory, where dates are rebased
    row(2, None, 1883),  # before zones were whole hours
    row(3, "x:y", 9999),
    dict.fromkeys(SCHEMA.names) | {"id": 4, "part": "a"},
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[ll.Table]:
    """Of Spark's own reader, of Arrow, because rows of a primary key are merged, and with deleted rows in their files."""
    folder = tmp_path_factory.mktemp("settings")
    plain = ll.create_table(str(folder / "plain"), SCHEMA, partition_by=["part"])
    plain.append(pa.Table.from_pylist(ROWS, SCHEMA))
    keyed = SCHEMA.set(0, pa.field("id", pa.int32(), nullable=False))
    merged = ll.create_table(str(folder / "merged"), keyed, primary_key=["id"], options={"bucket": "1"})
    for rows in (ROWS, ROWS[:1]):
        merged.upsert(pa.Table.from_pylist(rows, keyed))
    marked = ll.create_table(
        str(folder / "marked"), SCHEMA, partition_by=["part"], options={"deletion-vectors.enabled": "true"}
    )
    for rows in ([*ROWS, row(5, "a", 1500), row(6, None, 1500)], [row(7, "a", 1883)]):
        marked.append(pa.Table.from_pylist(rows, SCHEMA))
    marked.delete(where="id > 4")
    return [plain, merged, marked]


@pytest.fixture
def steady(spark: Any) -> Iterator[Any]:
    spark.conf.set(ZONE, "UTC")
    yield spark
    spark.conf.set(ZONE, "UTC")


def values_of(spark: Any, key: str) -> list[str]:
    """The values of a setting, found by what Spark says of one that it has not."""
    if key in TEXTS:
        return TEXTS[key]
    try:
        spark.conf.set(key, "no such value")
    except Exception as error:
        said = str(error).partition("JVM stacktrace")[0]
    else:
        spark.conf.unset(key)
        assert key in FREE, f"{key} takes any text: say in this file which values to try"
        return []
    if "CANNOT_MODIFY" in said:
        return []
    if "OUT_OF_RANGE_OF_OPTIONS" in said:
        words = re.search(r"one of ['\"]?(.*?)['\"]?\.? *SQLSTATE", said, re.DOTALL)
        assert words, said
        return re.findall(r"[\w.-]+", words[1])
    forms = {"'boolean'": ["true", "false"], "'bytes": ["1k", "1g"], "'time": ["1h"]}
    numbers = {f"'{kind}'": ["1", "1000"] for kind in ("int", "long", "double")}
    numbers["For input string"] = ["1", "1000"]
    found = next((values for form, values in (forms | numbers).items() if form in said), None)
    assert found is not None, f"{key}: say in this file which values to try; Spark said {said}"
    return found


def settings_of(spark: Any) -> dict[str, list[str]]:
    """The settings that Spark lists, with the values that are tried."""
    listed = [found[0] for found in spark.sql("SET -v").collect()]
    tried = {key: values_of(spark, key) for key in listed if key not in ONLY_HOW_PYTHON_SHOWS_IT}
    return {key: [value for value in values if (key, value) not in UNUSABLE] for key, values in tried.items() if values}


def groups_of(settings: dict[str, list[str]]) -> Iterator[dict[str, str]]:
    """Settings that are tried together: by night each alone; else those of a kind, each value in one of the groups."""
    if NIGHTLY:
        yield from ({key: value} for key, values in settings.items() for value in values)
        return
    kinds: dict[str, dict[str, list[str]]] = {}
    for key, values in settings.items():
        kind = CONCERN_ROWS.search(key)
        if kind:
            kinds.setdefault(kind[0].lower(), {})[key] = values
    for same in kinds.values():
        for turn in range(min(3, max(map(len, same.values())))):
            yield {key: values[turn % len(values)] for key, values in same.items()}


def shown(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


def stored(table: ll.Table) -> list[str]:
    return sorted(map(repr, table.to_arrow().to_pylist()))


@pytest.mark.timeout(7200 if NIGHTLY else 600)
def test_no_setting_of_a_session_changes_a_row(steady: Any, tables: list[ll.Table], tmp_path: Path) -> None:
    spark = steady
    right = [shown(lake.read(spark, table.url)) for table in tables]
    wrong: list[Any] = []
    tried = 0
    settings = settings_of(spark)
    for number, group in enumerate(groups_of(settings)):
        for key, value in group.items():
            try:
                spark.conf.set(key, value)
                tried += 1
            except Exception as error:
                assert "INVALID_CONF_VALUE" in str(error)
        try:
            found = [shown(lake.read(spark, table.url)) for table in tables]
            copy = str(tmp_path / f"copy-{number}")
            lake.write(lake.read(spark, tables[0].url), copy, options={})
            if found != right or stored(ll.open_table(copy)) != stored(tables[0]):
                wrong.append((group, found))
        except Exception as error:
            wrong.append((group, str(error)[:500]))
        finally:
            for key in group:
                spark.conf.unset(key)
            spark.conf.set(ZONE, "UTC")
    told = f"{len(settings)} settings, {tried} values, {len(tables)} kinds of table, {len(wrong)} differences"
    tell(f"Spark {spark.version}: {told}")
    assert wrong == []
    assert tried > (400 if NIGHTLY else 100)


@pytest.mark.parametrize("setting", ["ignoreCorruptFiles", "ignoreMissingFiles"])
def test_a_lost_file_is_an_error_whatever_the_session_ignores(steady: Any, tmp_path: Path, setting: str) -> None:
    """G1: In many clusters these are set for all; an overwrite of what was read would make the loss last."""
    table = ll.create_table(str(tmp_path / "table"), pa.schema([("id", pa.int64())]))
    for number in range(3):
        table.append(pa.table({"id": [number]}))
    before = lake.read(steady, table.url)
    lost = min((tmp_path / "table" / "bucket-0").glob("*.parquet"))
    steady.conf.set(f"spark.sql.files.{setting}", "true")
    try:
        if setting == "ignoreCorruptFiles":
            lost.write_bytes(b"PAR1" + bytes(lost.stat().st_size - 8) + b"PAR1")
        else:
            lost.unlink()
        for frame in (before, lake.read(steady, table.url)):
            with pytest.raises(Exception, match=lost.name):
                frame.collect()
            with pytest.raises(Exception, match=lost.name):
                lake.write(frame, table.url, mode="overwrite")
    finally:
        steady.conf.unset(f"spark.sql.files.{setting}")
    assert ll.open_table(table.url).snapshot().id == 3


@pytest.mark.parametrize("ignores_logs", ["true", "false"])
@pytest.mark.parametrize("marked", [False, True], ids=["whole", "deleted rows"])
def test_a_file_without_a_byte_is_an_error(steady: Any, tmp_path: Path, ignores_logs: str, marked: bool) -> None:
    """G1: as a machine leaves one behind that lost power. Of the files that Spark lists by itself it leaves out empty ones."""
    table = ll.create_table(
        str(tmp_path / "table"), pa.schema([("id", pa.int64())]), options={"deletion-vectors.enabled": "true"}
    )
    for number in range(3):
        table.append(pa.table({"id": [number, number + 10, number + 20]}))
    if marked:
        table.delete(where="id > 9 AND id < 20")
    steady.conf.set("spark.sql.streaming.fileStreamSink.ignoreMetadata", ignores_logs)
    try:
        assert lake.read(steady, table.url).count() == (6 if marked else 9)
        lost = min((tmp_path / "table" / "bucket-0").glob("*.parquet"))
        lost.write_bytes(b"")
        with pytest.raises(Exception, match=lost.name):
            lake.read(steady, table.url).collect()
    finally:
        steady.conf.unset("spark.sql.streaming.fileStreamSink.ignoreMetadata")


@pytest.mark.parametrize("names", ["parquet$", ".*", "lakelatch-plan|_spark_metadata"])
def test_no_file_is_left_out_by_its_name(steady: Any, tables: list[ll.Table], names: str) -> None:
    """Since version 4.3, Spark leaves out files whose names match a setting; earlier ones know no such setting."""
    steady.conf.set("spark.sql.files.ignoredPathSegmentRegex", names)
    try:
        frame = lake.read(steady, tables[0].url)
        assert frame.count() == frame.where("part = 'a' OR id > 0").count() == len(ROWS)
    finally:
        steady.conf.unset("spark.sql.files.ignoredPathSegmentRegex")
