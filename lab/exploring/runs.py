"""Runs of the lab by name, for separate processes: explore one scenario, or walk at random through a large one.

Owns: `explore_named`, `walk_named`; results are plain text and numbers. Must not know: what is tested with it.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass

from ..scenarios.catalogue import DAILY, NIGHTLY
from ..scenarios.scenario import Scenario
from .explorer import Choice, Exploration, Explorer, explore
from .story import tell


@dataclass(frozen=True)
class Finding:
    line: str
    story: str
    exhausted: bool
    states: int


def named(name: str) -> Scenario:
    return {scenario.name: scenario for scenario in (*NIGHTLY, *DAILY)}[name]


def explore_named(name: str, max_seconds: float | None = None) -> Finding:
    return _finding(explore(named(name), max_seconds=max_seconds))


def explore_or_walk(name: str, max_seconds: float, walk_seconds: float) -> list[Finding]:
    """Explore a scenario. If its time does not suffice, also walk through it at random."""
    explored = explore_named(name, max_seconds)
    if explored.exhausted or explored.story:
        return [explored]
    return [explored, walk_named(name, 1, walk_seconds)]


def walk_named(name: str, seed: int, max_seconds: float) -> Finding:
    """Walk at random from the beginning to the end, repeatedly, through a scenario that is too large to be exhausted."""
    scenario, dice = named(name), random.Random(f"walk {seed}")
    explorer, result, began = Explorer(scenario), Exploration(scenario), time.monotonic()
    first, seen, walks = explorer.first(), set[bytes](), 0
    while time.monotonic() - began < max_seconds and result.violation is None:
        world, path, walks = first, list[Choice](), walks + 1
        while choices := list(explorer.choices(world)):
            calm = [choice for choice in choices if not choice[1]]
            choice = dice.choice(calm if calm and dice.random() < 0.85 else choices)
            path.append(choice)
            world = explorer.moved(world, choice)
            seen.add(explorer.key(world))
            found = explorer.judge(world)
            if found:
                result.violation, result.path = found[0], tuple(path)
                break
    result.states, result.runs, result.seconds = len(seen), explorer.cast.runs, time.monotonic() - began
    finding = _finding(result)
    return Finding(f"{finding.line}; {walks} random walks", finding.story, False, finding.states)


def _finding(found: Exploration) -> Finding:
    return Finding(str(found), tell(found) if found.violation else "", found.exhausted, found.states)
