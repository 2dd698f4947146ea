"""The streams of one ORC stripe: checked before liborc follows the sizes that stand in them.

Owns: which streams there are, where they lie, and whether what they say of each other can be. Must not know: values, stores.
Source: ORC's own specification.

Invariant: of the streams that are checked, none leads liborc out of its memory, to more memory than the file's bytes can fill, or
into minutes of work, nor Arrow to an end of the process.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .blocks import check_blocks, plain
from .lengths import measured
from .protobuf import Message, decode_message, message_of, number_of
from .tail import DECIMAL, MAP, OrcTail, Stripe, parse_tail

_PRESENT, _DATA, _LENGTH, _DICTIONARY_DATA, _SECONDARY = 0, 1, 2, 3, 5
_DICTIONARY, _DIRECT_V2, _DICTIONARY_V2 = 1, 2, 3
_MOST_UINT32 = (1 << 32) - 1
_HARMLESS_BYTES, _HARMLESS_ELEMENTS = 1 << 29, 1 << 27
"""For so many there is memory in any case."""
_VALUES_PER_BYTE = 520
"""No encoding says more with a byte: two say 130 times eight bits."""
_MOST_SCALE = 38


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of the columns that will be read, by column and kind."""

    found: dict[tuple[int, int], memoryview]
    tail: OrcTail

    def plain(self, column: int, kind: int) -> bytes:
        return plain(bytes(self.found.get((column, kind), b"")), self.tail.compression, self.tail.block_size)

    def room(self, column: int) -> int:
        """How many elements the parts of a column can have at most."""
        columns = self.tail.columns
        parts = [key for key in self.found if key[0] > column and columns[key[0]].top == columns[column].top]
        return _VALUES_PER_BYTE * sum(len(self.plain(*key)) for key in parts)


def check_file(data: bytes) -> None:
    """Can all of a file be shown to Arrow's reader?

    Raises:
        ValueError: it is damaged.
    """
    tail = parse_tail(data, len(data))
    for stripe in tail.stripes:
        check_streams(data[stripe.offset : stripe.end], stripe, tail)


def check_streams(data: bytes, stripe: Stripe, tail: OrcTail, names: Collection[str] | None = None) -> None:
    """Do a stripe's streams fill it, blocks each stream, and values what lengths say?

    Args:
        data: the stripe, from its offset to the end of its footer.
        names: the top columns that will be read; None = all.

    Raises:
        ValueError: they do not; or a map has keys that are NULL.
    """
    end = stripe.index_size + stripe.data_size
    footer = decode_message(plain(data[end:], tail.compression, tail.block_size))
    encodings = [message_of(each) for each in footer.get(2, [])]
    if len(encodings) != len(tail.columns):
        raise ValueError(f"a stripe of {len(encodings)} columns, in a file of {len(tail.columns)}")
    wanted = [names is None or not number or column.top in names for number, column in enumerate(tail.columns)]
    streams = _Streams(_found(memoryview(data)[:end], footer, wanted), tail)
    for stream in streams.found.values() if tail.compression else ():
        check_blocks(stream, tail.block_size)
    for column, encoding in enumerate(encodings):
        if wanted[column]:
            _check_column(column, encoding, streams)


def _found(data: memoryview, footer: Message, wanted: Sequence[bool]) -> dict[tuple[int, int], memoryview]:
    found: dict[tuple[int, int], memoryview] = {}
    at = 0
    for each in footer.get(1, []):
        message = message_of(each)
        kind, column, size = (number_of(message, field) for field in (1, 2, 3))
        if column >= len(wanted) or kind > _MOST_UINT32:
            raise ValueError(f"a stream of column {column}, which is none")
        if wanted[column]:
            stream = data[at : at + size]
            found.setdefault((column, kind), stream)
        at += size
    if at != len(data):
        raise ValueError(f"a stripe of {len(data)} bytes with streams of {at}")
    return found


def _check_column(column: int, encoding: Message, streams: _Streams) -> None:
    encoded, words = number_of(encoding, 1), number_of(encoding, 2)
    if encoded > _DICTIONARY_V2:
        raise ValueError(f"column {column} is encoded in no known way")
    version = 2 if encoded >= _DIRECT_V2 else 1
    has_words = encoded in (_DICTIONARY, _DICTIONARY_V2)
    holder = (column, _DICTIONARY_DATA if has_words else _DATA)
    harmless = _HARMLESS_BYTES if holder in streams.found else _HARMLESS_ELEMENTS
    count, total = measured(streams.plain(column, _LENGTH), version, enough=harmless)
    if has_words and words > count:
        raise ValueError(f"column {column} has a dictionary of {words} words with {count} lengths")
    if total > harmless:
        room = len(streams.plain(*holder)) if holder in streams.found else streams.room(column)
        if total > room:
            raise ValueError(f"column {column} has lengths of {total}, where at most {room} can be")
    kind = streams.tail.columns[column].kind
    if kind == MAP and (column + 1, _PRESENT) in streams.found:
        raise ValueError(f"column {column + 1}, the keys of a map, holds NULLs")
    if kind == DECIMAL:
        count, total = measured(streams.plain(column, _SECONDARY), version, signed=True)
        if total > _MOST_SCALE * count:  # liborc would divide for minutes
            raise ValueError(f"column {column} has {count} decimals with scales of {total}")
