"""After lost races nothing is left of the attempts that were refused: some snapshot names every data file and index file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from changes import Raced

import lakelatch as ll
from lakelatch.backends.local import LocalStore
from lakelatch.core.errors import LakelatchError
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table
from lakelatch.table.writing.files import sink

_names = count()
SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
KEYED = {
    "fixed": {"bucket": "1"},
    "dynamic": {"bucket": "-1"},
    "vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}
LARGE = pa.table({"id": range(40_000), "v": range(40_000)}, SCHEMA)
"""Too large to travel with a commit."""


def rows(*ids: int, v: int = 0) -> pa.Table:
    return pa.table({"id": list(ids), "v": [v for _ in ids]}, SCHEMA)


def opened(options: dict[str, str], *keys: str) -> Table:
    store = Raced(f"memory://leftovers-{next(_names)}/t")
    made = ll.create_table(store.url, SCHEMA, primary_key=list(keys) or None, options=options)
    return Table(store, made.schema)


def raced(table: Table) -> Raced:
    assert isinstance(table.store, Raced)
    return table.store


def leftovers(table: Table) -> set[str]:
    """Files that no snapshot names."""
    table.committer.settle()
    again, keys = Table(table.store, table.schema), FileKeys(table.schema)
    timeline, needed = again.timeline, set[str]()
    for snapshot in again.snapshots():
        found = timeline.snapshot(snapshot.id)
        entries = timeline.entries([*timeline.manifests(found), *timeline.delta_manifests(found)])
        needed |= {key for e in entries for key in keys.data(e)}
        needed |= {keys.index(e) for e in timeline.index_entries(found)}
    stored = {info.key for info in table.store.list("")}
    data = {key for key in stored if not key.startswith("manifest/")}
    return {key for key in data if key.rpartition("/")[2].startswith(("data-", "index-", "changelog-"))} - needed


def beside(table: Table, *others: Callable[[Table], Any]) -> None:
    """Before its next snapshot is created, others commit."""
    raced(table).first = [lambda other=other: other(Table(table.store, table.schema)) for other in others]


@pytest.mark.parametrize("data", [rows(1, 2), LARGE], ids=["travels", "is stored before"])
@pytest.mark.parametrize("kind", KEYED)
def test_an_upsert_that_is_numbered_again_leaves_nothing(kind: str, data: pa.Table) -> None:
    """Another job updates a row first, so that the upsert is written again after its first attempt."""
    table = opened(KEYED[kind], "id")
    table.upsert(rows(1, 2))
    beside(table, lambda other: other.update(set={"v": "v + 1"}))
    table.upsert(data)
    assert leftovers(table) == set()


def test_new_keys_that_come_beside_those_of_others_leave_no_index_file() -> None:
    """The index of the bucket is made anew for each attempt, with the keys of the others."""
    table = opened(KEYED["dynamic"], "id")
    table.upsert(rows(1))
    beside(table, lambda other: other.upsert(rows(2)))
    assert table.upsert(rows(3)).attempts == 2
    assert leftovers(table) == set()


def test_rows_that_are_written_again_before_the_first_attempt_leave_nothing() -> None:
    table = opened(KEYED["fixed"], "id")
    table.upsert(rows(1))
    with table.transaction() as tx:
        tx.upsert(LARGE)
        Table(table.store, table.schema).update(set={"v": "v + 1"})
    assert leftovers(table) == set()


@pytest.mark.parametrize("kind", KEYED)
def test_a_change_of_rows_with_keys_that_is_planned_again_leaves_nothing(kind: str) -> None:
    table = opened(KEYED[kind], "id")
    table.upsert(LARGE)
    beside(table, lambda other: other.upsert(rows(1, 2)))
    assert table.update(set={"v": "v + 1"}).plans == 2
    assert leftovers(table) == set()


@pytest.mark.parametrize(
    "options", [{}, {"deletion-vectors.enabled": "true"}, {"row-tracking.enabled": "true"}], ids=str
)
def test_a_change_of_rows_that_is_planned_again_leaves_nothing(options: dict[str, str]) -> None:
    """One of its two files is another one by then, and its new row came beside another's."""
    table = opened(options)
    table.append(LARGE)
    table.append(rows(50_000, 50_001))
    beside(table, lambda other: other.update(where="id = 50000", set={"v": "7"}))
    merge = table.merge(rows(1, 50_001, 60_000, v=9), on=["id"]).when_matched_update_all().when_not_matched_insert_all()
    assert merge.execute().plans == 2
    assert leftovers(table) == set()


