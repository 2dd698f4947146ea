"""What the lines of a journal say about each commit: which of them count, and what damage leaves open."""

from __future__ import annotations

import pytest

from lakelatch.coordinator.intents.window import Window
from lakelatch.coordinator.journal.lines import Damage, Entry
from lakelatch.coordinator.outcome.resolution import Case
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.recovery.past import Past, pasts

ONE, TWO = SnapshotRef(1, "u1"), SnapshotRef(2, "u2")
FILES = ("base-list", "delta-list", "manifest")
REQUESTED = ev.CommitRequested("me", None, "APPEND", False)
WRITTEN: tuple[ev.Event, ...] = (
    ev.LatestResolved(None, "u1", 0),
    ev.ChangesCollected(1, 0),
    ev.ManifestsCompacted("none"),
    ev.BaseListWritten("base-list"),
    ev.DeltaListWritten("delta-list", ("manifest",)),
)
PREPARED = ev.SnapshotPrepared(ONE, None, "{}", FILES)
SENT = (REQUESTED, *WRITTEN, PREPARED)
LANDED = (*SENT, ev.SnapshotPublished(), ev.LineageVerified())
LOST = (*SENT, ev.PublishRefused(), ev.FoundAnother(SnapshotRef(1, "theirs"), "they"), ev.RetryGranted(0))
SECOND = (ev.LatestResolved(SnapshotRef(1, "theirs"), "u2", 0), *WRITTEN[1:])
AGAIN = ev.SnapshotPrepared(TWO, SnapshotRef(1, "theirs"), "{}", FILES)
DAMAGE = Damage("journal: line 9", "garbage")


def lines(*said: ev.Event | Damage, commit: str = "c") -> list[Entry | Damage]:
    return [one if isinstance(one, Damage) else Entry(commit, "/t", at, one) for at, one in enumerate(said)]


def past(*said: ev.Event | Damage) -> Past:
    (found,) = pasts(lines(*said)).values()
    return found


def test_a_snapshot_that_was_about_to_be_sent_is_open() -> None:
    found = past(*SENT)
    assert (found.tried, found.resolved, found.taken, found.damage) == ((PREPARED,), None, False, None)
    assert found.outcome is None
    assert not found.names_missing
    assert found.request == REQUESTED
    assert [entry.event for entry in found.entries] == list(SENT)
    assert found.case == Case("me", None, (PREPARED,))


def test_a_commit_that_its_journal_saw_landing_is_known() -> None:
    assert past(*LANDED).outcome == do.Committed(ONE, False)
    assert past(*LANDED, ev.HintWritten(1)).outcome == do.Committed(ONE, False)


def test_an_outcome_that_its_writer_called_unknown_is_still_open() -> None:
    found = past(*SENT, ev.JournalUnsure("no answer"))
    assert isinstance(found.state.outcome, do.Undecided)
    assert found.outcome is None


def test_each_snapshot_that_may_have_been_sent_is_looked_for() -> None:
    assert past(*LOST, *SECOND, AGAIN).tried == (PREPARED, AGAIN)


def test_a_snapshot_that_was_given_up_before_it_was_sent_is_not_looked_for() -> None:
    """H6: its base had expired; once it was sent it is looked for, whatever became of its base."""
    assert past(*SENT, ev.BaseAged()).tried == ()
    assert past(*LOST, *SECOND, AGAIN, ev.BaseAged()).tried == (PREPARED,)
    found = past(*SENT, ev.AnswerLost("timeout"), ev.FoundNothing(), ev.BaseAged())
    assert found.tried == (PREPARED,)
    assert found.damage is None and found.outcome is None


def test_what_a_writer_adds_after_its_commit_was_taken_over_does_not_count() -> None:
    """G2: the other process acts on what it read up to there."""
    found = past(*LOST, *SECOND, ev.TakenOver(), AGAIN, ev.SnapshotPublished())
    assert found.taken
    assert (found.tried, found.outcome, found.damage) == ((PREPARED,), None, None)
    assert len(found.entries) == len((*LOST, *SECOND)) + 3


def test_what_comes_after_the_end_does_not_count() -> None:
    """A duplicate of an earlier line, say; it is not damage either."""
    found = past(*LANDED, *SENT, ev.TakenOver())
    assert found.outcome == do.Committed(ONE, False)
    assert (found.tried, found.damage, found.taken) == ((PREPARED,), None, True)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        (ev.CommitResolved(TWO), do.Committed(TWO, False)),
        (ev.CommitResolved(None, "fenced", "a fork"), do.NotCommitted("fenced", "a fork")),
    ],
)
def test_what_was_found_out_later_is_the_outcome(said: ev.CommitResolved, outcome: do.Outcome) -> None:
    for before in (SENT, (*SENT, ev.TakenOver()), (*SENT, DAMAGE), (*SENT, ev.JournalUnsure("no answer"))):
        assert past(*before, said).outcome == outcome
    other = ev.CommitResolved(ONE) if said.snapshot is None else ev.CommitResolved(None, "x", "y")
    assert past(*SENT, said, other).outcome == outcome, "the first one is final"


