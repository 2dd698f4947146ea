"""Stores the fractions of seconds before 1970 in an ORC file as ORC's Java readers expect them.

Owns: how a time becomes seconds and nanoseconds, and the change of a file that Arrow has written. Must not know: Arrow, tables,
stores. Source: format/data-files §3.

Arrow's writer stores a time before 1970 as seconds that are rounded towards 1970, and a number of nanoseconds below 0; Java
throws at digits below the millisecond. Java's own form is: the second rounded down, plus one if the nanoseconds are above
999 999; and nanoseconds from 0 to 999 999 999. `split_times` gives Arrow's writer times that it stores as Java's seconds and the
negative of Java's nanoseconds, and `with_plain_fractions` then turns the signs in the finished file. In the last second before
1970, Java's form would mean another time, so these times stay as they are, which every reader understands down to milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from .blocks import framed, plain
from .numbers import decoded, encoded
from .protobuf import bytes_of, encode_message, fields_of, message_of, number_of
from .tail import TIMES, OrcTail, Stripe, parse_tail, postscript_of

_NANOS_PER_SECOND = 1_000_000_000
_NANOS_PER_MILLI = 1_000_000
_FIRST_SECOND = -9_223_372_035
_EPOCH = 1_420_070_400
"""Seconds in ORC files are counted from 2015-01-01."""
_DATA, _SECONDARY = 1, 5
_CONTENT_LENGTH, _STRIPES, _STATISTICS, _INDEX_STRIDE = 2, 3, 7, 8
_FOOTER_LENGTH, _METADATA_LENGTH = 1, 5
_TIME_STATISTICS = 9


def split_times(nanos: Any) -> Any:
    """What Arrow's writer must be given for times before 1970, in nanoseconds since 1970; the same array if nothing
    changes. Raises ValueError for a time in 1677, or with digits below the millisecond in the last second before 1970,
    which no form of ORC can tell from others.

    >>> split_times(np.array([-1_876_543_211, -1_999_999_999, -1_000_000_000, -1_000_000, 5])).tolist()
    [-1123456789, -2000000001, -1000000000, -1000000, 5]
    """
    early = np.flatnonzero(nanos < 0)
    seconds, fractions = np.divmod(nanos[early], _NANOS_PER_SECOND)
    if np.any((seconds == -1) & (fractions % _NANOS_PER_MILLI != 0)):
        raise ValueError("a time in the last second before 1970 has digits below the millisecond")
    if np.any(seconds < _FIRST_SECOND):
        raise ValueError("a time is before the year 1678")
    changed = (seconds < -1) & (fractions != 0)
    if not changed.any():
        return nanos
    seconds += fractions >= _NANOS_PER_MILLI
    made = nanos.copy()
    made[early[changed]] = (seconds * _NANOS_PER_SECOND - fractions)[changed]
    return made


def with_plain_fractions(end: bytes, start: int = 0) -> bytes:
    """The end of an ORC file from `start` (the end of a stripe, or 0), with the nanoseconds of `split_times` as Java
    stores them. The row index and the statistics of the columns concerned are left out, because they describe other
    times. Raises ValueError.
    """
    tail = parse_tail(end, start + len(end))
    script = postscript_of(end)
    script_start = len(end) - 1 - end[-1]
    footer_start = script_start - number_of(script, _FOOTER_LENGTH)
    metadata_start = footer_start - number_of(script, _METADATA_LENGTH)
    made = bytearray()
    changed: set[int] = set()
    stripes = []
    at = 0
    for stripe in tail.stripes:
        if stripe.offset >= start:
            made += end[at : stripe.offset - start]
            at = stripe.end - start
            body, stripe = _changed_stripe(end[stripe.offset - start : at], stripe, start + len(made), tail, changed)
            made += body
        stripes.append(stripe)
    made += end[at:metadata_start]
    metadata = _changed_metadata(_plain(end[metadata_start:footer_start], tail), changed)
    footer = _changed_footer(_plain(end[footer_start:script_start], tail), stripes, changed, start + len(made))
    metadata, footer = _framed(metadata, tail), _framed(footer, tail)
    sizes = {_METADATA_LENGTH: len(metadata), _FOOTER_LENGTH: len(footer)}
    told = encode_message((key, sizes.get(key >> 3, value)) for key, value in fields_of(end[script_start:-1]))
    return bytes(made) + metadata + footer + told + bytes((len(told),))


def _changed_stripe(data: bytes, stripe: Stripe, offset: int, tail: OrcTail, changed: set[int]) -> tuple[bytes, Stripe]:
    footer_start = stripe.footer_start - stripe.offset
    seconds: dict[int, bytes] = {}
    parts, fields = [], []
    at = grown = 0
    for key, value in fields_of(_plain(data[footer_start:], tail)):
        if key >> 3 == 1:
            described = message_of(value)
            kind, column, size = (number_of(described, field) for field in (1, 2, 3))
            stream, at = data[at : at + size], at + size
            if tail.columns[column].kind in TIMES and kind == _DATA:
                seconds[column] = stream
            elif tail.columns[column].kind in TIMES and kind == _SECONDARY:
                made = _turned(decoded(_plain(stream, tail)), seconds.get(column, b""), tail)
                if made is not None:
                    changed.add(column)
                    stream = _framed(encoded(made), tail)
                    value = encode_message(
                        (k, len(stream) if k >> 3 == 3 else v) for k, v in fields_of(bytes_of(value))
                    )
            parts.append(stream)
            grown += len(stream) - size
        fields.append((key, value))
    footer = _framed(encode_message(fields), tail)
    sized = replace(stripe, offset=offset, data_size=stripe.data_size + grown, footer_size=len(footer))
    return b"".join(parts) + footer, sized


def _turned(fractions: Any, seconds: bytes, tail: OrcTail) -> Any | None:
    """The encoded nanoseconds without signs, but for the last second before 1970; None if none has a sign."""
    negative = np.flatnonzero(fractions < 0)
    if not len(negative):
        return None
    negative = negative[decoded(_plain(seconds, tail), signed=True)[negative] != -_EPOCH]
    if not len(negative):
        return None
    made = fractions.copy()
    made[negative] = -(fractions[negative] >> 3) << 3 | fractions[negative] & 7  # the last bits count zeros
    return made


def _changed_metadata(metadata: bytes, changed: set[int]) -> bytes:
    """The statistics of stripes, without those of times in columns that were changed."""
    return encode_message(
        (key, _without_times(bytes_of(value), 1, changed) if key >> 3 == 1 else value)
        for key, value in fields_of(metadata)
    )


def _changed_footer(footer: bytes, stripes: list[Stripe], changed: set[int], content: int) -> bytes:
    places = iter(stripes)
    fields: list[tuple[int, int | bytes]] = []
    for key, value in fields_of(_without_times(footer, _STATISTICS, changed)):
        if key >> 3 == _STRIPES:
            stripe = next(places)
            sizes = {1: stripe.offset, 2: stripe.index_size, 3: stripe.data_size, 4: stripe.footer_size}
            value = encode_message((k, sizes.get(k >> 3, v)) for k, v in fields_of(bytes_of(value)))
        elif key >> 3 == _CONTENT_LENGTH:
            value = content
        elif key >> 3 == _INDEX_STRIDE:
            value = 0
        fields.append((key, value))
    return encode_message(fields)


def _without_times(message: bytes, field: int, changed: set[int]) -> bytes:
    fields: list[tuple[int, int | bytes]] = []
    columns = count()
    for key, value in fields_of(message):
        if key >> 3 == field and next(columns) in changed:
            value = encode_message(part for part in fields_of(bytes_of(value)) if part[0] >> 3 != _TIME_STATISTICS)
        fields.append((key, value))
    return encode_message(fields)


def _plain(data: bytes, tail: OrcTail) -> bytes:
    return plain(data, tail.compression, tail.block_size)


def _framed(data: bytes, tail: OrcTail) -> bytes:
    return framed(data, tail.compression, tail.block_size)
