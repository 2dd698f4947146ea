"""How a commit ended whose answer was lost: what its names, its identity and its intent prove, and how often it is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import chain, foreign, hints, new_store, of, prepared, put, put_lists, remove, snapshot, timeline

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.deadline import left_s
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.history.lineage import ANOTHER_TABLE, Fork, Free, Landing, Lost, Standing, Untold
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, to_property
from lakelatch.coordinator.intents.window import Window
from lakelatch.coordinator.outcome.resolution import (
    Case,
    Resolution,
    _by_names,
    _outcome,
    await_answer,
    find_out,
    resolved,
)
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.surroundings import Surroundings
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.snapshot import Snapshot

OURS = snapshot(2, uuid="ours", on="1:u1")
TRIED = prepared(OURS)


def case(*tried: ev.SnapshotPrepared, identifier: int | None = None, window: Window | None = None) -> Case:
    return Case("job", identifier, tried, window=window)


@pytest.fixture
def store() -> Struck:
    """A table with one snapshot, on which the commit was built."""
    made = new_store(Struck)
    chain(made, 1)
    hints(made, earliest=1)
    assert isinstance(made, Struck)
    return made


# ------------------------------------------------------------------------------------------------- how often it is asked


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s, self.slept = 1_000.0, list[float]()
        self.around = Surroundings(monotonic_s=lambda: self.now_s, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def unreadable(store: MemoryStore, answered: Callable[[str], bool] = lambda key: False) -> list[float]:
    """Lets the store answer no question for a snapshot; returns how long each question might have taken, in seconds."""
    patience, get = list[float](), store.get

    def asked(key: str) -> bytes:
        if key.startswith("snapshot/snapshot-2") and not answered(key):
            patience.append(left_s())
            raise StoreUnavailable("no answer")
        return get(key)

    store.get = asked  # type: ignore[method-assign]
    return patience


def test_looks_become_rarer_up_to_one_a_second_until_the_time_is_spent(store: Struck) -> None:
    clock = Clock()
    patience = unreadable(store)
    answer = await_answer(case(TRIED), timeline(store), clock.around, 5.0)
    assert answer.outcome == do.Undecided(of(2, "ours"), "no answer")
    assert clock.slept == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0]
    assert len(patience) == len(clock.slept) + 1


def test_without_any_time_there_is_one_look_that_may_take_two_seconds(store: Struck) -> None:
    clock = Clock()
    patience = unreadable(store)
    await_answer(case(TRIED), timeline(store), clock.around, 0.0)
    assert clock.slept == []
    assert len(patience) == 1 and 1.5 < patience[0] <= 2.0


def test_a_look_may_take_all_the_time_that_is_left(store: Struck) -> None:
    clock = Clock()
    put(store, OURS)
    patience = unreadable(store, lambda key: bool(clock.slept))
    assert await_answer(case(TRIED), timeline(store), clock.around, 60.0).outcome == do.Committed(of(2, "ours"), False)
    assert len(patience) == 1 and 55.0 < patience[0] <= 60.0
    assert clock.slept == [0.1], "once it is known, nothing is waited for"


# ------------------------------------------------------------------------------------------------- what its names prove


def test_a_free_name_takes_the_same_bytes_once_more(store: Struck) -> None:
    """H9: the base is there, so the commit can be finished."""
    put_lists(store, snapshot(1))
    put_lists(store, OURS)
    assert find_out(case(TRIED), timeline(store)) == Resolution(do.Committed(of(2, "ours"), False), finished=True)
    assert store.get("snapshot/snapshot-2") == OURS.to_json()
    assert find_out(case(TRIED), timeline(store)) == Resolution(do.Committed(of(2, "ours"), False)), (
        "found the next time"
    )


def test_a_look_that_may_not_send_leaves_the_name_free(store: Struck) -> None:
    answer = find_out(case(TRIED), timeline(store), send=False)
    assert answer == Resolution(do.Undecided(of(2, "ours"), "the name of snapshot 2 is free: it can be finished"))
    assert not any(request.startswith("create") for request in store.asked)


def test_another_that_takes_the_name_before_it_is_sent_again_wins_it(store: Struck) -> None:
    """H2, H3: what the store answers to the create is not believed; the name is read back."""
    put_lists(store, OURS)
    create = store.put_if_absent

    def too_late(key: str, data: bytes) -> PutOutcome:
        put(store, snapshot(2))
        return create(key, data)

    store.put_if_absent = too_late  # type: ignore[method-assign]
    answer = find_out(case(TRIED), timeline(store))
    assert isinstance(answer.outcome, do.NotCommitted) and not answer.finished
    assert answer.outcome.code == "commit-conflict"
    assert "user-u2" in answer.outcome.reason


def test_a_commit_that_sent_nothing_did_not_land(store: Struck) -> None:
    outcome = find_out(case(), timeline(store)).outcome
    assert outcome == do.NotCommitted("commit-conflict", "none of its snapshots was ever sent")


def test_any_of_its_snapshots_may_be_the_one_that_landed(store: Struck) -> None:
    """H9: every name counts, not only the last."""
    chain(store, 2, 3)
    other = prepared(snapshot(2, uuid="earlier", on="1:u1"))
    for tried in ((other, prepared(snapshot(3))), (prepared(snapshot(2)), prepared(snapshot(3, uuid="later")))):
        landed = next(one.snapshot for one in tried if one.snapshot.identity.startswith("u"))
        assert find_out(case(*tried), timeline(store)).outcome == do.Committed(landed, False)


FIRST, LAST = prepared(snapshot(2, uuid="a")), prepared(snapshot(3, uuid="b", on="2:u2"))
LOST, FORK, UNREAD = Lost("lost it"), Fork("on a freed name"), Untold("not read")


@pytest.mark.parametrize(
    ("first", "last", "outcome"),
    [
        (LOST, LOST, do.NotCommitted("commit-conflict", "lost it")),
        (LOST, Lost("another reason"), do.NotCommitted("commit-conflict", "another reason")),
        (FORK, LOST, do.NotCommitted("fenced", "on a freed name")),
        (LOST, FORK, do.NotCommitted("fenced", "on a freed name")),
        (LOST, UNREAD, do.Undecided(LAST.snapshot, "not read")),
        (UNREAD, LOST, do.Undecided(FIRST.snapshot, "not read")),
        (UNREAD, Free(), do.Undecided(FIRST.snapshot, "not read")),
        (Free(), UNREAD, do.Undecided(LAST.snapshot, "not read")),
        (Free(), LOST, "a rollback is under way"),
        (Free(), FORK, "a rollback is under way"),
        (Free(), Free(), "a rollback is under way"),
        (LOST, Free(), "snapshot 3 is free: it can be finished"),
    ],
)
def test_all_names_together_decide(store: Struck, first: Landing, last: Landing, outcome: do.Outcome | str) -> None:
    """It did not land only where every name is lost, and is sent again only under the last one, with all others lost."""
    found = _by_names(case(FIRST, LAST), timeline(store), [first, last], send=False).outcome
    if isinstance(outcome, str):
        assert isinstance(found, do.Undecided) and outcome in found.reason
        assert found.snapshot == LAST.snapshot
    else:
        assert found == outcome
    assert not any(request.startswith("create") for request in store.asked)


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        (Standing(), do.Committed(of(2), False)),
        (Fork("moved", ANOTHER_TABLE), do.NotCommitted("table-not-found", "moved")),
        (LOST, do.NotCommitted("commit-conflict", "lost it")),
        (UNREAD, do.Undecided(of(2), "not read")),
    ],
)
def test_what_a_name_holds_is_the_outcome_of_its_snapshot(seen: Landing, outcome: do.Outcome) -> None:
    assert _outcome(of(2), seen) == outcome


def test_a_create_that_leaves_the_name_free_leaves_the_outcome_open() -> None:
    found = _outcome(of(2), Free())
    assert isinstance(found, do.Undecided) and found.snapshot == of(2)


def test_a_snapshot_on_another_table_is_taken_away_and_stays_unknown(store: Struck) -> None:
    """H21: an earlier send may still arrive there."""
    hints(store)
    remove(store, "snapshot/snapshot-1")
    put(store, OURS)
    answer = find_out(case(TRIED), timeline(store, first_schema=b"another"))
    assert isinstance(answer.outcome, do.Undecided)
    assert "made again" in answer.outcome.reason
    assert "taken away again, but an earlier send may still land" in answer.outcome.reason
    assert "delete snapshot/snapshot-2" in store.asked


def test_a_snapshot_on_another_table_that_cannot_be_taken_away_names_the_reason(store: Struck) -> None:
    hints(store)
    remove(store, "snapshot/snapshot-1")
    put(store, OURS, snapshot(3, on="2:ours"))
    answer = find_out(case(TRIED), timeline(store, first_schema=b"another"))
    assert isinstance(answer.outcome, do.Undecided)
    assert "made again" in answer.outcome.reason and "snapshot 3 may have been built on it" in answer.outcome.reason
    assert store.get("snapshot/snapshot-2") == OURS.to_json()


def test_a_store_that_does_not_answer_proves_nothing(store: Struck) -> None:
    def away(prefix: str) -> Any:
        raise StoreUnavailable("the listing failed")

    store.list = away  # type: ignore[method-assign]
    for asked in (case(TRIED, identifier=7), case(identifier=7)):
        outcome = find_out(asked, timeline(store)).outcome
        ours = of(2, "ours") if asked.tried else ev.SnapshotRef(0, "")
        assert outcome == do.Undecided(ours, "the listing failed")


def test_an_outcome_is_recorded_with_all_that_a_reader_needs() -> None:
    assert resolved(do.Committed(of(2), True)) == ev.CommitResolved(of(2), "", "")
    assert resolved(do.NotCommitted("fenced", "a fork")) == ev.CommitResolved(None, "fenced", "a fork")


# ------------------------------------------------------------------------------------------------- its identity


def remembers(made: Snapshot, identifier: int, carrier: ev.SnapshotRef, user: str = "job") -> Snapshot:
    """A snapshot whose memory says that a user's last commit is in that snapshot."""
    memory = Memory(users={user: Trace.of(identifier, carrier)}).to_property()
    return replace(made, properties={**made.properties, IDENTIFIERS_PROPERTY: memory})


