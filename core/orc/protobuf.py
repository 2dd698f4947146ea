"""Protocol Buffers' wire format: what ORC files describe themselves in.

Owns: bytes to fields, and what a field may hold. Must not know: what fields mean. Source: the encoding's own specification.
"""

from __future__ import annotations

Message = dict[int, list[int | bytes]]
"""Field number to its values in their order: numbers, or bytes (text, packed numbers, messages inside)."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def decode_message(data: bytes) -> Message:
    """The fields of a message.

    Raises:
        ValueError: cut off, or a wire type that is none.

    >>> decode_message(bytes.fromhex("089601120161"))
    {1: [150], 2: [b'a']}
    """
    fields: Message = {}
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
        fields.setdefault(key >> 3, []).append(value)
    return fields


def numbers(values: list[int | bytes]) -> list[int]:
    """A repeated number, packed or not.

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
    """A field that holds one number, the last where there are more.

    Raises:
        ValueError: it holds no number.

    >>> number_of({1: [7]}, 1)
    7
    """
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def message_of(value: int | bytes) -> Message:
    """The message inside a field.

    Raises:
        ValueError: damaged, or no message.
    """
    return decode_message(bytes_of(value))


def bytes_of(value: int | bytes) -> bytes:
    """The bytes that a field holds.

    Raises:
        ValueError: it is a number.
    """
    if not isinstance(value, bytes):
        raise ValueError("a message is a number")
    return value


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends.

    Raises:
        ValueError: cut off, or longer than 64 bits take.

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
