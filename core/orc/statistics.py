"""Parses the statistics of an ORC file's columns, which its writer computed from the values.

Owns: the counts and sums of the top-level columns. Must not know: values, stores; minimum and maximum, which the manifest has.
Source: ORC's own specification. Invariant: A statistic that is absent is None, and proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from .protobuf import Message, bytes_of, decode_message, message_of, number_of, numbers
from .tail import OrcTail, footer_of

_INTEGER, _TEXT, _BUCKETS, _DECIMAL, _BINARY = 2, 4, 5, 6, 8


@dataclass(frozen=True, slots=True)
class OrcStatistics:
    """How many values of a column are not null, and the sum of numbers, how many are true, or the bytes of all texts."""

    values: int | None
    total: int | Decimal | None


def statistics_of(tail_bytes: bytes, tail: OrcTail) -> dict[str, OrcStatistics]:
    """The statistics by top-level column, from at least the last `tail_size` bytes of the file. Raises ValueError."""
    found = [decode_message(bytes_of(each)) for each in footer_of(tail_bytes).get(7, [])]
    if not found:
        return {}
    if len(found) != len(tail.columns):
        raise ValueError(f"it has statistics of {len(found)} columns, and {len(tail.columns)} columns")
    by_name: dict[str, OrcStatistics] = {}
    for column, message in zip(tail.columns, found, strict=True):
        if column.top and column.top not in by_name:  # the parts of a column follow it
            by_name[column.top] = OrcStatistics(number_of(message, 1) if 1 in message else None, _total(message))
    return by_name


def _total(message: Message) -> int | Decimal | None:
    for field, part in ((_INTEGER, 3), (_TEXT, 3), (_BINARY, 1)):
        if field in message:
            kind = message_of(message[field][-1])
            return _signed(number_of(kind, part)) if part in kind else None
    if _BUCKETS in message:
        counts = numbers(message_of(message[_BUCKETS][-1]).get(1, []))
        return counts[0] if counts else None
    if _DECIMAL in message:
        kind = message_of(message[_DECIMAL][-1])
        try:
            return Decimal(bytes_of(kind[3][-1]).decode()) if 3 in kind else None
        except (InvalidOperation, UnicodeDecodeError):
            raise ValueError("the sum of a decimal column is no number") from None
    return None


def _signed(number: int) -> int:
    """A zigzag number.

    >>> _signed(3), _signed(4)
    (-2, 2)
    """
    return (number >> 1) ^ -(number & 1)
