"""Deletion vectors of files that a compaction replaces: taken out of their index files, the others kept byte for byte.

Owns: `without_vectors`, `vector_places`. Must not know: what a vector marks, how rows are rewritten.
Source: data-layer §6.1, §6.3; format-metadata §8.1; H12. Invariant: a replaced index file is named by a DELETE, so that
whoever changed it meanwhile is a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ..backends.store import ObjectNotFound, Store
from ..coordinator.message import PendingUpload
from ..core.data_file import ADD, DELETE, DeletionVectorRange, IndexEntry, IndexFile
from ..core.deletion_vector import INDEX_TYPE, INDEX_VERSION, vector_bytes
from ..core.errors import TableCorrupt
from ..core.places import FileKeys
from ..core.schema import TableSchema

Owner = tuple[bytes, int, str]
"""A data file: its partition, bucket and name."""


def vector_places(index: Iterable[IndexEntry]) -> dict[Owner, tuple[str, DeletionVectorRange]]:
    """Where the deletion vector of each data file is: the index file's name, and the place in it."""
    return {
        (entry.partition, entry.bucket, vector.data_file): (entry.file.file_name, vector)
        for entry in index
        if entry.file.index_type == INDEX_TYPE
        for vector in entry.file.deletion_vectors or ()
    }


def without_vectors(
    store: Store, schema: TableSchema, index: Iterable[IndexEntry], owners: Collection[Owner], stem: str
) -> tuple[tuple[IndexEntry, ...], tuple[PendingUpload, ...]]:
    """What becomes of the index files once some data files are gone.

    Args:
        index: the live index files.
        owners: the data files that go.
        stem: new index files are called `<stem>-0`, `<stem>-1`, …

    Returns:
        Index entries, DELETEs before ADDs, and the new index files.

    Raises:
        TableCorrupt: an index file is missing or cut off.
    """
    keys = FileKeys(schema)
    deleted: list[IndexEntry] = []
    added: list[IndexEntry] = []
    uploads: list[PendingUpload] = []
    for entry in index:
        vectors = entry.file.deletion_vectors or () if entry.file.index_type == INDEX_TYPE else ()
        kept = [v for v in vectors if (entry.partition, entry.bucket, v.data_file) not in owners]
        if len(kept) == len(vectors):
            continue
        deleted.append(replace(entry, kind=DELETE))
        if kept:
            data, ranges = _rest(store, keys.index(entry), kept)
            file = IndexFile(INDEX_TYPE, f"{stem}-{len(added)}", len(data), len(ranges), ranges)
            new = IndexEntry(ADD, entry.partition, entry.bucket, file)
            added.append(new)
            uploads.append(PendingUpload(keys.index(new), data))
    return (*deleted, *added), tuple(uploads)


def _rest(store: Store, key: str, kept: Iterable[DeletionVectorRange]) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    """An index file of some of the vectors of another."""
    try:
        old = store.get(key)
    except ObjectNotFound:
        raise TableCorrupt(f"{key} is missing; it holds deletion vectors") from None
    data, ranges = INDEX_VERSION, []
    for vector in kept:
        ranges.append(replace(vector, offset=len(data)))
        data += vector_bytes(old, vector, key)
    return data, tuple(ranges)
