"""`make mutants SEED=…`: how many of a sample of small bugs the fast tests notice.

Why a tool of our own: cosmic-ray writes every mutant into the checkout and asks one test command for all of them; mutmut works
on a copy of a package that has a folder of its own (here the repository's root is the package) and chooses tests by function;
neither draws a sample by a seed. What is here chooses by line, plants in memory, and goes on where a run was cut off.

Verdicts are kept under LAKELATCH_CACHE, by seed and by the content of the package. Where only tests have changed since, those
that survived are judged again.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from .children import Children
from .equivalents import EQUIVALENTS
from .judging import Judge, Verdict
from .mutants import KnownEquivalents, Mutant, mutants_of, sample
from .recording import Recording, digest, recorded
from .score import summary, table

ROOT = Path(__file__).resolve().parents[2]
UNDER_TEST = (
    *(
        "coordinator/**/*.py",
        "backends/requests/answers.py",
        "backends/files/durable.py",
        "backends/files/object_store.py",
    ),
    *("table/rowlevel/**/*.py", "table/compaction/**/*.py", "table/merging/**/*.py", "table/writing/**/*.py"),
)
JUDGES = (
    *("tests/unit/**/test_*.py", "tests/contract/test_*.py", "tests/cli/test_*.py"),
    *("tests/infrastructure/test_package.py", "tests/mutation/explored.py"),
    *("tests/lab/test_simulate.py", "tests/lab/test_stories.py", "tests/lab/test_troubled_tables.py"),
    *("tests/lab/test_invariants.py", "tests/golden/test_*.py", "tests/fuzz/test_*.py", "tests/interop/test_java_*.py"),
)
"""The test files that judge, those beside Apache Paimon in a JVM of the child's own; of what the lab explores for minutes,
`explored.py` has a part."""
NOT_THE_PACKAGE = {"tests", "benchmarks", "docs", "examples", "build", ".venv", ".tools", ".ci"}
CONTROLS = 100
"""One mutant in so many is also judged with the bug left out: its tests must pass."""


def named(patterns: Iterable[str]) -> list[str]:
    """The files of the checkout that patterns name, in order."""
    return sorted({str(path.relative_to(ROOT)) for pattern in patterns for path in ROOT.glob(pattern)})


def package_files() -> list[Path]:
    """The modules of the package, without tests and tools."""
    tops = [top for top in ROOT.iterdir() if top.name not in NOT_THE_PACKAGE]
    return [path for top in tops for path in ([top] if top.suffix == ".py" else top.rglob("*.py"))]


def shared_test_files() -> list[Path]:
    """What tests share: a change of one may change any test."""
    return [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_") and path.parent.name != "mutation"
    ]


def body_lines(file: str) -> set[int]:
    """The lines of a module that run when a function is called."""
    functions = (n for n in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(n, ast.FunctionDef))
    return {line for f in functions for part in f.body for line in range(part.lineno, (part.end_lineno or 0) + 1)}


def kept_verdicts(place: Path, recording: Recording) -> dict[str, Verdict]:
    """What an earlier run of the same seed found, as far as it still holds: the test that noticed a mutant is still there."""
    lines = place.read_text().splitlines() if place.exists() else []
    verdicts = [Verdict(**json.loads(line)) for line in lines]
    return {v.name: v for v in verdicts if v.is_killed and (v.by in recording.seconds or not v.by)}


def drawn(arguments: argparse.Namespace) -> tuple[list[Mutant], dict[str, str]]:
    """The sample, and those of it that are known to change nothing: name -> reason."""
    every = list(mutants_of(ROOT, named(UNDER_TEST)))
    known = KnownEquivalents(EQUIVALENTS, every)
    files = set(named(arguments.files)) if arguments.files else {mutant.file for mutant in every}
    chosen = sample((mutant for mutant in every if mutant.file in files), arguments.seed, arguments.size)
    return chosen, {mutant.name: reason for mutant in chosen if (reason := known.reason(mutant)) is not None}


def judged(arguments: argparse.Namespace, mutants: list[Mutant]) -> tuple[dict[str, Verdict], set[str]]:
    """The verdict on each mutant, by name, and the tests that failed though nothing was planted: they judge nothing."""
    cache = Path(os.environ["LAKELATCH_CACHE"]) / "mutants"
    core = [path.removesuffix(".py").replace("/", ".") for path in named(["core/**/*.py"]) if "__init__" not in path]
    children = Children(ROOT, cache / f"running-{os.getpid()}", "lakelatch", [f"lakelatch.{module}" for module in core])
    code = digest(ROOT, [*package_files(), *shared_test_files()])
    try:
        recording = recorded(children, arguments.jobs, ROOT, cache, named(JUDGES), tuple(named(UNDER_TEST)), code)
        place = cache / f"verdicts-{arguments.seed}-{digest(ROOT, package_files())}.jsonl"
        verdicts = kept_verdicts(place, recording)
        bodies = {mutant.file: body_lines(mutant.file) for mutant in mutants}
        tests = {mutant.name: recording.covering(mutant, bodies[mutant.file]) for mutant in mutants}
        broken = set[str]()
        with place.open("a") as lines:

            def told(verdict: Verdict) -> None:
                verdicts[verdict.name] = verdict
                lines.write(json.dumps(verdict.as_dict()) + "\n")
                lines.flush()
                if not verdict.is_killed:
                    print(f"{verdict.outcome}: {verdict.file}, {verdict.function}: {verdict.mutation}", file=sys.stderr)

            while todo := [m for m in mutants if m.name not in verdicts or verdicts[m.name].by in broken]:
                judge = Judge(children, arguments.jobs, recording.seconds, told)
                judge.judge([(m, tests[m.name] - broken) for m in todo], len(todo) // CONTROLS + 1)
                if "" in judge.broken:
                    sys.exit("without a mutant, the tests cannot even be collected: so no verdict means anything")
                broken |= judge.broken
    finally:
        children.close()
    return {mutant.name: verdicts[mutant.name] for mutant in mutants}, broken


def main() -> Iterator[str]:
    """Draw, judge, and tell."""
    parser = argparse.ArgumentParser(
        prog="make mutants", description="Plant small bugs; the fast tests must notice them."
    )
    parser.add_argument("--seed", default="1", help="draws the sample")
    parser.add_argument("--size", type=int, default=400, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--list", action="store_true", help="only print the sample")
    parser.add_argument("files", nargs="*", help="draw from these files alone (patterns)")
    arguments = parser.parse_args()
    began = time.monotonic()
    chosen, equivalent = drawn(arguments)
    if arguments.list:
        yield from (f"{mutant.file}, {mutant.edit.function}: {mutant.mutation}" for mutant in chosen)
        return
    verdicts, broken = judged(arguments, [mutant for mutant in chosen if mutant.name not in equivalent])
    minutes = (time.monotonic() - began) / 60
    found = list(verdicts.values())
    yield table(found)
    text = summary(arguments.seed, len(chosen), len(equivalent), found, minutes)
    yield from (f"{test} failed though nothing was planted: it judged nothing" for test in sorted(broken))
    if not arguments.files:
        from figures import keep  # only now: children must not see that this may be a nightly run

        keep("guarantees.md", "mutation score", text)
    yield text


if __name__ == "__main__":
    for said in main():
        print(said)
