"""How much history a table keeps, and so how many snapshots may expire.

Owns: `Retention` (the options and arguments of Apache Paimon's expire_snapshots) and `expirable`, the pure choice. Must not
know: stores. Source: format/commit §9; H6.
Invariants: the newest snapshot stays. A snapshot expires only after all older ones. A snapshot that is so young that a commit
may be using its name stays, whatever the arguments say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ....core import options as opt
from ....core.errors import InvalidArgument
from ....core.options import TableOptions
from ...history.base import longest_age_ms

DELAYS = 2
"""A name may be freed after this many times the age limit of a writer's knowledge; the difference allows for slow requests."""

RETENTION_OPTIONS = (
    opt.SNAPSHOT_TIME_RETAINED,
    opt.SNAPSHOT_RETAINED_MIN,
    opt.SNAPSHOT_RETAINED_MAX,
    opt.CHANGELOG_TIME_RETAINED,
    opt.CHANGELOG_RETAINED_MIN,
    opt.CHANGELOG_RETAINED_MAX,
)


def is_automatic(options: TableOptions) -> bool:
    """Do a table's options ask for expiry after each commit? Option `snapshot.expire.automatic` decides; without it, a table
    that says how long its snapshots are kept, and is not `write-only`.

    >>> is_automatic(TableOptions({})), is_automatic(TableOptions({"snapshot.num-retained.max": "20"}))
    (False, True)
    """
    said = options.get(opt.EXPIRE_AUTOMATICALLY)
    if options.get(opt.WRITE_ONLY):
        return False
    return said if said is not None else any(option.key in options.texts for option in RETENTION_OPTIONS)


@dataclass(frozen=True)
class Retention:
    """Which snapshots stay.

    Attributes:
        at_least: the minimum number of newest snapshots to keep.
        at_most: the maximum number to keep, however young they are.
        until_ms: keep snapshots whose successor is not older than this, in milliseconds since 1970.
        published_ms: keep snapshots younger than this, even beyond `at_most` (H6).
        limit: the largest number of snapshots to expire in one run.
        changelogs: the same for changelogs that outlive their snapshots; None if they go together.
        consumers_hold: whether consumers hold snapshots back. They always hold changelogs back.
    """

    at_least: int
    at_most: int
    until_ms: int
    published_ms: float
    limit: int
    changelogs: Retention | None = None
    consumers_hold: bool = True

    @staticmethod
    def of(
        options: TableOptions,
        now_ms: int,
        *,
        retain_max: int | None = None,
        retain_min: int | None = None,
        older_than_ms: int | None = None,
        max_deletes: int | None = None,
    ) -> Retention:
        """From a table's options; given arguments take precedence. `now_ms`: milliseconds since 1970. Raises InvalidArgument if
        the numbers are out of range or contradict each other.

        >>> Retention.of(TableOptions({"snapshot.time-retained": "1 h"}), 3_600_000, retain_max=1).at_least
        1
        """
        for name, given in (("retain_min", retain_min), ("retain_max", retain_max), ("max_deletes", max_deletes)):
            if isinstance(given, bool) or not isinstance(given, int | None):
                raise InvalidArgument(f"{name} {given!r} is not a number", next_step="give a number of at least 1")
        time_ms = options.get(opt.SNAPSHOT_TIME_RETAINED)
        most = options.get(opt.SNAPSHOT_RETAINED_MAX) if retain_max is None else retain_max
        least = retain_min
        if least is None:  # a smaller maximum was given explicitly
            least = options.get(opt.SNAPSHOT_RETAINED_MIN)
            least = least if retain_max is None else min(least, retain_max)
        limit = options.get(opt.SNAPSHOT_EXPIRE_LIMIT) if max_deletes is None else max_deletes
        named = {
            _name("retain_max", retain_max, opt.SNAPSHOT_RETAINED_MAX): most,
            _name("retain_min", retain_min, opt.SNAPSHOT_RETAINED_MIN): least,
            _name("max_deletes", max_deletes, opt.SNAPSHOT_EXPIRE_LIMIT): limit,
        }
        for name, number in named.items():
            if number < 1:
                raise InvalidArgument(f"{name} {number} is less than 1", next_step="give a number of at least 1")
        if most < least:
            of_most, of_least = list(named)[:2]
            raise InvalidArgument(f"{of_most} {most} is less than {of_least} {least}")
        until_ms = now_ms - time_ms if older_than_ms is None else older_than_ms
        snapshots = Retention(least, most, until_ms, now_ms - DELAYS * longest_age_ms(time_ms), limit)
        changelogs = _of_changelogs(options, snapshots, now_ms)
        freely = changelogs is not None and options.get(opt.CONSUMER_CHANGELOG_ONLY)
        return replace(snapshots, changelogs=changelogs, consumers_hold=not freely)


