"""Converts literals that users write to values of a column's type.

Owns: the coercion of literals: Python objects, ISO text, NumPy and pandas scalars; what a time without a zone means. Must not
know: predicates, partitions, Arrow columns, names of time zones. Sources: format/binary-row §3; architecture §5.

Invariants: A literal is never truncated or rounded, except to the nearest FLOAT or DOUBLE. One that does not fit raises
`InvalidArgument`, which names the column and the value. Coercing a value twice changes nothing. A time without a zone
never becomes an instant by a guess: either the caller names the zone that its users mean, or the literal is refused.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any

from ..errors import InvalidArgument
from .dates import AnyDate, FarDate, date_to_days, days_to_date, parsed_date
from .java_text import timestamp_sql
from .types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, DataType, sql
from .values import (
    NANOS_PER_SECOND,
    SECONDS_PER_DAY,
    datetime_to_nanos,
    decimal_of,
    decimal_unscaled,
)

INTEGER_BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}

_WHOLE = re.compile(r"[+-]?[0-9]+")
_TIME_PART = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?"
_TIME = re.compile(_TIME_PART)
_TIMESTAMP = re.compile(
    rf"([+-]?[0-9]{{4,7}}-[0-9]{{2}}-[0-9]{{2}})(?:[Tt ]{_TIME_PART})?\s*([Zz]|[+-][0-9]{{2}}:?[0-9]{{2}})?"
)
_NANOS_OF_NUMPY = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "D": 86400 * 10**9,
}


class Nanos(int):
    """A coerced time of a clock on the wall, in nanoseconds since 1970. A plain int is rejected, because its unit is unknown."""


class Instant(Nanos):
    """A coerced point in time, in nanoseconds since 1970 in UTC."""


class _NoZone(Exception):
    """A time without a zone is compared with points in time, and nobody says which zone is meant."""


def integer_range(root: str) -> tuple[int, int]:
    """The smallest and largest value of an integer type.

    >>> integer_range("TINYINT")
    (-128, 127)
    """
    bits = INTEGER_BITS[root]
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def coerce_literal(value: Any, data_type: DataType, where: str, zone: dt.tzinfo | None = None) -> Any:
    """A literal as a value of the column, in the form of the module `values`. Raises InvalidArgument where it does not fit.

    Args:
        value: None, a Python object, a NumPy, pandas or Arrow scalar, or text (ISO for dates and times, digits for numbers).
        zone: for TIMESTAMP WITH LOCAL TIME ZONE, the zone of text and dates that have none, as in SQL. A time that the
            zone skips is moved forward by what was skipped, and of two that have the same text the earlier is meant.
            None refuses them. A datetime object without a zone is always refused, because even PySpark takes it for a
            time in another zone than text.

    >>> from .types import decimal, timestamp
    >>> coerce_literal("1.5", decimal(10, 2), "column 'd'")
    Decimal('1.50')
    >>> coerce_literal("1970-01-01 00:00:01", timestamp(3), "column 't'")
    1000000000
    >>> coerce_literal("1970-01-01 00:00:01+00:00", timestamp(3, local_zone=True), "column 't'")
    1000000000
    """
    value = plain_scalar(value)
    if value is None:
        return None
    coercion = _COERCIONS.get(data_type.root) if isinstance(data_type, AtomicType) else None
    if coercion is None or not isinstance(data_type, AtomicType):
        raise InvalidArgument(
            f"{where} is of type {sql(data_type)}, which cannot be compared",
            next_step="only IS NULL and IS NOT NULL can test it",
        )
    if data_type.root == "TIMESTAMP_LTZ" and zone is not None:
        coercion = partial(_timestamp, zone=zone)
    try:
        return coercion(value, data_type)
    except _NoZone:
        raise InvalidArgument(
            f"{where}: {_shown(value)} has no zone, so it names no point in time", next_step=_with_zone(value)
        ) from None
    except (ValueError, TypeError, OverflowError, InvalidOperation) as error:
        detail = "" if isinstance(error, InvalidOperation) else f": {error}"
        raise InvalidArgument(f"{where} is of type {sql(data_type)}, and {value!r} does not fit it{detail}") from error


def plain_scalar(value: Any) -> Any:
    kind = type(value)
    if kind.__name__ in ("NAType", "NaTType"):
        return None
    if kind.__module__.partition(".")[0] == "numpy":
        if kind.__name__ == "datetime64":
            return _numpy_datetime(value)
        return value.item()
    if kind.__module__ == "pyarrow.lib" and hasattr(value, "as_py"):
        if value.is_valid and str(value.type).startswith("timestamp["):
            kind_of_time = Nanos if value.type.tz is None else Instant
            return kind_of_time(value.value * _NANOS_OF_NUMPY[value.type.unit])
        return value.as_py()
    return value


def _numpy_datetime(value: Any) -> Any:
    unit = value.dtype.str.partition("[")[2].rstrip("]")
    if str(value) == "NaT":
        return None
    if unit not in _NANOS_OF_NUMPY:
        return value.item()
    return Nanos(int(value.astype("int64")) * _NANOS_OF_NUMPY[unit])


# ------------------------------------------------------------------------------------------------------------ numbers


def exact_number(value: Any) -> Decimal | int:
    """A float means the shortest decimal that prints it. Raises ValueError for what is not a finite number.

    >>> exact_number(0.1), exact_number("-3")
    (Decimal('0.1'), -3)
    """
    if isinstance(value, bool):
        raise ValueError("a number is needed")
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if _WHOLE.fullmatch(text) else Decimal(text)
    elif isinstance(value, float):
        value = Decimal(repr(value))
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError("a finite number is needed")
    if not isinstance(value, (int, Decimal)):
        raise ValueError("a number is needed")
    return value


def _integer(value: Any, data_type: AtomicType) -> int:
    exact = exact_number(value)
    whole = decimal_unscaled(exact, 0) if isinstance(exact, Decimal) else exact
    low, high = integer_range(data_type.root)
    if not low <= whole <= high:
        raise ValueError(f"it is outside the range {low} to {high}")
    return whole


def _decimal(value: Any, data_type: AtomicType) -> Decimal:
    unscaled = decimal_unscaled(Decimal(exact_number(value)), data_type.scale)
    if abs(unscaled) >= 10**data_type.precision:
        raise ValueError(f"it has more than {data_type.precision} digits")
    return decimal_of(unscaled, data_type.scale)


def _double(value: Any, data_type: AtomicType) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        raise ValueError("a number is needed")
    number = float(value)
    if number != number:
        return math.nan  # always the same object, so that equal predicates compare equal
    return number if data_type.root == "DOUBLE" else struct.unpack("<f", struct.pack("<f", number))[0]


def _boolean(value: Any, _: AtomicType) -> bool:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError("true or false is needed")
    return value


# -------------------------------------------------------------------------------------------------- text, date, time


def _string(value: Any, _: AtomicType) -> str:
    if not isinstance(value, str):
        raise ValueError("text is needed")
    value.encode()  # fails for a lone surrogate, which the format cannot store
    return value


def _binary(value: Any, _: AtomicType) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise ValueError("bytes are needed, which SQL writes as X'00ff'")


def _date(value: Any, _: AtomicType) -> AnyDate:
    if isinstance(value, str) and (found := parsed_date(value.strip())) is not None:
        return found
    if isinstance(value, Nanos) and not isinstance(value, Instant):
        days, rest = divmod(int(value), SECONDS_PER_DAY * NANOS_PER_SECOND)
        if not rest:
            return days_to_date(days)
    if isinstance(value, dt.datetime):
        if value.tzinfo is None and value.time() == dt.time():
            return value.date()
    elif isinstance(value, (dt.date, FarDate)):
        return value
    raise ValueError("a date is needed, such as '2024-07-05'")


def _time(value: Any, _: AtomicType) -> dt.time:
    if isinstance(value, str) and (found := _TIME.fullmatch(value.strip())):
        nanos = _fraction_nanos(found[4])
        value = dt.time(int(found[1]), int(found[2]), int(found[3] or 0), nanos // 1000)
        if nanos % 1000:
            raise ValueError("whole milliseconds are needed")
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise ValueError("a time of day is needed, such as '12:34:56.789'")
    if value.microsecond % 1000:
        raise ValueError("whole milliseconds are needed")
    return value


def _timestamp(value: Any, data_type: AtomicType, zone: dt.tzinfo | None = None) -> Nanos:
    nanos, has_zone, may_be_local = _time_given(value)
    if data_type.root == "TIMESTAMP":
        if has_zone:
            raise ValueError("the column has no time zone")
        return Nanos(nanos)
    if has_zone:
        return Instant(nanos)
    if zone is None or not may_be_local:
        raise _NoZone
    return Instant(nanos - _offset_nanos(nanos, zone))


def _time_given(value: Any) -> tuple[int, bool, bool]:
    if isinstance(value, Nanos):
        return int(value), isinstance(value, Instant), False
    if isinstance(value, str) and (found := _TIMESTAMP.fullmatch(value.strip())):
        return _parsed_nanos(found), bool(found[6]), True
    if isinstance(value, dt.datetime):
        return datetime_to_nanos(value), value.tzinfo is not None, False
    if isinstance(value, (dt.date, FarDate)):
        return date_to_days(value) * SECONDS_PER_DAY * NANOS_PER_SECOND, False, True
    raise ValueError("a datetime is needed, or text such as '2024-07-05 12:34:56.789'")


def _offset_nanos(nanos: int, zone: dt.tzinfo) -> int:
    """By how much the zone's clock is ahead of UTC when it shows a time; of two offsets the one before the change counts."""
    clock = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=nanos // NANOS_PER_SECOND)
    offset = clock.replace(tzinfo=zone).utcoffset()
    if offset is None:
        raise ValueError(f"the zone {zone} has no offset at this time")
    return (offset.days * SECONDS_PER_DAY + offset.seconds) * NANOS_PER_SECOND


