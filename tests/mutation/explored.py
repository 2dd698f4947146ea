"""The lab's daily scenarios and its first seeds, each for a few seconds: judges of mutants that `make test` has in a slower form.

pytest collects this file only where it is named. `tests/lab/test_explorer.py` explores the same scenarios to their end, in
processes of their own, which would not see a mutant; `tests/lab/test_seeds.py` plays more seeds.
"""

from __future__ import annotations

import pytest

from lakelatch.lab.exploring.explorer import explore
from lakelatch.lab.scenarios.catalogue import DAILY
from lakelatch.lab.seeded.seeds import run_seed

SECONDS = 2.0
SEEDS, BATCH = 40, 8


@pytest.mark.parametrize("name", [scenario.name for scenario in DAILY])
def test_no_promise_breaks(name: str) -> None:
    scenario = next(scenario for scenario in DAILY if scenario.name == name)
    explored = explore(scenario, max_seconds=SECONDS)
    assert explored.violation is None, explored


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_seeds_break_no_promise(first: int) -> None:
    for seed in range(first, first + BATCH):
        run = run_seed(seed)
        assert run.violations == [], str(run)
