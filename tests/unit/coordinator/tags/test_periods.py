"""Periods and their names, time zones, and what a table's options say of automatic tags."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from by_hand.snapshots import snapshot

from lakelatch.coordinator.tags.automatic import Rules
from lakelatch.coordinator.tags.periods import Periods, zone_of
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.options import TableOptions

PERIOD, FORMATTER, DELAY = "tag.creation-period", "tag.period-formatter", "tag.creation-delay"
DURATION = "tag.creation-period-duration"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("options", "length", "name"),
    [
        ({}, timedelta(days=1), "2026-01-02"),
        ({FORMATTER: "without_dashes"}, timedelta(days=1), "20260102"),
        ({FORMATTER: "without_dashes_and_spaces"}, timedelta(days=1), "20260102"),
        ({PERIOD: "hourly"}, timedelta(hours=1), "2026-01-02 04"),
        ({PERIOD: "hourly", FORMATTER: "without_dashes"}, timedelta(hours=1), "20260102 04"),
        ({PERIOD: "hourly", FORMATTER: "without_dashes_and_spaces"}, timedelta(hours=1), "2026010204"),
        ({PERIOD: "two-hours"}, timedelta(hours=2), "2026-01-02 04"),
        ({PERIOD: "two-hours", FORMATTER: "without_dashes"}, timedelta(hours=2), "2026-01-02 04"),
        ({DURATION: "90 min"}, timedelta(minutes=90), "202601020430"),
        ({DURATION: "90 min", PERIOD: "hourly", FORMATTER: "without_dashes"}, timedelta(minutes=90), "202601020430"),
    ],
)
def test_a_period_has_a_length_and_a_form_of_names(options: dict[str, str], length: timedelta, name: str) -> None:
    """A name that a period has is read as the time at which the period begins."""
    periods = Periods.of(TableOptions(options))
    assert periods.length == length
    begins = at("2026-01-02T04:30") if DURATION in options else at("2026-01-02T04:00")
    assert periods.name_of(begins) == name
    day = at("2026-01-02T00:00")
    assert periods.time_of(name) == (day if length == timedelta(days=1) else begins)


@pytest.mark.parametrize(
    ("length", "time", "begins"),
    [
        (timedelta(days=1), "2026-01-02T00:00:00", "2026-01-01T00:00:00"),
        (timedelta(days=1), "2026-01-01T23:59:59", "2025-12-31T00:00:00"),
        (timedelta(hours=1), "2026-01-02T03:04:05", "2026-01-02T02:00:00"),
        (timedelta(hours=2), "2026-01-02T04:00:00", "2026-01-02T02:00:00"),
        (timedelta(hours=2), "2026-01-02T03:59:59", "2026-01-02T00:00:00"),
        (timedelta(minutes=90), "1970-01-01T03:00:00", "1970-01-01T01:30:00"),
        (timedelta(days=7), "1970-01-15T00:00:00", "1970-01-08T00:00:00"),
    ],
)
def test_the_last_period_that_was_over_ended_no_later(length: timedelta, time: str, begins: str) -> None:
    """Periods are counted from 1970, as those of Apache Paimon are."""
    periods = Periods(length, "%Y%m%d%H%M")
    assert periods.before(at(time)) == at(begins)
    assert periods.after(at(begins)) == at(begins) + length


@pytest.mark.parametrize(
    "name", ["eod", "", "2026-1-2", "2026-01-02x", "2026-13-01", "2026-02-30", "20260102", "26-01-02"]
)
def test_other_names_are_no_day(name: str) -> None:
    assert Periods.of(TableOptions({})).time_of(name) is None


def test_what_follows_a_day_does_not_count_in_its_name_and_does_in_that_of_an_hour() -> None:
    """Apache Paimon reads a day's name up to the first space."""
    days, hours = Periods.of(TableOptions({})), Periods.of(TableOptions({PERIOD: "hourly"}))
    assert days.time_of("2026-01-02 late in the day") == at("2026-01-02T00:00")
    assert days.time_of("2026-01-02") == at("2026-01-02T00:00")
    assert hours.time_of("2026-01-02 05") == at("2026-01-02T05:00")
    assert hours.time_of("2026-01-02 05 late") is None
    assert hours.time_of("2026-01-02") is None
    assert Periods(timedelta(days=1), "%Y-%m-%d").time_of("2026-01-02 05") is None


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({DELAY: "23 h"}, True), ({DELAY: "24 h"}, False), ({DELAY: "25 h"}, False),
        ({PERIOD: "hourly", DELAY: "59 min"}, True), ({PERIOD: "hourly", DELAY: "60 min"}, False),
        ({DURATION: "5 min", DELAY: "5 min"}, False), ({DURATION: "5 min", DELAY: "4 min"}, True),
    ],
)  # fmt: skip
def test_the_delay_is_less_than_a_period(options: dict[str, str], allowed: bool) -> None:
    if allowed:
        assert Periods.of(TableOptions(options)).length > timedelta()
        return
    with pytest.raises(
        InvalidArgument, match=r"option 'tag.creation-delay' is not less than a period, which is"
    ) as raised:
        Periods.of(TableOptions(options))
    assert raised.value.next_step == "make the delay shorter, or the period longer"


