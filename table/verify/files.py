"""Checks that the files which snapshots reference are there, with the right size.

Owns: what is expected, and what is said of what is missing. Must not know: what is inside the files (see `data`),
how states are folded, how the store is asked. Source: format/snapshot §1; format/manifests §6, §7.
Invariants: nothing outside of the table's folder is ever asked for (H16); a file that several snapshots need is asked
for once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...coordinator.history.presence import sizes_of
from ...coordinator.history.timeline import Timeline
from ...core.metadata.data_file import IndexEntry, ManifestEntry
from ...core.metadata.deletion_vector import INDEX_TYPE
from ...core.metadata.schema import TableSchema
from ...core.places import FileKeys, is_external
from .finding import Findings


@dataclass(frozen=True, slots=True)
class Expected:
    """A file that has to be there.

    Attributes:
        key: relative to the table's root.
        size: bytes; None where nobody says.
        named_by: the file that references it.
        entry: for a data file, what its manifest says.
        index: for an index file, what its manifest says.
    """

    key: str
    size: int | None
    named_by: str
    entry: ManifestEntry | None = None
    index: IndexEntry | None = None


class FileCheck:
    """Gathers the files that snapshots need, and looks for them.

    Args:
        schema: the newest readable one: partition columns and places of files do not change.
    """

    def __init__(self, timeline: Timeline, schema: TableSchema, findings: Findings) -> None:
        self._timeline, self._findings = timeline, findings
        self._keys = FileKeys(schema)
        self._expected: dict[str, Expected] = {}
        self._outside: list[str] = []

    def expect_data(self, entry: ManifestEntry, manifest: str) -> None:
        """A data file, or a changelog file, and what belongs to it."""
        where = f"manifest/{manifest}"
        keys = self._findings.attempt(where, lambda: self._keys.data(entry))
        if keys is None:
            return
        if is_external(keys[0]):
            self._outside.append(keys[0])
            return
        if keys[0] in self._expected:
            return
        self._expected[keys[0]] = Expected(keys[0], entry.file.file_size, where, entry=entry)
        self._expected.update({extra: Expected(extra, None, where) for extra in keys[1:]})

    def expect_index(self, entry: IndexEntry, manifest: str, live: Iterable[ManifestEntry]) -> None:
        """An index file; a deletion vector must belong to a live file.

        Args:
            live: the live data files of the snapshot.
        """
        where = f"manifest/{manifest}"
        if entry.file.external_path is not None:
            self._outside.append(entry.file.external_path)
            return
        key = self._findings.attempt(where, lambda: self._keys.index(entry))
        if key is None:
            return
        self._expected.setdefault(key, Expected(key, entry.file.file_size, where, index=entry))
        if entry.file.index_type == INDEX_TYPE:
            names = {e.file.file_name for e in live}
            for found in entry.file.deletion_vectors or ():
                if found.offset < 0 or found.length < 0 or found.offset + found.length > entry.file.file_size:
                    message = f"of {found.data_file} reach beyond the end of {entry.file.file_name}"
                    self._findings.error(where, "_DELETIONS_VECTORS_RANGES", message)
                if found.data_file not in names:
                    message = f"name {found.data_file}, which is no live file"
                    self._findings.warning(where, "_DELETIONS_VECTORS_RANGES", message)

    def expect_file(self, key: str, named_by: str) -> None:
        """Any other file, such as statistics."""
        self._expected.setdefault(key, Expected(key, None, named_by))

    def check(self) -> list[Expected]:
        """Look for everything that was gathered; the files that are there are returned."""
        if self._outside:
            count = f" and {len(self._outside) - 1} others" if len(self._outside) > 1 else ""
            message = f"lies outside of the table's folder{count}: not looked at"
            self._findings.warning(self._outside[0], "_EXTERNAL_PATH", message)
        sizes = sizes_of(self._timeline, list(self._expected))
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
