"""Automatic tags carried out: what is made, replaced, marked and deleted, and what follows a commit."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from by_hand.snapshots import Refusing, bare, keys, landed, raising, snapshot, timeline

from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.coordinator.tags.automatic import AutomaticPlan, Rules, apply_automatic, tag_after_commit
from lakelatch.coordinator.tags.creation import list_tags
from lakelatch.coordinator.tags.expiry import wall_time
from lakelatch.coordinator.tags.periods import Periods
from lakelatch.core.errors import InvalidArgument, StoreUnavailable
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.tag import Tag
from lakelatch.core.rows.arrow import from_arrow_schema

HOURS = Rules("process-time", Periods(timedelta(hours=1), "%Y-%m-%d %H"), timezone.utc)
BATCH = Rules("batch", zone=timezone.utc, batch_name="done")
NOW_MS = 1_790_000_000_000
AROUND = replace(MACHINE, wall_s=lambda: NOW_MS / 1_000, sleep=lambda seconds: None)
FIELDS = from_arrow_schema(pa.schema([("v", pa.int64())]))
SCHEMA = new_schema(FIELDS)
HOURLY = {
    "tag.automatic-creation": "process-time", "sink.process-time-zone": "UTC", "tag.creation-period": "hourly",
}  # fmt: skip


def ms(text: str) -> int:
    return int(datetime.fromisoformat(f"2026-01-{text}+00:00").timestamp() * 1_000)


def lived(*times: str) -> Refusing:
    """A table with a snapshot at each of these times of January 2026: `02T12:30`."""
    store = bare()
    landed(store, *(snapshot(number, time_ms=ms(time)) for number, time in enumerate(times, 1)))
    return store


def tagged(store: Refusing, name: str, number: int) -> None:
    store.plain().put(f"tag/tag-{name}", timeline(store.plain()).snapshot(number).to_json())


def marked(store: Refusing, *names: str) -> None:
    for name in names:
        store.plain().put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")


def record(store: Refusing, name: str) -> None:
    """What a deletion that was cut off leaves."""
    store.plain().put(f"lakelatch/untagged/main/{name}/0123456789abcdef", snapshot(1).to_json())


def applied(store: Refusing, rules: Rules, plan: AutomaticPlan) -> AutomaticPlan:
    return apply_automatic(timeline(store), SCHEMA, rules, plan, AROUND)


def tags(store: Refusing) -> dict[str, int]:
    return {tag.name: tag.snapshot.id for tag in list_tags(timeline(store.plain()))}


def two_made(store: Refusing) -> AutomaticPlan:
    one, two = (timeline(store.plain()).snapshot(number) for number in (1, 2))
    return AutomaticPlan((("a", one), ("b", two)))


def test_the_tags_of_a_plan_are_made_with_their_retention() -> None:
    store = lived("02T12:30", "02T13:10")
    plan = two_made(store)
    assert applied(store, replace(HOURS, kept_ms=7_000), plan) == plan
    wanted = [Tag(name, found, wall_time(NOW_MS), 7_000) for name, found in plan.made]
    assert list_tags(timeline(store.plain())) == wanted
    assert keys(store, "tag/") == ["tag/tag-a", "tag/tag-b"]


def test_without_a_retention_a_tag_is_the_snapshots_file() -> None:
    store = lived("02T12:30", "02T13:10")
    applied(store, HOURS, two_made(store))
    assert store.get("tag/tag-a") == store.get("snapshot/snapshot-1")


def other_tag(store: Refusing) -> None:
    store.plain().put("tag/tag-a", snapshot(9).to_json())


def no_snapshot(store: Refusing) -> None:
    store.plain().delete_many(["snapshot/snapshot-1"])


@pytest.mark.parametrize("happens", [other_tag, no_snapshot])
def test_a_tag_that_cannot_be_made_any_more_is_left_out_and_the_next_is_made(
    happens: Callable[[Refusing], None],
) -> None:
    store = lived("02T12:30", "02T13:10")
    plan = two_made(store)
    happens(store)
    done = applied(store, replace(HOURS, marks=True), plan)
    assert done.made == plan.made[1:]
    assert tags(store)["b"] == 2
    assert keys(store, "tag/tag-success-file/") == ["tag/tag-success-file/b_SUCCESS"]


def test_a_store_that_fails_is_an_error() -> None:
    store = lived("02T12:30", "02T13:10")
    plan = two_made(store)
    store.plans["create tag/tag-a"] = raising(StoreUnavailable("503"))
    with pytest.raises(StoreUnavailable):
        applied(store, HOURS, plan)


def test_a_name_that_no_tag_can_have_is_left_out() -> None:
    """Option `tag.batch.customized-name` may be anything."""
    store = lived("02T12:30")
    rules = replace(BATCH, batch_name="a/b")
    assert applied(store, rules, AutomaticPlan((("a/b", snapshot(1)),))).made == ()
    assert keys(store, "tag/") == []


def test_success_files_are_written_for_new_tags_and_for_the_one_that_lacks_it() -> None:
    store = lived("02T12:30", "02T13:10")
    tagged(store, "late", 1)
    plan = replace(two_made(store), unmarked="late")
    assert applied(store, replace(HOURS, marks=True), plan) == plan
    names = ["a_SUCCESS", "b_SUCCESS", "late_SUCCESS"]
    assert keys(store, "tag/tag-success-file/") == [f"tag/tag-success-file/{name}" for name in names]
    for name in names:
        said = json.loads(store.get(f"tag/tag-success-file/{name}"))
        assert said == {"creationTime": NOW_MS, "modificationTime": NOW_MS}
    changes = store.changes
    assert changes.index("create tag/tag-a") < changes.index("put tag/tag-success-file/a_SUCCESS")


def test_a_batch_tag_is_replaced_and_that_of_a_period_never() -> None:
    store = lived("02T12:30", "02T13:10")
    tagged(store, "done", 1)
    newest = timeline(store.plain()).snapshot(2)
    plan = AutomaticPlan((("done", newest),))
    assert applied(store, HOURS, plan).made == ()
    assert tags(store) == {"done": 1}
    assert applied(store, replace(BATCH, kept_ms=7_000), plan) == plan
    assert list_tags(timeline(store.plain())) == [Tag("done", newest, wall_time(NOW_MS), 7_000)]


def test_the_tags_that_go_are_deleted_with_their_success_files_after_new_ones_are_made() -> None:
    store = lived("02T12:30", "02T13:10")
    for name in ("old", "older", "kept"):
        tagged(store, name, 1)
    marked(store, "old", "kept")
    plan = replace(two_made(store), deleted=("old", "gone", "older"))
    done = applied(store, HOURS, plan)
    assert done == replace(plan, deleted=("old", "older")), "another process has deleted one meanwhile"
    assert tags(store) == {"a": 1, "b": 2, "kept": 1}
    assert keys(store, "tag/tag-success-file/") == ["tag/tag-success-file/kept_SUCCESS"]
    assert store.changes.index("create tag/tag-b") < store.changes.index("delete tag/tag-old")


@pytest.mark.parametrize("deleted", [(), ("cut",)])
def test_what_a_deletion_that_was_cut_off_has_left_is_deleted(deleted: tuple[str, ...]) -> None:
    """By the name of the interrupted tag, or because the tag is to go and only its record is left."""
    store = lived("02T12:30")
    record(store, "cut")
    record(store, "other")
    plan = AutomaticPlan(deleted=deleted, interrupted=() if deleted else ("cut",))
    assert applied(store, HOURS, plan) == plan
    assert keys(store, "lakelatch/untagged/") == ["lakelatch/untagged/main/other/0123456789abcdef"]


def test_a_plan_of_nothing_asks_the_store_for_nothing() -> None:
    store = lived("02T12:30")
    assert applied(store, HOURS, AutomaticPlan()) == AutomaticPlan()
    assert applied(store, HOURS, AutomaticPlan(unmarked="x")).unmarked == "x"
    assert store.reads == ["get tag/tag-success-file/x_SUCCESS"]


# ------------------------------------------------------------------------------------------------------- after a commit


def after(store: Refusing, options: dict[str, str]) -> list[str]:
    return list(tag_after_commit(timeline(store), new_schema(FIELDS, options=options)))


def test_after_a_commit_the_new_tags_are_named() -> None:
    store = lived("02T12:30")
    assert after(store, HOURLY) == ["2026-01-02 11"]
    assert tags(store) == {"2026-01-02 11": 1}
    store.changes.clear()
    assert after(store, HOURLY) == []
    assert store.changes == []


def test_after_a_commit_retentions_are_looked_at_only_where_a_tag_is_due() -> None:
    store = lived("02T12:30", "02T13:10")
    tag = Tag("short", timeline(store.plain()).snapshot(1), wall_time(5), 1)
    store.plain().put("tag/tag-short", tag.to_json())
    tagged(store, "2026-01-02 12", 2)
    time.sleep(0.005)  # until the tag's file is older than its retention
    assert after(store, HOURLY) == []
    assert tags(store) == {"short": 1, "2026-01-02 12": 2}
    landed(store, snapshot(3, time_ms=ms("02T14:10")))
    assert after(store, HOURLY) == ["2026-01-02 13"]
    assert tags(store) == {"2026-01-02 12": 2, "2026-01-02 13": 3}


def test_a_wrong_option_is_an_error_after_a_commit_too() -> None:
    with pytest.raises(InvalidArgument, match=r"option 'tag.creation-period'"):
        after(lived("02T12:30"), {**HOURLY, "tag.creation-period": "weekly"})
