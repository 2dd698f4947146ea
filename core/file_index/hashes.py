"""Computes 64-bit hashes of the keys of whole columns.

Owns: XXH64 of texts, and Thomas Wang's hash of numbers. Must not know: the use of the hashes. Source: format/file-indexes §2;
the public descriptions of the algorithms. Invariant: The hashes are exactly those of Apache Paimon, whose shifts keep the sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..typed import Array

_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32


def key_hashes(keys: Any) -> Array:
    """The hashes (int64) of keys without nulls (see `keys.key_array`).

    >>> key_hashes(pa.array([1, -1])).tolist()
    [6614235796240398542, 6614246905173314819]
    >>> key_hashes(pa.array([b""])).tolist()
    [-1205034819632174695]
    """
    if pa.types.is_binary(keys.type):
        return _texts(keys)
    return _numbers(np.asarray(keys))


def _numbers(key: Array) -> Array:
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key = key ^ (key >> 24)
        key = key + (key << 3) + (key << 8)
        key = key ^ (key >> 14)
        key = key + (key << 2) + (key << 4)
        key = key ^ (key >> 28)
        return key + (key << 31)


def _texts(keys: Any) -> Array:
    _, ends, data = keys.buffers()
    offsets = np.frombuffer(ends, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    bytes_ = np.frombuffer(data or b"", np.uint8)
    lengths = np.diff(offsets)
    hashes = np.zeros(len(keys), np.uint64)
    for length in np.unique(lengths).tolist():  # texts of the same length are hashed together
        which = np.flatnonzero(lengths == length)
        rows = max(1, (16 << 20) // max(length, 1))
        for start in range(0, len(which), rows):
            some = which[start : start + rows]
            hashes[some] = _xxh64(bytes_[offsets[some][:, None] + np.arange(length)])
    return hashes.view(np.int64)


def _rotated(value: Array, bits: int) -> Array:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def _round(accumulator: Array, lane: Array) -> Array:
    return _rotated(accumulator + lane * _P2, 31) * _P1


def _xxh64(texts: Array) -> Array:
    """The hashes of texts of the same length with seed 0; `texts` is uint8 of shape (texts, length)."""
    count, length = texts.shape
    with np.errstate(over="ignore"):
        if length >= _STRIPE:
            hash_ = _stripes(texts[:, : length // _STRIPE * _STRIPE])
        else:
            hash_ = np.full(count, _P5, np.uint64)
        hash_ = hash_ + np.uint64(length)
        at = length // _STRIPE * _STRIPE
        while at + 8 <= length:
            hash_ = _rotated(hash_ ^ _round(np.zeros(count, np.uint64), _lane(texts, at, 8)), 27) * _P1 + _P4
            at += 8
        if at + 4 <= length:
            hash_ = _rotated(hash_ ^ (_lane(texts, at, 4) * _P1), 23) * _P2 + _P3
            at += 4
        for byte in range(at, length):
            hash_ = _rotated(hash_ ^ (texts[:, byte].astype(np.uint64) * _P5), 11) * _P1
        hash_ = (hash_ ^ (hash_ >> np.uint64(33))) * _P2
        hash_ = (hash_ ^ (hash_ >> np.uint64(29))) * _P3
        return hash_ ^ (hash_ >> np.uint64(32))


def _stripes(texts: Array) -> Array:
    lanes = np.ascontiguousarray(texts).view("<u8")
    zero = np.zeros(len(texts), np.uint64)
    accumulators = [zero + _P1 + _P2, zero + _P2, zero, zero - _P1]
    for first in range(0, lanes.shape[1], 4):
        accumulators = [_round(a, lanes[:, first + i]) for i, a in enumerate(accumulators)]
    hash_ = sum((_rotated(a, bits) for a, bits in zip(accumulators, (1, 7, 12, 18), strict=True)), start=zero)
    for accumulator in accumulators:
        hash_ = (hash_ ^ _round(zero, accumulator)) * _P1 + _P4
    return hash_


def _lane(texts: Array, at: int, size: int) -> Array:
    return np.ascontiguousarray(texts[:, at : at + size]).view(f"<u{size}")[:, 0].astype(np.uint64)
