"""The streams of one ORC stripe: checked before liborc follows the sizes that stand in them.

Owns: which streams there are, where they lie, and whether what they say of each other can be. Must not know: values, stores.
Source: ORC's own specification.

Invariant: what passes here leads liborc neither out of its memory nor to more of it than the file's bytes can fill.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .orc_blocks import check_blocks, plain
from .orc_lengths import measured_lengths
from .orc_tail import OrcTail, Stripe
from .protobuf import Message, decode_message, message_of, number_of

_DATA, _LENGTH, _DICTIONARY_DATA = 1, 2, 3
_DICTIONARY, _DIRECT_V2, _DICTIONARY_V2 = 1, 2, 3
_MOST_UINT32 = (1 << 32) - 1
_HARMLESS = 1 << 24
"""Bytes, or elements, for which memory is there in any case."""
_VALUES_PER_BYTE = 520
"""No encoding says more with a byte: two say 130 times eight bits."""


@dataclass(frozen=True, slots=True)
class _Streams:
    """The streams of the columns that will be read, by column and kind."""

    found: dict[tuple[int, int], bytes]
    tail: OrcTail

    def plain(self, column: int, kind: int) -> bytes:
        return plain(self.found.get((column, kind), b""), self.tail.compression, self.tail.block_size)

    def room(self, column: int) -> int:
        """How many elements the parts of a column can have at most."""
        top = self.tail.tops[column]
        parts = [key for key in self.found if key[0] > column and self.tail.tops[key[0]] == top]
        return _VALUES_PER_BYTE * sum(len(self.plain(*key)) for key in parts)


def check_streams(data: bytes, stripe: Stripe, tail: OrcTail, names: Collection[str] | None = None) -> None:
    """Do a stripe's streams fill it, blocks each stream, and values what lengths say?

    Args:
        data: the stripe, from its offset to the end of its footer.
        names: the top columns that will be read; None = all.

    Raises:
        ValueError: they do not.
    """
    end = stripe.index_size + stripe.data_size
    footer = decode_message(plain(data[end:], tail.compression, tail.block_size))
    wanted = [names is None or not number or top in names for number, top in enumerate(tail.tops)]
    streams = _Streams(_found(data[:end], footer, tail, wanted), tail)
    encodings = [message_of(each) for each in footer.get(2, [])]
    if len(encodings) != len(tail.tops):
        raise ValueError(f"a stripe of {len(encodings)} columns, in a file of {len(tail.tops)}")
    for column, encoding in enumerate(encodings):
        if number_of(encoding, 1) > _DICTIONARY_V2:
            raise ValueError(f"column {column} is encoded in no known way")
        if wanted[column]:
            _check_lengths(column, encoding, streams)


def _found(data: bytes, footer: Message, tail: OrcTail, wanted: Sequence[bool]) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    at = 0
    for each in footer.get(1, []):
        message = message_of(each)
        kind, column, size = (number_of(message, field) for field in (1, 2, 3))
        if column >= len(wanted) or kind > _MOST_UINT32:
            raise ValueError(f"a stream of column {column}, which is none")
        if wanted[column]:
            stream = data[at : at + size]
            if tail.compression:
                check_blocks(stream, tail.block_size)
            found.setdefault((column, kind), stream)
        at += size
    if at != len(data):
        raise ValueError(f"a stripe of {len(data)} bytes with streams of {at}")
    return found


def _check_lengths(column: int, encoding: Message, streams: _Streams) -> None:
    kind, words = number_of(encoding, 1), number_of(encoding, 2)
    version = 2 if kind >= _DIRECT_V2 else 1
    count, total = measured_lengths(streams.plain(column, _LENGTH), version, _HARMLESS)
    if kind in (_DICTIONARY, _DICTIONARY_V2):
        if words > count:
            raise ValueError(f"column {column} has a dictionary of {words} words with {count} lengths")
        holder = _DICTIONARY_DATA
    else:
        holder = _DATA
    if total <= _HARMLESS:
        return
    if (column, holder) in streams.found:
        room = len(streams.plain(column, holder))
    else:
        room = streams.room(column)
    if total > room:
        raise ValueError(f"column {column} has lengths of {total}, where at most {room} can be")
