"""Planning: what is pruned and why, what is never pruned, what is refused."""

from __future__ import annotations

import itertools
import json
import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history import manifests as reading
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import TableCorrupt, Unsupported
from lakelatch.core.expressions.binding import bind
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.tree import Predicate
from lakelatch.core.metadata.data_file import ADD, DELETE, NO_STATS, DataFile, ManifestEntry, SimpleStats
from lakelatch.core.metadata.folding import summarise
from lakelatch.core.metadata.manifest import encode_manifest, encode_manifest_list
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.options import TableOptions
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import FilePlaces, is_external
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.bucket import BucketFunction, bucket_of_row
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.scan.bucket_pruning import BucketPruner
from lakelatch.table.scan.plan import ScanPlan, count_rows, plan_scan
from lakelatch.table.scan.split import pack

INT, BIGINT = AtomicType("INT"), AtomicType("BIGINT")
COUNTER = itertools.count()
EMPTY = encode_row([], [])


@pytest.fixture(params=[0, 2048], ids=["columns", "entries"], autouse=True)
def columns_from(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it holds whether manifests are pruned as columns or entry by entry."""
    monkeypatch.setattr(reading, "COLUMNS_FROM", request.param)


def fresh_store() -> MemoryStore:
    return MemoryStore(f"memory://plan-{next(COUNTER)}")


class Metadata:
    """A table of metadata alone: what planning sees."""

    def __init__(self, *schemas: TableSchema) -> None:
        self.store = MeteredStore(fresh_store())
        self.schemas = schemas
        for schema in schemas:
            self.store.put(f"schema/schema-{schema.id}", schema.to_json())
        self.timeline = Timeline(self.store, TablePaths())

    def entry(
        self, name: str, bounds: dict[str, Any] | None = None, *, schema: int = 0, kind: int = ADD, **more: Any
    ) -> ManifestEntry:
        """An entry; `bounds` are (min, max, nulls) by column, a column that is missing there is unknown."""
        written = self.schemas[schema]
        partition = encode_row([more.pop("p")], [written.partition_fields[0].type]) if "p" in more else EMPTY
        bucket, total = more.pop("bucket", (0, -1))
        stats = NO_STATS
        if bounds is not None:
            values = [bounds.get(f.name, (None, None, None)) for f in written.fields]
            types = [f.type for f in written.fields]
            low, high, nulls = zip(*values, strict=True)
            stats = SimpleStats(encode_row(low, types), encode_row(high, types), tuple(nulls))
        file = DataFile(f"{name}.parquet", 10, 100, value_stats=stats, schema_id=schema, **more)
        if bounds is None:
            file = file._replace(value_stats_cols=())
        return ManifestEntry(kind, partition, bucket, total, file)

    def snapshot(self, *manifests: list[ManifestEntry]) -> Snapshot:
        """A snapshot whose base list has these manifests."""
        listed = []
        for i, entries in enumerate(manifests):
            data = encode_manifest(entries)
            self.store.put(f"manifest/manifest-{i}", data)
            listed.append(summarise(f"manifest-{i}", len(data), entries, self.schemas[-1].partition_fields, 0))
        self.store.put("manifest/list-base", encode_manifest_list(listed))
        self.store.put("manifest/list-delta", encode_manifest_list([]))
        return Snapshot(1, self.schemas[-1].id, "list-base", "list-delta", "me", 1, "APPEND", 0, 0, 0)

    def plan(self, where: Predicate | None, *manifests: list[ManifestEntry]) -> ScanPlan:
        return plan_scan(self.timeline, self.snapshot(*manifests), self.schemas[-1], where)


def names(plan: ScanPlan) -> list[str]:
    return [f.file_name.removesuffix(".parquet") for s in plan.splits for f in s.files]


PLAIN = new_schema([Field(0, "a", INT), Field(1, "b", string())])
PARTED = new_schema([Field(0, "p", INT), Field(1, "a", INT)], partition_keys=["p"])


# ----------------------------------------------------------------------------------------------------------- pruning


def test_manifests_partitions_and_statistics_prune_and_say_so() -> None:
    """A plan reads only what may hold a wanted row, and counts what it left out and why."""
    table = Metadata(PARTED)
    old = [table.entry(f"old{i}", {"a": (i, i, 0)}, p=1) for i in range(3)]
    mixed = [table.entry("m1", {"a": (0, 9, 0)}, p=4), table.entry("m2", {"a": (10, 19, 0)}, p=5)]
    plan = table.plan((col("p") == 5) & (col("a") > 3), old, mixed)
    assert names(plan) == ["m2"]
    assert (plan.manifests_considered, plan.manifests_read) == (2, 1)
    assert (plan.files_considered, plan.files_pruned_by_partition, plan.files_pruned_by_statistics) == (2, 1, 0)
    assert str(plan.residual) == "a > 3"
    plan = table.plan((col("p") == 5) & (col("a") > 30), old, mixed)
    assert (names(plan), plan.files_pruned_by_statistics) == ([], 1)
    text = str(table.plan(col("p") == 5, old, mixed))
    for line in (
        "snapshot   1, read as schema 0",
        "manifests  1 read of 2; 1 ruled out",
        "files      1 to read of 2; 1 ruled",
    ):
        assert line in text
    assert json.loads(json.dumps(plan.to_dict()))["files_pruned_by_statistics"] == 1


def test_partition_values_prune_inside_of_a_mixed_condition() -> None:
    """A condition on partition and other columns at once uses what the partition says, null included."""
    table = Metadata(PARTED)
    entries = [table.entry("one", {"a": (0, 0, 0)}, p=1), table.entry("none", {"a": (0, 0, 0)}, p=None)]
    assert names(table.plan((col("p") == 1) | (col("a") == 5), entries)) == ["one"]
    assert names(table.plan(col("p").is_null() | (col("a") == 5), entries)) == ["none"]
    assert names(table.plan(~(col("p") == 1) & (col("p") != 2) | (col("a") == 5), entries)) == []


def test_counting_uses_metadata_where_partitions_decide() -> None:
    """The row count of a partition needs no file; a condition on rows does."""
    table = Metadata(PARTED)
    entries = [table.entry("one", p=1), table.entry("two", p=2)]
    assert count_rows(table.plan(None, entries)) == 200
    assert count_rows(table.plan(col("p") == 1, entries)) == 100
    assert count_rows(table.plan(col("a") == 1, entries)) is None
    assert count_rows(plan_scan(table.timeline, None, PARTED, None)) == 0


def test_planning_reads_only_the_manifests_it_needs() -> None:
    """One request per list and per manifest that is read; none for data files."""
    table = Metadata(PARTED)
    snapshot = table.snapshot([table.entry("one", p=1)], [table.entry("two", p=2)])
    table.store.reset()
    plan_scan(table.timeline, snapshot, PARTED, col("p") == 2)
    assert dict(table.store.snapshot().by_operation) == {"get": 3}


EVOLVED = (
    new_schema([Field(0, "a", INT), Field(1, "b", string()), Field(2, "c", string())]),
    TableSchema(1, (Field(1, "a", string()), Field(0, "n", BIGINT), Field(3, "late", INT), Field(2, "c", INT)), 3),
)


def test_statistics_follow_field_ids_across_schemas() -> None:
    """G8: a renamed and widened column is pruned by its own bounds, a later one is null in old files."""
    table = Metadata(*EVOLVED)
    bounds = {"a": (1, 5, 0), "b": ("k", "p", 0), "c": ("1", "2", 0)}
    entries = [table.entry("old", bounds), table.entry("new", {"n": (100, 200, 0), "late": (7, 7, 0)}, schema=1)]
    assert names(table.plan(col("n") == 3, entries)) == ["old"]
    assert names(table.plan(col("n") == 150, entries)) == ["new"]
    assert names(table.plan(col("a") == "z", entries)) == ["new"]  # unknown there, not "k" to "p"
    assert names(table.plan(col("late") > 3, entries)) == ["new"]
    assert names(table.plan(col("late").is_null(), entries)) == ["old"]
    assert sorted(names(table.plan(col("c") == 9, entries))) == ["new", "old"]  # another type: its bounds say nothing


def test_odd_statistics_keep_the_file() -> None:
    """Statistics of another shape, or none, are unknown: rows are read without them."""
    table = Metadata(PLAIN)
    entry = table.entry("odd", {"a": (1, 1, 0), "b": ("x", "x", 0)})
    short = SimpleStats(encode_row([1], [INT]), encode_row([1], [INT]), (0,))
    damaged = SimpleStats(entry.file.value_stats.min_values[:-3], b"", None)
    for stats in (short, damaged):
        odd = entry._replace(file=entry.file._replace(value_stats=stats))
        assert names(table.plan(col("a") == 9, [odd])) == ["odd"]
    assert names(table.plan(col("a") == 9, [entry])) == []


def test_dense_statistics_belong_to_the_columns_they_name() -> None:
    """`_VALUE_STATS_COLS` says which column a bound is about; the others are unknown."""
    table = Metadata(PLAIN)
    stats = SimpleStats(encode_row(["k"], [string()]), encode_row(["m"], [string()]), (0,))
    file = DataFile("dense.parquet", 10, 100, value_stats=stats, value_stats_cols=("b",))
    entry = ManifestEntry(ADD, EMPTY, 0, -1, file)
    assert names(table.plan(col("a") == 9, [entry])) == ["dense"]
    assert names(table.plan(col("b") == "z", [entry])) == []


# ------------------------------------------------------------------------------------------------------------ deletes


def test_a_delete_without_statistics_still_deletes() -> None:
    """Deleted rows never come back because a filter dropped the DELETE and kept its ADD (format/statistics §3)."""
    table = Metadata(PLAIN)
    gone = table.entry("gone", {"a": (5, 5, 0)})
    bare = gone.file._replace(value_stats=NO_STATS, value_stats_cols=())
    deleted = ManifestEntry(DELETE, gone.partition, 0, -1, bare)
    for where in (None, col("a") == 5, col("a") == 6):
        assert names(table.plan(where, [gone], [deleted])) == []
        assert names(table.plan(where, [deleted], [gone])) == []
    plan = table.plan(None, [gone, table.entry("kept")], [deleted])
    assert (names(plan), plan.files_considered) == (["kept"], 1)


def test_a_delete_of_another_level_deletes_nothing_else() -> None:
    """A file that moved to another level is deleted there and added here: identity has the level in it."""
    table = Metadata(PLAIN)
    entry = table.entry("f")
    moved = entry._replace(file=entry.file._replace(level=3))
    plan = table.plan(None, [entry, entry.deletion(), moved])
    assert [f.level for s in plan.splits for f in s.files] == [3]


def test_a_delete_of_an_unknown_file_is_corrupt() -> None:
    """Then the file that should be gone may be there still: rows would come back."""
    table = Metadata(PLAIN)
    with pytest.raises(TableCorrupt, match=r"never\.parquet"):
        table.plan(None, [table.entry("f"), table.entry("never", kind=DELETE)])


# ------------------------------------------------------------------------------------------------------------ buckets

_KEYS = [Field(0, "k", INT), Field(1, "s", string()), Field(2, "v", INT)]


def bucketed(function: str = "default", key: str = "k,s") -> TableSchema:
    return new_schema(_KEYS, options={"bucket": "4", "bucket-key": key, "bucket-function.type": function})


@settings(max_examples=150, deadline=None)
@given(
    k=st.none() | st.integers(-3, 3),
    s=st.none() | st.sampled_from(["", "a", "a key that is longer"]),
    total=st.integers(1, 7),
    data=st.data(),
)
def test_a_key_s_own_bucket_is_never_pruned(k: int | None, s: str | None, total: int, data: st.DataObject) -> None:
    """Whatever condition a row meets, its bucket is read; the file's own bucket count is what counts."""
    schema = bucketed()

    def condition(name: str, value: Any) -> Predicate:
        if value is None:
            return col(name).is_null()
        kind = data.draw(st.sampled_from(["=", "in", "or"]))
        other = data.draw(st.sampled_from([1, -2] if name == "k" else ["b", "c"]))
        return {
            "=": col(name) == value,
            "in": col(name).is_in([other, value]),
            "or": (col(name) == other) | (col(name) == value),
        }[kind]

    predicate = bind(condition("k", k) & condition("s", s) & (col("v") > 0), schema.fields)
    bucket = bucket_of_row([k, s], [INT, string()], total)
    entry = ManifestEntry(ADD, EMPTY, bucket, total, DataFile("f.parquet", 1, 1))
    pruner = BucketPruner(predicate, schema, lambda _: schema)
    assert pruner.may_match(entry)
    assert pruner.may_match(entry._replace(total_buckets=-1))


def test_buckets_are_pruned_where_the_whole_key_is_known() -> None:
    """A point look-up reads one bucket; a part of the key, a range or a NaN reads all."""
    table = Metadata(bucketed())
    entries = [table.entry(f"b{i}", bucket=(i, 4)) for i in range(4)]
    wanted = bucket_of_row([7, "x"], [INT, string()], 4)
    plan = table.plan((col("k") == 7) & (col("s") == "x"), entries)
    assert (names(plan), plan.files_pruned_by_bucket) == ([f"b{wanted}"], 3)
    assert len(names(table.plan((col("k") == 7) & (col("s") >= "x"), entries))) == 4
    assert len(names(table.plan((col("k") == 7) | (col("s") == "x"), entries))) == 4
    assert names(table.plan((col("k") == 7) & (col("k") == 8) & (col("s") == "x"), entries)) == []


def test_the_mod_function_prunes_too() -> None:
    """Option `bucket-function.type` decides where a key is."""
    table = Metadata(bucketed("mod", "k"))
    entries = [table.entry(f"b{i}", bucket=(i, 4)) for i in range(4)]
    assert names(table.plan(col("k") == -3, entries)) == [f"b{bucket_of_row([-3], [INT], 4, BucketFunction.MOD)}"]


def test_files_of_another_key_type_are_kept() -> None:
    """A hash depends on the type: a file that was written with another one may be in any bucket."""
    old = new_schema([Field(0, "k", INT)], options={"bucket": "4", "bucket-key": "k"})
    new = replace(old, id=1, fields=(Field(0, "k", BIGINT),))
    table = Metadata(old, new)
    entries = [table.entry(f"b{i}", bucket=(i, 4)) for i in range(4)]
    assert len(names(table.plan(col("k") == -3, entries))) == 4


# ------------------------------------------------------------------------------------------------------------- splits


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, 300), max_size=30), target=st.integers(1, 500), cost=st.integers(0, 50))
def test_packing_keeps_every_file_once_and_in_order(sizes: list[int], target: int, cost: int) -> None:
    """No file is lost or read twice; a split is only larger than the target if it is one file."""
    files = [DataFile(f"f{i}", size, 1, min_sequence_number=(i * 7) % 11) for i, size in enumerate(sizes)]
    runs = [[f for f, _ in run] for run in pack([(f, None) for f in files], target, cost)]
    assert sorted(f.file_name for run in runs for f in run) == sorted(f.file_name for f in files)
    numbers = [f.min_sequence_number for run in runs for f in run]
    assert numbers == sorted(numbers)
    assert all(len(run) == 1 or sum(max(f.file_size, cost) for f in run) <= target for run in runs)


