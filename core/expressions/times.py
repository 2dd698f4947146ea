"""Points in time as times of a clock on the wall, and back, for whole columns.

Owns: `local_of`, `instant_of`, and what they need of a zone. Must not know: the tree, SQL text.
Source: format/binary-row §1. Invariants: A time that the zone's clock skips is moved forward by what was skipped, and of two
instants that the clock shows alike the earlier is meant, as for literals (core/rows/literals). A zone is asked once for each day
that occurs, and for each moment of a day on which its offset changes.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..rows.values import NANOS_PER_SECOND, NANOS_PER_UNIT, SECONDS_PER_DAY

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_FIRST, _LAST = -62_135_596_800 + SECONDS_PER_DAY, 253_402_300_799 - SECONDS_PER_DAY
"""The seconds since 1970 of the years that Python's clock knows. Beyond them a zone has the offset of the last day."""


def local_of(values: Any, zone: dt.tzinfo) -> Any:
    return _moved(values, zone, None)


def instant_of(values: Any, zone: dt.tzinfo) -> Any:
    if pa.types.is_date(values.type):
        values = pc.cast(values, pa.timestamp("us"))
    return _moved(values, zone, "UTC")


def _moved(values: Any, zone: dt.tzinfo, label: str | None) -> Any:
    if isinstance(values, pa.Scalar):
        return _moved(pa.array([values.as_py() if not values.is_valid else values], values.type), zone, label)[0]
    unit = values.type.unit
    per_second = NANOS_PER_SECOND // NANOS_PER_UNIT[unit]
    ticks = pc.fill_null(values.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    seconds = np.clip(ticks // per_second, _FIRST, _LAST)
    offsets = _offsets(seconds, zone, shown=label is not None)
    moved = ticks - offsets * per_second if label is not None else ticks + offsets * per_second
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(moved, pa.int64(), mask=nulls).cast(pa.timestamp(unit, label))


def _offsets(seconds: Any, zone: dt.tzinfo, shown: bool) -> Any:
    """How many seconds the zone's clock is ahead, at times in UTC or, if `shown`, as the clock shows them."""

    def offset(at: int) -> int:
        moment = _EPOCH + dt.timedelta(seconds=at)
        there = moment.replace(tzinfo=zone) if shown else moment.astimezone(zone)
        found = there.utcoffset() or dt.timedelta()
        return found.days * SECONDS_PER_DAY + found.seconds

    days, which = np.unique(seconds // SECONDS_PER_DAY, return_inverse=True)
    ends = [(offset(day * SECONDS_PER_DAY), offset((day + 1) * SECONDS_PER_DAY)) for day in days.tolist()]
    found = np.array([first for first, _ in ends], np.int64)[which]
    changing = np.array([first != last for first, last in ends], bool)[which]
    if changing.any():
        moments, places = np.unique(seconds[changing], return_inverse=True)
        found[changing] = np.array([offset(at) for at in moments.tolist()], np.int64)[places]
    return found