def lost_to(store: Struck) -> ev.SnapshotPrepared:
    """A snapshot that lost its name to snapshot 2."""
    return prepared(snapshot(2, uuid="ours", on="1:u1"))


@pytest.mark.parametrize(
    ("identifier", "asked", "user", "found"), [(7, 7, "job", True), (7, 8, "job", False), (7, 7, "other", False)]
)
def test_an_identity_that_another_run_landed_is_committed(
    store: Struck, identifier: int, asked: int, user: str, found: bool
) -> None:
    """G3: a replay, with the snapshot that carries it."""
    put(store, remembers(snapshot(2), identifier, of(2), user))
    outcome = find_out(case(lost_to(store), identifier=asked), timeline(store)).outcome
    assert outcome == do.Committed(of(2), True) if found else isinstance(outcome, do.NotCommitted)


def test_a_commit_without_an_identity_is_not_looked_up(store: Struck) -> None:
    put(store, remembers(snapshot(2), 7, of(2)))
    assert isinstance(find_out(case(lost_to(store)), timeline(store)).outcome, do.NotCommitted)


def test_an_identity_is_found_where_its_snapshot_has_expired(store: Struck) -> None:
    """The memory of the newest snapshot is enough; and a name that another has taken since is not looked at for it."""
    put(store, snapshot(2), snapshot(3), remembers(snapshot(4), 7, of(1, "expired")))
    asked = case(lost_to(store), identifier=7)
    assert find_out(asked, timeline(store)).outcome == do.Committed(of(1, "expired"), True)
    remove(store, "snapshot/snapshot-1")
    hints(store, earliest=2)
    assert find_out(asked, timeline(store)).outcome == do.Committed(of(1, "expired"), True)


