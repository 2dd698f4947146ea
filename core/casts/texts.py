"""Casts to text and from text (see `rules`).

Owns: Java's rules for printing and parsing values. Must not know: columns of a table. Source: format/schema §5.

Invariants: A text that Apache Paimon cannot parse raises `CastFailure`, and never becomes null. The local zone is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..rows.arrow import to_arrow
from ..rows.java_text import float_text, time_sql
from ..rows.types import MAX_LENGTH, TIMESTAMP_ROOTS, ArrayType, AtomicType, DataType, MapType, RowType, sql
from ..rows.values import MILLIS_PER_DAY, NANOS_PER_UNIT
from .columns import Cast, CastFailure, by_value

_TRUE = frozenset(("t", "true", "y", "yes", "1"))
_FALSE = frozenset(("f", "false", "n", "no", "0"))

# ------------------------------------------------------------------------------------------------------------ to text


def to_text(source: AtomicType, target: AtomicType) -> Cast | None:
    """Print values like Java, truncated or padded to the length; dates and times can only become a STRING."""
    plain = plain_text(source)
    if source.root in ("DATE", "TIME", *TIMESTAMP_ROOTS):
        return plain if target.root == "VARCHAR" and target.length == MAX_LENGTH else None
    return lambda array: of_length(plain(array), target)


def of_length(array: Any, target: AtomicType) -> Any:
    if target.length < MAX_LENGTH:
        array = pc.utf8_slice_codeunits(array, 0, target.length)
    return pc.utf8_rpad(array, target.length, " ") if target.root == "CHAR" else array


def plain_text(source: AtomicType) -> Cast:
    match source.root:
        case "FLOAT" | "DOUBLE":
            single = source.root == "FLOAT"
            return lambda array: by_value(array, lambda v: float_text(v, single=single), pa.string())
        case "DECIMAL":
            return lambda array: by_value(array, "{:f}".format, pa.string())
        case "TIME":
            return lambda array: by_value(array, lambda v: time_sql(v, source.precision), pa.string())
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            # Arrow prints all digits of the unit; trailing zeros beyond the precision are removed.
            zeros = rf"(\.[0-9]{{{source.precision}}}[0-9]*?)0+$"
            return lambda array: pc.replace_substring_regex(
                pc.replace_substring_regex(_naive(array).cast(pa.string()), zeros, r"\1"), r"\.$", ""
            )
        case _:
            return lambda array: array.cast(pa.string())


def _naive(array: Any) -> Any:
    return array.view(pa.timestamp(array.type.unit))


def nested_text(source: DataType) -> Cast | None:
    """Print ARRAY, MAP and ROW as `[1, null]`, `{a -> 1}`, `{1, x}`; None if a part cannot become text.

    >>> as_text = nested_text(MapType(AtomicType("INT"), ArrayType(AtomicType("BOOLEAN"))))
    >>> as_text(pa.array([[(1, [True, None])], [], None], pa.map_(pa.int32(), pa.list_(pa.bool_())))).to_pylist()
    ['{1 -> [true, null]}', '{}', None]
    """
    match source:
        case AtomicType(root="BINARY" | "VARBINARY"):
            return lambda array: array.cast(pa.string())
        case AtomicType(root="VARIANT" | "BLOB" | "GEOMETRY" | "GEOGRAPHY"):
            return None
        case AtomicType():
            return plain_text(source)
        case ArrayType(element=element):
            each = nested_text(element)
            return None if each is None else lambda array: _listed(array, each(array.values), "[]")
        case MapType(key=key, value=value):
            keys, values = nested_text(key), nested_text(value)
            if keys is None or values is None:
                return None
            return lambda array: _listed(array, _joined([keys(array.keys), values(array.items)], " -> "), "{}")
        case RowType(fields=fields):
            parts = [nested_text(field.type) for field in fields]
            if any(part is None for part in parts):
                return None
            return lambda array: _row_text(array, [part(array.field(i)) for i, part in enumerate(parts) if part])
        case _:
            return None


def _joined(parts: list[Any], separator: str) -> Any:
    return pc.binary_join_element_wise(*(pc.fill_null(part, "null") for part in parts), separator)


def _bracketed(array: Any, inner: Any, brackets: str) -> Any:
    whole = pc.binary_join_element_wise(brackets[0], inner, brackets[1], "")
    return pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.string()))


def _row_text(array: Any, parts: list[Any]) -> Any:
    return _bracketed(array, _joined(parts, ", "), "{}")


def _listed(array: Any, elements: Any, brackets: str) -> Any:
    lists = pa.ListArray.from_arrays(array.offsets, pc.fill_null(elements, "null"))
    return _bracketed(array, pc.binary_join(lists, ", "), brackets)


# ---------------------------------------------------------------------------------------------------------- from text


def _parsed(parse: Callable[[str], Any], target: str, arrow: Any) -> Cast:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise CastFailure(f"{text!r} is not a valid {target}: {error}") from error

    return lambda array: by_value(array, convert, arrow)


def _all(array: Any, pattern: str) -> bool:
    return pc.all(pc.match_substring_regex(array, pattern)).as_py() is not False


def to_boolean(array: Any) -> Any:
    """Parse t, true, y, yes, 1 and their opposites, in any case."""
    return _parsed(_boolean, "BOOLEAN", pa.bool_())(array)


def _boolean(text: str) -> bool:
    folded = text.lower()
    if folded not in _TRUE | _FALSE:
        raise ValueError("it is neither true nor false")
    return folded in _TRUE


_INTEGER = re.compile(r"([+-]?)(?:([0-9]+)(?:\.[0-9]*)?|\.[0-9]*)", re.ASCII)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


def to_integer(target: AtomicType) -> Cast:
    """Parse digits after an optional sign. A fraction is checked and dropped; blanks and numbers out of range fail."""
    bits, arrow = _BITS[target.root], to_arrow(target)

    def parse(text: str) -> int:
        found = _INTEGER.fullmatch(text)
        if found is None:
            raise ValueError("not a number")
        number = int(found[1] + (found[2] or "0"))
        if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
            raise ValueError("it is out of range")
        return number

    slowly = _parsed(parse, target.root, arrow)
    plain = rf"^-?[0-9]{{1,{len(str(2 ** (bits - 1))) - 1}}}$"
    return lambda array: array.cast(arrow) if _all(array, plain) else slowly(array)


_BLANKS = "".join(map(chr, range(33)))
_FLOAT = re.compile(r"[+-]?(?:NaN|Infinity|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)", re.ASCII)
_HEX_FLOAT = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?", re.ASCII)


def to_double(target: AtomicType) -> Cast:
    """Parse like Java's `parseDouble`, with blanks around, a type letter, `NaN`, `Infinity` and hexadecimal numbers."""
    slowly = _parsed(_double, target.root, pa.float64())

    def cast(array: Any) -> Any:
        plain = _all(array, r"^-?[0-9]{1,300}(\.[0-9]{1,20})?$")
        return (array.cast(pa.float64()) if plain else slowly(array)).cast(to_arrow(target), safe=False)

    return cast


