"""Did a snapshot land, and is it part of the history? Each state of the files around its name, and its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from by_hand.histories import (
    FIRST,
    OURS,
    TRIED,
    away,
    chain,
    foreign,
    get_once,
    gone,
    hints,
    listed,
    of,
    put,
    put_lists,
    remove,
    snapshot,
    timeline,
)

from lakelatch.coordinator.history.lineage import (
    ANOTHER_TABLE,
    BaseIs,
    Fork,
    Lost,
    Nothing,
    Ours,
    Standing,
    Untold,
    base_stands,
    check_lineage,
    did_it_land,
    lineage_of,
    look_at_base,
    read_name,
    refuse_fork,
    stands,
)
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.snapshot import Snapshot

# ------------------------------------------------------------------------------------------------- what a name holds


def test_a_name_holds_ours_by_its_bytes_or_by_its_identity(struck: Any) -> None:
    put(struck, OURS)
    assert read_name(timeline(struck), TRIED, doubtful=True) == Ours()
    put(struck, replace(OURS, time_ms=1))
    assert read_name(timeline(struck), TRIED, doubtful=True) == Ours(), "a store that writes the JSON in another way"
    struck.put("snapshot/snapshot-2", b"not a snapshot")
    found = read_name(timeline(struck), replace(TRIED, text="not a snapshot"), doubtful=True)
    assert found == Ours(), "bytes alone are enough"


def test_a_name_holds_nothing_or_what_cannot_be_read(struck: Any) -> None:
    assert read_name(timeline(struck), TRIED, doubtful=True) == Nothing()
    struck.put("snapshot/snapshot-2", b"garbage")
    found = read_name(timeline(struck), TRIED, doubtful=True)
    assert isinstance(found, Untold) and "snapshot/snapshot-2 is not a snapshot" in found.reason
    get_once(struck, "snapshot/snapshot-2", away)
    assert read_name(timeline(struck), TRIED, doubtful=False) == Untold("no answer")


def test_a_name_that_another_holds_is_lost(struck: Any) -> None:
    chain(struck, 1)
    other = snapshot(2, uuid="other", on="1:u1")
    put(struck, other)
    for doubtful in (False, True):
        found = read_name(timeline(struck), TRIED, doubtful=doubtful)
        assert found == Lost("snapshot 2 belongs to another writer ('user-other')", other)


def other_at_2(struck: Any, *above: Snapshot) -> None:
    chain(struck, 1)
    put(struck, snapshot(2, uuid="other", on="1:u1"), *above)


def test_an_answered_send_is_lost_to_whoever_has_the_name(struck: Any) -> None:
    """The history need not be looked at: the store refused this very send."""
    other_at_2(struck, snapshot(3, on="2:yet-another"))
    struck.asked.clear()
    assert isinstance(read_name(timeline(struck), TRIED, doubtful=False), Lost)
    assert struck.asked == ["get snapshot/snapshot-2"]


@pytest.mark.parametrize(
    ("above", "reason"),
    [
        ((), None),
        ((snapshot(3, on="2:other"),), None),
        ((foreign(3),), None),
        ((snapshot(3, on="2:yet-another"),), "snapshot 3 builds on another snapshot 2"),
    ],
)
def test_an_unanswered_send_is_lost_where_the_history_goes_through_the_other(
    struck: Any, above: tuple[Snapshot, ...], reason: str | None
) -> None:
    other_at_2(struck, *above)
    found = read_name(timeline(struck), TRIED, doubtful=True)
    if reason is None:
        assert isinstance(found, Lost)
    else:
        assert isinstance(found, Untold) and found.reason.endswith(f"but {reason}")


def test_an_unanswered_send_is_open_where_the_history_does_not_reach_the_other(struck: Any) -> None:
    """H9: it may have landed and expired before the other took the name that expiry had freed."""
    other_at_2(struck, snapshot(3, on="2:other"), snapshot(4))
    hints(struck, earliest=3)
    found = read_name(timeline(struck), TRIED, doubtful=True)
    assert isinstance(found, Untold) and "no longer reaches down to it" in found.reason
    hints(struck, earliest=2)
    assert isinstance(read_name(timeline(struck), TRIED, doubtful=True), Lost)
    hints(struck, earliest=9)
    assert isinstance(read_name(timeline(struck), TRIED, doubtful=True), Lost), "no snapshot has the hinted name"
    remove(struck, "snapshot/snapshot-3")
    hints(struck, earliest=4, latest=4)
    found = read_name(timeline(struck), TRIED, doubtful=True)
    assert isinstance(found, Untold) and "no longer reaches down to it" in found.reason
    hints(struck)
    put_lists(struck, snapshot(2, uuid="other"))
    found = read_name(timeline(struck), TRIED, doubtful=True)
    assert isinstance(found, Untold) and "with a gap between them" in found.reason
    found = read_name(listed(struck, 3, 4), TRIED, doubtful=True)
    assert isinstance(found, Untold) and "the listing does not show it" in found.reason


# ------------------------------------------------------------------------------------------------- the base


@pytest.mark.parametrize(
    ("base", "earliest", "hinted", "state"),
    [
        (of(2), True, None, BaseIs.THERE),
        (of(2), True, 2, BaseIs.THERE),
        (of(2), True, 1, BaseIs.THERE),
        (of(2), True, 3, BaseIs.BELOW_EARLIEST),
        (of(2), True, 9, BaseIs.THERE),
        (of(2), False, 3, BaseIs.THERE),
        (of(2, "x"), True, None, BaseIs.REPLACED),
        (of(2, "x"), False, None, BaseIs.REPLACED),
        (of(2, "x"), True, 3, BaseIs.BELOW_EARLIEST),
        (of(2, "x"), False, 3, BaseIs.BELOW_EARLIEST),
        (of(2, "x"), False, 2, BaseIs.REPLACED),
        (of(2, "x"), False, 9, BaseIs.REPLACED),
        (of(7), True, 3, BaseIs.GONE),
    ],
)
def test_a_base_is_there_replaced_about_to_go_or_gone(
    struck: Any, base: Any, earliest: bool, hinted: int | None, state: BaseIs
) -> None:
    """A hint counts only where the snapshot exists that it names."""
    chain(struck, 1, 2, 3)
    hints(struck, earliest=hinted)
    assert look_at_base(timeline(struck), base, earliest=earliest) is state
    assert base_stands(timeline(struck), base) == (look_at_base(timeline(struck), base, earliest=True) is BaseIs.THERE)


def test_a_base_that_was_seen_just_now_needs_no_hint(struck: Any) -> None:
    chain(struck, 1)
    struck.asked.clear()
    look_at_base(timeline(struck), of(1), earliest=False)
    assert struck.asked == ["get snapshot/snapshot-1"]


def test_a_hint_is_read_once(struck: Any) -> None:
    put(struck, snapshot(1, uuid="other"))
    for earliest in (True, False):
        struck.asked.clear()
        assert look_at_base(timeline(struck), of(1), earliest=earliest) is BaseIs.REPLACED
        assert sorted(struck.asked) == ["get snapshot/EARLIEST", "get snapshot/snapshot-1"]


def test_an_empty_table_is_a_base_while_it_is_empty(struck: Any) -> None:
    assert base_stands(timeline(struck), None)
    chain(struck, 1)
    assert not base_stands(timeline(struck), None)


# ------------------------------------------------------------------------------------------------- the history


def test_a_snapshot_on_its_base_stands(struck: Any) -> None:
    chain(struck, 1, 2)
    read = timeline(struck)
    assert did_it_land(read, TRIED) == check_lineage(read, TRIED) == Standing()
    assert lineage_of(read, OURS) == Standing()
    assert stands(read, OURS)
    refuse_fork(read, OURS)
    refuse_fork(read, None)


def test_a_snapshot_whose_base_was_renamed_over_survives(struck: Any) -> None:
    """G2: it is the end of the history that every reader follows, so that its rows must not be reported as not committed."""
    put(struck, snapshot(1, uuid="other"), OURS)
    for aged in (True, False):
        found = check_lineage(timeline(struck), TRIED, aged=aged)
        assert found == Fork("snapshot 1, on which snapshot 2 was built, was replaced by another", survives=True)
    assert stands(timeline(struck), OURS)
    refuse_fork(timeline(struck), OURS)


def test_a_snapshot_on_another_base_that_nobody_reads_is_a_fork(struck: Any) -> None:
    """Above a gap, where EARLIEST and LATEST name the run below it."""
    put(struck, snapshot(1, uuid="other"), OURS)
    struck.put("snapshot/EARLIEST", b"1")

    class Gapped(Timeline):
        def history(self, ids: Any) -> Any:
            return range(1, 2)

    read = Gapped(struck, timeline(struck).paths)
    assert check_lineage(read, TRIED) == Fork("snapshot 1, on which snapshot 2 was built, was replaced by another")
    assert not stands(read, OURS)
    with pytest.raises(StoreUnavailable, match="not part of the history: snapshot 1, on which"):
        refuse_fork(read, OURS)


def test_a_look_just_after_the_base_was_read_asks_for_no_hint(struck: Any) -> None:
    chain(struck, 1, 2, 3)
    hints(struck, earliest=2)
    for aged, asked in ((False, ["get snapshot/snapshot-1"]), (True, None)):
        struck.asked.clear()
        assert lineage_of(timeline(struck), OURS, aged=aged) == Standing()
        assert asked is None or struck.asked == asked
    assert "get snapshot/EARLIEST" in struck.asked


def test_a_snapshot_on_another_table_is_no_part_of_this_one(struck: Any) -> None:
    put(struck, OURS)
    found = check_lineage(timeline(struck, first_schema=b"another"), TRIED)
    assert isinstance(found, Fork) and found.code == ANOTHER_TABLE and "made again" in found.reason
    own = timeline(struck, first_schema=struck.get("schema/schema-0"))
    assert not isinstance(check_lineage(own, TRIED), Fork)


def test_a_snapshot_that_no_listing_shows_is_untold(struck: Any) -> None:
    put(struck, OURS)
    found = check_lineage(listed(struck, 3), TRIED)
    assert found == Untold("the listing does not show snapshot 2 yet, though it landed")


def test_a_base_that_was_missed_and_is_listed_again_proves_nothing(struck: Any) -> None:
    chain(struck, 1, 2)
    get_once(struck, "snapshot/snapshot-1", gone)
    found = check_lineage(timeline(struck), TRIED)
    assert found == Untold("snapshot 1, on which it was built, had disappeared and is listed again")


def test_a_snapshot_below_the_history_is_a_fork_only_while_it_has_its_name(struck: Any) -> None:
    chain(struck, 2, 5, 6)
    hints(struck, earliest=5, latest=6)
    found = check_lineage(timeline(struck), TRIED)
    assert found == Fork("snapshot 2 was created under a name that expiry or a rollback had freed")
    assert found.code == "fenced"
    for other in (snapshot(2, uuid="other"), None):
        remove(struck, "snapshot/snapshot-2")
        put(struck, *([other] if other else []))
        found = check_lineage(listed(struck, 2, 5, 6), TRIED)
        assert isinstance(found, Untold) and "another snapshot or none by now" in found.reason


def test_a_gap_that_nothing_explains_is_untold(struck: Any) -> None:
    chain(struck, 2, 5)
    put_lists(struck, OURS)
    found = check_lineage(timeline(struck), TRIED)
    assert isinstance(found, Untold) and "with a gap between them" in found.reason


# ------------------------------------------------------------------------------------------------- the oldest one


def test_the_oldest_snapshot_stands_where_the_next_one_names_it(struck: Any) -> None:
    chain(struck, 2, 3)
    assert check_lineage(timeline(struck), TRIED) == Standing()
    put(struck, snapshot(3, on="2:other"))
    found = check_lineage(timeline(struck), TRIED)
    assert found == Fork("snapshot 3 builds on another snapshot 2, since expired")


def test_the_oldest_snapshot_below_earliest_stands_where_the_next_one_names_it(struck: Any) -> None:
    """Its base is there and about to be deleted."""
    chain(struck, 1, 2, 3)
    hints(struck, earliest=3)
    assert check_lineage(timeline(struck), TRIED) == Standing()
    put(struck, snapshot(3, on="2:other"))
    assert isinstance(check_lineage(timeline(struck), TRIED), Fork)
    assert isinstance(lineage_of(timeline(struck), OURS), Fork) and not stands(timeline(struck), OURS)
    assert lineage_of(timeline(struck), OURS, aged=False) == Standing(), "its base was seen just now"


@pytest.mark.parametrize(
    ("earliest", "kind"), [(None, Untold), (1, Untold), (2, Fork)], ids=["no hint", "not raised", "raised"]
)
def test_the_first_snapshot_of_a_table_may_lie_below_a_leftover(struck: Any, earliest: int | None, kind: type) -> None:
    """H21: the next one may be of a table that was dropped here, unless EARLIEST says that an expiry came by."""
    put(struck, snapshot(1), snapshot(2, on="1:other"))
    hints(struck, earliest=earliest)
    found = check_lineage(timeline(struck), FIRST)
    assert isinstance(found, kind)
    assert "snapshot 2 builds on another snapshot 1" in found.reason  # type: ignore[union-attr]


@pytest.mark.parametrize("inherited", [("manifest-ours", "manifest-x"), ("manifest-x",), ()])
def test_another_engines_next_snapshot_shows_by_its_manifests_what_it_was_built_on(
    struck: Any, inherited: tuple[str, ...]
) -> None:
    put(struck, OURS, foreign(3))
    put_lists(struck, OURS, added=["manifest-ours", "manifest-more"])
    put_lists(struck, foreign(3), inherited, ["manifest-ours"])
    found = check_lineage(timeline(struck), TRIED)
    if "manifest-ours" in inherited:
        assert found == Standing()
    else:
        assert found == Untold("snapshot 3, of another writer, does not say what it was built on")


def test_without_its_own_list_nothing_shows_that_another_engine_built_on_it(struck: Any) -> None:
    put(struck, OURS, foreign(3))
    put_lists(struck, foreign(3), ["manifest-ours"])
    assert isinstance(check_lineage(timeline(struck), TRIED), Untold)


def test_a_next_snapshot_that_is_listed_and_gone_proves_nothing(struck: Any) -> None:
    chain(struck, 2)
    found = check_lineage(listed(struck, 2, 3), TRIED)
    assert found == Untold("snapshot 3 was listed, but no longer exists: an expiry is under way")


@pytest.mark.parametrize(
    ("earliest", "latest", "reason"),
    [
        (2, 2, None),
        (2, None, None),
        (2, 1, None),
        (2, 3, "LATEST says 3, but the listing shows snapshot 2 alone"),
        (None, None, "snapshot 1 is gone, but EARLIEST does not say that it was expired"),
        (1, 2, "snapshot 1 is gone, but EARLIEST does not say that it was expired"),
        (3, 2, "snapshot 1 is gone, but EARLIEST does not say that it was expired"),
    ],
)
def test_a_snapshot_alone_stands_where_the_hints_say_so(
    struck: Any, earliest: int | None, latest: int | None, reason: str | None
) -> None:
    chain(struck, 2)
    hints(struck, earliest, latest)
    assert check_lineage(timeline(struck), TRIED) == (Standing() if reason is None else Untold(reason))


def test_the_first_snapshot_alone_needs_no_earliest(struck: Any) -> None:
    """Its table never expired anything; the hint is not even read."""
    chain(struck, 1)
    struck.asked.clear()
    assert check_lineage(timeline(struck), FIRST) == Standing()
    assert "get snapshot/EARLIEST" not in struck.asked
    hints(struck, latest=1)
    assert check_lineage(timeline(struck), FIRST) == Standing()
    hints(struck, latest=4)
    assert isinstance(check_lineage(timeline(struck), FIRST), Untold)


@pytest.mark.parametrize(
    ("earliest", "there", "listing", "left_over"),
    [
        (1, (), [1], True),
        (None, (), [1], False),
        (4, (), [1], False),
        (1, (4,), [1], False),
        (1, (5,), [1], False),
        (1, (6,), [1], True),
        (1, (), [1, 4], False),
    ],
)
def test_a_latest_above_the_first_snapshot_is_of_a_dropped_table_where_nothing_else_is_left(
    struck: Any, earliest: int | None, there: tuple[int, ...], listing: list[int], left_over: bool
) -> None:
    """H7, H21: its hint was written after the drop; otherwise the listing may be out of date."""
    chain(struck, 1, *there)
    hints(struck, earliest, 4)
    made, lists = timeline(struck), iter([[1], listing])
    made.snapshot_ids = lambda: next(lists)  # type: ignore[method-assign]
    found = check_lineage(made, FIRST)
    assert found == (Standing() if left_over else Untold("LATEST says 4, but the listing shows snapshot 1 alone"))
