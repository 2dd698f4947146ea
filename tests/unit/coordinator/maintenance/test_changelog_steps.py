"""Changelogs that outlive their snapshots, step by step: how they are saved, which are chosen, what goes with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from by_hand.tables import Asked, Handmade, added, data, metadata, removed

from lakelatch.backends.store import PutOutcome, Unknown
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.maintenance.deletion import Steps
from lakelatch.coordinator.maintenance.expiry.changelogs import (
    ChangelogPlan,
    _adds_only,
    apply_changelogs,
    keeps_of,
    plan_changelogs,
    save_as_changelogs,
    share_files,
)
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.reach.reachable import Reach
from lakelatch.core.errors import CommitConflict, StoreUnavailable, Unsupported
from lakelatch.core.paths import TablePaths

LATE = 2**62


def keep(count: int, limit: int = 50) -> Retention:
    return Retention(count, count, LATE, LATE, limit)


def test_what_outlives_a_snapshot_depends_on_what_tells_its_changes() -> None:
    with_changelogs = Retention(1, 1, 0, 0, 1, changelogs=keep(5))
    assert keeps_of(Handmade().schema, keep(1)) == "nothing"
    assert keeps_of(Handmade().schema, with_changelogs) == "delta"
    assert keeps_of(Handmade(changelog_producer="input").schema, with_changelogs) == "changelog"


def test_changelogs_may_share_files_only_if_some_schema_had_no_changelog_files() -> None:
    plain, told = Handmade(), Handmade(changelog_producer="input")
    assert share_files(plain.timeline, "nothing") and share_files(plain.timeline, "changelog")
    plain.asked()
    assert not share_files(plain.timeline, "delta")
    assert plain.asked() == []
    assert not share_files(told.timeline, "nothing")
    told.store.put("schema/schema-1", replace(plain.schema, id=1).to_json())
    assert share_files(told.timeline, "nothing")


# --------------------------------------------------------------------------------------------------------------- saving


def bare(*numbers: int) -> Handmade:
    table = Handmade()
    for number in numbers:
        table.snapshot(number)
    return table


def test_snapshots_are_copied_and_the_newest_of_them_is_hinted() -> None:
    table = bare(1, 2, 3, 4)
    save_as_changelogs(table.timeline, (1, 2, 3))
    assert table.files("changelog/") == {f"changelog/changelog-{number}" for number in (1, 2, 3)} | {"changelog/LATEST"}
    assert table.store.get("changelog/changelog-2") == table.store.get("snapshot/snapshot-2")
    assert table.store.get("changelog/LATEST") == b"3"


@pytest.mark.parametrize(("hinted", "after", "puts"), [("9", b"9", 0), ("3", b"3", 0), ("2", b"3", 1), ("x", b"3", 1)])
def test_the_hint_is_never_lowered(hinted: str, after: bytes, puts: int) -> None:
    table = bare(1, 2, 3)
    table.store.put("changelog/LATEST", hinted.encode())
    table.asked()
    save_as_changelogs(table.timeline, (1, 2, 3))
    assert len(table.asked("put")) == puts
    assert table.store.get("changelog/LATEST") == after


def test_a_snapshot_that_another_expiry_has_saved_already_is_passed_over() -> None:
    table = bare(1, 2, 3)
    table.gone("snapshot/snapshot-3")
    save_as_changelogs(table.timeline, (1, 2, 3))
    assert table.timeline.changelog_ids() == [1, 2]
    assert table.store.get("changelog/LATEST") == b"2"
    table.gone("changelog/LATEST")
    save_as_changelogs(table.timeline, (3,))
    assert "changelog/LATEST" not in table.files()


def test_a_changelog_is_written_again_only_where_it_holds_another_snapshot() -> None:
    """Another history's, whose names were freed."""
    table = bare(1, 2)
    table.copy("snapshot/snapshot-1", "changelog/changelog-1")
    table.store.put("changelog/changelog-2", b"of another history")
    table.store.put("changelog/LATEST", b"2")
    table.asked()
    save_as_changelogs(table.timeline, (1, 2))
    assert table.asked("put") == ["put changelog/changelog-2"]
    assert table.store.get("changelog/changelog-2") == table.store.get("snapshot/snapshot-2")


