"""The clocks of a commit and the pace of repeated requests."""

from __future__ import annotations

import time
from concurrent.futures import Executor

import pytest

from lakelatch.coordinator.surroundings import LEAST_LOOK_S, MACHINE, Surroundings, backoff_s


def test_clocks_are_told_in_milliseconds() -> None:
    around = Surroundings(wall_s=lambda: 12.3456, monotonic_s=lambda: 7.25)
    assert (around.wall_ms, around.now_ms) == (12_345, 7_250.0)
    assert type(around.wall_ms) is int


def test_the_machines_own_are_the_default() -> None:
    before = time.time(), time.monotonic()
    wall, now = MACHINE.wall_ms, MACHINE.now_ms
    assert before[0] * 1000 - 1 <= wall <= time.time() * 1000
    assert before[1] * 1000 <= now <= time.monotonic() * 1000
    assert MACHINE.new_uuid() != MACHINE.new_uuid()
    assert all(2.0 <= MACHINE.uniform(2.0, 3.0) <= 3.0 for _ in range(50))
    with MACHINE.executor(1, "lakelatch-test") as pool:
        assert isinstance(pool, Executor) and pool.submit(lambda: 7).result() == 7


@pytest.mark.parametrize(
    ("times", "longest_s", "seconds"),
    [(0, 9.0, 0.05), (1, 9.0, 0.1), (2, 9.0, 0.2), (5, 9.0, 1.6), (5, 1.5, 1.5), (5_000, 4.0, 4.0)],
)
def test_waits_double_up_to_the_longest(times: int, longest_s: float, seconds: float) -> None:
    assert backoff_s(times, longest_s) == pytest.approx(seconds)


def test_waits_without_a_limit_stay_finite() -> None:
    assert backoff_s(3) == pytest.approx(0.4)
    assert backoff_s(63) < backoff_s(64) == backoff_s(65) == backoff_s(10**9) < float("inf")


def test_a_look_has_at_least_two_seconds() -> None:
    assert LEAST_LOOK_S == 2.0
