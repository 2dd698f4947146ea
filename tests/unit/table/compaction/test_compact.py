"""Compaction of append tables: the same rows in fewer files, whatever other writers do meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.table.reading.test_deletion_vectors import file_names, mark, table_of

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.errors import InvalidArgument, StoreUnavailable, TableCorrupt, Unsupported
from lakelatch.core.metadata.data_file import SOURCE_COMPACT
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.compaction import run as compacting
from lakelatch.table.compaction.plan import target_bytes_of
from lakelatch.table.table import Table

COUNTER = itertools.count()
COLUMNS = pa.schema([("part", pa.string()), ("v", pa.int64())])


class Interrupted(MemoryStore):
    """A store in memory, in which other writers can act before a snapshot is created, and writes can fail."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.before_create: list[Any] = []
        self.refuse: Any = lambda key: False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and self.before_create:
            self.before_create.pop(0)()
        return super().put_if_absent(key, data)

    def put(self, key: str, data: bytes) -> None:
        if self.refuse(key):
            raise StoreUnavailable(f"{key} is refused")
        super().put(key, data)


def created(**options: str) -> Table:
    store = Interrupted(f"memory://compact-{__name__}-{next(COUNTER)}/t")
    schema = new_schema(from_arrow_schema(COLUMNS), partition_keys=["part"], options=options)
    store.put("schema/schema-0", schema.to_json())
    return Table(store, schema)


def again(table: Table) -> Table:
    """Another job's view of the same table."""
    return Table(table.store, table.timeline.latest_schema())


def rows(part: str, values: Iterable[int]) -> pa.Table:
    wanted = list(values)
    return pa.table({"part": [part] * len(wanted), "v": wanted}, schema=COLUMNS)


def values(table: Table, part: str | None = None) -> list[int]:
    return sorted(table.to_arrow(where=None if part is None else f"part = '{part}'")["v"].to_pylist())


def fill(table: Table, part: str, start: int, count: int) -> None:
    for value in range(start, start + count):
        table.append(rows(part, [value]))


def data_keys(table: Table) -> set[str]:
    return {info.key for info in table.store.list("") if info.key.endswith(".parquet")}


def named(table: Table) -> set[str]:
    """Data files that some snapshot names."""
    paths = {e.file.file_name for s in table.snapshots() for e in table.entries(s)}
    return {key for key in data_keys(table) if key.rpartition("/")[2] in paths}


@pytest.fixture
def table() -> Iterator[Table]:
    made = created()
    fill(made, "a", 0, 6)
    fill(made, "b", 10, 5)
    fill(made, "c", 20, 4)
    yield made
    assert made.verify("all", data=True) == []


def test_small_files_become_one_per_partition(table: Table) -> None:
    """G1, G8: rows, counts and what a COMPACT snapshot says; too few small files are left alone."""
    before = values(table)
    planned = table.compact(dry_run=True)
    assert planned.receipts == () and table.snapshot().id == 15
    assert str(planned).startswith("11 of 15 files of 2 partitions, 11 rows in ")
    done = table.compact()
    assert (done.files_before, done.files_after, done.given_up) == (11, 2, ())
    assert [r.snapshot_id for r in done.receipts] == [16]
    snapshot = table.snapshot()
    assert (snapshot.commit_kind, snapshot.delta_record_count, snapshot.total_record_count) == ("COMPACT", 0, 15)
    assert values(table) == before and table.count() == 15
    made = [e.file for e in table.entries() if e.file.file_source == SOURCE_COMPACT]
    assert sorted((f.row_count, f.min_sequence_number, f.max_sequence_number, f.level) for f in made) == [
        (5, 0, 4, 0),
        (6, 0, 5, 0),
    ]
    assert str(table.compact()) == "nothing to compact: 6 files"
    assert table.snapshot().id == 16, "what is compact is left alone"
    assert values(table.at(snapshot=15)) == before


def test_partitions_are_chosen_and_rows_are_not(table: Table) -> None:
    assert table.compact("part = 'a'").files_before == 6
    assert table.compact(where=ll.col("part") == "c", min_files=2).files_before == 4
    with pytest.raises(InvalidArgument, match=r"rewrites whole partitions, but .*v = 3"):
        table.compact("part = 'b' AND v = 3")
    for wrong in ({"min_files": 1}, {"target_size": "12 parsec"}, {"target_size": 0}):
        with pytest.raises(InvalidArgument):
            table.compact(**wrong)
    with pytest.raises(InvalidArgument, match="read only"):
        table.at(snapshot=3).compact()


