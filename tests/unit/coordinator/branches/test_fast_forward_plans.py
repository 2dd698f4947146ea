"""What main takes over from a branch, or why it cannot: decided by the snapshots, schemas and tags of both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from by_hand.snapshots import Refusing, bare, chain, landed, listed_in, snapshot, timeline

from lakelatch.coordinator.branches.claim import Claim, claim_key
from lakelatch.coordinator.branches.forward_plan import FastForward, plan_fast_forward
from lakelatch.core.errors import CommitConflict, InvalidArgument
from lakelatch.core.metadata.snapshot import Snapshot


def branched(main: list[Snapshot], branch: list[Snapshot], claim: Claim | None = None) -> Refusing:
    """A table and its branch `b`, with these snapshots."""
    store = bare(branch="b", store=bare())
    landed(store, *main)
    landed(store, *branch, branch="b")
    if claim is not None:
        store.plain().put(claim_key("b"), claim.to_json())
    return store


def made_from(one: Snapshot | None, source: str = "main") -> Claim:
    begin = (None, None) if one is None else (one.id, one.identity)
    return Claim("x", source, *begin, None, 0, 5)


def planned(store: Refusing) -> FastForward:
    return plan_fast_forward(timeline(store), "b")


def tagged(store: Refusing, branch: str, **tags: Snapshot) -> None:
    folder = "tag/" if branch == "main" else f"branch/branch-{branch}/tag/"
    for name, one in tags.items():
        store.plain().put(f"{folder}tag-{name}", one.to_json())


# ----------------------------------------------------------------------------------------------------------- snapshots


def test_main_gets_the_snapshots_above_its_own() -> None:
    history = chain(1, 2, 3, 4)
    store = branched(history[:2], history[1:])
    plan = planned(store)
    assert plan == FastForward("b", history[1], (3, 4), (), (), 4)
    assert plan.to_dict() == {"branch": "b", "from": 2, "snapshots": [3, 4], "schemas": [], "tags": [], "rows": 4}
    assert str(plan) == "main gets snapshots 3 to 4 of branch 'b', 0 schemas, 0 tags: 4 rows"
    assert store.changes == []


def test_an_empty_main_gets_all_of_them() -> None:
    plan = planned(branched([], chain(1, 2)))
    assert plan == FastForward("b", None, (1, 2), (), (), 2)
    assert plan.to_dict()["from"] == 0


def test_an_empty_main_gets_what_another_engine_wrote() -> None:
    assert planned(branched([], [snapshot(1)])).snapshot_ids == (1,)


def test_a_main_that_is_as_far_or_ahead_lacks_nothing() -> None:
    history = chain(1, 2, 3)
    for end in (2, 3):
        plan = planned(branched(history, history[1:end]))
        assert plan == FastForward("b", history[2], (), (), (), end)
        assert str(plan) == "branch 'b' has nothing that main lacks"


def test_snapshots_that_a_listing_does_not_show_yet_come_too() -> None:
    history = chain(1, 2, 3, 4, 5, 6)
    store = branched(history[:2], history[1:])
    shown = store.list
    store.list = lambda prefix: (i for i in shown(prefix) if i.key[-2:] not in ("-4", "-5", "-6"))  # type: ignore[method-assign]
    assert planned(store).snapshot_ids == (3, 4, 5, 6)
    assert planned(store).rows == 6


def test_a_branch_that_still_has_the_snapshot_that_main_ends_with_need_say_nothing_else() -> None:
    """Another engine made the branch and wrote to it."""
    history = chain(1, 2)
    store = branched(history, [history[1], snapshot(3, "x"), snapshot(4, "x")])
    assert planned(store).snapshot_ids == (3, 4)


def test_the_snapshot_that_main_ends_with_need_not_be_in_the_branch() -> None:
    """Its successor names it, or, where another engine wrote that, the branch's claim does."""
    history = chain(1, 2, 3, 4)
    assert planned(branched(history[:2], history[2:])).snapshot_ids == (3, 4)
    foreign = [snapshot(3, "x"), snapshot(4, "x")]
    assert planned(branched(history[:2], foreign, made_from(history[1]))).snapshot_ids == (3, 4)


@pytest.mark.parametrize("claim", [None, made_from(None), made_from(snapshot(2, "y")), made_from(snapshot(1))])
def test_a_branch_of_another_engine_that_does_not_say_where_it_began_is_a_conflict(claim: Claim | None) -> None:
    store = branched(chain(1, 2), [snapshot(3, "x"), snapshot(4, "x")], claim)
    with pytest.raises(CommitConflict, match="main has moved since branch 'b' was made"):
        planned(store)


