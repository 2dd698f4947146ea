"""Upkeep of tables with a primary key: files that change their level, changelog files, index files."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import Died, Fragile

import lakelatch as ll
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans
from lakelatch.coordinator.recovery.recover import recover_journal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.table.table import Table

NUMBERS = itertools.count()
NEVER_MS = 2**62
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])
KINDS = {
    "fixed buckets": {"bucket": "2"},
    "changelog of the input": {"bucket": "1", "changelog-producer": "input"},
    "changelog by lookup": {"bucket": "1", "changelog-producer": "lookup"},
    "dynamic buckets": {"bucket": "-1", "dynamic-bucket.target-row-num": "3"},
    "deletion vectors": {"bucket": "1", "deletion-vectors.enabled": "true"},
}


def rows(v: str, *keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "v": [v] * len(keys)}).cast(SCHEMA)


def made(options: dict[str, str]) -> Table:
    url = f"memory://key-upkeep-{next(NUMBERS)}/t"
    return ll.create_table(url, SCHEMA, primary_key=["k"], options={"commit.min-retry-wait": "1 ms", **options})


def lived(table: Table) -> list[dict[int, str]]:
    """Upserts, deletes and compactions; the rows after each snapshot."""
    table.append(rows("a", 1, 2, 3, 4, 5))
    table.compact(full=True)
    table.upsert(rows("b", 2, 6))
    table.delete(pa.table({"k": pa.array([1], pa.int32())}))
    table.compact(full=True)
    table.upsert(rows("c", 3, 7, 8))
    table.committer.settle()
    return [held(table.at(snapshot=n)) for n in table.timeline.snapshot_ids()]


def held(table: Any) -> dict[int, str]:
    found = table.to_arrow()
    return dict(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))


def reopened(table: Table) -> Table:
    return Table(table.store, table.timeline.latest_schema())


def keys(table: Table) -> set[str]:
    return {info.key for info in table.store.list("")}


def expire(table: Table, retained: int) -> None:
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(
        table.schema.options, newest.time_ms + 10 * 86_400_000, retain_max=retained, retain_min=retained
    )
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_expiry_keeps_what_the_rest_needs_and_nothing_else(options: dict[str, str]) -> None:
    """Step by step, so that each snapshot is the oldest one once. Afterwards no file is an orphan."""
    table = made(options)
    states = lived(table)
    for left in range(len(states) - 1, 0, -1):
        expire(table, left)
        again = reopened(table)
        ids = again.timeline.snapshot_ids()
        assert len(ids) == left
        assert [held(again.at(snapshot=n)) for n in ids] == states[-left:]
        for n in ids[1:]:
            assert again.changes(start=ids[0], end=n).read_all() is not None
        assert again.verify(data=True) == []
        assert plan_orphans(again.timeline, again.schema, NEVER_MS).files == ()


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_a_rollback_and_a_clean_up_keep_every_row(options: dict[str, str]) -> None:
    """A file that changed its level since is live again in the old one. What readers do not see there is compacted at once, as
    after the upsert that wrote it."""
    table = made(options)
    states = lived(table)
    ids, seen = table.timeline.snapshot_ids(), states
    if options.get("deletion-vectors.enabled"):
        kinds = [snapshot.commit_kind for snapshot in table.snapshots()]
        shown = [n + (kinds[n : n + 2] == ["APPEND", "COMPACT"]) for n in range(len(kinds))]
        seen = [states[n] for n in shown]
    state: dict[int, str] = {}
    for n, state in list(zip(ids, seen, strict=True))[::2]:
        table.rollback(snapshot=n)
        assert held(reopened(table)) == state
        assert reopened(table).verify(data=True) == []
    again = reopened(table)
    again.upsert(rows("z", 1, 9))
    assert held(reopened(table)) == {**state, 1: "z", 9: "z"}
    again.committer.settle()
    before = keys(table)
    left = {
        "bucket-0/data-left-0.parquet",
        "bucket-0/changelog-left-0.parquet",
        "index/index-left-0",
        "manifest/manifest-left-0",
    }
    for key in left:
        table.store.put(key, b"left over")
    apply_clean(plan_orphans(reopened(table).timeline, table.schema, NEVER_MS))
    assert keys(table) == before
    assert [held(reopened(table).at(snapshot=n)) for n in ids] == states


def test_a_commit_with_changelog_and_index_files_is_recovered_from_its_journal(tmp_path: Path) -> None:
    """Its writer died right after the send, or before it: another process finishes it with all its files."""
    made_by = made({"bucket": "-1", "changelog-producer": "input"})
    made_by.append(rows("a", 1, 2))
    made_by.committer.settle()
    store = Fragile()
    for key in keys(made_by):
        store.put(key, made_by.store.get(key))
    journal = FileJournal(tmp_path / "journal.jsonl")
    dying = Table(store, made_by.schema, journal=journal)

    def dies() -> None:
        raise Died

    store.before["create snapshot/snapshot-2"] = dies
    with pytest.raises(Died):
        dying.upsert(rows("b", 2, 3), commit_user="job", identifier=1)
    found = recover_journal(journal, store, MACHINE, writers_are_gone=True)
    assert [commit.outcome for commit in found.commits] == ["finished"]
    again = Table(store, made_by.schema)
    assert held(again) == {1: "a", 2: "b", 3: "b"}
    assert again.verify(data=True) == []
    assert again.changes(start=1, end=2).read_all().num_rows == 2
    snapshot = again.snapshot()
    assert snapshot is not None and snapshot.changelog_record_count == 2 and snapshot.index_manifest is not None


def test_a_compaction_of_rows_that_readers_saw_before_it_is_undone() -> None:
    """Readers of such a table do not see level 0, but none of its files was there."""
    about = {"bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true"}
    table = made(about)
    table.upsert(rows("a", *range(3000)))
    table.compact(full=True)
    table.upsert(rows("b", 7, 5000))
    table.compact()
    files = {entry.file.file_name: entry.file.level for entry in table.entries()}
    shown = held(table)
    assert sorted(files.values()) == [4, 5] and shown[7] == "b" and len(shown) == 3001
    table.compact(full=True)
    newest = table.snapshots()[-1]
    assert newest.commit_kind == "COMPACT" and len(table.entries()) == 1
    table.undo(newest.id)
    again = ll.open_table(table.url)
    assert {entry.file.file_name: entry.file.level for entry in again.entries()} == files
    assert held(again) == shown and again.verify(data=True) == []


def test_a_file_that_changed_its_level_outlives_the_snapshots_that_name_the_old_one() -> None:
    table = made({"bucket": "1", "write-only": "true"})
    table.append(rows("a", 1, 2))
    (entry,) = table.entries()
    moved = entry._replace(file=entry.file._replace(level=5))
    table.committer.commit(
        CommitRequest("COMPACT", (entry.deletion(), moved), "compactor", read_snapshot=table.snapshot())
    )
    table.append(rows("b", 2))
    table.committer.settle()
    expire(table, 1)
    again = reopened(table)
    assert again.timeline.snapshot_ids() == [3]
    assert held(again) == {1: "a", 2: "b"} and again.verify(data=True) == []
