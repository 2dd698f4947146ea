"""The shipped commit machine under every interleaving and every fault within a budget: no promise breaks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from lakelatch.lab.explorer import explore
from lakelatch.lab.mutants import MUTANTS
from lakelatch.lab.runs import Finding, explore_named, named, walk_named
from lakelatch.lab.scenarios import DAILY, NIGHTLY, writers
from lakelatch.lab.story import parse_replay_id, replay, replay_id

NIGHTLY_SECONDS = float(os.environ.get("LAKELATCH_LAB_SECONDS", "300"))
WALK_SECONDS = 60.0


@pytest.fixture(scope="module")
def explored() -> Iterator[dict[str, Future[Finding]]]:
    """Every daily scenario, on two processes; each test waits for its own."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield {scenario.name: pool.submit(explore_named, scenario.name) for scenario in DAILY}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", [scenario.name for scenario in DAILY])
def test_no_promise_breaks(explored: dict[str, Future[Finding]], name: str) -> None:
    """G1–G6, honesty of `unknown`, liveness: every state within the budget."""
    finding = explored[name].result()
    print(finding.line)
    assert not finding.story, finding.story
    assert finding.exhausted


@pytest.mark.slow
@pytest.mark.parametrize("name", [scenario.name for scenario in NIGHTLY])
def test_no_promise_breaks_by_night(name: str) -> None:
    """Larger worlds: exhausted, or explored for minutes and then walked through at random; the coverage is printed."""
    finding = explore_named(name, NIGHTLY_SECONDS)
    print(finding.line)
    assert not finding.story, finding.story
    if not finding.exhausted:
        walked = walk_named(name, seed=1, max_seconds=WALK_SECONDS)
        print(walked.line)
        assert not walked.story, walked.story


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_mutant_is_killed(mutant: object, capsys: pytest.CaptureFixture[str]) -> None:
    """A planted historic bug is found, and its story is short enough to read."""
    (planted,) = [m for m in MUTANTS if m is mutant]
    hunt = planted.hunt()
    with capsys.disabled():
        print(f"\n{hunt.kill(planted.name)}", end="")
    print(hunt.story)
    assert hunt.found.violation is not None, f"{planted.name} survived {hunt.found}"
    assert len(hunt.story.splitlines()) <= 45


def test_a_mutant_is_gone_after_its_hunt() -> None:
    """The next test runs what is shipped."""
    with MUTANTS[0].planted():
        assert explore(writers(2, 0)).violation is not None
    assert explore(writers(2, 0)).violation is None


def test_a_story_replays() -> None:
    """A replay id plays the same steps, to the same end."""
    mutant = next(m for m in MUTANTS if m.name == "no answer means failed")
    with mutant.planted():
        found = mutant.hunt().found
        name, path = parse_replay_id(replay_id(found.scenario, found.path))
        steps, broken = replay(found.scenario, path)
    assert (name, path) == (found.scenario.name, found.path)
    assert found.violation in broken
    assert [t.outcome for step in steps for t in step.told] == ["not committed"]
    assert replay(found.scenario, path)[1] == [], "what is shipped does not break on the same path"


def test_two_explorations_see_the_same() -> None:
    """Nothing random, and no clock, has crept in."""
    first, second = explore(writers(2, 1)), explore(writers(2, 1))
    assert (first.states, first.depth) == (second.states, second.depth)


def test_garbage_is_no_replay_id() -> None:
    with pytest.raises(ValueError, match="no replay id"):
        parse_replay_id("banana")
    with pytest.raises(KeyError):
        named("banana")
