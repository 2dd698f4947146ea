"""The commit machine: every transition that matters, driven by events alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lakelatch.coordinator.protocol import diagram
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.events import EVENT_TYPES, event_from_json, event_json
from lakelatch.coordinator.protocol.machine import LOOKS, SENDS, TRANSITIONS, CommitState, Phase, state_after, step
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import ProtocolViolation

BASE = SnapshotRef(4, "base")
WINNER = SnapshotRef(5, "winner")
OURS = SnapshotRef(5, "ours")

TO_PUBLISH: list[ev.Event] = [
    ev.CommitRequested("me", None, "APPEND", False),
    ev.LatestResolved(BASE, "ours", 0),
    ev.ChangesCollected(1, 0),
    ev.ManifestsCompacted("none"),
    ev.BaseListWritten("base-list"),
    ev.DeltaListWritten("delta-list", ("manifest",)),
    ev.SnapshotPrepared(OURS, BASE, "{}", ("base-list", "delta-list", "manifest")),
]


def run(*events: ev.Event) -> tuple[CommitState, tuple[do.Effect, ...]]:
    state, effects = CommitState(), ()
    for event in events:
        state, effects = step(state, event)
    return state, effects


def outcome(effects: tuple[do.Effect, ...]) -> do.Outcome:
    concluded = [e for e in effects if isinstance(e, do.Conclude)]
    assert len(concluded) == 1
    return concluded[0].outcome


def discarded(effects: tuple[do.Effect, ...]) -> tuple[str, ...]:
    return tuple(name for e in effects if isinstance(e, do.Discard) for name in e.names)


def test_a_quiet_append_publishes_verifies_and_then_hints() -> None:
    """G1: the bytes are an event before they are sent; the caller gets its answer after VERIFY, before HINT."""
    state, effects = run(*TO_PUBLISH[:-1])
    assert effects == (do.PrepareSnapshot(OURS),)
    state, effects = step(state, TO_PUBLISH[-1])
    assert effects == (do.Publish(OURS, 1),)
    state, effects = step(state, ev.SnapshotPublished())
    assert effects == (do.VerifyLineage(BASE, OURS, 1),)
    state, effects = step(state, ev.LineageVerified())
    assert effects == (do.Conclude(do.Committed(OURS, False)), do.WriteHint(5))
    state, effects = step(state, ev.HintSkipped("whatever"))
    assert state.phase is Phase.DONE
    assert state.outcome == do.Committed(OURS, False)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_publish_waits_for_every_upload_in_whatever_order_they_are_acknowledged(order: tuple[int, ...]) -> None:
    """G4: nothing that a snapshot references may be missing when it is published."""
    acknowledgements = [ev.BaseListWritten("b"), ev.DeltaListWritten("d", ()), ev.DataUploaded(1)]
    state, _ = run(ev.CommitRequested("me", None, "APPEND", True), *TO_PUBLISH[1:4])
    for position, number in enumerate(order):
        state, effects = step(state, acknowledgements[number])
        assert [type(e) for e in effects] == ([do.PrepareSnapshot] if position == 2 else [])


def test_a_refusal_is_read_back_before_it_is_believed() -> None:
    """H3: 412 against the commit's own object."""
    state, effects = run(*TO_PUBLISH, ev.PublishRefused())
    assert effects == (do.ReadBack(OURS, 1, False),)
    _, effects = step(state, ev.FoundOurs())
    assert effects == (do.VerifyLineage(BASE, OURS, 1),)


def test_an_unanswered_send_ends_undecided_and_discards_nothing() -> None:
    """G2, H2, H5, H9: if nothing is found, the same identity is sent again, and never reported as failed."""
    state, effects = run(*TO_PUBLISH, ev.AnswerLost("timeout"))
    for send in range(2, SENDS + 1):
        state, effects = step(state, ev.FoundNothing())
        assert effects == (do.Publish(OURS, send),)
        state, effects = step(state, ev.AnswerLost("timeout"))
    state, effects = step(state, ev.FoundNothing())
    assert isinstance(outcome(effects), do.Undecided)
    assert discarded(effects) == ()


