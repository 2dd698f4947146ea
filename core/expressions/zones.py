"""The zone of the clock that a condition or a value speaks of.

Owns: `in_zone`, `zone_of`. Must not know: columns, evaluation, the zone of a Spark session.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from ..arguments import text
from ..errors import InvalidArgument
from .sql import parse_expression
from .tree import Expression, InZone


def in_zone(expression: Expression | str, time_zone: str) -> Expression:
    """A condition or a value in which dates, and times without a zone, are those of a time zone.

    It is taken wherever conditions and values are: `where` of reads and changes, the clauses of a merge, `set` of an update.

    Args:
        expression: SQL text, or a condition made with `ll.col`.
        time_zone: a region such as `Europe/Berlin`, or an offset such as `+02:00`.

    Raises:
        InvalidArgument: it is no SQL and no condition, or there is no such zone.

    >>> import pyarrow as pa, lakelatch as ll
    >>> table = ll.create_table("memory://zone-doctest/t", pa.schema([("t", pa.timestamp("us", "UTC"))]))
    >>> receipt = table.append(pa.table({"t": pa.array(["2026-06-30T22:30:00Z", "2026-07-01T22:30:00Z"])}))
    >>> table.count(ll.in_zone("CAST(t AS DATE) = DATE '2026-07-01'", "Europe/Berlin"))
    1
    """
    return InZone(parse_expression(expression), zone_of(time_zone))


def zone_of(name: str) -> tzinfo:
    """A time zone by its name or its offset. Raises InvalidArgument where there is none of this name.

    >>> zone_of("Europe/Berlin"), zone_of("-03:30").utcoffset(None)
    (zoneinfo.ZoneInfo(key='Europe/Berlin'), datetime.timedelta(days=-1, seconds=73800))
    """
    text(name, "time_zone")
    try:
        found = datetime.strptime(name, "%z").tzinfo if name[:1] in ("+", "-") else None
        return found or ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise InvalidArgument(
            f"time_zone {name!r} is not known",
            next_step="use a name such as Europe/Berlin, or an offset such as +02:00",
        ) from error
