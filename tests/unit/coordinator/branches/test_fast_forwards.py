"""A fast-forward carried out: what is in main and in the branch afterwards, whatever the store or another writer does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from by_hand.snapshots import Refusing, bare, chain, keys, landed, raising, snapshot, timeline

from lakelatch.backends.probe import PROBED
from lakelatch.backends.store import AlreadyThere, Created, Unknown
from lakelatch.coordinator.branches.claim import Claim, claim_key, claim_of
from lakelatch.coordinator.branches.forward import apply_fast_forward
from lakelatch.coordinator.branches.forward_plan import FastForward, plan_fast_forward
from lakelatch.coordinator.branches.hold import release_shared
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict, InvalidArgument, OutcomeUnknown, StoreUnavailable, UnsafeBackend

HISTORY = chain(1, 2, 3, 4)
QUICK = replace(MACHINE, sleep=lambda seconds: None)
BUSY = StoreUnavailable("503")
HELD = ["branch/branch-b/tag/tag-fast-forward-3", "branch/branch-b/tag/tag-fast-forward-4"]


@pytest.fixture
def store() -> Refusing:
    """Main has snapshots 1 and 2, its branch `b` has 2 to 4."""
    store = bare(branch="b", store=bare())
    landed(store, *HISTORY[:2])
    landed(store, *HISTORY[1:], branch="b")
    store.plain().put("snapshot/EARLIEST", b"1")
    return store


def forwarded(store: Refusing, plan: FastForward | None = None) -> FastForward:
    main = timeline(store)
    return apply_fast_forward(main, plan or plan_fast_forward(main, "b"), QUICK)


def snapshots(store: Refusing) -> list[int]:
    return timeline(store.plain()).snapshot_ids()


def tags_of_the_branch(store: Refusing) -> list[str]:
    """Without those that keep what main has, too."""
    return [key for key in keys(store, "branch/branch-b/tag/") if "/tag-branch-" not in key]


def tags_of_main(store: Refusing) -> list[str]:
    return [key for key in keys(store, "tag/") if "/tag-branch-" not in key]


# ------------------------------------------------------------------------------------------------------------- success


def test_main_gets_the_same_bytes_in_order_and_the_hint(store: Refusing) -> None:
    plan = plan_fast_forward(timeline(store), "b")
    PROBED.remember(store.url)
    assert forwarded(store, plan) is plan
    for number in (3, 4):
        assert store.get(f"snapshot/snapshot-{number}") == store.get(f"branch/branch-b/snapshot/snapshot-{number}")
    changes = [change for change in store.changes if "tag" not in change]
    assert changes == ["create snapshot/snapshot-3", "create snapshot/snapshot-4", "put snapshot/LATEST"]
    assert store.get("snapshot/LATEST") == b"4"
    assert tags_of_the_branch(store) == []


def test_the_branch_keeps_its_snapshots_by_tags_until_main_has_them(store: Refusing) -> None:
    seen: list[list[str]] = []
    for number in (3, 4):
        store.once(f"create snapshot/snapshot-{number}", lambda: seen.append(tags_of_the_branch(store)))
    forwarded(store)
    assert seen == [HELD, HELD]
    assert tags_of_the_branch(store) == []


def test_both_keep_what_they_share_by_tags(store: Refusing) -> None:
    """Apache Paimon's expiry of one does not look at the other; also after a run that was cut off before the tags."""
    store.plans["create tag/tag-branch-4-"] = raising(BUSY)
    with pytest.raises(OutcomeUnknown, match="main has the branch's snapshots, but no tag keeps their files: 503"):
        forwarded(store)
    store.plans.clear()
    forwarded(store)
    for folder, number in product(("tag/", "branch/branch-b/tag/"), (2, 3, 4)):
        (held,) = (key for key in keys(store, folder) if f"/tag-branch-{number}-" in key)
        assert store.get(held) == HISTORY[number - 1].to_json()
    assert [key for key in keys(store, "tag/") if "/tag-branch-1-" in key] == [], "the branch does not have it"


@pytest.mark.parametrize(("first", "wanted"), [(1, b"1"), (2, b"2")])
def test_a_main_without_the_hint_of_its_first_snapshot_gets_it(store: Refusing, first: int, wanted: bytes) -> None:
    store.plain().delete_many(["snapshot/EARLIEST", *(f"snapshot/snapshot-{n}" for n in range(1, first))])
    forwarded(store)
    assert store.get("snapshot/EARLIEST") == wanted


def test_an_empty_main_gets_both_hints() -> None:
    store = bare(branch="b", store=bare())
    landed(store, snapshot(1), branch="b")
    forwarded(store)
    assert (store.get("snapshot/EARLIEST"), store.get("snapshot/LATEST")) == (b"1", b"1")


