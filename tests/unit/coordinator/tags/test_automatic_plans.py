"""Which automatic tags are due, and which go: decided by the times of snapshots and the names of tags."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from by_hand.snapshots import Refusing, bare, landed, snapshot, timeline

from lakelatch.coordinator.tags.automatic import AutomaticPlan, Rules, plan_automatic
from lakelatch.coordinator.tags.expiry import wall_time
from lakelatch.coordinator.tags.periods import Periods
from lakelatch.core.metadata.tag import Tag

HOURS = Rules("process-time", Periods(timedelta(hours=1), "%Y-%m-%d %H"), timezone.utc)
BATCH = Rules("batch", zone=timezone.utc, batch_name="done")
NOW_MS = 1_790_000_000_000


def ms(text: str) -> int:
    return int(datetime.fromisoformat(f"2026-01-{text}+00:00").timestamp() * 1_000)


def lived(*times: str, **more: Any) -> Refusing:
    """A table with a snapshot at each of these times of January 2026: `02T12:30`."""
    store = bare()
    landed(store, *(snapshot(number, time_ms=ms(time), **more) for number, time in enumerate(times, 1)))
    return store


def tagged(store: Refusing, name: str, number: int, **fields: Any) -> Tag:
    tag = Tag(name, timeline(store.plain()).snapshot(number), **fields)
    store.plain().put(f"tag/tag-{name}", tag.to_json())
    return tag


def marked(store: Refusing, *names: str) -> None:
    for name in names:
        store.plain().put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")


def planned(store: Refusing, rules: Rules, **more: Any) -> AutomaticPlan:
    return plan_automatic(timeline(store), rules, NOW_MS, **more)


def made(plan: AutomaticPlan) -> dict[str, int]:
    return {name.removeprefix("2026-01-"): found.id for name, found in plan.made}


# ----------------------------------------------------------------------------------------------------------- by period


def test_the_first_snapshot_after_a_period_gets_its_tag() -> None:
    """The oldest one tells of the period before it; one at the very end of a period comes after it."""
    store = lived("02T12:30", "02T12:59:59.999", "02T13:00", "02T13:30", "02T15:10")
    plan = planned(store, HOURS)
    assert made(plan) == {"02 11": 1, "02 12": 3, "02 14": 5}
    assert (plan.deleted, plan.interrupted, plan.unmarked) == ((), (), None)
    assert store.changes == []


def test_a_delay_moves_the_end_of_each_period_but_the_first() -> None:
    delayed = replace(HOURS, delay=timedelta(minutes=20))
    store = lived("02T12:30", "02T13:19:59", "02T13:20", "02T14:10")
    assert made(planned(store, delayed)) == {"02 11": 1, "02 12": 3}


def test_periods_without_a_snapshot_are_completed_if_the_table_says_so() -> None:
    store = lived("02T12:30", "02T15:10", "02T15:20", "02T15:30", "02T15:40")
    assert made(planned(store, HOURS)) == {"02 11": 1, "02 14": 2}
    assert made(planned(store, replace(HOURS, completes=True))) == {"02 11": 1, "02 12": 2, "02 13": 3, "02 14": 4}


def test_later_runs_go_on_behind_the_newest_tag() -> None:
    """By the time in its name, not by its name, and not from its own snapshot."""
    rules = replace(HOURS, periods=Periods(timedelta(hours=1), "%H %d.%m.%Y"))
    store = lived("30T12:30", "31T13:10", "31T14:10", "31T15:10")
    tagged(store, "12 31.01.2026", 2)
    tagged(store, "23 30.01.2026", 1)
    tagged(store, "by-hand", 4)
    plan = planned(store, rules)
    assert [(name, found.id) for name, found in plan.made] == [("13 31.01.2026", 3), ("14 31.01.2026", 4)]


def test_only_snapshots_behind_the_tagged_one_are_read() -> None:
    store = lived("02T12:30", "02T13:10", "02T14:10")
    tagged(store, "2026-01-02 12", 2)
    store.reads.clear()
    assert made(planned(store, HOURS, expires=False)) == {"02 13": 3}
    assert "get snapshot/snapshot-1" not in store.reads
    assert "get snapshot/snapshot-2" not in store.reads


def test_where_the_newest_snapshot_is_not_due_no_other_is_read() -> None:
    store = lived("02T12:30", "02T13:10", "02T13:50")
    tagged(store, "2026-01-02 12", 1)
    store.reads.clear()
    assert planned(store, HOURS, expires=False) == AutomaticPlan()
    assert store.reads.count("get snapshot/snapshot-2") == 0


def test_the_newest_tag_of_a_series_may_be_deleted_while_it_is_looked_at() -> None:
    """Then the series begins anew, and names that are there are left."""
    store = lived("02T12:30", "02T13:10")
    tagged(store, "2026-01-02 11", 1)
    tagged(store, "2026-01-02 12", 2)
    store.plans["get tag/tag-2026-01-02 12"] = lambda: store.plain().delete_many(["tag/tag-2026-01-02 12"])
    assert made(planned(store, HOURS, expires=False)) == {}


def test_a_file_in_a_folder_beside_the_tags_is_no_tag() -> None:
    """Of a daily tag only what comes before a space counts, so that the folder begins as one is called."""
    daily = replace(HOURS, periods=Periods(timedelta(days=1), "%Y-%m-%d", True))
    store = lived("03T12:30")
    store.plain().put("tag/tag-2026-01-02 copies/eod", b"{}")
    assert made(planned(store, daily)) == {"02": 1}


def test_a_name_that_is_taken_is_left_and_the_next_period_follows_it() -> None:
    """Also where the name is that of several periods."""
    store = lived("02T12:30", "02T13:10", "02T14:10")
    tagged(store, "2026-01-02 11", 1)
    assert made(planned(store, HOURS)) == {"02 12": 2, "02 13": 3}
    two_a_name = replace(HOURS, periods=Periods(timedelta(hours=1), "%Y-%m-%d", True))
    store = lived("02T12:30", "02T13:10", "03T14:10")
    assert made(planned(store, two_a_name)) == {"02": 1, "03": 3}


def test_snapshots_without_a_watermark_are_passed_over() -> None:
    by_watermark = replace(HOURS, mode="watermark")
    store = bare()
    marks = [None, ms("02T12:30"), None, -(2**63), ms("02T13:10")]
    landed(store, *(snapshot(number, watermark=mark) for number, mark in enumerate(marks, 1)))
    assert made(planned(store, by_watermark)) == {"02 11": 2, "02 12": 5}
    landed(store, snapshot(6))
    assert planned(store, by_watermark) == AutomaticPlan(), "the newest snapshot decides whether anything is due"


def test_more_snapshots_than_are_read_at_once_are_each_looked_at_once() -> None:
    store = bare()
    many = [snapshot(n, time_ms=ms("02T00:30") + (n - 1) * 3_600_000) for n in range(1, 151)]
    landed(store, *many)
    plan = planned(store, HOURS)
    assert [found.id for _, found in plan.made] == list(range(1, 151))
    assert len({name for name, _ in plan.made}) == 150
    assert [store.reads.count(f"get snapshot/snapshot-{number}") for number in (1, 100, 149)] == [1, 1, 1]


def test_a_snapshot_that_expires_while_snapshots_are_read_is_passed_over() -> None:
    store = lived("02T12:30", "02T13:10", "02T14:10")
    store.plans["get snapshot/snapshot-2"] = lambda: store.plain().delete_many(["snapshot/snapshot-2"])
    assert made(planned(store, HOURS)) == {"02 11": 1, "02 13": 3}


@pytest.mark.parametrize("rules", [HOURS, BATCH, Rules("none")])
def test_a_table_without_a_snapshot_has_nothing_to_tag(rules: Rules) -> None:
    plan = planned(bare(), replace(rules, marks=True))
    assert plan == AutomaticPlan()
    assert not plan.is_due


def test_without_automatic_tags_no_snapshot_is_looked_for() -> None:
    store = lived("02T12:30")
    assert planned(store, Rules("none")) == AutomaticPlan()
    assert "list snapshot/" not in store.reads


# ---------------------------------------------------------------------------------------------------- how many are kept


OLD = ("2026-01-02 10", "2026-01-02 11")


@pytest.mark.parametrize(
    ("most", "wanted", "deleted"),
    [
        (None, {"02 12": 2, "02 13": 3}, ()),
        (9, {"02 12": 2, "02 13": 3}, ()),
        (3, {"02 12": 2, "02 13": 3}, ()),
        (2, {"02 12": 2, "02 13": 3}, OLD),
        (1, {"02 13": 3}, OLD),
        (0, {}, OLD),
    ],
)
def test_the_newest_tagged_snapshots_keep_their_tags(
    most: int | None, wanted: dict[str, int], deleted: tuple[str, ...]
) -> None:
    """Two tags of one snapshot stay or go together; tags made by hand neither count nor go."""
    store = lived("02T12:10", "02T13:10", "02T14:10")
    for name in (*OLD, "by-hand"):
        tagged(store, name, 1)
    plan = planned(store, replace(HOURS, most=most))
    assert (made(plan), plan.deleted) == (wanted, deleted)


def test_which_snapshots_are_newest_does_not_depend_on_when_they_were_tagged() -> None:
    """One has got the name of an earlier period by hand."""
    store = lived("02T12:10", "02T13:10", "02T14:10")
    tagged(store, "2026-01-02 11", 1)
    tagged(store, "2026-01-02 05", 3)
    plan = planned(store, replace(HOURS, most=1))
    assert (made(plan), plan.deleted) == ({"02 13": 3}, ("2026-01-02 11",))


def test_tags_above_the_number_are_looked_for_where_none_is_due_unless_a_commit_asks() -> None:
    """An earlier run may have died before it deleted them. A commit does not look each time."""
    store = lived("02T12:10", "02T13:10", "02T13:20")
    tagged(store, "2026-01-02 11", 1)
    tagged(store, "2026-01-02 12", 2)
    rules = replace(HOURS, most=1)
    assert planned(store, rules) == AutomaticPlan(deleted=("2026-01-02 11",))
    assert planned(store, rules, expires=False) == AutomaticPlan()
    landed(store, snapshot(4, time_ms=ms("02T14:10")))
    plan = planned(store, rules, expires=False)
    assert (made(plan), plan.deleted) == ({"02 13": 4}, ("2026-01-02 11", "2026-01-02 12"))


def test_tags_above_the_number_go_even_if_all_due_names_are_taken() -> None:
    store = lived("02T12:30", "02T13:10", "02T15:10")
    rules = replace(HOURS, most=1, periods=Periods(timedelta(hours=1), "%Y-%m-%d", True))
    tagged(store, "2026-01-02", 1)
    tagged(store, "2026-01-01", 1)
    assert planned(store, rules).deleted == ()
    tagged(store, "2026-01-01", 2)
    assert planned(store, rules).deleted == ("2026-01-02",)
    assert planned(store, rules, expires=False).deleted == ()


# --------------------------------------------------------------------------------------------------------------- batch


def test_a_batch_has_one_tag_of_the_newest_snapshot() -> None:
    store = lived("02T12:30", "02T13:10")
    assert made(planned(store, BATCH)) == {"done": 2}
    tagged(store, "done", 1)
    assert made(planned(store, BATCH)) == {"done": 2}
    tagged(store, "done", 2)
    assert planned(store, BATCH) == AutomaticPlan()
    store.plain().put("tag/tag-done", snapshot(2, "other").to_json())
    assert made(planned(store, BATCH)) == {"done": 2}


def test_without_a_name_of_its_own_a_batch_is_named_after_the_day() -> None:
    store = lived("02T23:30")
    by_day = replace(BATCH, batch_name=None)
    assert made(planned(store, by_day)) == {"batch-write-2026-01-02": 1}
    assert made(planned(store, replace(by_day, zone=timezone(timedelta(hours=1))))) == {"batch-write-2026-01-03": 1}
    tagged(store, "another", 1)
    assert made(planned(store, by_day)) == {"batch-write-2026-01-02": 1}


@pytest.mark.parametrize(
    ("most", "deleted"), [(None, ()), (9, ()), (4, ()), (3, ("b",)), (2, ("b", "a")), (1, ("b", "a", "c"))]
)
def test_the_oldest_of_all_tags_go_where_a_batch_has_too_many(most: int | None, deleted: tuple[str, ...]) -> None:
    """By snapshot, then by name; the batch's own tag counts and stays."""
    store = lived("02T12:30", "02T13:10", "02T14:10")
    for name, number in (("b", 1), ("a", 2), ("c", 2), ("done", 1)):
        tagged(store, name, number)
    plan = planned(store, replace(BATCH, most=most))
    assert (made(plan), plan.deleted) == ({"done": 3}, deleted)


