"""The values of a table as Python objects: their form, their order, and their conversion from and to Arrow.

Owns: the Python form of every atomic type, the format's order of values, and the lossless conversion from and to Arrow.
Must not know: bytes of rows, files, literals of users (see `literals`). Source: format/binary-row §1, §2.

| type | Python form |
|---|---|
| BOOLEAN, integers, FLOAT, DOUBLE, strings, binaries | `bool`, `int`, `float`, `str`, `bytes` |
| DECIMAL | `decimal.Decimal` with the type's scale |
| DATE, TIME | `datetime.date` or, outside the years 1 to 9999, `FarDate`; `datetime.time` of whole milliseconds |
| TIMESTAMP, TIMESTAMP_LTZ | `int`: nanoseconds since 1970-01-01T00:00 (UTC for LTZ); it never overflows |

Invariant: `column_values(to_arrow_array(v, t, a), t) == v`. Null is None everywhere.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

from ..errors import InvalidArgument, Unsupported
from .dates import FarDate, date_to_days, days_to_date
from .types import TIMESTAMP_ROOTS, AtomicType, DataType, sql

NANOS_PER_UNIT = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
NANOS_PER_MILLI = 1_000_000
NANOS_PER_SECOND = 1_000_000_000
SECONDS_PER_DAY = 86_400
MILLIS_PER_DAY = 86_400_000
EXACT = Context(prec=120)
"""A context with enough digits for every value of the format; the default context rounds to 28 digits."""


def root_of(data_type: DataType) -> str:
    return data_type.root if isinstance(data_type, AtomicType) else ""


# ------------------------------------------------------------------------------------------------------ date and time


def time_to_millis(value: dt.time) -> int:
    """Milliseconds of the day; digits below a millisecond are dropped."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def millis_to_time(millis: int) -> dt.time:
    if not 0 <= millis < MILLIS_PER_DAY:
        raise ValueError(f"millisecond {millis} is not a time of day")
    seconds, milli = divmod(millis, 1000)
    return dt.time(seconds // 3600, seconds // 60 % 60, seconds % 60, milli * 1000)


def datetime_to_nanos(value: dt.datetime) -> int:
    """Nanoseconds since 1970 of a wall clock time, or of the instant if there is a zone; includes pandas' nanoseconds."""
    if value.tzinfo is not None:
        value = value.astimezone(dt.timezone.utc)
    seconds = date_to_days(value) * SECONDS_PER_DAY + (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * NANOS_PER_SECOND + value.microsecond * 1000 + int(getattr(value, "nanosecond", 0))


# -------------------------------------------------------------------------------------------------------------- order


def order_key(value: Any) -> Any:
    """A sort key that gives the format's order of non-null values of one type (format/binary-row §2).

    FLOAT and DOUBLE compare as in Java: NaN equals itself and is larger than all others, and -0.0 is below 0.0. Text
    compares by code point, which is the order of its UTF-8 bytes.

    >>> sorted([float("nan"), 0.0, -0.0, float("inf"), -1.0], key=order_key)
    [-1.0, -0.0, 0.0, inf, nan]
    """
    if isinstance(value, float):
        if value != value:
            return (1, 0.0, 0)
        return (0, value, int(math.copysign(1, value)) if value == 0 else 0)
    return value


def sql_key(value: Any) -> Any:
    """A sort key that gives SQL's order: that of `order_key`, but -0.0 and 0.0 are one value.

    >>> sql_key(-0.0) == sql_key(0.0) < sql_key(float("nan"))
    True
    """
    return order_key(0.0 if isinstance(value, float) and value == 0 else value)


# -------------------------------------------------------------------------------------------------------- from Arrow


_OWN_FORMS = frozenset((*TIMESTAMP_ROOTS, "DATE", "TIME"))


def plain_array(array: Any) -> Any:
    """Dictionaries and views become ordinary arrays, which all of Arrow's kernels support."""
    import pyarrow as pa

    kinds = pa.types
    if kinds.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if kinds.is_string_view(array.type):
        return array.cast(pa.large_string())
    if kinds.is_binary_view(array.type):
        return array.cast(pa.large_binary())
    return array


def column_values(array: Any, data_type: DataType) -> list[Any]:
    """The values of an array in their Python form; of types with parts, Arrow's own objects. Raises InvalidArgument for
    a TIME that is not of whole milliseconds.

    >>> import pyarrow as pa
    >>> from .types import timestamp
    >>> column_values(pa.array([0, None], pa.timestamp("us")), timestamp(6))
    [0, None]
    """
    import pyarrow as pa

    array = plain_array(array)
    root = root_of(data_type)
    if root in TIMESTAMP_ROOTS and pa.types.is_timestamp(array.type):
        factor = NANOS_PER_UNIT[array.type.unit]
        return [None if v is None else v * factor for v in array.cast(pa.int64()).to_pylist()]
    try:
        if root == "DATE" and not pa.types.is_int32(array.type):
            return _mapped(array.cast(pa.date32()).cast(pa.int32()), days_to_date)
        if root == "DATE":
            return _mapped(array, days_to_date)
        if root == "TIME":
            as_millis = array if pa.types.is_int32(array.type) else array.cast(pa.time32("ms")).cast(pa.int32())
            return _mapped(as_millis, millis_to_time)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InvalidArgument(f"a value is not a valid {sql(data_type)}: {error}") from error
    return array.to_pylist()  # type: ignore[no-any-return]


def _mapped(array: Any, convert: Any) -> list[Any]:
    return [None if v is None else convert(v) for v in array.to_pylist()]


def arrow_scalar_value(scalar: Any, data_type: DataType) -> Any:
    import pyarrow as pa

    if not scalar.is_valid:
        return None
    if root_of(data_type) not in _OWN_FORMS:
        return scalar.as_py()
    # Converts an array of one value, because `datetime` has no nanoseconds.
    return column_values(pa.repeat(scalar, 1), data_type)[0]


# ---------------------------------------------------------------------------------------------------------- to Arrow


def to_arrow_array(values: Sequence[Any], data_type: DataType, arrow_type: Any) -> Any:
    """An Arrow array of values in the form of this module. Raises Unsupported for a TIMESTAMP that the unit cannot
    hold, InvalidArgument for a value that does not fit the type.
    """
    import pyarrow as pa

    root = root_of(data_type)
    try:
        if root in TIMESTAMP_ROOTS:
            factor = NANOS_PER_UNIT[arrow_type.unit]
            if any(v is not None and v % factor for v in values):
                raise InvalidArgument(f"a value of type {sql(data_type)} has more digits than Arrow's {arrow_type}")
            return pa.array([None if v is None else v // factor for v in values], pa.int64()).cast(arrow_type)
        if root == "TIME":
            millis = [None if v is None else time_to_millis(v) for v in values]
            return pa.array(millis, pa.int32()).cast(pa.time32("ms")).cast(arrow_type)
        if any(isinstance(v, FarDate) for v in values):
            days = [None if v is None else date_to_days(v) for v in values]
            return pa.array(days, pa.int32()).cast(pa.date32()).cast(arrow_type)
        return pa.array(values, type=arrow_type)
    except OverflowError as error:
        raise Unsupported(
            f"a value of type {sql(data_type)} does not fit Arrow's {arrow_type}: {error}", next_step=""
        ) from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, AttributeError) as error:
        raise InvalidArgument(f"a value is not a valid {sql(data_type)}: {error}") from error


def to_arrow_scalar(value: Any, data_type: DataType, arrow_type: Any) -> Any:
    return to_arrow_array([value], data_type, arrow_type)[0]


def decimal_unscaled(value: Decimal, scale: int) -> int:
    """The unscaled integer at a scale. Raises ValueError where the value is not finite or has more digits after the point.

    >>> decimal_unscaled(Decimal("1.50"), 3)
    1500
    """
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    shifted = value.scaleb(scale, EXACT)
    whole = int(shifted)
    if whole != shifted:
        raise ValueError(f"{value} has more than {scale} digits after the point")
    return whole


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """The decimal with this unscaled integer and exactly this scale.

    >>> decimal_of(150, 2)
    Decimal('1.50')
    """
    return Decimal(unscaled).scaleb(-scale, EXACT)