@pytest.mark.parametrize(
    ("held", "wanted", "written"), [(None, b"4", 1), (b"3", b"4", 1), (b"4", b"4", 0), (b"9", b"9", 0), (b"x", b"4", 1)]
)
def test_the_hint_of_the_newest_snapshot_only_rises(
    store: Refusing, held: bytes | None, wanted: bytes, written: int
) -> None:
    if held is not None:
        store.plain().put("snapshot/LATEST", held)
    forwarded(store)
    assert store.get("snapshot/LATEST") == wanted
    assert store.changes.count("put snapshot/LATEST") == written


@pytest.mark.parametrize("request_", ["get snapshot/LATEST", "put snapshot/LATEST", "delete branch/branch-b/tag/"])
def test_what_only_helps_later_runs_may_fail(store: Refusing, request_: str) -> None:
    plan = plan_fast_forward(timeline(store), "b")
    store.plans[request_] = raising(BUSY)
    assert forwarded(store, plan).snapshot_ids == (3, 4)
    assert snapshots(store) == [1, 2, 3, 4]


def test_a_run_that_finds_nothing_new_still_writes_the_hint_and_releases_tags(store: Refusing) -> None:
    """An earlier run was cut off after its last snapshot."""
    landed(store, *HISTORY[2:])
    for name in ("fast-forward-3", "fast-forward-4"):
        store.plain().put(f"branch/branch-b/tag/tag-{name}", HISTORY[2].to_json())
    assert forwarded(store).snapshot_ids == ()
    assert store.get("snapshot/LATEST") == b"4"
    assert tags_of_the_branch(store) == []
    created = [change for change in store.changes if change.startswith("create")]
    assert [change for change in created if "tag/tag-branch-" not in change] == [], "there is nothing to be safe for"


def test_a_schema_alone_comes_over_without_touching_snapshots(store: Refusing) -> None:
    landed(store, *HISTORY[2:])
    store.plain().delete_many(["snapshot/EARLIEST"])
    bare(0, 1, 2, branch="b", store=store)
    assert forwarded(store).schema_ids == (1, 2)
    assert store.get("schema/schema-1") == b"schema 1"
    assert store.get("schema/schema-2") == b"schema 2"
    assert "snapshot/EARLIEST" not in keys(store)


@pytest.mark.parametrize("what", ["snapshots", "schemas", "tags"])
def test_a_store_that_overwrites_is_refused_before_anything_is_written(store: Refusing, what: str) -> None:
    if what != "snapshots":
        landed(store, *HISTORY[2:])
    if what == "schemas":
        bare(1, branch="b", store=store)
    if what == "tags":
        store.plain().put("branch/branch-b/tag/tag-eod", HISTORY[1].to_json())
    before = keys(store)
    store.plans["create "] = Created
    with pytest.raises(UnsafeBackend):
        forwarded(store)
    assert keys(store) == before


# ------------------------------------------------------------------------------------------------------------- schemas


def test_a_main_that_was_altered_since_the_plan_is_a_conflict(store: Refusing) -> None:
    bare(0, 1, branch="b", store=store)
    plan = plan_fast_forward(timeline(store), "b")
    store.plain().put("schema/schema-1", b"another")
    with pytest.raises(CommitConflict, match="main was altered meanwhile: it has another schema 1"):
        forwarded(store, plan)
    assert snapshots(store) == [1, 2]


def test_a_main_that_has_the_schema_since_the_plan_goes_on(store: Refusing) -> None:
    bare(0, 1, branch="b", store=store)
    plan = plan_fast_forward(timeline(store), "b")
    bare(0, 1, store=store)
    assert forwarded(store, plan).snapshot_ids == (3, 4)


# ----------------------------------------------------------------------------------------------------- an expiring branch


@pytest.mark.parametrize("at", [3, 4])
def test_a_snapshot_that_is_gone_from_the_branch_is_named_and_no_tag_stays(store: Refusing, at: int) -> None:
    plan = plan_fast_forward(timeline(store), "b")
    store.plain().delete_many([f"branch/branch-b/snapshot/snapshot-{at}"])
    with pytest.raises(InvalidArgument, match=f"its snapshot {at} has expired, and main lacks it"):
        forwarded(store, plan)
    assert (snapshots(store), tags_of_the_branch(store)) == ([1, 2], [])