# --------------------------------------------------------------------------------------------------------------- zones


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("+8", 8), ("-8", -8), ("+08:30", 8.5), ("-0330", -3.5), ("UTC+1", 1), ("GMT-02:15", -2.25), ("UT+10", 10),
        ("Z", 0), ("UTC", 0), ("GMT", 0), ("UT", 0), ("+00:01", 1 / 60),
    ],
)  # fmt: skip
def test_offsets_are_read_in_every_form_that_java_has(name: str, hours: float) -> None:
    assert zone_of(name, "o") == timezone(timedelta(hours=hours))


def test_without_a_name_the_zone_is_that_of_the_machine_and_a_region_has_its_rules() -> None:
    assert zone_of(None, "o") is None
    assert zone_of("Europe/Paris", "o") == ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    "name", ["Mars/Olympus", "../etc", "", "UTC+", "8", "utc+8", "/etc/localtime", "Europe", "a\0b"]
)
def test_a_name_that_is_no_zone_is_told_with_its_option(name: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        zone_of(name, "sink.process-time-zone")
    assert raised.value.message == f"option 'sink.process-time-zone' = '{name}' is not a time zone"
    assert raised.value.next_step == "use a name such as Europe/Paris, or UTC+2"


# ------------------------------------------------------------------------------------------------------------- options


def test_a_table_without_options_has_no_automatic_tags() -> None:
    """Tags whose retention is over are deleted in such a table, too."""
    assert Rules.of(TableOptions({})) == Rules("none")
    assert Rules("none") == Rules("none", None, None, timedelta(), None, None, False, None, True, False)


def test_each_option_has_its_place() -> None:
    options = {
        "tag.automatic-creation": "process-time", PERIOD: "hourly", DELAY: "5 min", "tag.num-retained-max": "9",
        "tag.default-time-retained": "2 h", "tag.automatic-completion": "true", "tag.batch.customized-name": "done",
        "tag.time-expire-enabled": "false", "tag.create-success-file": "true", "sink.process-time-zone": "UTC+3",
        "sink.watermark-time-zone": "UTC-3",
    }  # fmt: skip
    periods = Periods(timedelta(hours=1), "%Y-%m-%d %H")
    zone = timezone(timedelta(hours=3))
    wanted = Rules("process-time", periods, zone, timedelta(minutes=5), 9, 7_200_000, True, "done", False, True)
    assert Rules.of(TableOptions(options)) == wanted
    by_watermark = Rules.of(TableOptions({**options, "tag.automatic-creation": "watermark"}))
    assert (by_watermark.mode, by_watermark.periods) == ("watermark", periods)
    assert by_watermark.zone == timezone(timedelta(hours=-3))
    for mode in ("batch", "none"):
        rules = Rules.of(TableOptions({**options, "tag.automatic-creation": mode}))
        assert (rules.mode, rules.periods, rules.zone) == (mode, None, zone)


@pytest.mark.parametrize(
    ("mode", "option"),
    [("watermark", "sink.watermark-time-zone"), ("process-time", "sink.process-time-zone")],
)
def test_a_wrong_zone_is_told_with_the_option_that_counts(mode: str, option: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option '{option}' = 'Mars' is not a time zone"):
        Rules.of(TableOptions({"tag.automatic-creation": mode, option: "Mars"}))


UTC_PLUS_2 = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("mode", "fields", "wanted"),
    [
        ("process-time", {"time_ms": 1_500, "watermark": 9_000}, "1970-01-01T02:00:01.500"),
        ("batch", {"time_ms": 1_500, "watermark": None}, "1970-01-01T02:00:01.500"),
        ("process-time", {"time_ms": 0}, "1970-01-01T02:00:00"),
        ("watermark", {"time_ms": 1_500, "watermark": 9_000}, "1970-01-01T02:00:09"),
        ("watermark", {"time_ms": 1_500, "watermark": 0}, "1970-01-01T02:00:00"),
        ("watermark", {"time_ms": 1_500, "watermark": None}, None),
        ("watermark", {"time_ms": 1_500, "watermark": -(2**63)}, None),
    ],
)
def test_the_time_of_a_snapshot_is_that_on_the_wall(mode: str, fields: dict[str, Any], wanted: str | None) -> None:
    """The least 64-bit number stands for a watermark that a streaming writer does not have yet."""
    found = Rules(mode, zone=UTC_PLUS_2).time_of(snapshot(1, **fields))
    assert found == (at(wanted) if wanted is not None else None)
