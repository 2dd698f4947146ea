"""The index files of dynamic buckets: read for the assignment of keys, and joined with a commit's own on each base.

Owns: `HashIndexes`, `HashMemory` (kept between commits), `HashJoin`. Must not know: how a key gets its bucket, rows, the
machine. Source: format/binary-row §5; format/manifests §7; H12.
Invariants: after a commit each hash is in the index of one bucket of its partition: where another writer put a key of this
commit into another bucket, the commit does not land. The hashes of another writer are never lost: they are joined with this
commit's. An index file that is replaced is named by a DELETE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....backends.store import ObjectNotFound
from ....core.errors import missing
from ....core.metadata.data_file import ADD, DELETE, IndexEntry, IndexFile, PartitionBucket
from ....core.metadata.hash_index import INDEX_TYPE, BucketHashes, MovedKeys, decode_hashes, encode_hashes
from ....core.metadata.snapshot import Snapshot
from ....core.places import FileKeys
from ....core.rows.binary.hash_buckets import HashSet
from ....core.typed import Array
from ...history.timeline import Timeline
from ..attempt import FileNames, MetadataFile
from ..checks.conflicts import Conflict

KEPT_BYTES = 64 << 20
"""The size of the index files that a committer keeps."""

Index = dict[int, IndexEntry]
"""The index files of a partition, by bucket."""


class HashMemory:
    """By name, as neither kind of file ever changes. Thread-safe: the mappings are replaced, never changed."""

    def __init__(self) -> None:
        self._files: Mapping[str, Array] = {}
        self._manifests: Mapping[str, Sequence[IndexEntry]] = {}

    def hashes(self, name: str) -> Array | None:
        return self._files.get(name)

    def keep(self, name: str, hashes: Array) -> None:
        files = {k: v for k, v in self._files.items() if k != name} | {name: hashes}
        size = sum(v.nbytes for v in files.values())
        while size > KEPT_BYTES:
            size -= files.pop(next(iter(files))).nbytes
        self._files = files

    def entries(self, manifest: str) -> Sequence[IndexEntry] | None:
        return self._manifests.get(manifest)

    def keep_entries(self, manifest: str, entries: Sequence[IndexEntry]) -> None:
        """Keep the entries of an index manifest, and of the one before it."""
        self._manifests = dict([*self._manifests.items()][-1:]) | {manifest: entries}


class HashIndexes:
    def __init__(self, timeline: Timeline, keys: FileKeys, memory: HashMemory) -> None:
        self.timeline, self._keys, self.memory = timeline, keys, memory

    def of(self, snapshot: Snapshot | None, partition: bytes) -> tuple[dict[int, Array], frozenset[str]]:
        """The hashes of a partition by bucket, and the files with them. Raises TableCorrupt where one is missing or cut off."""
        index = hash_files(self.entries(snapshot), partition)
        found = self.timeline.parallel(self.hashes, index.values())
        return dict(zip(index, found, strict=True)), names_of(index)

    def entries(self, snapshot: Snapshot | None) -> Sequence[IndexEntry]:
        if snapshot is None or snapshot.index_manifest is None:
            return ()
        known = self.memory.entries(snapshot.index_manifest)
        if known is None:
            known = self.timeline.index_entries(snapshot)
            self.memory.keep_entries(snapshot.index_manifest, known)
        return known

    def hashes(self, entry: IndexEntry) -> Array:
        known = self.memory.hashes(entry.file.file_name)
        if known is None:
            key = self._keys.index(entry)
            try:
                data = self.timeline.store.get(key)
            except ObjectNotFound:
                raise missing(key, entry.listed_in, what="the hashes of keys: ") from None
            known = decode_hashes(data, entry.file.row_count, key)
            self.memory.keep(entry.file.file_name, known)
        return known

    def key(self, entry: IndexEntry) -> str:
        return self._keys.index(entry)


def hash_files(index: Iterable[IndexEntry], partition: bytes) -> Index:
    return {e.bucket: e for e in index if e.file.index_type == INDEX_TYPE and e.partition == partition}


def names_of(index: Index) -> frozenset[str]:
    return frozenset(e.file.file_name for e in index.values())


@dataclass(frozen=True, slots=True)
class Joined:
    """The hash index files of a commit on a base: entries (each DELETE before its ADD) and the files to be written."""

    entries: tuple[IndexEntry, ...] = ()
    files: tuple[MetadataFile, ...] = ()


@dataclass
class HashJoin:
    """Joins the hashes of the keys that a commit writes with those of each base. `moved`: keys that another writer put into
    another bucket, as of the last base.
    """

    hashes: Sequence[tuple[PartitionBucket, BucketHashes]]
    indexes: HashIndexes
    names: FileNames
    moved: tuple[MovedKeys, ...] = ()
    _made: dict[tuple[bytes, int, str], tuple[IndexEntry, MetadataFile]] = field(default_factory=dict)

    def on(self, live: Sequence[IndexEntry]) -> Joined | Conflict:
        """The index files of this commit; a conflict if a key is in another bucket by now (`moved` says which). `live` are the
        base's, without those that the commit removes.
        """
        by_partition: dict[bytes, dict[int, list[BucketHashes]]] = {}
        for (partition, bucket), hashes in self.hashes:
            by_partition.setdefault(partition, {}).setdefault(bucket, []).append(hashes)
        entries: list[IndexEntry] = []
        files: list[MetadataFile] = []
        moved: list[MovedKeys] = []
        for partition, ours in by_partition.items():
            index = hash_files(live, partition)
            names = names_of(index)
            is_read = all(h.read == names for parts in ours.values() for h in parts)
            placed = None if is_read else self._placed(index)
            for bucket, parts in ours.items():
                new = _union(h.new if is_read else h.all for h in parts)
                if placed is not None:
                    found = placed.find(new)
                    elsewhere = (found >= 0) & (found != bucket)
                    moved += _moves(partition, bucket, new[elsewhere], found[elsewhere])
                    new = new[found < 0]
                # where keys are in other buckets the commit ends here, and its files would lack them
                if len(new) and not moved:
                    made = self._join(partition, bucket, index.get(bucket), new)
                    entries += made[0]
                    files.append(made[1])
        self.moved = tuple(moved)
        if moved:
            count = sum(len(m.hashes) // 4 for m in moved)
            return Conflict("keys_moved", f"another writer put {count} of its new keys into other buckets")
        return Joined(tuple(entries), tuple(files))

    def _placed(self, index: Index) -> HashSet:
        placed = HashSet()
        for bucket, hashes in zip(
            index, self.indexes.timeline.parallel(self.indexes.hashes, index.values()), strict=True
        ):
            distinct = np.unique(hashes)
            free = distinct[placed.find(distinct) < 0]
            placed.add(free, np.full(len(free), bucket, np.int32))
        return placed

    def _join(
        self, partition: bytes, bucket: int, old: IndexEntry | None, new: Array
    ) -> tuple[list[IndexEntry], MetadataFile]:
        """The index file of a bucket with new hashes, and what it replaces. The same file for the same old one."""
        place = (partition, bucket, old.file.file_name if old is not None else "")
        if place not in self._made:
            hashes = new if old is None else np.union1d(self.indexes.hashes(old), new)
            data, name = encode_hashes(hashes), self.names.next("index")
            entry = IndexEntry(ADD, partition, bucket, IndexFile(INDEX_TYPE, name, len(data), len(hashes)))
            key = self.indexes.key(entry)
            self._made[place] = entry, MetadataFile(key, key, data)
            self.indexes.memory.keep(name, hashes)
        entry, file = self._made[place]
        return [*([] if old is None else [replace(old, kind=DELETE)]), entry], file


def _union(parts: Iterable[bytes]) -> Array:
    found = [decode_hashes(data, len(data) // 4, "a commit message") for data in parts]
    return np.unique(np.concatenate(found))


def _moves(partition: bytes, bucket: int, hashes: Array, to: Array) -> list[MovedKeys]:
    return [MovedKeys(partition, bucket, int(target), encode_hashes(hashes[to == target])) for target in np.unique(to)]