def _name(argument: str, given: int | None, option: opt.Option[Any]) -> str:
    return argument if given is not None else f"option '{option.key}'"


def _of_changelogs(options: TableOptions, snapshots: Retention, now_ms: int) -> Retention | None:
    """None if they go with their snapshots (format/snapshot §5). Raises InvalidArgument if the numbers contradict each other."""
    most, least, time_ms = (
        options.get(option)
        for option in (opt.CHANGELOG_RETAINED_MAX, opt.CHANGELOG_RETAINED_MIN, opt.CHANGELOG_TIME_RETAINED)
    )
    longer = Retention(
        snapshots.at_least if least is None else least,
        snapshots.at_most if most is None else most,
        snapshots.until_ms if time_ms is None else now_ms - time_ms,
        snapshots.published_ms,
        snapshots.limit,
    )
    outlives = longer.at_least > snapshots.at_least or longer.at_most > snapshots.at_most
    if not outlives and longer.until_ms >= snapshots.until_ms:
        return None
    if longer.at_most < longer.at_least:
        of_most, of_least = opt.CHANGELOG_RETAINED_MAX.key, opt.CHANGELOG_RETAINED_MIN.key
        raise InvalidArgument(
            f"changelogs: '{of_most}' ({longer.at_most}) is less than '{of_least}' ({longer.at_least})",
            next_step="an option that is not set has the value of the snapshots' option",
        )
    return longer


class Times(Protocol):
    """Commit times by id, in milliseconds since 1970: a dictionary, or what reads them when they are asked for."""

    def get(self, number: int, default: int, /) -> int:
        """The time of a snapshot, or `default` for one that has expired already."""


def expirable(ids: Sequence[int], times_ms: Times, retention: Retention, first_needed: int | None) -> int:
    """The number of oldest snapshots that may expire.

    Args:
        ids: the ids of all snapshots, ascending; the last is the table's newest.
        times_ms: commit times of at least the oldest `retention.limit` + 1 snapshots; a missing one has expired already.
        first_needed: the oldest snapshot that a consumer has still to read, None without consumers.

    >>> kept = Retention(at_least=1, at_most=10, until_ms=25, published_ms=100, limit=50)
    >>> expirable([1, 2, 3, 4], {1: 10, 2: 20, 3: 30, 4: 40}, kept, None)
    1
    """
    most = min(len(ids) - retention.at_least, retention.limit)
    for position, number in enumerate(ids[: max(most, 0)]):
        if first_needed is not None and number >= first_needed:
            return position
        if times_ms.get(number, 0) > retention.published_ms:
            return position
        needless = position < len(ids) - retention.at_most
        if not needless and times_ms.get(ids[position + 1], 0) >= retention.until_ms:
            return position
    return max(most, 0)


def expirable_changelogs(
    ids: Sequence[int], latest: int, times_ms: Mapping[int, int], retention: Retention, first_needed: int | None
) -> int | None:
    """The id of the oldest changelog that stays, if any may expire; else None. A changelog's own time decides, and the newest
    one stays (format/commit §9). `latest` is the newest snapshot; other arguments as for `expirable`.

    >>> kept = Retention(at_least=1, at_most=10, until_ms=25, published_ms=0, limit=50)
    >>> expirable_changelogs([1, 2, 3, 4], 9, {1: 10, 2: 20, 3: 30, 4: 40}, kept, None)
    3
    """
    if not ids:
        return None
    end = min(latest - retention.at_least + 1, ids[0] + retention.limit, ids[-1], first_needed or ids[-1])
    must_go = max(latest - retention.at_most + 1, ids[0])
    for number in range(must_go, end):
        if times_ms.get(number, retention.until_ms - 1) >= retention.until_ms:
            end = number
            break
    return end if end > ids[0] else None
