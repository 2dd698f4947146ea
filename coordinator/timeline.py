"""A table's history in its store: schemas, snapshots, lists and manifests, read.

Owns: finding the latest snapshot, reading what snapshots reference. Must not know: how a commit is made, who made it.
Source: format-metadata §1, commit-protocol §5.
Invariants: a hint is never needed (H7): one listing says more than any hint; a gap in the ids is never skipped over
silently; what is missing is told by file name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from typing import TypeVar

from ..backends.store import ObjectNotFound, Store
from ..core.data_file import IndexEntry, ManifestEntry
from ..core.errors import TableCorrupt, TableNotFound
from ..core.manifest import ManifestFile, decode_index_manifest, decode_manifest, decode_manifest_list
from ..core.manifest_columns import EntryColumns, decode_manifests
from ..core.paths import TablePaths, version_of
from ..core.schema import TableSchema, parse_schema
from ..core.snapshot import Snapshot, parse_snapshot
from .protocol.events import SnapshotRef
from .surroundings import MACHINE

BASE_PROPERTY = "lakelatch.base"
"""`<id>:<identity>` of the snapshot that this one was built on; `0:` for none."""
READ_THREADS = 8
COLUMNS_FROM = 2048
"""So many entries are decoded faster side by side than one by one."""

T = TypeVar("T")
R = TypeVar("R")


def ref_of(snapshot: Snapshot | None) -> SnapshotRef | None:
    return None if snapshot is None else SnapshotRef(snapshot.id, snapshot.identity)


class Timeline:
    """Reads one branch of one table. Thread-safe; keeps nothing but immutable, named files (by identity, H18)."""

    def __init__(
        self, store: Store, paths: TablePaths, executor: Callable[[int, str], Executor] = MACHINE.executor
    ) -> None:
        self.store = store
        self.paths = paths
        self._executor = executor
        self._schemas: dict[int, TableSchema] = {}

    # ------------------------------------------------------------------------------------------------------- schemas

    def schema_ids(self) -> list[int]:
        """The ids of all schema files, ascending."""
        return sorted(self._versions(self.paths.schema_dir, "schema"))

    def schema(self, schema_id: int) -> TableSchema:
        """Schema `schema_id`. Raises TableCorrupt where its file is missing or damaged."""
        if schema_id not in self._schemas:
            key = self.paths.schema(schema_id)
            try:
                data = self.store.get(key)
            except ObjectNotFound:
                raise TableCorrupt(f"{key} is missing") from None
            self._schemas[schema_id] = parse_schema(data, key)
        return self._schemas[schema_id]

    def latest_schema(self) -> TableSchema:
        """The newest schema. Raises TableNotFound where there is none, TableCorrupt where it was lost."""
        ids = self.schema_ids()
        if not ids:
            if self.snapshot_ids():
                raise TableCorrupt(
                    f"{self.paths.schema(0)} is missing at {self.store.url}: there are snapshots, but no schema"
                )
            raise TableNotFound(f"there is no table at {self.store.url}")
        return self.schema(ids[-1])

    # ----------------------------------------------------------------------------------------------------- snapshots

    def snapshot_ids(self) -> list[int]:
        """The ids of all snapshot files, ascending."""
        return sorted(self._versions(self.paths.snapshot_dir, "snapshot"))

    def snapshot_id_of(self, key: str) -> int | None:
        """The id of a snapshot file of this branch; None for any other key."""
        folder = self.paths.snapshot_dir
        return version_of(key[len(folder) :], "snapshot") if key.startswith(folder) else None

    def _versions(self, folder: str, kind: str) -> Iterator[int]:
        for info in self.store.list(folder):
            version = version_of(info.key[len(folder) :], kind)
            if version is not None:
                yield version

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Snapshot `snapshot_id`. Raises ObjectNotFound where there is no such file, TableCorrupt where it is damaged."""
        key = self.paths.snapshot(snapshot_id)
        found = parse_snapshot(self.store.get(key), key)
        if found.id != snapshot_id:
            raise TableCorrupt(f"{key}: field 'id' is {found.id}: it is another snapshot's file")
        return found

    def find(self, snapshot_id: int) -> Snapshot | None:
        """Snapshot `snapshot_id`, or None."""
        try:
            return self.snapshot(snapshot_id)
        except ObjectNotFound:
            return None

    def latest(self, seen: Snapshot | None = None) -> Snapshot | None:
        """The snapshot that the table's history ends with, None for a table without one.

        Args:
            seen: a snapshot that is known to be published: the next ones are asked for beside the listing, so that a
                writer that is a little behind needs one round trip; a listing that lacks it is stale, and walked on from.
        """
        guesses = [] if seen is None else [seen.id + 1, seen.id + 2]
        with self._executor(3, "lakelatch-latest") as pool:
            asked = [pool.submit(self.find, guess) for guess in guesses]
            ids = self.snapshot_ids()
            found = [answer.result() for answer in asked]
        near = {s.id: s for s in (seen, *found) if s is not None}
        if near and max(near) > max(ids, default=0):
            return self._walk_on(near[max(near)])
        top = self._top(ids)
        return near.get(top) or self._top_snapshot(top)

    def _top_snapshot(self, top: int) -> Snapshot | None:
        """The snapshot that a listing put on top; rolled back since, the listing is made again."""
        for _ in range(3):
            found = self.find(top) if top else None
            if found is not None or top == 0:
                return found
            top = self._top(self.snapshot_ids())
        raise TableCorrupt(f"{self.paths.snapshot(top)} is listed but cannot be read")

    def _top(self, ids: Sequence[int]) -> int:
        """The last id of the history. A gap means a fork or damage (H6): the run that EARLIEST begins is the history."""
        if not ids:
            return 0
        runs = contiguous_runs(ids)
        if len(runs) == 1:
            return ids[-1]
        earliest = self.hint("EARLIEST")
        for run in runs:
            if earliest is not None and earliest == run[0] and self._is_rolled_back(runs, run):
                return run[-1]
        return ids[-1]

    def _is_rolled_back(self, runs: list[range], run: range) -> bool:
        """Do the runs above this one stand on freed ids: is the base that they name another than the one that is there?"""
        above = runs[runs.index(run) + 1 :]
        for higher in above:
            first = self.find(higher[0])
            base = base_of(first) if first is not None else None
            if base is None or base.id <= run[-1]:
                return False
        return bool(above)

    def _walk_on(self, found: Snapshot) -> Snapshot:
        """The end of the run above a snapshot that the listing did not show yet."""
        while True:
            further = self.find(found.id + 1)
            if further is None:
                return found
            found = further

    def hint(self, name: str) -> int | None:
        """What `LATEST` or `EARLIEST` says; None where it is missing or garbage. It proves nothing (H7)."""
        try:
            return int(self.store.get(self.paths.hint(name)))
        except (ObjectNotFound, ValueError):
            return None

    def tag(self, name: str) -> Snapshot:
        """The snapshot that a tag holds. Raises ObjectNotFound."""
        key = self.paths.tag(name)
        return parse_snapshot(self.store.get(key), key)

    # ------------------------------------------------------------------------------------------------ what they hold

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """All manifests of a snapshot's state: those of the base list, then those of the delta list."""
        names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        base, delta = self.parallel(self.manifest_list, names)
        return (*base, *delta)

    def delta_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        return self.manifest_list(snapshot.delta_manifest_list)

    def manifest_list(self, name: str) -> tuple[ManifestFile, ...]:
        return tuple(decode_manifest_list(self._metadata(name), name))

    def entries(self, manifests: Iterable[ManifestFile]) -> list[ManifestEntry]:
        """The entries of manifests, in order."""
        parts = self.entry_parts(manifests)
        return [e for part in parts for e in (part if isinstance(part, list) else part.entries())]

    def entry_parts(self, manifests: Iterable[ManifestFile]) -> list[EntryColumns | list[ManifestEntry]]:
        """The entries of manifests, in order: many of them as columns, so that only those are made that are wanted."""
        todo = list(manifests)
        if sum(m.num_added_files + m.num_deleted_files for m in todo) < COLUMNS_FROM:
            return list(self.parallel(self.entries_of, todo))
        names = [m.file_name for m in todo]
        return list(decode_manifests(list(zip(names, self.parallel(self._metadata, names), strict=True))))

    def entries_of(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return decode_manifest(self._metadata(manifest.file_name), manifest.file_name)

    def index_entries(self, snapshot: Snapshot) -> list[IndexEntry]:
        """The live index files of a snapshot."""
        if snapshot.index_manifest is None:
            return []
        return decode_index_manifest(self._metadata(snapshot.index_manifest), snapshot.index_manifest)

    def _metadata(self, name: str) -> bytes:
        key = self.paths.manifest(name)
        try:
            return self.store.get(key)
        except ObjectNotFound:
            raise TableCorrupt(f"{key} is missing") from None

    def parallel(self, read: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """`read` of each item, in order, several at a time."""
        todo = list(items)
        if len(todo) < 2:
            return [read(item) for item in todo]
        with self._executor(min(READ_THREADS, len(todo)), "lakelatch-read") as pool:
            return list(pool.map(read, todo))


def base_of(snapshot: Snapshot) -> SnapshotRef | None:
    """The base that a snapshot of ours names; None where it names none, or is another writer's."""
    number, _, identity = snapshot.own_properties.get(BASE_PROPERTY, "").partition(":")
    return SnapshotRef(int(number), identity) if number.isdigit() and int(number) > 0 else None


def contiguous_runs(ids: Sequence[int]) -> list[range]:
    """Ascending ids as runs without gaps.

    >>> contiguous_runs([1, 2, 5])
    [range(1, 3), range(5, 6)]
    """
    runs: list[range] = []
    for value in ids:
        if runs and runs[-1].stop == value:
            runs[-1] = range(runs[-1].start, value + 1)
        else:
            runs.append(range(value, value + 1))
    return runs
