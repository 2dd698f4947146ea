"""Scenarios of group commit: appends that lose a race and ride with the next winner.

Owns: those scenarios. Must not know: how they are explored. Source: decision 71.
"""

from __future__ import annotations

from .actors import Actor, writer
from .scenario import Scenario
from .stage import lab_schema

GROUPED = lab_schema(**{"commit.group": "auto"})
BEFORE = (Actor("old", writer(1)),)
"""Nothing rides before the first snapshot."""
FAULTS = frozenset(
    {"crash before", "crash after", "answer lost", "cut", "lands late", "503 though applied", "misses the newest"}
)


def riders(count: int, budget: int, commits: int = 1, faults: frozenset[str] | None = FAULTS) -> Scenario:
    """Writers that differ in their names only, and ride with each other."""
    names = tuple(chr(ord("A") + n) for n in range(count))
    name = f"{count} riders, {budget} faults" + (f", {commits} commits each" if commits > 1 else "")
    actors = tuple(Actor(n, writer(commits, rides=True)) for n in names)
    return Scenario(name, actors, budget, before=BEFORE, faults=faults, alike=names, schema=GROUPED)
