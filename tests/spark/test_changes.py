"""Changes as a DataFrame, and through the data source: the rows of `Table.changes`, read by tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import unpack

import lakelatch as ll
import lakelatch.spark as lake
from lakelatch.core.errors import InvalidArgument
from lakelatch.spark.jobs import packing
from lakelatch.spark.options.source_options import SourceOptions

pytestmark = pytest.mark.spark


def told(rows: list[Any]) -> list[str]:
    """Rows as sorted texts, without the time, which Spark gives in a zone of its own."""
    return sorted(repr({k: v for k, v in dict(row).items() if k != "_commit_time"}) for row in rows)


def frame_rows(frame: Any) -> list[str]:
    return told(frame.toArrow().to_pylist())


@pytest.fixture
def keyed(tmp_path: Path) -> str:
    """A table with upserts, deletes and the changelog of full compactions, by Apache Paimon."""
    return str(unpack("paimon-java-1.4.2/pk_changelog_full_compaction", tmp_path).path)


def test_changes_of_a_key_table_are_those_of_the_table(spark: Any, keyed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds of reads: changelogs, rows as written, and the difference of two states, with a filter and columns."""
    monkeypatch.setattr(packing, "LEAST_BYTES", 1)  # as many tasks as there can be
    table = ll.open_table(keyed)
    last = table.snapshots()[-1].id
    whole: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((0,), {}),
        ((0, last), {"mode": "delta", "columns": ["k", "n"]}),
        ((1, last), {"mode": "diff", "where": "k > 3"}),
    ]
    frames = [lake.changes(spark, keyed, *ends, **more) for ends, more in whole]
    for frame, (ends, more) in zip(frames, whole, strict=True):
        expected = table.changes(*ends, **more).read_all()
        assert expected.num_rows > 5
        assert frame.columns == expected.column_names
        assert frame_rows(frame) == told(expected.to_pylist()), more
    moment = frames[0].selectExpr("cast(max(_commit_time) as double) * 1000").first()[0]
    assert int(moment) == max(
        table.at(snapshot=i).snapshot().time_ms for i in table.changes(0).read_all()["_snapshot_id"].to_pylist()
    )
    assert lake.changes(spark, keyed, last).count() == 0


def test_changes_through_the_data_source(spark: Any, keyed: str, tmp_path: Path) -> None:
    """`incremental-between` by ids and by tags, with overwrites and without them."""
    lake.register(spark)
    url = str(tmp_path / "t")
    table = ll.create_table(url, pa.schema([("p", pa.int32()), ("s", pa.string())]), partition_by=["p"])
    table.append(pa.table({"p": pa.array([1, 2], pa.int32()), "s": ["a", "b"]}))
    table.overwrite(pa.table({"p": pa.array([1], pa.int32()), "s": ["c"]}), partition={"p": 1})
    source = spark.read.format("lakelatch").option("incremental-between", "0,2")
    assert frame_rows(source.load(url)) == told(table.changes(0, 2).read_all().to_pylist())
    assert frame_rows(lake.changes(spark, url, 1)) == told(table.changes(1).read_all().to_pylist())
    only = source.option("overwrites", "false").option("columns", "s").option("where", "p = 1").load(url)
    assert only.columns == ["s", "_row_kind", "_snapshot_id", "_commit_time"]
    assert [row["s"] for row in only.collect()] == ["a"]
    source = spark.read.format("lakelatch").option("incremental-between-scan-mode", "diff")
    by_key = source.option("incremental-between", "2,4").load(keyed)
    assert frame_rows(by_key) == told(ll.open_table(keyed).changes(2, 4, mode="diff").read_all().to_pylist())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"incremental-between": "1"}, "give two snapshot ids or two tags, as 3,7"),
        ({"incremental-between": "1,"}, "give two snapshot ids or two tags"),
        ({"overwrites": "false"}, "needs option 'incremental-between'"),
        ({"incremental-between": "1,2", "snapshot": "1"}, "excludes 'snapshot'"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        SourceOptions({"path": "/t", **options}).check_batch("read")


def test_a_range_that_is_not_there_is_refused_on_the_driver(spark: Any, keyed: str) -> None:
    with pytest.raises(InvalidArgument, match="there is no snapshot 99"):
        lake.changes(spark, keyed, 0, 99)
