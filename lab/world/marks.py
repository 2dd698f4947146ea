"""Index files with deletion vectors, as the lab's actors write them and its readers apply them.

Owns: the bytes of such an index file, and which rows it marks. Must not know: which actor deletes rows, the invariants.
Source: format/deletion-vectors §1. Invariant: vectors are read by the shipped decoder, so a damaged one is an error here too.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from pyroaring import BitMap

from ...core.metadata.data_file import DeletionVectorRange, IndexEntry, IndexFile
from ...core.metadata.deletion_vector import INDEX_TYPE, INDEX_VERSION, decode_vector, vector_end

_MAGIC = bytes.fromhex("5e43f2d0")


def index_file(name: str, marked: Mapping[str, Sequence[int]]) -> tuple[IndexFile, bytes]:
    """An index file that marks the given positions of some data files.

    >>> file, data = index_file("index-D1", {"data-A1+B1.parquet": [1]})
    >>> positions_in(data, file.deletion_vectors[0])
    (1,)
    """
    data, ranges = INDEX_VERSION, []
    for owner, positions in sorted(marked.items()):
        body = _MAGIC + BitMap(positions).serialize()
        ranges.append(DeletionVectorRange(owner, len(data), len(body), len(positions)))
        data += len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    return IndexFile(INDEX_TYPE, name, len(data), len(ranges), tuple(ranges)), data


def positions_in(data: bytes, found: DeletionVectorRange) -> tuple[int, ...]:
    return tuple(int(p) for p in decode_vector(data[found.offset : vector_end(found)], found, None, "an index file"))


def marks_in(entries: Sequence[IndexEntry], files: Mapping[str, bytes]) -> dict[str, tuple[int, ...]]:
    """The marked rows by data file. If two live index files cover one file, the later one counts."""
    return {
        vector.data_file: positions_in(files[entry.file.file_name], vector)
        for entry in entries
        for vector in entry.file.deletion_vectors or ()
    }
