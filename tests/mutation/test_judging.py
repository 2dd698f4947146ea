"""A whole run on a tiny package: samples by seed, equivalents, verdicts, the score."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mutation.judging import Verdict
from mutation.mutants import Equivalent, KnownEquivalents, Mutant, mutants_of, sample
from mutation.score import summary, table

LIMITS = """\
LIMIT = 10


def is_large(a):
    return a > LIMIT


def count(a):
    found = 0
    while a > 0:
        a -= 1
        found += 1
    return found


def never_called(a):
    return a < 1
"""
TESTS = """\
import tiny.limits


def test_large():
    assert tiny.limits.is_large(11)


def test_count():
    assert tiny.limits.count(3) == 3


def test_fails_without_a_mutant():
    assert not tiny.limits.is_large(11)
"""
RUN = """\
import json, pathlib, sys
from mutation import children, judging, mutants, recording
judging.LEAST_SECONDS = 6.0
root = pathlib.Path(sys.argv[1])
found = list(mutants.mutants_of(root, ["limits.py"]))
crowd = children.Children(root, root.parent / "running", "tiny")
kept = recording.recorded(crowd, 2, root, root.parent / "cache", ["test_limits.py"], ("limits.py",), "code")
judge = judging.Judge(crowd, 2, kept.seconds, lambda verdict: print(json.dumps(verdict.as_dict())))
judge.judge([(m, kept.covering(m, {5, 9, 10, 11, 12, 13, 17})) for m in found], 3)
print(json.dumps({"tests": sorted(kept.seconds), "broken": sorted(judge.broken)}))
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A package with one module, and a test file."""
    root = tmp_path / "tiny"
    root.mkdir()
    for name, text in {
        "__init__.py": "",
        "limits.py": LIMITS,
        "test_limits.py": TESTS,
        "pytest.ini": "[pytest]\n",
    }.items():
        (root / name).write_text(text)
    return root


def run(root: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """The verdicts by mutation, and the last line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ["PYTHONPATH"], str(root.parent)])}
    command = [sys.executable, "-c", RUN, str(root)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=300).stdout
    *verdicts, last = (json.loads(line) for line in said.splitlines())
    return {verdict["mutation"]: verdict for verdict in verdicts}, last


def test_mutants_are_judged_by_the_tests_that_run_their_line(tiny: Path) -> None:
    """What a test notices is killed, an endless loop is a timeout, and what no test runs is not covered."""
    verdicts, last = run(tiny)
    outcomes = {mutation: verdict["outcome"] for mutation, verdict in verdicts.items()}
    assert outcomes["a > LIMIT → a <= LIMIT"] == "killed"
    assert verdicts["a > LIMIT → a <= LIMIT"]["by"] == "test_limits.py::test_large"
    assert outcomes["a > LIMIT → a >= LIMIT"] == "survived"
    assert outcomes["10 → 11"] == "killed", "a constant is judged by whatever runs a function of its module"
    assert outcomes["a -= 1 → pass"] == "timeout"
    assert outcomes["a < 1 → a <= 1"] == "not covered"
    assert "found = 0 → pass" not in outcomes, "it would fail on its own: the name is bound nowhere else"
    assert last == {"tests": ["test_limits.py::test_count", "test_limits.py::test_large"], "broken": []}
    assert (tiny / "limits.py").read_text() == LIMITS
    assert not any((tiny.parent / "running").iterdir())


def test_a_test_that_fails_by_itself_is_no_judge_even_if_it_passed_once(tiny: Path) -> None:
    """Its kills would prove nothing: the run names it."""
    (tiny / "test_limits.py").write_text(
        "import os, tiny.limits\n\n\ndef test_once():\n    place = os.path.dirname(__file__) + '/seen'\n"
        "    assert tiny.limits.is_large(11) and not os.path.exists(place)\n    open(place, 'w').close()\n"
    )
    _, last = run(tiny)
    assert last["broken"] == ["test_limits.py::test_once"]


def mutants(tiny: Path) -> list[Mutant]:
    return list(mutants_of(tiny, ["limits.py"]))


def test_a_seed_draws_the_same_whatever_else_is_edited(tiny: Path) -> None:
    before = sample(mutants(tiny), "7", 5)
    assert [m.key for m in before] == [m.key for m in sample(mutants(tiny), "7", 5)]
    assert [m.key for m in before] != [m.key for m in sample(mutants(tiny), "8", 5)]
    every = [m.key for m in sample(mutants(tiny), "7", 1000)]
    (tiny / "limits.py").write_text("def new(a):\n    return a == 2\n\n\n" + LIMITS)
    after = [m.key for m in sample(mutants(tiny), "7", 1000)]
    assert [key for key in after if key[1] != "new"] == every
    assert len(after) > len(every)


def test_keys_are_unique_and_hold_no_line(tiny: Path) -> None:
    (tiny / "limits.py").write_text("def f(a, b):\n    return g(a > 1), g(a > 1)\n")
    found = [m.mutation for m in mutants(tiny)]
    assert "a > 1 → a >= 1" in found and "a > 1 → a >= 1 (place 2)" in found
    assert len(found) == len(set(found))


def test_equivalents_are_matched_by_what_they_say(tiny: Path) -> None:
    found = mutants(tiny)
    known = KnownEquivalents([Equivalent("limits.py", "count", "a > 0 → a >= 0", "a reason")], found)
    reasons = {m.mutation: known.reason(m) for m in found}
    assert {mutation for mutation, reason in reasons.items() if reason} == {"a > 0 → a >= 0"}
    assert reasons["a > 0 → a >= 0"] == "a reason"


def test_an_equivalent_that_fits_nothing_is_an_error(tiny: Path) -> None:
    stale = Equivalent("limits.py", "count", "b > 0 → b >= 0", "its code is gone")
    with pytest.raises(LookupError, match=r"limits\.py, count: b > 0 → b >= 0"):
        KnownEquivalents([stale], mutants(tiny))


def verdict(outcome: str, mutation: str = "a → b") -> Verdict:
    return Verdict("name", "limits.py", "count", mutation, "comparison", outcome, "", 3, 0.1)


def test_the_score_counts_what_was_noticed_of_all_that_can_be() -> None:
    found = [verdict("killed"), verdict("killed"), verdict("timeout"), verdict("survived"), verdict("not covered")]
    said = summary("7", 6, 1, found, 12.3)
    assert "3 of 5 noticed, 60.0 %" in said
    assert "limits.py 2" in said
    assert "100.0 %" in summary("7", 1, 0, [verdict("killed")], 1.0)


def test_the_table_names_what_was_not_noticed() -> None:
    said = table([verdict("killed"), verdict("survived", "a | b → a"), verdict("not covered")])
    assert said.count("limits.py") == 2
    assert "`a \\| b → a`" in said
    assert table([verdict("killed")]) == ""