@pytest.mark.parametrize(("of_clone", "deleted"), [(False, ("by-hand", "cloned")), (True, ("by-hand",))])
def test_tags_that_keep_files_of_others_do_not_count_where_a_batch_has_too_many(
    of_clone: bool, deleted: tuple[str, ...]
) -> None:
    store = lived("02T12:30", "03T12:30")
    for name in ("by-hand", "cloned", "referenced-by-trial-6b046a21-1", "branch-1-ab12cd34"):
        tagged(store, name, 1)
    assert planned(store, replace(BATCH, most=1, of_clone=of_clone)).deleted == deleted


# ----------------------------------------------------------------------------------------- retentions and interruptions


def outlived(store: Refusing, *names: str) -> None:
    """Tags whose retention is over at the time of the plan; by the store's clock each file is from just now."""
    for name in names:
        tagged(store, name, 1, created=wall_time(5), retained_ms=1)


def later(store: Refusing, rules: Rules, **more: Any) -> AutomaticPlan:
    return plan_automatic(timeline(store), rules, 2**45, **more)


def test_tags_whose_retention_is_over_go_with_any_kind_of_rules_unless_these_keep_them() -> None:
    store = lived("02T12:30")
    outlived(store, "short", "brief")
    assert later(store, Rules("none")).deleted == ("brief", "short")
    assert later(store, Rules("none"), expires=False) == AutomaticPlan()
    assert later(store, Rules("none", expires=False)) == AutomaticPlan()
    by_hour = later(store, HOURS, expires=False)
    assert (made(by_hour), by_hour.deleted) == ({"02 11": 1}, ("brief", "short")), "because a tag is due"


