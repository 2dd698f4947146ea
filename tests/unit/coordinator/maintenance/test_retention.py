"""How much history stays: options, arguments and the pure choice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakelatch.coordinator.maintenance.expiry.retention import Retention, expirable, expirable_changelogs
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.options import TableOptions

NOW_MS = 10**12
HOUR_MS = 3_600_000
ANY = 2_147_483_647
LATE = 10**9


def of(options: Mapping[str, str], **arguments: int) -> Retention:
    return Retention.of(TableOptions(dict(options)), NOW_MS, **arguments)


def snapshots(**named: str) -> dict[str, str]:
    return {f"snapshot.{name.replace('__', '.').replace('_', '-')}": value for name, value in named.items()}


def test_without_options_and_arguments_an_hour_and_ten_snapshots_stay() -> None:
    """And what is younger than a minute, in which a writer may still be using what it knows (H6)."""
    assert of({}) == Retention(10, ANY, NOW_MS - HOUR_MS, NOW_MS - 60_000, 50, None, True)


@pytest.mark.parametrize(
    ("options", "arguments", "kept"),
    [
        (snapshots(num_retained__min="4", num_retained__max="8", expire__limit="9"), {}, (4, 8, 9)),
        ({}, {"retain_max": 3}, (3, 3, 50)),
        ({}, {"retain_max": 30}, (10, 30, 50)),
        (snapshots(num_retained__min="4"), {"retain_max": 5}, (4, 5, 50)),
        ({}, {"retain_min": 5}, (5, ANY, 50)),
        ({}, {"retain_min": 15, "retain_max": 15}, (15, 15, 50)),
        (snapshots(num_retained__max="20"), {"retain_min": 20, "max_deletes": 4}, (20, 20, 4)),
        ({}, {"retain_min": 1, "retain_max": 1, "max_deletes": 1}, (1, 1, 1)),
        (snapshots(num_retained__min="1", num_retained__max="1", expire__limit="1"), {}, (1, 1, 1)),
    ],
)
def test_arguments_come_before_options(
    options: dict[str, str], arguments: dict[str, int], kept: tuple[int, int, int]
) -> None:
    """A maximum that is given also bounds the option's minimum."""
    found = of(options, **arguments)
    assert (found.at_least, found.at_most, found.limit) == kept


def test_how_long_snapshots_stay_and_how_young_they_stay_in_any_case() -> None:
    assert of({}, older_than_ms=77).until_ms == 77
    short = of(snapshots(time_retained="20 s"))
    assert (short.until_ms, short.published_ms) == (NOW_MS - 20_000, NOW_MS - 4_000)
    assert of(snapshots(time_retained="1 d")).published_ms == NOW_MS - 60_000


@pytest.mark.parametrize("name", ["num-retained.min", "num-retained.max", "expire.limit"])
def test_an_option_below_one_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^option 'snapshot\.{name}' 0 is less than 1"):
        of({f"snapshot.{name}": "0"}, **({"retain_min": 1} if name == "num-retained.max" else {}))