def _double(text: str) -> float:
    text = text.strip(_BLANKS)
    found = _HEX_FLOAT.fullmatch(text)
    if found is not None:
        return float.fromhex(found[1])
    if _FLOAT.fullmatch(text) is None:
        raise ValueError("not a number")
    return float(text if text.endswith(("N", "y")) else text.rstrip("fFdD"))


_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)


def to_decimal(target: AtomicType) -> Cast:
    """Parse and round half up to the scale; null if the digits before the point do not fit."""
    step = Decimal(1).scaleb(-target.scale)

    def parse(text: str) -> Decimal | None:
        if _DECIMAL.fullmatch(text) is None:
            raise ValueError("not a number")
        number = Decimal(text)
        if number and number.adjusted() > target.precision:
            return None
        if number and number.adjusted() < -target.scale - 1:
            return Decimal(0).quantize(step)
        rounded = number.quantize(step, ROUND_HALF_UP, Context(prec=len(text) + 100))
        return rounded if abs(rounded.scaleb(target.scale, Context(prec=120))) < 10**target.precision else None

    return _parsed(parse, sql(target), to_arrow(target))


# ----------------------------------------------------------------------------------------------------- dates and times

_NUMERIC = re.compile(r"-?[0-9]+", re.ASCII)
_DIGITS = re.compile(r"[0-9]+", re.ASCII)


def to_date(array: Any) -> Any:
    """Parse `y`, `y-m` or `y-m-d` up to a blank; digits alone are days since 1970."""
    if _all(array, r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])$"):
        return array.cast(pa.date32())
    return _parsed(_day, "DATE", pa.int32())(array).view(pa.date32())


def _day(text: str) -> int:
    if _NUMERIC.fullmatch(text):
        return int(text)
    head, blank, _ = text.partition(" ")
    parts = (head if head and blank else text).split("-", 2)
    year, month, day = [*map(_whole, parts), 1, 1][:3]
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if not (0 <= year <= 9999 and 1 <= month <= 12 and 1 <= day <= _month_days(month, leap)):
        raise ValueError("there is no such day")
    return days_of(year, month, day)


