"""The shipped commit machine under every interleaving and every fault within a budget: no guarantee breaks."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest
from figures import keep

from lakelatch.coordinator.identities import memory
from lakelatch.lab.actors import maintainers
from lakelatch.lab.bugs.clones import CLONES
from lakelatch.lab.bugs.planted import MUTANTS, Kill, Mutant, kill_table
from lakelatch.lab.exploring import playing
from lakelatch.lab.exploring.explorer import explore
from lakelatch.lab.exploring.runs import Finding, explore_named, explore_or_walk, named
from lakelatch.lab.exploring.story import parse_replay_id, replay, replay_id
from lakelatch.lab.scenarios.catalogue import COMPLETE, DAILY, NIGHTLY, writers

NIGHTLY_SECONDS = float(os.environ.get("LAKELATCH_LAB_SECONDS", "600"))
WALK_SECONDS = NIGHTLY_SECONDS / 5


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    """Two processes for explorations."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def explored(pool: ProcessPoolExecutor) -> dict[str, Future[Finding]]:
    """Every daily scenario. Each test waits for its own."""
    return {scenario.name: pool.submit(explore_named, scenario.name) for scenario in DAILY}


@pytest.fixture(scope="module")
def explored_by_night(pool: ProcessPoolExecutor) -> dict[str, Future[list[Finding]]]:
    """Every nightly scenario, with random walks through those that are too large."""
    limits = {s.name: math.inf if s.name in COMPLETE else NIGHTLY_SECONDS for s in NIGHTLY}
    return {name: pool.submit(explore_or_walk, name, seconds, WALK_SECONDS) for name, seconds in limits.items()}


@pytest.fixture(scope="module")
def coverage() -> Iterator[list[str]]:
    """The results of the explorations, line by line. They are kept for docs/guarantees.md."""
    lines: list[str] = []
    yield lines
    if lines:
        keep("guarantees.md", "exploration", "\n".join(f"* {line}" for line in lines))


@pytest.fixture(scope="module")
def kills() -> Iterator[list[Kill]]:
    """The kill table. It is kept for docs/guarantees.md."""
    table: list[Kill] = []
    yield table
    if len(table) == len(MUTANTS):
        keep("guarantees.md", "mutants", kill_table(table))


@pytest.mark.parametrize("name", [scenario.name for scenario in DAILY])
def test_no_guarantee_breaks(explored: dict[str, Future[Finding]], coverage: list[str], name: str) -> None:
    """G1–G6, honesty of `unknown`, and liveness hold in every state within the budget."""
    finding = explored[name].result()
    coverage.append(finding.line)
    assert not finding.story, finding.story
    assert finding.exhausted


@pytest.mark.slow
@pytest.mark.timeout(len(NIGHTLY) * (NIGHTLY_SECONDS + WALK_SECONDS))
@pytest.mark.parametrize("name", [scenario.name for scenario in NIGHTLY])
def test_no_guarantee_breaks_in_nightly_scenarios(
    explored_by_night: dict[str, Future[list[Finding]]], coverage: list[str], name: str
) -> None:
    """Larger scenarios are explored completely, or for minutes; then they are walked through at random."""
    findings = explored_by_night[name].result()
    coverage.append("; then ".join(finding.line for finding in findings))
    for finding in findings:
        assert not finding.story, finding.story
    assert findings[0].exhausted or name not in COMPLETE


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_killed(mutant: Mutant, kills: list[Kill]) -> None:
    """Each planted bug is found, with a story that is short enough to read."""
    hunt = mutant.hunt()
    kills.append(hunt.kill(mutant.name))
    print(hunt.story)
    assert hunt.found.violation is not None, f"{mutant.name} survived {hunt.found}"
    # A clone copies each file by requests of its own, and a fast-forward tags what it shares: all of it stands in the story.
    assert len(hunt.story.splitlines()) <= (110 if mutant in CLONES else 80)


def test_a_mutant_is_gone_after_its_hunt() -> None:
    """The next test runs the shipped code."""
    with MUTANTS[0].planted():
        assert explore(writers(2, 0)).violation is not None
    assert explore(writers(2, 0)).violation is None


def test_a_story_replays() -> None:
    """A replay id plays the same steps to the same end."""
    mutant = next(m for m in MUTANTS if m.name == "no answer means failed")
    with mutant.planted():
        found = mutant.hunt().found
        name, path = parse_replay_id(replay_id(found.scenario, found.path))
        steps, broken = replay(found.scenario, path)
    assert (name, path) == (found.scenario.name, found.path)
    assert found.violation in broken
    assert [t.outcome for step in steps for t in step.told] == ["not committed"]
    assert replay(found.scenario, path)[1] == [], "the shipped code does not break on the same path"


def test_actors_that_wait_reach_the_same_states_as_actors_that_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exploration depends neither on random choices and a clock, nor on how an actor came to the point where it goes on."""
    threads = threading.active_count()
    assert not explore(writers(2, 1), max_states=100).exhausted
    first = explore(writers(2, 1))
    assert threading.active_count() == threads, "those that still waited have ended"
    monkeypatch.setattr(playing, "MOST_WAITING", 0)
    second = explore(writers(2, 1))
    assert (first.states, first.depth, first.runs) == (second.states, second.depth, second.runs)


@pytest.mark.parametrize("name", ["forgotten user", "forgotten user, expired"])
def test_nothing_is_left_of_what_actors_play_with(name: str) -> None:
    """They begin and end in any order, and what one of them changes for its own play is as shipped for all others."""
    explore(named(name), max_states=200)
    assert memory.REMEMBERED_USERS == maintainers.SHIPPED_USERS == 200


def test_an_invalid_replay_id_is_refused() -> None:
    with pytest.raises(ValueError, match="not a replay id"):
        parse_replay_id("banana")
    with pytest.raises(KeyError):
        named("banana")