def test_files_are_packed_up_to_the_target_size() -> None:
    """A full group needs no five files; what is large stays; a second run finds nothing."""
    table = created(**{"file.compression": "none"})
    for start in range(0, 6000, 1000):
        table.append(rows("a", range(start, start + 1000)))
    sizes = [e.file.file_size for e in table.entries()]
    target = 3 * max(sizes)
    plan = table.compact(target_size=target, dry_run=True).plan
    assert [len(group.files) for group in plan.groups] == [3], "the last three fill no file, and are too few"
    assert [len(g.files) for g in table.compact(target_size=target, min_files=2, dry_run=True).plan.groups] == [3, 3]
    done = table.compact(target_size=str(target), min_files=3)
    assert (done.files_before, done.files_after) == (6, 2)
    assert all(e.file.file_size > 0.7 * target for e in table.entries())
    assert values(table) == list(range(6000))
    assert table.compact(target_size=target, min_files=2).receipts == ()


def test_new_files_are_as_large_as_the_table_says() -> None:
    def size_of(*key: str, **options: str) -> int:
        return target_bytes_of(new_schema(from_arrow_schema(COLUMNS), primary_keys=key, options=options))

    assert (size_of(), size_of("v")) == (256 << 20, 128 << 20)
    assert size_of("v", **{"target-file-size": "3 mb"}) == 3 << 20
    assert target_bytes_of(new_schema(from_arrow_schema(COLUMNS)), "2 kb") == 2048


def test_files_of_older_schemas_are_rewritten_in_the_newest(table: Table) -> None:
    before = values(table)
    stale = again(table)
    table.alter(ll.add_column("note", "STRING"), ll.rename_column("v", "value"), ll.add_column("more", "INT"))
    table.append(pa.table({"part": ["a"], "value": [99], "note": ["x"], "more": pa.array([1], pa.int32())}))
    expected = table.to_arrow().sort_by("value")
    stale.compact(min_files=2)
    assert table.to_arrow().sort_by("value").equals(expected)
    assert sorted(expected["value"].to_pylist()) == [*before, 99]
    assert {e.file.schema_id for e in table.entries()} == {1}


def test_a_file_of_tracked_rows_has_the_numbers_of_its_rows() -> None:
    table = created(**{"row-tracking.enabled": "true"})
    for start in (0, 4, 8):
        table.append(rows("x", range(start, start + 4)))
    assert table.compact(full=True) is not None
    (entry,) = again(table).entries()
    assert (entry.file.min_sequence_number, entry.file.max_sequence_number) == (1, 3)
    assert (
        again(table).to_arrow(columns=["_SEQUENCE_NUMBER"])["_SEQUENCE_NUMBER"].to_pylist()
        == [1] * 4 + [2] * 4 + [3] * 4
    )


def test_nulls_in_a_column_that_became_not_null_are_reported(table: Table) -> None:
    table.append(pa.table({"part": ["a"], "v": pa.array([None], pa.int64())}))
    raw = table.schema
    fields = tuple(replace(f, type=replace(f.type, nullable=f.name != "v")) for f in raw.fields)
    table.store.put("schema/schema-1", replace(raw, id=1, fields=fields).to_json())
    with pytest.raises(Unsupported, match="column 'v' has become NOT NULL"):
        again(table).compact("part = 'a'")
    assert data_keys(table) == named(table)
    table.store.delete_many(["schema/schema-1"])


# --------------------------------------------------------------------------------------------------- deletion vectors


@settings(max_examples=20, deadline=None)
@given(
    deleted=st.lists(st.sets(st.integers(0, 9)), min_size=3, max_size=3),
    bits=st.sampled_from([32, 64]),
    counted=st.booleans(),
    fewest=st.integers(2, 4),
)
def test_deleted_rows_stay_deleted(deleted: list[set[int]], bits: int, counted: bool, fewest: int) -> None:
    """Vectors of files that are rewritten are applied and gone; those beside them are kept to the byte."""
    table = table_of(range(10))
    for start in (10, 20):
        table.append(pa.table({"x": pa.array(range(start, start + 10), pa.int32())}))
    marks = {name: positions for name, positions in zip(file_names(table), deleted, strict=True) if positions}
    if marks:
        mark(table, marks, bits, counted=counted)
        table = again(table)  # a snapshot was replaced, which no writer does
    before = sorted(table.to_arrow()["x"].to_pylist())
    eroded = [n for n in marks if not counted or len(marks[n]) > 2]
    done = table.compact(min_files=fewest)
    rewritten = 3 if fewest <= 3 or eroded else 0
    assert done.files_before == rewritten
    assert sorted(table.to_arrow()["x"].to_pylist()) == before
    assert table.count() == len(before)
    left = [v for e in table.timeline.index_entries(table.snapshot()) for v in e.file.deletion_vectors or ()]
    assert len(left) == (0 if rewritten else len(marks))
    assert table.verify(data=True) == []


