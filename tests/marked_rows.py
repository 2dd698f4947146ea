"""Deletes rows of data files by position, as Apache Paimon would: a vector, its index file, and the snapshot that names it.

Owns: `vector`, `mark`. Must not know: the tables of tests. Source: format/deletion-vectors §1.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyroaring import BitMap, BitMap64

from lakelatch.core.metadata.data_file import ADD, DeletionVectorRange, IndexEntry, IndexFile
from lakelatch.core.metadata.manifest import encode_index_manifest
from lakelatch.table.table import Table

INDEX = "index/index-1"


def vector(positions: Iterable[int], bits: int = 32) -> tuple[bytes, int]:
    """A vector as an index file has it, and the length that its manifest gives (format/deletion-vectors §1)."""
    if bits == 32:
        body = (1581511376).to_bytes(4, "big") + BitMap(positions).serialize()
    else:
        body = (1681511377).to_bytes(4, "little") + BitMap64(positions).serialize()
    data = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return data, len(body) if bits == 32 else len(data)


def mark(
    table: Table, positions: Mapping[str, Iterable[int]], bits: int = 32, *, counted: bool = True, **changed: Any
) -> None:
    """Delete rows of files by position: an index file for each bucket, an index manifest, and the snapshot that names it."""
    places = {e.file.file_name: (e.partition, e.bucket) for e in table.entries()}
    anywhere = next(iter(places.values()))
    by_bucket: dict[tuple[bytes, int], list[str]] = {}
    for name in positions:
        by_bucket.setdefault(places.get(name, anywhere), []).append(name)
    entries = []
    for number, ((partition, bucket), names) in enumerate(by_bucket.items(), 1):
        data, ranges = b"\x01", []
        for name in names:
            rows = list(positions[name])
            blob, length = vector(rows, bits)
            said = DeletionVectorRange(name, len(data), length, len(set(rows)) if counted else None)
            ranges.append(replace(said, **changed))
            data += blob
        table.store.put(f"index/index-{number}", data)
        file = IndexFile("DELETION_VECTORS", f"index-{number}", len(data), len(ranges), tuple(ranges))
        entries.append(IndexEntry(ADD, partition, bucket, file))
    table.store.put("manifest/index-manifest-1", encode_index_manifest(entries))
    snapshot = table.snapshot()
    assert snapshot is not None
    marked = replace(snapshot, index_manifest="index-manifest-1")
    table.store.put(table.paths.snapshot(snapshot.id), marked.to_json())