@pytest.mark.parametrize(("earliest", "refused"), [(3, False), (4, True), (5, True)])
def test_an_expiry_that_is_announced_after_the_plan_counts(store: Refusing, earliest: int, refused: bool) -> None:
    plan = plan_fast_forward(timeline(store), "b")
    store.plain().put("branch/branch-b/snapshot/EARLIEST", str(earliest).encode())
    if refused:
        with pytest.raises(InvalidArgument, match="its snapshot 3 has expired"):
            forwarded(store, plan)
        assert (snapshots(store), tags_of_the_branch(store)) == ([1, 2], [])
    else:
        assert forwarded(store, plan).snapshot_ids == (3, 4)


# ------------------------------------------------------------------------------------------------- a store that fails


def test_a_failure_before_the_first_snapshot_changes_nothing_in_main(store: Refusing) -> None:
    """Its tags stay: the next run looks for what it needs, and deletes them."""
    store.plans["create snapshot/snapshot-3"] = raising(BUSY)
    with pytest.raises(StoreUnavailable, match=r"^503"):
        forwarded(store)
    assert (snapshots(store), tags_of_the_branch(store)) == ([1, 2], HELD)
    store.plans.clear()
    assert forwarded(store).held == ("fast-forward-3", "fast-forward-4")
    assert tags_of_the_branch(store) == []


def test_a_failure_before_the_first_snapshot_of_an_empty_main_changes_nothing() -> None:
    store = bare(branch="b", store=bare())
    landed(store, *HISTORY[:2], branch="b")
    store.plans["create snapshot/snapshot-1"] = raising(BUSY)
    with pytest.raises(StoreUnavailable, match=r"^503"):
        forwarded(store)
    assert snapshots(store) == []


def test_a_failure_in_the_midst_says_how_far_it_came(store: Refusing) -> None:
    store.plans["create snapshot/snapshot-4"] = raising(BUSY)
    with pytest.raises(OutcomeUnknown) as raised:
        forwarded(store)
    assert raised.value.message == "main has the branch's snapshots 3 to 3, but not 4: 503"
    assert raised.value.identity == {"snapshot_id": 3, "snapshot_uuid": "uuid-3"}
    assert raised.value.next_step == "run the fast-forward again: it finishes what was begun"
    store.plans.clear()
    assert forwarded(store).snapshot_ids == (4,)
    assert tags_of_the_branch(store) == [], "those of the first run are gone, too"


def test_a_create_without_an_answer_leaves_the_outcome_open(store: Refusing) -> None:
    store.plans["create snapshot/snapshot-3"] = lambda: Unknown("timeout")
    with pytest.raises(OutcomeUnknown, match="not known whether snapshot/snapshot-3 was created"):
        forwarded(store)
    assert tags_of_the_branch(store) == HELD


def test_tags_come_last_and_those_that_were_deleted_meanwhile_are_left_out(store: Refusing) -> None:
    for name in ("a", "c"):
        store.plain().put(f"branch/branch-b/tag/tag-{name}", HISTORY[2].to_json())
    plan = plan_fast_forward(timeline(store), "b")
    store.plain().delete_many(["branch/branch-b/tag/tag-a"])
    assert forwarded(store, plan).tags == ("a", "c")
    assert tags_of_main(store) == ["tag/tag-c"]
    assert store.get("tag/tag-c") == HISTORY[2].to_json()
    assert store.changes.index("create tag/tag-c") > store.changes.index("create snapshot/snapshot-4")


def test_a_tag_that_cannot_be_made_is_named(store: Refusing) -> None:
    for name in ("a", "c"):
        store.plain().put(f"branch/branch-b/tag/tag-{name}", HISTORY[2].to_json())
    store.plans["create tag/tag-c"] = raising(BUSY)
    with pytest.raises(OutcomeUnknown, match="main has the branch's snapshots, but tag 'c' is missing: 503") as raised:
        forwarded(store)
    assert raised.value.identity == {"snapshot_id": 4, "snapshot_uuid": "uuid-4"}
    store.plans.clear()
    assert forwarded(store).tags == ("c",)
    assert tags_of_main(store) == ["tag/tag-a", "tag/tag-c"]


# --------------------------------------------------------------------------------------------------- another writer


def overtaken(store: Refusing, number: int) -> Callable[[], Any]:
    theirs = snapshot(number, "theirs", on=HISTORY[number - 2], commit_user="nightly")
    return lambda: landed(store, theirs)


@pytest.mark.parametrize(("at", "more"), [(3, ""), (4, "; 1 of the branch's 2 snapshots are in main")])
def test_a_writer_that_comes_first_is_named(store: Refusing, at: int, more: str) -> None:
    store.once(f"create snapshot/snapshot-{at}", overtaken(store, at))
    with pytest.raises(CommitConflict) as raised:
        forwarded(store)
    assert raised.value.message == f"another writer ('nightly') committed snapshot {at} to main meanwhile{more}"
    assert snapshots(store) == list(range(1, at + 1))
    assert tags_of_the_branch(store) == []
    kept = [key.split("-")[2] for key in keys(store, "tag/") if "/tag-branch-" in key]
    assert kept == ["2", "3"][: at - 2], "what has landed is kept, and what is another's is not"


