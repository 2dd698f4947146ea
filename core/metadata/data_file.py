"""A data file as a manifest describes it, and the statistics of its columns.

Owns: `SimpleStats`, `DataFile`, `ManifestEntry`, `IndexFile`, `IndexEntry` and the identity of an entry. Must not know:
Avro (see `manifest`), Arrow, paths. Source: format/manifests §3, §6, §7; format/statistics §1. Invariant: An entry that
was read is written back with exactly the same bytes. Partition and key rows are opaque bytes here. Entries are named
tuples, which are created seven times faster than frozen dataclasses of 21 fields: manifests hold hundreds of thousands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

ADD = 0
DELETE = 1

SOURCE_APPEND = 0
SOURCE_COMPACT = 1

EMPTY_ROW = bytes(12)
"""The BinaryRow without fields, with its arity as a prefix. It means "no key" or "no statistics"."""

NO_BUCKETS = -1


class SimpleStats(NamedTuple):
    """Minimum, maximum and null count per column. Rows are BinaryRows with arity prefix; what is unknown is null."""

    min_values: bytes = EMPTY_ROW
    max_values: bytes = EMPTY_ROW
    null_counts: tuple[int | None, ...] | None = ()


NO_STATS = SimpleStats()


class DataFile(NamedTuple):
    """`_FILE` of a manifest entry; attribute names are the format's without the underscore (format/manifests §6)."""

    file_name: str
    file_size: int
    row_count: int
    min_key: bytes = EMPTY_ROW
    max_key: bytes = EMPTY_ROW
    key_stats: SimpleStats = NO_STATS
    value_stats: SimpleStats = NO_STATS
    min_sequence_number: int = 0
    max_sequence_number: int = 0
    schema_id: int = 0
    level: int = 0
    extra_files: tuple[str, ...] = ()
    creation_time: int | None = None
    """The local wall clock, stored as if it were UTC, in milliseconds."""
    delete_row_count: int | None = 0
    embedded_file_index: bytes | None = None
    file_source: int | None = SOURCE_APPEND
    value_stats_cols: tuple[str, ...] | None = None
    external_path: str | None = None
    first_row_id: int | None = None
    write_cols: tuple[str, ...] | None = None
    write_cols_sequences: tuple[int, ...] | None = None


PartitionBucket = tuple[bytes, int]

RETURN_MARK = ".entry"
"""The end of names in `_EXTRA_FILES` that only give an entry an identity of its own (decision 75)."""

EntryIdentity = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class ManifestEntry(NamedTuple):
    """A data file that is added to or deleted from a (partition, bucket).

    Attributes:
        partition: BinaryRow of the partition keys with arity prefix.
        bucket: 0 for tables without buckets.
        total_buckets: the table's bucket count when it was written; -1 for none.
    """

    kind: int
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFile

    @property
    def identity(self) -> EntryIdentity:
        """The key by which a DELETE matches its ADD. All parts must be equal byte for byte (format/manifests §4)."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )

    @property
    def origin(self) -> EntryIdentity:
        """The identity that it would have if it had never come back: the same for all entries of a file at one level."""
        file = self.file
        if not any(name.endswith(RETURN_MARK) for name in file.extra_files):
            return self.identity
        beside = tuple(name for name in file.extra_files if not name.endswith(RETURN_MARK))
        return ManifestEntry(*self[:-1], file._replace(extra_files=beside)).identity

    def deletion(self) -> ManifestEntry:
        return ManifestEntry(DELETE, self.partition, self.bucket, self.total_buckets, self.file)


@dataclass(frozen=True, slots=True)
class DeletionVectorRange:
    data_file: str
    offset: int
    length: int
    cardinality: int | None = None


@dataclass(frozen=True, slots=True)
class GlobalIndex:
    """`_GLOBAL_INDEX` of an index entry. The range of rows includes its end."""

    row_range_start: int
    row_range_end: int
    index_field_id: int
    extra_field_ids: tuple[int, ...] | None = None
    index_meta: bytes | None = None
    source_meta: bytes | None = None


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index file: deletion vectors, a hash index, or a global index (format/manifests §7)."""

    index_type: str
    file_name: str
    file_size: int
    row_count: int
    deletion_vectors: tuple[DeletionVectorRange, ...] | None = None
    external_path: str | None = None
    global_index: GlobalIndex | None = None


@dataclass(frozen=True, slots=True)
class IndexEntry:
    kind: int
    partition: bytes
    bucket: int
    file: IndexFile
    listed_in: str = field(default="", compare=False, repr=False)
    """The name of the index manifest that it was read from."""