def test_a_successor_of_another_snapshot_is_a_conflict_whatever_the_claim_says() -> None:
    main, other = chain(1, 2), chain(2, 3, name="x")
    with pytest.raises(CommitConflict, match=r"it has snapshot 1 \(APPEND by 'etl'\), 2 \(APPEND by 'etl'\), which"):
        planned(branched(main, [other[1]], replace(made_from(main[1]), source="elsewhere")))


def test_of_two_snapshots_of_one_id_only_the_same_one_counts() -> None:
    main, other = chain(1, 2), chain(1, 2, 3, name="x")
    with pytest.raises(CommitConflict):
        planned(branched(main, other))


def test_a_branch_without_a_successor_is_a_conflict_whatever_the_claim_says() -> None:
    """Another engine has put another snapshot in the place of the one that the branch began with."""
    main = chain(1, 2)
    with pytest.raises(CommitConflict, match="main has moved since branch 'b' was made"):
        planned(branched(main, [snapshot(2, "x")], made_from(main[1])))


def test_snapshots_that_main_has_expired_since_it_took_them_over_are_not_needed_again() -> None:
    """Main's state still names a manifest that the branch's last snapshot added."""
    history, later = chain(1, 2, 3), chain(4, 5, on=snapshot(3))
    store = branched(later[1:], history)
    listed_in(store, "base-5", "old", "theirs")
    listed_in(store, "delta-5", "new")
    listed_in(store, "delta-3", "theirs")
    assert planned(store).snapshot_ids == ()
    listed_in(store, "delta-3", "others")
    with pytest.raises(CommitConflict, match="it has snapshot 5"):
        planned(store)


BEGIN = snapshot(2)


@pytest.mark.parametrize(
    ("main", "claim", "hidden", "untouched"),
    [
        ([3, 4], made_from(BEGIN), None, True),
        ([4], made_from(BEGIN), None, True),
        ([3, 4], made_from(BEGIN, "dev"), None, False),
        ([3, 4], made_from(snapshot(2, "x")), None, False),
        ([3, 4], made_from(snapshot(1)), None, False),
        ([3, 4], None, None, False),
        ([1, 3, 4], made_from(BEGIN), None, False),
        ([2, 3, 4], made_from(BEGIN), None, False),
        ([2, 3, 4], made_from(BEGIN), "snapshot/snapshot-2", False),
    ],
    ids=[
        *("main has expired it", "and more", "it began with a snapshot of another branch", "with another of its id"),
        *("with an earlier one", "nobody says with what", "an older one stays, so that it was no expiry that took it"),
        *("main has another in its place", "a listing that lags behind does not show that one"),
    ],
)
def test_a_branch_that_nobody_has_written_to_has_nothing_for_main_even_after_its_snapshot_expired_there(
    main: list[int], claim: Claim | None, hidden: str | None, untouched: bool
) -> None:
    """Only if it began with a snapshot of main that is below all that main has by now."""
    store = branched([snapshot(number, "main") for number in main], [BEGIN], claim)
    shown = store.list
    store.list = lambda prefix: (info for info in shown(prefix) if info.key != hidden)  # type: ignore[method-assign]
    if untouched:
        assert planned(store).snapshot_ids == ()
        assert str(planned(store)) == "branch 'b' has nothing that main lacks"
    else:
        with pytest.raises(CommitConflict, match="main has moved since branch 'b' was made"):
            planned(store)


def test_manifest_lists_that_are_gone_prove_nothing() -> None:
    with pytest.raises(CommitConflict, match="it has snapshot 5"):
        planned(branched(chain(4, 5)[1:], chain(1, 2, 3)))


@pytest.mark.parametrize(
    ("kept", "earliest"), [((4,), None), ((4,), b"4"), ((4,), b"1"), ((3, 4), b"4"), ((2, 3, 4), b"4")]
)
def test_snapshots_that_have_expired_in_the_branch_are_named(kept: tuple[int, ...], earliest: bytes | None) -> None:
    """Also those that an expiry has announced, and whose files may be going."""
    history = chain(1, 2, 3, 4)
    store = branched(history[:2], [s for s in history if s.id in kept], made_from(history[1]))
    if earliest is not None:
        store.plain().put("branch/branch-b/snapshot/EARLIEST", earliest)
    with pytest.raises(InvalidArgument, match="branch 'b' cannot be fast-forwarded to: its snapshot 3 has expired"):
        planned(store)


