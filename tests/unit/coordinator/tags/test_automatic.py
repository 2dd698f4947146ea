"""Automatic tags: names and snapshots by period, watermark and batch; how many stay; after a commit, which they cannot fail."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.tags.automatic import Rules, apply_automatic, plan_automatic
from lakelatch.coordinator.tags.periods import Periods, zone_of
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.options import TableOptions
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("v", pa.int64())])
HOUR_MS = 3_600_000
NOON_MS = int(datetime(2026, 1, 2, 12, tzinfo=timezone.utc).timestamp() * 1000)


def lived(hours: list[float], *, watermarks: bool = False, zone: str = "UTC") -> Table:
    """A table with a commit at each of these hours after noon of 2 January 2026, UTC."""
    table = ll.create_table(
        f"memory://tagged-automatically-{next(COUNTER)}/t", SCHEMA, options={"sink.process-time-zone": zone}
    )
    for value, hour in enumerate(hours):
        at_ms = NOON_MS + int(hour * HOUR_MS)
        table.append(pa.table({"v": [value]}), watermark_ms=at_ms if watermarks else None)
        made = table.timeline.latest()
        assert made is not None
        if not watermarks:
            table.store.put(table.paths.snapshot(made.id), replace(made, time_ms=at_ms).to_json())
    table.committer.settle()
    return Table(table.store, table.schema)


def tagged(table: Table, mode: str = "process-time", **options: str) -> dict[str, int]:
    """The tags after a run with these options; option names with `_` for `-` and `__` for `.`."""
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    texts = {**table.options, "tag.automatic-creation": mode, **named}
    rules = Rules.of(TableOptions(texts))
    plan = plan_automatic(table.timeline, rules, NOON_MS)
    done = apply_automatic(table.timeline, table.schema, rules, plan)
    assert done == plan
    assert str(plan_automatic(table.timeline, rules, NOON_MS)) == "no new tag", "nothing is due twice"
    return {tag.name: tag.snapshot.id for tag in table.tags()}


def test_days() -> None:
    """The first snapshot after the end of a day has its name; days without a snapshot have no tag."""
    table = lived([0, 1, 11.9, 12, 13, 36.5, 90, 91])
    assert tagged(table) == {"2026-01-01": 1, "2026-01-02": 4, "2026-01-03": 6, "2026-01-05": 7}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"tag__creation_period": "hourly"}, {"2026-01-02 11": 1, "2026-01-02 12": 3, "2026-01-02 14": 4}),
        (
            {"tag__creation_period": "hourly", "tag__period_formatter": "without_dashes"},
            {"20260102 11": 1, "20260102 12": 3, "20260102 14": 4},
        ),
        (
            {"tag__creation_period": "hourly", "tag__period_formatter": "without_dashes_and_spaces"},
            {"2026010211": 1, "2026010212": 3, "2026010214": 4},
        ),
        ({"tag__creation_period": "two-hours"}, {"2026-01-02 10": 1, "2026-01-02 12": 4}),
        (
            {"tag__creation_period_duration": "30 min"},
            {"202601021130": 1, "202601021200": 2, "202601021230": 3, "202601021430": 4},
        ),
        ({"tag__creation_period": "hourly", "tag__creation_delay": "20 min"}, {"2026-01-02 11": 1, "2026-01-02 14": 4}),
        (
            {"tag__creation_period": "hourly", "tag__automatic_completion": "true"},
            {"2026-01-02 11": 1, "2026-01-02 12": 3, "2026-01-02 13": 4, "2026-01-02 14": 5},
        ),
        ({"tag__creation_period": "hourly", "tag__num_retained_max": "2"}, {"2026-01-02 12": 3, "2026-01-02 14": 4}),
        ({"tag__period_formatter": "without_dashes"}, {"20260101": 1}),
    ],
)
def test_periods_and_their_names(options: dict[str, str], wanted: dict[str, int]) -> None:
    """Commits at 12:00, 12:40, 13:10, 15:00 and 15:05."""
    assert tagged(lived([0, 2 / 3, 7 / 6, 3, 3.1]), **options) == wanted


def test_zones() -> None:
    assert tagged(lived([0], zone="Asia/Tokyo"), **{"tag.creation-period": "hourly"}) == {"2026-01-02 20": 1}
    assert tagged(lived([0], zone="-03:30"), **{"tag.creation-period": "hourly"}) == {"2026-01-02 07": 1}
    assert tagged(lived([0], watermarks=True), "watermark", sink__watermark_time_zone="UTC+14") == {"2026-01-02": 1}
    for name in ("Mars/Olympus", "../etc", ""):
        with pytest.raises(InvalidArgument, match="not a time zone"):
            zone_of(name, "sink.process-time-zone")


def test_watermarks() -> None:
    """Snapshots without one do not count, and the time of a commit does not either."""
    table = lived([0, 12.5, 13], watermarks=True)
    assert tagged(table, "watermark") == {"2026-01-01": 1, "2026-01-02": 2}
    assert tagged(lived([0, 40]), "watermark") == {}


def test_later_runs_go_on_where_the_last_tag_is() -> None:
    table = lived([0, 30])
    table.create_tag("by-hand")
    assert tagged(table) == {"2026-01-01": 1, "2026-01-02": 2, "by-hand": 2}
    made = table.append(pa.table({"v": [9]})).snapshot_id
    snapshot = table.timeline.snapshot(made)
    table.store.put(table.paths.snapshot(made), replace(snapshot, time_ms=NOON_MS + 61 * HOUR_MS).to_json())
    wanted = {"2026-01-02": 2, "by-hand": 2, "2026-01-04": made}
    assert tagged(table, tag__num_retained_max="2") == wanted, "tags made by hand do not count"


def test_a_name_that_is_taken_is_left() -> None:
    table = lived([0, 30])
    table.create_tag("2026-01-01", snapshot=2)
    assert tagged(table) == {"2026-01-01": 2}


def test_batches() -> None:
    """One tag a day, always of the newest snapshot; all tags count for the number that is kept."""
    table = lived([0, 1, 30])
    assert tagged(table, "batch") == {"batch-write-2026-01-03": 3}
    assert tagged(table, "batch", tag__batch__customized_name="done") == {"batch-write-2026-01-03": 3, "done": 3}
    table.create_tag("old", snapshot=1)
    kept = tagged(table, "batch", tag__batch__customized_name="done", tag__num_retained_max="2")
    assert kept == {"batch-write-2026-01-03": 3, "done": 3}
    table.append(pa.table({"v": [9]}))
    assert tagged(table, "batch", tag__batch__customized_name="done")["done"] == 4


def test_success_files_and_retentions() -> None:
    table = lived([0])
    options = {"tag.create-success-file": "true", "tag.default-time-retained": "1 d"}
    assert tagged(table, **options) == {"2026-01-01": 1}
    assert table.tags()[0].retained_ms == 86_400_000
    assert [info.key for info in table.store.list("tag/tag-success-file/")] == [
        "tag/tag-success-file/2026-01-01_SUCCESS"
    ]
    rules = Rules.of(TableOptions({"tag.automatic-creation": "process-time"}))
    assert plan_automatic(table.timeline, rules, 2**45).deleted == ("2026-01-01",)
    kept = Rules.of(TableOptions({"tag.automatic-creation": "none", "tag.time-expire-enabled": "false"}))
    assert plan_automatic(table.timeline, kept, 2**45).deleted == ()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("tag.automatic-creation", "sometimes"),
        ("tag.creation-period", "weekly"),
        ("tag.period-formatter", "dotted"),
        ("tag.creation-delay", "1 d"),
        ("tag.num-retained-max", "many"),
    ],
)
def test_options_that_have_no_such_value_are_named(option: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=option):
        Rules.of(TableOptions({"tag.automatic-creation": "process-time", option: value}))


def test_names_that_look_like_periods() -> None:
    days, hours = Periods.of(TableOptions({})), Periods.of(TableOptions({"tag.creation-period": "hourly"}))
    assert days.time_of("2026-01-02 05") == days.time_of("2026-01-02")
    for name in ("2026-1-2", "2026-13-01", "eod", "20260102"):
        assert days.time_of(name) is None
    assert hours.time_of("2026-01-02") is None


# -------------------------------------------------------------------------------------------------------- after a commit


def commits(**options: str) -> Table:
    named = {"tag.automatic-creation": "batch", "tag.batch.customized-name": "done", **options}
    return ll.create_table(f"memory://tagged-automatically-{next(COUNTER)}/t", SCHEMA, options=named)


def test_each_commit_makes_the_tags_that_are_due() -> None:
    """Whoever commits: an append, a compaction, an undo."""
    table = commits()
    for value in range(5):
        table.append(pa.table({"v": [value]}))
    table.committer.settle()
    assert [(tag.name, tag.snapshot.id) for tag in table.tags()] == [("done", 5)]
    table.compact()
    table.committer.settle()
    assert table.tags()[0].snapshot.id == 6
    assert table.auto_tag(dry_run=True).to_dict() == {
        "made": [],
        "deleted": [],
        "interrupted": [],
        "unmarked": None,
    }
    table.store.delete_many(["tag/tag-done"])
    assert str(table.auto_tag()) == "new tags: done of snapshot 6"


def test_a_tag_that_cannot_be_made_fails_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    table = commits()

    def refused(prefix: str) -> Any:
        raise OSError("not now")

    table.append(pa.table({"v": [1]}))
    table.committer.settle()
    listed = table.store.list
    with caplog.at_level(logging.WARNING, "lakelatch.upkeep"):
        table.store.list = lambda prefix: refused(prefix) if prefix == "tag/" else listed(prefix)  # type: ignore[method-assign]
        assert table.append(pa.table({"v": [2]})).snapshot_id == 2
        table.committer.settle()
    assert "work that follows it failed: not now" in caplog.text
    table.store.list = listed  # type: ignore[method-assign]
    table.append(pa.table({"v": [3]}))
    table.committer.settle()
    assert table.tags()[0].snapshot.id == 3


def test_the_receipt_does_not_wait_for_tags() -> None:
    import threading

    table, may_go_on = commits(), threading.Event()
    create = table.store.put_if_absent

    def slow(key: str, data: bytes) -> Any:
        if key.startswith("tag/"):
            may_go_on.wait(20)
        return create(key, data)

    table.store.put_if_absent = slow  # type: ignore[method-assign]
    assert table.append(pa.table({"v": [1]})).snapshot_id == 1
    assert table.tags() == []
    may_go_on.set()
    table.committer.settle()
    assert [tag.name for tag in table.tags()] == ["done"]


def test_tables_without_automatic_tags_do_nothing_after_a_commit() -> None:
    table = ll.create_table(f"memory://tagged-automatically-{next(COUNTER)}/t", SCHEMA)
    table.append(pa.table({"v": [1]}))
    assert table.committer._upkeep._thread is None
