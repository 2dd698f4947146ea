"""The sequence numbers that a job gives to its rows.

Owns: `first_number`. Must not know: how the numbers of a snapshot are read, how rows are counted. Source: format/primary-keys §3;
H14; decision 39.
Invariant: A job that begins after another one has ended numbers its rows above the other's, whatever their clocks say. The ranges
of jobs that run at the same time do not meet, but for the rarest of chances, which the commit finds.
"""

from __future__ import annotations

from ...errors import InvalidArgument

CLOCK_BITS = 22
"""A millisecond has room for four million rows."""
LARGEST_NUMBER = (1 << 63) - 1
_LAST_BY_CLOCK = LARGEST_NUMBER - (1 << 48)
"""The clock has no part in larger numbers, which it reaches in the year 2039."""


def first_number(largest: int, began_ms: int, share: float) -> int:
    """The number of a job's first row in a bucket; the following rows have the numbers that follow.

    Args:
        largest: of the bucket in the snapshot that the job begins on; -1 if it has none.
        share: a random number from 0 up to 1, which keeps jobs apart that began in the same millisecond.

    >>> first_number(-1, 1000, 0.0), first_number(5_000_000_000, 1000, 0.25)
    (4194304000, 5000000001)
    """
    if largest >= LARGEST_NUMBER - (1 << CLOCK_BITS):
        raise InvalidArgument(
            f"a row has the sequence number {largest}, and there are no larger ones for new rows",
            next_step="overwrite the table with its own rows",
        )
    by_clock = (max(began_ms, 0) << CLOCK_BITS) + int(share * (1 << CLOCK_BITS))
    return max(largest + 1, min(by_clock, _LAST_BY_CLOCK))