def test_splits_stay_inside_a_partition_and_bucket_and_travel() -> None:
    """A split is of one (partition, bucket), and can be pickled to another machine."""
    table = Metadata(PARTED)
    entries = [
        table.entry("a", p=1),
        table.entry("b", p=1, bucket=(1, 4)),
        table.entry("c", p=1),
        table.entry("d", p=2),
    ]
    plan = table.plan(None, entries)
    assert [(s.partition_path, s.bucket, len(s.files)) for s in plan.splits] == [
        ("p=1", 0, 2),
        ("p=1", 1, 1),
        ("p=2", 0, 1),
    ]
    assert plan.splits[0].keys == ("p=1/bucket-0/a.parquet", "p=1/bucket-0/c.parquet")
    again = pickle.loads(pickle.dumps(plan.splits[0]))
    assert (again, again.row_count, again.size, again.schema_ids) == (plan.splits[0], 200, 20, (0,))


def test_a_split_says_when_names_do_not_find_its_columns() -> None:
    """Renamed, retyped or re-used columns need our reader; columns that were only added do not."""
    table = Metadata(*EVOLVED)
    old = table.plan(None, [table.entry("old")])
    assert [reason for s in old.splits for reason in s.needs_arrow] == ["schema 0 calls column 'a' 'b'"]
    assert "arrow" in str(old)
    added = replace(EVOLVED[0], id=1, fields=(*EVOLVED[0].fields, Field(3, "late", INT)))
    table = Metadata(EVOLVED[0], added)
    assert [s.needs_arrow for s in table.plan(None, [table.entry("old")]).splits] == [()]


