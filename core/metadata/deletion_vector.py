"""Deletion vectors: the positions of the deleted rows of a data file.

Owns: the bytes of one vector in an index file, of both kinds, and of a file of vectors. Must not know: the locations of index
files, how rows are read. Source: format/deletion-vectors §1, §3. Invariants: A vector that is damaged or belongs to another file
is an error, because reading fewer marks than were written would bring back deleted rows. The bytes of a vector are those that
Apache Paimon writes for the same rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import TableCorrupt
from ..file_index.bitmaps.roaring import bitmap_of, checked_bitmap, checked_bitmap64, serialized
from .data_file import DeletionVectorRange

INDEX_TYPE = "DELETION_VECTORS"
INDEX_VERSION = b"\x01"
_MAGIC_32, _MAGIC_64 = bytes.fromhex("5e43f2d0"), bytes.fromhex("d1d33964")
_SIZE_BYTES = _MAGIC_BYTES = _CRC_BYTES = 4


def vector_end(found: DeletionVectorRange) -> int:
    """The last byte at which a vector can end in its index file. The two kinds count their lengths differently."""
    return found.offset + _SIZE_BYTES + found.length + _CRC_BYTES


def vector_bytes(data: bytes, found: DeletionVectorRange, where: str) -> bytes:
    """A vector's size, body and checksum in an index file, to be copied into another one. Raises TableCorrupt."""
    end = found.offset + _SIZE_BYTES + int.from_bytes(data[found.offset :][:_SIZE_BYTES], "big") + _CRC_BYTES
    if found.offset < 0 or end > len(data):
        raise TableCorrupt(f"{where}: the deletion vector of {found.data_file} is cut off")
    return data[found.offset : end]


def decode_vector(data: bytes, found: DeletionVectorRange, row_count: int | None, where: str) -> Any:
    """The positions of the deleted rows, ascending. `data` reaches from `found.offset` to `vector_end(found)` or the
    file's end; `row_count` is that of the data file, None if it is not known. Raises TableCorrupt.
    """
    about = f"{where}: the deletion vector of {found.data_file}"
    size = int.from_bytes(data[:_SIZE_BYTES], "big")
    body = data[_SIZE_BYTES : _SIZE_BYTES + size]
    magic, checksum = body[:_MAGIC_BYTES], data[_SIZE_BYTES + size :][:_CRC_BYTES]
    if magic not in (_MAGIC_32, _MAGIC_64):
        raise TableCorrupt(f"{about} has no known magic number: its field 'magic' is {magic.hex() or 'missing'}")
    if found.length != (size if magic == _MAGIC_32 else size + _SIZE_BYTES + _CRC_BYTES):
        raise TableCorrupt(f"{about} has {size} bytes, but field '_DELETIONS_VECTORS_RANGES' says {found.length}")
    if len(body) < size or int.from_bytes(checksum, "big") != zlib.crc32(body):
        raise TableCorrupt(f"{about} is cut off or damaged: its checksum in field 'crc' is wrong")
    try:
        stored = bytes(body[_MAGIC_BYTES:])
        bitmap = checked_bitmap(stored)[0] if magic == _MAGIC_32 else checked_bitmap64(stored)
    except ValueError as error:
        raise TableCorrupt(f"{about} is not a bitmap: {error}") from error
    if found.cardinality is not None and len(bitmap) != found.cardinality:
        raise TableCorrupt(
            f"{about} marks {len(bitmap)} rows; its manifest's field '_CARDINALITY' is {found.cardinality}"
        )
    if row_count is not None and bitmap and bitmap.max() >= row_count:
        raise TableCorrupt(f"{about} marks row {bitmap.max()}, but the file has {row_count} rows")
    return np.asarray(bitmap.to_array(), np.int64)


def encode_vector(positions: Any, is_wide: bool) -> bytes:
    """The size, body and checksum of a vector of positions in any order; `is_wide` is option `deletion-vectors.bitmap64`.

    >>> encode_vector(np.array([2, 0]), False).hex()
    '000000185e43f2d03a300000010000000000010010000000000002007b8a0ff7'
    """
    positions = np.asarray(positions, np.int64)
    if is_wide:
        bitmaps = [positions[positions >> 32 == high] for high in range(int(positions.max(initial=0) >> 32) + 1)]
        parts = [struct.pack("<I", high) + serialized(bitmap_of(low & 0xFFFF_FFFF)) for high, low in enumerate(bitmaps)]
        body = _MAGIC_64 + struct.pack("<Q", len(parts)) + b"".join(parts)
    else:
        body = _MAGIC_32 + serialized(bitmap_of(positions))
    return len(body).to_bytes(_SIZE_BYTES, "big") + body + zlib.crc32(body).to_bytes(_CRC_BYTES, "big")


def is_wide_vector(vector: bytes) -> bool:
    """Is this a vector of 64 bits? `vector` begins with its size."""
    return vector[_SIZE_BYTES:][:_MAGIC_BYTES] == _MAGIC_64


def encode_vectors(vectors: Mapping[str, tuple[bytes, int]]) -> tuple[bytes, tuple[DeletionVectorRange, ...]]:
    """An index file with vectors by data file (bytes from `encode_vector`, number of marked rows), and their ranges in
    it. Without any vector, it is a file of one byte.
    """
    data, ranges = [INDEX_VERSION], []
    at = len(INDEX_VERSION)
    for name, (vector, cardinality) in vectors.items():
        length = len(vector) if is_wide_vector(vector) else len(vector) - _SIZE_BYTES - _CRC_BYTES
        ranges.append(DeletionVectorRange(name, at, length, cardinality))
        data.append(vector)
        at += len(vector)
    return b"".join(data), tuple(ranges)
