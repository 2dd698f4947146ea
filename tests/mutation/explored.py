"""The lab's daily scenarios, each in this process and for a few seconds: judges of mutants that `make test` has in a slower form.

pytest collects this file only where it is named: `tests/lab/test_explorer.py` explores the same scenarios, to their end, in
processes of their own.
"""

from __future__ import annotations

import pytest

from lakelatch.lab.explorer import explore
from lakelatch.lab.scenarios import DAILY

SECONDS = 3.0


@pytest.mark.parametrize("name", [scenario.name for scenario in DAILY])
def test_no_promise_breaks(name: str) -> None:
    scenario = next(scenario for scenario in DAILY if scenario.name == name)
    explored = explore(scenario, max_seconds=SECONDS)
    assert explored.violation is None, explored