class Silent(Asked):
    """Never says whether it has created anything."""

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return Unknown("no answer")


def test_a_changelog_that_may_not_have_been_written_stops_the_expiry() -> None:
    store = Silent(bare(1).store.url)
    with pytest.raises(StoreUnavailable, match="changelog/changelog-1 may not have been written: no answer"):
        save_as_changelogs(Timeline(store, TablePaths()), (1,))
    assert not list(store.list("changelog/"))


# ------------------------------------------------------------------------------------------------------------- choosing


def lived(count: int = 6, *, told: bool = False, **options: str) -> Handmade:
    """Changelogs of all snapshots but the newest, listed from the newest to the oldest. Snapshot n deletes what n - 1 added."""
    table = Handmade(**({"changelog_producer": "input"} if told else {}), **options)
    for number in range(1, count + 1):
        entries = [*([removed(str(number - 1))] if number > 1 else []), added(str(number))]
        table.snapshot(number, *entries, changelog=[added(f"told-{number}")] if told else None)
    for number in range(count - 1, 0, -1):
        table.copy(f"snapshot/snapshot-{number}", f"changelog/changelog-{number}")
        table.gone(f"snapshot/snapshot-{number}")
        if told:
            table.gone(f"manifest/base-{number}", f"manifest/delta-{number}")
    return table


def planned(
    table: Handmade, retention: Retention | None, latest: int = 6, needed: int | None = None, first: int | None = 6
) -> ChangelogPlan:
    reach = Reach(table.timeline, table.schema)
    return plan_changelogs(reach, retention, table.roots(first)[0] if first is not None else None, latest, needed)


def test_the_oldest_changelogs_go() -> None:
    table = lived()
    plan = planned(table, keep(3))
    assert (plan.ids, plan.earliest_id) == ((1, 2, 3), 4)
    assert plan.steps.roots == tuple(f"changelog/changelog-{number}" for number in (1, 2, 3))
    assert {info.key for info in plan.seen} == {
        *(f"changelog/changelog-{number}" for number in range(1, 6)),
        "snapshot/snapshot-6",
    }
    assert str(plan) == "3 changelogs, 1 to 3: 2 data files"
    assert str(planned(table, keep(5))) == "changelog 1: 0 data files"
    assert str(planned(table, keep(6))) == "no changelog expires"
    assert planned(table, keep(3), needed=2).ids == (1,)


def test_without_changelogs_to_expire_the_plan_is_empty() -> None:
    table = lived()
    for plan in (planned(table, None), planned(table, keep(3), first=None), planned(table, keep(9))):
        assert plan == ChangelogPlan()
    assert planned(bare(6), keep(1)) == ChangelogPlan()


def test_a_changelog_of_a_snapshot_that_is_still_there_does_not_count() -> None:
    """An expiry that was cut off has written it, and will delete the snapshot."""
    table = lived()
    for number in (3, 4, 5):
        table.copy(f"changelog/changelog-{number}", f"snapshot/snapshot-{number}")
    assert planned(table, keep(1), first=6).ids == (1,)
    table.gone("snapshot/snapshot-3")
    assert planned(table, keep(1), first=6).ids == (1, 2)


def test_hints_and_other_files_are_no_changelogs() -> None:
    table = lived()
    for name in ("LATEST", "EARLIEST", "changelog-x", "snapshot-2"):
        table.store.put(f"changelog/{name}", b"1")
    assert planned(table, keep(3)).ids == (1, 2, 3)


@pytest.mark.parametrize(("limit", "goes"), [(1, (1,)), (2, (1, 2)), (3, (1, 2, 3)), (4, (1, 2, 3))])
def test_no_more_go_and_are_read_than_the_limit_says(limit: int, goes: tuple[int, ...]) -> None:
    """And the one after them, which stays."""
    table = lived(9)
    roots = table.roots(9)
    table.asked()
    reach = Reach(table.timeline, table.schema)
    assert plan_changelogs(reach, keep(6, limit), roots[0], 9, None).ids == goes
    read = [int(line.rpartition("-")[2]) for line in table.asked("get changelog/changelog-")]
    assert set(read) >= set(range(1, limit + 2))
    assert len(read) == len(set(read)) or limit == 4, "those above are read in search of overwrites, and only then"


