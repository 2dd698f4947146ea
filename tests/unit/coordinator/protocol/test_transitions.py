"""Every pair of the transition table: what an event leads to in a phase, and which effects follow."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import get_args

import pytest

from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.events import EVENT_TYPES, Event, event_from_json, event_json
from lakelatch.coordinator.protocol.machine import (
    TRANSITIONS,
    CommitState,
    Phase,
    Repeats,
    Transition,
    discardable,
    step,
)
from lakelatch.coordinator.protocol.ride import Ride
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import ProtocolViolation

BASE, WINNER, NEXT = SnapshotRef(4, "base"), SnapshotRef(5, "winner"), SnapshotRef(6, "next")
OURS, OURS_2 = SnapshotRef(5, "ours"), SnapshotRef(6, "ours-2")
WRITTEN = ("merged", "base-list", "statistics", "delta-list", "manifest")

REQUESTED = ev.CommitRequested("me", 7, "APPEND", True, True)
BASE_LIST = ev.BaseListWritten("base-list", ("statistics",))
DELTA_LIST = ev.DeltaListWritten("delta-list", ("manifest",))
PREPARED = ev.SnapshotPrepared(OURS, BASE, "{}", WRITTEN)
GONE = ev.ConflictFound("gone", "a is gone")
AWAY = ev.LineageBroken("moved", "table-not-found")
DROPPED = ev.LineageBroken("dropped", "table-not-found", table_gone=True)
TAKEN_OVER = ev.RiderTakenOver("me", 7, "APPEND", WINNER, ("intent-6.json",))
INTENT = ev.IntentPrepared(WINNER, "intent-6.json", ("manifest",), "{}")

Path = tuple[Event, ...]
NEW: Path = ()
COLLECT: Path = (REQUESTED,)
ON_BASE: Path = (*COLLECT, ev.LatestResolved(BASE, "ours", 4))
MERGING: Path = (*ON_BASE, ev.ChangesCollected(1, 0))
UPLOADING: Path = (*MERGING, ev.ManifestsCompacted("full", ("merged",)))
LISTED: Path = (*UPLOADING, BASE_LIST)
BUILDING: Path = (*LISTED, ev.DataUploaded(1), DELTA_LIST)
SENT: Path = (*BUILDING, PREPARED)
SENT_TWICE: Path = (*SENT, ev.AnswerLost("reset"), ev.FoundNothing())
REFUSED: Path = (*SENT, ev.PublishRefused())
LANDED: Path = (*SENT, ev.SnapshotPublished())
LANDED_LATE: Path = (*SENT_TWICE, ev.SnapshotPublished())
LOST: Path = (*REFUSED, ev.FoundAnother(WINNER, "other"))
REGISTER: Path = (*LOST, ev.RetryGranted(0), ev.LatestResolved(WINNER, "ours-2", 5))
ASKED: Path = (*REGISTER, INTENT)
REGISTERED: Path = (*ASKED, ev.IntentRegistered())
WAITING: Path = (*REGISTERED, ev.RidersChosen(1))
LEADING: Path = (*REGISTERED, ev.RidersChosen(0), ev.ChangesCollected(1, 0))
LEADER_SENT: Path = (
    *LEADING,
    ev.ManifestsCompacted("none"),
    ev.BaseListWritten("base-list-2"),
    DELTA_LIST,
    ev.SnapshotPrepared(OURS_2, WINNER, "{}", ("base-list-2", "delta-list", "manifest")),
)
UNKNOWN: Path = (
    *WAITING,
    ev.SnapshotSeen(NEXT),
    ev.RetryGranted(0),
    ev.ResolveFailed("store-unavailable", "away"),
    ev.ResolveFailed("store-unavailable", "still away"),
)
ABOARD: Path = (
    *WAITING,
    ev.SnapshotSeen(NEXT),
    ev.RetryGranted(0),
    ev.LatestResolved(WINNER, "", 0, aboard=NEXT),
)
ASKS_FIRST: Path = (*COLLECT, ev.LatestResolved(BASE, "ours", 4, crowded=True))
OFFERING: Path = (*ASKS_FIRST, ev.ChangesCollected(1, 0))
OFFERED = ev.ManifestsWritten(("manifest",))
ASKED_FIRST: Path = (*OFFERING, OFFERED, ev.DataUploaded(1), replace(INTENT, base=BASE))
LEADS_FIRST: Path = (
    *ASKED_FIRST,
    ev.IntentRegistered(),
    ev.RidersChosen(0),
    ev.ChangesCollected(1, 0),
    ev.ManifestsCompacted("none"),
)
GIVES_UP: Path = (*LEADING, ev.ManifestsCompacted("none"), ev.UploadFailed("list", "403"))
CLOSES: Path = (*GIVES_UP, ev.LatestResolved(WINNER, "empty", 5), ev.ChangesCollected(0, 0))
EMPTY = SnapshotRef(6, "empty")
CLOSING = ev.ClosingPrepared(EMPTY, WINNER, ("list-3", "list-4"))
CLOSING_BUILT: Path = (*CLOSES, ev.BaseListWritten("list-3"), ev.DeltaListWritten("list-4", ()))
CLOSED_ONE: Path = (*CLOSING_BUILT, CLOSING, ev.SnapshotPublished())
CLOSED_FOR_A_CONFLICT: Path = (*LEADING[:-1], GONE, *CLOSED_ONE[len(GIVES_UP) :], ev.LineageVerified())
AGED: Path = (*SENT, ev.BaseAged(), ev.LatestResolved(WINNER, "ours-2", 5))
LISTS_AGAIN: tuple[do.Effect, ...] = (do.WriteBaseList(WINNER), do.WriteDeltaList(WINNER))


def not_committed(code: str, reason: str) -> do.Conclude:
    return do.Conclude(do.NotCommitted(code, reason))


def undecided(snapshot: SnapshotRef, reason: str) -> do.Conclude:
    return do.Conclude(do.Undecided(snapshot, reason))


Case = tuple[Path, Event, Phase, tuple[do.Effect, ...]]
CASES: list[Case] = [
    (NEW, REQUESTED, Phase.COLLECT, (do.ResolveLatest(1, None),)),
    (NEW, TAKEN_OVER, Phase.COLLECT, (do.ResolveLatest(1, WINNER, WINNER),)),
    # the latest snapshot, and the identity
    (COLLECT, ON_BASE[-1], Phase.COLLECT, (do.CollectChanges(BASE),)),
    (COLLECT, ev.LatestResolved(None, "ours", 0), Phase.COLLECT, (do.CollectChanges(None),)),
    (COLLECT, ev.LatestResolved(None, "ours", 0, crowded=True), Phase.COLLECT, (do.CollectChanges(None),)),
    (COLLECT, ASKS_FIRST[-1], Phase.COLLECT, (do.CollectChanges(BASE, asks_first=True),)),
    (COLLECT, ev.LatestResolved(BASE, "ours", 4, 6), Phase.COLLECT, (do.CollectChanges(BASE),)),
    (COLLECT, ev.LatestResolved(BASE, "ours", 4, doubt="x"), Phase.DONE, (not_committed("outcome-unknown", "x"),)),
    (COLLECT, ev.ResolveFailed("fenced", "away"), Phase.DONE, (not_committed("fenced", "away"),)),
    (ON_BASE, GONE, Phase.DONE, (not_committed("commit-conflict", "gone: a is gone"),)),
    (ON_BASE, MERGING[-1], Phase.COMPACT_MANIFESTS, (do.CompactManifests(BASE, False),)),
    # a commit that knows of others asks them first
    (ASKS_FIRST, MERGING[-1], Phase.REGISTER, (do.WriteManifests(BASE), do.UploadData())),
    (OFFERING, OFFERED, Phase.REGISTER, ()),
    (OFFERING, ev.DataUploaded(1), Phase.REGISTER, ()),
    ((*OFFERING, OFFERED), ev.DataUploaded(1), Phase.REGISTER, (do.PrepareIntent(BASE),)),
    ((*OFFERING, ev.DataUploaded(1)), OFFERED, Phase.REGISTER, (do.PrepareIntent(BASE),)),
    (OFFERING, ev.UploadFailed("data", "403"), Phase.DONE, (not_committed("store-unavailable", "data: 403"),)),
    (
        ASKED_FIRST[:-1],
        GONE,
        Phase.DONE,
        (not_committed("commit-conflict", "gone: a is gone"), do.Discard(("manifest",))),
    ),
    (ASKED_FIRST, ev.IntentRegistered(), Phase.GATHER, (do.ChooseRiders(BASE, True),)),
    (LEADS_FIRST[:-1], LEADS_FIRST[-1], Phase.BASE_LIST, (do.WriteBaseList(BASE), do.WriteDeltaList(BASE))),
    # uploads
    (MERGING, UPLOADING[-1], Phase.BASE_LIST, (do.WriteBaseList(BASE), do.WriteDeltaList(BASE), do.UploadData())),
    (UPLOADING, BASE_LIST, Phase.DELTA_LIST, ()),
    (UPLOADING, DELTA_LIST, Phase.BASE_LIST, ()),
    (UPLOADING, ev.DataUploaded(1), Phase.BASE_LIST, ()),
    (UPLOADING, ev.UploadFailed("data", "403"), Phase.DONE, (not_committed("store-unavailable", "data: 403"),)),
    (LISTED, DELTA_LIST, Phase.DELTA_LIST, ()),
    (LISTED, ev.DataUploaded(1), Phase.DELTA_LIST, ()),
    (LISTED, ev.UploadFailed("data", "403"), Phase.DONE, (not_committed("store-unavailable", "data: 403"),)),
    ((*LISTED, DELTA_LIST), ev.DataUploaded(1), Phase.PUBLISH, (do.PrepareSnapshot(OURS),)),
    # before a send
    (BUILDING, PREPARED, Phase.PUBLISH, (do.Publish(OURS, 1),)),
    (BUILDING, GONE, Phase.DONE, (not_committed("commit-conflict", "gone: a is gone"), do.Discard(WRITTEN))),
    (BUILDING, ev.TakenOver(), Phase.DONE, (not_committed("commit-conflict", "took this commit over"),)),
    (BUILDING, ev.JournalUnsure("no answer"), Phase.DONE, (undecided(OURS, "no answer"),)),
    (SENT, ev.BaseAged(), Phase.COLLECT, (do.ResolveLatest(1, BASE, None),)),
    (LEADER_SENT, ev.BaseAged(), Phase.COLLECT, (do.ResolveLatest(2, WINNER, WINNER),)),
    # the answer to a send
    (SENT, ev.SnapshotPublished(), Phase.VERIFY, (do.VerifyLineage(BASE, OURS, 1),)),
    (SENT, ev.PublishRefused(), Phase.PUBLISH, (do.ReadBack(OURS, 1, False),)),
    (SENT, ev.PublishRefused(earlier_send=True), Phase.PUBLISH, (do.ReadBack(OURS, 1, True),)),
    (SENT, ev.AnswerLost("reset"), Phase.PUBLISH, (do.ReadBack(OURS, 1, True),)),
    (
        SENT,
        ev.UploadFailed("snapshot-5", "403"),
        Phase.DONE,
        (not_committed("store-unavailable", "snapshot-5: 403"), do.Discard(WRITTEN)),
    ),
    (BUILDING, ev.UploadFailed("journal", "full"), Phase.DONE, (not_committed("store-unavailable", "journal: full"),)),
    (SENT_TWICE, ev.UploadFailed("snapshot-5", "403"), Phase.DONE, (undecided(OURS, "403"),)),
    (SENT_TWICE, ev.BaseAged(), Phase.DONE, (undecided(OURS, "too late to send it again"),)),
    (LEADER_SENT, ev.PublishRefused(), Phase.PUBLISH, (do.ReadBack(OURS_2, 1, False),)),
    (REFUSED, ev.FoundOurs(), Phase.VERIFY, (do.VerifyLineage(BASE, OURS, 1),)),
    (REFUSED, LOST[-1], Phase.RETRY, (do.AwaitRetry(1, WINNER),)),
    (REFUSED, ev.FoundNothing(), Phase.PUBLISH, (do.Publish(OURS, 2),)),
    (REFUSED, ev.ReadBackFailed("down"), Phase.PUBLISH, (do.ReadBack(OURS, 2, False),)),
    # the lineage, the hint
    (LANDED, ev.LineageVerified(), Phase.HINT, (do.Conclude(do.Committed(OURS, False)), do.WriteHint(5))),
    (LANDED, ev.LineageBroken("freed"), Phase.DONE, (not_committed("fenced", "freed"),)),
    (LANDED_LATE, ev.LineageBroken("freed"), Phase.DONE, (not_committed("fenced", "freed"),)),
    (LANDED, AWAY, Phase.DONE, (not_committed("table-not-found", "moved"),)),
    (LANDED_LATE, AWAY, Phase.DONE, (undecided(OURS, "moved, and an earlier"),)),
    (LANDED, DROPPED, Phase.DONE, (not_committed("table-not-found", "dropped"), do.Discard(WRITTEN))),
    (LANDED, ev.LineageUnread("down"), Phase.VERIFY, (do.VerifyLineage(BASE, OURS, 2),)),
    ((*LANDED, ev.LineageVerified()), ev.HintWritten(5), Phase.DONE, ()),
    ((*LANDED, ev.LineageVerified()), ev.HintSkipped("403"), Phase.DONE, ()),
    # another attempt
    (LOST, ev.RetryGranted(3), Phase.COLLECT, (do.ResolveLatest(2, WINNER, None),)),
    (LOST, ev.BudgetSpent("enough"), Phase.DONE, (not_committed("retries-exhausted", "enough"), do.Discard(WRITTEN))),
    (LEADING[:-1], LEADING[-1], Phase.COMPACT_MANIFESTS, (do.CompactManifests(WINNER, True),)),
    (LEADING, ev.ManifestsCompacted("reused"), Phase.BASE_LIST, LISTS_AGAIN),
    ((*AGED, ev.ChangesCollected(1, 0)), ev.ManifestsCompacted("none"), Phase.BASE_LIST, LISTS_AGAIN),
    # riding with others
    (REGISTER, INTENT, Phase.REGISTER, (do.RegisterIntent(WINNER),)),
    (REGISTER, ev.TakenOver(), Phase.DONE, (not_committed("commit-conflict", "took this commit over"),)),
    (REGISTER, ev.JournalUnsure("no answer"), Phase.DONE, (undecided(OURS_2, "no answer"),)),
    (REGISTER, ev.UploadFailed("intent", "403"), Phase.DONE, (not_committed("store-unavailable", "intent: 403"),)),
    (ASKED, ev.UploadFailed("intent", "403"), Phase.COLLECT, (do.ResolveLatest(3, WINNER, WINNER),)),
    (ASKED, ev.IntentRegistered(), Phase.GATHER, (do.ChooseRiders(WINNER, True),)),
    (ASKED, ev.IntentRefused("403"), Phase.GATHER, (do.ChooseRiders(WINNER, False),)),
    (REGISTERED, ev.RidersChosen(0, ("d",)), Phase.COLLECT, (do.CollectChanges(WINNER),)),
    (REGISTERED, ev.RidersChosen(1), Phase.RIDE, (do.AwaitCarrier(WINNER, 1),)),
    (WAITING, ev.NobodyCame(), Phase.RIDE, (do.AwaitCarrier(WINNER, 2),)),
    ((*WAITING, *[ev.NobodyCame()] * 3), ev.NobodyCame(), Phase.GATHER, (do.ChooseRiders(WINNER, False),)),
    (WAITING, ev.SnapshotSeen(NEXT), Phase.RETRY, (do.AwaitRetry(2, NEXT),)),
    (UNKNOWN, ev.Resumed(), Phase.COLLECT, (do.ResolveLatest(5, NEXT, WINNER),)),
    (
        (*LEADS_FIRST, ev.UploadFailed("list", "403"), ev.ResolveFailed("store-unavailable", "away")),
        ev.Resumed(),
        Phase.COLLECT,
        (do.ResolveLatest(3, BASE, BASE),),  # it has lost to nobody, and looks above the base that it asked on
    ),
    # giving up while others may carry it
    (GIVES_UP[:-1], GIVES_UP[-1], Phase.COLLECT, (do.ResolveLatest(3, WINNER, WINNER),)),
    (LEADING[:-1], GONE, Phase.COLLECT, (do.ResolveLatest(3, WINNER, WINNER),)),
    (UNKNOWN[:-2], UNKNOWN[-2], Phase.COLLECT, (do.ResolveLatest(4, NEXT, WINNER),)),
    (UNKNOWN[:-1], UNKNOWN[-1], Phase.DONE, (undecided(OURS_2, "away; snapshot 6 or 7 may still carry it"),)),
    (GIVES_UP, CLOSES[-2], Phase.COLLECT, (do.CollectChanges(WINNER, closes=True),)),
    (GIVES_UP, replace(CLOSES[-2], doubt="x"), Phase.COLLECT, (do.CollectChanges(WINNER, closes=True),)),
    (
        GIVES_UP,
        replace(CLOSES[-2], replay_of=NEXT),
        Phase.DONE,
        (do.Conclude(do.Committed(NEXT, True)), do.RemoveIntents(("intent-6.json",))),
    ),
    (CLOSES[:-1], CLOSES[-1], Phase.BASE_LIST, LISTS_AGAIN),
    (CLOSING_BUILT, CLOSING, Phase.PUBLISH, (do.Publish(EMPTY, 1),)),
    (CLOSED_ONE, ev.LineageVerified(), Phase.COLLECT, (do.ResolveLatest(4, EMPTY, WINNER),)),
    (
        (*CLOSED_ONE, ev.LineageVerified()),
        ev.LatestResolved(NEXT, "x", 6, closed=True),
        Phase.DONE,
        (
            not_committed("store-unavailable", "list: 403"),
            do.RemoveIntents(("intent-6.json",)),
        ),
    ),
    (
        CLOSED_FOR_A_CONFLICT,  # what the snapshots without rows need stays
        ev.LatestResolved(NEXT, "x", 6, closed=True),
        Phase.DONE,
        (
            not_committed("commit-conflict", "gone: a is gone"),
            do.RemoveIntents(("intent-6.json",)),
            do.Discard(WRITTEN),
        ),
    ),
    (
        (*CLOSED_ONE, ev.LineageVerified()),
        ev.LatestResolved(WINNER, "", 0, aboard=NEXT),
        Phase.VERIFY,
        (do.VerifyRide(NEXT, 1),),
    ),
    (ABOARD, ev.LineageUnread("down"), Phase.VERIFY, (do.VerifyRide(NEXT, 2),)),
    (ABOARD, ev.LineageBroken("freed"), Phase.DONE, (undecided(NEXT, "freed"),)),
]


def after(path: Path) -> CommitState:
    state = CommitState()
    for event in path:
        state, _ = step(state, event)
    return state


def last(path: Path) -> tuple[do.Effect, ...]:
    """The effects of the last event of a path."""
    return step(after(path[:-1]), path[-1])[1]


@pytest.mark.parametrize(
    ("path", "event", "phase", "effects"),
    CASES,
    ids=lambda value: type(value).__name__ if isinstance(value, get_args(Event)) else None,
)
def test_what_an_event_leads_to(path: Path, event: Event, phase: Phase, effects: tuple[do.Effect, ...]) -> None:
    """Of a reason only a part is given here, as the rest is prose."""
    state, found = step(after(path), event)
    assert state.phase is phase
    concluded = [e.outcome for e in (*effects, *found) if isinstance(e, do.Conclude)]
    if concluded and not isinstance(concluded[0], do.Committed):
        wanted, told = concluded
        assert not isinstance(wanted, do.Committed) and not isinstance(told, do.Committed)
        assert wanted.reason in told.reason
        assert state.outcome is told
        found = (do.Conclude(replace(told, reason=wanted.reason)), *found[1:])
    assert found == effects


def test_every_pair_of_the_table_is_tried() -> None:
    assert {(after(path).phase, type(event)) for path, event, _, _ in CASES} == set(TRANSITIONS)


@pytest.mark.parametrize(
    ("path", "event", "text"),
    [
        (COLLECT, REQUESTED, "requested once"),
        (NEW, ON_BASE[-1], "no commit was requested"),
        (BUILDING, replace(PREPARED, base=WINNER), "not the snapshot of this attempt"),
        (BUILDING, replace(PREPARED, snapshot=WINNER), "not the snapshot of this attempt"),
        (SENT, GONE, "cannot be given up for a conflict"),
        (BUILDING, replace(CLOSING, snapshot=OURS, base=BASE), "closes no window"),
        (CLOSING_BUILT, replace(CLOSING, base=BASE), "closes no window"),
        (SENT, ev.TakenOver(), "cannot be taken over"),
        (REGISTER, replace(INTENT, base=BASE), "does not fit the base"),
        ((*BUILDING, ev.JournalUnsure("no answer")), ev.Resumed(), "intent is open"),
        ((*ABOARD, ev.LineageVerified()), ev.Resumed(), "intent is open"),
        ((*LANDED, ev.LineageVerified(), ev.HintWritten(5)), ev.Resumed(), "intent is open"),
    ],
)
def test_what_cannot_have_happened_is_refused(path: Path, event: Event, text: str) -> None:
    with pytest.raises(ProtocolViolation, match=text):
        step(after(path), event)


@pytest.mark.parametrize(
    ("phase", "event", "text"),
    [
        (Phase.PUBLISH, ev.JournalUnsure("no answer"), "before the latest is resolved"),
        (Phase.REGISTER, ev.IntentRefused("403"), "before the first snapshot"),
    ],
)
def test_a_phase_that_was_reached_without_a_base_is_refused(phase: Phase, event: Event, text: str) -> None:
    with pytest.raises(ProtocolViolation, match=text):
        step(replace(CommitState(), phase=phase), event)


def test_a_handler_that_leads_elsewhere_than_the_table_says_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = (Phase.COLLECT, ev.CommitRequested)
    monkeypatch.setitem(TRANSITIONS, pair, Transition(TRANSITIONS[pair].handler, (Phase.DONE,)))
    with pytest.raises(ProtocolViolation, match="CommitRequested led from 'collect' to 'collect'"):
        step(CommitState(), REQUESTED)


# ------------------------------------------------------------------------------------------------------------- limits


def test_a_commit_begins_with_its_first_attempt_and_nothing_repeated() -> None:
    assert CommitState().repeats == Repeats(attempt=1, agings=0, sends=0, looks=0)
    assert (CommitState().attempt, CommitState().sends) == (1, 0)
    assert CommitState().ride == Ride(rank=0, polls=0, aboard=False)


def test_a_snapshot_is_sent_three_times_at_most() -> None:
    state = after(SENT)
    for send in (2, 3):
        state, _ = step(state, ev.AnswerLost("reset"))
        state, effects = step(state, ev.FoundNothing())
        assert effects == (do.Publish(OURS, send),)
    state, _ = step(state, ev.AnswerLost("reset"))
    state, effects = step(state, ev.FoundNothing())
    assert isinstance(state.outcome, do.Undecided) and len(effects) == 1


def test_a_read_back_is_tried_four_times_at_most() -> None:
    state = after(REFUSED)
    for look in (2, 3, 4):
        state, effects = step(state, ev.ReadBackFailed("down"))
        assert effects == (do.ReadBack(OURS, look, False),)
    _, effects = step(state, ev.ReadBackFailed("still down"))
    assert effects == (undecided(OURS, "still down"),)


def test_a_lineage_is_looked_at_four_times_at_most() -> None:
    state = after(LANDED)
    for look in (2, 3, 4):
        state, effects = step(state, ev.LineageUnread("down"))
        assert effects == (do.VerifyLineage(BASE, OURS, look),)
    state, effects = step(state, ev.LineageUnread("still down"))
    assert isinstance(state.outcome, do.Undecided) and "still down" in state.outcome.reason


def test_five_bases_may_expire_before_a_send_and_the_sixth_ends_the_commit() -> None:
    """Nothing was ever sent, so what it wrote goes."""
    state, number = after(SENT), 4
    for _ in range(5):
        state, effects = step(state, ev.BaseAged())
        assert effects == (do.ResolveLatest(1, SnapshotRef(number, "base"), None),)
        number += 1
        base, ours = SnapshotRef(number, "base"), SnapshotRef(number + 1, "ours")
        events = (
            ev.LatestResolved(base, "ours", number),
            *MERGING[-1:],
            ev.ManifestsCompacted("none"),
            BASE_LIST,
            DELTA_LIST,
            ev.SnapshotPrepared(ours, base, "{}", ("base-list", "delta-list")),
        )
        for event in events:
            state, effects = step(state, event)
        assert effects == (do.Publish(ours, 1),)
    state, effects = step(state, ev.BaseAged())
    assert isinstance(state.outcome, do.NotCommitted) and state.outcome.code == "retries-exhausted"
    assert "6 snapshots" in state.outcome.reason
    assert effects[1:] == (do.Discard(WRITTEN),)


@pytest.mark.parametrize(("rank", "looks"), [(1, 4), (2, 8), (8, 32), (9, 32), (900, 32)])
def test_a_rider_looks_four_times_for_each_before_it_but_for_eight_at_most(rank: int, looks: int) -> None:
    state, effects = step(after(REGISTERED), ev.RidersChosen(rank))
    asked = 0
    while state.phase is Phase.RIDE:
        asked += 1
        assert effects == (do.AwaitCarrier(WINNER, asked),)
        state, effects = step(state, ev.NobodyCame())
    assert asked == looks


# ------------------------------------------------------------------------------------------- from attempt to attempt


def test_a_rider_that_waits_again_counts_its_looks_from_one() -> None:
    seen = (*WAITING, ev.NobodyCame(), ev.SnapshotSeen(NEXT), ev.RetryGranted(0), ev.LatestResolved(NEXT, "o", 6))
    assert last(seen) == (do.ChooseRiders(NEXT, True),)
    assert last((*seen, ev.RidersChosen(1))) == (do.AwaitCarrier(NEXT, 1),)


def test_who_is_found_aboard_after_a_send_of_its_own_is_verified_from_the_first_look() -> None:
    path = (
        *LEADER_SENT,
        ev.PublishRefused(),
        ev.FoundAnother(NEXT, "other"),
        ev.RetryGranted(0),
        ev.LatestResolved(WINNER, "", 0, aboard=NEXT),
    )
    assert last(path) == (do.VerifyRide(NEXT, 1),)
    assert after(path).lost_to == (WINNER, NEXT)


def test_a_commit_remembers_every_snapshot_that_came_before_it() -> None:
    assert after((*WAITING, ev.SnapshotSeen(NEXT))).lost_to == (WINNER, NEXT)


def test_who_leads_after_an_unknown_ride_is_checked_as_a_snapshot_of_its_own() -> None:
    """It is not taken for a passenger any more, and its outcome is open again."""
    unread = (*ABOARD, *[ev.LineageUnread("down")] * 4)
    assert isinstance(after(unread).outcome, do.Undecided)
    resumed = (*unread, ev.Resumed())
    assert after(resumed).outcome is None
    ours = SnapshotRef(7, "ours-3")
    path = (
        *resumed,
        ev.LatestResolved(NEXT, "ours-3", 6),
        ev.RidersChosen(0),
        ev.ChangesCollected(1, 0),
        ev.ManifestsCompacted("none"),
        ev.BaseListWritten("base-list-3"),
        DELTA_LIST,
        ev.SnapshotPrepared(ours, NEXT, "{}", ("base-list-3", "delta-list", "manifest")),
        ev.SnapshotPublished(),
    )
    assert last(path) == (do.VerifyLineage(NEXT, ours, 1),)


def test_all_intents_of_a_commit_are_removed_once_it_landed() -> None:
    """The same intent may be prepared again, where the journal's answer was lost; another one has another name."""
    again = replace(INTENT, base=NEXT, name="intent-7.json")
    path = (
        *WAITING,
        ev.SnapshotSeen(NEXT),
        ev.RetryGranted(0),
        ev.LatestResolved(NEXT, "ours-3", 6, closed=True),
        again,
        again,
        ev.IntentRegistered(),
        ev.RidersChosen(1),
        ev.SnapshotSeen(SnapshotRef(7, "third")),
        ev.RetryGranted(0),
        ev.LatestResolved(NEXT, "", 0, aboard=SnapshotRef(7, "third")),
        ev.LineageVerified(),
    )
    assert do.RemoveIntents(("intent-6.json", "intent-7.json")) in last(path)