def _month_days(month: int, leap: bool) -> int:
    return (29 if leap else 28) if month == 2 else 30 if month in (4, 6, 9, 11) else 31


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC.

    >>> days_of(1970, 1, 1), days_of(0, 1, 1)
    (0, -719528)
    """
    shift = (14 - month) // 12
    y, m = year + 4800 - shift, month + 12 * shift - 3
    return day + (153 * m + 2) // 5 + 365 * y + y // 4 - y // 100 + y // 400 - 32045 - 2_440_588


def _whole(text: str) -> int:
    stripped = text.strip(_BLANKS)
    if not _DIGITS.fullmatch(stripped):
        raise ValueError(f"{text!r} is not a number")
    return int(stripped)


def to_time(array: Any) -> Any:
    """Parse `h`, `h:m`, `h:m:s[.fraction]` with an offset; digits alone are milliseconds of the day."""
    return _parsed(_time_of_day, "TIME", pa.int32())(array).view(pa.time32("ms"))


def _time_of_day(text: str) -> int:
    """Apache Paimon accepts 25:00, but Arrow readers do not."""
    millis = int(text) if _NUMERIC.fullmatch(text) else _millis(text)
    if not 0 <= millis < MILLIS_PER_DAY:
        raise ValueError("there is no such time of day")
    return millis


def _millis(text: str) -> int:
    sign = -1 if "-" in text else 1
    clock, _, zone = text.partition("-" if sign < 0 else "+")
    offset = [*map(_whole, zone.split(":", 1)), 0][:2] if ("-" in text or "+" in text) else [0, 0]
    parts = clock.split(":", 2)
    millis = 0
    if len(parts) == 3 and "." in parts[2]:
        parts[2], _, fraction = parts[2].partition(".")
        millis = _fraction_millis(fraction.strip(_BLANKS))
    hour, minute, second = [*map(_whole, parts), 0, 0][:3]
    return ((hour + sign * offset[0]) * 60 + minute + sign * offset[1]) * 60_000 + second * 1000 + millis


def _fraction_millis(digits: str) -> int:
    """Three digits, rounded by the fourth; other characters count as 0."""
    padded = "".join(c if c in "0123456789" else "0" for c in digits[:3]).ljust(3, "0")
    return int(padded) + (len(digits) > 3 and digits[3] >= "5")


_CLOCK = r"([0-9]{1,2}):([0-9]{1,2})"
_SECONDS = r":([0-9]{1,2})(?:\.([0-9]{0,9}))?"
_MOMENT = re.compile(
    rf"([0-9]{{4}})-([0-9]{{1,2}})-([0-9]{{1,2}})(?: {_CLOCK}{_SECONDS}|T{_CLOCK}(?:{_SECONDS})?)?", re.ASCII
)
_STEPS = {0: 1_000_000_000, 3: 1_000_000, 6: 1_000, 9: 1}
"""Precision of the TIMESTAMP -> unit of a text of digits, in nanoseconds."""


def to_timestamp(target: AtomicType) -> Cast:
    """Parse `y-m-d` and a time after a blank or T; digits alone are in the unit of a TIMESTAMP(0), (3), (6) or (9)."""
    arrow = to_arrow(target)
    unit, step = NANOS_PER_UNIT[arrow.unit], 10 ** (9 - target.precision)

    def parse(text: str) -> int:
        if target.root == "TIMESTAMP" and _NUMERIC.fullmatch(text):
            if target.precision not in _STEPS:
                raise ValueError(f"no unit has {target.precision} digits")
            return int(text) * _STEPS[target.precision] // unit
        moment: int = _moment(text) // step * step // unit
        return moment

    return _parsed(parse, sql(target), arrow)


def _moment(text: str) -> int:
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError("not a date and time")
    year, month, day = (int(found[i]) for i in (1, 2, 3))
    hour, minute, second = (int(found[i] or found[i + 4] or 0) for i in (4, 5, 6))
    nanos = int((found[7] or found[11] or "").ljust(9, "0"))
    ends_the_day = hour == 24 and minute == second == nanos == 0
    if not (year >= 1 and 1 <= month <= 12 and 1 <= day <= 31 and minute < 60 and second < 60):
        raise ValueError("there is no such moment")
    if hour > 23 and not ends_the_day:
        raise ValueError("there is no such hour")
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = days_of(
        year, month, min(day, _month_days(month, leap))
    )  # Java replaces a later day by the last one of the month
    return (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + nanos
