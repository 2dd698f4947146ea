"""Plans of many plain files: their splits stay columns until somebody looks, and are then those that objects would have given."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import lakelatch as ll
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.data_file import ADD, DELETE, DataFile, ManifestEntry
from lakelatch.core.metadata.file_columns import FileColumns
from lakelatch.core.metadata.folding import live
from lakelatch.core.metadata.manifest import decode_manifests, encode_manifest
from lakelatch.core.metadata.manifest_columns import EntryColumns
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.paths import POSTPONE_BUCKET, TablePaths, format_of
from lakelatch.core.places import codec_of
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.scan import column_splits
from lakelatch.table.scan.column_splits import ColumnSplits, have_own_names, live_files
from lakelatch.table.scan.plan import ScanPlan, count_rows
from lakelatch.table.scan.split_planning import SplitPlanner
from lakelatch.table.system.listings import files_table

INT = AtomicType("INT")
OPTIONS = {"source.split.target-size": "100 b", "source.split.open-file-cost": "4 b"}
SCHEMA = new_schema([Field(0, "p", INT), Field(1, "a", INT)], partition_keys=["p"], options=OPTIONS)


def entry(
    number: int, *, p: int = 1, bucket: int = 0, kind: int = ADD, total: int = -1, **of_file: Any
) -> ManifestEntry:
    told = {"file_name": f"data-{number}.parquet", "file_size": 10, "row_count": 5, **of_file}
    return ManifestEntry(kind, encode_row([p], [INT]), bucket, total, DataFile(**told))


def columns_of(*manifests: Sequence[ManifestEntry]) -> list[Any]:
    """The manifests as a plan sees those of large tables: columns, and the indices of all entries."""
    files = [(f"manifest-{i}", encode_manifest(list(entries))) for i, entries in enumerate(manifests)]
    parts = list(decode_manifests(files))
    assert all(isinstance(part, EntryColumns) for part in parts)
    return [(part, np.arange(part.rows)) for part in parts]


def planner(schema: TableSchema = SCHEMA, *, old: TableSchema | None = None, **more: Any) -> SplitPlanner:
    return SplitPlanner(schema, lambda number: schema if number == schema.id else old, more.pop("index", ()), **more)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 60))
def test_the_splits_are_those_of_the_objects(seed: int, count: int) -> None:
    """Partitions, buckets, sizes and sequence numbers at random, in two manifests, some files added and deleted again."""
    dice = random.Random(seed)
    added = [
        entry(
            n * 10 ** dice.randrange(4), p=dice.randrange(3), bucket=dice.randrange(2), total=dice.choice([-1, 2]),
            file_size=dice.randrange(120), row_count=dice.randrange(9), min_sequence_number=dice.randrange(5),
        )
        for n in range(count)
    ]  # fmt: skip
    added = list({e.file.file_name: e for e in added}.values())
    gone = [e.deletion() for e in added if dice.random() < 0.2]
    cut = dice.randrange(len(added) + 1)
    manifests = [part for part in (added[:cut], [*gone, *added[cut:]]) if part]
    expected = planner().splits(live(e for part in manifests for e in part))
    found = planner().plain_splits(columns_of(*manifests))
    assert isinstance(found, ColumnSplits)
    totals = (len(found), found.file_count, found.row_count, found.size)
    assert totals == (
        len(expected), sum(len(s.files) for s in expected), sum(s.row_count for s in expected), sum(s.size for s in expected)
    )  # fmt: skip
    assert tuple(found) == expected


def test_nothing_becomes_an_object_before_a_split_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of splits, the totals, the text of the plan and the count of rows are known without a file's object."""
    made: list[int] = []
    entries = EntryColumns.entries
    monkeypatch.setattr(EntryColumns, "entries", lambda self, rows=None: made.append(1) or entries(self, rows))
    splits = planner().plain_splits(columns_of([entry(n, p=n % 2, file_size=60) for n in range(6)]))
    assert splits is not None
    plan = ScanPlan(None, 0, splits)
    assert (len(plan.splits), plan.file_count, plan.row_count, plan.size, count_rows(plan)) == (6, 6, 30, 360, 30)
    assert (repr(splits), plan.explain(), made) == ("<6 splits of 6 files>", plan.explain(), [])
    first = splits[0]
    assert made == [1]
    assert (splits[0] is first, splits[-1].keys, len(made)) == (True, ("p=1/bucket-0/data-5.parquet",), 1)
    assert splits[1:3] == tuple(splits)[1:3]
    assert splits == tuple(splits)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert (hash(splits), splits != ()) == (hash(tuple(splits)), True)


@pytest.mark.parametrize(
    "special",
    [
        [entry(7, file_name="data-7.orc")],
        [entry(7, file_name="data-7.parquet.gz")],
        [entry(7, file_name="../data-7.parquet")],
        [entry(7, file_name="..\\data-7.parquet")],
        [entry(7, external_path="file:/elsewhere/data-7.parquet")],
        [entry(7, schema_id=1)],
        [entry(7), entry(7)],
        [entry(7), entry(7, kind=DELETE), entry(7, level=1)],
    ],
)
def test_files_that_are_not_plain_are_left_to_the_exact_rules(special: list[ManifestEntry]) -> None:
    """Another format, a place elsewhere, another schema, a name twice, and names that leave the table's folder."""
    old = replace(new_schema([Field(0, "p", INT), Field(1, "a", string())], partition_keys=["p"]), id=1)
    plain = [entry(n) for n in range(3)]
    of_old = planner(old=old)
    assert of_old.plain_splits(columns_of(plain)) is not None
    assert of_old.plain_splits(columns_of([*plain, *special])) is None
    assert of_old.plain_splits([*columns_of(plain), special]) is None


