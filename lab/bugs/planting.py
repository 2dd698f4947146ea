"""Plants one bug at a time, and searches for it.

Owns: `Mutant`, `Hunt`, `Kill`. Must not know: which bugs there are. Source: architecture §8.
Invariant: a mutant is removed when its block ends, even after an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from ..exploring.explorer import Exploration, explore
from ..exploring.story import tell
from ..scenarios.scenario import Scenario

Patch = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Kill:
    mutant: str
    scenario: str
    violation: str
    steps: int
    seconds: float

    def __str__(self) -> str:
        end = self.violation or "SURVIVED"
        return f"{self.mutant:<38} {self.scenario:<34} {self.steps:>3} steps {self.seconds:5.1f} s  {end}"


@dataclass(frozen=True)
class Hunt:
    """The exploration that killed a mutant, or the last one that did not, and its story."""

    found: Exploration
    story: str

    def kill(self, mutant: str) -> Kill:
        text = str(self.found.violation) if self.found.violation else ""
        return Kill(mutant, self.found.scenario.name, text, len(self.found.path), self.found.seconds)


@dataclass(frozen=True)
class Mutant:
    """One planted bug: (owner, attribute, replacement), and the scenarios that should kill it, cheapest first."""

    name: str
    patches: Callable[[], Iterable[Patch]]
    worlds: tuple[Scenario, ...]

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for owner, attribute, value in self.patches():
                if isinstance(owner, dict):
                    stack.enter_context(patch.dict(owner, {attribute: value}))
                else:
                    stack.enter_context(patch.object(owner, attribute, value))
            yield

    def hunt(self) -> Hunt:
        """Explore scenarios until the mutant is killed. The story is written while the bug is still planted."""
        with self.planted():
            for world in self.worlds:
                found = explore(world)
                if found.violation is not None:
                    break
            return Hunt(found, tell(found))
