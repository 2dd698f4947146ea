"""The hash of bucket function `hive`.

Owns: Java's hash codes of single values. Must not know: buckets. Source: format/binary-row §4.
Invariant: Hashes are signed 32-bit numbers. A value that several rows share is hashed only once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow.compute as pc

from ...errors import InvalidArgument
from ..dates import date_to_days
from ..types import BINARY_ROOTS, STRING_ROOTS, DataType, sql
from ..values import EXACT, column_values, decimal_unscaled, plain_array, root_of, time_to_millis

_MASK = 0xFFFFFFFF
_SMALL = ("TINYINT", "SMALLINT", "INT")


def hive_hashes(columns: Sequence[Any], types: Sequence[DataType]) -> Any:
    """The hash of every row, NumPy int32: 31 · hash + the hash of the next field. Raises InvalidArgument, as for TIMESTAMP."""
    rows = len(columns[0])
    total = np.zeros(rows, np.uint32)
    for column, data_type in zip(columns, types, strict=True):
        codes = pc.dictionary_encode(plain_array(column), null_encoding="encode")
        codes = codes.combine_chunks() if hasattr(codes, "combine_chunks") else codes
        distinct = column_values(codes.dictionary, data_type)
        hashes = np.array([value_hash(v, data_type) & _MASK for v in distinct] or [0], np.uint32)
        total = total * np.uint32(31) + hashes[np.asarray(codes.indices)] if rows else total
    return total.view(np.int32)


def value_hash(value: Any, data_type: DataType) -> int:
    """The hash of one value; null is 0.

    >>> from ..types import AtomicType
    >>> value_hash(-1, AtomicType("BIGINT")), value_hash("ab", AtomicType("VARCHAR"))
    (0, 3105)
    """
    if value is None:
        return 0
    root = root_of(data_type)
    if root in _SMALL:
        return int(value)
    if root == "BOOLEAN":
        return int(value)
    if root == "BIGINT":
        return _folded(value)
    if root == "FLOAT":
        return 0 if value == 0 else int(struct.unpack("<i", struct.pack("<f", value))[0])
    if root == "DOUBLE":
        return 0 if value == 0 else _folded(struct.unpack("<q", struct.pack("<d", value))[0])
    if root == "DATE":
        return date_to_days(value)
    if root == "TIME":
        return time_to_millis(value)
    if root == "DECIMAL":
        return _decimal_hash(value)
    if root in STRING_ROOTS or root in BINARY_ROOTS:
        return _bytes_hash(value.encode() if isinstance(value, str) else value)
    raise InvalidArgument(f"bucket function hive does not support type {sql(data_type)}")


def _signed(number: int) -> int:
    number &= _MASK
    return number - (1 << 32) if number >> 31 else number


def _folded(number: int) -> int:
    number &= (1 << 64) - 1
    return _signed(number ^ number >> 32)


def _bytes_hash(data: bytes) -> int:
    total = 0
    for byte in data:
        total = (total * 31 + (byte - 256 if byte > 127 else byte)) & _MASK
    return _signed(total)


def _decimal_hash(value: Decimal) -> int:
    """`BigDecimal.hashCode` of the number without trailing zeros: 31 · hash of the digits + scale."""
    if value == 0:
        return 0
    plain = value.normalize(EXACT)
    scale = -int(plain.as_tuple().exponent)
    unscaled = decimal_unscaled(plain, scale)
    return _signed(31 * _big_integer_hash(unscaled) + scale)


def _big_integer_hash(number: int) -> int:
    total, magnitude = 0, abs(number)
    words = [(magnitude >> shift) & _MASK for shift in range(0, max(magnitude.bit_length(), 1), 32)]
    for word in reversed(words):
        total = (31 * total + word) & _MASK
    return _signed(total if number >= 0 else -total)