def test_an_identity_below_the_newest_snapshot_counts_where_its_snapshot_stands(store: Struck) -> None:
    put(store, snapshot(2), remembers(snapshot(3), 7, of(2)))
    assert find_out(case(lost_to(store), identifier=7), timeline(store)).outcome == do.Committed(of(2), True)


def test_its_own_snapshot_is_no_replay(store: Struck) -> None:
    """Its name is unproven, because all around it has expired, but the memory names the very snapshot that it sent."""
    remove(store, "snapshot/snapshot-1")
    for earlier in ((), (prepared(snapshot(1, uuid="earlier")),)):
        put(store, remembers(snapshot(9, on="8:u8"), 7, of(2, "ours")))
        put_lists(store, snapshot(9))
        hints(store, earliest=9)
        asked = case(*earlier, TRIED, identifier=7)
        assert find_out(asked, timeline(store)).outcome == do.Committed(of(2, "ours"), False)


def test_an_identity_in_a_snapshot_that_may_be_a_fork_is_unknown(store: Struck) -> None:
    """H6: the snapshot below is gone, and the one above, of another engine, does not show what it was built on."""
    remove(store, "snapshot/snapshot-1")
    hints(store)
    carrier = foreign(2, commit_user="job", commit_identifier=7)
    above = foreign(3)
    put(store, carrier, above)
    for made in (carrier, above):
        put_lists(store, made)
    outcome = find_out(case(identifier=7), timeline(store)).outcome
    assert isinstance(outcome, do.Undecided)
    assert outcome.snapshot == of(2, "f2")
    assert "may not be part of the history" in outcome.reason