def test_tables_whose_files_belong_together_are_left_to_the_exact_rules() -> None:
    """With a primary key, with data evolution, and with deleted rows."""
    keyed = new_schema([Field(0, "p", INT), Field(1, "a", INT)], primary_keys=["a"], options={"bucket": "1"})
    evolving = new_schema(
        [Field(0, "a", INT)], options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    )
    for schema in (keyed, evolving):
        assert planner(schema).plain_splits(columns_of([entry(0)])) is None


def test_a_delete_of_nothing_and_a_damaged_partition_are_found_by_the_plan() -> None:
    with pytest.raises(TableCorrupt, match=r"deletes data file data-9\.parquet"):
        planner().plain_splits(columns_of([entry(1), entry(9, kind=DELETE)]))
    damaged = entry(1)._replace(partition=b"\0\0\0\1\0")
    with pytest.raises(TableCorrupt):
        planner().plain_splits(columns_of([damaged]))


def test_a_table_of_deleted_rows_is_read_without_them(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deletion vectors keep the exact rules in charge, however many files there are."""
    monkeypatch.setattr("lakelatch.coordinator.history.manifests.COLUMNS_FROM", 0)
    schema = ll.Schema([("a", "INT")])
    options = {"row-tracking.enabled": "false", "deletion-vectors.enabled": "true"}
    table = ll.create_table(str(tmp_path / "t"), schema, options=options)
    for first in (0, 10):
        table.append(pa.table({"a": pa.array(range(first, first + 10), pa.int32())}))
    assert isinstance(table.plan().splits, ColumnSplits)
    assert sorted(table.to_arrow()["a"].to_pylist()) == list(range(20))
    table.delete(where="a = 3")
    assert not isinstance(table.plan().splits, ColumnSplits)
    assert table.count() == 19


@pytest.mark.parametrize("name", ["../data-7.parquet", "..", ".", "", "a\\b", "a\0b"])
def test_the_listing_of_files_refuses_names_that_leave_the_table(name: str) -> None:
    parts = [part for part, _ in columns_of([entry(1), entry(7, file_name=name)])]
    with pytest.raises(TableCorrupt, match="would leave the table's directory"):
        files_table(SCHEMA, TablePaths(), live_files(parts))


@settings(max_examples=300, deadline=None)
@example(parts=[["a"], ["a", "a" * 9]], alike=False)
@given(
    parts=st.lists(st.lists(st.text("ab\0é", max_size=20), max_size=6), max_size=4),
    alike=st.booleans(),
)
def test_names_that_are_there_twice_are_found_in_whichever_manifest(parts: list[list[str]], alike: bool) -> None:
    """Also where two names have the same number, which is then not enough to tell them apart."""
    names = [name for part in parts for name in part]
    arrays = [pa.array(part, pa.string()) for part in parts]
    with pytest.MonkeyPatch.context() as patch:
        if alike:
            patch.setattr(column_splits, "_ODD", np.uint64(0))
        assert have_own_names(arrays) == (len(set(names)) == len(names))
    sliced = [pa.array(["x", *part, "x"], pa.string()).slice(1, len(part)) for part in parts]
    assert have_own_names(sliced) == (len(set(names)) == len(names))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_listing_of_files_is_that_of_the_objects(seed: int) -> None:
    """Names of many lengths, files elsewhere, other formats, levels, files that are deleted, raised and added twice."""
    dice = random.Random(seed)
    added = [
        entry(
            n, p=dice.randrange(3), bucket=dice.choice([0, 1, POSTPONE_BUCKET]), level=dice.randrange(2),
            file_name=f"{'x' * dice.randrange(40)}{n}.{dice.choice(['parquet', 'orc', 'csv.gz'])}",
            external_path=dice.choice([None, None, f"s3://elsewhere/{n}.parquet"]), creation_time=dice.choice([None, n]),
        )
        for n in range(dice.randrange(1, 40))
    ]  # fmt: skip
    gone = [e.deletion() for e in added if dice.random() < 0.2]
    raised = [e._replace(kind=ADD, file=e.file._replace(level=5)) for e in gone if dice.random() < 0.3]
    twice = added[:1] if dice.random() < 0.2 and not gone else []
    parts = [part for part, _ in columns_of(added, [*gone, *raised, *twice] or added[:1])]
    objects = live(e for part in parts for e in part.entries())
    found = files_table(SCHEMA, TablePaths(), live_files(parts))
    assert found.equals(files_table(SCHEMA, TablePaths(), [FileColumns(objects)]))
    codec = codec_of(SCHEMA)
    where = [TablePaths().data_file(codec.path(e.partition), e.bucket, e.file.file_name) for e in objects]
    assert found["file_path"].to_pylist() == [e.file.external_path or p for e, p in zip(objects, where, strict=True)]
    assert found["file_format"].to_pylist() == [format_of(e.file.file_name) for e in objects]
    assert found["creation_time_ms"].to_pylist() == [e.file.creation_time for e in objects]
    assert found["partition"].to_pylist() == [codec.path(e.partition) for e in objects]


def test_the_listing_counts_rows_that_delete_apart() -> None:
    table = ll.create_table("memory://listing-of-deletes/t", pa.schema([("k", pa.int64())]), primary_key=["k"])
    table.upsert(pa.table({"k": [1, 2, 3]}))
    table.delete(keys=pa.table({"k": [2]}))
    entries = {entry.file.row_count: entry.file for entry in table.entries()}
    listed = table.files().to_pylist()
    for row in listed:
        file = entries[row["record_count"]]
        assert (row["delete_row_count"], row["creation_time_ms"]) == (file.delete_row_count, file.creation_time)
    assert sorted((row["record_count"], row["delete_row_count"]) for row in listed) == [(1, 1), (3, 0)]
