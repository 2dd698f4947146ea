"""Reads what snapshots hold: their manifest lists, manifests and index manifests.

Owns: `Manifests`. Must not know: which snapshot is the newest. Source: format/snapshot §3, format/manifests.
Invariants: a missing file is reported by its name and by the file that names it. What is damaged is not kept in memory, as it may
be restored under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from ...backends.store import ObjectNotFound, Store
from ...core.errors import LakelatchError, TableCorrupt, missing
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.paths import TablePaths
from ..surroundings import MACHINE
from .kept_files import KeptFiles
from .schemas import Schemas

if TYPE_CHECKING:
    from ...core.metadata.data_file import IndexEntry, ManifestEntry
    from ...core.metadata.manifest import ManifestFile
    from ...core.metadata.manifest_columns import EntryColumns

T = TypeVar("T")
SMALL_READS = 32
"""How many files that take no time to decode are requested at once."""
COLUMNS_FROM = 2048
"""From this many entries on, decoding by columns is faster than one by one."""
DECODED_TOGETHER = 50_000
"""About how many entries become columns together: enough for NumPy, and few enough that what is computed of them stays small."""
MOST_DECODERS = 4
"""How many groups are decoded at the same time, one for each core: NumPy works on arrays without Python's lock."""


class Manifests(Schemas):
    """The manifests of one branch of one table. Thread-safe. What is read is kept in `held`."""

    def __init__(
        self,
        store: Store,
        paths: TablePaths,
        executor: Callable[[int, str], Executor] = MACHINE.executor,
        first_schema: bytes | None = None,
        schemas: dict[int, TableSchema] | None = None,
        held: KeptFiles | None = None,
    ) -> None:
        super().__init__(store, paths, executor, first_schema, schemas)
        self._held = held

    def manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        """All manifests of a snapshot's state: those of the base list, then those of the delta list."""
        names = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        base, delta = self.parallel(lambda name: self.manifest_list(name, self.file_of(snapshot)), names)
        return (*base, *delta)

    def delta_manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        return self.manifest_list(snapshot.delta_manifest_list, self.file_of(snapshot))

    def file_of(self, snapshot: Snapshot) -> str:
        """The file that holds a snapshot: its own, or that of the tag that it was read from."""
        return snapshot.read_from or self.paths.snapshot(snapshot.id)

    def manifest_list(self, name: str, needed_by: str = "") -> tuple[ManifestFile, ...]:
        """The manifests of a list. `needed_by` is the file that names the list, for the error."""
        from ...core.metadata.manifest import decode_manifest_list

        return tuple(self._decoded(decode_manifest_list, name, needed_by))

    def entries(self, manifests: Iterable[ManifestFile]) -> list[ManifestEntry]:
        parts = self.entry_parts(manifests)
        return [e for part in parts for e in (part if isinstance(part, list) else part.entries())]

    def entry_parts(self, manifests: Iterable[ManifestFile]) -> list[EntryColumns | list[ManifestEntry]]:
        """The entries of manifests, in order; large manifests as columns, so that only the wanted entries are made."""
        from pyarrow import cpu_count

        from ...core.metadata.manifest import decode_manifests

        todo = list(manifests)
        if sum(m.num_added_files + m.num_deleted_files for m in todo) < COLUMNS_FROM:
            return (
                [self.entries_of(m) for m in todo]
                if self.is_near
                else [*self.parallel(self.entries_of, todo, SMALL_READS)]
            )
        read = self.parallel(lambda m: self._metadata(m.file_name, self._list_of(m)), todo)
        groups = _groups(list(zip(todo, read, strict=True)))
        with self._executor(min(MOST_DECODERS, cpu_count(), len(groups)), "lakelatch-decode") as pool:
            parts = pool.map(lambda group: list(decode_manifests([(m.file_name, data) for m, data in group])), groups)
            try:
                return list(chain.from_iterable(parts))
            except TableCorrupt:
                self._forget(*(m.file_name for m in todo))
                raise

    def entries_of(self, manifest: ManifestFile) -> list[ManifestEntry]:
        from ...core.metadata.manifest import decode_manifest

        return self._decoded(decode_manifest, manifest.file_name, self._list_of(manifest))

    def _list_of(self, manifest: ManifestFile) -> str:
        return manifest.listed_in and self.paths.manifest(manifest.listed_in)

    def index_entries(self, snapshot: Snapshot) -> list[IndexEntry]:
        from ...core.metadata.manifest import decode_index_manifest

        if snapshot.index_manifest is None:
            return []
        return self._decoded(decode_index_manifest, snapshot.index_manifest, self.file_of(snapshot))

    def read_ahead(self, snapshot: Snapshot, held: KeptFiles) -> None:
        """Keep the manifest lists of a snapshot that may be outdated; those that cannot be read are left out."""

        def read(name: str) -> None:
            with suppress(ObjectNotFound, LakelatchError):
                if held.get(name) is None:
                    held.keep(name, self.store.get(self.paths.manifest(name)))

        self.parallel(read, (snapshot.base_manifest_list, snapshot.delta_manifest_list))

    def _decoded(self, decode: Callable[[bytes, str], T], name: str, needed_by: str) -> T:
        try:
            return decode(self._metadata(name, needed_by), name)
        except TableCorrupt:
            self._forget(name)
            raise

    def _forget(self, *names: str) -> None:
        if self._held is not None:
            self._held.forget(*names)

    def _metadata(self, name: str, needed_by: str) -> bytes:
        data = None if self._held is None else self._held.get(name)
        if data is not None:
            return data
        key = self.paths.manifest(name)
        try:
            data = self.store.get(key)
        except ObjectNotFound:
            self.check_stands()
            raise missing(key, needed_by) from None
        if self._held is not None:
            self._held.keep(name, data)
        return data


def _groups(manifests: Sequence[tuple[ManifestFile, bytes]]) -> list[list[tuple[ManifestFile, bytes]]]:
    groups: list[list[tuple[ManifestFile, bytes]]] = []
    entries = DECODED_TOGETHER
    for manifest, data in manifests:
        if entries >= DECODED_TOGETHER:
            groups.append([])
            entries = 0
        groups[-1].append((manifest, data))
        entries += manifest.num_added_files + manifest.num_deleted_files
    return groups
