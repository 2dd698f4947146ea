"""The index of dynamic buckets: which keys are in which bucket, by their hashes.

Owns: the bytes of an index file of type HASH, and `BucketHashes`, what a writer says of the keys that it wrote. Must not know:
the locations of index files, how a hash gets its bucket. Source: format/binary-row §5; format/manifests §7.
Invariant: an index file that is cut off is an error, because a key whose hash is lost would get a second bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import TableCorrupt
from ..typed import Array

INDEX_TYPE = "HASH"
_STORED = np.dtype(">i4")


def encode_hashes(hashes: Array) -> bytes:
    """The bytes of an index file: each hash as a big-endian int32, without a header.

    >>> encode_hashes(np.array([1, -2], np.int32)).hex()
    '00000001fffffffe'
    """
    return np.asarray(hashes, np.int32).astype(_STORED).tobytes()


def decode_hashes(data: bytes, row_count: int, where: str) -> Array:
    """The hashes, int32 in order. Raises TableCorrupt where they are not as many as the index manifest states."""
    if len(data) != row_count * _STORED.itemsize:
        raise TableCorrupt(
            f"{where} holds {len(data)} bytes, but its manifest's field '_ROW_COUNT' = {row_count} needs"
            f" {row_count * _STORED.itemsize}"
        )
    return np.frombuffer(data, _STORED).astype(np.int32)


@dataclass(frozen=True, slots=True)
class BucketHashes:
    """The hashes of the keys that a writer wrote into one dynamic bucket, each as bytes like those of an index file.

    Attributes:
        all: of all its rows, ascending and distinct.
        new: those that were in no bucket of the partition when they were assigned.
        read: the names of the partition's index files by which they were assigned.
    """

    all: bytes
    new: bytes
    read: frozenset[str]


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Keys that were written into `bucket`, but that another writer has put into another one (`to`) meanwhile."""

    partition: bytes
    bucket: int
    to: int
    hashes: bytes