BOTH = {"snapshot.num-retained.max": "20"}
SAME = (10, 20, HOUR_MS)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({}, None),
        ({"max": "20"}, None),
        ({"min": "10"}, None),
        ({"time": "1 h"}, None),
        ({"time": "30 min"}, None),
        ({"min": "5", "max": "15"}, None),
        ({"max": "21"}, (10, 21, HOUR_MS)),
        ({"min": "11"}, (11, 20, HOUR_MS)),
        ({"min": "20"}, (20, 20, HOUR_MS)),
        ({"time": "2 h"}, (10, 20, 2 * HOUR_MS)),
        ({"max": "21", "time": "30 min"}, (10, 21, HOUR_MS // 2)),
        ({"min": "11", "time": "30 min"}, (11, 20, HOUR_MS // 2)),
        ({"min": "5", "max": "15", "time": "2 h"}, (5, 15, 2 * HOUR_MS)),
    ],
)
def test_changelogs_outlive_their_snapshots_where_one_of_three_options_is_larger(
    options: dict[str, str], kept: tuple[int, int, int] | None
) -> None:
    """format/snapshot §5. The rest is as for snapshots."""
    names = {"min": "num-retained.min", "max": "num-retained.max", "time": "time-retained"}
    found = of({**BOTH, **{f"changelog.{names[name]}": value for name, value in options.items()}}, max_deletes=7)
    wanted = None if kept is None else Retention(kept[0], kept[1], NOW_MS - kept[2], NOW_MS - 60_000, 7)
    assert found.changelogs == wanted
    assert (found.at_least, found.at_most, NOW_MS - found.until_ms) == SAME


def test_changelogs_are_kept_as_long_as_the_argument_for_snapshots_says_if_no_option_does() -> None:
    found = of({**BOTH, "changelog.num-retained.max": "21"}, older_than_ms=5).changelogs
    assert found is not None and found.until_ms == 5


@pytest.mark.parametrize("names", [{"min": "21"}, {"min": "12", "max": "11", "time": "2 h"}])
def test_contradicting_numbers_for_changelogs_are_refused(names: dict[str, str]) -> None:
    options = {"min": "num-retained.min", "max": "num-retained.max", "time": "time-retained"}
    with pytest.raises(InvalidArgument, match=r"is less than 'changelog\.num-retained\.min'"):
        of({**BOTH, **{f"changelog.{options[name]}": value for name, value in names.items()}})


@pytest.mark.parametrize(("only", "longer", "hold"), [(True, True, False), (True, False, True), (False, True, True)])
def test_consumers_hold_snapshots_unless_changelogs_stay_for_them(only: bool, longer: bool, hold: bool) -> None:
    options = {"consumer.changelog-only": str(only).lower(), **({"changelog.time-retained": "2 h"} if longer else {})}
    assert of(options).consumers_hold is hold


# ----------------------------------------------------------------------------------------------------------- the choice


def choose(
    ids: list[int], times: Mapping[int, int] | None = None, *, least: int = 1, most: int = 100, until: int = LATE,
    published: float = LATE, limit: int = 50, needed: int | None = None,
) -> int:  # fmt: skip
    """How many of these expire, committed at 10 times their ids."""
    times = {number: 10 * number for number in ids} if times is None else times
    return expirable(ids, times, Retention(least, most, until, published, limit), needed)


FIVE = [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("given", "goes"),
    [
        ({}, 4),
        ({"least": 3}, 2),
        ({"least": 5}, 0),
        ({"least": 7}, 0),
        ({"limit": 2}, 2),
        ({"until": 20}, 0),
        ({"until": 21}, 1),
        ({"until": 30}, 1),
        ({"until": 0, "most": 3}, 2),
        ({"until": 31, "most": 4}, 2),
        ({"until": 0, "most": 5}, 0),
        ({"until": 0, "most": 1, "least": 2}, 3),
        ({"published": 20}, 2),
        ({"published": 19}, 1),
        ({"published": 9, "most": 1}, 0),
        ({"needed": 3}, 2),
        ({"needed": 1}, 0),
        ({"needed": 9}, 4),
        ({"needed": 3, "most": 1}, 2),
    ],
)
def test_how_many_of_five_snapshots_expire(given: dict[str, Any], goes: int) -> None:
    assert choose(FIVE, **given) == goes


def test_the_only_snapshot_stays() -> None:
    assert choose([7]) == choose([7], least=2) == choose([]) == 0


def test_a_snapshot_that_has_gone_already_holds_nothing_back() -> None:
    assert choose(FIVE, {}, until=1, published=0) == 4
    assert choose(FIVE, {1: 10, 3: 30}, until=25) == 1


def end(
    ids: list[int], times: Mapping[int, int] | None = None, *, latest: int = 8, least: int = 1, most: int = 100,
    until: int = LATE, limit: int = 50, needed: int | None = None,
) -> int | None:  # fmt: skip
    times = {number: 10 * number for number in ids} if times is None else times
    return expirable_changelogs(ids, latest, times, Retention(least, most, until, 0, limit), needed)


@pytest.mark.parametrize(
    ("given", "oldest"),
    [
        ({}, 5),
        ({"until": 10}, None),
        ({"until": 11}, 2),
        ({"until": 20}, 2),
        ({"until": 21}, 3),
        ({"until": 0, "most": 7}, 2),
        ({"until": 0, "most": 6}, 3),
        ({"until": 35, "most": 6}, 4),
        ({"until": 0, "most": 8}, None),
        ({"least": 7}, 2),
        ({"least": 6}, 3),
        ({"least": 8}, None),
        ({"limit": 1}, 2),
        ({"limit": 3}, 4),
        ({"needed": 4}, 4),
        ({"needed": 1}, None),
        ({"needed": 99}, 5),
        ({"latest": 6, "least": 3}, 4),
        ({"until": 0, "most": 1, "latest": 20}, 5),
    ],
)
def test_the_oldest_changelog_of_five_that_stays(given: dict[str, Any], oldest: int | None) -> None:
    """The times of 1 to 5 are 10 to 50; the newest snapshot is 8."""
    assert end(FIVE, **given) == oldest


def test_changelogs_need_not_begin_at_one() -> None:
    assert end([3, 4, 5], limit=1) == 4
    assert end([3, 4, 5], until=0, most=5) == 4
    assert end([3, 4, 5], until=40) == 4
    assert end([3]) is None
    assert end([]) is None


def test_a_changelog_that_has_gone_already_is_old() -> None:
    assert end(FIVE, {}, until=5) == 5
    assert end(FIVE, {1: 10, 3: 30}, until=25) == 3
