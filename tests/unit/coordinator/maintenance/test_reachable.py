"""What a root names and what its state holds, in tables that are made file by file."""

from __future__ import annotations

import pytest
from by_hand.tables import IDENTITIES, Handmade, added, data, full, metadata, removed, with_page

from lakelatch.coordinator.maintenance.reach.reachable import Candidates, Named, Reach
from lakelatch.core.errors import TableCorrupt


def reach_of(table: Handmade, **more: bool) -> Reach:
    return Reach(table.timeline, table.schema, **more)


def named(table: Handmade, root: str | int, **more: bool) -> Named:
    (found,) = reach_of(table, **more).named_by(table.roots(root))
    return found


def names(manifests: tuple[object, ...]) -> list[str]:
    return [m.file_name for m in manifests]  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------------------------- metadata


def test_a_snapshot_names_its_lists_and_all_that_they_list() -> None:
    found = named(full(), 2)
    assert found.lists == metadata("base-2", "delta-2", "told-2", "index-manifest-2")
    leaves = metadata("manifest-1", "manifest-2", "changes-2")
    assert found.leaves == leaves | {"index/index-a", "index/index-b", "statistics/stat-2"}
    assert found.keys == found.lists | found.leaves
    assert (names(found.state), names(found.delta), names(found.changelog)) == (
        ["manifest-1", "manifest-2"],
        ["manifest-2"],
        ["changes-2"],
    )
    assert found.missing == ()


def test_a_tag_keeps_the_state_of_its_snapshot_and_not_its_changelog() -> None:
    table = full()
    found = named(table, table.tag("eod", 2))
    assert found.lists == metadata("base-2", "delta-2", "index-manifest-2")
    assert (found.changelog, "manifest/changes-2" in found.leaves) == ((), False)
    table.gone("manifest/told-2")
    assert named(table, "tag/tag-eod").missing == ()


@pytest.mark.parametrize("lacking", ["base-2", "delta-2", "told-2", "index-manifest-2"])
@pytest.mark.parametrize(
    "at", ["snapshot/snapshot-2", "changelog/changelog-2", "branch/branch-dev/snapshot/snapshot-2"]
)
def test_which_of_its_lists_a_root_may_lack(lacking: str, at: str) -> None:
    """A long-lived changelog needs its changelog list only; a snapshot of another branch may have been made of a tag."""
    table = full()
    if at != "snapshot/snapshot-2":
        table.copy("snapshot/snapshot-2", at)
    table.gone(f"manifest/{lacking}")
    may = {"changelog": lacking != "told-2", "branch": lacking == "told-2"}.get(at.partition("/")[0], False)
    found = named(table, at)
    assert found.missing == (() if may else (f"manifest/{lacking}",))
    assert f"manifest/{lacking}" in found.lists, "it is named, whether it is there or not"
    if may:
        assert len(reach_of(table).kept_by(table.roots(at))) == 1
        return
    with pytest.raises(TableCorrupt, match=f"manifest/{lacking} is missing, but {at} needs it") as raised:
        reach_of(table).kept_by(table.roots(at))
    assert ("expire the old snapshots of branch 'dev', or delete it" in str(raised.value)) is at.startswith("branch/")


def test_a_root_that_has_gone_itself_keeps_nothing_and_the_others_keep_theirs() -> None:
    """It expired while it was looked at, and its lists with it."""
    table = full()
    roots = table.roots(1, 2)
    table.gone("snapshot/snapshot-1", "manifest/base-1")
    assert [one.root.snapshot.id for one in reach_of(table).kept_by(roots)] == [2]


def test_a_root_whose_name_holds_another_snapshot_by_now_keeps_nothing() -> None:
    table = full()
    roots = table.roots(1)
    table.gone("manifest/base-1")
    table.snapshot(1, uuid="another")
    table.gone("manifest/base-1")
    assert reach_of(table).kept_by(roots) == []


def test_files_of_identities_count_only_where_they_are_asked_for() -> None:
    table = with_page()
    assert not named(table, 1).keys & IDENTITIES
    found = named(table, 1, identities=True)
    assert found.keys - named(table, 1).keys == IDENTITIES
    assert found.lists & IDENTITIES == {"lakelatch/identities/identities-page-0"}
    table.copy("snapshot/snapshot-1", "changelog/changelog-1")
    assert not named(table, "changelog/changelog-1", identities=True).keys & IDENTITIES
    assert named(table, table.tag("eod", 1), identities=True).keys >= IDENTITIES