def test_a_tag_that_goes_for_two_reasons_is_named_once_and_one_that_is_replaced_stays() -> None:
    store = lived("02T12:30", "02T13:10")
    outlived(store, "a", "done")
    plan = later(store, replace(BATCH, most=1))
    assert (made(plan), plan.deleted) == ({"done": 2}, ("a",))


def record(store: Refusing, name: str) -> None:
    store.plain().put(f"lakelatch/untagged/main/{name}/0123456789abcdef", snapshot(1).to_json())


def test_deletions_that_were_cut_off_are_named_unless_their_tag_goes_anyway() -> None:
    store = lived("02T12:30")
    for name in ("z", "a", "short"):
        record(store, name)
    outlived(store, "short")
    plan = later(store, Rules("none"))
    assert (plan.deleted, plan.interrupted) == (("short",), ("a", "z"))
    assert plan.is_due
    assert later(store, Rules("none"), expires=False) == AutomaticPlan()
    assert later(store, Rules("none", expires=False)) == AutomaticPlan()


# -------------------------------------------------------------------------------------------------------- success files


@pytest.mark.parametrize("rules", [replace(HOURS, marks=True), replace(BATCH, marks=True)])
def test_a_tag_whose_maker_died_before_its_success_file_is_told(rules: Rules) -> None:
    """Only the newest automatic tag, and only where the table wants such files."""
    store = lived("02T12:30", "02T13:10")
    newest = "done" if rules.mode == "batch" else "2026-01-02 12"
    tagged(store, "2026-01-02 11", 1)
    tagged(store, newest, 2)
    plan = planned(store, rules)
    assert plan == AutomaticPlan(unmarked=newest)
    assert plan.is_due
    assert planned(store, replace(rules, marks=False)) == AutomaticPlan()
    marked(store, newest)
    assert planned(store, rules) == AutomaticPlan()


