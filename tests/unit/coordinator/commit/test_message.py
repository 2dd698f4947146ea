"""What writers hand over becomes entries, in the order of the format."""

from __future__ import annotations

from typing import Any

from lakelatch.coordinator.commit.message import CommitMessage, changelog_of, entries_of, hashes_of, index_entries_of
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, IndexEntry, IndexFile

HASHES: Any = object()


def file(name: str) -> DataFile:
    return DataFile(name, 1, 5)


def index(name: str) -> IndexEntry:
    return IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("HASH", name, 1, 1))


FULL = CommitMessage(
    b"p", 3, 8,
    new_files=(file("new"), file("new too")), deleted_files=(file("deleted"),),
    compact_before=(file("before"),), compact_after=(file("after"),),
    changelog_files=(file("log"), file("log too")), index_entries=(index("i1"), index("i2")), hashes=HASHES,
)  # fmt: skip
OTHER = CommitMessage(b"q", 0, -1, new_files=(file("other"),), changelog_files=(file("other log"),))


def test_entries_come_message_by_message_new_files_first_and_inputs_before_outputs() -> None:
    found = [(e.kind, e.partition, e.bucket, e.total_buckets, e.file.file_name) for e in entries_of([FULL, OTHER])]
    assert found == [
        (ADD, b"p", 3, 8, "new"), (ADD, b"p", 3, 8, "new too"), (DELETE, b"p", 3, 8, "deleted"),
        (DELETE, b"p", 3, 8, "before"), (ADD, b"p", 3, 8, "after"), (ADD, b"q", 0, -1, "other"),
    ]  # fmt: skip
    assert entries_of([]) == ()


def test_changelog_files_are_only_ever_added() -> None:
    found = [(e.kind, e.partition, e.bucket, e.total_buckets, e.file.file_name) for e in changelog_of([FULL, OTHER])]
    assert found == [(ADD, b"p", 3, 8, "log"), (ADD, b"p", 3, 8, "log too"), (ADD, b"q", 0, -1, "other log")]


def test_index_files_and_hashes_are_collected_from_those_that_have_them() -> None:
    assert [e.file.file_name for e in index_entries_of([OTHER, FULL])] == ["i1", "i2"]
    assert hashes_of([OTHER, FULL]) == (((b"p", 3), HASHES),)
