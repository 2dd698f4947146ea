"""Check that the files that snapshots reference exist, with the right size.

Owns: collecting the expected files, and the findings for missing ones. Must not know: the contents of the files (see `data`),
how a snapshot's state is computed, requests to the store. Source: format/snapshot §1; format/manifests §6, §7.
Invariants: Outside the table's folder, only locations are looked at that an option of the table names (H16). A file that
several snapshots need is requested once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...backends.store import ObjectNotFound
from ...coordinator.history.presence import sizes_of
from ...coordinator.history.timeline import Timeline
from ...core.metadata.data_file import IndexEntry, ManifestEntry
from ...core.metadata.deletion_vector import INDEX_TYPE
from ...core.metadata.schema import TableSchema
from ...core.places import FileKeys, FilePlaces, is_external
from ..formats.external import located
from .finding import Findings


@dataclass(frozen=True, slots=True)
class Expected:
    """A file that must exist; its key is relative to the table's root, and `entry` or `index` describes it."""

    key: str
    size: int | None
    named_by: str
    entry: ManifestEntry | None = None
    index: IndexEntry | None = None


class FileCheck:
    """Checks that files exist, with the newest readable schema, as partition columns and places of files do not change."""

    def __init__(self, timeline: Timeline, schema: TableSchema, findings: Findings) -> None:
        self._timeline, self._findings = timeline, findings
        self._keys, self._places = FileKeys(schema), FilePlaces.of(schema.options)
        self._expected: dict[str, Expected] = {}

    def expect_data(self, entry: ManifestEntry, manifest: str) -> None:
        """Expect a data or changelog file, and the files that belong to it."""
        where = f"manifest/{manifest}"
        keys = self._findings.attempt(where, lambda: self._keys.data(entry))
        if keys is None:
            return
        if keys[0] in self._expected:
            return
        self._expected[keys[0]] = Expected(keys[0], entry.file.file_size, where, entry=entry)
        self._expected.update({extra: Expected(extra, None, where) for extra in keys[1:]})

    def expect_index(self, entry: IndexEntry, manifest: str, live: Iterable[ManifestEntry]) -> None:
        """Its deletion vectors must belong to the live data files of the snapshot."""
        where = f"manifest/{manifest}"
        key = self._findings.attempt(where, lambda: self._index_key(entry))
        if key is None:
            return
        self._expected.setdefault(key, Expected(key, entry.file.file_size, where, index=entry))
        if entry.file.index_type == INDEX_TYPE:
            names = {e.file.file_name for e in live}
            for found in entry.file.deletion_vectors or ():
                if found.offset < 0 or found.length < 0 or found.offset + found.length > entry.file.file_size:
                    message = f"of {found.data_file} extend beyond the end of {entry.file.file_name}"
                    self._findings.error(where, "_DELETIONS_VECTORS_RANGES", message)
                if found.data_file not in names:
                    message = f"name {found.data_file}, which is not a live file"
                    self._findings.warning(where, "_DELETIONS_VECTORS_RANGES", message)

    def _index_key(self, entry: IndexEntry) -> str:
        outside = entry.file.external_path
        return self._keys.index(entry) if outside is None else self._places.external(outside)

    def expect_file(self, key: str, named_by: str) -> None:
        self._expected.setdefault(key, Expected(key, None, named_by))

    def check(self) -> list[Expected]:
        """Look for all collected files. Returns those that exist."""
        outside = [key for key in self._expected if is_external(key)]
        sizes = sizes_of(self._timeline, [key for key in self._expected if not is_external(key)])
        sizes.update(self._sizes_outside(outside))
        present = []
        for key, expected in self._expected.items():
            size = sizes.get(key)
            if size is None:
                self._findings.error(key, "", f"is missing; {expected.named_by} needs it")
                continue
            if expected.size is not None and size != expected.size:
                self._findings.error(key, "_FILE_SIZE", f"has {size} bytes; {expected.named_by} says {expected.size}")
            present.append(expected)
        return present

    def _sizes_outside(self, keys: Sequence[str]) -> dict[str, int]:
        """The sizes of files in external paths, which are looked at one by one."""

        def size(key: str) -> int | None:
            store, inside = located(self._timeline.store, key)
            try:
                return store.head(inside).size
            except ObjectNotFound:
                return None

        found = zip(keys, self._timeline.parallel(size, keys), strict=True)
        return {key: size for key, size in found if size is not None}
