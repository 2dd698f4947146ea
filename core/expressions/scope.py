"""Where an expression is computed: what it is for, and the zone in which points in time are times of the clock.

Owns: `Scope`, the passage between points in time and times of the clock, and texts that are read as another type. Must not know:
the tree, functions.
Source: architecture §5. Invariant: without a zone, a point in time is never taken for a time of the clock, nor the reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..rows.literals import coerce_literal
from ..rows.types import timestamp
from ..rows.values import to_arrow_scalar
from .times import instant_of, local_of


@dataclass(frozen=True)
class Scope:
    """What an expression is for (for errors), and the zone of times without one; None refuses what depends on it."""

    where: str
    zone: tzinfo | None = None

    def __str__(self) -> str:
        return self.where


def is_instant(value: Any) -> bool:
    return bool(pa.types.is_timestamp(value.type) and value.type.tz is not None)


def _needed_zone(scope: Scope) -> tzinfo:
    if scope.zone is None:
        raise InvalidArgument(
            f"{scope}: a TIMESTAMP WITH LOCAL TIME ZONE is a date or a time of the clock only in a time zone, and none is given",
            next_step="compare it with points in time, such as '2024-07-05 00:00:00Z'; or name a zone: ll.in_zone, --time-zone",
        )
    region: tzinfo = getattr(scope.zone, "region", scope.zone)  # a zone that is asked at a cost has one for many rows
    return region


def as_local(scope: Scope, value: Any) -> Any:
    """A time without a zone: of a point in time, what the clock shows in the zone of the scope."""
    return local_of(value, _needed_zone(scope)) if is_instant(value) else value


def as_instant(scope: Scope, value: Any) -> Any:
    """A point in time: of a date or a time of the clock, when the clock shows it in the zone of the scope."""
    return value if is_instant(value) else instant_of(value, _needed_zone(scope))


def read_as(where: Scope, text: pa.Scalar, target: pa.DataType) -> pa.Scalar:
    try:
        if pa.types.is_timestamp(target) and target.tz is not None:
            kind = timestamp(9, local_zone=True)
            return to_arrow_scalar(coerce_literal(text.as_py(), kind, str(where), where.zone), kind, target)
        return pc.cast(text, target)
    except pa.ArrowException:
        raise InvalidArgument(f"{where}: {text.as_py()!r} is no {target}") from None
