"""System tables as DataFrames and through the data source have the rows of `Table.system`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from golden_tables import unpack

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument
from lakelatch.spark.options.source_options import SourceOptions

pytestmark = pytest.mark.spark


def texts(rows: Any) -> list[str]:
    return sorted(repr(row) for row in rows.to_pylist())


def test_system_tables_are_those_of_the_table(spark: Any, tmp_path: Path) -> None:
    """Of a table with keys and vectors, in few jobs: columns of nested types, and rows of each kind of system table."""
    lake.register(spark)
    url = str(unpack("paimon-java-1.4.2/pk_dv", tmp_path).path)
    table = ll.open_table(url)
    for name in ("tags", "table_indexes", "binlog"):
        frame = lake.read(spark, url, system=name)
        assert frame.columns == table.system_reader(name).schema.names, name
    asked: list[tuple[str, dict[str, Any]]] = [
        ("snapshots", {"where": "snapshot_id > 1", "columns": ["commit_time", "snapshot_id"]}),
        ("files", {"where": "level > 0"}),
        ("ro", {}),
    ]
    for name, more in asked:
        expected = table.system(name, **more)
        assert expected.num_rows, name
        assert texts(lake.read(spark, url, system=name, **more).toArrow()) == texts(expected), name
    old = lake.read(spark, url, system="partitions", snapshot=1)
    assert texts(old.toArrow()) == texts(table.at(snapshot=1).system("partitions"))


def test_system_tables_through_the_data_source(spark: Any, tmp_path: Path) -> None:
    lake.register(spark)
    url = str(unpack("paimon-java-1.4.2/life_tags", tmp_path).path)
    table = ll.open_table(url)
    source = spark.read.format("lakelatch").option("system", "tags")
    some = source.option("where", "tag_name = 'timed'").option("columns", "tag_name,record_count").load(url)
    assert [tuple(row) for row in some.collect()] == [("timed", 24)]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW tagged USING lakelatch OPTIONS (path '{url}', system 'files')")
    assert spark.sql("SELECT sum(record_count) AS n FROM tagged").first().n == table.count()


def test_mistakes_are_named(spark: Any, tmp_path: Path) -> None:
    url = str(unpack("paimon-java-1.4.2/life_tags", tmp_path).path)
    with pytest.raises(InvalidArgument, match="no system table 'tag'"):
        lake.read(spark, url, system="tag")
    with pytest.raises(InvalidArgument, match="exclude each other"):
        SourceOptions({"path": url, "system": "tags", "incremental-between": "1,2"})
