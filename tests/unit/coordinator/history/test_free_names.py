"""A snapshot whose name is free, or that landed on another table; and what a base is known to be."""

from __future__ import annotations

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
    holds,
    new_store,
    of,
    put,
    put_lists,
    remove,
    snapshot,
    timeline,
)

from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.history.base import Base, longest_age_ms, ref_of
from lakelatch.coordinator.history.lineage import (
    Free,
    Lost,
    Standing,
    Untold,
    did_it_land,
    take_away,
)
from lakelatch.core.metadata.snapshot import Snapshot

# ------------------------------------------------------------------------------------------------- a free name


def test_a_free_name_on_a_base_that_stands_can_be_sent_again(struck: Any) -> None:
    chain(struck, 1)
    assert did_it_land(timeline(struck), TRIED) == Free()
    assert did_it_land(timeline(new_store()), FIRST) == Free(), "the first one, in a table that is still empty"


def test_a_free_name_on_a_replaced_base_is_untold(struck: Any) -> None:
    put(struck, snapshot(1, uuid="other"))
    found = did_it_land(timeline(struck), TRIED)
    assert found == Untold("snapshot 1, on which it was built, was replaced by another")


@pytest.mark.parametrize("earliest", [None, 3])
def test_the_next_snapshot_shows_what_became_of_an_expired_one(struck: Any, earliest: int | None) -> None:
    """Whether the base is gone, or there and about to go."""
    chain(struck, *([1] if earliest else []), 3)
    hints(struck, earliest, 3)
    assert did_it_land(timeline(struck), TRIED) == Standing()
    put(struck, snapshot(3, on="2:other"))
    assert did_it_land(timeline(struck), TRIED) == Lost("snapshot 3 was built on another snapshot 2, since expired")


@pytest.mark.parametrize(("inherited", "added"), [(("manifest-ours",), ()), ((), ("manifest-ours",)), (("x",), ("y",))])
def test_the_newest_snapshot_may_still_hold_what_an_expired_one_added(
    struck: Any, inherited: tuple[str, ...], added: tuple[str, ...]
) -> None:
    chain(struck, 8)
    put_lists(struck, snapshot(8), inherited, added)
    put_lists(struck, OURS, inherited=["x", "y"], added=["manifest-ours"])
    found = did_it_land(timeline(struck), TRIED)
    if "x" in inherited:
        assert found == Untold("snapshot 2 does not exist, and neither does the one that it was built on")
    else:
        assert found == Standing()


def test_a_name_in_an_emptied_table_is_untold(struck: Any) -> None:
    """It was built on a snapshot; all of them are gone."""
    found = did_it_land(timeline(struck), TRIED)
    assert found == Untold("snapshot 2 does not exist, and neither does the one that it was built on")


def test_a_snapshot_that_appears_while_the_history_is_read_is_judged_by_what_it_is(struck: Any) -> None:
    """A late send lands after its name was found free."""
    put_lists(struck, snapshot(8))
    chain(struck, 8)
    get_once(struck, "snapshot/snapshot-1", lambda: (put(struck, snapshot(1), OURS), gone()))
    found = did_it_land(timeline(struck), TRIED)
    assert found == Standing()
    remove(struck, "snapshot/snapshot-1", "snapshot/snapshot-2")
    get_once(struck, "snapshot/snapshot-1", lambda: (put(struck, snapshot(2, uuid="other")), gone()))
    hints(struck, earliest=8, latest=8)
    found = did_it_land(timeline(struck), TRIED)
    assert isinstance(found, Untold) and "belongs to another writer" in found.reason


def test_a_snapshot_that_comes_and_goes_while_the_history_is_read_is_untold(struck: Any) -> None:
    put_lists(struck, snapshot(8))
    chain(struck, 8)
    get, looks = struck.get, iter([False, True, False])

    def flickering(key: str) -> bytes:
        if key == "snapshot/snapshot-2":
            if next(looks):
                return OURS.to_json()
            raise ObjectNotFound(key)
        return get(key)  # type: ignore[no-any-return]

    struck.get = flickering
    found = did_it_land(timeline(struck), TRIED)
    assert found == Untold("snapshot 2 appeared and disappeared while the history was read")