@pytest.mark.parametrize("bits", [32, 64])
def test_vectors_of_other_files_in_the_index_file_are_kept(bits: int) -> None:
    """H12: the index file is replaced by one with the remaining vectors."""
    table = table_of(range(1000), {"target-file-size": "1 kb"})  # a large file
    large = file_names(table)
    table.append(pa.table({"x": pa.array(range(1000, 1010), pa.int32())}))
    small = [name for name in file_names(table) if name not in large]
    mark(table, {large[0]: [3, 4], small[0]: range(5)}, bits)
    table = again(table)
    before = sorted(table.to_arrow()["x"].to_pylist())
    done = table.compact()
    assert (done.files_before, done.files_after) == (1, 1)
    assert sorted(table.to_arrow()["x"].to_pylist()) == before
    (entry,) = table.timeline.index_entries(table.snapshot())
    assert [v.data_file for v in entry.file.deletion_vectors or ()] == [large[0]]
    assert entry.file.file_name != "index-1"
    assert table.verify(data=True) == []


def test_rows_that_are_deleted_meanwhile_stay_deleted() -> None:
    """H12: another job marks rows of a file while it is rewritten: the group is given up."""
    table = created()
    fill(table, "a", 0, 6)

    def marks_rows() -> None:
        other = again(table)
        other.append(rows("z", [1]))
        mark(other, {next(e.file.file_name for e in other.entries() if e.partition == partition): [0]})

    partition = table.entries()[0].partition
    table.store.before_create = [marks_rows]  # type: ignore[attr-defined]
    done = table.compact()
    assert done.receipts == () and len(done.given_up) == 1
    assert "rows of its input files were deleted" in done.given_up[0].reason
    assert len(values(table, "a")) == 5


# -------------------------------------------------------------------------------------------------- others, meanwhile


def test_a_concurrent_append_stays(table: Table) -> None:
    """Both land: the rows of an append are in the snapshot after it, and its file is untouched."""
    table.store.before_create = [lambda: again(table).append(rows("a", [100, 101]))]  # type: ignore[attr-defined]
    done = table.compact()
    assert (done.files_before, done.given_up, done.receipts[0].retries) == (11, (), 1)
    assert values(table) == [*range(6), *range(10, 15), *range(20, 24), 100, 101]
    assert len([e for e in table.entries() if e.file.file_source != SOURCE_COMPACT]) == 5


def test_what_an_overwrite_replaced_does_not_come_back(table: Table) -> None:
    """The group of the partition is given up, its new file is deleted; the others land."""
    overwrite = {"partition": {"part": "a"}}
    table.store.before_create = [lambda: again(table).overwrite(rows("a", [7]), **overwrite)]  # type: ignore[attr-defined]
    done = table.compact()
    assert (done.files_before, done.files_after) == (5, 1)
    assert [(g.partition, g.bucket, g.files) for g in done.given_up] == [("part=a", 0, 6)]
    assert "deleted files that it replaces" in done.given_up[0].reason
    assert values(table) == [7, *range(10, 15), *range(20, 24)]
    assert "1 groups of 6 files were given up" in str(done)


def test_the_second_of_two_compactions_gives_up(table: Table) -> None:
    """No row is doubled, nothing is raised."""
    before = values(table)
    table.store.before_create = [lambda: again(table).compact()]  # type: ignore[attr-defined]
    done = table.compact()
    assert done.receipts == () and len(done.given_up) == 2
    assert values(table) == before
    assert [s.commit_kind for s in table.snapshots()].count("COMPACT") == 1