@pytest.mark.parametrize("earliest", [None, b"3", b"2", b"garbage"])
def test_an_expiry_up_to_what_main_has_does_no_harm(earliest: bytes | None) -> None:
    history = chain(1, 2, 3, 4)
    store = branched(history[:2], history[2:])
    if earliest is not None:
        store.plain().put("branch/branch-b/snapshot/EARLIEST", earliest)
    assert planned(store).snapshot_ids == (3, 4)


@pytest.mark.parametrize("earliest", [None, b"2"])
def test_an_empty_main_needs_the_first_snapshot(earliest: bytes | None) -> None:
    store = branched([], chain(1, 2, 3)[0 if earliest else 1 :])
    if earliest is not None:
        store.plain().put("branch/branch-b/snapshot/EARLIEST", earliest)
    with pytest.raises(InvalidArgument, match="its snapshot 1 has expired, and main lacks it"):
        planned(store)


# -------------------------------------------------------------------------------------------------- a main that has moved


def conflict(store: Refusing) -> str:
    with pytest.raises(CommitConflict) as raised:
        planned(store)
    text = raised.value.message
    begin, end = "main has moved since branch 'b' was made: it has snapshot ", ", which the branch lacks"
    assert text.startswith(begin)
    assert text.endswith(end)
    return text[len(begin) : -len(end)]


def test_the_snapshots_that_only_main_has_are_told_with_their_writers() -> None:
    history = chain(1, 2)
    mine = [snapshot(3, on=history[1], commit_user="nightly", operation="MERGE"), snapshot(4, commit_kind="COMPACT")]
    theirs = chain(3, name="x", on=history[1])
    store = branched([*history, *mine], [*history, *theirs])
    assert conflict(store) == "3 (MERGE by 'nightly'), 4 (COMPACT by 'etl')"


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, " and 1 more"), (8, " and 3 more")])
def test_at_most_five_of_them_are_told(count: int, more: str) -> None:
    history = chain(1, 2)
    mine = chain(*range(3, 3 + count), on=history[1])
    store = branched([*history, *mine], [history[1], *chain(3, name="x", on=history[1])])
    assert conflict(store).startswith("1 (APPEND by 'etl'), 3 (APPEND by 'etl')"), "the branch never had the first"
    store.plain().put(claim_key("b"), made_from(history[1]).to_json())
    told = ", ".join(f"{n} (APPEND by 'etl')" for n in range(3, 8))
    assert conflict(store) == told + more


def test_what_a_branch_of_main_began_with_is_not_held_against_main() -> None:
    history, mine = chain(1, 2), chain(3, 4, on=chain(2)[0])
    theirs = chain(2, 3, name="x")
    store = branched([*history, *mine], theirs, made_from(history[1]))
    assert conflict(store) == "3 (APPEND by 'etl'), 4 (APPEND by 'etl')"


@pytest.mark.parametrize("claim", [*(made_from(snapshot(n), "dev") for n in (1, 2, 3)), made_from(None), None])
def test_a_branch_that_began_with_nothing_of_main_has_all_of_main_against_it(claim: Claim | None) -> None:
    """The snapshot of another branch that it was made from says nothing about main."""
    store = branched(chain(1, 2), chain(1, 2, 3, name="x"), claim)
    assert conflict(store) == "1 (APPEND by 'etl'), 2 (APPEND by 'etl')"


@pytest.mark.parametrize(
    ("main", "before"),
    [
        ((3, 4, 5), ""),
        ((4, 5), "; its snapshots 3 to 3, which came before, have expired"),
        ((5, 6), "; its snapshots 3 to 4, which came before, have expired"),
    ],
)
def test_what_main_had_since_the_branch_began_and_has_expired_is_told(main: tuple[int, ...], before: str) -> None:
    theirs = [snapshot(2), *chain(3, name="x", on=snapshot(2))]
    store = branched(chain(*main, on=snapshot(main[0] - 1)), theirs, made_from(snapshot(2)))
    with pytest.raises(CommitConflict) as raised:
        planned(store)
    told = ", ".join(f"{number} (APPEND by 'etl')" for number in main)
    begin = "main has moved since branch 'b' was made: it has snapshot "
    assert raised.value.message == f"{begin}{told}, which the branch lacks{before}"


@pytest.mark.parametrize(("source", "taken_back"), [("main", True), ("dev", False)])
def test_a_main_that_ends_below_the_snapshot_that_the_branch_began_with_was_taken_back(
    source: str, taken_back: bool
) -> None:
    store = branched(chain(1, 2), chain(4, 5, name="x"), made_from(snapshot(3), source))
    with pytest.raises(CommitConflict) as raised:
        planned(store)
    told = "main was taken back to snapshot 2 since branch 'b' was made from its snapshot 3"
    assert (raised.value.message == told) is taken_back


