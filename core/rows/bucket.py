"""Computes the bucket of a row.

Owns: the murmur hash over BinaryRow and the three bucket functions. Must not know: writers, tables, options other than the
name of the function. Source: format/binary-row §4. Invariant: The bucket is the same as Apache Paimon's for every key type
and for null, because readers would never find a row in a wrong bucket.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from .binary.binary_row import row_bytes
from .binary.binary_row_block import RowBlock
from .binary.hive_hash import hive_hashes, value_hash
from .types import DataType, Field, sql
from .values import plain_array, root_of

SEED = 42
_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_MASK = 0xFFFFFFFF
_WORD = struct.Struct("<I")
_BLOCK_ROWS = 1 << 14
_LONG_ROW_BYTES = 1024


class BucketFunction(Enum):
    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"

    @classmethod
    def parse(cls, text: str) -> BucketFunction:
        try:
            return cls(text.strip().lower())
        except ValueError as error:
            raise InvalidArgument(f"option 'bucket-function.type' = {text!r}: use default, mod or hive") from error


def murmur_hash(data: bytes, seed: int = SEED) -> int:
    """The hash of a row without its field count, whose length is a multiple of 4, as a signed 32-bit number.

    >>> murmur_hash(bytes(16))
    -300363099
    """
    hash_ = seed
    for (word,) in _WORD.iter_unpack(data):
        k = word * _C1 & _MASK
        k = (k << 15 | k >> 17) & _MASK
        hash_ ^= k * _C2 & _MASK
        hash_ = (hash_ << 13 | hash_ >> 19) & _MASK
        hash_ = (hash_ * 5 + 0xE6546B64) & _MASK
    hash_ ^= len(data)
    hash_ = (hash_ ^ hash_ >> 16) * 0x85EBCA6B & _MASK
    hash_ = (hash_ ^ hash_ >> 13) * 0xC2B2AE35 & _MASK
    hash_ ^= hash_ >> 16
    return hash_ - (1 << 32) if hash_ >> 31 else hash_


def bucket_of(hash_: int, total: int) -> int:
    """The bucket of a hash: the absolute value of Java's remainder, whose sign is that of the hash.

    >>> bucket_of(-300363099, 2), bucket_of(1465514398, 2)
    (1, 0)
    """
    return abs(hash_) % total


def key_hashes(columns: Sequence[Any], types: Sequence[Any]) -> Any:
    """The murmur hash of every row's key, NumPy int32. Columns may be chunked."""
    arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in map(plain_array, columns)]
    out = np.empty(len(arrays[0]), np.int32)
    for start in range(0, len(out), _BLOCK_ROWS):
        block = RowBlock([a.slice(start, _BLOCK_ROWS) for a in arrays], types)
        target = out[start : start + _BLOCK_ROWS]
        if block.lengths.max() <= _LONG_ROW_BYTES:
            target[:] = _murmur_rows(block.matrix(), block.lengths)
            continue
        for rows, hashes in _mixed_lengths(arrays, types, start, block.lengths):
            target[rows] = hashes
    return out


def _mixed_lengths(arrays: list[Any], types: Sequence[Any], start: int, lengths: Any) -> Iterator[tuple[Any, Any]]:
    """Hash very long rows one by one, because a matrix as wide as the longest row might not fit in memory."""
    short = np.flatnonzero(lengths <= _LONG_ROW_BYTES)
    if len(short):
        block = RowBlock([a.take(pa.array(short + start)) for a in arrays], types)
        yield short, _murmur_rows(block.matrix(), block.lengths)
    for row in np.flatnonzero(lengths > _LONG_ROW_BYTES):
        single = RowBlock([a.slice(start + row, 1) for a in arrays], types)
        yield row, murmur_hash(single.matrix().tobytes())


def _murmur_rows(matrix: Any, lengths: Any) -> Any:
    """`murmur_hash` of every row of a matrix, word by word over all rows at once."""
    words = np.ascontiguousarray(matrix.view("<u4").T)
    hash_ = np.full(len(lengths), SEED, np.uint32)
    shortest = int(lengths.min(initial=0))
    for i, word in enumerate(words):
        k = word * np.uint32(_C1)
        k = (k << np.uint32(15) | k >> np.uint32(17)) * np.uint32(_C2)
        mixed = hash_ ^ k
        mixed = (mixed << np.uint32(13) | mixed >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
        hash_ = mixed if 4 * i < shortest else np.where(lengths > 4 * i, mixed, hash_)
    hash_ = hash_ ^ lengths.astype(np.uint32)
    hash_ = (hash_ ^ hash_ >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    hash_ = (hash_ ^ hash_ >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (hash_ ^ hash_ >> np.uint32(16)).view(np.int32)


def buckets(
    table: Any, key_fields: Sequence[Field], total: int, function: BucketFunction = BucketFunction.DEFAULT
) -> Any:
    """The bucket of every row, NumPy int32 from 0 to total - 1.

    Args:
        key_fields: in the order of option `bucket-key`.

    Raises:
        InvalidArgument: The function does not support the type of a key column.

    >>> from .types import AtomicType
    >>> buckets(pa.table({"a": pa.array([0, 1, 2, 3], pa.int32())}), [Field(0, "a", AtomicType("INT"))], 2).tolist()
    [1, 0, 0, 1]
    """
    if total < 1 or not key_fields:
        raise InvalidArgument(f"buckets need at least one key column and one bucket, not {len(key_fields)} and {total}")
    columns = [table.column(f.name) for f in key_fields]
    types = [f.type for f in key_fields]
    if function is BucketFunction.MOD:
        return _mod_buckets(columns, key_fields, total)
    if function is BucketFunction.HIVE:
        return (hive_hashes(columns, types) & np.int32(0x7FFFFFFF)) % np.int32(total)
    hashes = key_hashes(columns, types).astype(np.int64)
    return (np.abs(hashes) % total).astype(np.int32)


def bucket_of_row(
    values: Sequence[Any], types: Sequence[DataType], total: int, function: BucketFunction = BucketFunction.DEFAULT
) -> int:
    """The bucket of one key, in the form of the module `values`, for look-ups."""
    if function is BucketFunction.MOD:
        return int(values[0] or 0) % total
    if function is BucketFunction.HIVE:
        hash_ = 0
        for value, data_type in zip(values, types, strict=True):
            hash_ = 31 * hash_ + value_hash(value, data_type)
        return (hash_ & 0x7FFFFFFF) % total
    return bucket_of(murmur_hash(row_bytes(values, types)), total)


def _mod_buckets(columns: Sequence[Any], key_fields: Sequence[Field], total: int) -> Any:
    field = key_fields[0]
    if len(key_fields) != 1 or root_of(field.type) not in ("INT", "BIGINT"):
        raise InvalidArgument(
            f"bucket function mod needs one key column of type INT or BIGINT, not {sql(field.type)} and others"
        )
    column = columns[0].combine_chunks() if isinstance(columns[0], pa.ChunkedArray) else columns[0]
    numbers = np.asarray(pc.fill_null(column.cast(pa.int64()), 0))
    return (numbers % total).astype(np.int32)