@pytest.mark.parametrize("name", ["../../secret.parquet", "..", "a/b.parquet", ""])
def test_a_file_name_never_leaves_the_table(name: str) -> None:
    """H16: a name with path parts is refused before anything is read."""
    table = Metadata(PLAIN)
    entry = table.entry("f")
    with pytest.raises((TableCorrupt, Unsupported)):
        table.plan(None, [entry._replace(file=entry.file._replace(file_name=name))])


@pytest.mark.parametrize(
    ("path", "option", "allowed"),
    [
        ("s3://other/data/f.parquet", "", False),
        ("s3://other/data/f.parquet", "s3://other/data", True),
        ("s3://other/data-2/f.parquet", "s3://other/data", False),
        ("s3://other/data/../x/f.parquet", "s3://other/data", False),
        ("FILE:/some/place/f.parquet", "file:///some/place,s3://other", True),
        ("/some/place/f.parquet", "file:/some/place/", True),
        ("/some/other/f.parquet", "file:/some/place/", False),
        ("hdfs://a/some/place/f.parquet", "s3://a/some/place", False),
    ],
)
def test_external_paths_only_where_the_table_names_them(path: str, option: str, allowed: bool) -> None:
    """H16: a file outside of the table is read only below a folder that the table's options name."""
    places = FilePlaces.of(TableOptions({"data-file.external-paths": option} if option else {}))
    file = DataFile("f.parquet", 1, 1, external_path=path)
    if allowed:
        assert places.keys("", 0, [file]) == (path,)
        assert is_external(path)
    else:
        with pytest.raises(Unsupported, match=r"data-file\.external-paths"):
            places.keys("", 0, [file])


