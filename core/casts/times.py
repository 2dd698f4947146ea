"""Casts between dates, times, timestamps and seconds (see `rules`).

Owns: the arithmetic. Must not know: texts. Source: format/schema §5; decision 11.
Invariants: The local zone is UTC, wherever the process runs. Numbers are used instead of `datetime`, so no value is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..rows.arrow import to_arrow
from ..rows.types import AtomicType
from ..rows.values import MILLIS_PER_DAY, NANOS_PER_MILLI, NANOS_PER_UNIT
from .columns import Cast, numpy_of, with_nulls_of


def timestamp_to_timestamp(source: AtomicType, target: AtomicType) -> Cast:
    """Zones are only labels. Dropped digits down to milliseconds round towards 1970, and those below round down."""
    arrow = to_arrow(target)

    def cast(array: Any) -> Any:
        unit = array.type.unit
        if target.precision >= source.precision:
            return _in_unit(array.view(pa.timestamp(unit, arrow.tz)), arrow)
        values = numpy_of(array.view(pa.int64()))
        if target.precision <= 3:
            values = _towards_zero(_millis(values, unit), 10 ** (3 - target.precision))
            unit = "ms"
        else:
            step = 10 ** (9 - target.precision) // NANOS_PER_UNIT[unit] or 1
            values = values // step * step
        exact = with_nulls_of(array, values, pa.int64()).view(pa.timestamp(unit, arrow.tz))
        return exact.cast(arrow)

    return cast


def timestamp_to_date(array: Any) -> Any:
    """The day. Apache Paimon up to 2.0 gives the next one before 1970, because it divides towards zero."""
    return with_nulls_of(array, _millis_of(array) // MILLIS_PER_DAY, pa.int32()).view(pa.date32())


def timestamp_to_time(array: Any) -> Any:
    return with_nulls_of(array, _millis_of(array) % MILLIS_PER_DAY, pa.int32()).view(pa.time32("ms"))


def timestamp_to_seconds(target: AtomicType) -> Cast:
    """Whole seconds since 1970, rounded towards zero; an INT wraps around."""
    return lambda array: with_nulls_of(array, _towards_zero(_millis_of(array), 1000) // 1000, to_arrow(target))


def seconds_to_timestamp(target: AtomicType) -> Cast:
    return lambda array: _labelled(array.cast(pa.int64()).view(pa.timestamp("s")), target)


def date_to_timestamp(target: AtomicType) -> Cast:
    return lambda array: _labelled(array.cast(pa.timestamp("s")), target)


def time_to_timestamp(target: AtomicType) -> Cast:
    return lambda array: _labelled(array.view(pa.int32()).cast(pa.int64()).view(pa.timestamp("ms")), target)


def _labelled(array: Any, target: AtomicType) -> Any:
    arrow = to_arrow(target)
    return _in_unit(array.view(pa.timestamp(array.type.unit, arrow.tz)), arrow)


def _in_unit(array: Any, arrow: Any) -> Any:
    try:
        return array.cast(arrow)
    except pa.ArrowInvalid as error:
        raise OverflowError(str(error)) from error


def _millis_of(array: Any) -> Any:
    return _millis(numpy_of(array.view(pa.int64())), array.type.unit)


def _millis(values: Any, unit: str) -> Any:
    return values // (NANOS_PER_MILLI // NANOS_PER_UNIT[unit])


def _towards_zero(values: Any, step: int) -> Any:
    return np.sign(values) * (np.abs(values) // step * step)
