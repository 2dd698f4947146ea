"""Riding in the commit machine: what is registered, who leads, and what may be told while an intent is open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.events import event_from_json, event_json
from lakelatch.coordinator.protocol.machine import LOOKS, CommitState, Phase, discardable, step
from lakelatch.coordinator.protocol.ride import MOST_WAITED_FOR, POLLS
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import ProtocolViolation

BASE, WINNER, NEXT = SnapshotRef(4, "base"), SnapshotRef(5, "winner"), SnapshotRef(6, "next")
OURS = SnapshotRef(5, "ours")
INTENT = ev.IntentPrepared(WINNER, "intent-6-c.json", ("manifest-c-0",), "{}")

LOST: list[ev.Event] = [
    ev.CommitRequested("me", 7, "APPEND", False, True),
    ev.LatestResolved(BASE, "ours", 4),
    ev.ChangesCollected(1, 0),
    ev.ManifestsCompacted("none"),
    ev.BaseListWritten("base-list"),
    ev.DeltaListWritten("delta-list", ("manifest-c-0",)),
    ev.SnapshotPrepared(OURS, BASE, "{}", ("base-list", "delta-list", "manifest-c-0")),
    ev.PublishRefused(),
    ev.FoundAnother(WINNER, "other"),
    ev.RetryGranted(0),
]
REGISTERED = [*LOST, ev.LatestResolved(WINNER, "ours-2", 5), INTENT, ev.IntentRegistered()]
WAITING = [*REGISTERED, ev.RidersChosen(1)]


def run(*events: ev.Event) -> tuple[CommitState, tuple[do.Effect, ...]]:
    state, effects = CommitState(), ()
    for event in events:
        state, effects = step(state, event)
    return state, effects


def test_a_loser_registers_and_looks_whom_it_can_carry() -> None:
    _, effects = run(*LOST)
    assert effects == (do.ResolveLatest(2, WINNER, None),)
    state, effects = run(*REGISTERED[:-2])
    assert (state.phase, effects) == (Phase.REGISTER, (do.PrepareIntent(WINNER),))
    _, effects = run(*REGISTERED[:-1])
    assert effects == (do.RegisterIntent(WINNER),)
    state, effects = run(*REGISTERED)
    assert (state.phase, effects) == (Phase.GATHER, (do.ChooseRiders(WINNER, True),))
    state, effects = step(state, ev.RidersChosen(0, ("d",)))
    assert (state.phase, effects) == (Phase.COLLECT, (do.CollectChanges(WINNER),))


def test_a_commit_that_may_not_ride_registers_nothing() -> None:
    _, effects = run(replace(LOST[0], rides=False), *LOST[1:], ev.LatestResolved(WINNER, "o", 5))  # type: ignore[type-var]
    assert effects == (do.CollectChanges(WINNER),)


@pytest.mark.parametrize(("rank", "turns"), [(1, 1), (2, 2), (900, MOST_WAITED_FOR)])
def test_a_rider_looks_and_then_leads_itself(rank: int, turns: int) -> None:
    """For each that may lead before it, it looks four times; but not for ever where hundreds have died."""
    state, effects = run(*REGISTERED, ev.RidersChosen(rank))
    for poll in range(1, turns * POLLS + 1):
        assert effects == (do.AwaitCarrier(WINNER, poll),)
        state, effects = step(state, ev.NobodyCame())
    assert (state.phase, effects) == (Phase.GATHER, (do.ChooseRiders(WINNER, False),))


def test_whoever_sees_the_next_snapshot_looks_for_itself_first() -> None:
    state, effects = run(*WAITING, ev.SnapshotSeen(NEXT))
    assert effects == (do.AwaitRetry(2, NEXT),)
    state, effects = step(state, ev.RetryGranted(0))
    assert effects == (do.ResolveLatest(3, NEXT, WINNER),)
    state, effects = step(state, ev.LatestResolved(WINNER, "", 0, aboard=NEXT))
    assert (state.phase, effects) == (Phase.VERIFY, (do.VerifyRide(NEXT, 1),))
    state, effects = step(state, ev.LineageVerified())
    assert effects == (
        do.Conclude(do.Committed(NEXT, False)),
        do.RemoveIntents(("intent-6-c.json",)),
        do.Discard(("base-list", "delta-list")),
    )
    assert state.phase is Phase.DONE


def test_a_ride_that_cannot_be_verified_is_unknown() -> None:
    state, _ = run(*WAITING, ev.SnapshotSeen(NEXT), ev.RetryGranted(0), ev.LatestResolved(WINNER, "", 0, aboard=NEXT))
    for _ in range(LOOKS):
        state, effects = step(state, ev.LineageUnread("gone"))
    assert isinstance(state.outcome, do.Undecided)
    assert len(effects) == 1, "nothing is deleted"


@pytest.mark.parametrize(
    "events",
    [
        [ev.SnapshotSeen(NEXT), ev.RetryGranted(0), ev.ResolveFailed("store-unavailable", "away")],
        [ev.SnapshotSeen(NEXT), ev.RetryGranted(0), ev.LatestResolved(NEXT, "o", 6, doubt="forgotten")],
    ],
)
def test_while_the_intent_is_open_nothing_is_reported_as_not_committed(events: list[ev.Event]) -> None:
    """G2: the next snapshot may still carry it. Where that cannot be prevented, nothing is deleted."""
    state, effects = run(*WAITING, *events)
    assert (state.outcome, effects) == (None, (do.ResolveLatest(4, NEXT, WINNER),)), "it looks, to close its window"
    state, effects = step(state, ev.ResolveFailed("store-unavailable", "away"))
    assert isinstance(state.outcome, do.Undecided)
    assert [type(effect) for effect in effects] == [do.Conclude]


def test_a_spent_budget_closes_the_window_first() -> None:
    state, effects = run(*WAITING, ev.SnapshotSeen(NEXT), ev.BudgetSpent("enough"))
    assert effects == (do.ResolveLatest(3, NEXT, WINNER),)
    _, effects = step(state, ev.LatestResolved(NEXT, "ours-3", 6))
    assert effects == (do.ChooseRiders(NEXT, False),), "it takes the last id, or loses it"
    closed, effects = step(state, ev.LatestResolved(NEXT, "ours-3", 6, closed=True))
    assert closed.outcome == do.NotCommitted("retries-exhausted", "enough")
    assert effects[1:] == (
        do.RemoveIntents(("intent-6-c.json",)),
        do.Discard(("base-list", "delta-list", "manifest-c-0")),
    )


def test_it_registers_again_only_after_its_window_closed() -> None:
    seen = [*WAITING, ev.SnapshotSeen(NEXT), ev.RetryGranted(0)]
    _, effects = run(*seen, ev.LatestResolved(NEXT, "o", 6))
    assert effects == (do.ChooseRiders(NEXT, True),)
    _, effects = run(*seen, ev.LatestResolved(NEXT, "o", 6, closed=True))
    assert effects == (do.PrepareIntent(NEXT),)


def test_an_unknown_outcome_goes_on_where_the_intent_is_open() -> None:
    away = ev.ResolveFailed("store-unavailable", "away")
    unknown = [*WAITING, ev.SnapshotSeen(NEXT), ev.RetryGranted(0), away, away]
    state, effects = run(*unknown, ev.Resumed())
    assert effects == (do.ResolveLatest(5, NEXT, WINNER),)
    _, effects = step(state, ev.LatestResolved(NEXT, "ours-3", 6))
    assert effects == (do.ChooseRiders(NEXT, True),), "it need not give up any more"
    with pytest.raises(ProtocolViolation, match="intent is open"):
        run(*LOST, ev.ResolveFailed("store-unavailable", "away"), ev.Resumed())


def test_a_refused_intent_is_not_waited_for() -> None:
    state, effects = run(*REGISTERED[:-1], ev.IntentRefused("403"))
    assert effects == (do.ChooseRiders(WINNER, False),)
    assert state.ride.window is None


def test_what_was_taken_over_while_its_intent_is_open_is_unknown() -> None:
    """Recovery finds the intent in the journal, and may see it carried."""
    leads = [*REGISTERED, ev.RidersChosen(0), *LOST[2:6]]
    state, _ = run(*leads, ev.TakenOver())
    assert isinstance(state.outcome, do.Undecided)
    state, _ = run(*REGISTERED[:-2], ev.TakenOver())
    assert isinstance(state.outcome, do.NotCommitted), "nothing was registered"


def test_who_never_registered_cannot_ride() -> None:
    with pytest.raises(ProtocolViolation, match="without an intent"):
        run(*LOST, ev.LatestResolved(BASE, "", 0, aboard=NEXT))


def test_the_journal_keeps_intents_as_they_are() -> None:
    for event in (*REGISTERED, ev.RidersChosen(1, ("a", "b")), ev.SnapshotSeen(NEXT), ev.NobodyCame()):
        assert event_from_json(event_json(event)) == event


def test_recovery_deletes_what_a_rider_wrote_once_it_is_known_that_it_did_not_land() -> None:
    state, _ = run(*WAITING)
    assert discardable(state) == ("base-list", "delta-list", "manifest-c-0")


@pytest.mark.parametrize("before", [REGISTERED[:-2], REGISTERED[:-1]], ids=["prepared", "refused"])
def test_an_intent_that_the_journal_may_hold_is_open(before: list[ev.Event]) -> None:
    """G2: another process may find it there and publish it, whether or not the store ever had it."""
    state, effects = run(*before, ev.JournalUnsure("no answer"))
    assert isinstance(state.outcome, do.Undecided)
    assert state.ride.window == WINNER
    assert len(effects) == 1, "nothing is deleted"
    _, effects = step(state, ev.Resumed())
    assert effects == (do.ResolveLatest(3, WINNER, WINNER),)


# ------------------------------------------------------------------------------------------- a rider that was taken over

TAKEN_OVER = ev.RiderTakenOver("me", 7, "APPEND", WINNER, ("intent-6-c.json",))
PUBLISHING: list[ev.Event] = [
    TAKEN_OVER,
    ev.LatestResolved(WINNER, "ours", 5),
    ev.RidersChosen(0),
    ev.ChangesCollected(1, 0),
    ev.ManifestsCompacted("none"),
    ev.BaseListWritten("base-list"),
    ev.DeltaListWritten("delta-list", ()),
    ev.SnapshotPrepared(SnapshotRef(6, "ours"), WINNER, "{}", ("base-list", "delta-list")),
]


def test_whoever_has_taken_a_rider_over_leads_at_once() -> None:
    _, effects = run(*PUBLISHING[:2])
    assert effects == (do.ChooseRiders(WINNER, False),), "its writer, who was to wait for its turn, is gone"
    state, effects = run(*PUBLISHING, ev.SnapshotPublished(), ev.LineageVerified())
    assert state.outcome == do.Committed(SnapshotRef(6, "ours"), False)
    assert do.RemoveIntents(("intent-6-c.json",)) in effects


def test_whoever_has_taken_a_rider_over_finds_it_in_the_snapshot_of_another() -> None:
    state, effects = run(TAKEN_OVER, ev.LatestResolved(None, "", 0, aboard=NEXT))
    assert (state.phase, effects) == (Phase.VERIFY, (do.VerifyRide(NEXT, 1),))


@pytest.mark.parametrize("granted", [ev.RetryGranted(0), ev.BudgetSpent("enough")])
def test_whoever_has_taken_a_rider_over_stops_where_its_window_ends(granted: ev.Event) -> None:
    """G2: it registers nothing, and deletes only what it wrote itself."""
    lost = [*PUBLISHING, ev.PublishRefused(), ev.FoundAnother(NEXT, "other"), granted]
    _, effects = run(*lost)
    assert effects == (do.ResolveLatest(2, NEXT, WINNER),)
    _, effects = run(*lost, ev.LatestResolved(NEXT, "ours-2", 6))
    assert effects == (do.ChooseRiders(NEXT, False),)
    state, effects = run(*lost, ev.LatestResolved(NEXT, "ours-2", 6, closed=True))
    assert isinstance(state.outcome, do.NotCommitted) and "snapshots 6 and 7 are others'" in state.outcome.reason
    assert effects[1:] == (do.RemoveIntents(("intent-6-c.json",)), do.Discard(("base-list", "delta-list")))


def test_a_rider_is_taken_over_before_anything_else() -> None:
    with pytest.raises(ProtocolViolation, match="once"):
        run(*LOST, TAKEN_OVER)


def test_whoever_has_taken_a_rider_over_and_cannot_read_the_latest_snapshot_leaves_it_unknown() -> None:
    away = ev.ResolveFailed("store-unavailable", "away")
    state, effects = run(TAKEN_OVER, away, away)
    assert isinstance(state.outcome, do.Undecided)
    assert (state.outcome.snapshot.id, state.outcome.reason) == (6, "away; snapshot 6 or 7 may still carry it")
    assert [type(effect) for effect in effects] == [do.Conclude], "nothing is deleted"