def test_a_page_of_identities_that_is_gone_is_missing() -> None:
    table = with_page()
    table.gone("lakelatch/identities/identities-page-0")
    assert named(table, 1, identities=True).missing == ("lakelatch/identities/identities-page-0",)
    assert named(table, 1).missing == ()


def test_each_list_index_manifest_and_page_is_read_once_for_all_roots() -> None:
    table = full()
    table.copy("snapshot/snapshot-2", "tag/tag-eod")
    paged = with_page()
    paged.tag("eod", 1)
    for one in (table, paged):
        reach = reach_of(one, identities=True)
        roots = one.roots(1, "tag/tag-eod")
        one.asked()
        reach.named_by(roots)
        reach.named_by(roots[:1])
        read = one.asked("get ")
        assert len(read) == len(set(read)) > 2


# ----------------------------------------------------------------------------------------------------------- data files


def test_the_live_files_of_states_are_those_that_were_added_and_not_deleted() -> None:
    table = full()
    reach = reach_of(table)
    found = reach.live_data(reach.named_by(table.roots(1, 2)))
    assert found == Candidates(frozenset(data("a", "b")), frozenset({bytes(12)}))
    assert reach.live_data(reach.named_by(table.roots(2))).keys == data("b")
    table.gone("manifest/manifest-1")
    assert reach_of(table).live_data(reach.named_by(table.roots(1))).keys == frozenset(), "it is gone, and skipped"
    assert reach_of(table).live_data(reach.named_by(table.roots(2))).keys == data("b")


def test_deltas_and_changelogs_are_read_in_order_and_each_manifest_once() -> None:
    table = full()
    table.snapshot(3, added("c", file_source=1))
    reach = reach_of(table)
    roots = reach.named_by(table.roots(1, 2, 3))
    table.asked()
    assert [e.file.file_name for e in reach.delta_entries(roots)] == ["data-a", "data-a", "data-b", "data-c"]
    assert [e.file.file_name for e in reach.changelog_entries(roots)] == ["data-told"]
    reach.delta_entries(roots[1:])
    assert reach.entries_of("manifest-2") == reach.delta_entries(roots[1:2])
    assert len(table.asked("get ")) == 4


def test_manifests_that_are_gone_are_told() -> None:
    table = full()
    table.snapshot(3)
    table.gone("manifest/manifest-2")
    reach = reach_of(table)
    one, two, three = reach.named_by(table.roots(1, 2, 3))
    assert reach.entries_of("manifest-2") is None
    assert not any(map(reach.lacks_delta, (one, two, three))), "nobody has looked yet"
    assert [e.file.file_name for e in reach.delta_entries([one, two, three])] == ["data-a"]
    assert [reach.lacks_delta(n) for n in (one, two, three)] == [False, True, False]
    assert [reach.lacks(n) for n in (one, two, three)] == [[], ["manifest-2"], ["manifest-2"]]


def test_a_delta_of_several_manifests_lacks_one_if_any_is_gone() -> None:
    table = full()
    table.list_of("delta-2", "manifest-1", "manifest-2")
    table.gone("manifest/manifest-2")
    reach = reach_of(table)
    (two,) = reach.named_by(table.roots(2))
    reach.delta_entries([two])
    assert reach.lacks_delta(two)


# ---------------------------------------------------------------------------------------------------------------- usage


def live(table: Handmade, *roots: str | int, of: set[str]) -> set[str]:
    reach = reach_of(table)
    return reach.usage(Candidates(frozenset(of))).live(reach.named_by(table.roots(*roots)))


def test_a_state_needs_the_candidates_that_it_holds_and_a_snapshot_those_of_its_changelog() -> None:
    table = full()
    candidates = data("a", "told", "elsewhere") | data("b")
    assert live(table, 1, of=candidates) == data("a")
    assert live(table, 2, of=candidates) == data("b", "told")
    assert live(table, 1, 2, of=candidates) == data("a", "b", "told")
    assert live(table, table.tag("eod", 2), of=candidates) == data("b")
    assert live(table, 2, of=data("told")) == data("told")
    assert live(table, 2, of=set()) == set()


def test_a_file_that_was_deleted_and_added_again_is_live() -> None:
    table = full()
    table.snapshot(3, removed("b"), added("a"))
    assert live(table, 3, of=data("a", "b")) == data("a")


