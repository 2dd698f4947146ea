"""The periods of automatic tags, and their names.

Owns: `Periods`, `zone_of`. Must not know: snapshots, stores. Source: format/snapshot §5.
Invariants: names are Apache Paimon's, so that both make the same tags for the same history. Times have no zone: they are those on
the wall, in the zone that the table's options name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from ...core import options as opt
from ...core.errors import InvalidArgument
from ...core.options import TableOptions

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc).replace(tzinfo=None)
_DAILY = {"with_dashes": "%Y-%m-%d", "without_dashes": "%Y%m%d", "without_dashes_and_spaces": "%Y%m%d"}
_HOURLY = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H", "without_dashes_and_spaces": "%Y%m%d%H"}
_LENGTHS = {"daily": timedelta(days=1), "hourly": timedelta(hours=1), "two-hours": timedelta(hours=2)}


@dataclass(frozen=True)
class Periods:
    """How long a period is, and the form of its tag's name. `daily`: what follows the day in a name is not read.

    >>> days = Periods.of(TableOptions({}))
    >>> days.name_of(days.before(datetime(2026, 1, 2, 3, 4)))
    '2026-01-01'
    """

    length: timedelta
    form: str
    daily: bool = False

    @staticmethod
    def of(options: TableOptions) -> Periods:
        """Raises InvalidArgument if an option has no such value, or the delay is as long as a period."""
        duration_ms = options.get(opt.TAG_PERIOD_DURATION)
        if duration_ms is not None:
            found = Periods(timedelta(milliseconds=duration_ms), "%Y%m%d%H%M")
        else:
            period = options.get(opt.TAG_PERIOD)
            forms = _DAILY if period == "daily" else _HOURLY
            form = options.get(opt.TAG_FORMATTER) if period != "two-hours" else "with_dashes"
            found = Periods(_LENGTHS[period], forms[form], period == "daily")
        if not found.length > timedelta(milliseconds=options.get(opt.TAG_DELAY)):
            raise InvalidArgument(
                f"option '{opt.TAG_DELAY.key}' is not less than a period, which is {found.length}",
                next_step="make the delay shorter, or the period longer",
            )
        return found

    def name_of(self, time: datetime) -> str:
        return time.strftime(self.form)

    def time_of(self, name: str) -> datetime | None:
        """When the period of a tag begins; None for the name of a tag that was made by hand.

        >>> hours = Periods(timedelta(hours=1), "%Y%m%d%H")
        >>> hours.time_of("2026010203"), hours.time_of("202601023"), hours.time_of("eod")
        (datetime.datetime(2026, 1, 2, 3, 0), None, None)
        """
        text = name.split(" ", maxsplit=1)[0] if self.daily else name
        try:
            time = datetime.strptime(text, self.form).replace(tzinfo=None)  # noqa: DTZ007 - a name has no zone
        except ValueError:
            return None
        return time if self.name_of(time) == text else None

    def before(self, time: datetime) -> datetime:
        """The beginning of the last period that was over at a time."""
        return time - (time - _EPOCH) % self.length - self.length

    def after(self, time: datetime) -> datetime:
        """The beginning of the period after the one that begins at a time."""
        return time + self.length


def zone_of(name: str | None, option: str) -> tzinfo | None:
    """The zone of a name as Java knows it; None for this machine's. Raises InvalidArgument if there is no such zone.

    >>> zone_of("GMT+8", "o"), zone_of("Z", "o"), zone_of(None, "o")
    (datetime.timezone(datetime.timedelta(seconds=28800)), datetime.timezone.utc, None)
    """
    if name is None:
        return None
    found = _OFFSET.fullmatch(name)
    if found is not None:
        offset = timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        return timezone(-offset if found[1] == "-" else offset)
    if name in ("Z", "UTC", "GMT", "UT"):
        return timezone.utc
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise InvalidArgument(
            f"option '{option}' = '{name}' is not a time zone", next_step="use a name such as Europe/Paris, or UTC+2"
        ) from error