def test_a_read_back_without_answer_is_undecided() -> None:
    """G2: a store that does not answer proves nothing."""
    state, _ = run(*TO_PUBLISH, ev.PublishRefused())
    for _ in range(LOOKS - 1):
        state, _ = step(state, ev.ReadBackFailed("down"))
    _, effects = step(state, ev.ReadBackFailed("down"))
    assert isinstance(outcome(effects), do.Undecided)


def test_a_lost_race_computes_the_base_again_and_keeps_the_delta() -> None:
    """A14: ids and base lists are per attempt; delta manifests are not."""
    state, effects = run(*TO_PUBLISH, ev.PublishRefused(), ev.FoundAnother(WINNER, "other"))
    assert effects == (do.AwaitRetry(1, WINNER),)
    state, effects = step(state, ev.RetryGranted(3))
    assert effects == (do.ResolveLatest(2, WINNER),)
    state, _ = step(state, ev.LatestResolved(WINNER, "ours-2", 0))
    assert state.ours == SnapshotRef(6, "ours-2")
    state, effects = step(state, ev.ChangesCollected(1, 0))
    assert effects == (do.CompactManifests(WINNER, True),)
    state, _ = step(state, ev.ManifestsCompacted("none"))
    state, _ = step(state, ev.DeltaListWritten("delta-list", ("manifest",)))
    state, effects = step(state, ev.BaseListWritten("base-list-2"))
    again = SnapshotRef(6, "ours-2")
    assert effects == (do.PrepareSnapshot(again),)
    with pytest.raises(ProtocolViolation, match="not the snapshot of this attempt"):
        step(state, TO_PUBLISH[-1])
    state, effects = step(state, ev.SnapshotPrepared(again, WINNER, "{}", ("base-list-2", "delta-list", "manifest")))
    assert effects == (do.Publish(again, 1),)
    state, _ = step(state, ev.SnapshotPublished())
    _, effects = step(state, ev.LineageVerified())
    assert discarded(effects) == ("base-list",)


def test_budget_spent_after_proven_losses_discards_private_metadata() -> None:
    """H5: every send was answered and refused, so no snapshot can reference these files."""
    _, effects = run(*TO_PUBLISH, ev.PublishRefused(), ev.FoundAnother(WINNER, "other"), ev.BudgetSpent("40 attempts"))
    assert outcome(effects) == do.NotCommitted("retries-exhausted", "40 attempts")
    assert set(discarded(effects)) == {"base-list", "delta-list", "manifest"}


@pytest.mark.parametrize("answer", [ev.AnswerLost("timeout"), ev.PublishRefused(earlier_send=True)])
def test_nothing_is_discarded_once_a_send_went_unanswered(answer: ev.Event) -> None:
    """H5: PUT of 5 times out, another writer's 5 is seen, W cleans up, a rollback frees 5, and the PUT lands."""
    _, effects = run(*TO_PUBLISH, answer, ev.FoundAnother(WINNER, "other"), ev.BudgetSpent("spent"))
    assert outcome(effects) == do.NotCommitted("retries-exhausted", "spent")
    assert discarded(effects) == ()


@pytest.mark.parametrize("path", [[ev.SnapshotPublished()], [ev.PublishRefused(), ev.FoundOurs()]])
def test_a_snapshot_on_a_freed_name_is_fenced_on_every_path(path: list[ev.Event]) -> None:
    """H6: every path to "committed" goes through VERIFY, and a fork is not deleted (G5)."""
    _, effects = run(*TO_PUBLISH, *path, ev.LineageBroken("freed"))
    assert outcome(effects) == do.NotCommitted("fenced", "freed")
    assert discarded(effects) == ()