# ----------------------------------------------------------------------------------------------------------- refusals


def test_tables_that_need_merging_are_refused() -> None:
    """G8: never the rows of a primary-key table merged in another way than its option says."""
    table = Metadata(new_schema([Field(0, "a", INT)], primary_keys=["a"], options={"merge-engine": "newest"}))
    with pytest.raises(Unsupported, match=r"primary key \(a\) and option 'merge-engine' = newest"):
        table.plan(None, [table.entry("f")])


@pytest.mark.parametrize("name", ["f.lance", "f.zst.lance", "f.row", "f"])
def test_other_formats_are_refused_by_file_and_format(name: str) -> None:
    """G8: the message names the file and its format; files that are pruned do not matter."""
    table = Metadata(PLAIN)
    entry = table.entry("x", {"a": (1, 1, 0)})
    other = entry._replace(file=entry.file._replace(file_name=name))
    with pytest.raises(Unsupported, match=f"{name} has format '{name.rpartition('.')[2]}'"):
        table.plan(None, [other])
    assert names(table.plan(col("a") == 2, [other])) == []


EVOLVES = new_schema(
    [Field(0, "a", INT), Field(1, "b", INT)], options={"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
)


def test_files_of_the_same_rows_are_one_split() -> None:
    """G8: with data evolution several files hold columns of the same rows: never read, nor counted, as rows twice."""
    table = Metadata(EVOLVES)
    files = [table.entry("one", first_row_id=0), table.entry("two", first_row_id=100)]
    files.append(table.entry("slice", first_row_id=100, write_cols=("b",), max_sequence_number=3))
    plan = table.plan(None, files)
    assert [(s.is_one_run, len(s.files)) for s in plan.splits] == [(True, 2), (False, 1)]
    assert (plan.row_count, count_rows(plan)) == (200, 200)
    with pytest.raises(TableCorrupt, match=r"one\.parquet.*odd\.parquet"):
        table.plan(None, [*files, table.entry("odd", first_row_id=50)])


def test_runs_are_pruned_by_the_statistics_of_the_file_that_gives_a_column() -> None:
    """G8: bounds of values that a newer file replaces are ignored. Files without requested columns are not planned."""
    table = Metadata(EVOLVES)
    old = table.entry("old", {"a": (1, 1, 0), "b": (5, 5, 0)}, first_row_id=0, max_sequence_number=1)
    new = table.entry("new", None, first_row_id=0, write_cols=("b",), max_sequence_number=2)
    for where, planned in ((col("b") == 9, ["new", "old"]), (col("b") == 5, ["new", "old"]), (col("a") == 2, [])):
        assert sorted(names(table.plan(where, [old, new]))) == planned
    snapshot = table.snapshot([old, new])
    for columns, planned in ((["a"], ["old"]), (["b"], ["new"]), (["a", "b"], ["new", "old"]), ([], ["new"])):
        assert sorted(names(plan_scan(table.timeline, snapshot, EVOLVES, None, columns))) == planned


# -------------------------------------------------------------------------------------------------------- public face


def test_plans_of_a_real_table(tmp_path: Any) -> None:
    """The public surface: `plan(where=text)`, printable."""
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("m", pa.int32()), ("x", pa.int64())]), partition_by=["m"])
    table.append(pa.table({"m": pa.array([1, 2], pa.int32()), "x": [10, 20]}))
    table.append(pa.table({"m": pa.array([1], pa.int32()), "x": [30]}))
    plan = table.plan(where="m = 1 AND x > 15")
    assert (plan.file_count, plan.files_considered, plan.files_pruned_by_partition) == (1, 3, 1)
    assert "m = 1 AND x > 15" in str(plan)
    table.overwrite(pa.table({"m": pa.array([1], pa.int32()), "x": [5]}), partition={"m": 1})
    assert table.plan(where="x = 10 OR x = 30").file_count == 0
    assert table.to_arrow(where="m = 1")["x"].to_pylist() == [5]
