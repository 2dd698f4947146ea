"""A local table whose metadata a test rewrites: damages, and names that were put there on purpose."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lakelatch as ll
from lakelatch.core.metadata.data_file import ManifestEntry
from lakelatch.core.metadata.manifest import (
    ManifestFile,
    decode_manifest,
    decode_manifest_list,
    encode_manifest,
    encode_manifest_list,
)
from lakelatch.core.metadata.snapshot import Snapshot, parse_snapshot


class Planted:
    """A table's files, to be broken."""

    def __init__(self, table: ll.Table) -> None:
        self.root = Path(table.url)

    def path(self, key: str) -> Path:
        return self.root / key

    def snapshot(self, number: int) -> Snapshot:
        key = f"snapshot/snapshot-{number}"
        return parse_snapshot(self.path(key).read_bytes(), key)

    def put_snapshot(self, snapshot: Snapshot) -> None:
        self.path(f"snapshot/snapshot-{snapshot.id}").write_bytes(snapshot.to_json())

    def delta(self, number: int) -> list[ManifestFile]:
        name = self.snapshot(number).delta_manifest_list
        return decode_manifest_list(self.path(f"manifest/{name}").read_bytes(), name)

    def entries(self, number: int) -> list[ManifestEntry]:
        name = self.delta(number)[0].file_name
        return decode_manifest(self.path(f"manifest/{name}").read_bytes(), name)

    def put_delta(self, number: int, manifests: list[ManifestFile]) -> None:
        """Replace the delta list, and its size in the snapshot."""
        snapshot, data = self.snapshot(number), encode_manifest_list(manifests)
        self.path(f"manifest/{snapshot.delta_manifest_list}").write_bytes(data)
        self.put_snapshot(replace(snapshot, delta_manifest_list_size=len(data)))

    def put_entries(self, number: int, entries: list[ManifestEntry]) -> str:
        """Replace the delta's manifest, and its size in the list; the manifest's key."""
        manifest, data = self.delta(number)[0], encode_manifest(entries)
        self.path(f"manifest/{manifest.file_name}").write_bytes(data)
        self.put_delta(number, [replace(manifest, file_size=len(data))])
        return f"manifest/{manifest.file_name}"
