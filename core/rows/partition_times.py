"""The time that the values of a partition stand for, as options `partition.timestamp-pattern` and `-formatter` say.

Owns: the pattern that makes one text of the values, the part of Java's date patterns that people use, the parsing of the text.
Must not know: which partitions exist, what a time is used for. Source: format/commit §9; the options' own texts.
Invariants: a time has no zone: it is what a clock on the wall shows, in milliseconds since 1970 as if it were UTC. Values that do
not fit have no time, and never an approximate one. A pattern that is not understood is refused before any value is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any, NoReturn

from ..errors import InvalidArgument, Unsupported
from .dates import FarDate, date_to_days
from .java_text import timestamp_sql
from .types import TIMESTAMP_ROOTS, Field
from .values import NANOS_PER_MILLI, root_of

DAY_MS = 24 * 3_600_000
PATTERN, FORMATTER = "partition.timestamp-pattern", "partition.timestamp-formatter"

_DEFAULT = re.compile(
    r"(?P<year>-?\d{1,10})-(?P<month>-?\d{1,2})-(?P<day>-?\d{1,2})"
    r"( (?P<hour>-?\d{1,2}):(?P<minute>-?\d{1,2}):(?P<second>-?\d{1,2})(\.(?P<fraction>\d{1,9}))?)?",
    re.ASCII,
)
_FIELDS: Mapping[str, tuple[str, tuple[int, ...]]] = {
    "y": ("year", (1, 2, 3, 4)),
    "u": ("proleptic_year", (1, 2, 3, 4)),
    "M": ("month", (1, 2)),
    "d": ("day", (1, 2)),
    "D": ("day_of_year", (3,)),
    "H": ("hour", (1, 2)),
    "m": ("minute", (1, 2)),
    "s": ("second", (1, 2)),
    "S": ("fraction", tuple(range(1, 10))),
}
"""Letters of Java's patterns: the field, and how often the letter may be repeated."""
_MOST_DEEP, _SHOWN = 50, 200
_TOKEN = re.compile(
    r"(?P<letters>([A-Za-z])\2*)|'(?P<quoted>[^']*)'|(?P<open>\[)|(?P<close>\])|(?P<other>[^'\[\]A-Za-z#{}])"
)
_LIMITS = {
    "month": (1, 12),
    "day": (1, 31),
    "day_of_year": (1, 366),
    "hour": (0, 24),
    "minute": (0, 59),
    "second": (0, 59),
}


@dataclass(frozen=True)
class PartitionTimes:
    """Finds the time of a partition.

    Attributes:
        pattern: the text of a partition, in which `$name` stands for a column's value; None: the first column's value.
        formatter: a date pattern of Java for that text; None: `yyyy-MM-dd`, also with ` HH:mm:ss` and a fraction.

    >>> from .types import string
    >>> times = PartitionTimes((Field(0, "dt", string()), Field(1, "hour", string())), "$dt $hour:00:00")
    >>> times.of(["1970-01-02", "3"]) == 27 * 3_600_000, times.of(["soon", "3"]), times.of([None, "3"])
    (True, None, None)
    """

    fields: tuple[Field, ...]
    pattern: str | None = None
    formatter: str | None = None

    def __post_init__(self) -> None:
        if self.pattern is not None and not self._columns:
            names = ", ".join(f"${field.name}" for field in self.fields)
            raise InvalidArgument(
                f"option '{PATTERN}' is {self.pattern!r}, which names no partition column", next_step=f"use {names}"
            )
        self._compiled  # noqa: B018 - refuses what it does not understand

    @cached_property
    def _columns(self) -> re.Pattern[str] | None:
        names = [f.name for f in self.fields if self.pattern and f"${f.name}" in self.pattern]
        longest_first = sorted(names, key=len, reverse=True)
        return re.compile(r"\$(" + "|".join(map(re.escape, longest_first)) + ")") if names else None

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return _DEFAULT if self.formatter is None else _compiled(self.formatter)

    def of(self, values: Sequence[Any]) -> int | None:
        """The time of a partition's values: milliseconds since 1970 of a clock on the wall; None if they stand for none."""
        text = self.text(values)
        found = None if text is None else self._compiled.fullmatch(text)
        if found is None:
            return None
        return _resolved({k: v for k, v in found.groupdict().items() if v is not None}, lenient=self.formatter is None)

    def text(self, values: Sequence[Any]) -> str | None:
        """The text that is parsed; None if a value that it needs is null."""
        if self._columns is None:
            return None if values[0] is None else value_text(values[0], self.fields[0])
        named = {f.name: (v, f) for f, v in zip(self.fields, values, strict=True)}
        assert self.pattern is not None
        if any(named[name][0] is None for name in self._columns.findall(self.pattern)):
            return None
        return self._columns.sub(lambda found: value_text(*named[found[1]]), self.pattern)


