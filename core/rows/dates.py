"""Dates: those of Python, and those before the year 1 and after 9999, which Python's `date` cannot hold.

Owns: `FarDate`, and days since 1970 as dates and texts. Must not know: columns, Arrow. Source: format/binary-row §1.
Invariant: `date_to_days(days_to_date(n)) == n` for every number; dates of both kinds compare as their days do.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import total_ordering
from typing import Any

_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_LAST_DAY = dt.date.max.toordinal() - _EPOCH_ORDINAL
_FIRST_DAY = dt.date.min.toordinal() - _EPOCH_ORDINAL
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""The calendar repeats itself after 400 years."""
_TEXT = re.compile(r"([+-]?[0-9]{4,7})-([0-9]{2})-([0-9]{2})")
_INT_DAYS = range(-(1 << 31), 1 << 31)


@total_ordering
class FarDate:
    """A date outside the years 1 to 9999, in the calendar that `datetime.date` has, as so many days since 1970-01-01.
    Apache Paimon and Spark have such dates.

    >>> print(FarDate(-719_164), FarDate(2_932_897), FarDate(-719_164) < dt.date.min)
    0000-12-30 +10000-01-01 True
    """

    __slots__ = ("days",)

    def __init__(self, days: int) -> None:
        self.days = days

    def toordinal(self) -> int:
        return self.days + _EPOCH_ORDINAL

    @property
    def _parts(self) -> tuple[int, dt.date]:
        cycles, day = divmod(self.toordinal() - 1, _CYCLE_DAYS)
        inside = dt.date.fromordinal(day + 1)
        return inside.year + cycles * _CYCLE_YEARS, inside

    @property
    def year(self) -> int:
        return self._parts[0]

    @property
    def month(self) -> int:
        return self._parts[1].month

    @property
    def day(self) -> int:
        return self._parts[1].day

    def isoformat(self) -> str:
        """`YYYY-MM-DD`; a year after 9999 has a plus sign and one before 0 a minus sign, as in Java."""
        sign = "-" if self.year < 0 else "+" if self.year > 9999 else ""
        return f"{sign}{abs(self.year):04}-{self.month:02}-{self.day:02}"

    __str__ = isoformat

    def __repr__(self) -> str:
        return f"FarDate({self.days})"

    def __eq__(self, other: object) -> bool:
        return self.days == other.days if isinstance(other, FarDate) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        if isinstance(other, FarDate):
            return self.days < other.days
        if isinstance(other, dt.date) and not isinstance(other, dt.datetime):
            return self.days < date_to_days(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.days)

    def __reduce__(self) -> tuple[Any, ...]:
        return FarDate, (self.days,)


AnyDate = dt.date | FarDate


def date_to_days(value: AnyDate) -> int:
    return value.toordinal() - _EPOCH_ORDINAL


def days_to_date(days: int) -> AnyDate:
    """The date of a number of days since 1970-01-01.

    >>> days_to_date(0), days_to_date(-719_163)
    (datetime.date(1970, 1, 1), FarDate(-719163))
    """
    if _FIRST_DAY <= days <= _LAST_DAY:
        return dt.date.fromordinal(days + _EPOCH_ORDINAL)
    return FarDate(days)


def whole_date(days: int) -> AnyDate:
    """The date of a number of days that somebody has typed. Raises ValueError for more than 32 bits."""
    if days not in _INT_DAYS:
        raise ValueError(f"day {days} does not fit into 32 bits")
    return days_to_date(days)


def parsed_date(text: str) -> AnyDate | None:
    """The date of a text `YYYY-MM-DD`, with more digits and a sign for far years; None for another form. May raise ValueError.

    >>> parsed_date("2024-02-29"), parsed_date("0000-12-30"), parsed_date("2024")
    (datetime.date(2024, 2, 29), FarDate(-719164), None)
    """
    found = _TEXT.fullmatch(text)
    if not found:
        return None
    cycles, year = divmod(int(found[1]) - 1, _CYCLE_YEARS)
    inside = dt.date(year + 1, int(found[2]), int(found[3]))
    return whole_date(date_to_days(inside) + cycles * _CYCLE_DAYS)


def moment_text(nanos: int, digits: int) -> str:
    """A time in ISO form with a blank and this many digits of the second, of nanoseconds since 1970.

    >>> moment_text(1_500_000_000, 3), moment_text(-719_164 * 86_400 * 10**9, 0)
    ('1970-01-01 00:00:01.500', '0000-12-30 00:00:00')
    """
    seconds, fraction = divmod(nanos, 1_000_000_000)
    days, second = divmod(seconds, 86_400)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{days_to_date(days).isoformat()} {clock}" + (f".{fraction:09}"[: digits + 1] if digits else "")