@pytest.mark.parametrize("conflicts", [False, True])
def test_the_tags_that_a_fast_forward_makes_go_with_the_branch(store: Refusing, conflicts: bool) -> None:
    """Also those of the part that has landed where another writer came first: they bear the branch's mark, not main's."""
    store.plain().put(claim_key("b"), Claim("a1b2c3d4e5", "main", 2, "uuid-2", None, 0, 5).to_json())
    if conflicts:
        store.once("create snapshot/snapshot-4", overtaken(store, 4))
        with pytest.raises(CommitConflict):
            forwarded(store)
    else:
        forwarded(store)
    names = [f"branch-{number}-a1b2c3d4" for number in ((2, 3) if conflicts else (2, 3, 4))]
    for folder in ("tag/", "branch/branch-b/tag/"):
        assert keys(store, folder) == [f"{folder}tag-{name}" for name in names]
    release_shared(store, "b", claim_of(store, "b"))
    assert keys(store, "tag/") == []


def test_a_writer_that_came_first_and_is_gone_again_has_no_name(store: Refusing) -> None:
    """The name held other bytes when it was read, and nothing a moment later."""
    store.once("create snapshot/snapshot-3", overtaken(store, 3))
    reads = 0

    def second() -> None:
        nonlocal reads
        reads += 1
        if reads == 2:
            store.plain().delete_many(["snapshot/snapshot-3"])

    store.plans["get snapshot/snapshot-3"] = second
    plan = plan_fast_forward(timeline(store.plain()), "b")
    with pytest.raises(CommitConflict, match=r"^another writer committed snapshot 3 to main meanwhile"):
        forwarded(store, plan)


def test_a_snapshot_whose_base_was_replaced_is_taken_away_again(store: Refusing) -> None:
    """H6: it landed on another history than the branch was built on."""
    store.once("create snapshot/snapshot-3", lambda: landed(store, snapshot(2, "theirs")))
    with pytest.raises(CommitConflict) as raised:
        forwarded(store)
    reason = "snapshot 2, on which snapshot 3 was built, was replaced by another"
    assert raised.value.message == f"main has moved meanwhile: {reason}"
    assert snapshots(store) == [1, 2]
    assert tags_of_the_branch(store) == []


def test_a_snapshot_that_somebody_has_built_on_by_then_stays_and_is_told(store: Refusing) -> None:
    def replaced_and_built_on() -> None:
        landed(store, snapshot(2, "theirs"), snapshot(4, "theirs", on=HISTORY[2]))

    store.once("create snapshot/snapshot-3", replaced_and_built_on)
    with pytest.raises(CommitConflict, match="was replaced by another; snapshot 4 may have been built on it already"):
        forwarded(store)
    assert snapshots(store) == [1, 2, 3, 4]


def test_a_snapshot_that_an_earlier_run_created_is_not_taken_away(store: Refusing) -> None:
    plan = plan_fast_forward(timeline(store), "b")
    landed(store, HISTORY[2], snapshot(2, "theirs"))
    with pytest.raises(CommitConflict, match=r"main has moved meanwhile: snapshot 2, .* was replaced by another \("):
        forwarded(store, plan)
    assert snapshots(store) == [1, 2, 3]


def test_a_snapshot_that_is_not_known_to_stay_leaves_the_outcome_open(store: Refusing) -> None:
    plan = plan_fast_forward(timeline(store), "b")
    store.once("create snapshot/snapshot-4", lambda: store.plans.update({"get snapshot/snapshot-3": raising(BUSY)}))
    with pytest.raises(OutcomeUnknown) as raised:
        forwarded(store, plan)
    told = "snapshot 4 was created in main, but is not known to stay: 503; 1 of the branch's 2 snapshots are in main"
    assert raised.value.message == told
    assert raised.value.identity == {"snapshot_id": 4, "snapshot_uuid": "uuid-4"}
    assert snapshots(store) == [1, 2, 3, 4]
    assert tags_of_the_branch(store) == HELD


def test_a_name_that_is_taken_by_the_same_bytes_counts_as_created(store: Refusing) -> None:
    landed(store, HISTORY[2])
    plan = replace(plan_fast_forward(timeline(store), "b"), begin=HISTORY[1], snapshot_ids=(3, 4))
    store.plans["create snapshot/snapshot-3"] = AlreadyThere
    assert forwarded(store, plan).snapshot_ids == (3, 4)
    assert snapshots(store) == [1, 2, 3, 4]