def test_publish_waits_for_nothing_once_the_snapshot_is_built() -> None:
    assert after(UPLOADING).missing == {"data", "base list", "delta list"}
    assert after(BUILDING).missing == frozenset()


# -------------------------------------------------------------------------------------------------------- the journal


@pytest.mark.parametrize(
    ("path", "files"),
    [
        (UPLOADING, ("merged",)),
        (BUILDING, WRITTEN),
        (SENT, ()),
        (REFUSED, ()),
        (LOST, WRITTEN),
        ((*SENT, ev.AnswerLost("reset"), ev.FoundAnother(WINNER, "other")), ()),
        (LANDED, ()),
        ((*LANDED, ev.LineageVerified()), ()),
        ((*LANDED, ev.LineageVerified(), ev.HintWritten(5)), ()),
        (REGISTER, WRITTEN),
    ],
)
def test_what_recovery_may_delete_of_a_commit_that_did_not_land(path: Path, files: tuple[str, ...]) -> None:
    """Nothing while a send may still arrive, and nothing of a commit that ended."""
    assert discardable(after(path)) == files


EXAMPLES: list[Event] = [
    *(event for _, event, _, _ in CASES),
    ev.LatestResolved(BASE, "u", 4, 7, WINNER, NEXT, True, True, "doubt"),
    ev.IntentRegistered("no answer"),
    ev.RidersChosen(2, ("a", "b")),
    ev.SnapshotPrepared(OURS, None, "{}"),
    ev.CommitResolved(OURS),
    ev.CommitResolved(None, "fenced", "freed"),
]


