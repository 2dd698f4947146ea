"""The changes of a commit: its data files, its index files, and the schema with which they were made.

Owns: `Change`, for requests and for committed snapshots of other writers (`Landed`); `Group`, the part of a change in one
partition and bucket, and whether it is a compaction. Must not know: stores, requests, which changes conflict.
Source: format/data-files §7; format/deletion-vectors §2; format/manifests §6, §7; H22. Invariant: A change is judged by its
contents, never by the kind that its snapshot states: an APPEND may delete files, and a COMPACT may delete rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from .data_file import (
    ADD,
    DELETE,
    EMPTY_ROW,
    SOURCE_COMPACT,
    DeletionVectorRange,
    IndexEntry,
    ManifestEntry,
    PartitionBucket,
)
from .deletion_vector import INDEX_TYPE

ROW_CHANGES = frozenset({"UPDATE", "DELETE", "MERGE"})
"""What snapshots say of a commit whose rows were computed from rows of the table."""
_READS_NOTHING = "WRITE"

Owner: TypeAlias = tuple[bytes, int, str]


@dataclass(frozen=True, slots=True)
class Change:
    """The changes of one commit.

    Attributes:
        index_entries: both entries for a vector file that it replaces.
        schema_id: the latest schema that its writer knew.
    """

    entries: tuple[ManifestEntry, ...]
    index_entries: tuple[IndexEntry, ...]
    schema_id: int


@dataclass(frozen=True, slots=True)
class Landed:
    """The change of another writer's snapshot.

    Attributes:
        marked: the data files that it keeps, but whose deleted rows it changes.
        replaces: for an overwrite that names partitions: their paths, of some of the columns or all; "" is the whole table.
        undoes: for an undo: the id of the snapshot whose commit it took back; 0 where others in that snapshot stay.
        restores: it brought back files of an earlier snapshot.
    """

    snapshot_id: int
    kind: str
    user: str
    change: Change
    marked: frozenset[Owner] = frozenset()
    replaces: tuple[str, ...] | None = None
    undoes: int | None = None
    operation: str | None = None
    restores: bool = False

    @property
    def label(self) -> str:
        return f"snapshot {self.snapshot_id} ({self.kind} by '{self.user}')"

    @property
    def has_read(self) -> bool:
        """May its rows depend on others of the table, or did it take rows away? Then it is ordered by where it landed.

        A compaction changes no row. Of another engine's rows nobody knows what they were computed from. A change that concerned
        no row has seen that there is none, and a drop of nothing that nothing was there.
        """
        groups = [g for g in self.groups(lambda partition: True) if not g.is_compaction]
        if not self.change.entries and not self.marked:
            return self.operation not in (None, _READS_NOTHING)
        adds_only = self.kind == "APPEND" and not any(g.deleted or g.marked for g in groups)
        return bool(groups) and not (adds_only and self.operation == _READS_NOTHING)

    def groups(self, concerns: Callable[[bytes], bool]) -> list[Group]:
        added, deleted, marked, vectors = _by_place(), _by_place(), _by_place(), _by_place()
        for entry in self.change.entries:
            (added if entry.kind == ADD else deleted)[entry.partition, entry.bucket].append(entry)
        for owner in self.marked:
            marked[owner[:2]].append(owner)
        for owner, (_, vector) in vector_places(e for e in self.change.index_entries if e.kind == DELETE).items():
            vectors[owner[:2]].append((owner, vector))
        return [
            Group(
                place,
                tuple(added[place]),
                tuple(deleted[place]),
                frozenset(marked[place]),
                dict(vectors[place]),
                self.restores,
            )
            for place in {**added, **deleted, **marked}
            if concerns(place[0])
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """The part of a change in one partition and bucket.

    Attributes:
        vectors: the deletion vectors, by data file, of the index files that it replaces.
    """

    place: PartitionBucket
    added: tuple[ManifestEntry, ...]
    deleted: tuple[ManifestEntry, ...]
    marked: frozenset[Owner]
    vectors: Mapping[Owner, DeletionVectorRange]
    restores: bool = False

    @property
    def is_compaction(self) -> bool:
        """Is it certain that the rows are the same before and after?

        The new files must be marked as written by a compaction (Apache Paimon does so since 0.9; older manifests lack the
        field), and must have as many rows as the old files have apart from their deleted rows. A file that only changes its
        level is the same file. With a primary key, rows with the same key become one, and rows that delete vanish with the rows
        that they delete. A rollback may bring back what a compaction once wrote, in the place of as many rows.
        """
        rows = {(e.file.file_name, e.file.row_count) for e in self.deleted}
        same = rows & {(e.file.file_name, e.file.row_count) for e in self.added}
        new = [e for e in self.added if (e.file.file_name, e.file.row_count) not in same]
        old = [e for e in self.deleted if (e.file.file_name, e.file.row_count) not in same]
        if self.restores or not self.deleted or any(e.file.file_source != SOURCE_COMPACT for e in new):
            return False
        most = least = keys = deletes = 0
        for entry in old:
            vector, rows_of_file = self.vectors.get(owner_of(entry)), entry.file.row_count
            marked = vector.cardinality if vector is not None else 0
            most += rows_of_file - (marked or 0)
            stay = rows_of_file - (
                rows_of_file if marked is None else marked
            )  # without a count it may mark any number of rows
            least += stay
            keys = max(keys, stay)
            deletes += rows_of_file if entry.file.delete_row_count is None else entry.file.delete_row_count
        if any(e.file.min_key != EMPTY_ROW for e in old):  # a file has one row for each of its keys
            least = keys - deletes
        return least <= sum(e.file.row_count for e in new) <= most


def _by_place() -> defaultdict[tuple[bytes, int], list[Any]]:
    return defaultdict(list)


def owner_of(entry: ManifestEntry) -> Owner:
    return entry.partition, entry.bucket, entry.file.file_name


def vector_places(index: Iterable[IndexEntry]) -> dict[Owner, tuple[IndexEntry, DeletionVectorRange]]:
    """The location of each data file's deletion vector: the entry of the index file, and the range in that file."""
    return {
        (entry.partition, entry.bucket, vector.data_file): (entry, vector)
        for entry in index
        if entry.file.index_type == INDEX_TYPE
        for vector in entry.file.deletion_vectors or ()
    }


def index_changes(old: Sequence[IndexEntry], new: Sequence[IndexEntry]) -> tuple[IndexEntry, ...]:
    """The entries that turn one complete list of index files into another: DELETEs, then ADDs."""
    before, after = set(old), set(new)
    return (*(replace(e, kind=DELETE) for e in old if e not in after), *(e for e in new if e not in before))