@pytest.mark.parametrize("answer", [ev.AnswerLost("timeout"), ev.PublishRefused()])
def test_a_fork_proves_nothing_of_earlier_attempts(answer: ev.Event) -> None:
    """H9: a rollback that freed this name may have freed the first attempt's too, and a send may land there late."""
    lost = (answer, ev.FoundAnother(WINNER, "other"), ev.RetryGranted(3))
    again = SnapshotRef(6, "ours-2")
    second = (
        ev.LatestResolved(WINNER, "ours-2", 0),
        ev.ChangesCollected(1, 0),
        ev.ManifestsCompacted("none"),
        ev.DeltaListWritten("delta-list", ("manifest",)),
        ev.BaseListWritten("base-list-2"),
        ev.SnapshotPrepared(again, WINNER, "{}", ("base-list-2", "delta-list", "manifest")),
        ev.SnapshotPublished(),
    )
    _, effects = run(*TO_PUBLISH, *lost, *second, ev.LineageBroken("freed"))
    assert isinstance(outcome(effects), do.Undecided)
    assert discarded(effects) == ()


def test_a_lineage_that_cannot_be_read_is_undecided_not_failed() -> None:
    """architecture §3: a read that fails in VERIFY makes the outcome unknown."""
    state, _ = run(*TO_PUBLISH, ev.SnapshotPublished())
    for _ in range(LOOKS):
        state, effects = step(state, ev.LineageUnread("down"))
    assert isinstance(outcome(effects), do.Undecided)


def test_an_identity_that_landed_before_is_answered_with_its_first_snapshot() -> None:
    """G3: the identity landed earlier and is replayed."""
    first = SnapshotRef(2, "first")
    requested = ev.CommitRequested("me", 7, "APPEND", False)
    _, effects = run(requested, ev.LatestResolved(BASE, "ours", 4, 7, first))
    assert outcome(effects) == do.Committed(first, True)


def test_an_identifier_below_the_last_one_is_refused_where_they_come_in_order() -> None:
    """Also one that has landed: batches that begin anew are others, though their numbers are the same."""
    below = ev.LatestResolved(BASE, "ours", 4, 7)
    for event in (below, replace(below, replay_of=SnapshotRef(2, "first"))):
        _, effects = run(ev.CommitRequested("me", 6, "APPEND", False, in_order=True), event)
        refused = outcome(effects)
        assert isinstance(refused, do.NotCommitted)
        assert refused.code == "invalid-argument"
        assert "7" in refused.reason
    _, effects = run(ev.CommitRequested("me", 6, "APPEND", False), below)
    assert effects == (do.CollectChanges(BASE),), "other jobs may run in any order"
    _, effects = run(ev.CommitRequested("me", 7, "APPEND", False, in_order=True), replace(below, replay_of=BASE))
    assert outcome(effects) == do.Committed(BASE, True)


def test_an_identity_that_may_have_landed_is_neither_committed_nor_not() -> None:
    _, effects = run(
        ev.CommitRequested("me", 6, "APPEND", False), ev.LatestResolved(BASE, "o", 4, 7, doubt="forgotten")
    )
    assert outcome(effects) == do.NotCommitted("outcome-unknown", "forgotten")


def test_a_late_identifier_asks_nobody_to_carry_it() -> None:
    """G3: earlier versions would remember it as the largest of its user."""
    for crowded in (True, False):
        late = ev.LatestResolved(BASE, "ours", 4, 7, crowded=crowded)
        _, effects = run(ev.CommitRequested("me", 6, "APPEND", False, rides=True), late)
        assert effects == (do.CollectChanges(BASE),)
    lost = replace(run(ev.CommitRequested("me", 6, "APPEND", False, rides=True))[0], lost_to=(BASE,))
    assert step(lost, ev.LatestResolved(BASE, "ours", 4, 7))[1] == (do.CollectChanges(BASE),)
    assert step(lost, ev.LatestResolved(BASE, "ours", 4, 5))[1] == (do.PrepareIntent(BASE),)