def test_a_main_that_was_rolled_back_below_the_branch_is_told_as_well() -> None:
    """What is there now is not what the branch began with."""
    store = branched(chain(1, 2), chain(2, 3, name="x"), made_from(snapshot(2, "x")))
    assert conflict(store) == "1 (APPEND by 'etl'), 2 (APPEND by 'etl')"


def test_a_snapshot_of_main_that_expires_while_it_is_read_is_not_told() -> None:
    store = branched(chain(1, 2, 3), chain(2, 3, 4, name="x"))
    shown = store.list

    def then_gone(prefix: str) -> Any:
        found = list(shown(prefix))
        if prefix == "snapshot/" and store.reads.count("list snapshot/") == 2:
            store.plain().delete_many(["snapshot/snapshot-1"])
        return iter(found)

    store.list = then_gone  # type: ignore[method-assign]
    assert conflict(store) == "2 (APPEND by 'etl'), 3 (APPEND by 'etl')"


# -------------------------------------------------------------------------------------------------- schemas and tags


def test_main_gets_the_schemas_and_tags_that_it_lacks() -> None:
    history = chain(1, 2)
    store = branched(history, history)
    bare(0, 1, 2, 3, branch="b", store=store)
    bare(0, 2, store=store)
    tagged(store, "main", old=history[0])
    tagged(store, "b", old=history[0], **{f"new{n}": history[1] for n in range(9)})
    store.plain().put("branch/branch-b/tag/tag-success-file/new1_SUCCESS", b"{}")
    store.plain().put("branch/branch-b/tag/notes", b"{}")
    plan = planned(store)
    assert plan.schema_ids == (1, 3)
    assert plan.tags == tuple(f"new{n}" for n in range(9))
    assert plan.held == ()
    assert str(plan) == "main gets no snapshot of branch 'b', 2 schemas, 9 tags: 2 rows"
    assert plan.to_dict()["schemas"] == [1, 3]
    assert plan.to_dict()["tags"] == list(plan.tags)


def test_tags_that_an_earlier_run_has_left_are_released_and_not_taken_over() -> None:
    history = chain(1, 2)
    store = branched(history[:1], history)
    left = {f"fast-forward-{n}": history[1] for n in range(7)}
    tagged(store, "b", **left, eod=history[1], **{"the-fast-forward-": history[0]})
    plan = planned(store)
    assert plan.tags == ("eod", "the-fast-forward-")
    assert plan.held == tuple(left)


def test_schemas_of_one_id_that_differ_are_a_conflict_by_the_lowest_id() -> None:
    history = chain(1)
    store = branched(history, history)
    bare(0, 2, 9, branch="b", store=store)
    for schema_id in (2, 9):
        store.plain().put(f"schema/schema-{schema_id}", b"another")
    with pytest.raises(CommitConflict, match="main and branch 'b' have different schemas 2: both were altered since"):
        planned(store)


def test_tags_of_one_name_that_differ_are_a_conflict_by_the_first_name() -> None:
    history = chain(1, 2)
    store = branched(history, history)
    tagged(store, "main", same=history[0], **{f"t{n}": history[0] for n in range(9)})
    tagged(store, "b", same=history[0], **{f"t{n}": history[1] for n in range(9)})
    with pytest.raises(CommitConflict) as raised:
        planned(store)
    told = "tag 't0' of main holds snapshot 1, and that of branch 'b' another snapshot 2"
    assert (raised.value.message, raised.value.next_step) == (told, "rename or delete one of them")


# ------------------------------------------------------------------------------------------------------- what is refused


def test_only_main_is_fast_forwarded_and_only_to_another_branch() -> None:
    store = branched(chain(1), chain(1))
    for here, name in (("b", "b"), ("b", "main"), ("main", "main"), ("c", "b")):
        with pytest.raises(InvalidArgument, match="only main can be fast-forwarded, to another branch"):
            plan_fast_forward(timeline(store, here), name)


def test_a_branch_that_does_not_exist_or_is_empty_is_refused_by_name() -> None:
    store = branched(chain(1), [])
    with pytest.raises(InvalidArgument, match="branch 'b' has no snapshot, so there is nothing to fast-forward to"):
        planned(store)
    with pytest.raises(InvalidArgument, match="has no branch 'x'") as raised:
        plan_fast_forward(timeline(store), "x")
    assert raised.value.next_step == "branches are: b"
