"""The steps of an expiry one by one: what is read, the hint EARLIEST, consumers and roots that come late, and what is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from by_hand.tables import TIME_MS, Asked, Handmade, added, data, metadata, removed

from lakelatch.backends.store import ObjectInfo
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.deletion import Steps
from lakelatch.coordinator.maintenance.expiry.changelogs import ChangelogPlan
from lakelatch.coordinator.maintenance.expiry.expire import (
    ExpiryPlan,
    _adds_only,
    _oldest,
    _raise_earliest,
    _refuse_needed,
    apply_expiry,
    expire,
    plan_expiry,
)
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.reach import overwrites
from lakelatch.coordinator.maintenance.reach.overwrites import Overwrites
from lakelatch.coordinator.maintenance.reach.reachable import Candidates, Reach
from lakelatch.core.errors import CommitConflict, Unsupported
from lakelatch.core.metadata.data_file import ADD, EMPTY_ROW, IndexEntry, IndexFile
from lakelatch.core.metadata.manifest import encode_index_manifest
from lakelatch.core.paths import TablePaths

LATE = 2**62
NONE: frozenset[ObjectInfo] = frozenset()
"""No root is held by the store."""


def keep(count: int, **more: Any) -> Retention:
    return Retention(count, count, LATE, LATE, more.pop("limit", 50), **more)


def table_of(count: int) -> Handmade:
    """Snapshot n deletes what n - 1 added."""
    table = Handmade()
    for number in range(1, count + 1):
        table.snapshot(number, *([removed(str(number - 1))] if number > 1 else []), added(str(number)))
    table.store.put("snapshot/LATEST", str(count).encode())
    return table


def bare(count: int) -> Handmade:
    """Snapshot files alone; their lists are not there."""
    table = Handmade()
    first = table.snapshot(1)
    for number in range(2, count + 1):
        made = replace(first, id=number, uuid=f"uuid-{number}", time_ms=TIME_MS + number)
        table.store.put(f"snapshot/snapshot-{number}", made.to_json())
    table.store.put("snapshot/LATEST", str(count).encode())
    return table


# ----------------------------------------------------------------------------------------------------- what is chosen


@pytest.mark.parametrize(
    ("until", "goes", "read"), [(2, 0, 2), (3, 1, 6), (6, 4, 6), (7, 5, 14), (63, 61, 126), (65, 63, 126)]
)
def test_as_many_snapshots_are_read_as_the_choice_needs_and_some_more(until: int, goes: int, read: int) -> None:
    """Each time about as many as before, and at most 64: snapshots that stay cost nothing, however many there are."""
    table = bare(200)
    retention = Retention(1, 10**9, TIME_MS + until, LATE, 500)
    table.asked()
    doomed, end, latest = _oldest(table.timeline, retention, None, NONE)
    asked = [line for line in table.asked("get snapshot/snapshot-") if not line.endswith(("-200", "-201"))]
    assert ([root.snapshot.id for root in doomed], latest) == (list(range(1, goes + 1)), 200)
    assert end is not None and end.snapshot.id == goes + 1
    assert len(asked) == len(set(asked)) == read


def test_not_more_than_64_snapshots_are_read_at_once() -> None:
    table = bare(200)
    table.asked()
    _oldest(table.timeline, Retention(1, 10**9, TIME_MS + 130, LATE, 500), None, NONE)
    assert len([line for line in table.asked("get snapshot/snapshot-") if not line.endswith(("-200", "-201"))]) == 190


def test_a_table_without_snapshots_has_nothing_to_expire() -> None:
    table = Handmade(changelog__num_retained__max="100")
    assert _oldest(table.timeline, keep(1), None, NONE) == ([], None, 0)
    retention = keep(1, changelogs=keep(5))
    assert plan_expiry(table.timeline, table.schema, retention) == ExpiryPlan()
    before = table.files()
    assert expire(table.timeline, table.schema, retention) == ExpiryPlan()
    assert table.files() == before


class Changing(Asked):
    """What happens just before the snapshots are listed for the second time: the first time is for the newest one."""

    listings = 0
    lands: tuple[str, bytes] | None = None
    hidden = ""

    def list(self, prefix: str) -> Any:
        self.listings += prefix == "snapshot/"
        if self.listings != 2 or prefix != "snapshot/":
            return super().list(prefix)
        if self.lands is not None:
            super().put(*self.lands)
        return iter([info for info in super().list(prefix) if info.key != self.hidden])


def test_a_listing_that_lags_behind_expires_nothing() -> None:
    """It does not show the newest snapshot yet: what may be deleted is not known."""
    table = table_of(3)
    store = Changing(table.store.url)
    store.hidden = "snapshot/snapshot-3"
    timeline = Timeline(store, TablePaths())
    assert _oldest(timeline, keep(1), None, NONE) == ([], None, 3)
    before = table.files()
    store.listings = 0
    assert expire(timeline, table.schema, keep(1, changelogs=keep(5))).snapshot_ids == ()
    assert table.files() == before
    store.hidden = ""
    assert [root.snapshot.id for root in _oldest(timeline, keep(1), None, NONE)[0]] == [1, 2]


def test_a_snapshot_that_lands_meanwhile_does_not_count() -> None:
    table = bare(6)
    store = Changing(table.store.url)
    store.lands = ("snapshot/snapshot-7", table.store.get("snapshot/snapshot-6"))
    doomed, _, latest = _oldest(Timeline(store, TablePaths()), keep(2), None, NONE)
    assert ([root.snapshot.id for root in doomed], latest) == ([1, 2, 3, 4], 6)


def test_snapshots_are_chosen_in_the_order_of_their_ids_whatever_the_order_of_a_listing() -> None:
    table = bare(12)
    for number in (3, 1):
        held = table.store.get(f"snapshot/snapshot-{number}")
        table.gone(f"snapshot/snapshot-{number}")
        table.store.put(f"snapshot/snapshot-{number}", held)
    table.store.put("snapshot/snapshot-x", b"none")
    doomed, end, latest = _oldest(table.timeline, keep(2), None, NONE)
    assert [root.snapshot.id for root in doomed] == list(range(1, 11))
    assert end is not None and (end.snapshot.id, latest) == (11, 12)
    assert [root.snapshot.id for root in _oldest(table.timeline, keep(2), 4, NONE)[0]] == [1, 2, 3]


def test_a_snapshot_that_has_just_expired_is_not_among_those_to_delete() -> None:
    table = bare(6)
    store = Vanished(table.store.url)
    store.gone = "snapshot/snapshot-2"
    doomed = _oldest(Timeline(store, TablePaths()), keep(2), None, NONE)[0]
    assert [root.snapshot.id for root in doomed] == [1, 3, 4]
    store.gone = "snapshot/snapshot-5"
    assert _oldest(Timeline(store, TablePaths()), keep(2), None, NONE)[1] is None


class Vanished(Asked):
    """Lists a file that is gone when it is read."""

    gone = ""

    def get(self, key: str) -> bytes:
        if key == self.gone:
            self.gone = ""
            super().delete_many([key])
        return super().get(key)


def test_where_the_oldest_that_stays_has_gone_nothing_is_planned() -> None:
    table = table_of(4)
    store = Vanished(table.store.url)
    store.gone = "snapshot/snapshot-3"
    plan = plan_expiry(Timeline(store, TablePaths()), table.schema, keep(2))
    assert plan == ExpiryPlan()


# ------------------------------------------------------------------------------------------------------------ a plan


def test_a_plan_names_every_file_that_goes() -> None:
    table = table_of(4)
    plan = plan_expiry(table.timeline, table.schema, keep(2))
    lists = {f"manifest/{kind}-{number}" for kind in ("base", "delta") for number in (1, 2)}
    assert (plan.snapshot_ids, plan.earliest_id, plan.saved, plan.consumer) == ((1, 2), 3, False, None)
    assert plan.steps.data == tuple(sorted(data("1", "2")))
    assert set(plan.steps.lists) == lists
    assert plan.steps.leaves == (), "the manifests are part of the states that stay"
    assert plan.steps.roots == ("snapshot/snapshot-1", "snapshot/snapshot-2")
    assert {info.key for info in plan.seen} == {f"snapshot/snapshot-{number}" for number in range(1, 5)}
    assert plan.overwrites is not None and plan.overwrites.last[0] == 4


def test_a_plan_lists_files_in_the_same_order_each_time() -> None:
    table = Handmade()
    names = [f"{number:02d}" for number in range(20)]
    table.snapshot(1, *map(added, reversed(names)))
    table.snapshot(2, *map(removed, reversed(names)))
    table.snapshot(3)
    assert plan_expiry(table.timeline, table.schema, keep(1)).steps.data == tuple(sorted(data(*names)))


def test_changelog_files_go_with_their_snapshot_unless_changelogs_stay() -> None:
    table = Handmade(changelog_producer="input")
    table.snapshot(1, added("a"), changelog=[added("told")])
    table.snapshot(2, removed("a"))
    plan = plan_expiry(table.timeline, table.schema, keep(1))
    assert set(plan.steps.data) == data("a", "told")
    assert metadata("told-1", "changes-1") <= {*plan.steps.lists, *plan.steps.leaves}
    kept = plan_expiry(table.timeline, table.schema, keep(1, changelogs=keep(5)))
    assert (set(kept.steps.data), kept.saved) == (data("a"), True)
    assert not metadata("told-1", "changes-1") & {*kept.steps.lists, *kept.steps.leaves}


def test_index_files_in_locations_that_no_option_names_stop_the_run() -> None:
    """H16; as data files do."""
    table = Handmade()
    file = IndexFile("HASH", "index-x", 1, 1, external_path="file:/elsewhere/index-x")
    table.store.put("manifest/index-manifest-1", encode_index_manifest([IndexEntry(ADD, EMPTY_ROW, 0, file)]))
    table.snapshot(1, index_manifest="index-manifest-1")
    table.snapshot(2)
    with pytest.raises(Unsupported, match=r"data-file\.external-paths"):
        plan_expiry(table.timeline, table.schema, keep(1))


def test_files_of_new_rows_stay_where_they_tell_the_changes() -> None:
    """Without changelog files a changelog that outlives its snapshot needs its delta."""
    table = Handmade()
    table.snapshot(1, added("new"), added("compacted", file_source=1))
    table.snapshot(2, removed("new"), removed("compacted", file_source=1))
    assert set(plan_expiry(table.timeline, table.schema, keep(1)).steps.data) == data("new", "compacted")
    plan = plan_expiry(table.timeline, table.schema, keep(1, changelogs=keep(5)))
    assert set(plan.steps.data) == data("compacted")
    assert (plan.steps.lists, plan.steps.leaves) == ((), ())


def test_the_slowest_consumer_holds_snapshots_back_unless_changelogs_stay_for_it() -> None:
    table = table_of(5)
    for name, number in (("a", 4), ("b", 3), ("c", 9)):
        table.store.put(f"consumer/consumer-{name}", f'{{"nextSnapshot": {number}}}'.encode())
    plan = plan_expiry(table.timeline, table.schema, keep(1))
    assert (plan.snapshot_ids, plan.consumer) == ((1, 2), ("b", 3))
    freely = keep(1, changelogs=keep(9), consumers_hold=False)
    assert plan_expiry(table.timeline, table.schema, freely).snapshot_ids == (1, 2, 3, 4)
    table.gone("snapshot/snapshot-1", "snapshot/snapshot-2")
    held = plan_expiry(table.timeline, table.schema, keep(1))
    assert (held.snapshot_ids, held.earliest_id, held.consumer) == ((), 3, ("b", 3))


def test_a_plan_for_snapshots_and_changelogs_is_told_as_one() -> None:
    steps = Steps(("d1",), ("m1",), ("l1",), ("snapshot/snapshot-3",))
    more = ChangelogPlan((1, 2), 3, Steps(("d2",), ("m2",), ("l2",), ("changelog/changelog-1",)))
    plan = ExpiryPlan((3,), 4, steps, ("job", 6), saved=True, changelogs=more)
    assert plan.to_dict() == {
        "snapshots": [3],
        "earliest": 4,
        "data_files": ["d1", "d2"],
        "metadata_files": ["m1", "l1", "m2", "l2"],
        "saved_as_changelogs": [3],
        "changelogs": [1, 2],
        "held_by_consumer": "job",
    }
    assert str(plan) == (
        "snapshot 3: 1 data files, 2 files of metadata, changes are kept; 2 changelogs, 1 to 2: 1 data files;"
        " consumer 'job' reads 6 next"
    )
    assert ExpiryPlan().to_dict() == {
        "snapshots": [], "earliest": 0, "data_files": [], "metadata_files": [], "saved_as_changelogs": [],
        "changelogs": [], "held_by_consumer": None,
    }  # fmt: skip


def test_two_plans_are_equal_if_they_delete_the_same() -> None:
    """How that was found out does not count."""
    table = Handmade()
    usage = Reach(table.timeline, table.schema).usage(Candidates(frozenset()))
    found = Overwrites(1, (2, "uuid-2"))
    assert ExpiryPlan(usage=usage, folders=True, overwrites=found) == ExpiryPlan()
    assert ChangelogPlan(usage=usage) == ChangelogPlan()
    assert ExpiryPlan(saved=True) != ExpiryPlan() != ExpiryPlan(earliest_id=1)


# ---------------------------------------------------------------------------------------------------- carrying it out


def test_what_was_planned_is_deleted_in_order_and_told() -> None:
    table = table_of(4)
    plan = plan_expiry(table.timeline, table.schema, keep(2))
    table.asked()
    told: list[tuple[int, int]] = []
    done = apply_expiry(table.timeline, plan, lambda *counts: told.append(counts))
    changes = [line for line in table.asked() if line.startswith(("put", "create", "delete"))]
    assert changes[0] == "put snapshot/EARLIEST"
    assert changes[1:] == [f"delete {key}" for key in (*plan.steps.data, *plan.steps.lists, *plan.steps.roots)]
    assert done == ExpiryPlan((1, 2), 3, plan.steps)
    assert told[-1] == (8, 8)
    assert table.store.get("snapshot/EARLIEST") == b"3"


def test_a_long_search_for_overwrites_is_noted_once_files_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overwrites, "REMEMBERED_FROM", 2)
    table = table_of(5)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, keep(3)))
    assert overwrites.KEY in table.files()
    table.gone(overwrites.KEY)
    apply_expiry(table.timeline, replace(plan_expiry(table.timeline, table.schema, keep(2)), overwrites=None))
    assert overwrites.KEY not in table.files()


def test_a_plan_without_snapshots_deletes_nothing() -> None:
    table = table_of(2)
    plan = plan_expiry(table.timeline, table.schema, keep(2))
    table.asked()
    assert apply_expiry(table.timeline, plan) == plan
    assert apply_expiry(table.timeline, ExpiryPlan((1,), 2, Steps(roots=("snapshot/snapshot-1",)))).snapshot_ids == (1,)
    assert table.asked() == []


@pytest.mark.parametrize(
    ("hinted", "there", "after"),
    [(None, False, "3"), ("2", True, "3"), ("3", True, None), ("5", True, None), ("9", False, "3"), ("x", False, "3")],
)
def test_the_hint_is_raised_and_never_lowered(hinted: str | None, there: bool, after: str | None) -> None:
    """H7. A hint of a snapshot that is not there says nothing."""
    table = bare(6)
    if hinted is not None:
        table.store.put("snapshot/EARLIEST", hinted.encode())
    assert (hinted is not None and f"snapshot/snapshot-{hinted}" in table.files()) is there
    table.asked()
    _raise_earliest(table.timeline, 3)
    assert table.asked("put") == ([] if after is None else ["put snapshot/EARLIEST"])
    assert table.store.get("snapshot/EARLIEST") == (after or hinted or "").encode()


def consumers(table: Handmade, **numbers: int) -> None:
    for name, number in numbers.items():
        table.store.put(f"consumer/consumer-{name}", f'{{"nextSnapshot": {number}}}'.encode())


def test_a_consumer_that_came_since_the_plan_stops_it_and_the_hint_goes_back() -> None:
    """H10: the slowest one is named."""
    table = bare(6)
    plan = ExpiryPlan((2, 3), 4)
    consumers(table, d=4, e=9)
    table.asked()
    _refuse_needed(table.timeline, plan)
    assert table.asked("put") == []
    consumers(table, a=3, b=2, c=3)
    with pytest.raises(CommitConflict, match="consumer 'b' reads snapshot 2 next"):
        _refuse_needed(table.timeline, plan)
    assert table.store.get("snapshot/EARLIEST") == b"2"
    table.gone("snapshot/EARLIEST")
    _refuse_needed(table.timeline, replace(plan, saved=True))
    assert "snapshot/EARLIEST" not in table.files(), "its changes stay"


def test_a_consumer_that_came_since_the_plan_keeps_every_file() -> None:
    table = table_of(4)
    plan = plan_expiry(table.timeline, table.schema, keep(2))
    consumers(table, late=1)
    before = table.files()
    with pytest.raises(CommitConflict, match="consumer 'late'"):
        apply_expiry(table.timeline, plan)
    assert table.files() - {"snapshot/EARLIEST"} == before


@pytest.mark.parametrize(
    ("key", "kind", "harmless"),
    [
        ("snapshot/snapshot-6", "APPEND", True),
        ("snapshot/snapshot-6", "COMPACT", True),
        ("snapshot/snapshot-6", "OVERWRITE", False),
        ("snapshot/snapshot-5", "APPEND", False),
        ("snapshot/snapshot-3", "APPEND", False),
        ("tag/tag-6", "APPEND", False),
        ("branch/branch-dev/snapshot/snapshot-6", "APPEND", False),
    ],
)
def test_only_a_newer_commit_of_the_branch_that_is_no_overwrite_brings_nothing_back(
    key: str, kind: str, harmless: bool
) -> None:
    """Anything else that came since the plan is asked for what it needs."""
    table = Handmade()
    table.snapshot(6, kind=kind, at=key)
    infos = [ObjectInfo(f"snapshot/snapshot-{number}", 1, 1) for number in (5, 2, 4)]
    plan = ExpiryPlan((1,), 2, seen=frozenset([*infos, ObjectInfo("tag/tag-x", 1, 1)]))
    assert _adds_only(table.timeline, plan, table.roots(key)[0]) is harmless


def test_an_overwrite_that_came_since_the_plan_keeps_what_it_brought_back() -> None:
    table = table_of(4)
    plan = plan_expiry(table.timeline, table.schema, keep(2))
    table.snapshot(5, added("1"), kind="OVERWRITE")
    done = apply_expiry(table.timeline, plan)
    assert set(done.steps.data) == data("2")


def test_with_changelogs_those_that_have_just_been_saved_may_go_at_once() -> None:
    table = table_of(6)
    consumers(table, a=9, b=8)
    done = expire(table.timeline, table.schema, keep(1, changelogs=keep(3)))
    assert (done.snapshot_ids, done.changelogs.ids) == ((1, 2, 3, 4, 5), (1, 2, 3))
    assert table.timeline.changelog_ids() == [4, 5]
    again = expire(table.timeline, table.schema, keep(1))
    assert (again.snapshot_ids, table.timeline.changelog_ids()) == ((), [4, 5])


def test_the_slowest_consumer_keeps_its_changelogs() -> None:
    table = table_of(6)
    consumers(table, a=9, b=3)
    done = expire(table.timeline, table.schema, keep(1, changelogs=keep(3), consumers_hold=False))
    assert (done.snapshot_ids, done.changelogs.ids) == ((1, 2, 3, 4, 5), (1, 2))


def test_one_plan_holds_the_snapshots_that_go_and_the_changelogs_that_were_there_before() -> None:
    table = table_of(6)
    expire(table.timeline, table.schema, keep(2, changelogs=keep(9)))
    assert table.timeline.changelog_ids() == [1, 2, 3, 4]
    consumers(table, a=9)
    plan = plan_expiry(table.timeline, table.schema, keep(1, changelogs=keep(3)))
    assert (plan.snapshot_ids, plan.changelogs.ids, plan.changelogs.earliest_id) == ((5,), (1, 2, 3), 4)
    consumers(table, b=2)
    held = plan_expiry(table.timeline, table.schema, keep(1, changelogs=keep(3), consumers_hold=False))
    assert (held.snapshot_ids, held.changelogs.ids) == ((5,), (1,))
    table.gone("consumer/consumer-b")
    before = table.files()
    done = apply_expiry(table.timeline, plan)
    assert (done.snapshot_ids, done.saved, done.changelogs.ids) == ((5,), True, (1, 2, 3))
    assert table.timeline.changelog_ids() == [4, 5]
    gone = {key for steps in (plan.steps, plan.changelogs.steps) for key in (*steps.lists, *steps.roots)}
    assert before - table.files() == gone


def test_a_plan_for_changelogs_alone_is_carried_out() -> None:
    table = table_of(6)
    expire(table.timeline, table.schema, keep(1, changelogs=keep(9)))
    plan = plan_expiry(table.timeline, table.schema, keep(1, changelogs=keep(3)))
    assert (plan.snapshot_ids, plan.changelogs.ids) == ((), (1, 2, 3))
    assert apply_expiry(table.timeline, plan).changelogs.ids == (1, 2, 3)
    assert table.timeline.changelog_ids() == [4, 5]
