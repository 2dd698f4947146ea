"""Encodes many key rows at once as BinaryRow, from Arrow columns to a matrix of bytes.

Owns: the vectorised form of `binary_row.row_bytes`. Must not know: hashes, buckets. Source: format/binary-row §1.
Invariant: Row i of the matrix, up to its length, is `row_bytes` of row i.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import InvalidArgument
from ...typed import Array
from ..types import BINARY_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, sql
from ..values import NANOS_PER_MILLI, NANOS_PER_UNIT, plain_array, root_of
from .binary_row import (
    BIG_DECIMAL_BYTES,
    COMPACT_DECIMAL_DIGITS,
    COMPACT_TIMESTAMP_DIGITS,
    INLINE_BYTES,
    SLOT_BYTES,
    null_area_bytes,
)

_INTEGERS = {
    "BOOLEAN": (pa.uint8(), np.uint8),
    "TINYINT": (pa.int8(), np.uint8),
    "SMALLINT": (pa.int16(), np.uint16),
    "INT": (pa.int32(), np.uint32),
    "BIGINT": (pa.int64(), np.uint64),
    "DATE": (pa.int32(), np.uint32),
    "TIME": (pa.int32(), np.uint32),
    "FLOAT": (pa.float32(), np.uint32),
    "DOUBLE": (pa.float64(), np.uint64),
}


class RowBlock:
    """The encoded keys of several rows.

    >>> block = RowBlock([pa.array([10, None], pa.int32())], [AtomicType("INT")])
    >>> block.matrix()[0].tobytes().hex()
    '00000000000000000a00000000000000'
    """

    def __init__(self, columns: Sequence[Any], types: Sequence[DataType]) -> None:
        rows, arity = len(columns[0]), len(types)
        self._null_area = null_area_bytes(arity)
        self._slots = np.zeros((rows, arity), np.uint64)
        self._nulls = np.zeros((rows, self._null_area), np.uint8)
        self._copies: list[tuple[Array, Array, Array, Array]] = []
        self.lengths = np.full(rows, self._null_area + SLOT_BYTES * arity, np.int64)
        for i, (column, data_type) in enumerate(zip(columns, types, strict=True)):
            array = plain_array(column)
            if array.null_count:
                bit = 8 + i
                self._nulls[:, bit >> 3] |= np.asarray(array.is_null()).astype(np.uint8) << np.uint8(bit & 7)
            self._add(i, array, data_type)

    def matrix(self) -> Array:
        """The bytes of the rows, uint8 of shape (rows, longest row); bytes after the end of a row are zero."""
        rows, arity = self._slots.shape
        width = int(self.lengths.max(initial=0))
        out = np.zeros((rows, width), np.uint8)
        fixed = self._null_area + SLOT_BYTES * arity
        out[:, : self._null_area] = self._nulls
        out[:, self._null_area : fixed] = self._slots.astype("<u8").view(np.uint8).reshape(rows, -1)
        flat = out.reshape(-1)
        first_byte = np.arange(rows, dtype=np.int64) * width
        for targets, starts, lengths, data in self._copies:
            _copy_pieces(flat, first_byte + targets, data, starts, lengths)
        return out

    def _add(self, i: int, array: Any, data_type: DataType) -> None:
        root = root_of(data_type)
        if root in _INTEGERS:
            self._slots[:, i] = _fixed_slots(array, root)
        elif isinstance(data_type, AtomicType) and root == "DECIMAL":
            self._add_decimal(i, array, data_type)
        elif isinstance(data_type, AtomicType) and root in TIMESTAMP_ROOTS:
            self._add_timestamp(i, array, data_type)
        elif root in STRING_ROOTS or root in BINARY_ROOTS:
            self._add_bytes(i, array)
        else:
            raise InvalidArgument(f"a column of type {sql(data_type)} cannot be a key")

    def _reserve(self, i: int, first_half: Array, sizes: Array) -> Array:
        """Reserve space at the end of the rows whose size is not 0, and write their slots."""
        offsets = self.lengths.copy()
        slots = first_half.astype(np.uint64) | offsets.astype(np.uint64) << np.uint64(32)
        self._slots[:, i] = np.where(sizes > 0, slots, self._slots[:, i])
        self.lengths += sizes
        return offsets

    def _add_decimal(self, i: int, array: Any, data_type: AtomicType) -> None:
        array = array.cast(pa.decimal128(data_type.precision, data_type.scale))
        words = np.frombuffer(array.buffers()[1], np.uint8).reshape(-1, 16)[array.offset : array.offset + len(array)]
        valid = np.asarray(array.is_valid())
        if data_type.precision <= COMPACT_DECIMAL_DIGITS:
            low = np.ascontiguousarray(words[:, :8]).view("<u8").reshape(-1)
            self._slots[:, i] = np.where(valid, low, 0)
            return
        digits, lengths = _minimal_big_endian(words)
        lengths = np.where(valid, lengths, 0)
        offsets = self._reserve(i, lengths, np.full(len(array), BIG_DECIMAL_BYTES, np.int64))
        starts = np.arange(len(array), dtype=np.int64) * 16 + 16 - lengths
        self._copies.append((offsets, starts, lengths, digits.reshape(-1)))

    def _add_timestamp(self, i: int, array: Any, data_type: AtomicType) -> None:
        factor = NANOS_PER_UNIT[array.type.unit]
        ticks = np.asarray(pc.fill_null(array.cast(pa.int64()), 0))
        if factor >= NANOS_PER_MILLI:
            millis, nanos = ticks * (factor // NANOS_PER_MILLI), np.zeros(len(ticks), np.int64)
        else:
            millis, rest = np.divmod(ticks, NANOS_PER_MILLI // factor)
            nanos = rest * factor
        if data_type.precision <= COMPACT_TIMESTAMP_DIGITS:
            if nanos.any():
                raise InvalidArgument(
                    f"a value has digits below the millisecond; the column's type is {sql(data_type)}"
                )
            self._slots[:, i] = millis.view(np.uint64)
            return
        offsets = self._reserve(i, nanos, np.full(len(ticks), 8, np.int64))
        starts = np.arange(len(ticks), dtype=np.int64) * 8
        lengths = np.where(np.asarray(array.is_valid()), 8, 0)
        self._copies.append((offsets, starts, lengths, millis.astype("<i8").view(np.uint8)))

    def _add_bytes(self, i: int, array: Any) -> None:
        array = array.cast(pa.large_binary())
        _, offset_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offset_buffer, np.int64)[array.offset : array.offset + len(array) + 1]
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
        valid = np.asarray(array.is_valid())
        lengths = np.where(valid, np.diff(offsets), 0)
        inline = lengths <= INLINE_BYTES
        mark = (lengths | 0x80).astype(np.uint64) << np.uint64(56)
        self._slots[:, i] = np.where(inline & valid, mark, 0)
        targets = self._reserve(i, lengths, np.where(inline, 0, (lengths + 7) // 8 * 8))
        in_slot = self._null_area + SLOT_BYTES * i
        self._copies.append((np.where(inline, in_slot, targets), offsets[:-1], lengths, data))


def _fixed_slots(array: Any, root: str) -> Array:
    arrow_type, unsigned = _INTEGERS[root]
    if root == "DATE" and not pa.types.is_integer(array.type):
        array = array.cast(pa.date32())
    if root == "TIME" and not pa.types.is_integer(array.type):
        array = array.cast(pa.time32("ms"))
    numbers = np.asarray(pc.fill_null(array.cast(arrow_type), 0))
    return np.ascontiguousarray(numbers).view(unsigned).astype(np.uint64)


def _minimal_big_endian(words: Array) -> tuple[Array, Array]:
    """Shortest two's complement of 16-byte little-endian numbers: (big-endian bytes, length of the significant end)."""
    digits = np.ascontiguousarray(words[:, ::-1])
    sign = np.where(digits[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    same = digits == sign
    leading = np.where(same.all(axis=1), 16, np.argmin(same, axis=1))
    first = digits[np.arange(len(digits)), np.minimum(leading, 15)]
    # The top bit of the kept bytes must be the sign; otherwise one more byte with the sign is kept.
    needs_sign = (leading == 16) | ((first >= 0x80) != (sign[:, 0] == 0xFF))
    return digits, (16 - leading + needs_sign).astype(np.int64)


def _copy_pieces(out: Array, targets: Array, data: Array, starts: Array, lengths: Array) -> None:
    """out[target : target + length] = data[start : start + length], for every piece."""
    kept = lengths > 0
    targets, starts, lengths = targets[kept], starts[kept], lengths[kept]
    if not len(lengths):
        return
    within = np.arange(int(lengths.sum()), dtype=np.int64)
    ends = np.cumsum(lengths)
    within -= np.repeat(ends - lengths, lengths)
    out[np.repeat(targets, lengths) + within] = data[np.repeat(starts, lengths) + within]