def test_a_truncated_table_stays_empty(table: Table, monkeypatch: Any) -> None:
    """No snapshot that names the new files was sent: they are deleted (H5)."""
    rewriter_of = compacting.rewriter_of

    def late(*args: Any) -> Any:
        again(table).truncate()
        return rewriter_of(*args)

    monkeypatch.setattr("lakelatch.table.compaction.run.rewriter_of", late)
    assert len(again(table).compact().given_up) == 2
    assert values(table) == []
    assert data_keys(table) == named(table)


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_an_overwrite_follows_a_compaction(table: Table, isolation: Any) -> None:
    """H13: files that were compacted since the overwrite read the table are replaced too."""
    read = table.snapshot().id
    table.compact(min_files=2)
    with table.transaction(isolation=isolation) as tx:
        tx.overwrite(rows("a", [7]), partition={"part": "a"}, read_snapshot=read)
    assert values(table) == [7, *range(10, 15), *range(20, 24)]


def expire_through(table: Table, last: int) -> None:
    """The snapshot files that remain after an expiry."""
    table.store.delete_many([table.paths.snapshot(i) for i in range(1, last + 1)])
    table.store.put("snapshot/EARLIEST", str(table.timeline.snapshot_ids()[0]).encode())


def test_an_expired_history_does_not_make_compaction_give_up(table: Table) -> None:
    """Other writers' commits cannot be read any more, so the live files are compared instead."""

    def appends_and_expires() -> None:
        other = again(table)
        other.append(rows("b", [77]))
        expire_through(other, 15)

    table.store.before_create = [appends_and_expires]  # type: ignore[attr-defined]
    done = table.compact()
    assert done.files_before == 11 and done.given_up == ()
    assert 77 in values(table)


def test_files_that_were_compacted_and_expired_meanwhile_are_given_up(table: Table, monkeypatch: Any) -> None:
    """A missing file is damage only if it is live."""
    rewriter_of = compacting.rewriter_of

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        other = again(table)
        gone = [key for group in other.compact("part = 'a'").plan.groups for key in group.keys]
        expire_through(other, 15)
        other.store.delete_many(gone)
        return rewriter_of(*args)

    monkeypatch.setattr("lakelatch.table.compaction.run.rewriter_of", late)
    done = table.compact()
    assert (done.files_before, len(done.given_up)) == (5, 1)
    assert values(table) == [*range(6), *range(10, 15), *range(20, 24)]


# ---------------------------------------------------------------------------------------------------------- failures


def test_a_run_that_is_cut_off_is_finished_by_running_it_again(table: Table, monkeypatch: Any) -> None:
    """Each committed batch remains. A failing batch leaves no files."""
    before = values(table)
    in_small_batches = partial(compacting.run_compaction, batch_bytes=1)
    monkeypatch.setattr("lakelatch.table.compaction.run.run_compaction", in_small_batches)
    seen: list[tuple[int, int]] = []
    table.store.refuse = lambda key: key.startswith("part=b/")  # type: ignore[attr-defined]
    with pytest.raises(StoreUnavailable, match="6 files were compacted before and remain compacted"):
        table.compact(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(6, 11)]
    assert data_keys(table) == named(table)
    table.store.refuse = lambda key: False  # type: ignore[attr-defined]
    done = table.compact()
    assert (done.files_before, done.files_after) == (5, 1)
    assert values(table) == before


def test_a_missing_file_is_reported_and_nothing_changes() -> None:
    table = created()
    fill(table, "a", 0, 6)
    gone = min(data_keys(table))
    table.store.delete_many([gone])
    with pytest.raises(TableCorrupt, match=gone.rpartition("/")[2]):
        table.compact()
    assert table.snapshot().id == 6 and len(data_keys(table)) == 5


def test_a_number_of_rows_that_is_not_the_manifest_s_stops_it() -> None:
    """A rewrite writes exactly the expected rows, or nothing."""
    table = created()
    fill(table, "a", 0, 5)
    keys = sorted(data_keys(table))
    table.append(rows("a", [1, 2, 3]))
    (longer,) = data_keys(table) - set(keys)
    table.store.put(keys[0], table.store.get(longer))
    with pytest.raises(TableCorrupt, match="have 10 rows, but their manifests say 8|" + keys[0].rpartition("/")[2]):
        table.compact()


