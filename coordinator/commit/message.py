"""What writers hand to the committer: the files that they made, per (partition, bucket).

Owns: `CommitMessage` (pickled from executors to the driver), `PendingUpload`, and converting messages to entries. Must not know:
how files are written, how entries are used. Source: format/commit §1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.metadata.data_file import ADD, DELETE, DataFile, IndexEntry, ManifestEntry, PartitionBucket
from ...core.metadata.hash_index import BucketHashes


@dataclass(frozen=True, slots=True)
class PendingUpload:
    """A small file that is uploaded beside the metadata, which saves a round trip. `key` is relative to the table's root."""

    key: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CommitMessage:
    """The changes of one writer in one (partition, bucket).

    Attributes:
        partition: BinaryRow of the partition keys with arity prefix.
        total_buckets: the table's bucket count, -1 for none.
        new_files, deleted_files: of an append or overwrite.
        compact_before, compact_after: inputs and outputs of a compaction.
        changelog_files: files with the changes of rows, beside the data; no part of the table's state.
        index_entries: the index files that it replaces (DELETE), each before the one that takes its place (ADD).
        uploads: files that are not in the store yet.
        hashes: of the keys of all rows, if the bucket is a dynamic one.
    """

    partition: bytes
    bucket: int
    total_buckets: int
    new_files: tuple[DataFile, ...] = ()
    deleted_files: tuple[DataFile, ...] = ()
    compact_before: tuple[DataFile, ...] = ()
    compact_after: tuple[DataFile, ...] = ()
    uploads: tuple[PendingUpload, ...] = ()
    changelog_files: tuple[DataFile, ...] = ()
    index_entries: tuple[IndexEntry, ...] = ()
    hashes: BucketHashes | None = None


def entries_of(messages: Iterable[CommitMessage]) -> tuple[ManifestEntry, ...]:
    """Manifest entries in the format's order: per message ADDs, then DELETEs; compaction inputs before outputs."""
    entries: list[ManifestEntry] = []
    for m in messages:
        for kind, files in (
            (ADD, m.new_files),
            (DELETE, m.deleted_files),
            (DELETE, m.compact_before),
            (ADD, m.compact_after),
        ):
            entries.extend(ManifestEntry(kind, m.partition, m.bucket, m.total_buckets, file) for file in files)
    return tuple(entries)


def changelog_of(messages: Iterable[CommitMessage]) -> tuple[ManifestEntry, ...]:
    return tuple(
        ManifestEntry(ADD, m.partition, m.bucket, m.total_buckets, file) for m in messages for file in m.changelog_files
    )


def index_entries_of(messages: Iterable[CommitMessage]) -> tuple[IndexEntry, ...]:
    return tuple(entry for m in messages for entry in m.index_entries)


def hashes_of(messages: Iterable[CommitMessage]) -> tuple[tuple[PartitionBucket, BucketHashes], ...]:
    return tuple(((m.partition, m.bucket), m.hashes) for m in messages if m.hashes is not None)
