"""Decodes and encodes the wire format of Protocol Buffers, which ORC files use for their metadata.

Owns: the encoding of fields and the forms of their values. Must not know: the meaning of fields. Source: the encoding's own
specification.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Message = dict[int, list[int | bytes]]
"""Field number -> values in order: numbers, or bytes (text, packed numbers, nested messages)."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def decode_message(data: bytes) -> Message:
    """The fields of a message.

    >>> decode_message(bytes.fromhex("089601120161"))
    {1: [150], 2: [b'a']}
    """
    fields: Message = {}
    for key, value in fields_of(data):
        fields.setdefault(key >> 3, []).append(value)
    return fields


def fields_of(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields in order: eight times the number plus the wire type, and the value."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        wire = key & 7
        if key < 8:
            raise ValueError("a field has no number")
        value: int | bytes
        if wire == _VARINT:
            value, at = varint(data, at)
        elif wire in (_FIXED64, _FIXED32, _BYTES):
            size, at = varint(data, at) if wire == _BYTES else ({_FIXED64: 8, _FIXED32: 4}[wire], at)
            if at + size > len(data):
                raise ValueError("a message is cut off")
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"unknown wire type {wire}")
        yield key, value


def encode_message(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """The bytes of a message with these fields, in the form of `fields_of`.

    >>> encode_message(fields_of(bytes.fromhex("089601120161"))).hex()
    '089601120161'
    """
    out = bytearray()
    for key, value in fields:
        out += _varint_bytes(key)
        if isinstance(value, int):
            out += _varint_bytes(value)
        else:
            out += (_varint_bytes(len(value)) if key & 7 == _BYTES else b"") + value
    return bytes(out)


def _varint_bytes(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def numbers(values: list[int | bytes]) -> list[int]:
    """The values of a repeated number, packed or not.

    >>> numbers([1, bytes.fromhex("029601")])
    [1, 2, 150]
    """
    found = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = varint(value, at)
            found.append(number)
    return found


def number_of(message: Message, field: int, default: int = 0) -> int:
    """The last number in a field.

    >>> number_of({1: [7]}, 1)
    7
    """
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is not a number")
    return value


def message_of(value: int | bytes) -> Message:
    return decode_message(bytes_of(value))


def bytes_of(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a number stands instead of bytes")
    return value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number with seven bits per byte, lowest bits first, and the offset of its end.

    >>> varint(bytes.fromhex("9601"), 0)
    (150, 2)
    """
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[at]
        number |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return number, at
        shift += 7
