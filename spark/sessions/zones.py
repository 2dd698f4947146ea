"""What a time without a zone means to Spark: a time of the session's zone.

Owns: the zone of a session, the zone that an option names, and their use for filters and partitions. Must not know: columns,
plans. Sources: format/spark §6; core/rows/literals says what becomes of a time without a zone.

Invariants: A session's zone is as Spark knows it, because the tz databases of Java and Python differ before 1970. A zone that
is not understood is an error where it is needed, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

from ...core.errors import InvalidArgument
from ...core.expressions.binding import condition_of
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.places import codec_of

_OFFSET = re.compile(r"Z|(?:UTC|GMT)?(?:([+-])([0-9]{1,2})(?::?([0-9]{2}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NO_DST = timedelta()


class SessionZone(tzinfo):
    """The zone of a session. Spark is asked, without a job, once for each time that has no zone."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._known: dict[str, timedelta] = {}

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is None:
            return None
        text = moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
        if text not in self._known:
            found = self._session.sql(f"SELECT unix_micros(TIMESTAMP_LTZ '{text}')").collect()[0][0]
            self._known[text] = moment.replace(tzinfo=timezone.utc) - _EPOCH - timedelta(microseconds=found)
        return self._known[text]

    @property
    def region(self) -> NamedZone:
        """The zone of that name, for the times of many rows, and for other machines."""
        return NamedZone(self._session.conf.get("spark.sql.session.timeZone"))

    def __reduce__(self) -> tuple[Any, ...]:
        return self.region.__reduce__()

    def dst(self, moment: datetime | None) -> timedelta | None:
        return _NO_DST

    def tzname(self, moment: datetime | None) -> str | None:
        return "the session's zone"


class NamedZone(tzinfo):
    """The zone of a name, which need not be known before it is asked: conditions without times do not ask it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedZone, (self._name,)

    @cached_property
    def _zone(self) -> tzinfo:
        return zone_named(self._name)

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        return self._zone.utcoffset(moment)

    def dst(self, moment: datetime | None) -> timedelta | None:
        return self._zone.dst(moment)

    def tzname(self, moment: datetime | None) -> str | None:
        return self._name


class _Region(tzinfo):
    """A region of Python's tz database, which agrees with Java's from 1970 on."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._zone = zone

    def __reduce__(self) -> tuple[Any, ...]:
        return zone_named, (self._zone.key,)

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        if moment is not None and moment.year < _EPOCH.year:
            raise InvalidArgument(
                f"what {moment.replace(tzinfo=None)} means in {self._zone.key} may differ between Spark and Python",
                next_step="write times before 1970 with their offset, as '1940-07-05 12:00:00+01:00'",
            )
        return self._zone.utcoffset(moment)

    def dst(self, moment: datetime | None) -> timedelta | None:
        return self._zone.dst(moment)

    def tzname(self, moment: datetime | None) -> str | None:
        return self._zone.tzname(moment)


def session_zone(session: Any) -> tzinfo:
    """The zone that text without a zone means in a session, as `spark.sql.session.timeZone` names it."""
    return SessionZone(session)


def zone_named(name: str) -> tzinfo:
    """The zone of a name: a region, or an offset such as ``+02:00``. `InvalidArgument`: Python knows no such zone.

    >>> zone_named("+02:00").utcoffset(None), zone_named("Europe/Berlin").utcoffset(datetime(2026, 1, 1))
    (datetime.timedelta(seconds=7200), datetime.timedelta(seconds=3600))
    """
    found = _OFFSET.fullmatch(name)
    try:
        if name and found:
            offset = timedelta(hours=int(found[2] or 0), minutes=int(found[3] or 0))
            return timezone(-offset if found[1] == "-" else offset)
        return _Region(ZoneInfo(name))
    except (ValueError, OSError, KeyError):
        raise InvalidArgument(
            f"Python does not know the time zone {name!r}",
            next_step="name a region such as Europe/Berlin (pip install tzdata, if it has none) or an offset such as +02:00",
        ) from None


def bound_in(zone: tzinfo | None, where: Predicate | str | None, schema: TableSchema) -> Predicate | None:
    """A filter, bound to the columns of a table, in which times without a zone are times of `zone`."""
    return condition_of(where, schema.fields, zone)


def partition_in(zone: tzinfo | None, partition: Mapping[str, Any] | str, schema: TableSchema) -> dict[str, Any]:
    """The values that the name of a partition gives, in which times without a zone are times of `zone`."""
    return codec_of(schema).parse_spec(partition, zone)
