"""Judges mutants: the tests that run a mutant's line must notice it.

Owns: `Verdict`, `judge`, the order in which tests are tried, and what a timeout is. Must not know: how a sample is drawn, or
how a score is printed. A mutant is first shown to a few tests that are cheap or have noticed others in its file lately, and
only if these pass to all that run its line, as far as patience goes: what survives has survived all of them.
"""

from __future__ import annotations

import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate

from .children import Children, Result, Task
from .mutants import Mutant

FIRST_TESTS = 25
PATIENCE_SECONDS = 100.0
"""Tests that take longer together, without a mutant, are not all asked: a line that a thousand tests run would take ten minutes.
What they might have noticed counts as survived, so that the score is a lower bound."""
LEAST_SECONDS, TIMES = 20.0, 8.0
"""A test of a mutant may take its own time so often, and so long in any case: the machine may be busy."""
NEARER = 20.0
"""The tests of a module's own room are asked as if they were so many times as cheap: of the thousand tests that run a line of the
commit path, these are about it."""


@dataclass(frozen=True)
class Verdict:
    """What became of one mutant.

    Attributes:
        outcome: "killed", "timeout", "survived", or "not covered" where no fast test runs its line.
        by: the test that noticed it; `tests`: how many run its line; `seconds`: of its children together.
    """

    name: str
    file: str
    function: str
    mutation: str
    operator: str
    outcome: str
    by: str
    tests: int
    seconds: float

    @property
    def is_killed(self) -> bool:
        return self.outcome in ("killed", "timeout")

    def as_dict(self) -> dict[str, object]:
        """For a line of JSON."""
        return asdict(self)


@dataclass
class _Case:
    mutant: Mutant
    tests: list[str]
    control: bool
    asked: int = 0
    spent: float = 0.0


@dataclass
class Judge:
    """Judges mutants side by side.

    Args:
        jobs: children at once.
        seconds: test -> how long it takes without a mutant.
        told: is called with every verdict as it falls.

    Attributes:
        broken: tests that failed though nothing was planted. What they noticed proves nothing.
    """

    children: Children
    jobs: int
    seconds: Mapping[str, float]
    told: Callable[[Verdict], None]
    broken: set[str] = field(default_factory=set)
    _killers: dict[str, Counter[str]] = field(default_factory=dict)

    def judge(self, mutants: Sequence[tuple[Mutant, set[str]]], controls: int) -> None:
        """Judge each mutant by its tests, and as many of them as controls: with the bug left out.

        Args:
            mutants: each with the tests that run its line.
        """
        cases = [_Case(mutant, sorted(tests), False) for mutant, tests in mutants]
        cases += [_Case(case.mutant, case.tests, True) for case in cases[:controls] if case.tests]
        waiting, running = deque(cases), dict[int, _Case]()
        began, ended = time.monotonic(), 0
        while waiting or running:
            while waiting and len(running) < self.jobs:
                case = waiting.popleft()
                if case.tests:
                    task = self._task(case)
                    running[id(task)] = case
                    self.children.start(task)
                    continue
                self._tell(case, "not covered", "")
                ended += 1
            if not running:
                continue
            task, result = self.children.wait()
            case = running.pop(id(task))
            case.spent += result.seconds
            if result.outcome == "passed" and case.asked < len(case.tests):
                waiting.appendleft(case)
                continue
            ended += 1
            self._conclude(case, result)
            left = (time.monotonic() - began) / ended * (len(cases) - ended)
            print(f"{ended} of {len(cases)}, about {left / 60:.0f} minutes left", file=sys.stderr, flush=True)

    def _task(self, case: _Case) -> Task:
        """The next tests of a case: a few, then all the others."""
        killers = self._killers.setdefault(case.mutant.file, Counter())
        if not case.asked:
            room = room_of(case.mutant.file)
            nearer = {test: NEARER if test.startswith(room) else 1.0 for test in case.tests}
            case.tests.sort(key=lambda test: (self.seconds[test] + 0.02) / nearer[test] / (1 + killers[test]))
            case.tests = case.tests[: self._within_patience(case.tests)]
        first = 0 if case.control else case.asked
        case.asked = len(case.tests) if case.asked or case.control else FIRST_TESTS
        tests = case.tests[first : case.asked]
        files = tuple(dict.fromkeys(test.partition("::")[0] for test in tests))
        limits = {test: LEAST_SECONDS + TIMES * self.seconds[test] for test in tests}
        return Task(files, limits, None if case.control else case.mutant)

    def _within_patience(self, tests: Sequence[str]) -> int:
        """How many of the tests, in their order, take no longer together than there is patience; the first few in any case."""
        together = accumulate(self.seconds[test] for test in tests)
        return max(FIRST_TESTS, sum(seconds <= PATIENCE_SECONDS for seconds in together))

    def _conclude(self, case: _Case, result: Result) -> None:
        if case.control:
            if result.outcome != "passed":
                self.broken.add(result.by)
            return
        if result.by in self.seconds:
            self._killers[case.mutant.file][result.by] += 1
        outcome = {"passed": "survived", "timeout": "timeout"}.get(result.outcome, "killed")
        self._tell(case, outcome, result.by)

    def _tell(self, case: _Case, outcome: str, by: str) -> None:
        mutant = case.mutant
        names = mutant.name, *mutant.key, mutant.edit.operator
        self.told(Verdict(*names, outcome, by, len(case.tests), round(case.spent, 2)))


def room_of(file: str) -> str:
    """The folder of a module's unit tests: it has the place that the module has.

    >>> room_of("coordinator/history/lineage.py")
    'tests/unit/coordinator/history/'
    """
    return f"tests/unit/{file.rpartition('/')[0]}/"
