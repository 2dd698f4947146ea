"""Prints numbers and times like Java, for the names of partition directories.

Owns: `Double.toString`, `Float.toString`, `LocalDateTime.toString` and the format's own forms of time. Must not know:
partitions, escaping. Source: format/binary-row §3. Invariant: The text is exactly that of Java, because all writers must
use the same directory for a partition.
"""

from __future__ import annotations

import datetime as dt
import math
import struct

from .dates import AnyDate, FarDate, days_to_date
from .values import NANOS_PER_SECOND, SECONDS_PER_DAY


def float_text(value: float, *, single: bool = False) -> str:
    """The fewest digits that identify a DOUBLE, or a FLOAT if `single`, with at least one after the point.

    >>> float_text(1.0), float_text(1e10), float_text(0.001), float_text(1e-4), float_text(0.1, single=True)
    ('1.0', '1.0E10', '0.001', '1.0E-4', '0.1')
    """
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return sign + "0.0"
    digits, exponent = _shortest(abs(value), single)
    if -3 <= exponent < 7:
        if exponent < 0:
            return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
        digits = digits.ljust(exponent + 2, "0")
        return f"{sign}{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest(value: float, single: bool) -> tuple[str, int]:
    """The digits without trailing zeros, of two or more (4.9E-324), and the decimal exponent of the first digit."""
    for count in range(2, 18):
        text = f"{value:.{count - 1}e}"
        if _same(float(text), value, single):
            break
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0"), int(exponent)


def _same(text_value: float, value: float, single: bool) -> bool:
    if not single:
        return text_value == value
    try:
        return struct.pack("<f", text_value) == struct.pack("<f", value)
    except OverflowError:
        return False


def split_nanos(nanos: int) -> tuple[AnyDate, int, int]:
    seconds, nano = divmod(nanos, NANOS_PER_SECOND)
    days, second = divmod(seconds, SECONDS_PER_DAY)
    return days_to_date(days), second, nano


def timestamp_iso(nanos: int) -> str:
    """`LocalDateTime.toString`: seconds only if they are not zero, and the fraction with three, six or nine digits.

    >>> timestamp_iso(0), timestamp_iso(-1_000_000)
    ('1970-01-01T00:00', '1969-12-31T23:59:59.999')
    """
    date, second, nano = split_nanos(nanos)
    text = f"{date.isoformat()}T{second // 3600:02}:{second // 60 % 60:02}"
    if second % 60 == 0 and nano == 0:
        return text
    text += f":{second % 60:02}"
    if nano == 0:
        return text
    digits = f"{nano:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f"{text}.{digits}"


def date_sql(days: int) -> str:
    """`yyyy-MM-dd` of days since 1970. A year has four characters, so that those of far years are not digits of the year.

    >>> date_sql(19_909), date_sql(-719_831), date_sql(2_932_897), date_sql(-(2**31))
    ('2024-07-05', '000/-03-04', '0000-01-01', ')*,0-0+-0)')
    """
    date = days_to_date(days)
    if not isinstance(date, FarDate):
        return date.isoformat()
    # Java's integers have 32 bits, and its division rounds towards zero, which gives strange days before the year -4800.
    cycle, rest = _divided((days + 2_440_588 + 32_044 + _HALF) % (2 * _HALF) - _HALF, 146_097)
    century = _quotient((_quotient(rest, 36_524) + 1) * 3, 4)
    four, rest = _divided(rest - century * 36_524, 1461)
    one = _quotient((_quotient(rest, 365) + 1) * 3, 4)
    rest -= one * 365
    month = _quotient(rest * 5 + 308, 153) - 2
    day = rest - _quotient((month + 4) * 153, 5) + 122 + 1
    later, month = _divided(month + 2, 12)
    year = cycle * 400 + century * 100 + four * 4 + one - 4800 + later
    return f"{_year_digits(year)}-{_digits(month + 1, 10)}-{_digits(day, 10)}"


_HALF = 1 << 31


def _quotient(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)


def _divided(number: int, by: int) -> tuple[int, int]:
    return _quotient(number, by), number - _quotient(number, by) * by


def _year_digits(year: int) -> str:
    return _digits(year, 1000)


def _digits(number: int, highest: int) -> str:
    text = ""
    while highest:
        text += chr(ord("0") + _divided(_quotient(number, highest), 10)[1])
        highest //= 10
    return text


def timestamp_sql(nanos: int, precision: int) -> str:
    """`yyyy-MM-dd HH:mm:ss` and the fraction, with at least `precision` digits and more if they are not zero.

    >>> timestamp_sql(0, 3), timestamp_sql(1_500_000_000, 0)
    ('1970-01-01 00:00:00.000', '1970-01-01 00:00:01.5')
    """
    date, second, nano = split_nanos(nanos)
    clock = f"{_year_digits(date.year)}-{date.month:02}-{date.day:02} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    fraction = f"{nano:09}".rstrip("0").ljust(precision, "0")
    return f"{clock}.{fraction}" if fraction else clock


def time_sql(value: dt.time, precision: int) -> str:
    """`HH:mm:ss` and the milliseconds up to the last digit that is not zero, with 1 to `precision` digits.

    >>> [time_sql(dt.time(1, 2, 3, 45000), precision) for precision in (0, 1, 2, 3, 9)]
    ['01:02:03', '01:02:03.0', '01:02:03.04', '01:02:03.045', '01:02:03.045']
    >>> time_sql(dt.time(1, 2), 3)
    '01:02:00.0'
    """
    clock = value.strftime("%H:%M:%S")
    if precision == 0:
        return clock
    digits = f"{value.microsecond // 1000:03}"
    return f"{clock}.{digits[: min(precision, max(1, len(digits.rstrip('0'))))]}"
