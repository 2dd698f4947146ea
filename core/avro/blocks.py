"""Split Avro containers into their blocks.

Owns: the container's header, its blocks and their codecs. Must not know: the records in a block.
Source: Avro specification 1.11 (object container files); format/manifests §1. Invariants: Bytes that are cut off or
damaged raise `Irregular`. Nothing is read beyond their end.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator

import pyarrow as pa

MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4
_SNAPPY_GROWTH = 32
"""A copy in Snappy takes two or three bytes and makes at most 64."""


class Irregular(Exception):
    """The bytes are damaged, or have a form that cannot be decoded as columns."""


def schema_of(container: bytes) -> bytes:
    """The schema with which a container was written, as JSON. Raises Irregular."""
    return _header(container)[0].get(b"avro.schema", b"")


def blocks_of(data: bytes) -> tuple[bytes, Iterator[tuple[int, bytes]]]:
    """The schema of a container, and the number of records and decompressed bytes of each block."""
    if data[:4] != MAGIC:
        raise Irregular("not an Avro container")
    meta, at = _header(data)
    codec = meta.get(b"avro.codec", b"null")
    if codec not in _DECOMPRESS or b"avro.schema" not in meta:
        raise Irregular(f"codec {codec!r}")
    return meta[b"avro.schema"], _split(data, at, _DECOMPRESS[codec])


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


def _split(data: bytes, at: int, decompress: Callable[[bytes], bytes]) -> Iterator[tuple[int, bytes]]:
    sync = data[at : at + _SYNC_BYTES]
    at += _SYNC_BYTES
    while at < len(data):
        count, at = _long(data, at)
        block, at = _text(data, at)
        if data[at : at + _SYNC_BYTES] != sync:
            raise Irregular("a block does not end with the container's mark")
        at += _SYNC_BYTES
        try:
            yield count, decompress(block)
        except Exception as error:  # every codec raises its own exceptions
            raise Irregular(f"a block cannot be decompressed: {error}") from error


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