class Vanished(Asked):
    """Lists a file that is gone when it is read."""

    gone = ""

    def get(self, key: str) -> bytes:
        if key == self.gone:
            super().delete_many([key])
        return super().get(key)


@pytest.mark.parametrize(("gone", "goes"), [(1, (2, 3)), (2, (1, 3)), (4, ())])
def test_a_changelog_that_goes_meanwhile_is_left_out(gone: int, goes: tuple[int, ...]) -> None:
    """Without the oldest one that stays nothing goes."""
    table = lived()
    store = Vanished(table.store.url)
    store.gone = f"changelog/changelog-{gone}"
    reach = Reach(Timeline(store, TablePaths()), table.schema)
    assert plan_changelogs(reach, keep(3), table.roots(6)[0], 6, None).ids == goes


def test_where_only_the_oldest_would_go_and_has_gone_nothing_is_planned() -> None:
    table = lived()
    store = Vanished(table.store.url)
    store.gone = "changelog/changelog-1"
    reach = Reach(Timeline(store, TablePaths()), table.schema)
    assert plan_changelogs(reach, keep(5), table.roots(6)[0], 6, None) == ChangelogPlan()


# ------------------------------------------------------------------------------------------------------- what they take


def test_a_changelog_without_changelog_files_takes_what_the_next_ones_deleted() -> None:
    """Its own new file stays until the changelog that deletes it goes, which tells that it was deleted."""
    table = lived()
    plan = planned(table, keep(3))
    assert plan.steps.data == tuple(sorted(data("1", "2")))
    lists = {f"manifest/{kind}-{number}" for kind in ("base", "delta") for number in (1, 2, 3)}
    assert set(plan.steps.lists) == lists
    assert plan.steps.leaves == (), "the newest snapshot's state still needs the manifests"


def test_a_changelog_with_changelog_files_takes_these_alone() -> None:
    table = lived(told=True)
    plan = planned(table, keep(3))
    assert plan.steps.data == tuple(sorted(data("told-1", "told-2", "told-3")))
    assert set(plan.steps.leaves) == metadata("changes-1", "changes-2", "changes-3")
    assert metadata("told-1", "told-2", "told-3") <= set(plan.steps.lists)
    assert not metadata("told-4", "base-6", "delta-6") & set(plan.steps.lists)


def test_an_index_manifest_went_with_the_snapshot() -> None:
    """And may be another's by now."""
    table = Handmade()
    table.index("index-manifest-1", "index-a")
    table.snapshot(1, added("1"), index_manifest="index-manifest-1", at="changelog/changelog-1")
    table.snapshot(2, added("2"), at="changelog/changelog-2")
    table.snapshot(3)
    plan = planned(table, keep(2), latest=3, first=3)
    assert plan.ids == (1,)
    assert set(plan.steps.lists) == metadata("base-1", "delta-1")
    assert not {"index/index-a", "manifest/index-manifest-1"} & {*plan.steps.lists, *plan.steps.leaves}


def test_a_file_that_a_later_overwrite_names_again_stays_whatever_it_was_to_the_changelog() -> None:
    """A list, or a manifest of the changelog. The overwrite adds no file, so only these names tell that it must be asked."""
    table = lived()
    assert "manifest/base-1" in planned(table, keep(3)).steps.lists
    table.snapshot(7, kind="OVERWRITE", index_manifest="base-1")
    plan = planned(table, keep(4), latest=7)
    assert plan.ids == (1, 2, 3)
    assert set(plan.steps.lists) == metadata("delta-1", "base-2", "delta-2", "base-3", "delta-3")

    table = Handmade(changelog_producer="input")
    for number in (1, 2):
        table.snapshot(number, changelog=[], at=f"changelog/changelog-{number}")
    table.snapshot(3)
    assert planned(table, keep(2), latest=3, first=3).steps.leaves == ("manifest/changes-1",)
    table.snapshot(4, kind="OVERWRITE", index_manifest="changes-1")
    plan = planned(table, keep(3), latest=4, first=3)
    assert (plan.ids, plan.steps.leaves) == ((1,), ())


