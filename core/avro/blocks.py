"""Split Avro containers into their blocks.

Owns: the container's header, its blocks and their codecs. Must not know: the records in a block.
Source: Avro specification 1.11 (object container files); format/manifests §1. Invariants: Bytes that are cut off or
damaged raise `Irregular`. Nothing is read beyond their end, and what comes out of a codec is bounded by what went in (H16).
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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


_LEAST_PLAIN, _MOST_GROWTH = 64 << 20, 100
"""Metadata grows by less than thirty: each entry has a name of its own."""
_LEAST_DATA = 256 << 20


class Irregular(Exception):
    """The bytes are damaged, or have a form that cannot be decoded as columns."""


class TooLarge(Irregular):
    """They would fill the memory: whoever made them wanted that."""


def most_plain(stored: int, least: int | None = None) -> int:
    """How many bytes may come out of so many stored ones.

    >>> most_plain(10) >> 20, most_plain(1 << 20) >> 20
    (64, 100)
    """
    return max(_LEAST_PLAIN if least is None else least, _MOST_GROWTH * stored)


def schema_of(container: bytes) -> bytes:
    return _header(container)[0].get(b"avro.schema", b"")


def blocks_of(data: bytes) -> tuple[bytes, Iterator[tuple[int, bytes]]]:
    schema, blocks = stored_blocks(data)
    return schema, _within(most_plain(len(data)), blocks)


def _within(left: int, blocks: Iterator[tuple[int, StoredBlock]]) -> Iterator[tuple[int, bytes]]:
    for count, block in blocks:
        plain = block.decompressed(left)
        left -= len(plain)
        if count > len(plain):
            raise TooLarge(f"a block of {len(plain)} bytes tells of {count} records")
        yield count, plain


@dataclass(frozen=True)
class StoredBlock:
    data: bytes
    codec: bytes

    def decompressed(self, most: int) -> bytes:
        """The bytes. Raises TooLarge where more than `most` come out."""
        try:
            plain = _DECOMPRESS[self.codec](self.data, most)
            if len(plain) > most:
                raise TooLarge(f"a block of {len(self.data)} bytes holds more than {most} bytes")
            return plain
        except TooLarge:
            raise
        except Exception as error:  # every codec raises its own exceptions
            raise Irregular(f"a block cannot be decompressed: {error}") from error

    def told_size(self) -> int | None:
        """The decompressed size, where the block says so and it is believable; else None."""
        if self.codec != b"zstandard":
            return None
        from .zstandard import zstd

        try:
            size: int | None = zstd.get_frame_info(self.data).decompressed_size
        except zstd.ZstdError as error:
            raise Irregular(f"a block cannot be decompressed: {error}") from error
        return None if size is None or size > _ZSTD_GROWTH * len(self.data) else size


def joined(blocks: Sequence[StoredBlock], behind: bytes) -> tuple[Array, Array]:
    """All blocks decompressed before `behind`, and where each ends. Blocks that tell their size go right into their place."""
    left = most_plain(sum(len(block.data) for block in blocks))
    plain: list[int | bytes] = []
    for block in blocks:
        told = block.told_size()
        plain.append(block.decompressed(left) if told is None else told)
        left -= len(plain[-1]) if isinstance(plain[-1], bytes) else plain[-1]
        if left < 0:
            raise TooLarge("the blocks hold more bytes than such files do")
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


@dataclass(frozen=True)
class FileBlocks:
    file: Any
    schema: bytes
    codec: bytes
    sync: bytes

    @staticmethod
    def of(file: Any) -> FileBlocks:
        if file.read(len(MAGIC)) != MAGIC:
            raise Irregular("not an Avro container")
        meta: dict[bytes, bytes] = {}
        while count := _next_long(file):
            if count < 0:
                count = -count
                _next_long(file)
            for _ in range(count):
                key = _next_bytes(file)
                meta[key] = _next_bytes(file)
        if b"avro.schema" not in meta:
            raise Irregular("its header has no schema")
        return FileBlocks(file, meta[b"avro.schema"], meta.get(b"avro.codec", b"null"), _exactly(file, _SYNC_BYTES))

    def next(self) -> tuple[int, bytes] | None:
        """The number of records and the plain bytes of the next block; None at the end."""
        if not self.file.peek(1):
            return None
        count, stored = _next_long(self.file), _next_bytes(self.file)
        if _exactly(self.file, _SYNC_BYTES) != self.sync:
            raise Irregular("a block does not end with the container's mark")
        plain = StoredBlock(stored, self.codec).decompressed(most_plain(len(stored), _LEAST_DATA))
        if not 0 < count <= len(plain):
            raise Irregular(f"a block of {len(plain)} bytes tells of {count} records")
        return count, plain


def _exactly(file: Any, size: int) -> bytes:
    data: bytes = file.read(size)
    if len(data) < size:
        raise Irregular("it is cut off")
    return data


def _next_bytes(file: Any) -> bytes:
    length = _next_long(file)
    if length < 0:
        raise Irregular(f"a text of {length} bytes")
    return _exactly(file, length)


def _next_long(file: Any) -> int:
    data = b""
    while len(data) < 10:
        data += _exactly(file, 1)
        if data[-1] < 0x80:
            return _long(data, 0)[0]
    raise Irregular("a number is cut off")


def _inflated(block: bytes, most: int) -> bytes:
    codec = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = codec.decompress(block, most + 1)
    if len(plain) <= most and not codec.eof:
        raise Irregular("a block is cut off")
    return plain


def _in_frames(made: Callable[[], Any]) -> Callable[[bytes, int], bytes]:
    def decompress(block: bytes, most: int) -> bytes:
        found, rest, size = [], block, 0
        while rest and size <= most:
            codec = made()
            plain = codec.decompress(rest, most + 1 - size)
            if not codec.eof and size + len(plain) <= most:
                raise Irregular("a block is cut off")
            found.append(plain)
            size += len(plain)
            rest = codec.unused_data
        return b"".join(found)

    return decompress


def _zstd() -> Any:
    from .zstandard import zstd

    return zstd.ZstdDecompressor()


def _snappy(block: bytes, most: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size, shift = size | (byte & 0x7F) << shift, shift + 7
        if byte < 0x80:
            break
    if size > min(_SNAPPY_GROWTH * len(block), most):
        raise Irregular("a block is cut off")
    plain = bytes(pa.decompress(block[:-_CHECKSUM_BYTES], size, "snappy", asbytes=True))
    if zlib.crc32(plain).to_bytes(_CHECKSUM_BYTES, "big") != block[-_CHECKSUM_BYTES:]:
        raise Irregular("a block's checksum is wrong")
    return plain


_DECOMPRESS: dict[bytes, Callable[[bytes, int], bytes]] = {
    b"null": lambda block, most: block,
    b"deflate": _inflated,
    b"zstandard": _in_frames(_zstd),
    b"snappy": _snappy,
    b"bzip2": _in_frames(bz2.BZ2Decompressor),
    b"xz": _in_frames(lambda: lzma.LZMADecompressor(memlimit=_LEAST_DATA)),
}
CODECS = frozenset(_DECOMPRESS)
