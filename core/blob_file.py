"""Files of BLOBs: the values one after another, and their lengths at the end.

Owns: the index and the frame around a value. Must not know: stores, columns. Source: format/data-files §7; format/snapshot §1.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

VERSION = 1
NULL, PLACEHOLDER = -1, -2
"""Lengths that mean "null", and "the value is in an older file"."""
FOOTER_BYTES = 5
_MAGIC = bytes.fromhex("cf114e58")
_LENGTH_BYTES, _CRC_BYTES = 8, 4
FRAME_BYTES = len(_MAGIC) + _LENGTH_BYTES + _CRC_BYTES


def index_size(footer: bytes) -> int:
    """The number of bytes of the index before the footer. Raises ValueError."""
    if len(footer) != FOOTER_BYTES or footer[-1] != VERSION:
        raise ValueError(f"it does not end like a file of BLOBs of version {VERSION}")
    return int.from_bytes(footer[:-1], "little", signed=True)


def decode_lengths(index: bytes, data_size: int) -> Any:
    """The length of each value with its frame, or NULL, or PLACEHOLDER.

    The index holds the differences between lengths, as zigzag varints. Raises ValueError where they do not add up to
    `data_size`, the number of bytes before it.

    >>> decode_lengths(bytes.fromhex("52061d"), 114).tolist()
    [41, 44, 29]
    """
    differences = []
    at = 0
    while at < len(index):
        number = shift = 0
        while True:
            if at >= len(index) or shift > 63:
                raise ValueError("its index is cut off")
            byte = index[at]
            number |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        differences.append((number >> 1) ^ -(number & 1))
    lengths = list(accumulate(differences))
    if any(length < FRAME_BYTES and length not in (NULL, PLACEHOLDER) for length in lengths):
        raise ValueError("its index has impossible lengths")
    if sum(length for length in lengths if length > 0) != data_size:
        raise ValueError("the lengths of its values do not add up to its size")
    return np.array(lengths, np.int64)


def encode_end(lengths: Sequence[int]) -> bytes:
    """What follows the values: the index, its size and the version.

    >>> encode_end([41, 44, 29]).hex()
    '52061d0300000001'
    """
    index = bytearray()
    for before, length in pairwise((0, *lengths)):
        number = length - before
        rest = (number << 1) ^ (number >> 63)
        while rest > 127:
            index.append(rest & 127 | 128)
            rest >>= 7
        index.append(rest)
    return bytes(index) + len(index).to_bytes(4, "little") + bytes([VERSION])


def framed(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    checked = _MAGIC + value + (len(value) + FRAME_BYTES).to_bytes(_LENGTH_BYTES, "little")
    return checked + zlib.crc32(checked).to_bytes(_CRC_BYTES, "little")


def unframed(frame: bytes) -> bytes:
    """Raises ValueError where it is damaged."""
    value = frame[len(_MAGIC) : -_LENGTH_BYTES - _CRC_BYTES]
    if frame[: len(_MAGIC)] != _MAGIC or int.from_bytes(frame[-_CRC_BYTES:], "little") != zlib.crc32(
        frame[:-_CRC_BYTES]
    ):
        raise ValueError("a value's checksum is wrong")
    return value
