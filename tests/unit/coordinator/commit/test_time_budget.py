"""How long a commit waits for answers, with real steps on a clock that the test sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakelatch.backends.requests.deadline import answered_within, left_s
from lakelatch.backends.requests.threads import Threads
from lakelatch.coordinator.commit.driver import Driver
from lakelatch.coordinator.commit.time_budget import ANSWER_WITHIN_S, TimeBudget
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
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


class Timed:
    """A budget on a clock of the test."""

    def __init__(self, timeout_ms: int | None) -> None:
        self.now_s = 1000.0
        self.budget = TimeBudget(timeout_ms, replace(MACHINE, monotonic_s=lambda: self.now_s))

    def left_s(self, step: str) -> float:
        """The seconds that requests of a step get."""
        with getattr(self.budget, step)():
            return left_s()


def test_steps_before_the_send_get_all_of_the_time_and_steps_after_it_half() -> None:
    timed = Timed(60_000)
    assert timed.left_s("preparing") == pytest.approx(60.0, abs=0.5)
    assert timed.left_s("settling") == pytest.approx(30.0, abs=0.5)
    timed.now_s += 40.0
    assert timed.left_s("preparing") == pytest.approx(20.0, abs=0.5)
    assert timed.left_s("settling") == pytest.approx(10.0, abs=0.5)
    timed.budget.sending()
    assert timed.left_s("settling") == pytest.approx(10.0, abs=0.5), "a send does not lengthen the commit's time"
    assert not timed.budget.spent
    timed.now_s += 20.0
    assert timed.budget.spent
    for step in ("preparing", "settling"):
        assert timed.left_s(step) == pytest.approx(LEAST_LOOK_S, abs=0.5)


def test_without_a_timeout_only_the_steps_after_a_send_are_bounded() -> None:
    timed = Timed(None)
    assert timed.left_s("preparing") == timed.left_s("settling") == float("inf")
    timed.now_s += 1e6
    assert not timed.budget.spent
    timed.budget.sending()
    assert timed.left_s("preparing") == float("inf"), "a lost race begins with preparations again"
    assert timed.left_s("settling") == pytest.approx(ANSWER_WITHIN_S / 2, abs=0.5)
    timed.now_s += ANSWER_WITHIN_S
    assert timed.budget.spent
    assert ANSWER_WITHIN_S == 120.0