@pytest.mark.parametrize("key", ["snapshot/snapshot-1", "snapshot/snapshot-2"])
def test_a_store_that_does_not_answer_leaves_a_landing_untold(struck: Any, key: str) -> None:
    chain(struck, 1, 2)
    get_once(struck, key, away)
    assert did_it_land(timeline(struck), TRIED) == Untold("no answer")
    remove(struck, "snapshot/snapshot-2")
    get_once(struck, key, away)
    assert did_it_land(timeline(struck), TRIED) == Untold("no answer")


# ------------------------------------------------------------------------------------------------- another table


@pytest.mark.parametrize(
    ("above", "stays"), [(None, False), (snapshot(3), True), (foreign(3), True), (snapshot(3, on="2:other"), False)]
)
def test_a_snapshot_is_taken_away_unless_somebody_built_on_it(struck: Any, above: Snapshot | None, stays: bool) -> None:
    put(struck, OURS, *([above] if above else []))
    told = take_away(timeline(struck), TRIED)
    assert told == ("snapshot 3 may have been built on it already" if stays else None)
    assert holds(struck, "snapshot/snapshot-2") == stays


def test_a_snapshot_that_somebody_builds_on_while_it_is_deleted_may_live_on(struck: Any) -> None:
    put(struck, OURS)
    delete = struck.delete_many

    def built_on(keys: Any) -> None:
        delete(keys)
        put(struck, snapshot(3))

    struck.delete_many = built_on
    assert take_away(timeline(struck), TRIED) == "snapshot 3 may have been built on it already"


@pytest.mark.parametrize("other", [None, snapshot(2, uuid="other")])
def test_what_is_not_ours_any_more_is_not_deleted(struck: Any, other: Snapshot | None) -> None:
    put(struck, *([other] if other else []))
    told = take_away(timeline(struck), TRIED)
    assert told == "snapshot 2 existed, and is gone: it may have moved with the table"
    assert not any(request.startswith("delete") for request in struck.asked)


@pytest.mark.parametrize(
    ("left", "tried", "moving"),
    [
        ((), TRIED, False),
        (("snapshot/LATEST",), TRIED, False),
        (("snapshot/EARLIEST",), TRIED, True),
        (("snapshot/EARLIEST",), FIRST, False),
        (("snapshot/snapshot-9",), FIRST, True),
        (("manifest/manifest-1",), TRIED, False),
    ],
)
def test_a_table_without_a_schema_is_on_its_way_while_more_of_it_is_left(
    struck: Any, left: tuple[str, ...], tried: Any, moving: bool
) -> None:
    """Its snapshot may have been copied with it. A first commit writes EARLIEST itself."""
    put(struck, snapshot(tried.snapshot.id))
    for key in left:
        struck.put(key, b"9")
    assert take_away(timeline(struck), tried) is None, "a table with a schema stays where it is"
    put(struck, snapshot(tried.snapshot.id))
    remove(struck, "schema/schema-0")
    told = take_away(timeline(struck), tried)
    assert (told is not None and "on its way to another location" in told) == moving
    assert holds(struck, f"snapshot/snapshot-{tried.snapshot.id}") == moving


# ------------------------------------------------------------------------------------------------- what is built on


def test_knowledge_of_a_base_is_as_old_as_a_tenth_of_the_retention_but_no_older_than_thirty_seconds() -> None:
    hour_ms = 3_600_000
    assert [longest_age_ms(ms) for ms in (hour_ms, 300_000, 299_990, 60_000, 10_000, 9_999, 0)] == [
        30_000,
        30_000,
        29_999,
        6_000,
        1_000,
        1_000,
        1_000,
    ]
    base = Base(snapshot(3), (), 0, seen_ms=1_000.0)
    assert [base.is_fresh(now, hour_ms) for now in (1_000.0, 31_000.0, 31_001.0)] == [True, True, False]


def test_a_base_without_a_snapshot_is_the_beginning() -> None:
    empty, third = Base(None, (), 0, 0.0), Base(snapshot(3, next_row_id=7), (), 0, 0.0)
    assert (empty.ref, empty.id, empty.next_row_id) == (None, 0, 0)
    assert (third.ref, third.id, third.next_row_id) == (of(3), 3, 7)
    assert Base(snapshot(3), (), 0, 0.0).next_row_id == 0, "a table that tracks no rows"
    assert (empty.unhinted, empty.unread) == (None, False)
    assert (ref_of(None), ref_of(snapshot(3))) == (None, of(3))
