"""Reassemble shredded VARIANTs, whose parts are stored in separate columns.

Owns: `assembled`, and as much of the VARIANT encoding as it needs. Must not know: files, fields, why a column is shredded.
Source: Parquet's VariantEncoding and VariantShredding; format/data-files §3.

Invariants: A reassembled value equals the value before shredding, with numbers and texts in their shortest form. Names that the
metadata lacks are added after its own names, so that parts that were not shredded remain valid. Damaged bytes raise ValueError.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_kinds = pa.types
_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE = b"\x00", b"\x04", b"\x08"
_INTEGERS = ((3, 1), (4, 2), (5, 4), (6, 8))
"""The number of each type, and the length of its values in bytes."""
_SHORTEST_LONG_TEXT = 64
_VERSION = 1


class Names:
    """The metadata of one value: a header byte (version, size of offsets), the number of names, their offsets, and the names."""

    def __init__(self, metadata: bytes) -> None:
        self._metadata = metadata
        if not metadata or metadata[0] & 0x0F != _VERSION:
            raise ValueError("metadata of an unknown version")
        width = (metadata[0] >> 6) + 1
        count = _number(metadata, 1, width)
        begin = 1 + width * (count + 2)
        offsets = [_number(metadata, 1 + width * (1 + i), width) for i in range(count + 1)]
        self.texts = [_cut(metadata, begin + a, begin + b) for a, b in pairwise(offsets)]
        self._ids = {text: number for number, text in enumerate(self.texts)}

    def id_of(self, name: bytes) -> int:
        if name not in self._ids:
            self._ids[name] = len(self.texts)
            self.texts.append(name)
        return self._ids[name]

    def metadata(self) -> bytes:
        """The original metadata with the added names."""
        if len(self.texts) == _number(self._metadata, 1, (self._metadata[0] >> 6) + 1):
            return self._metadata
        offsets = _offsets(self.texts)
        width = _width(max(offsets[-1], len(self.texts)))
        head = bytes([_VERSION | (width - 1) << 6]) + len(self.texts).to_bytes(width, "little")
        return head + b"".join(o.to_bytes(width, "little") for o in offsets) + b"".join(self.texts)


def assembled(array: pa.Array) -> tuple[list[bytes | None], list[bytes | None]]:
    """The values and metadata of a column of structs of `metadata` and of `value`, `typed_value` or both; None for a null.

    `ValueError`: the bytes are not a VARIANT, or the parts contradict each other.
    """
    valid = pc.is_valid(array).to_pylist()
    named = lru_cache(maxsize=None)(Names)  # most values have the same names
    names = [named(m) if ok and m is not None else None for ok, m in zip(valid, _part(array, "metadata"), strict=True)]
    if any(ok and of is None for ok, of in zip(valid, names, strict=True)):
        raise ValueError("a value without metadata")
    found = [
        _NULL if of is not None and value is None else value
        for of, value in zip(names, _values(array, names), strict=True)
    ]
    return (
        [value if of is not None else None for of, value in zip(names, found, strict=True)],
        [None if of is None else of.metadata() for of in names],
    )


def _part(array: pa.Array, name: str) -> list[Any]:
    index = array.type.get_field_index(name)
    return [None] * len(array) if index < 0 else array.flatten()[index].to_pylist()


def _values(array: pa.Array, names: Sequence[Names | None]) -> list[bytes | None]:
    """The values of a group of `value` and `typed_value`; None if both are missing."""
    rest = _part(array, "value")
    index = array.type.get_field_index("typed_value")
    if index < 0:
        return rest
    typed = array.flatten()[index]
    if _kinds.is_struct(typed.type):
        return _objects(typed, rest, names)
    made = _lists(typed, names) if _kinds.is_list(typed.type) else _scalars(typed)
    if any(value is not None and other is not None for value, other in zip(made, rest, strict=True)):
        raise ValueError("a part is stored twice, typed and untyped")
    return [other if value is None else value for value, other in zip(made, rest, strict=True)]


def _objects(typed: pa.Array, rest: list[bytes | None], names: Sequence[Names | None]) -> list[bytes | None]:
    fields = [field.name.encode() for field in typed.type]
    parts = [_values(part, names) for part in typed.flatten()]
    made: list[bytes | None] = []
    rows = zip(pc.is_valid(typed).to_pylist(), rest, names, zip(*parts, strict=True), strict=True)
    for is_object, other, of, values in rows:
        if not is_object or of is None:
            made.append(other)
            continue
        members = {name: value for name, value in zip(fields, values, strict=True) if value is not None}
        for name, value in _members(other, of) if other is not None else ():
            if name in members:
                raise ValueError(f"field {name!r} is stored twice, shredded and not")
            members[name] = value
        made.append(_object(members, of))
    return made


def _lists(typed: pa.Array, names: Sequence[Names | None]) -> list[bytes | None]:
    counts = pc.list_value_length(typed).to_pylist()
    owners = [of for of, count in zip(names, counts, strict=True) for _ in range(count or 0)]
    items = iter(_values(typed.flatten(), owners))
    return [None if n is None else _array([next(items) or _NULL for _ in range(n)]) for n in counts]


# ------------------------------------------------------------------------------------------------------------ encoding


def _scalars(typed: pa.Array) -> list[bytes | None]:
    kind = typed.type
    if _kinds.is_timestamp(kind):
        fine = kind.unit == "ns"
        number = {(True, False): 12, (False, False): 13, (True, True): 18, (False, True): 19}[bool(kind.tz), fine]
        ticks = typed.cast(pa.timestamp("ns" if fine else "us", kind.tz)).cast(pa.int64())
        return [None if v is None else _primitive(number, struct.pack("<q", v)) for v in ticks.to_pylist()]
    if _kinds.is_date(kind):
        return [None if v is None else _primitive(11, struct.pack("<i", v)) for v in typed.cast(pa.int32()).to_pylist()]
    if _kinds.is_time(kind):
        ticks = typed.cast(pa.time64("us")).cast(pa.int64())
        return [None if v is None else _primitive(17, struct.pack("<q", v)) for v in ticks.to_pylist()]
    for is_kind, number, form in ((_kinds.is_float32, 14, "<f"), (_kinds.is_float64, 7, "<d")):
        if is_kind(kind):
            return [None if v is None else _primitive(number, struct.pack(form, v)) for v in typed.to_pylist()]
    return [None if v is None else _scalar(v) for v in typed.to_pylist()]


def _scalar(value: Any) -> bytes:
    match value:
        case bool():
            return _TRUE if value else _FALSE
        case int():
            bits = (value if value >= 0 else ~value).bit_length()
            number, size = next(one for one in _INTEGERS if bits < 8 * one[1])
            return _primitive(number, value.to_bytes(size, "little", signed=True))
        case str():
            text = value.encode()
            if len(text) < _SHORTEST_LONG_TEXT:
                return bytes([len(text) << 2 | _SHORT_TEXT]) + text
            return _primitive(16, len(text).to_bytes(4, "little") + text)
        case bytes():
            return _primitive(15, len(value).to_bytes(4, "little") + value)
        case Decimal():
            return _decimal(value)
    raise ValueError(f"a typed value of {type(value).__name__}")


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
    number, size = next(one for limit, one in ((9, (8, 4)), (18, (9, 8)), (38, (10, 16))) if abs(unscaled) < 10**limit)
    return _primitive(number, bytes([-exponent]) + unscaled.to_bytes(size, "little", signed=True))


def _primitive(number: int, body: bytes) -> bytes:
    return bytes([number << 2 | _PRIMITIVE]) + body


def _object(members: dict[bytes, bytes], names: Names) -> bytes:
    ordered = sorted(members.items())
    ids = [names.id_of(name) for name, _ in ordered]
    offsets = _offsets([value for _, value in ordered])
    of_id, of_offset = _width(max(ids, default=0)), _width(offsets[-1])
    is_large = len(ordered) > 0xFF
    head = bytes([(is_large << 4 | of_id - 1 << 2 | of_offset - 1) << 2 | _OBJECT]) + _count(len(ordered), is_large)
    return (
        head
        + b"".join(i.to_bytes(of_id, "little") for i in ids)
        + b"".join(o.to_bytes(of_offset, "little") for o in offsets)
        + b"".join(value for _, value in ordered)
    )


def _array(items: list[bytes]) -> bytes:
    offsets = _offsets(items)
    width, is_large = _width(offsets[-1]), len(items) > 0xFF
    head = bytes([(is_large << 2 | width - 1) << 2 | _ARRAY]) + _count(len(items), is_large)
    return head + b"".join(o.to_bytes(width, "little") for o in offsets) + b"".join(items)


def _count(count: int, is_large: bool) -> bytes:
    return count.to_bytes(4 if is_large else 1, "little")


def _offsets(parts: Sequence[bytes]) -> list[int]:
    found = [0]
    for part in parts:
        found.append(found[-1] + len(part))
    return found


def _width(most: int) -> int:
    return max(1, (most.bit_length() + 7) // 8)


# ------------------------------------------------------------------------------------------------------------ decoding


def _members(value: bytes, names: Names) -> Iterator[tuple[bytes, bytes]]:
    """The names and values of an object, whose values may be stored in another order than the names."""
    if not value or value[0] & 3 != _OBJECT:
        raise ValueError("the unshredded part of a shredded object is not an object")
    head = value[0] >> 2
    of_offset, of_id, counted = (head & 3) + 1, (head >> 2 & 3) + 1, 4 if head & 16 else 1
    count = _number(value, 1, counted)
    ids_at = 1 + counted
    offsets_at = ids_at + count * of_id
    begin = offsets_at + (count + 1) * of_offset
    offsets = [_number(value, offsets_at + i * of_offset, of_offset) for i in range(count + 1)]
    following = dict(pairwise(sorted(set(offsets))))
    for i in range(count):
        number = _number(value, ids_at + i * of_id, of_id)
        if number >= len(names.texts) or offsets[i] not in following:
            raise ValueError("an object has a field whose name or value is missing")
        yield names.texts[number], _cut(value, begin + offsets[i], begin + following[offsets[i]])


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_cut(data, at, at + width), "little")


def _cut(data: bytes, start: int, end: int) -> bytes:
    if not start <= end <= len(data):
        raise ValueError("a VARIANT is cut off")
    return data[start:end]