def test_a_success_file_of_another_tag_is_not_that_of_the_newest() -> None:
    store = lived("02T12:30", "02T13:10")
    tagged(store, "2026-01-02 11", 1)
    tagged(store, "2026-01-02 12", 2)
    marked(store, "2026-01-02 11", "_SUCCESS", "success-file")
    assert planned(store, replace(HOURS, marks=True)).unmarked == "2026-01-02 12"


def test_a_tag_that_goes_or_is_replaced_needs_no_success_file() -> None:
    store = lived("02T12:30")
    tagged(store, "2026-01-02 11", 1, created=wall_time(5), retained_ms=1)
    plan = later(store, replace(HOURS, marks=True))
    assert (plan.deleted, plan.unmarked) == (("2026-01-02 11",), None)
    tagged(store, "done", 1)
    landed(store, snapshot(2, time_ms=ms("02T13:10")))
    plan = planned(store, replace(BATCH, marks=True))
    assert (made(plan), plan.unmarked) == ({"done": 2}, None)


def test_success_files_are_not_listed_where_the_table_wants_none() -> None:
    store = lived("02T12:30")
    tagged(store, "done", 1)
    planned(store, BATCH, expires=False)
    assert store.reads.count("list tag/") == 1
    store.reads.clear()
    planned(store, replace(BATCH, marks=True, batch_name="other", expires=False))
    assert store.reads.count("list tag/") == 1, "nor where the tag is still to be made"


# ---------------------------------------------------------------------------------------------------------- the plan


ONE = (("a", snapshot(1)),)


@pytest.mark.parametrize(
    ("plan", "text", "due"),
    [
        (AutomaticPlan(), "no new tag", False),
        (AutomaticPlan(made=ONE), "new tags: a of snapshot 1", True),
        (AutomaticPlan(deleted=("b", "c")), "no new tag; deleted: b, c", True),
        (AutomaticPlan(interrupted=("d",)), "no new tag; files left over from: d", True),
        (AutomaticPlan(unmarked="e"), "no new tag; success file of: e", True),
    ],
)
def test_a_plan_prints_as_one_line(plan: AutomaticPlan, text: str, due: bool) -> None:
    assert str(plan) == text
    assert plan.is_due is due


def test_a_plan_goes_into_json() -> None:
    plan = AutomaticPlan(ONE, ("b",), ("d",), "e")
    wanted = {"made": [{"tag": "a", "snapshot": 1}], "deleted": ["b"], "interrupted": ["d"], "unmarked": "e"}
    assert plan.to_dict() == wanted
