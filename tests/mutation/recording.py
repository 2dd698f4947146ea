"""Which fast tests run which line, and how long each takes.

Owns: `Recording`, kept file by file in a cache, so that a new test costs one new recording of its own file. Must not know:
mutants' texts, how children are run. A test that fails, is skipped, or takes longer than `LONGEST_SECONDS` judges nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from .children import Children, Task
from .mutants import Mutant

LONGEST_SECONDS = 15.0
"""Under coverage. What takes longer is a torture or an exploration, no fast test."""

Lines = Mapping[str, Mapping[str, list[int]]]


def digest(root: Path, files: Iterable[Path]) -> str:
    """A short name of the content of files."""
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes() + b"\0")
    return found.hexdigest()[:16]


class Recording:
    """The fast tests, and the lines of the files under test that each of them ran."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lines: dict[str, dict[int, set[str]]] = {}

    def add(self, passed: Mapping[str, float], lines: Lines) -> None:
        """What the tests of one file came to."""
        fast = {test: seconds for test, seconds in passed.items() if seconds <= LONGEST_SECONDS}
        self.seconds.update(fast)
        for file, ran in lines.items():
            held = self._lines.setdefault(file, {})
            for test, numbers in ran.items():
                for number in numbers if test in fast else ():
                    held.setdefault(number, set()).add(test)

    def covering(self, mutant: Mutant, body_lines: Iterable[int]) -> set[str]:
        """The tests that run the mutant's place.

        Args:
            body_lines: the lines inside of functions. What runs at an import (a constant, a default) is judged by the
                tests that run any of these, and their neighbours: an import happens in whichever test comes first.
        """
        held = self._lines.get(mutant.file, {})
        edit = mutant.edit
        if not edit.in_body:
            found = set[str]().union(*(held.get(line, ()) for line in body_lines))
            files = {test.partition("::")[0] for test in found}
            return {test for test in self.seconds if test.partition("::")[0] in files}
        for first, last in (edit.lines, edit.statement):
            found = set[str]().union(*(held.get(line, ()) for line in range(first, last + 1)))
            if found:
                return found
        return set()


def recorded(
    children: Children, jobs: int, root: Path, cache: Path, tests: Iterable[str], measured: tuple[str, ...], code: str
) -> Recording:
    """The recording of the test files, from the cache where nothing has changed since.

    Args:
        jobs: children at once.
        tests: test files, relative to the checkout.
        measured: files whose lines are recorded.
        code: digest of everything that all tests depend on.
    """
    recording, todo = Recording(), list[str]()
    places = {test: cache / f"{test.replace('/', '.')}.{code}.{digest(root, [root / test])}.json" for test in tests}
    for test, place in places.items():
        if place.exists():
            recording.add(**json.loads(place.read_text()))
        else:
            todo.append(test)
    cache.mkdir(parents=True, exist_ok=True)
    while todo or len(children):
        while todo and len(children) < jobs:
            children.start(Task((todo.pop(),), recorded=measured))
        task, result = children.wait()
        file = task.files[0]
        missed = f", {result.outcome}: {result.by}" if result.outcome != "passed" else ""
        print(
            f"recorded {file}: {len(result.passed)} tests{missed}; {len(todo)} files left", file=sys.stderr, flush=True
        )
        for stale in cache.glob(f"{file.replace('/', '.')}.*"):
            stale.unlink()
        places[file].write_text(json.dumps({"passed": result.passed, "lines": result.lines}))
        recording.add(result.passed, result.lines)
    return recording