def _shown(value: Any) -> str:
    if isinstance(value, Nanos):
        return f"'{timestamp_sql(value, 0)}'"
    return f"'{value}'" if isinstance(value, (dt.date, FarDate)) else repr(value)


def _with_zone(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return "give it a zone, for example value.replace(tzinfo=timezone.utc), or write text such as '2024-07-05 12:00:00Z'"
    text = timestamp_sql(_time_given(value)[0], 0)
    return f"write the text '{text}Z' for UTC, or with another offset '{text}+02:00'"


def _parsed_nanos(found: re.Match[str]) -> int:
    clock = dt.time(int(found[2] or 0), int(found[3] or 0), int(found[4] or 0))
    date = parsed_date(found[1])
    assert date is not None
    seconds = date_to_days(date) * SECONDS_PER_DAY
    seconds += (clock.hour * 60 + clock.minute) * 60 + clock.second
    zone = found[6]
    if zone and zone not in "Zz":
        digits = zone[1:].replace(":", "")
        offset = (int(digits[:2]) * 60 + int(digits[2:])) * 60
        seconds += offset if zone[0] == "-" else -offset
    return seconds * NANOS_PER_SECOND + _fraction_nanos(found[5])


def _fraction_nanos(digits: str | None) -> int:
    return int((digits or "0").ljust(9, "0"))


_COERCIONS: dict[str, Callable[[Any, AtomicType], Any]] = {
    "BOOLEAN": _boolean,
    "FLOAT": _double,
    "DOUBLE": _double,
    "DECIMAL": _decimal,
    "DATE": _date,
    "TIME": _time,
    **dict.fromkeys(INTEGER_ROOTS, _integer),
    **dict.fromkeys(STRING_ROOTS, _string),
    **dict.fromkeys(BINARY_ROOTS, _binary),
    **dict.fromkeys(TIMESTAMP_ROOTS, _timestamp),
}
