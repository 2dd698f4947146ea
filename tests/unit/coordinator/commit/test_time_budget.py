"""How long a commit waits for answers, with real steps on a clock that the test sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelatch.backends.deadline import answered_within, left_s
from lakelatch.backends.threads import Threads
from lakelatch.coordinator.commit.driver import Driver
from lakelatch.coordinator.commit.time_budget import ANSWER_WITHIN_S, TimeBudget
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.events import SnapshotRef
from lakelatch.coordinator.surroundings import LEAST_LOOK_S, MACHINE

OURS = SnapshotRef(5, "ours")


class Hanging:
    """A run whose store answers nothing: each step takes as long as its time limit."""

    def __init__(self) -> None:
        self.now_s, self.asked = 0.0, 0

    def _ask(self) -> None:
        self.asked += 1
        self.now_s += left_s()

    def publish(self, effect: do.Publish) -> ev.Event:
        self._ask()
        return ev.AnswerLost("no answer")

    def read_back(self, effect: do.ReadBack) -> ev.Event:
        self._ask()
        return ev.ReadBackFailed("no answer")

    def verify_lineage(self, effect: do.VerifyLineage) -> ev.Event:
        self._ask()
        return ev.LineageUnread("no answer")


@pytest.mark.parametrize(("timeout_ms", "bound_s"), [(60_000, 60.0), (None, ANSWER_WITHIN_S), (1, 0.0)])
def test_a_hanging_store_does_not_delay_the_caller_for_long(timeout_ms: int | None, bound_s: float) -> None:
    """H2: once the time is spent, no request is sent again, whatever the machine asks for."""
    run: Any = Hanging()
    budget = TimeBudget(timeout_ms, replace(MACHINE, monotonic_s=lambda: run.now_s))
    unused: Any = None
    driver = Driver(run, unused, unused, unused, unused, unused, budget, unused)
    driver.answer(do.Publish(OURS, 1))
    for look in range(1, 20):
        assert driver.answer(do.ReadBack(OURS, look, True)) is not None
    assert run.now_s <= bound_s + 2 * LEAST_LOOK_S + 0.1
    asked = run.asked
    assert isinstance(driver.answer(do.Publish(OURS, 2)), ev.AnswerLost)
    assert isinstance(driver.answer(do.VerifyLineage(None, OURS, 2)), ev.LineageUnread)
    assert run.asked == asked
    driver.answer(do.VerifyLineage(None, OURS, 1))
    assert run.asked == asked + 1, "a step that was never tried is tried once"


def test_threads_keep_the_deadline_of_their_caller() -> None:
    with Threads(1) as pool, answered_within(5.0):
        assert pool.submit(left_s).result() <= 5.0
    assert left_s() == float("inf")
