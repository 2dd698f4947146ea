"""What is left of a damaged table: its roots, and which of them can be read whole.

Owns: `Survey`. Must not know: what is done about damage. Source: format/snapshot §1; H6, H11, H25.
Invariant: each list and each manifest is read once. A store that does not answer is an error, not damage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ...backends.store import ObjectNotFound
from ...coordinator.history.timeline import Timeline
from ...coordinator.maintenance.reach.roots import list_roots
from ...core.errors import StoreUnavailable, TableCorrupt, Unsupported
from ...core.json_text import parse_json
from ...core.metadata.data_file import ManifestEntry
from ...core.metadata.manifest import ManifestFile, decode_index_manifest, decode_manifest, decode_manifest_list
from ...core.metadata.schema import SCHEMA_VERSION, TableSchema, parse_schema
from ...core.metadata.snapshot import KINDS, SNAPSHOT_VERSION, Snapshot, parse_snapshot


def digest(data: bytes) -> str:
    """By which a file is recognised when it is deleted later."""
    return hashlib.sha256(data).hexdigest()


@dataclass
class Survey:
    timeline: Timeline
    _lists: dict[str, tuple[ManifestFile, ...] | None] = field(default_factory=dict, repr=False)
    _manifests: dict[str, list[ManifestEntry] | None] = field(default_factory=dict, repr=False)

    @cached_property
    def ids(self) -> list[int]:
        return self.timeline.checked_snapshot_ids()

    @cached_property
    def files(self) -> dict[int, bytes]:
        keys = [self.timeline.paths.snapshot(number) for number in self.ids]
        found = zip(self.ids, self.timeline.parallel(self.bytes_of, keys), strict=True)
        return {number: data for number, data in found if data is not None}

    @cached_property
    def snapshots(self) -> dict[int, Snapshot]:
        """Those snapshots whose files can be decoded, and hold what their names say."""
        found = {}
        for number, data in self.files.items():
            snapshot = snapshot_in(data, self.timeline.paths.snapshot(number))
            if snapshot is not None and snapshot.id == number:
                found[number] = snapshot
        return found

    @cached_property
    def newer(self) -> list[int]:
        """The ids of snapshots that may be of a newer format."""
        return [number for number, data in self.files.items() if number not in self.snapshots and is_newer(data)]

    @cached_property
    def whole(self) -> frozenset[int]:
        """The ids of snapshots whose lists and manifests can all be read. Data files are not looked at."""
        return frozenset(number for number, snapshot in self.snapshots.items() if self.is_whole(snapshot))

    @cached_property
    def schema(self) -> TableSchema | None:
        for number in reversed(self.timeline.schema_ids()):
            key = self.timeline.paths.schema(number)
            data = self.bytes_of(key)
            found = None if data is None else schema_in(data, key)
            if found is not None:
                return found
        return None

    @cached_property
    def tags(self) -> dict[str, bytes]:
        files = {name: info.key for name, info in self.timeline.tag_files().items()}
        found = zip(files, self.timeline.parallel(self.bytes_of, list(files.values())), strict=True)
        return {name: data for name, data in sorted(found) if data is not None}

    @cached_property
    def copies(self) -> dict[str, list[bytes]]:
        """The contents of other roots, of all branches, by the identity of the snapshot that they hold."""
        kept: dict[str, list[bytes]] = {}
        own = {self.timeline.paths.snapshot(number) for number in self.ids}
        keys = [
            info.key for info in list_roots(self.timeline) if info.key not in own and "/changelog" not in f"/{info.key}"
        ]
        for key, data in zip(keys, self.timeline.parallel(self.bytes_of, keys), strict=True):
            found = None if data is None else snapshot_in(data, key)
            if found is not None:
                kept.setdefault(found.identity, []).append(found.to_json())
        return kept

    def is_whole(self, snapshot: Snapshot) -> bool:
        return self.state(snapshot) is not None and self.index_is_whole(snapshot)

    def state(self, snapshot: Snapshot) -> list[ManifestEntry] | None:
        """The entries of a snapshot's manifests, base list first; None if any of them cannot be read."""
        entries: list[ManifestEntry] = []
        for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
            part = self.entries_of_list(name)
            if part is None:
                return None
            entries += part
        return entries

    def entries_of_list(self, name: str) -> list[ManifestEntry] | None:
        """The entries of the manifests of a list; None if any of them cannot be read."""
        if name not in self._lists:
            self._lists[name] = self._decoded(name, lambda data: tuple(decode_manifest_list(data, name)))
        manifests = self._lists[name]
        if manifests is None:
            return None
        entries: list[ManifestEntry] = []
        for manifest in manifests:
            part = self._entries(manifest.file_name)
            if part is None:
                return None
            entries += part
        return entries

    def index_is_whole(self, snapshot: Snapshot) -> bool:
        name = snapshot.index_manifest
        return name is None or self._decoded(name, lambda data: decode_index_manifest(data, name)) is not None

    def _entries(self, name: str) -> list[ManifestEntry] | None:
        if name not in self._manifests:
            self._manifests[name] = self._decoded(name, lambda data: decode_manifest(data, name))
        return self._manifests[name]

    def _decoded(self, name: str, decode: Callable[[bytes], Any]) -> Any:
        def read() -> Any:
            data = self.bytes_of(self.timeline.paths.manifest(name))
            if data is None:
                raise TableCorrupt(f"{name} is missing")
            return decode(data)

        return attempted(read)

    def names_of(self, snapshot: Snapshot) -> set[str]:
        """The lists, manifests and index manifest that a snapshot names, as far as they are known."""
        lists = {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        self.state(snapshot)
        manifests = {m.file_name for name in lists for m in self._lists.get(name) or ()}
        return lists | manifests | ({snapshot.index_manifest} if snapshot.index_manifest else set())

    def exists(self, key: str) -> bool:
        try:
            self.timeline.store.head(key)
        except ObjectNotFound:
            return False
        return True

    def bytes_of(self, key: str) -> bytes | None:
        try:
            return self.timeline.store.get(key)
        except ObjectNotFound:
            return None


def snapshot_in(data: bytes, key: str) -> Snapshot | None:
    found: Snapshot | None = attempted(lambda: parse_snapshot(data, key))
    return found


def schema_in(data: bytes, key: str) -> TableSchema | None:
    found: TableSchema | None = attempted(lambda: parse_schema(data, key))
    return found


def is_newer(data: bytes) -> bool:
    """Whether the contents of a snapshot, tag or schema say a version or a kind that is not known, so that they may be sound."""
    raw = attempted(lambda: parse_json(data))
    if not isinstance(raw, dict):
        return False
    version, kind = raw.get("version"), raw.get("commitKind")
    later = isinstance(version, int) and version > max(SNAPSHOT_VERSION, SCHEMA_VERSION)
    return later or (isinstance(kind, str) and kind not in KINDS)


def attempted(read: Callable[[], Any]) -> Any:
    """The result of reading something; None where it is damaged. `Unsupported` means that it need not be."""
    try:
        return read()
    except (StoreUnavailable, Unsupported):
        raise
    except Exception:  # whatever a decoder raises means damage here; `verify` tells the details
        return None
