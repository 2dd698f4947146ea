"""Parses the tail of an ORC file: the types of its columns, its stripes, and the time zone of a stripe's writer.

Owns: postscript, footer, and a stripe's time zone. Must not know: streams, values, stores. Source: ORC's own
specification. Invariant: A tail that passes does not abort the reader's process: liborc and Arrow abort on impossible
types instead of raising an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .blocks import plain
from .protobuf import Message, bytes_of, decode_message, message_of, number_of, numbers

MAP, DECIMAL = 11, 14
TIMES = (9, 18)
_LIST, _STRUCT, _UNION = 10, 12, 13
_LAST_KIND = 18
_MAX_DEPTH = 100
_MAGIC = b"ORC"


@dataclass(frozen=True, slots=True)
class Stripe:
    offset: int
    index_size: int
    data_size: int
    footer_size: int
    rows: int

    @property
    def footer_start(self) -> int:
        return self.offset + self.index_size + self.data_size

    @property
    def end(self) -> int:
        return self.footer_start + self.footer_size


class OrcColumn(NamedTuple):
    """The type of a column, and the name of the top-level column that it is or belongs to; empty for the root."""

    kind: int
    top: str


@dataclass(frozen=True, slots=True)
class OrcTail:
    """The metadata of an ORC file.

    Attributes:
        columns: by number, each before its parts; the first is the root.
        compression: 0 none, 1 zlib, 2 snappy, 3 LZO, 4 LZ4, 5 zstd.
        block_size: the maximum number of bytes in a decompressed block.
    """

    stripes: tuple[Stripe, ...]
    columns: tuple[OrcColumn, ...]
    compression: int
    block_size: int


def tail_size(last: bytes) -> int:
    """The bytes at the end of a file that `parse_tail` needs, from at least the last 256 bytes of the file."""
    script = postscript_of(last)
    return number_of(script, 1) + last[-1] + 1


def parse_tail(tail: bytes, file_size: int) -> OrcTail:
    """Needs at least the last `tail_size` bytes. Raises ValueError if they are damaged or a type would abort a reader."""
    script = postscript_of(tail)
    compression, block_size = number_of(script, 2), number_of(script, 3, 262_144)
    footer_size = number_of(script, 1)
    if not 0 < footer_size <= len(tail) - 1 - tail[-1] or number_of(script, 5) > file_size:
        raise ValueError(f"a footer of {footer_size} bytes and statistics of {number_of(script, 5)} bytes")
    footer = footer_of(tail)
    columns = _columns([message_of(each) for each in footer.get(4, [])])
    stripes = tuple(_stripe(message_of(each)) for each in footer.get(3, []))
    if any(s.end > file_size for s in stripes):
        raise ValueError("a stripe exceeds the end of the file")
    if sum(s.rows for s in stripes) != number_of(footer, 6):
        raise ValueError("the number of rows in its stripes is wrong")
    return OrcTail(stripes, columns, compression, block_size)


def footer_of(tail: bytes) -> Message:
    script = postscript_of(tail)
    end = len(tail) - 1 - tail[-1]
    footer = tail[max(0, end - number_of(script, 1)) : end]
    return decode_message(plain(footer, number_of(script, 2), number_of(script, 3, 262_144)))


def writer_zone(stripe_footer: bytes, tail: OrcTail) -> str:
    """The time zone of the writer of a stripe; empty if the stripe has no times."""
    found = decode_message(plain(stripe_footer, tail.compression, tail.block_size)).get(3)
    return bytes_of(found[-1]).decode() if found else ""


def postscript_of(last: bytes) -> Message:
    if len(last) < 2 or last[-1] >= len(last):
        raise ValueError("it is too short")
    script = decode_message(last[-1 - last[-1] : -1])
    if script.get(8000) != [_MAGIC]:
        raise ValueError("it does not end like an ORC file")
    return script


def _stripe(message: Message) -> Stripe:
    return Stripe(*(number_of(message, field) for field in (1, 2, 3, 4, 5)))


def _columns(types: list[Message]) -> tuple[OrcColumn, ...]:
    """Parse columns in depth-first order, and check that they are one tree of known types with valid decimals."""
    columns: list[OrcColumn] = []
    awaited = [(0, 1, "")]  # number of a column, its depth, and its top-level column
    for number, message in enumerate(types):
        kind, children = number_of(message, 1), numbers(message.get(2, []))
        at, depth, top = awaited.pop() if awaited else (-1, 0, "")
        if number == 0 and kind != _STRUCT:
            break
        if number != at or depth > _MAX_DEPTH:
            raise ValueError(f"column {number} does not fit into the tree of columns")
        if kind > _LAST_KIND or kind == _UNION:
            raise ValueError(f"column {number} has an unknown type")
        if kind == DECIMAL and not number_of(message, 6) <= number_of(message, 5) <= 38:
            raise ValueError(f"column {number} is a decimal of {number_of(message, 5)} digits")
        if len(children) != {_LIST: 1, MAP: 2}.get(kind, len(children) if kind == _STRUCT else 0):
            raise ValueError(f"column {number} has {len(children)} parts")
        names = [bytes_of(name).decode() for name in message.get(3, [])]
        if kind == _STRUCT and len(names) != len(children):
            raise ValueError(f"column {number} has parts without names")
        columns.append(OrcColumn(kind, top))
        parts = zip(children, names if number == 0 else [top] * len(children), strict=True)
        awaited += reversed([(child, depth + 1, part) for child, part in parts])
    if not columns:
        raise ValueError("it has no root column of type STRUCT")
    if awaited:
        raise ValueError(f"column {awaited[-1][0]} is missing")
    return tuple(columns)
