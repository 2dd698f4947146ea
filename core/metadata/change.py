"""What a commit changes: data files, index files and the schema that they were made under. Pure.

Owns: `Change`, the one form of it, for a request and for what other snapshots did (`Landed`); `Group`, its part in one partition
and bucket, and whether that is a compaction. Must not know: stores, requests, what is a conflict with what.
Source: format/data-files §7; format/deletion-vectors §2; format/manifests §6, §7; H22. Invariant: a change is judged by
what it holds, never by the kind that its snapshot gives itself: an APPEND may delete files, a COMPACT may delete rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from .data_file import ADD, DELETE, SOURCE_COMPACT, DeletionVectorRange, IndexEntry, ManifestEntry
from .deletion_vector import INDEX_TYPE

Owner: TypeAlias = tuple[bytes, int, str]
"""A data file, as deletion vectors name it: its partition, bucket and name."""


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit changes.

    Attributes:
        entries: data files added and deleted.
        index_entries: index files deleted and added; of a vector file that was replaced, both.
        schema_id: the schema of the table as its maker knew it.
    """

    entries: tuple[ManifestEntry, ...]
    index_entries: tuple[IndexEntry, ...]
    schema_id: int


@dataclass(frozen=True, slots=True)
class Landed:
    """A change of another snapshot.

    Attributes:
        marked: data files that stay, and of which other rows are deleted than before.
    """

    snapshot_id: int
    kind: str
    user: str
    change: Change
    marked: frozenset[Owner] = frozenset()

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"snapshot {self.snapshot_id} ({self.kind} by '{self.user}')"

    def groups(self, concerns: Callable[[bytes], bool]) -> list[Group]:
        """What it does in each (partition, bucket) of the partitions that somebody is concerned with."""
        added, deleted, marked, vectors = _by_place(), _by_place(), _by_place(), _by_place()
        for entry in self.change.entries:
            (added if entry.kind == ADD else deleted)[entry.partition, entry.bucket].append(entry)
        for owner in self.marked:
            marked[owner[:2]].append(owner)
        for owner, (_, vector) in vector_places(e for e in self.change.index_entries if e.kind == DELETE).items():
            vectors[owner[:2]].append((owner, vector))
        return [
            Group(tuple(added[place]), tuple(deleted[place]), frozenset(marked[place]), dict(vectors[place]))
            for place in {**added, **deleted, **marked}
            if concerns(place[0])
        ]


@dataclass(frozen=True, slots=True)
class Group:
    """What a change does in one partition and bucket.

    Attributes:
        added, deleted: data files.
        marked: data files that stay, and of which other rows are deleted than before.
        vectors: the deletion vectors, by data file, that stood in the index files which it replaces.
    """

    added: tuple[ManifestEntry, ...]
    deleted: tuple[ManifestEntry, ...]
    marked: frozenset[Owner]
    vectors: Mapping[Owner, DeletionVectorRange]

    @property
    def is_compaction(self) -> bool:
        """Are the rows the same before and after, so far as can be proven?

        The new files say that a compaction wrote them (Apache Paimon says so since 0.9; before, manifests have no such field),
        and have as many rows as the old files have without those that their deletion vectors mark. A file that only
        changes its level is the same file.
        """
        rows = {(e.file.file_name, e.file.row_count) for e in self.deleted}
        same = rows & {(e.file.file_name, e.file.row_count) for e in self.added}
        new = [e for e in self.added if (e.file.file_name, e.file.row_count) not in same]
        old = [e for e in self.deleted if (e.file.file_name, e.file.row_count) not in same]
        if not self.deleted or any(e.file.file_source != SOURCE_COMPACT for e in new):
            return False
        most = least = sum(e.file.row_count for e in old)
        for entry in old:
            vector = self.vectors.get(owner_of(entry))
            if vector is not None:  # one that does not say how many rows it marks may mark any number
                most -= vector.cardinality or 0
                least -= entry.file.row_count if vector.cardinality is None else vector.cardinality
        return least <= sum(e.file.row_count for e in new) <= most


def _by_place() -> defaultdict[tuple[bytes, int], list[Any]]:
    return defaultdict(list)


def owner_of(entry: ManifestEntry) -> Owner:
    """The data file of an entry, as deletion vectors name it."""
    return entry.partition, entry.bucket, entry.file.file_name


def vector_places(index: Iterable[IndexEntry]) -> dict[Owner, tuple[IndexEntry, DeletionVectorRange]]:
    """Where the deletion vector of each data file is: the entry of the index file, and the place in it."""
    return {
        (entry.partition, entry.bucket, vector.data_file): (entry, vector)
        for entry in index
        if entry.file.index_type == INDEX_TYPE
        for vector in entry.file.deletion_vectors or ()
    }


def index_changes(old: Sequence[IndexEntry], new: Sequence[IndexEntry]) -> tuple[IndexEntry, ...]:
    """What makes one complete list of index files from another: DELETEs, then ADDs."""
    before, after = set(old), set(new)
    return (*(replace(e, kind=DELETE) for e in old if e not in after), *(e for e in new if e not in before))
