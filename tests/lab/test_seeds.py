"""Many writers in virtual time, under probabilistic faults: what was told is what the table holds."""

from __future__ import annotations

import os

import pytest

from lakelatch.lab.schedule import Weather
from lakelatch.lab.seeds import run_seed

SEEDS = 200
BATCH = 20


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_seeds_break_no_promise(first: int) -> None:
    """G1–G6 with appends, overwrites, manifest compactions, restarts, expiry and skewed clocks."""
    for seed in range(first, first + BATCH):
        run = run_seed(seed)
        assert run.violations == [], str(run)
        assert run.snapshots > 0


@pytest.mark.slow
def test_many_seeds_by_night() -> None:
    count = int(os.environ.get("LAKELATCH_LAB_SEEDS", "2000"))
    for seed in range(SEEDS, SEEDS + count):
        run = run_seed(seed, writers=3 + seed % 6)
        assert run.violations == [], str(run)


@pytest.mark.parametrize("seed", [3, 17])
def test_a_seed_replays_byte_for_byte(seed: int) -> None:
    first, second = run_seed(seed), run_seed(seed)
    assert first.trace == second.trace
    assert first.told == second.told
    assert run_seed(seed + 1).trace != first.trace


def test_without_faults_everything_lands() -> None:
    """Liveness: contention alone loses nothing."""
    run = run_seed(5, writers=3, weather=Weather(latency_s=0.05, skew_s=1.0))
    assert run.violations == []
    assert run.faults == 0
    assert "unknown" not in run.told
    assert run.snapshots == 3 * 3
