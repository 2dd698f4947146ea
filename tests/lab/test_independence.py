"""Requests that are played at once: what is left out of an exploration changes nothing that callers or readers can see."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.lab.actors.cloning import cloned_again, cloned_beside_riders
from lakelatch.lab.actors.consuming import streamed
from lakelatch.lab.actors.jobs import Actor, writer
from lakelatch.lab.exploring import explorer, playing
from lakelatch.lab.exploring.explorer import explore
from lakelatch.lab.exploring.footprint import footprint
from lakelatch.lab.exploring.independence import Independence
from lakelatch.lab.exploring.playing import Cast
from lakelatch.lab.scenarios.groups import riders
from lakelatch.lab.scenarios.keys import (
    deleting_beside_compaction,
    indexing,
    marking_beside_full,
    marking_one_key,
    placing,
    riding_keys,
    riding_upserts,
    upserting_first,
)
from lakelatch.lab.scenarios.merges import changing_rows
from lakelatch.lab.scenarios.rows import deleting_from_one_file
from lakelatch.lab.scenarios.scenario import Scenario
from lakelatch.lab.scenarios.upkeep import delayed_duplicate, forgotten, vanished_answer
from lakelatch.lab.scenarios.writers import history, silent, writers
from lakelatch.lab.world.simulated_store import Request
from lakelatch.lab.world.stage import Stage

KEY = "snapshot/snapshot-1"


class Nothing(Independence):
    """No request is independent: every order of all requests is explored."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, snapshots_stay=False)

    def holds(self, *arguments: Any) -> bool:
        return False


def of_snapshots(scenario: Scenario) -> Independence:
    """All requests for snapshots are explored in every order."""
    return Independence(scenario, snapshots_stay=False)


@pytest.mark.parametrize(
    "scenario",
    [
        upserting_first(0),
        marking_one_key(0, writers=1),
        marking_one_key(1, writers=1, compactors=1),
        indexing(1, writers=1, compactors=1),
        marking_beside_full(0),
        placing(0),
        riding_upserts(2, 0),
        changing_rows(0, mergers=1, compactors=1),
        streamed(0),
        forgotten(expires=True),
        delayed_duplicate(),
        vanished_answer(identified=True),
        *(
            pytest.param(scenario, marks=pytest.mark.slow)
            for scenario in (
                deleting_beside_compaction(0),
                deleting_from_one_file(1, marked=False),
                writers(2, 1),
                riders(2, 0),
                riding_keys(0, tie=True),
                marking_one_key(0, compactors=1),
                cloned_beside_riders(0),
            )
        ),
    ],
    ids=lambda scenario: scenario.name,
)
def test_every_order_of_all_requests_has_the_same_ends(scenario: Scenario) -> None:
    """What callers are told and readers see at the end is the same, whether requests are played at once or in every order."""
    every, some = explore(scenario, independent=Nothing(scenario)), explore(scenario)
    assert every.exhausted and some.exhausted
    assert every.states > some.states
    assert some.ends == every.ends


@pytest.mark.parametrize(
    "scenario",
    [
        upserting_first(0),
        marking_one_key(0, writers=1),
        marking_beside_full(0),
        placing(0),
        riding_upserts(2, 0),
        silent(2, 0),
        changing_rows(0, mergers=1, compactors=1),
    ],
    ids=lambda scenario: scenario.name,
)
def test_every_order_of_requests_for_snapshots_has_the_same_moments(
    scenario: Scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each actor comes to the same moments on its way to an end: nothing is left out that could have ended badly."""
    casts: list[Cast] = []

    class Kept(Cast):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            casts.append(self)

    monkeypatch.setattr(explorer, "Cast", Kept)
    every, some = explore(scenario, independent=of_snapshots(scenario)), explore(scenario)
    assert every.states > 1.5 * some.states
    in_every_order, at_once = map(_moments, casts)
    assert len(in_every_order) > 10
    assert at_once == in_every_order


def _moments(cast: Cast) -> set[tuple[Any, ...]]:
    """What each actor had just got as a reply, and what had happened to it before. The order of writes to LATEST is left out."""
    found = set()
    for play in cast.plays:
        if play.history and not play.dead:
            asked, reply = play.history[-1]
            before = tuple(name for name in play.events if not name.startswith("Hint"))
            if "LATEST" not in asked.label:
                found.add((asked.label, reply.status, before))
    return found


def _writes_over(stage: Stage) -> None:
    stage.store.put(KEY, stage.store.get(KEY) + b" ")


def _writes_its_file_again(stage: Stage) -> None:
    for data in (b"1", b"2"):
        stage.store.put("manifest/manifest-of-B", data)


def _removes(stage: Stage) -> None:
    stage.store.delete_many([KEY])


def _raises_earliest(stage: Stage) -> None:
    stage.store.put("snapshot/EARLIEST", b"2")


@pytest.mark.parametrize("role", [_writes_over, _removes, _writes_its_file_again, _raises_earliest])
def test_an_exploration_begins_again_if_a_file_does_not_stay_as_it_was(role: Any) -> None:
    """An actor that should only add files changes one: that it exists says nothing about later reads any more."""
    scenario = Scenario(
        "a file is changed", (Actor("A", writer()), Actor("B", role)), before=history(1), lands=frozenset()
    )
    again = explore(scenario, independent=of_snapshots(scenario))
    assumed = Independence(scenario)
    found = explore(scenario, independent=assumed)
    assert assumed.snapshots_stay and assumed.mistaken
    assert (found.states, found.ends, found.violation) == (again.states, again.ends, again.violation)


def test_what_a_clone_has_listed_shows_in_what_it_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = cloned_beside_riders(0)
    some = explore(scenario)
    monkeypatch.setattr(playing, "EVERYTHING", None)
    every = explore(scenario)
    assert every.exhausted and some.exhausted
    assert every.states > some.states
    assert some.ends == every.ends


def test_of_a_clone_counts_what_its_readers_can_reach() -> None:
    """Until it is a table, all counts: the next step of whoever makes it may depend on it."""
    made = explorer.Explorer(cloned_again(0)).first().objects
    assert "copy/schema/schema-0" in made
    junk = {**made, "copy/manifest/manifest-of-a-lost-race": b"m"}
    assert footprint(junk) == footprint(made)
    assert footprint({**made, "copy/lakelatch/intents/intent-3-x.json": b"{}"}) != footprint(made)
    begun, more = ({k: v for k, v in o.items() if not k.startswith("copy/schema/")} for o in (made, junk))
    assert footprint(begun) != footprint(more)


def test_a_run_without_end_is_found_where_each_request_is_played_at_once() -> None:
    def reads_on_and_on(stage: Stage) -> None:
        while True:
            stage.store.get(KEY)

    scenario = Scenario("reads on and on", (Actor("A", reads_on_and_on),), before=history(1), longest=50)
    found = explore(scenario)
    assert str(found.violation) == "liveness: the run does not end"
    assert len(found.path) > 50


def test_a_late_request_that_can_do_nothing_any_more_is_not_waited_for() -> None:
    scenario = writers(2, 1)
    independent = Independence(scenario)
    held = {KEY: b"x", "manifest/m": b"m"}
    void = (Request("create", KEY, b"y"), Request("write", "manifest/m", b"m"))
    able = (
        Request("create", "snapshot/snapshot-2", b"y"),
        Request("write", "manifest/n", b"m"),
        Request("write", "manifest/m", b"other"),
        Request("write", "snapshot/LATEST", b"1"),
    )
    assert independent.left((*void, *able), held) == able
    assert of_snapshots(scenario).left((*void, *able), held) == (*void, *able)