def test_an_identity_must_be_inspected_through_the_very_base() -> None:
    """Invariant: inspected_through == base id."""
    state, _ = run(ev.CommitRequested("me", 7, "APPEND", False))
    with pytest.raises(ProtocolViolation, match="inspected"):
        step(state, ev.LatestResolved(BASE, "ours", 3))


def test_an_aged_base_is_looked_at_again_before_anything_is_sent() -> None:
    """H6: the age of knowledge is limited."""
    state, _ = run(*TO_PUBLISH)
    _, effects = step(state, ev.BaseAged())
    assert effects == (do.ResolveLatest(1, BASE),)
    sent, _ = run(*TO_PUBLISH, ev.AnswerLost("x"), ev.FoundNothing())
    _, effects = step(sent, ev.BaseAged())
    assert isinstance(outcome(effects), do.Undecided), "the same bytes must go to the same name, or nowhere"


def test_a_commit_that_was_taken_over_makes_no_further_attempt() -> None:
    """G2: its earlier attempts provably failed, so it is not committed; files that other processes may need stay."""
    lost = [
        ev.PublishRefused(),
        ev.FoundAnother(WINNER, "other"),
        ev.RetryGranted(3),
        ev.LatestResolved(WINNER, "o", 0),
    ]
    state, _ = run(*TO_PUBLISH, *lost, *TO_PUBLISH[2:6])
    _, effects = step(state, ev.TakenOver())
    assert isinstance(outcome(effects), do.NotCommitted)
    assert discarded(effects) == ()
    sent, _ = run(*TO_PUBLISH)
    with pytest.raises(ProtocolViolation):
        step(sent, ev.TakenOver())


def test_bytes_that_others_may_find_are_not_given_up_silently() -> None:
    """G2: if another process may act on the journal, the caller does not get "not committed"."""
    state, _ = run(*TO_PUBLISH)
    _, effects = step(state, ev.JournalUnsure("no answer"))
    assert isinstance(outcome(effects), do.Undecided)
    assert discarded(effects) == ()


def test_a_failed_upload_is_not_committed_and_leaves_what_may_still_arrive() -> None:
    _, effects = run(*TO_PUBLISH[:4], ev.UploadFailed("delta list", "403"))
    refused = outcome(effects)
    assert isinstance(refused, do.NotCommitted)
    assert refused.code == "store-unavailable"
    assert discarded(effects) == ()


def test_an_impossible_send_after_an_unanswered_one_is_undecided() -> None:
    """H2: the second send is refused by permission, but the first may have landed."""
    _, effects = run(*TO_PUBLISH, ev.AnswerLost("reset"), ev.FoundNothing(), ev.UploadFailed("snapshot-5", "403"))
    assert isinstance(outcome(effects), do.Undecided)


def test_every_pair_outside_of_the_table_is_refused_and_changes_nothing() -> None:
    """A missing key raises ProtocolViolation."""
    examples = {type(e): e for e in TO_PUBLISH} | {
        kind: event_from_json({"event": name, "winner": {"id": 1, "identity": "x"}})
        for name, kind in EVENT_TYPES.items()
    }
    for phase in Phase:
        state = replace(CommitState(), phase=phase)
        for kind, event in examples.items():
            if (phase, kind) not in TRANSITIONS:
                with pytest.raises(ProtocolViolation):
                    step(state, event)


def test_events_survive_the_journal_and_fold_to_the_same_state() -> None:
    """Event sourced: a journal replays to the same state."""
    events = [*TO_PUBLISH, ev.PublishRefused(), ev.FoundAnother(WINNER, "other"), ev.RetryGranted(5)]
    again = [event_from_json(event_json(e)) for e in events]
    assert again == events
    assert state_after(again) == run(*events)[0]


def test_the_page_in_docs_shows_the_table() -> None:
    """The diagram is generated from the table."""
    page = Path(__file__).parents[4] / "docs" / "commit-machine.md"
    assert page.read_text() == diagram.page(), "run `make diagram`"