def test_an_identity_in_the_newest_snapshot_counts_unless_that_is_proven_a_fork(store: Struck) -> None:
    """Every reader believes it, though its base is gone and no hint says that it expired."""
    remove(store, "snapshot/snapshot-1")
    hints(store)
    put(store, remembers(snapshot(2), 7, of(2)))
    assert find_out(case(identifier=7), timeline(store)).outcome == do.Committed(of(2), True)


def test_an_identity_in_a_snapshot_whose_base_was_renamed_over_is_committed(store: Struck) -> None:
    """Its rows are what everybody reads, and a second run would add them again."""
    put(store, remembers(snapshot(2, on="1:another"), 7, of(2)))
    assert find_out(case(identifier=7), timeline(store)).outcome == do.Committed(of(2), True)


# ------------------------------------------------------------------------------------------------- its intent

WINDOW = Window("c1", of(1))


def carrying(made: Snapshot) -> Snapshot:
    text = to_property((Carried("leader", None, "c0", 1), Carried("job", None, "c1", 1)))
    return replace(made, properties={**made.properties, CARRIES_PROPERTY: text})


def test_a_commit_that_rides_in_a_standing_snapshot_is_committed(store: Struck) -> None:
    put(store, carrying(snapshot(2)))
    for tried in ((), (lost_to(store),)):
        answer = find_out(case(*tried, window=WINDOW), timeline(store))
        assert answer == Resolution(do.Committed(of(2), False))


def test_a_commit_that_rides_in_a_snapshot_whose_base_was_renamed_over_is_committed(store: Struck) -> None:
    put(store, carrying(snapshot(2, on="1:another")))
    assert find_out(case(window=WINDOW), timeline(store)) == Resolution(do.Committed(of(2), False))


def test_a_commit_that_rides_in_a_snapshot_that_may_be_a_fork_is_unknown(store: Struck) -> None:
    """H6: the hint says that more had followed."""
    remove(store, "snapshot/snapshot-1")
    put(store, carrying(snapshot(2)))
    hints(store, latest=5)
    answer = find_out(case(window=WINDOW), timeline(store))
    assert isinstance(answer.outcome, do.Undecided) and not answer.may_go_on
    assert answer.outcome.snapshot == of(2)
    assert "snapshot 2 carries it, but" in answer.outcome.reason and "LATEST says 5" in answer.outcome.reason


@pytest.mark.parametrize(
    ("above", "may_go_on", "reason"),
    [
        ((), True, "snapshot 2 or 3 may still carry it"),
        ((snapshot(2),), True, "snapshot 2 or 3 may still carry it"),
        ((snapshot(2, on="1:another"),), False, "another snapshot 1 stands where"),
        ((snapshot(2), snapshot(3)), False, None),
    ],
)
def test_a_commit_that_sent_nothing_is_lost_once_nobody_can_carry_it(
    store: Struck, above: tuple[Snapshot, ...], may_go_on: bool, reason: str | None
) -> None:
    """G2: while its intent is open or cannot be judged, it is not denied; its writer may go on only where it is open."""
    put(store, *above)
    answer = find_out(case(window=WINDOW), timeline(store))
    assert answer.may_go_on == may_go_on
    if reason is None:
        assert answer.outcome == do.NotCommitted("commit-conflict", "none of its snapshots was ever sent")
    else:
        assert isinstance(answer.outcome, do.Undecided) and reason in answer.outcome.reason


def test_an_answer_of_its_own_names_is_told_as_it_is_while_its_intent_is_open(store: Struck) -> None:
    """The writer may not publish once more while its own snapshot can still be sent."""
    answer = find_out(case(TRIED, window=WINDOW), timeline(store), send=False)
    assert isinstance(answer.outcome, do.Undecided) and "can be finished" in answer.outcome.reason
    assert not answer.may_go_on


def test_a_commit_that_can_go_on_is_not_waited_for(store: Struck) -> None:
    clock = Clock()
    assert await_answer(case(window=WINDOW), timeline(store), clock.around, 60.0).may_go_on
    assert clock.slept == []


def test_what_landed_by_itself_is_not_looked_for_among_riders(store: Struck) -> None:
    put(store, OURS)
    asked = list[list[str]]()
    for window in (None, WINDOW):
        store.asked.clear()
        assert find_out(case(TRIED, window=window), timeline(store)).outcome == do.Committed(of(2, "ours"), False)
        asked.append(sorted(store.asked))
    assert asked[0] == asked[1]
