"""Statistics and manifests: what `analyze` and `compact_manifests` find, commit and leave alone."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from killed_store import contents, each_kill

import lakelatch as ll
from lakelatch.core.statistics.distinct import SMALLEST, DistinctCounter
from lakelatch.core.statistics.table_statistics import ColumnStatistics, parse_statistics
from lakelatch.table.table import Table

COUNTER = count()
SCHEMA = pa.schema(
    [("k", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("day", pa.date32()), ("l", pa.list_(pa.int8()))]
)


def new_table(schema: pa.Schema = SCHEMA, **more: Any) -> Table:
    return ll.create_table(f"memory://upkeep-{next(COUNTER)}/t", schema, **more)


def rows(*keys: int) -> pa.Table:
    values: dict[str, Any] = {
        "k": list(keys),
        "s": ["é" * (k % 4) or None for k in keys],
        "x": [float("nan") if k == 3 else -0.0 if k == 0 else k / 4 for k in keys],
        "day": [dt.date(1970, 1, 1 + k % 5) for k in keys],
        "l": [[1]] * len(keys),
    }
    return pa.table(values, schema=SCHEMA)


# ----------------------------------------------------------------------------------------------------------- analyze


def test_analyze_counts_what_the_rows_have() -> None:
    table = new_table()
    table.append(rows(0, 1, 2, 3))
    table.append(rows(3, 4, 5))
    found = table.analyze()
    assert (found.snapshot_id, found.schema_id, found.row_count) == (2, 0, 7)
    assert found.size == sum(table.files()["file_size_in_bytes"].to_pylist())
    assert found.columns == {
        "k": ColumnStatistics(0, 6, "0", "5", 0, 8, 8),
        "s": ColumnStatistics(1, 3, None, None, 2, 2, 3),
        "x": ColumnStatistics(2, 6, "-0.0", "NaN", 0, 8, 8),
        "day": ColumnStatistics(3, 5, "0", "4", 0, 4, 4),
    }
    assert table.statistics() == found
    newest = table.snapshot()
    assert newest is not None and newest.commit_kind == "ANALYZE"
    assert (newest.delta_record_count, newest.total_record_count) == (0, 7)
    assert table.verify(data=True) == [] and table.count() == 7
    assert "7 rows" in str(found) and found.to_dict()["columns"]["s"]["null_count"] == 2


def test_other_columns_keep_what_was_known_until_the_schema_changes() -> None:
    table = new_table()
    table.append(rows(1))
    table.analyze(["k"])
    table.append(rows(2))
    assert table.statistics() is not None  # carried on
    found = table.analyze(columns=["s"])
    assert found.columns["k"].distinct_count == 1 and found.columns["s"].distinct_count == 2 and found.row_count == 2
    before = table.snapshot()
    assert table.analyze([], dry_run=True).row_count == 2
    assert table.snapshot() == before
    table.alter(ll.add_column("new", "INT"))
    table.append(rows(3))
    assert table.statistics() is None
    assert set(table.analyze(["new"]).columns) == {"new"}


def test_merged_rows_count_once_and_deleted_rows_not() -> None:
    table = new_table(primary_key=["k"], options={"bucket": "1", "write-only": "true"})
    for _ in range(4):
        table.upsert(rows(1, 2))
    table.delete(keys=pa.table({"k": [1]}))
    found = table.analyze(["k"])
    assert found.row_count == 1 and found.columns["k"] == ColumnStatistics(0, 1, "2", "2", 0, 8, 8)
    stored = sum(table.files()["file_size_in_bytes"].to_pylist())
    assert found.size == stored * 1 // 9


def test_every_type_with_statistics() -> None:
    values: dict[str, pa.Array] = {
        "b": pa.array([True, False, None]),
        "i8": pa.array([-1, 5, None], pa.int8()),
        "f": pa.array([0.5, None, 0.1], pa.float32()),
        "d": pa.array([Decimal("1.50"), Decimal("-2.25"), None], pa.decimal128(5, 2)),
        "wide": pa.array([Decimal(10) ** 20, None, None], pa.decimal128(30, 1)),
        "t3": pa.array([0, 1500, None], pa.timestamp("ms")),
        "t9": pa.array([1, None, None], pa.timestamp("ns", tz="UTC")),
        "bin": pa.array([b"abc", b"", None], pa.binary()),
    }
    table = new_table(pa.table(values).schema)
    table.append(pa.table(values))
    found = table.analyze().columns
    assert found == {
        "b": ColumnStatistics(0, 2, "false", "true", 1, 1, 1),
        "i8": ColumnStatistics(1, 2, "-1", "5", 1, 1, 1),
        "f": ColumnStatistics(2, 2, "0.1", "0.5", 1, 4, 4),
        "d": ColumnStatistics(3, 2, "-2.25", "1.50", 1, 8, 8),
        "wide": ColumnStatistics(4, 1, "100000000000000000000.0", "100000000000000000000.0", 2, 16, 16),
        "t3": ColumnStatistics(5, 2, "1970-01-01 00:00:00.000", "1970-01-01 00:00:01.500", 1, 8, 8),
        "t9": ColumnStatistics(6, 1, "1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000000001", 2, 8, 8),
        "bin": ColumnStatistics(7, 2, None, None, 1, 2, 3),
    }


def test_mistakes_are_named() -> None:
    table = new_table()
    with pytest.raises(ll.InvalidArgument, match="no snapshot yet"):
        table.analyze()
    table.append(rows(1))
    with pytest.raises(ll.InvalidArgument, match="column 'l' is of type ARRAY<TINYINT>"):
        table.analyze(["l"])
    with pytest.raises(ll.InvalidArgument, match="no column 'K'"):
        table.analyze(["K"])
    with pytest.raises(ll.InvalidArgument, match="read only"):
        table.at(snapshot=1).analyze()
    with pytest.raises(ll.TableCorrupt, match="statistics/stat-1 is not a file of statistics"):
        parse_statistics(b'{"snapshotId": 1}', "statistics/stat-1")


def test_statistics_are_committed_exactly_once() -> None:
    table = new_table()
    table.append(rows(1))
    first = table.analyze(commit_user="nightly", identifier=1)
    table.append(rows(2))
    again = table.analyze(commit_user="nightly", identifier=1)
    assert again == first and [s.commit_kind for s in table.snapshots()] == ["APPEND", "ANALYZE", "APPEND"]


def test_many_values_are_estimated() -> None:
    counter, exact = DistinctCounter(), DistinctCounter()
    for begin in range(0, 400_000, 100_000):
        counter.update(pa.array(np.arange(begin, begin + 150_000)))
    exact.update(pa.array(np.arange(SMALLEST)))
    exact.update(pa.array([None, 5, 6], pa.int64()))
    assert exact.count == SMALLEST
    assert abs(counter.count - 450_000) < 450_000 * 0.02
    texts = DistinctCounter()
    for _ in range(2):
        texts.update(pa.array([f"text {n % 3000}" for n in range(4000)] + [None]))
    assert texts.count == 3000
    floats = DistinctCounter()
    floats.update(pa.array([0.0, -0.0, float("nan"), float("nan"), None]))
    assert floats.count == 2


# --------------------------------------------------------------------------------------------------------- manifests


def test_manifests_become_one_and_nothing_else_changes() -> None:
    table = new_table(primary_key=["k"], options={"bucket": "1"})
    for n in range(5):
        table.upsert(rows(n))
    table.compact(full=True)
    table.analyze(["k"])
    before = table.system("files").sort_by("file_path")
    planned = table.compact_manifests(dry_run=True)
    assert planned.is_due and planned.receipt is None and "would be merged" in str(planned)
    done = table.compact_manifests()
    assert len(done.manifests) == 6 and len(done.after) == 1 and done.after[0].num_deleted_files == 0
    assert done.receipt is not None and str(done).endswith(f"snapshot {done.receipt.snapshot_id}")
    newest = table.snapshot()
    assert newest is not None and newest.commit_kind == "COMPACT" and newest.statistics is not None
    assert table.timeline.delta_manifests(newest) == ()
    assert (newest.delta_record_count, newest.total_record_count) == (0, 5)
    assert table.system("files").sort_by("file_path").equals(before)
    assert table.verify(snapshots="all", data=True) == []
    assert not table.compact_manifests().is_due and table.snapshot() == newest


def test_one_small_manifest_is_left_alone() -> None:
    table = new_table()
    assert str(table.compact_manifests()) == "nothing to compact: 0 manifests (0 bytes, 0 deletions)"
    table.append(rows(1))
    assert not table.compact_manifests().is_due


def test_rows_that_others_commit_meanwhile_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append lands between reading the manifests and the publish: the merge is made again on what it left."""
    table = new_table()
    for n in range(3):
        table.append(rows(n))
    other = Table(table.store, table.schema)
    store, met = table.store, []
    publish = store.put_if_absent

    def interrupted(key: str, data: bytes) -> Any:
        if key.startswith("snapshot/snapshot-4") and not met:
            met.append(key)
            other.append(rows(10))
        return publish(key, data)

    monkeypatch.setattr(store, "put_if_absent", interrupted)
    done = table.compact_manifests()
    assert met and done.receipt is not None and done.receipt.retries == 1
    assert len(done.after) == 1 and done.after[0].num_added_files == 4
    assert sorted(table.to_arrow(["k"])["k"].to_pylist()) == [0, 1, 2, 10]
    assert table.verify(snapshots="all") == []


@pytest.mark.parametrize("act", ["analyze", "compact_manifests"])
def test_killed_at_any_request_and_run_again_it_ends_the_same(act: str) -> None:
    made = new_table()
    for n in range(3):
        made.append(rows(n))
    kills = 0
    for at, store in each_kill(contents(made.store), lambda store: getattr(Table(store, made.schema), act)()):  # type: ignore[arg-type]
        table, kills = Table(store, made.schema), at
        getattr(table, act)()
        assert sorted(table.to_arrow(["k"])["k"].to_pylist()) == [0, 1, 2]
        assert table.verify(snapshots="all") == []
        if act == "analyze":
            assert (found := table.statistics()) is not None and found.row_count == 3
        else:
            assert not table.compact_manifests().is_due
    assert kills > 10
