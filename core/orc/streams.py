"""Checks the streams of an ORC stripe before liborc trusts the sizes in them.

Owns: the list and offsets of the streams, and the check that their sizes are consistent. Must not know: values, stores.
Source: ORC's own specification.

Invariant: No checked stream can crash liborc, exhaust memory or hang it, or abort Arrow.
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
"""Sizes up to these need no further check, because there is enough memory for them."""
_VALUES_PER_BYTE = 520
"""The maximum of all encodings, in which two bytes can stand for 130 times eight bits."""
_MOST_SCALE = 38


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of the columns that will be read, by column and kind."""

    found: dict[tuple[int, int], memoryview]
    tail: OrcTail

    def plain(self, column: int, kind: int) -> bytes:
        return plain(bytes(self.found.get((column, kind), b"")), self.tail.compression, self.tail.block_size)

    def room(self, column: int) -> int:
        """The maximum number of elements that the parts of a column can have."""
        columns = self.tail.columns
        parts = [key for key in self.found if key[0] > column and columns[key[0]].top == columns[column].top]
        return _VALUES_PER_BYTE * sum(len(self.plain(*key)) for key in parts)


def check_file(data: bytes) -> int:
    """Raise ValueError unless Arrow can safely read the whole file, and return a size that none of its values exceeds."""
    tail = parse_tail(data, len(data))
    widest = (check_streams(data[stripe.offset : stripe.end], stripe, tail) for stripe in tail.stripes)
    return max(widest, default=0)


def check_streams(data: bytes, stripe: Stripe, tail: OrcTail, names: Collection[str] | None = None) -> int:
    """Raise ValueError unless the streams fill the stripe, its blocks fill each stream, there are enough values for the
    lengths, and no map has NULL keys. `data` is the stripe with its footer, `names` the top-level columns that will be
    read (None: all). Returns a size, in bytes or elements, that no value of these columns exceeds.
    """
    end = stripe.index_size + stripe.data_size
    footer = decode_message(plain(data[end:], tail.compression, tail.block_size))
    encodings = [message_of(each) for each in footer.get(2, [])]
    if len(encodings) != len(tail.columns):
        raise ValueError(f"a stripe of {len(encodings)} columns in a file of {len(tail.columns)}")
    wanted = [names is None or not number or column.top in names for number, column in enumerate(tail.columns)]
    streams = _Streams(_found(memoryview(data)[:end], footer, wanted), tail)
    for stream in streams.found.values() if tail.compression else ():
        check_blocks(stream, tail.block_size)
    checked = (_check_column(i, encoding, streams) for i, encoding in enumerate(encodings) if wanted[i])
    return max(checked, default=0)


def _found(data: memoryview, footer: Message, wanted: Sequence[bool]) -> dict[tuple[int, int], memoryview]:
    found: dict[tuple[int, int], memoryview] = {}
    at = 0
    for each in footer.get(1, []):
        message = message_of(each)
        kind, column, size = (number_of(message, field) for field in (1, 2, 3))
        if column >= len(wanted) or kind > _MOST_UINT32:
            raise ValueError(f"a stream of column {column}, which does not exist")
        if wanted[column]:
            stream = data[at : at + size]
            found.setdefault((column, kind), stream)
        at += size
    if at != len(data):
        raise ValueError(f"a stripe of {len(data)} bytes with streams of {at} bytes")
    return found


def _check_column(column: int, encoding: Message, streams: _Streams) -> int:
    encoded, words = number_of(encoding, 1), number_of(encoding, 2)
    if encoded > _DICTIONARY_V2:
        raise ValueError(f"column {column} has an unknown encoding")
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
            raise ValueError(f"column {column} has lengths of {total}, where at most {room} are possible")
    kind = streams.tail.columns[column].kind
    if kind == MAP and (column + 1, _PRESENT) in streams.found:
        raise ValueError(f"column {column + 1}, the keys of a map, contains NULLs")
    if kind == DECIMAL:
        count, scales = measured(streams.plain(column, _SECONDARY), version, signed=True)
        if scales > _MOST_SCALE * count:  # liborc would spend minutes dividing
            raise ValueError(f"column {column} has {count} decimals with scales of {scales}")
    return total
