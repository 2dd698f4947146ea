"""The index files of a commit: deletion vectors of removed files are taken out, all others are kept byte for byte.

Owns: `with_vectors_of` and `combine_index`. Must not know: what a vector marks, which files are removed, how the list is
written. Source: format/deletion-vectors §1, §2; format/manifests §7; H12.
Invariants: a replaced index file is named by a DELETE, so that a concurrent change of it is a conflict. The vector of a file
that stays is never lost, because that would bring its deleted rows back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from ....backends.store import ObjectNotFound, Store
from ....core.errors import Unsupported, missing
from ....core.metadata.change import Owner
from ....core.metadata.data_file import ADD, DELETE, DeletionVectorRange, IndexEntry, IndexFile
from ....core.metadata.deletion_vector import INDEX_TYPE, INDEX_VERSION, vector_bytes
from ....core.places import FileKeys, is_external
from ..checks.conflicts import Conflict
from ..message import PendingUpload


def with_vectors_of(
    store: Store, keys: FileKeys, index: Iterable[IndexEntry], stays: Callable[[Owner], bool], name: Callable[[], str]
) -> tuple[tuple[IndexEntry, ...], tuple[PendingUpload, ...]]:
    """Split index files when only some of the data files stay (`stays`). A file whose vectors are all removed is not read.
    Raises TableCorrupt if one is damaged, Unsupported if one that has to be split lies outside the table.

    Returns:
        Index entries, DELETEs before ADDs, and the new index files.
    """
    deleted: list[IndexEntry] = []
    added: list[IndexEntry] = []
    uploads: list[PendingUpload] = []
    for entry in index:
        vectors = entry.file.deletion_vectors or ()
        kept = [v for v in vectors if stays((entry.partition, entry.bucket, v.data_file))]
        if len(kept) == len(vectors):
            continue
        deleted.append(replace(entry, kind=DELETE))
        if kept:
            data, ranges = _rest(store, keys.index(entry), kept, entry.listed_in)
            file = IndexFile(INDEX_TYPE, name(), len(data), len(ranges), ranges)
            new = IndexEntry(ADD, entry.partition, entry.bucket, file)
            added.append(new)
            uploads.append(PendingUpload(keys.index(new), data))
    return (*deleted, *added), tuple(uploads)


def _rest(
    store: Store, key: str, kept: Iterable[DeletionVectorRange], needed_by: str
) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    if is_external(key):
        raise Unsupported(
            f"index file {key} lies outside of the table, and some of its deletion vectors have to be removed",
            next_step="compact the files that it belongs to with Apache Paimon",
        )
    try:
        old = store.get(key)
    except ObjectNotFound:
        raise missing(key, needed_by, what="deletion vectors: ") from None
    data, ranges = INDEX_VERSION, []
    for vector in kept:
        ranges.append(replace(vector, offset=len(data)))
        data += vector_bytes(old, vector, key)
    return data, tuple(ranges)


def combine_index(old: Sequence[IndexEntry], changes: Iterable[IndexEntry]) -> list[IndexEntry] | Conflict:
    """The complete list of live index files after some changes (format/manifests §7). A DELETE must name a live file. Otherwise
    another writer replaced it meanwhile, and the deleted rows of one of the two would be lost (H12).
    """
    by_name = {e.file.file_name: e for e in old}
    for entry in changes:
        name = entry.file.file_name
        if entry.kind == ADD:
            by_name[name] = entry
        elif by_name.pop(name, None) is None:
            return Conflict("index_file_replaced", f"index file {name} is no longer live", (name,))
    return list(by_name.values())
