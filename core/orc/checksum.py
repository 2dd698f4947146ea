"""A checksum over a whole ORC file, since ORC has none of its own.

Owns: adding it to a finished file, and finding it. Must not know: stores, values. Source: ORC's own specification (user
metadata in the footer); format/data-files §3. The checksum is an item of the footer's user metadata, which other
readers ignore. It is the CRC-32 of all bytes before the footer, and of the decompressed footer without the item.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from .blocks import framed, plain
from .protobuf import Message, encode_message, fields_of, number_of
from .tail import postscript_of

KEY = b"lakelatch.crc32"
_FOOTER_LENGTH, _USER_METADATA, _NAME, _VALUE, _BYTES = 1, 5, 1, 2, 2
_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Checksum:
    """What the footer states (`said`), where the footer starts, and the decompressed footer without the checksum."""

    said: int
    footer_start: int
    footer: bytes

    def matches(self, before: int) -> bool:
        return zlib.crc32(self.footer, before) == self.said


def with_checksum(end: bytes, before: int = 0) -> bytes:
    """The end of an ORC file (`end` holds at least the footer and the postscript), with the checksum of the file in its
    footer. `before` is the CRC-32 of the bytes before `end`. Raises ValueError.
    """
    script, start, script_start, footer = _footer_of(end)
    made = footer + _item(zlib.crc32(footer, zlib.crc32(end[:start], before)))
    packed = framed(made, number_of(script, 2), number_of(script, 3, 262_144))
    sizes = {_FOOTER_LENGTH: len(packed)}
    told = encode_message((key, sizes.get(key >> 3, value)) for key, value in fields_of(end[script_start:-1]))
    return end[:start] + packed + told + bytes((len(told),))


def checksum_in(tail: bytes, file_size: int) -> Checksum | None:
    """The checksum that the tail (at least the last `tail_size` bytes) states; None if it states none. Raises ValueError."""
    _, start, _, footer = _footer_of(tail)
    size = len(_item(0))
    if len(footer) < size or footer[-size:-_DIGITS] != _item(0)[:-_DIGITS]:
        return None
    return Checksum(int(footer[-_DIGITS:], 16), file_size - len(tail) + start, footer[:-size])


def _footer_of(tail: bytes) -> tuple[Message, int, int, bytes]:
    """The postscript, the offsets of the stored footer's begin and end, and the footer, decompressed."""
    script = postscript_of(tail)
    end = len(tail) - 1 - tail[-1]
    start = end - number_of(script, _FOOTER_LENGTH)
    if not 0 <= start < end:
        raise ValueError(f"a footer of {end - start} bytes")
    return script, start, end, plain(tail[start:end], number_of(script, 2), number_of(script, 3, 262_144))


def _item(checksum: int) -> bytes:
    item = encode_message([(_NAME << 3 | _BYTES, KEY), (_VALUE << 3 | _BYTES, b"%08x" % checksum)])
    return encode_message([(_USER_METADATA << 3 | _BYTES, item)])