def value_text(value: Any, field: Field) -> str:
    """A value as the text that a pattern puts in: dates and times in their SQL form, whatever the name of the folder is."""
    if isinstance(value, (date, FarDate)) and not isinstance(value, datetime):
        return value.isoformat()
    if root_of(field.type) in TIMESTAMP_ROOTS:
        return timestamp_sql(value, 3)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _compiled(formatter: str) -> re.Pattern[str]:
    out, place, variable, opened = "", 0, "", 0
    names: set[str] = set()
    while place < len(formatter):
        found = _TOKEN.match(formatter, place)
        if found is None:
            _refuse(formatter, formatter[place])
        place = found.end()
        letters = found["letters"]
        if letters is not None:
            name, widths = _FIELDS.get(letters[0], ("", ()))
            if len(letters) not in widths or name in names or variable:
                _refuse(formatter, variable + letters)
            names.add(name)
            fixed, width = _width(letters)
            variable = "" if fixed else letters
            out += f"(?P<{name}>{width})" if letters != "yy" and letters != "uu" else f"(?P<year_of_2000>{width})"
            continue
        variable = ""
        if found["quoted"] is not None:
            out += re.escape(found["quoted"] or "'")
        elif found["open"]:
            out, opened = out + "(", opened + 1
            if opened > _MOST_DEEP:
                _refuse(formatter, f"more than {_MOST_DEEP} '[' inside each other")
        elif found["close"]:
            out, opened = out + ")?", opened - 1
            if opened < 0:
                _refuse(formatter, "]")
        else:
            out += re.escape(found["other"])
    return re.compile(out + ")?" * opened, re.ASCII)


def _width(letters: str) -> tuple[bool, str]:
    count = len(letters)
    if letters[0] in "yu":
        return count in (2, 4), {1: r"\d{1,9}", 2: r"\d{2}", 3: r"\d{3,9}", 4: r"\d{4}"}[count]
    if letters[0] in "SD" or count == 2:
        return True, rf"\d{{{count}}}"
    return False, r"\d{1,2}"


def _refuse(formatter: str, part: str) -> NoReturn:
    raise Unsupported(
        f"option '{FORMATTER}' is {formatter[:_SHOWN]!r}, of which {part!r} is not supported",
        next_step="use y or u, M, d, D, H, m, s, S, text in quotes and [ ], such as yyyyMMdd or yyyy-MM-dd'T'HH",
    )


def _resolved(found: Mapping[str, str], *, lenient: bool) -> int | None:
    """The milliseconds of parsed fields, by Java's rules: with a formatter `SMART`, else `LENIENT`, which carries over."""
    number = {name: int(text) for name, text in found.items() if name != "fraction"}
    if not lenient and any(not low <= number.get(name, low) <= high for name, (low, high) in _LIMITS.items()):
        return None
    year = (
        number["year_of_2000"] + 2000 if "year_of_2000" in number else number.get("proleptic_year", number.get("year"))
    )
    hour, minute, second = (number.get(name, 0) for name in ("hour", "minute", "second"))
    has_time = "hour" in number
    gap = ("minute" not in number and ("second" in number or "fraction" in found)) or (
        "second" not in number and "fraction" in found
    )
    if year is None or (not has_time and len({"minute", "second"} & number.keys())) or gap:
        return None
    millis = int((found.get("fraction") or "0").ljust(9, "0")) // NANOS_PER_MILLI
    if not lenient and (number.get("year", 1) < 1 or (hour == 24 and (minute or second or millis))):
        return None
    day = _day(year, number, lenient)
    return None if day is None else day * DAY_MS + ((hour * 60 + minute) * 60 + second) * 1000 + millis


def _day(year: int, number: Mapping[str, int], lenient: bool) -> int | None:
    if "day_of_year" in number:
        day = _first_of_month(year, 1) + number["day_of_year"] - 1
        return day if day < _first_of_month(year + 1, 1) else None
    if "month" not in number or "day" not in number:
        return None
    month, day = number["month"], number["day"]
    first = _first_of_month(year, month)
    if lenient:
        return first + day - 1
    return first + min(day, _first_of_month(year, month + 1) - first) - 1  # the 31st of April is the 30th


def _first_of_month(year: int, month: int) -> int:
    """The first day of a month, in days since 1970; months beyond 12 or below 1 are in other years."""
    years, month = divmod(month - 1, 12)
    year += years
    cycles, inside = divmod(year - 1, 400)
    return date_to_days(date(inside + 1, month + 1, 1)) + cycles * 146_097
