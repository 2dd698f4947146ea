"""Thrift's compact protocol, in which Parquet footers are written.

Owns: decoding and encoding structs. Must not know: what the fields mean. Source: the protocol's own specification.
Invariants: `encode_struct(decode_struct(b)) == b` for all bytes that a Thrift library writes. Unknown fields are kept.
"""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE, _BYTE, _I16, I32, I64, _DOUBLE, _BINARY, LIST, _SET, _MAP, STRUCT = range(1, 13)

_MOST_DEEP = 64

Struct = dict[int, tuple[int, Any]]
"""Maps a field id to (type, value), in the order of the bytes. A list's value is (type of its elements, values)."""


def decode_struct(data: bytes) -> Struct:
    """The struct at the start of `data`; `ValueError` if it is cut off, or has a type that Parquet footers do not use."""
    return _Reader(data).struct()


def encode_struct(fields: Struct) -> bytes:
    """The bytes of a struct.

    >>> encode_struct(decode_struct(bytes([0x15, 0x0E, 0x00]))).hex()
    '150e00'
    """
    out = bytearray()
    _write_struct(out, fields)
    return bytes(out)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at, self._depth = data, 0, 0

    def struct(self) -> Struct:
        fields: Struct = {}
        field_id = 0
        while True:
            head = self._bytes(1)[0]
            if head == 0:
                return fields
            field_id = field_id + (head >> 4) if head >> 4 else self._zigzag()
            kind = head & 15
            fields[field_id] = (kind, kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind))

    def _value(self, kind: int) -> Any:
        self._depth += 1
        if self._depth > _MOST_DEEP:
            raise ValueError("a Thrift struct is nested too deeply")
        found = self._read(kind)
        self._depth -= 1
        return found

    def _read(self, kind: int) -> Any:
        if kind in (_I16, I32, I64):
            return self._zigzag()
        if kind == _BINARY:
            return self._bytes(self._varint())
        if kind in (LIST, _SET):
            head = self._bytes(1)[0]
            count = head >> 4 if head >> 4 < 15 else self._varint()
            return head & 15, [self._value(head & 15) for _ in range(count)]
        if kind == STRUCT:
            return self.struct()
        sizes = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
        if kind not in sizes:
            raise ValueError(f"unexpected Thrift type {kind}")
        return self._bytes(sizes[kind])

    def _varint(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._bytes(1)[0]
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a Thrift number has more than 64 bits")

    def _zigzag(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

    def _bytes(self, count: int) -> bytes:
        self._at += count
        if self._at > len(self._data):
            raise ValueError("a Thrift struct ends too early")
        return self._data[self._at - count : self._at]


def _write_struct(out: bytearray, fields: Struct) -> None:
    last = 0
    for field_id, (kind, value) in fields.items():
        if kind in (_TRUE, _FALSE):
            kind = _TRUE if value else _FALSE
        if 0 < field_id - last < 16:
            out.append((field_id - last) << 4 | kind)
        else:
            out.append(kind)
            _write_zigzag(out, field_id)
        last = field_id
        if kind not in (_TRUE, _FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (_I16, I32, I64):
        _write_zigzag(out, value)
    elif kind == _BINARY:
        _write_varint(out, len(value))
        out += value
    elif kind in (LIST, _SET):
        of, values = value
        out.append(min(len(values), 15) << 4 | of)
        if len(values) >= 15:
            _write_varint(out, len(values))
        for each in values:
            _write_value(out, of, each)
    elif kind == STRUCT:
        _write_struct(out, value)
    else:
        out += value


def _write_zigzag(out: bytearray, value: int) -> None:
    _write_varint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def _write_varint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