def test_files_in_locations_that_no_option_names_stop_an_expiry_of_changelogs() -> None:
    table = Handmade(changelog_producer="input", data_file__external_paths="file:///lake")
    outside = added("x", external_path="file:/lake/bucket-0/data-x")
    table.snapshot(1, changelog=[outside], at="changelog/changelog-1")
    table.snapshot(2, at="changelog/changelog-2")
    table.snapshot(3)
    assert planned(table, keep(2), latest=3, first=3).steps.data == ("file:/lake/bucket-0/data-x",)
    reach = Reach(table.timeline, Handmade(changelog_producer="input").schema)
    with pytest.raises(Unsupported, match=r"data-file\.external-paths"):
        plan_changelogs(reach, keep(2), table.roots(3)[0], 3, None)


# ------------------------------------------------------------------------------------------------------ carrying it out


def test_an_empty_plan_asks_for_nothing() -> None:
    table = lived()
    table.asked()
    for plan in (ChangelogPlan(), ChangelogPlan((1,), 2, Steps(roots=("changelog/changelog-1",)))):
        assert apply_changelogs(table.timeline, plan) is plan
    assert table.asked() == []


@pytest.mark.parametrize(("hinted", "after"), [(None, b"4"), (b"2", b"4"), (b"4", b"4"), (b"5", b"5")])
def test_the_hint_is_raised_before_anything_is_deleted(hinted: bytes | None, after: bytes) -> None:
    table = lived()
    if hinted is not None:
        table.store.put("changelog/EARLIEST", hinted)
    plan = planned(table, keep(3))
    table.asked()
    told: list[tuple[int, int]] = []
    done = apply_changelogs(table.timeline, plan, lambda *counts: told.append(counts))
    changes = [line for line in table.asked() if line.startswith(("put", "delete"))]
    raised = [] if hinted in (b"4", b"5") else ["put changelog/EARLIEST"]
    gone = [*plan.steps.data, *plan.steps.lists, *plan.steps.roots]
    assert changes == [*raised, *(f"delete {key}" for key in gone)]
    assert table.store.get("changelog/EARLIEST") == after
    assert done == ChangelogPlan((1, 2, 3), 4, plan.steps)
    assert told[-1] == (len(gone), len(gone))
    assert table.timeline.changelog_ids() == [4, 5]


def test_a_consumer_that_came_since_keeps_every_changelog() -> None:
    table = lived()
    plan = planned(table, keep(3))
    for name, number in (("a", 9), ("b", 2), ("c", 3)):
        table.store.put(f"consumer/consumer-{name}", f'{{"nextSnapshot": {number}}}'.encode())
    before = table.files()
    with pytest.raises(CommitConflict, match="reads snapshot 2 next"):
        apply_changelogs(table.timeline, plan)
    assert table.files() - before == {"changelog/EARLIEST"}
    assert table.store.get("changelog/EARLIEST") == b"1"
    table.gone("consumer/consumer-b", "consumer/consumer-c")
    table.store.put("consumer/consumer-d", b'{"nextSnapshot": 4}')
    assert apply_changelogs(table.timeline, plan).ids == (1, 2, 3)


@pytest.mark.parametrize(
    ("key", "number", "kind", "harmless"),
    [
        ("snapshot/snapshot-7", 7, "APPEND", True),
        ("changelog/changelog-7", 7, "COMPACT", True),
        ("snapshot/snapshot-7", 7, "OVERWRITE", False),
        ("changelog/changelog-7", 7, "OVERWRITE", False),
        ("snapshot/snapshot-4", 4, "APPEND", False),
        ("changelog/changelog-3", 3, "APPEND", False),
        ("tag/tag-7", 7, "APPEND", False),
        ("branch/branch-dev/changelog/changelog-7", 7, "APPEND", False),
    ],
)
def test_only_newer_commits_of_the_branch_and_their_changelogs_bring_nothing_back(
    key: str, number: int, kind: Any, harmless: bool
) -> None:
    table = Handmade()
    table.snapshot(number, kind=kind, at=key)
    assert _adds_only(table.timeline, ChangelogPlan((1,), 4), table.roots(key)[0]) is harmless


def test_a_tag_that_was_made_since_keeps_what_it_holds() -> None:
    table = lived()
    plan = planned(table, keep(3))
    table.copy("changelog/changelog-1", "tag/tag-late")
    done = apply_changelogs(table.timeline, plan)
    assert set(done.steps.data) == data("2")
    assert metadata("base-1", "delta-1") <= table.files()
