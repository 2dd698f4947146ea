"""The end of an ORC file: its columns' types, its stripes, and in which time zone a stripe was written.

Owns: postscript, footer, stripe footers, and the places of streams. Must not know: values, stores. Source: ORC's own
specification.

Invariant: what passes here does not end the process of a reader: liborc and Arrow abort on types that cannot be, they do not
raise.
"""

from __future__ import annotations

from dataclasses import dataclass

from .orc_blocks import check_blocks, plain
from .protobuf import Message, decode_message, numbers

_LIST, _MAP, _STRUCT, _UNION, _DECIMAL = 10, 11, 12, 13, 14
_LAST_KIND = 18
_MAX_DEPTH = 100
_MAGIC = b"ORC"


@dataclass(frozen=True, slots=True)
class Stripe:
    """Where a stripe lies, in bytes, and how many rows it has."""

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


@dataclass(frozen=True, slots=True)
class OrcTail:
    """What an ORC file says of itself.

    Attributes:
        stripes: in the file's order.
        compression: 0 none, 1 zlib, 2 snappy, 3 LZO, 4 LZ4, 5 zstd.
        block_size: the most bytes that a compressed block holds.
    """

    stripes: tuple[Stripe, ...]
    compression: int
    block_size: int


def tail_size(last: bytes) -> int:
    """How many bytes at the end of a file `parse_tail` needs.

    Args:
        last: the last bytes of the file, 256 or more where there are as many.
    """
    script = _postscript(last)
    return _number(script, 1) + last[-1] + 1


def parse_tail(tail: bytes, file_size: int) -> OrcTail:
    """The tail of a file.

    Args:
        tail: the last `tail_size` bytes, or more.
        file_size: bytes of the whole file.

    Raises:
        ValueError: damaged, or types that no reader should be shown.
    """
    script = _postscript(tail)
    compression, block_size = _number(script, 2), _number(script, 3, 262_144)
    end = len(tail) - 1 - tail[-1]
    footer_size = _number(script, 1)
    if not 0 < footer_size <= end:
        raise ValueError(f"a footer of {footer_size} bytes")
    footer = decode_message(plain(tail[end - footer_size : end], compression, block_size))
    _check_types([decode_message(_bytes(t)) for t in footer.get(4, [])])
    stripes = tuple(_stripe(decode_message(_bytes(s))) for s in footer.get(3, []))
    if any(s.end > file_size for s in stripes):
        raise ValueError("a stripe lies behind the file's end")
    if sum(s.rows for s in stripes) != _number(footer, 6):
        raise ValueError("its stripes have another number of rows than it says")
    return OrcTail(stripes, compression, block_size)


def writer_zone(stripe_footer: bytes, tail: OrcTail) -> str:
    """The time zone that a stripe was written in; empty where it has no times."""
    found = decode_message(plain(stripe_footer, tail.compression, tail.block_size)).get(3)
    return _bytes(found[-1]).decode() if found else ""


def check_streams(data: bytes, stripe: Stripe, tail: OrcTail) -> None:
    """Do a stripe's streams fill it, and blocks each stream? liborc follows sizes that damage made wrong out of its memory.

    Args:
        data: the stripe, from its offset to the end of its footer.

    Raises:
        ValueError: they do not.
    """
    end = stripe.index_size + stripe.data_size
    at = 0
    for message in decode_message(plain(data[end:], tail.compression, tail.block_size)).get(1, []):
        size = _number(decode_message(_bytes(message)), 3)
        if tail.compression:
            check_blocks(data[at : at + size], tail.block_size)
        at += size
    if at != end:
        raise ValueError(f"a stripe of {end} bytes with streams of {at}")


def _postscript(last: bytes) -> Message:
    if len(last) < 2 or last[-1] >= len(last):
        raise ValueError("it is too short")
    script = decode_message(last[-1 - last[-1] : -1])
    if script.get(8000) != [_MAGIC]:
        raise ValueError("it does not end as an ORC file does")
    return script


def _stripe(message: Message) -> Stripe:
    return Stripe(*(_number(message, field) for field in (1, 2, 3, 4, 5)))


def _check_types(types: list[Message]) -> None:
    """One tree of known types, parents first, with decimals that exist."""
    depth = {0: 1}
    for number, message in enumerate(types):
        kind, children = _number(message, 1), numbers(message.get(2, []))
        if number not in depth or kind > _LAST_KIND:
            raise ValueError(f"column {number} is of no known type")
        if kind == _DECIMAL and not _number(message, 6) <= _number(message, 5) <= 38:
            raise ValueError(f"column {number} is a decimal of {_number(message, 5)} digits")
        if len(children) != {_LIST: 1, _MAP: 2}.get(kind, len(children) if kind in (_STRUCT, _UNION) else 0):
            raise ValueError(f"column {number} has {len(children)} parts")
        if kind == _STRUCT and len(message.get(3, [])) != len(children):
            raise ValueError(f"column {number} has parts without names")
        for name in message.get(3, []):
            _bytes(name).decode()
        for child in children:
            if child <= number or child in depth or child >= len(types) or depth[number] >= _MAX_DEPTH:
                raise ValueError(f"column {number} has a part that is none")
            depth[child] = depth[number] + 1
    if not types or _number(types[0], 1) != _STRUCT:
        raise ValueError("it holds no rows")


def _number(message: Message, field: int, default: int = 0) -> int:
    value = message.get(field, [default])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {field} is no number")
    return value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a message is a number")
    return value
