"""Reads the compressed blocks of ORC files, and writes blocks that are not compressed.

Three bytes before each block give its size and whether it is compressed.

Owns: the framing and the codecs. Must not know: the contents of the blocks. Source: ORC's own specification.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import cramjam

from .protobuf import varint

_HEAD_BYTES = 3
_MOST_BLOCK_BYTES = 1 << 24
_LEAST_PLAIN, _MOST_GROWTH = 512 << 20, 100
"""A stripe of the same value many times grows by more, but is smaller than that."""


def _inflated(data: bytes, most: int) -> bytes:
    return zlib.decompressobj(-15).decompress(data, most)


def _unpacked(data: bytes, most: int) -> bytes:
    block = bytearray(most)
    return bytes(block[: cramjam.lz4.decompress_block_into(data, block, output_len=most)])


def _desnapped(data: bytes, most: int) -> bytes:
    size, _ = varint(data, 0)
    if size > most:  # the codec allocates as much memory as the data claim
        raise ValueError(f"a block of {size} bytes, where at most {most} are possible")
    return bytes(cramjam.snappy.decompress_raw(data))


def _unzstd(data: bytes, most: int) -> bytes:
    block = bytearray(most)
    return bytes(memoryview(block)[: cramjam.zstd.decompress_into(data, block)])


_DECOMPRESSORS: dict[int, Callable[[bytes, int], bytes]] = {
    1: _inflated,
    2: _desnapped,
    4: _unpacked,
    5: _unzstd,
}


def plain(data: bytes, compression: int, block_size: int) -> bytes:
    """The decompressed contents. `compression` is 0 none (then there are no blocks), 1 zlib, 2 snappy, 4 LZ4 or 5 zstd;
    `block_size` the maximum size of a decompressed block. Raises ValueError.
    """
    if compression == 0:
        return data
    if compression not in _DECOMPRESSORS or not 0 < block_size <= _MOST_BLOCK_BYTES:
        raise ValueError(f"compression {compression} in blocks of {block_size} bytes")
    check_blocks(data, block_size)
    out = bytearray()
    at = 0
    while at < len(data):
        head = int.from_bytes(data[at : at + _HEAD_BYTES], "little")
        block = data[at + _HEAD_BYTES : at + _HEAD_BYTES + (head >> 1)]
        at += _HEAD_BYTES + (head >> 1)
        out += block if head & 1 else _decompressed(block, compression, block_size)
        if len(out) > max(_LEAST_PLAIN, _MOST_GROWTH * len(data)):
            raise ValueError(f"{len(data)} bytes hold more than {len(out) - 1} bytes")
    return bytes(out)


def framed(data: bytes, compression: int, block_size: int) -> bytes:
    """Blocks with these contents, none of them compressed, which `plain` returns again."""
    if compression == 0:
        return data
    out = bytearray()
    for start in range(0, len(data), block_size):
        block = data[start : start + block_size]
        out += (len(block) << 1 | 1).to_bytes(_HEAD_BYTES, "little") + block
    return bytes(out)


def _decompressed(block: bytes, compression: int, most: int) -> bytes:
    try:
        return _DECOMPRESSORS[compression](block, most)
    except (zlib.error, cramjam.DecompressionError) as error:
        raise ValueError(f"a block cannot be decompressed: {error}") from error


def check_blocks(data: bytes | memoryview, block_size: int) -> None:
    """The blocks fill the bytes and none is too large; else raises ValueError."""
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + _HEAD_BYTES], "little") >> 1
        at += _HEAD_BYTES + size
        if at > len(data) or size > block_size:
            raise ValueError(f"a block of {size} bytes, where at most {min(block_size, len(data))} are possible")