def test_every_event_survives_the_text_of_a_journal() -> None:
    assert {type(event).__name__ for event in EXAMPLES} == set(EVENT_TYPES)
    for event in EXAMPLES:
        assert event_from_json(json.loads(json.dumps(event_json(event)))) == event


def test_events_of_older_journals_get_the_values_that_were_meant() -> None:
    old = {"event": "CommitRequested", "user": "me", "identifier": None, "kind": "APPEND", "has_data": False}
    assert event_from_json(old) == ev.CommitRequested("me", None, "APPEND", False, rides=False)
    old = {"event": "SnapshotPrepared", "snapshot": {"id": 5, "identity": "ours"}, "base": None, "text": "{}"}
    assert event_from_json(old) == ev.SnapshotPrepared(OURS, None, "{}", names=None)
    assert event_from_json({"event": "PublishRefused"}) == ev.PublishRefused(earlier_send=False)
    assert event_from_json({"event": "LineageBroken", "reason": "x"}) == ev.LineageBroken("x", "fenced", False)
    old = {"event": "LatestResolved", "base": None, "snapshot_uuid": "u", "inspected_through": 0}
    assert event_from_json(old) == ev.LatestResolved(None, "u", 0, None, None, None, False, False)
    assert event_from_json({**old, "crowded": True}) == ev.LatestResolved(None, "u", 0, crowded=True)
