"""Changelog files: listed beside the data files of a snapshot, in lists of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from changes import created, files, meanwhile, reopened, rows, values, written

from lakelatch.coordinator.commit.message import CommitMessage, changelog_of, index_entries_of
from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.data_file import ADD, DELETE, IndexEntry, IndexFile, ManifestEntry
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.table.table import Table
from lakelatch.table.writing.writer import keys_of


@pytest.fixture
def table() -> Table:
    made = created()
    made.append(rows("a", 1))
    return made


def commit(table: Table, **more: Any) -> Snapshot:
    request: dict[str, Any] = {"kind": "APPEND", "entries": written(table, rows("a", 2)), "commit_user": "job", **more}
    request.setdefault("keyed", KeyedRows(written(table, rows("a", 2, 3))))
    table.committer.commit(CommitRequest(**request))
    table.committer.settle()
    found = table.timeline.latest()
    assert found is not None
    return found


def listed(table: Table, snapshot: Snapshot) -> tuple[ManifestEntry, ...]:
    assert snapshot.changelog_manifest_list is not None
    return tuple(table.timeline.entries(table.timeline.manifest_list(snapshot.changelog_manifest_list)))


def manifests(table: Table) -> set[str]:
    return {info.key.rpartition("/")[2] for info in table.store.list("manifest/")}


def test_changelog_files_are_listed_apart_from_the_state(table: Table) -> None:
    changelog = written(table, rows("a", 2, 3))
    snapshot = commit(table, keyed=KeyedRows(changelog))
    assert listed(table, snapshot) == changelog
    assert snapshot.changelog_record_count == 2
    assert snapshot.changelog_manifest_list is not None
    size = len(table.store.get(f"manifest/{snapshot.changelog_manifest_list}"))
    assert snapshot.changelog_manifest_list_size == size
    assert snapshot.delta_record_count == 1 and snapshot.total_record_count == 2
    assert values(table) == [1, 2]
    assert changelog[0].file.file_name not in {e.file.file_name for e in files(table)}


def test_a_snapshot_without_changelog_files_names_no_list(table: Table) -> None:
    snapshot = commit(table, keyed=KeyedRows())
    assert snapshot.changelog_manifest_list is None and snapshot.changelog_record_count is None


def test_a_changelog_may_come_without_data(table: Table) -> None:
    snapshot = commit(table, entries=())
    assert len(listed(table, snapshot)) == 1
    assert values(table) == [1]


def test_the_next_snapshot_names_no_changelog_of_its_base(table: Table) -> None:
    first = commit(table)
    second = commit(table, keyed=KeyedRows())
    assert first.changelog_manifest_list is not None and second.changelog_manifest_list is None
    kept = {m.file_name for m in table.timeline.manifests(second)}
    assert kept.isdisjoint(m.file_name for m in table.timeline.manifest_list(first.changelog_manifest_list))


def test_changelog_manifests_are_written_once_and_kept_after_a_lost_race(table: Table) -> None:
    table.append(rows("a", 5))
    table.committer.settle()
    before = manifests(table)
    meanwhile(table, lambda: (other := reopened(table)).append(rows("b", 9)) and other.committer.settle())
    snapshot = commit(table)
    assert snapshot.id == 4
    ours = manifests(table) - before - {m.file_name for m in table.timeline.manifests(snapshot)}
    named = {snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list}
    named |= {m.file_name for m in table.timeline.manifest_list(snapshot.changelog_manifest_list or "")}
    theirs = table.timeline.snapshot(3)
    assert ours == named | {theirs.base_manifest_list, theirs.delta_manifest_list}, (
        "a file was written twice, or is left"
    )
    assert values(table) == [1, 2, 5, 9]


def test_an_overwrite_leaves_changelog_files_out(table: Table) -> None:
    """Apache Paimon commits no changelog with an overwrite of partitions."""
    snapshot = commit(table, kind="OVERWRITE", target=lambda partition: True, read_snapshot=table.timeline.latest())
    assert snapshot.changelog_manifest_list is None and snapshot.changelog_record_count is None
    assert values(table) == [2]


def test_changelog_manifests_of_a_commit_that_failed_are_deleted(table: Table) -> None:
    (file,) = files(table)
    (new,) = written(table, rows("a", 1))
    new = new._replace(file=new.file._replace(file_source=1))
    read = table.timeline.latest()

    def compacted() -> None:
        other = reopened(table)
        other.overwrite(rows("a", 7), partition={"part": "a"})
        other.committer.settle()

    meanwhile(table, compacted)
    with pytest.raises(CommitConflict, match="inputs_gone"):
        commit(table, kind="COMPACT", entries=(file.deletion(), new), read_snapshot=read)
    table.committer.settle()
    latest = table.timeline.latest()
    assert latest is not None
    named = {
        name for s in map(table.timeline.snapshot, (1, 2)) for name in (s.base_manifest_list, s.delta_manifest_list)
    }
    named |= {m.file_name for m in table.timeline.manifests(latest)}
    assert manifests(table) == named


def message(table: Table) -> CommitMessage:
    kept, moved, changed = (e.file for number in (1, 2, 3) for e in written(table, rows("a", number)))
    partition = files(table)[0].partition
    old, new = (IndexEntry(kind, partition, 0, IndexFile("HASH", f"index-{kind}", 4, 1)) for kind in (DELETE, ADD))
    return CommitMessage(
        partition, 0, -1, compact_before=(moved,), compact_after=(replace_level(moved), kept), changelog_files=(changed,),
        index_entries=(old, new),
    )  # fmt: skip


def replace_level(file: Any) -> Any:
    return file._replace(level=5)


def test_messages_hold_changelog_files_and_index_files(table: Table) -> None:
    made = message(table)
    (entry,) = changelog_of([made])
    assert (entry.kind, entry.partition, entry.bucket, entry.file) == (ADD, made.partition, 0, made.changelog_files[0])
    assert index_entries_of([made, replace(made, index_entries=())]) == made.index_entries


def test_what_is_taken_back_of_a_message_is_new_and_nothing_else(table: Table) -> None:
    """A file that a compaction moves to another level is an input: to delete it would lose its rows."""
    made = message(table)
    keys = {key.rpartition("/")[2] for key in keys_of(table.schema, [made])}
    assert keys == {made.compact_after[1].file_name, made.changelog_files[0].file_name, "index-0"}
