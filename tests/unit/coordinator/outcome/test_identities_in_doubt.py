"""An identity that nobody can vouch for: it may have landed in what has expired, or was read in a snapshot that is a fork."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from at_each_request import Struck
from by_hand.histories import chain, foreign, get_once, hints, new_store, of, prepared, put, remove, snapshot, timeline

from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory
from lakelatch.coordinator.intents.window import Window
from lakelatch.coordinator.outcome.resolution import Case, find_out
from lakelatch.coordinator.protocol import effects as do


@pytest.fixture
def store() -> Any:
    """The history begins with a snapshot of another engine, whose user `job` has committed number 9."""
    made = new_store(Struck)
    put(made, foreign(4, commit_user="job", commit_identifier=9))
    hints(made, earliest=4)
    return made


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        (8, do.NotCommitted("outcome-unknown", "identifier 8 of 'job' may have landed before: of this user, nothing below 9 is"
        " remembered but what this version wrote, and others have written, too")),
        (9, do.Committed(of(4, "f4"), True)),
        (10, do.NotCommitted("commit-conflict", "none of its snapshots was ever sent")),
    ],
)  # fmt: skip
def test_a_number_below_what_another_engine_committed_may_have_landed_long_ago(
    store: Any, number: int, outcome: do.Outcome
) -> None:
    """G3: nobody may run that job again before somebody has looked."""
    assert find_out(Case("job", number, ()), timeline(store)).outcome == outcome
    assert isinstance(find_out(Case("other", number, ()), timeline(store)).outcome, do.NotCommitted)


def test_a_commit_that_was_on_its_way_is_judged_by_its_own_snapshots(store: Any) -> None:
    """When it began, nobody doubted its number: it is not told as one of long ago."""
    put(store, foreign(5))
    lost = prepared(snapshot(5, uuid="ours", on="4:f4"))
    told = find_out(Case("job", 8, (lost,)), timeline(store)).outcome
    assert isinstance(told, do.NotCommitted) and told.code == "commit-conflict"
    waiting = find_out(Case("job", 8, (), window=Window("c1", of(5, "f5"))), timeline(store))
    assert isinstance(waiting.outcome, do.Undecided) and waiting.may_go_on


def test_an_identity_in_a_snapshot_that_turns_out_to_be_a_fork_is_not_believed() -> None:
    """H6: between two looks the listing has caught up: the history goes on above, and an expiry had freed that name."""
    store = new_store(Struck)
    chain(store, 1)
    hints(store, earliest=1)
    made, memory = snapshot(2), Memory().with_commit("job", 7, of(2))
    put(store, replace(made, properties={**made.properties, IDENTIFIERS_PROPERTY: memory.to_property()}))
    asked = Case("job", 7, ())
    assert find_out(asked, timeline(store)).outcome == do.Committed(of(2), True)

    def caught_up() -> None:
        remove(store, "snapshot/snapshot-1")
        chain(store, 5, 6)
        hints(store, earliest=5, latest=6)

    get_once(store, "snapshot/snapshot-1", caught_up)
    told = find_out(asked, timeline(store)).outcome
    assert isinstance(told, do.Undecided)
    reason = "the snapshot that was just read is not part of the history: snapshot 2 was created under a name"
    assert told.reason.startswith(reason)