@pytest.mark.parametrize("place", range(1, len(SENT) + 1))
def test_damage_leaves_an_open_commit_alone(place: int) -> None:
    """The line may have ended it, or given it up; what follows it does not count, and the first damage is reported."""
    second = Damage("journal: line 10", "more garbage")
    found = past(*SENT[:place], DAMAGE, *SENT[place:], second, *LANDED[len(SENT) :])
    assert found.damage == DAMAGE
    assert found.outcome is None
    assert found.tried == ((PREPARED,) if place == len(SENT) else ())
    assert [entry.event for entry in found.entries] == list(LANDED), "damage is no entry"


def test_damage_after_the_end_says_nothing_about_a_commit() -> None:
    assert past(*LANDED, DAMAGE).damage is None
    assert past(*SENT, ev.CommitResolved(ONE), DAMAGE).damage is None
    assert past(*SENT, ev.JournalUnsure("no answer"), DAMAGE).damage == DAMAGE, "unknown is no end"


def test_damage_concerns_its_own_commit_or_all_that_are_under_way() -> None:
    begun = [*lines(*SENT, commit="a"), *lines(*SENT, commit="b")]
    own = Damage("object b-2", "garbage", "b")
    assert {name: p.damage for name, p in pasts([*begun, own]).items()} == {"a": None, "b": own}
    after = lines(*SENT, commit="c")
    assert {name: p.damage for name, p in pasts([*begun, DAMAGE, *after]).items()} == {
        "a": DAMAGE,
        "b": DAMAGE,
        "c": None,
    }
    assert list(pasts([Damage("object x-1", "garbage", "x"), *begun])) == ["a", "b"], (
        "it names a commit without entries"
    )


def test_a_line_that_does_not_follow_from_those_before_it_is_damage() -> None:
    found = past(REQUESTED, ev.SnapshotPublished(), *WRITTEN)
    assert found.damage is not None
    assert (found.damage.where, found.damage.commit) == ("an entry of this commit", "c")
    assert "does not know" in found.damage.why
    assert found.outcome is None
    assert found.state.base is None, "nothing after it counts"


def test_a_commit_whose_beginning_is_missing_is_not_reported() -> None:
    """Its journal was truncated."""
    assert pasts(lines(*SENT[1:])) == {}
    assert list(pasts([*lines(*SENT[2:], commit="cut"), *lines(*SENT)])) == ["c"]


def test_commits_of_other_tables_are_left_out() -> None:
    mixed = [Entry("a", "/t", 1, REQUESTED), Entry("b", "/u", 2, REQUESTED), Entry("c", "/t", 3, REQUESTED)]
    assert list(pasts(mixed)) == ["a", "b", "c"]
    assert list(pasts(mixed, lambda entry: entry.table == "/t")) == ["a", "c"]
    assert pasts(mixed, lambda entry: entry.table == "/x") == {}


# ----------------------------------------------------------------------------------------------- which files can go

NOT_COMMITTED = do.NotCommitted("commit-conflict", "lost")


def test_the_files_of_a_commit_that_did_not_land_can_go() -> None:
    assert set(past(*SENT[:-1]).discardable(NOT_COMMITTED)) == set(FILES)
    assert set(past(*LOST).discardable(NOT_COMMITTED)) == set(FILES)


@pytest.mark.parametrize("outcome", [do.Committed(ONE, False), do.Undecided(ONE, "no answer")])
def test_the_files_of_a_commit_that_may_have_landed_stay(outcome: do.Outcome) -> None:
    """G5."""
    assert past(*SENT[:-1]).discardable(outcome) == ()


def test_the_files_stay_while_a_send_may_still_arrive() -> None:
    """H5, H9."""
    assert past(*SENT).discardable(NOT_COMMITTED) == ()


@pytest.mark.parametrize("which", [0, 1])
def test_the_files_stay_where_the_journal_does_not_say_which_a_snapshot_needs(which: int) -> None:
    """H20: a journal of an older version; one such snapshot is enough."""
    first, second = (ev.SnapshotPrepared(one.snapshot, one.base, "{}", FILES) for one in (PREPARED, AGAIN))
    unnamed = ev.SnapshotPrepared(*[(ONE, None), (TWO, AGAIN.base)][which], "{}", None)
    one, other = (unnamed, second) if which == 0 else (first, unnamed)
    refused = (ev.PublishRefused(), ev.FoundAnother(SnapshotRef(2, "theirs"), "they"), ev.RetryGranted(0))
    said = [one if event is PREPARED else event for event in (*LOST, *SECOND)]
    found = past(*said, other, *refused)
    assert found.damage is None
    assert found.names_missing
    assert found.discardable(NOT_COMMITTED) == ()
    whole = past(*LOST, *SECOND, AGAIN, *refused)
    assert not whole.names_missing and whole.discardable(NOT_COMMITTED)


# ----------------------------------------------------------------------------------------------- riding with others


def test_a_commit_that_asked_others_to_carry_it_is_looked_for_among_their_riders() -> None:
    theirs = SnapshotRef(1, "theirs")
    riding = ev.CommitRequested("me", None, "APPEND", False, rides=True)
    intent = ev.IntentPrepared(theirs, "intent-1", ("manifest",), "{}")
    found = past(riding, *LOST[1:], SECOND[0], intent)
    assert found.damage is None
    assert found.case == Case("me", None, (PREPARED,), window=Window("c", theirs))
    assert found.request.rides
