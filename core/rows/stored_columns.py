"""Decodes a field of many stored BinaryRows at once into an Arrow array, and prints values like Java's objects.

Owns: `StoredRows`, `object_texts`. Must not know: what the rows are, manifests. Source: format/binary-row §1, §3.
Invariant: `StoredRows(rows).column(i, t)` has the values that `decode_row` gives for field i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import TableCorrupt
from ..typed import Array
from .arrow import to_arrow
from .binary.binary_row import (
    COMPACT_DECIMAL_DIGITS,
    COMPACT_TIMESTAMP_DIGITS,
    INLINE_BYTES,
    PREFIX_BYTES,
    SLOT_BYTES,
    decode_field,
    null_area_bytes,
)
from .java_text import float_text, timestamp_iso
from .types import STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, sql
from .values import NANOS_PER_SECOND, NANOS_PER_UNIT, root_of, to_arrow_array

_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64, "DATE": 32, "TIME": 32}
_PADDING = bytes(2 * SLOT_BYTES)
_HEADER_BITS = 8
_MILLIS_PER_DAY = 86_400_000
_FIRST_SECOND, _END_SECOND = -62_135_596_800, 253_402_300_800


class StoredRows:
    """Stored rows with `arity` fields each, with the field count in front, as manifests hold them. Raises TableCorrupt.

    >>> from .binary.binary_row import encode_row
    >>> kinds = [AtomicType("INT"), AtomicType("VARCHAR")]
    >>> rows = StoredRows(pa.array([encode_row(v, kinds) for v in ([1, "a"], [None, "longer text"])], pa.binary()), 2)
    >>> rows.column(0, kinds[0]).to_pylist(), rows.column(1, kinds[1]).to_pylist()
    ([1, None], ['a', 'longer text'])
    """

    def __init__(self, rows: pa.BinaryArray, arity: int, where: str = "row") -> None:
        self._rows, self._arity, self._where = rows, arity, where
        _, offsets, data = rows.buffers()
        ends = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + len(rows) + 1].astype(np.int64)
        whole = (b"" if data is None else data.to_pybytes()) + _PADDING
        self._bytes = np.frombuffer(whole, np.uint8)
        self._words = np.ndarray((len(whole) - SLOT_BYTES + 1,), "<u8", whole, strides=(1,))
        self._fields = null_area_bytes(arity)
        self._begins, self._lengths = ends[:-1] + PREFIX_BYTES, np.diff(ends) - PREFIX_BYTES
        prefix = np.uint64(int.from_bytes(arity.to_bytes(PREFIX_BYTES, "big"), "little"))
        first = self._words[ends[:-1]] & np.uint64((1 << 8 * PREFIX_BYTES) - 1)
        if (self._lengths < self._fields + SLOT_BYTES * arity).any() or (first != prefix).any():
            raise TableCorrupt(f"{where}: a row does not have {arity} fields")

    def column(self, index: int, data_type: DataType) -> pa.Array:
        root, kind = root_of(data_type), data_type
        if root in _BITS or root in ("BOOLEAN", "FLOAT", "DOUBLE"):
            return self._numbers(index, root).cast(to_arrow(kind))
        if isinstance(kind, AtomicType) and root == "DECIMAL" and kind.precision <= COMPACT_DECIMAL_DIGITS:
            return self._decimals(index, kind)
        if isinstance(kind, AtomicType) and root in TIMESTAMP_ROOTS and kind.precision <= COMPACT_TIMESTAMP_DIGITS:
            return pa.array(self._slots(index).view(np.int64), mask=self._is_null(index)).cast(to_arrow(kind))
        if root in STRING_ROOTS:
            return self._texts(index, kind)
        values = [decode_field(r, index, self._arity, kind, self._where) for r in self._rows.to_pylist()]
        return to_arrow_array(values, kind, to_arrow(kind))

    def _slots(self, index: int) -> Array:
        slots: Array = self._words[self._begins + self._fields + SLOT_BYTES * index]
        return slots

    def _is_null(self, index: int) -> Array:
        bit = _HEADER_BITS + index
        null: Array = (self._bytes[self._begins + (bit >> 3)] >> np.uint8(bit & 7) & 1).astype(bool)
        return null

    def _numbers(self, index: int, root: str) -> pa.Array:
        slots, null = self._slots(index), self._is_null(index)
        if root == "BOOLEAN":
            return pa.array(slots & np.uint64(0xFF) != 0, mask=null)
        if root == "FLOAT":
            return pa.array(slots.astype(np.uint32).view(np.float32), mask=null)
        if root == "DOUBLE":
            return pa.array(slots.view(np.float64), mask=null)
        unused = np.int64(64 - _BITS[root])
        values = (slots.view(np.int64) << unused) >> unused
        if root == "TIME":
            if ((values < 0) | (values >= _MILLIS_PER_DAY))[~null].any():
                raise TableCorrupt(f"{self._where}: a value is not a valid TIME")
            return pa.array(values.astype(np.int32), mask=null)
        return pa.array(values.astype(np.int32) if root == "DATE" else values, mask=null)

    def _decimals(self, index: int, kind: AtomicType) -> pa.Array:
        low, null = self._slots(index).view(np.int64), self._is_null(index)
        pairs = np.empty((len(low), 2), np.int64)
        pairs[:, 0], pairs[:, 1] = low, low >> np.int64(63)
        bits = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes())
        return pa.Array.from_buffers(to_arrow(kind), len(low), [bits, pa.py_buffer(pairs.tobytes())])

    def _texts(self, index: int, kind: DataType) -> pa.Array:
        at, null = self._begins + self._fields + SLOT_BYTES * index, self._is_null(index)
        slots = self._slots(index)
        inline = slots >> np.uint64(63) == 1
        size = np.where(inline, slots >> np.uint64(56) & np.uint64(0x7F), slots & np.uint64(0xFFFFFFFF))
        sizes = np.where(null, 0, size.astype(np.int64))
        offset = np.where(inline | null, 0, (slots >> np.uint64(32)).astype(np.int64))
        if ((offset + sizes > self._lengths) | (inline & (sizes > INLINE_BYTES))).any():
            raise TableCorrupt(f"{self._where}: a value is not a valid {sql(kind)}: it ends behind its row")
        begins = np.where(inline, at, self._begins + offset)
        offsets = np.zeros(len(sizes) + 1, np.int32)
        np.cumsum(sizes, out=offsets[1:])
        places = np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(begins - offsets[:-1], sizes)
        bits = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes())
        joined = pa.py_buffer(self._bytes[places].tobytes())
        found = pa.Array.from_buffers(pa.string(), len(sizes), [bits, pa.py_buffer(offsets.tobytes()), joined])
        try:
            found.validate(full=True)
        except pa.ArrowInvalid as error:
            raise TableCorrupt(f"{self._where}: a value is not a valid {sql(kind)}: {error}") from error
        return found


def object_texts(array: Any, data_type: DataType) -> pa.Array:
    """Values as Java prints the objects that hold them, such as a DATE as the number of its day. Bytes are hexadecimal digits.

    >>> object_texts(pa.array([18262], pa.date32()), AtomicType("DATE")).to_pylist()
    ['18262']
    """
    root = root_of(data_type)
    if root == "DATE" or root == "TIME":
        return array.cast(pa.int32()).cast(pa.string())
    if root in ("FLOAT", "DOUBLE"):
        return _floats(array, single=root == "FLOAT")
    if root == "DECIMAL":
        return _each(array, "{:f}".format)
    if root in TIMESTAMP_ROOTS:
        return _times(array)
    if pa.types.is_binary(array.type):
        return _each(array, lambda value: f"0x{value.hex()}")
    if root:
        return array.cast(pa.string())
    return _each(array, str)


def _floats(array: Any, single: bool) -> pa.Array:
    """Print each pattern of bits once: a dictionary of numbers would hold 0.0 and -0.0 as one."""
    kind, bits = (np.float32, np.int32) if single else (np.float64, np.int64)
    numbers = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False).astype(kind)
    patterns = pa.array(numbers.view(bits), mask=np.asarray(array.is_null()))

    def text(pattern: int) -> str:
        return float_text(float(np.array([pattern], bits).view(kind)[0]), single=single)

    return _each(patterns, text)


def _times(array: Any) -> pa.Array:
    """As `timestamp_iso` prints them. Years of four digits are printed by Arrow, and then lose what Java leaves out."""
    counts, per_second = array.cast(pa.int64()), NANOS_PER_SECOND // NANOS_PER_UNIT[array.type.unit]
    bounds = pc.min_max(counts)
    if bounds["min"].is_valid and not (
        _FIRST_SECOND * per_second <= bounds["min"].as_py() and bounds["max"].as_py() < _END_SECOND * per_second
    ):
        nanos = NANOS_PER_UNIT[array.type.unit]
        return _each(counts, lambda value: timestamp_iso(value * nanos))
    texts = counts.cast(pa.timestamp(array.type.unit)).cast(pa.string())
    for pattern, left in (
        (" ", "T"),
        (r"000$", ""),
        (r"(\.\d+)000$", r"\1"),
        (r"\.$|\.000$", ""),
        (r"^(.{16}):00$", r"\1"),
    ):
        texts = pc.replace_substring_regex(texts, pattern, left)
    return texts


def _each(array: Any, text: Any) -> pa.Array:
    if pa.types.is_nested(array.type):
        return pa.array([None if v is None else text(v) for v in array.to_pylist()], pa.string())
    found = pc.dictionary_encode(array)
    texts = pa.array([text(v) for v in found.dictionary.to_pylist()], pa.string())
    return texts.take(found.indices)
