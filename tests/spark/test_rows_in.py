"""Frames of Spark come in by the rules of all rows, and what a text is, is said by Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument
from lakelatch.spark import write_job

TEXTS = {
    "DOUBLE": "CAST(1e10 AS DOUBLE)",
    "FLOAT": "CAST(0.1 AS FLOAT)",
    "BOOLEAN": "true",
    "DECIMAL": "CAST(0.0000001 AS DECIMAL(10, 7))",
    "INTERVAL": "INTERVAL '1 02:00:00' DAY TO SECOND",
    "MONTHS": "INTERVAL '1-2' YEAR TO MONTH",
    "INT": "7",
}


def test_values_become_the_text_that_spark_writes(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    ll.create_table(url, ll.Schema([(name, "STRING") for name in TEXTS]))
    frame = spark.sql(f"SELECT {', '.join(f'{value} AS {name}' for name, value in TEXTS.items())}")
    lake.write(frame, url)
    expected = spark.sql(f"SELECT {', '.join(f'CAST({value} AS STRING) AS {name}' for name, value in TEXTS.items())}")
    assert ll.open_table(url).to_arrow().to_pylist() == [row.asDict() for row in expected.collect()]


@pytest.mark.parametrize(
    ("value", "column"),
    [
        ("true", "INT"),
        ("1", "BOOLEAN"),
        ("INTERVAL '1' DAY", "BIGINT"),
        ("array(true)", "ARRAY<INT>"),
        ("1.5", "BOOLEAN"),
    ],
)
def test_what_spark_refuses_is_refused_before_a_job_runs(spark: Any, tmp_path: Path, value: str, column: str) -> None:
    url = str(tmp_path / "t")
    ll.create_table(url, ll.Schema([("x", column)]))
    with pytest.raises(InvalidArgument, match="column 'x"):
        lake.write(spark.sql(f"SELECT {value} AS x"), url)
    assert ll.open_table(url).snapshots() == []


def test_new_fields_are_refused_or_added(spark: Any, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    ll.create_table(url, ll.Schema([("id", "INT"), ("x", "ARRAY<ROW<a INT>>")]))
    frame = spark.sql("SELECT 1 AS id, array(named_struct('a', 1, 'b', 'kept')) AS x")
    with pytest.raises(InvalidArgument, match="has no field 'b'"):
        lake.write(frame, url)
    lake.write(frame, url, evolve=True)
    assert ll.open_table(url).to_arrow().to_pylist() == [{"id": 1, "x": [{"a": 1, "b": "kept"}]}]


def test_a_job_that_fails_leaves_no_new_table(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its workers cannot start, for instance. A table that was there before stays."""

    def failing(*about: Any) -> list[Any]:
        raise RuntimeError("the workers cannot start")

    monkeypatch.setattr(write_job, "run_job", failing)
    frame, url = spark.range(3), str(tmp_path / "t")
    with pytest.raises(RuntimeError):
        lake.write(frame, url, options={})
    assert not ll.is_table(url)
    ll.create_table(url, ll.Schema([("id", "BIGINT")]))
    with pytest.raises(RuntimeError):
        lake.write(frame, url, options={})
    assert ll.is_table(url)
    monkeypatch.undo()
    assert lake.write(frame, url, options={}).snapshot_id == 1
