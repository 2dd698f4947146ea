"""Split Avro containers into their blocks.

Owns: the container's header, its blocks and their codecs. Must not know: the records in a block.
Source: Avro specification 1.11 (object container files); format/manifests §1. Invariants: Bytes that are cut off or
damaged raise `Irregular`. Nothing is read beyond their end.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cramjam
import numpy as np
import pyarrow as pa

from ..typed import Array

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4
_ZSTD_GROWTH = 1000
"""A block that tells of a larger size is decompressed step by step, so that a damaged size asks for no memory."""
_SNAPPY_GROWTH = 32
"""A copy in Snappy takes two or three bytes and makes at most 64."""


class Irregular(Exception):
    """The bytes are damaged, or have a form that cannot be decoded as columns."""


def schema_of(container: bytes) -> bytes:
    """The schema with which a container was written, as JSON. Raises Irregular."""
    return _header(container)[0].get(b"avro.schema", b"")


def blocks_of(data: bytes) -> tuple[bytes, Iterator[tuple[int, bytes]]]:
    """The schema of a container, and the number of records and decompressed bytes of each block."""
    schema, blocks = stored_blocks(data)
    return schema, ((count, block.decompressed()) for count, block in blocks)


@dataclass(frozen=True)
class StoredBlock:
    """A block as it is stored.

    Attributes:
        data: the bytes, compressed.
        codec: as the container names it.
    """

    data: bytes
    codec: bytes

    def decompressed(self) -> bytes:
        try:
            return _DECOMPRESS[self.codec](self.data)
        except Exception as error:  # every codec raises its own exceptions
            raise Irregular(f"a block cannot be decompressed: {error}") from error

    def told_size(self) -> int | None:
        """The decompressed size, where the block says so and it is believable; else None."""
        if self.codec != b"zstandard":
            return None
        from backports import zstd

        try:
            size: int | None = zstd.get_frame_info(self.data).decompressed_size
        except zstd.ZstdError as error:
            raise Irregular(f"a block cannot be decompressed: {error}") from error
        return None if size is None or size > _ZSTD_GROWTH * len(self.data) else size


def joined(blocks: Sequence[StoredBlock], behind: bytes) -> tuple[Array, Array]:
    """All blocks decompressed, one after another.

    Blocks that tell their size are decompressed right into their place, which takes two thirds of the time.

    Args:
        behind: bytes to add at the end.

    Returns:
        The bytes, and where each block ends.
    """
    plain = [block.decompressed() if (size := block.told_size()) is None else size for block in blocks]
    ends = np.cumsum([size if isinstance(size, int) else len(size) for size in plain], dtype=np.int64)
    whole = np.empty((int(ends[-1]) if blocks else 0) + len(behind), np.uint8)
    places, begin = whole.data, 0
    for block, found, end in zip(blocks, plain, ends.tolist(), strict=True):
        if isinstance(found, int):
            _decompress_into(places[begin:end], block)
        else:
            places[begin:end] = found
        begin = end
    places[begin:] = behind
    return whole, ends


def _decompress_into(place: memoryview, block: StoredBlock) -> None:
    try:
        size = cramjam.zstd.decompress_into(block.data, place)
    except cramjam.DecompressionError as error:
        raise Irregular(f"a block cannot be decompressed: {error}") from error
    if size != len(place):
        raise Irregular("a block is shorter than it says")


def stored_blocks(data: bytes) -> tuple[bytes, Iterator[tuple[int, StoredBlock]]]:
    """The schema of a container, and the number of records and stored bytes of each block."""
    if data[:4] != MAGIC:
        raise Irregular("not an Avro container")
    meta, at = _header(data)
    codec = meta.get(b"avro.codec", b"null")
    if codec not in _DECOMPRESS or b"avro.schema" not in meta:
        raise Irregular(f"codec {codec!r}")
    return meta[b"avro.schema"], _split(data, at, codec)


def _header(data: bytes) -> tuple[dict[bytes, bytes], int]:
    meta: dict[bytes, bytes] = {}
    at = len(MAGIC)
    while True:
        count, at = _long(data, at)
        if count == 0:
            return meta, at
        if count < 0:
            count = -count
            _, at = _long(data, at)
        for _ in range(count):
            key, at = _text(data, at)
            meta[key], at = _text(data, at)


def _split(data: bytes, at: int, codec: bytes) -> Iterator[tuple[int, StoredBlock]]:
    sync = data[at : at + _SYNC_BYTES]
    if len(sync) < _SYNC_BYTES:
        raise Irregular("the header is cut off")
    at += _SYNC_BYTES
    while at < len(data):
        count, at = _long(data, at)
        block, at = _text(data, at)
        if data[at : at + _SYNC_BYTES] != sync:
            raise Irregular("a block does not end with the container's mark")
        at += _SYNC_BYTES
        yield count, StoredBlock(block, codec)


def _long(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70 and at < len(data):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise Irregular("a number is cut off")


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(data, at)
    if not 0 <= length <= len(data) - at:
        raise Irregular("a block or text is cut off")
    return data[at : at + length], at + length


def _inflated(block: bytes) -> bytes:
    return zlib.decompress(block, -zlib.MAX_WBITS)


def _zstd(block: bytes) -> bytes:
    from backports import zstd

    return bytes(zstd.decompress(block))


def _snappy(block: bytes) -> bytes:
    """Decompress Snappy's raw format, after which Avro appends a checksum of the decompressed bytes."""
    size = shift = 0
    for byte in block[:5]:
        size, shift = size | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            break
    if size > _SNAPPY_GROWTH * len(block):
        raise Irregular("a block is cut off")
    plain = bytes(pa.decompress(block[:-_CHECKSUM_BYTES], size, "snappy", asbytes=True))
    if zlib.crc32(plain).to_bytes(_CHECKSUM_BYTES, "big") != block[-_CHECKSUM_BYTES:]:
        raise Irregular("a block's checksum is wrong")
    return plain


_DECOMPRESS: dict[bytes, Callable[[bytes], bytes]] = {
    b"null": bytes,
    b"deflate": _inflated,
    b"zstandard": _zstd,
    b"snappy": _snappy,
    b"bzip2": bz2.decompress,
    b"xz": lzma.decompress,
}
