"""The deletion vectors of one bucket of a table with a primary key, while a compaction marks rows and rewrites files.

Owns: `BucketVectors`. Must not know: which rows are marked, which files are rewritten, commits.
Source: format/lookup-compaction §3; format/deletion-vectors §1, §2; H12.

Invariants: One index file holds all vectors of the bucket. The file that was read is named by a DELETE when it is replaced, so
that a concurrent change of it is a conflict. A vector that does not change is copied byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...backends.store import ObjectNotFound, Store
from ...coordinator.commit.message import PendingUpload
from ...core.errors import missing
from ...core.metadata.data_file import ADD, DELETE, DeletionVectorRange, IndexEntry, IndexFile
from ...core.metadata.deletion_vector import (
    INDEX_TYPE,
    decode_vector,
    encode_vector,
    encode_vectors,
    is_wide_vector,
    vector_bytes,
)
from ...core.places import FileKeys
from ..formats.external import located


class BucketVectors:
    """The vectors of one bucket, from the live index files `index` of the bucket or of the whole table.

    `rows` is the number of rows of each data file of the bucket. New vectors have 64 bits if `is_wide`.
    """

    def __init__(
        self,
        store: Store,
        keys: FileKeys,
        place: tuple[bytes, int],
        index: Iterable[IndexEntry],
        rows: Mapping[str, int],
        is_wide: bool,
    ) -> None:
        self._store, self._keys, self._place, self._rows, self._is_wide = store, keys, place, rows, is_wide
        self._read_from = [e for e in index if (e.partition, e.bucket) == place and e.file.index_type == INDEX_TYPE]
        self._stored: dict[str, tuple[IndexEntry, DeletionVectorRange]] = {
            vector.data_file: (entry, vector)
            for entry in self._read_from
            for vector in entry.file.deletion_vectors or ()
        }
        self._bytes: dict[str, bytes] = {}
        self._positions: dict[str, Any] = {}
        self._marked: set[str] = set()
        self._is_changed = False

    def deleted(self, name: str) -> Any:
        """The positions of a data file's deleted rows, as an ascending NumPy array; None if it has none."""
        if name not in self._stored and name not in self._positions:
            return None
        if name not in self._positions:
            entry, found = self._stored[name]
            data = self._vector(name)
            where = self._keys.index(entry)
            self._positions[name] = decode_vector(data, found, self._rows.get(name), where)
        return self._positions[name]

    def mark(self, name: str, positions: Any) -> None:
        """Mark the rows at some positions (a NumPy array) of a data file as deleted."""
        old = self.deleted(name)
        new = np.unique(positions if old is None else np.concatenate((old, positions)))
        if old is None or len(new) > len(old):
            self._positions[name] = new
            self._marked.add(name)
            self._is_changed = True

    def remove(self, names: Iterable[str]) -> None:
        """Forget the vectors of files that are rewritten."""
        for name in names:
            if name in self._stored or name in self._positions:
                self._stored.pop(name, None)
                self._positions.pop(name, None)
                self._is_changed = True

    def changes(self, name: str) -> tuple[tuple[IndexEntry, ...], tuple[PendingUpload, ...]]:
        """The index entries that replace the bucket's index file, and the new file. Nothing if no vector has changed."""
        if not self._is_changed:
            return (), ()
        vectors = {file: self._encoded(file) for file in sorted({*self._stored, *self._positions})}
        data, ranges = encode_vectors(vectors)
        file = IndexFile(INDEX_TYPE, name, len(data), len(ranges), ranges)
        new = IndexEntry(ADD, *self._place, file)
        entries = (*(replace(e, kind=DELETE) for e in self._read_from), new)
        return entries, (PendingUpload(self._keys.index(new), data),)

    def _encoded(self, name: str) -> tuple[bytes, int]:
        if name in self._marked:
            positions = self._positions[name]
            is_wide = is_wide_vector(self._vector(name)) if name in self._stored else self._is_wide
            return encode_vector(positions, is_wide), len(positions)
        cardinality = self._stored[name][1].cardinality
        return self._vector(name), len(self.deleted(name)) if cardinality is None else cardinality

    def _vector(self, name: str) -> bytes:
        """The bytes of a stored vector. All vectors of its index file are read at once."""
        if name not in self._stored:
            return b""
        if name not in self._bytes:
            entry = self._stored[name][0]
            key = self._keys.index(entry)
            try:
                where, path = located(self._store, key)
                data = where.get(path)
            except ObjectNotFound:
                raise missing(key, entry.listed_in, what="deletion vectors: ") from None
            for file, (other, found) in self._stored.items():
                if other is entry:
                    self._bytes[file] = vector_bytes(data, found, key)
        return self._bytes[name]