def test_keys_that_move_to_another_bucket_leave_nothing() -> None:
    table = opened({"bucket": "-1", "dynamic-bucket.target-row-num": "1"}, "id")
    table.upsert(rows(1))
    beside(table, lambda other: other.upsert(rows(5, 6)))
    table.upsert(rows(6, 5))
    assert leftovers(table) == set()


@pytest.mark.parametrize("kind", KEYED)
def test_a_compaction_that_gives_up_after_a_lost_race_leaves_nothing(kind: str) -> None:
    table = opened(KEYED[kind], "id")
    for n in range(3):
        table.upsert(rows(n, n + 1))

    def others(other: Table) -> None:
        other.compact(full=True)

    beside(table, others)
    table.compact(full=True)
    assert leftovers(table) == set()


def test_a_compaction_that_marks_rows_and_loses_leaves_no_index_file() -> None:
    table = opened({"deletion-vectors.enabled": "true"})
    for n in range(4):
        table.append(rows(n, n + 10))
    table.delete(where="id < 2")
    beside(table, lambda other: other.delete(where="id = 2"))
    table.compact(min_files=2)
    assert leftovers(table) == set()


def test_a_commit_that_gives_up_leaves_nothing() -> None:
    table = opened({"bucket": "1", "commit.max-retries": "0"}, "id")
    table.upsert(rows(1))
    beside(table, lambda other: other.upsert(rows(2)))
    with pytest.raises(LakelatchError):
        table.upsert(LARGE)
    assert leftovers(table) == set()


def test_a_file_that_was_being_written_is_gone_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was so large that a part of it was in the folder already."""
    monkeypatch.setattr(sink, "SPILL_BYTES", 1 << 10)
    table = ll.create_table(str(tmp_path / "t"), pa.schema([("v", pa.int64())]), options={"file.compression": "none"})
    numbers = np.random.default_rng(1).integers(0, 1 << 60, 5_000_000)
    seen: list[Path] = []
    aborted: list[str] = []
    abort = sink.SpillingSink.abort
    monkeypatch.setattr(sink.SpillingSink, "abort", lambda file: (aborted.append(file.name), abort(file))[1])

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pa.table({"v": numbers}).to_batches(100_000)
        seen.extend(path for path in (tmp_path / "t" / "bucket-0").rglob("*") if path.stat().st_size)
        raise RuntimeError("the rows have ended")

    with pytest.raises(RuntimeError, match="the rows have ended"):
        table.append(pa.RecordBatchReader.from_batches(table.to_arrow().schema, batches()))
    assert seen
    assert len(set(aborted)) == 1, "a store may keep parts of what was neither finished nor aborted"
    assert [path for path in (tmp_path / "t").rglob("*") if path.is_file() and "bucket" in str(path)] == []


def test_what_is_written_after_an_error_makes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer of Arrow ends its file when it is collected, which may be the byte that is too many to be kept in memory."""
    monkeypatch.setattr(sink, "SPILL_BYTES", 10)
    file = sink.SpillingSink(LocalStore(str(tmp_path)), "bucket-0/data-1")
    file.write(b"0123456789")
    file.abort()
    assert file.write(b"!") == 1
    file.abort()
    assert list(tmp_path.rglob("*")) == []