def test_a_long_lived_changelog_needs_every_file_that_its_manifests_name() -> None:
    """Those that its delta deletes, too: they tell what changed."""
    table = full()
    table.copy("snapshot/snapshot-2", "changelog/changelog-2")
    assert live(table, "changelog/changelog-2", of=data("a", "b", "told")) == data("a", "b", "told")
    table.gone("manifest/manifest-1", "manifest/manifest-2")
    assert live(table, "changelog/changelog-2", of=data("a", "b", "told")) == data("told")


def test_files_that_belong_to_a_data_file_are_as_live_as_it_is() -> None:
    table = Handmade()
    table.snapshot(1, added("a", extra_files=("data-a.index",)), added("b", extra_files=("data-b.index",)))
    table.snapshot(2, removed("b", extra_files=("data-b.index",)))
    keys = {"bucket-0/data-a.index", "bucket-0/data-b.index"}
    assert live(table, 2, of=keys) == {"bucket-0/data-a.index"}


def test_a_file_outside_of_the_table_is_a_candidate_by_its_url() -> None:
    table = Handmade(data_file__external_paths="file:///lake")
    table.snapshot(1, added("x", external_path="FILE:///lake/data-x"), added("in"), added("y", external_path="/lake/y"))
    assert live(table, 1, of={"file:/lake/data-x", *data("in", "x")}) == {"file:/lake/data-x", *data("in")}
    assert live(table, 1, of=data("in", "x")) == data("in")
    plain = Handmade()
    plain.snapshot(1, added("x", external_path="file:/elsewhere/data-x"), added("in"))
    assert live(plain, 1, of=data("in")) == data("in"), "a location that no option names is not asked about"


@pytest.mark.parametrize(
    ("root", "lacking"), [(2, "manifest-1"), (2, "manifest-2"), (2, "changes-2"), (1, "manifest-1")]
)
def test_a_manifest_that_a_root_needs_must_be_there(root: int, lacking: str) -> None:
    """H11: what it names would look unused."""
    table = full()
    table.gone(f"manifest/{lacking}")
    with pytest.raises(TableCorrupt, match=f"manifest/{lacking} is missing, but snapshot/snapshot-{root} needs it"):
        live(table, root, of=data("a"))
    reach = reach_of(table)
    roots = reach.named_by(table.roots(root))
    table.gone(f"snapshot/snapshot-{root}")
    assert reach.usage(Candidates(frozenset(data("a")))).live(roots) == set(), "the root has gone as well"


def test_a_manifest_that_is_known_to_be_gone_is_missed_even_where_it_can_hold_no_candidate() -> None:
    table = full()
    table.gone("manifest/manifest-2")
    reach = reach_of(table)
    roots = reach.named_by(table.roots(2))
    reach.delta_entries(roots)
    with pytest.raises(TableCorrupt, match="manifest/manifest-2 is missing"):
        reach.usage(Candidates(frozenset())).live(roots)


def parts(count: int) -> Handmade:
    """A snapshot for each of so many partitions."""
    table = Handmade(partitioned=True)
    for p in range(count):
        table.snapshot(p + 1, added(str(p), p=p))
    return table


def test_only_manifests_that_may_hold_a_candidate_are_read_and_each_once() -> None:
    table = parts(4)
    reach = reach_of(table)
    roots = reach.named_by(table.roots(3, 4))
    partitions = frozenset(added("x", p=p).partition for p in (1, 2))
    usage = reach.usage(Candidates(frozenset({"p=1/bucket-0/data-1", "p=2/bucket-0/data-x"}), partitions))
    table.asked()
    for _ in range(2):
        assert usage.live(roots) == {"p=1/bucket-0/data-1"}
    assert sorted(table.asked("get ")) == ["get manifest/manifest-2", "get manifest/manifest-3"]
    assert reach.usage(Candidates(frozenset({"p=1/bucket-0/data-1"}))).live(roots) == {"p=1/bucket-0/data-1"}
    assert len(table.asked("get ")) == 4, "all, where the partitions are not known"
    assert reach.usage(Candidates(frozenset())).live(roots) == set()
    assert table.asked() == []


def test_where_candidates_lie_in_many_partitions_every_manifest_is_read() -> None:
    table = parts(2)
    reach = reach_of(table)
    (root,) = reach.named_by(table.roots(2))
    for count in (64, 65):
        partitions = frozenset(added("x", p=p).partition for p in range(1, count + 1))
        usage = reach.usage(Candidates(frozenset({"p=1/bucket-0/data-1"}), partitions))
        table.asked()
        assert usage.live([root]) == {"p=1/bucket-0/data-1"}
        assert len(table.asked("get ")) == (1 if count == 64 else 2)
