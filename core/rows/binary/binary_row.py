"""BinaryRow: the binary form of a row, which manifests, keys and bucket hashes use.

Owns: encoding and decoding of rows of atomic values. Must not know: the columns of a row, Arrow, files.
Source: format/binary-row §1. Invariants: Equal values give equal bytes, because partitions are compared by their bytes.
`decode_row(encode_row(v, t), t) == v`. Offsets that point outside the row raise `TableCorrupt`.

Types with parts, VARIANT, BLOB and GEOMETRY are not decoded here: their value is null or the bytes in the row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

from ...errors import InvalidArgument, TableCorrupt
from ..dates import date_to_days, days_to_date
from ..types import STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, sql
from ..values import NANOS_PER_MILLI, decimal_of, decimal_unscaled, millis_to_time, root_of, time_to_millis

PREFIX_BYTES = 4
SLOT_BYTES = 8
COMPACT_DECIMAL_DIGITS = 18
COMPACT_TIMESTAMP_DIGITS = 3
INLINE_BYTES = 7
"""Text and bytes up to this length are stored in the slot itself."""
BIG_DECIMAL_BYTES = 16

_INLINE_MARK = 0x80
_ARITY = struct.Struct(">i")
_PAIR = struct.Struct("<II")
_LONG = struct.Struct("<q")
_FIXED = {
    "TINYINT": struct.Struct("<b"),
    "SMALLINT": struct.Struct("<h"),
    "INT": struct.Struct("<i"),
    "BIGINT": _LONG,
    "FLOAT": struct.Struct("<f"),
    "DOUBLE": struct.Struct("<d"),
    "DATE": struct.Struct("<i"),
    "TIME": struct.Struct("<i"),
}

_Reader = Callable[[bytes, int], Any]


def null_area_bytes(arity: int) -> int:
    """The size of the header byte and the null bits.

    >>> null_area_bytes(56), null_area_bytes(57)
    (8, 16)
    """
    return (arity + 63 + 8) // 64 * 8


def reserved_bytes(data_type: DataType) -> int:
    """The bytes that a value of the type takes in the variable part even if it is null: 16, 8 or 0."""
    if not isinstance(data_type, AtomicType):
        return 0
    if data_type.root == "DECIMAL" and data_type.precision > COMPACT_DECIMAL_DIGITS:
        return BIG_DECIMAL_BYTES
    if data_type.root in TIMESTAMP_ROOTS and data_type.precision > COMPACT_TIMESTAMP_DIGITS:
        return 8
    return 0


# ----------------------------------------------------------------------------------------------------------- encoding


def encode_row(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """A row for storage, of values as in the module `values`: the field count in four bytes, then `row_bytes`. Raises
    InvalidArgument.

    >>> encode_row([10], [AtomicType("INT")]).hex()
    '0000000100000000000000000a00000000000000'
    """
    return _ARITY.pack(len(types)) + row_bytes(values, types)


def row_bytes(values: Sequence[Any], types: Sequence[DataType]) -> bytes:
    """Encode a row without the field count, as bucket hashes need it (see `encode_row`)."""
    if len(values) != len(types):
        raise InvalidArgument(f"{len(values)} values for a row of {len(types)} fields")
    null_area = null_area_bytes(len(types))
    row = bytearray(null_area + SLOT_BYTES * len(types))
    for i, (value, data_type) in enumerate(zip(values, types, strict=True)):
        slot = null_area + SLOT_BYTES * i
        if value is None:
            _write_null(row, i, slot, data_type)
            continue
        try:
            _write_value(row, slot, value, data_type)
        except (struct.error, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidArgument(f"{value!r} is not a valid {sql(data_type)}: {error}") from error
    return bytes(row)


def _write_null(row: bytearray, i: int, slot: int, data_type: DataType) -> None:
    row[(8 + i) >> 3] |= 1 << ((8 + i) & 7)
    reserved = reserved_bytes(data_type)
    if reserved:
        # The format reserves space for a later update in place; bytes and hashes depend on it.
        _PAIR.pack_into(row, slot, 0, len(row))
        row += bytes(reserved)


def _write_value(row: bytearray, slot: int, value: Any, data_type: DataType) -> None:
    root = root_of(data_type)
    if root == "BOOLEAN":
        row[slot] = (False, True).index(value)
    elif root == "DATE":
        _FIXED[root].pack_into(row, slot, date_to_days(value))
    elif root == "TIME":
        _FIXED[root].pack_into(row, slot, time_to_millis(value))
    elif root in _FIXED:
        _FIXED[root].pack_into(row, slot, value)
    elif isinstance(data_type, AtomicType) and root == "DECIMAL":
        _write_decimal(row, slot, value, data_type)
    elif isinstance(data_type, AtomicType) and root in TIMESTAMP_ROOTS:
        _write_timestamp(row, slot, value, data_type.precision)
    else:
        inline = isinstance(data_type, AtomicType) and root != "VARIANT"
        _write_bytes(row, slot, value.encode() if root in STRING_ROOTS else bytes(memoryview(value)), inline)


def _write_decimal(row: bytearray, slot: int, value: Decimal, data_type: AtomicType) -> None:
    unscaled = decimal_unscaled(value, data_type.scale)
    if abs(unscaled) >= 10**data_type.precision:
        raise ValueError("too many digits")
    if data_type.precision <= COMPACT_DECIMAL_DIGITS:
        _LONG.pack_into(row, slot, unscaled)
        return
    # The shortest big-endian two's complement, like Java's BigInteger.toByteArray.
    magnitude = unscaled if unscaled >= 0 else ~unscaled
    data = unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    _PAIR.pack_into(row, slot, len(data), len(row))
    row += data.ljust(BIG_DECIMAL_BYTES, b"\0")


def _write_timestamp(row: bytearray, slot: int, nanos: int, precision: int) -> None:
    millis, nano_of_milli = divmod(nanos, NANOS_PER_MILLI)
    if precision <= COMPACT_TIMESTAMP_DIGITS:
        if nano_of_milli:
            raise ValueError("it has digits below the millisecond")
        _LONG.pack_into(row, slot, millis)
        return
    _PAIR.pack_into(row, slot, nano_of_milli, len(row))
    row += _LONG.pack(millis)


def _write_bytes(row: bytearray, slot: int, data: bytes, inline: bool) -> None:
    if inline and len(data) <= INLINE_BYTES:
        row[slot : slot + len(data)] = data
        row[slot + 7] = _INLINE_MARK | len(data)
        return
    _PAIR.pack_into(row, slot, len(data), len(row))
    row += data + bytes(-len(data) % 8)


# ----------------------------------------------------------------------------------------------------------- decoding


def decode_row(data: bytes, types: Sequence[DataType], where: str = "row") -> tuple[Any, ...]:
    """The values of a stored row.

    Raises:
        TableCorrupt: The field count differs, the row is truncated, an offset points outside, or a value is impossible.

    >>> decode_row(bytes.fromhex("00000001" "0000000000000000" "3230323500000084"), [AtomicType("VARCHAR")])
    ('2025',)
    """
    arity = len(types)
    check_arity(data, arity, where)
    return tuple(decode_field(data, i, arity, data_type, where) for i, data_type in enumerate(types))


def decode_field(data: bytes, index: int, arity: int, data_type: DataType, where: str = "row") -> Any:
    """One value of a stored row with `arity` fields, without decoding the others. Raises as `decode_row`."""
    check_arity(data, arity, where)
    if data[PREFIX_BYTES + ((8 + index) >> 3)] >> ((8 + index) & 7) & 1:
        return None
    try:
        return _reader(data_type)(data, PREFIX_BYTES + null_area_bytes(arity) + SLOT_BYTES * index)
    except (ValueError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise TableCorrupt(f"{where}: a value is not a valid {sql(data_type)}: {error}") from error


def row_arity(data: bytes, where: str = "row") -> int:
    if len(data) < PREFIX_BYTES:
        raise TableCorrupt(f"{where}: a row of {len(data)} bytes has no field count")
    return int(_ARITY.unpack_from(data)[0])


def check_arity(data: bytes, arity: int, where: str) -> None:
    found = row_arity(data, where)
    if found != arity:
        raise TableCorrupt(f"{where}: the row has {found} fields instead of {arity}")
    if len(data) < PREFIX_BYTES + null_area_bytes(arity) + SLOT_BYTES * arity:
        raise TableCorrupt(f"{where}: the row of {arity} fields is truncated after {len(data)} bytes")


@lru_cache(maxsize=1024)
def _reader(data_type: DataType) -> _Reader:
    root = root_of(data_type)
    if root == "BOOLEAN":
        return lambda data, slot: data[slot] != 0
    if root == "DATE":
        return lambda data, slot: days_to_date(_FIXED["DATE"].unpack_from(data, slot)[0])
    if root == "TIME":
        return lambda data, slot: millis_to_time(_FIXED["TIME"].unpack_from(data, slot)[0])
    if root in _FIXED:
        fixed = _FIXED[root]
        return lambda data, slot: fixed.unpack_from(data, slot)[0]
    if isinstance(data_type, AtomicType) and root == "DECIMAL":
        return _decimal_reader(data_type)
    if isinstance(data_type, AtomicType) and root in TIMESTAMP_ROOTS:
        return _timestamp_reader(data_type.precision)
    if root in STRING_ROOTS:
        return lambda data, slot: _variable(data, slot).decode()
    return _variable


def _decimal_reader(data_type: AtomicType) -> _Reader:
    scale, limit = data_type.scale, 10**data_type.precision

    def read_big(data: bytes, slot: int) -> Decimal:
        length, offset = _PAIR.unpack_from(data, slot)
        if not 0 < length <= BIG_DECIMAL_BYTES:
            raise ValueError(f"a number of {length} bytes")
        unscaled = int.from_bytes(_slice(data, offset, length), "big", signed=True)
        if abs(unscaled) >= limit:
            raise ValueError("too many digits")
        return decimal_of(unscaled, scale)

    if data_type.precision <= COMPACT_DECIMAL_DIGITS:  # Apache Paimon does not look at its digits: a sum may have more
        return lambda data, slot: decimal_of(_LONG.unpack_from(data, slot)[0], scale)
    return read_big


def _timestamp_reader(precision: int) -> _Reader:
    def read_wide(data: bytes, slot: int) -> int:
        nano_of_milli, offset = _PAIR.unpack_from(data, slot)
        if nano_of_milli >= NANOS_PER_MILLI:
            raise ValueError(f"{nano_of_milli} nanoseconds in a millisecond")
        return int(_LONG.unpack(_slice(data, offset, 8))[0]) * NANOS_PER_MILLI + int(nano_of_milli)

    if precision <= COMPACT_TIMESTAMP_DIGITS:
        return lambda data, slot: _LONG.unpack_from(data, slot)[0] * NANOS_PER_MILLI
    return read_wide


def _variable(data: bytes, slot: int) -> bytes:
    mark = data[slot + 7]
    if mark & _INLINE_MARK:
        length = mark & ~_INLINE_MARK
        if length > INLINE_BYTES:
            raise ValueError(f"{length} bytes in a slot for seven")
        return bytes(data[slot : slot + length])
    length, offset = _PAIR.unpack_from(data, slot)
    return _slice(data, offset, length)


def _slice(data: bytes, offset: int, length: int) -> bytes:
    start = PREFIX_BYTES + offset
    if start + length > len(data):
        raise ValueError(f"{length} bytes at offset {offset} exceed the row of {len(data) - PREFIX_BYTES} bytes")
    return bytes(data[start : start + length])