def test_clustered_files_stay_as_they_are() -> None:
    """The files of a level are one sorted run, however small they are: only new files are joined."""
    table = created(**{"clustering.incremental": "true"})
    fill(table, "a", 0, 5)
    old = sorted(table.entries(), key=lambda e: e.file.file_name)[:3]
    levelled = tuple(e._replace(file=e.file._replace(level=5)) for e in old)
    table.committer.commit(CommitRequest("COMPACT", (*(e.deletion() for e in old), *levelled), "java"))
    before = values(table)
    table.compact(min_files=2)
    assert {e.file.file_name for e in table.entries() if e.file.level} == {e.file.file_name for e in old}
    assert [e.file.level for e in table.entries()].count(0) == 1
    assert values(table) == before
    table.compact(min_files=2)
    assert len(table.entries()) == 4


# ----------------------------------------------------------------------------------------------------- fixed buckets


def test_a_bucket_keeps_its_order_and_its_numbers() -> None:
    """Files on both sides of a large file are not joined. Rows keep their order and their numbers (H14)."""
    table = created(bucket="2", **{"bucket-key": "v", "file.compression": "none"})
    for start in range(0, 60, 10):
        table.append(rows("a", range(start, start + 10)))
    table.append(rows("a", range(1000, 4000)))
    for start in range(60, 120, 10):
        table.append(rows("a", range(start, start + 10)))
    before = table.to_arrow()
    large = max(e.file.file_size for e in table.entries())
    done = table.compact(target_size=large)
    assert (done.files_before, done.files_after) == (24, 4)
    assert table.to_arrow().equals(before), "in the very order"
    for bucket in (0, 1):
        files = sorted((e.file for e in table.entries() if e.bucket == bucket), key=lambda f: f.min_sequence_number)
        assert all(f.max_sequence_number - f.min_sequence_number + 1 == f.row_count for f in files)
        assert all(older.max_sequence_number < newer.min_sequence_number for older, newer in pairwise(files))
    table.append(rows("a", [5]))
    assert table.verify("all", data=True) == []


def test_unordered_buckets_are_packed_across_large_files() -> None:
    table = created(bucket="1", **{"bucket-key": "v", "file.compression": "none", "bucket-append-ordered": "false"})
    table.append(rows("a", [1]))
    table.append(rows("a", range(1000, 4000)))
    table.append(rows("a", [2]))
    large = max(e.file.file_size for e in table.entries())
    assert table.compact(target_size=large, min_files=2).files_before == 2
    assert values(table) == [1, 2, *range(1000, 4000)]


def test_a_fallback_branch_is_left_alone() -> None:
    """The branch's partitions are only read through the table. They are compacted in the branch."""
    table = created()
    fill(table, "a", 0, 6)
    raw = replace(table.schema, id=0)
    table.store.put("branch/branch-spare/schema/schema-0", raw.to_json())
    spare = table.branch("spare")
    fill(spare, "b", 10, 6)
    options = {**table.schema.option_texts, "scan.fallback-branch": "spare"}
    table.store.put("schema/schema-1", replace(table.schema, id=1, option_texts=options).to_json())
    table = again(table)
    assert values(table) == [*range(6), *range(10, 16)]
    done = table.compact()
    assert (done.files_before, done.plan.files_considered, done.given_up) == (6, 6, ())
    assert values(table) == [*range(6), *range(10, 16)]
    assert table.branch("spare").compact().files_before == 6
    assert values(table) == [*range(6), *range(10, 16)]


def test_a_rollback_brings_the_small_files_back(table: Table) -> None:
    """The files that a compaction replaced still exist, and a rollback can make them the newest state again."""
    before = {e.identity for e in table.entries()}
    table.compact()
    table.append(rows("a", [100]))
    table.rollback(snapshot=15)
    assert {e.identity for e in table.entries()} == before
    assert table.compact().files_before == 11
    assert values(table) == [*range(6), *range(10, 15), *range(20, 24)]


def test_expiry_takes_what_was_replaced(table: Table) -> None:
    """G7: the small files and their metadata go, the new ones stay."""
    table.compact()
    now_ms = table.snapshot().time_ms
    for snapshot in table.snapshots():
        key = table.paths.snapshot(snapshot.id)
        table.store.put(key, replace(snapshot, time_ms=now_ms - 86_400_000).to_json())
    assert again(table).expire(retain_max=1, retain_min=1).snapshot_ids == tuple(range(1, 16))
    assert len(data_keys(table)) == 6 == len(table.entries())
    assert len(values(table)) == 15
