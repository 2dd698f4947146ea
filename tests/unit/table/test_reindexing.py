"""`rewrite_file_index` gives existing files the indexes that the options name, and changes nothing else."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from golden_tables import unpack
from killed_store import contents, each_kill

import lakelatch as ll
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.table.scan.index_pruning import beside, embedded_index, sidecar_of
from lakelatch.table.table import Table

COUNTER = count()
SCHEMA = pa.schema([("p", pa.int32()), ("v", pa.int64()), ("s", pa.string())])
UNKNOWN = {"metadata.stats-mode": "none", "file-index.in-manifest-threshold": "1 kb"}
"""Without statistics only indexes can tell files apart."""
BLOOM = ll.set_option("file-index.bloom-filter.columns", "s"), ll.set_option("file-index.bloom-filter.s.items", "100")
BITMAP = ll.set_option("file-index.bitmap.columns", "v")


def rows(p: int, *values: int) -> pa.Table:
    return pa.table({"p": [p] * len(values), "v": list(values), "s": [f"text {v}" for v in values]}, schema=SCHEMA)


def new_table(**more: Any) -> Table:
    options = {**UNKNOWN, **more.pop("options", {})}
    return ll.create_table(f"memory://reindex-{next(COUNTER)}/t", SCHEMA, partition_by=["p"], options=options, **more)


def files(table: Table) -> dict[str, DataFile]:
    return {e.file.file_name: e.file for e in table.entries()}


def without_index(table: Table) -> dict[str, DataFile]:
    return {n: f._replace(embedded_file_index=None, extra_files=()) for n, f in files(table).items()}


def test_existing_files_get_the_indexes_of_today() -> None:
    """One embedded and one beside its file, in fixed buckets; names, numbers and rows stay as they were."""
    table = new_table(options={"bucket": "1", "bucket-key": "v"})
    for n in range(3):
        table.append(rows(n % 2, *range(n, 90, 3)))
    before, rows_before = without_index(table), table.to_arrow().sort_by("v")
    table.alter(BITMAP)
    assert table.plan(where="v = 4").file_count == 3
    tried = table.rewrite_file_index(dry_run=True)
    assert "3 of 3 files, 90 rows, get other indexes" in str(tried) and table.snapshot().id == 3  # type: ignore[union-attr]
    done = table.rewrite_file_index()
    assert done.files == 3 and str(done) == "3 files got other indexes, snapshot 4"
    assert without_index(table) == before
    assert all(f.embedded_file_index is not None for f in files(table).values())
    plan = table.plan(where="v = 4")
    assert (plan.file_count, plan.files_pruned_by_index) == (1, 2)

    table.alter(*BLOOM, ll.set_option("file-index.in-manifest-threshold", "10 b"))
    assert table.rewrite_file_index().files == 3
    assert without_index(table) == before
    assert all(f.embedded_file_index is None and len(f.extra_files) == 1 for f in files(table).values())
    assert table.to_arrow(where="s = 'text 7' AND v < 8")["v"].to_pylist() == [7]
    assert str(table.rewrite_file_index()) == "nothing to index: 3 files"
    assert table.rewrite_file_index(full=True, dry_run=True).to_dict()["files_to_index"] == 3
    assert table.to_arrow().sort_by("v").equals(rows_before)
    assert table.verify(snapshots="all", data="deep") == []
    assert [s.commit_kind for s in table.snapshots()] == ["APPEND"] * 3 + ["COMPACT"] * 2
    assert all(s.total_record_count == 90 for s in table.snapshots()[2:])
    assert table.changes(3).read_all().num_rows == 0


def test_indexes_that_no_option_names_are_dropped_and_expire() -> None:
    table = new_table()
    table.alter(BITMAP, ll.set_option("file-index.in-manifest-threshold", "1 b"))
    table.append(rows(1, 1, 2))
    (old,) = files(table).values()
    table.alter(ll.set_option("file-index.bitmap.columns", "s"))
    table.rewrite_file_index()
    (new,) = files(table).values()
    assert new.extra_files != old.extra_files and new._replace(extra_files=()) == old._replace(extra_files=())
    assert table.at(snapshot=1).to_arrow(where="v = 2").num_rows == 1
    folder = "p=1/bucket-0/"
    assert {info.key for info in table.store.list(folder)} == {
        folder + n for n in (old.file_name, *old.extra_files, *new.extra_files)
    }
    table.alter(ll.remove_option("file-index.bitmap.columns"))
    assert table.rewrite_file_index().files == 1
    assert files(table)[old.file_name].extra_files == ()
    assert table.to_arrow()["v"].to_pylist() == [1, 2]


@pytest.mark.parametrize("more", [{}, {"primary_key": ["p", "v"], "options": {"bucket": "1", "write-only": "true"}}])
def test_files_may_get_the_description_back_that_they_had_before(more: dict[str, Any]) -> None:
    """Without an index, with one, without it, with another, with the first: each of these entries has been deleted before."""
    table = new_table(**more)
    table.append(rows(1, 1, 2))
    table.append(rows(2, 3))
    for columns in ("v", None, "v", "s", "v", None):
        option = "file-index.bitmap.columns"
        table.alter(ll.remove_option(option) if columns is None else ll.set_option(option, columns))
        assert table.rewrite_file_index().files == 2, columns
        assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 2, 3], columns
        assert table.verify(snapshots="all", data="deep") == []
    assert sorted(ll.open_table(table.url).at(snapshot=4).to_arrow()["v"].to_pylist()) == [1, 2, 3]


def test_a_file_whose_index_comes_out_as_it_was_is_left_alone() -> None:
    """A DELETE and an ADD of one identity in one commit would lose it. A file with another index in the same run gets it."""
    table = new_table()
    table.alter(BITMAP)
    table.append(rows(1, 1, 2))
    done = table.rewrite_file_index(full=True)
    assert (done.files, done.unchanged, done.receipts) == (0, 1, ())
    assert str(done) == "nothing to change: 1 files have these indexes"
    table.alter(ll.remove_option("file-index.bitmap.columns"))
    table.append(rows(1, 3))
    table.alter(BITMAP)
    done = table.rewrite_file_index(full=True)
    assert (done.files, done.unchanged, len(done.receipts)) == (1, 1, 1)
    assert done.to_dict()["files_unchanged"] == 1
    assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 2, 3]
    assert table.verify(snapshots="all", data="deep") == []


def test_partitions_can_be_chosen_and_columns_may_have_changed() -> None:
    """A file from before a column was renamed and widened has an index under the old name, of the old values."""
    table = new_table()
    table.append(rows(1, 1, 2))
    table.alter(ll.rename_column("v", "number"), ll.add_column("new", "INT"), ll.rename_column("s", "v"))
    table.append(
        pa.table({"p": pa.array([2], pa.int32()), "number": [7], "new": pa.array([3], pa.int32()), "v": ["x"]})
    )
    table.alter(ll.set_option("file-index.bitmap.columns", "number,new"))
    assert table.rewrite_file_index("p = 1").files == 1
    indexed = {f.schema_id: f for f in files(table).values()}
    assert embedded_index(indexed[0]).kinds == {("v", "bitmap")} and indexed[1].embedded_file_index is None
    assert table.rewrite_file_index().files == 1
    assert table.plan(where="number = 5").file_count == 0
    assert table.to_arrow(where="number = 2")["v"].to_pylist() == ["text 2"]
    with pytest.raises(ll.InvalidArgument, match="number"):
        table.rewrite_file_index("number = 5")
    with pytest.raises(ll.InvalidArgument, match="read only"):
        table.at(snapshot=1).rewrite_file_index()


def test_rows_with_keys_and_levels() -> None:
    """All versions of a row are in the index of their file, and a read by value still merges first."""
    table = new_table(primary_key=["p", "v"], options={"bucket": "1", "write-only": "true"})
    table.upsert(rows(1, *range(20)))
    table.compact(full=True)
    table.upsert(pa.table({"p": pa.array([1], pa.int32()), "v": [3], "s": ["other"]}))
    before = without_index(table)
    table.alter(*BLOOM)
    table.rewrite_file_index()
    assert without_index(table) == before and all(f.embedded_file_index is not None for f in files(table).values())
    assert table.to_arrow(where="s = 'text 3'").num_rows == 0 and table.to_arrow(where="s = 'other'")[
        "v"
    ].to_pylist() == [3]
    table.upsert(rows(1, 50))
    table.compact(full=True)
    assert table.count() == 21 and table.verify(snapshots="all", data="deep") == []


def test_deleted_rows_stay_deleted(tmp_path: Path) -> None:
    """Deletion vectors name their files, which keep their names; the index counts the rows that they mark."""
    table = ll.open_table(str(unpack("paimon-java-1.4.2/append_dv", tmp_path).path))
    name = next(f.name for f in table.schema.fields if f.name not in table.schema.partition_keys)
    before = table.to_arrow()
    vectors = table.system("table_indexes").to_pylist()
    assert vectors
    table.alter(ll.set_option("file-index.bitmap.columns", name))
    assert table.rewrite_file_index().files == len(files(table))
    assert table.system("table_indexes").to_pylist() == vectors
    assert sorted(map(repr, table.to_arrow().to_pylist())) == sorted(map(repr, before.to_pylist()))
    for value in set(before[name].to_pylist()) - {None}:
        assert table.to_arrow(where=ll.col(name) == value).num_rows == before[name].to_pylist().count(value)
    assert table.verify(data="deep") == []


def test_what_others_commit_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append beside it is kept without an index; a partition that was replaced meanwhile is given up, the other one not."""
    table = new_table()
    table.append(rows(1, 1))
    table.append(rows(2, 2))
    table.alter(BITMAP)
    other = ll.open_table(table.url)
    publish, met = table.store.put_if_absent, []

    def interrupted(key: str, data: bytes) -> Any:
        if key.startswith("snapshot/snapshot-3") and not met:
            met.append(key)
            other.append(rows(1, 10))
            other.overwrite(rows(2, 20), partition={"p": 2})
        return publish(key, data)

    monkeypatch.setattr(table.store, "put_if_absent", interrupted)
    done = table.rewrite_file_index()
    assert met and done.files == 1 and len(done.given_up) == 1 and "given up" in str(done)
    assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 10, 20]
    assert table.verify(snapshots="all", data="deep") == []


def test_killed_at_any_request_and_run_again_it_ends_the_same() -> None:
    made = new_table(options={"file-index.in-manifest-threshold": "1 b"})
    made.append(rows(1, 1, 2))
    made.append(rows(1, 5))
    made.alter(BITMAP)
    kills = 0
    for at, store in each_kill(contents(made.store), lambda store: Table(store, made.schema).rewrite_file_index()):
        table, kills = Table(store, made.schema), at
        assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 2, 5]
        table.rewrite_file_index()
        assert all(len(f.extra_files) == 1 for f in files(table).values())
        for entry in table.entries():
            sidecar = sidecar_of(entry.file, f"p=1/bucket-0/{entry.file.file_name}")
            assert sidecar is not None and beside(table.store, sidecar, entry.file).kinds == {("v", "bitmap")}
        assert sorted(table.to_arrow(where="v > 1")["v"].to_pylist()) == [2, 5]
        assert table.verify(snapshots="all") == []
    assert kills > 10
