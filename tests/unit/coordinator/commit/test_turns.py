"""How long a commit waits for those that came before it, and how often it looks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from passing_time import Clock

from lakelatch.backends.requests.threads import Threads
from lakelatch.coordinator.commit.retries import RetryPolicy
from lakelatch.coordinator.commit.time_budget import TimeBudget
from lakelatch.coordinator.commit.turns import Turns
from lakelatch.coordinator.surroundings import MACHINE


class Queue:
    """A ticket, and how many are ahead at each look."""

    def __init__(self, *ahead: int) -> None:
        self.left, self.asked = list(ahead), list[int]()
        self.number: int | None = None

    def ahead(self, newest_id: int) -> int:
        self.asked.append(newest_id)
        return self.left.pop(0)

    def give_back(self) -> bool:
        return False


def turns(clock: Clock, queue: Any, max_wait_ms: int = 10_000, timeout_ms: int | None = None, **about: Any) -> Turns:
    policy = RetryPolicy(max_retries=3, timeout_ms=timeout_ms, min_wait_ms=100, max_wait_ms=max_wait_ms)
    around = replace(MACHINE, monotonic_s=clock.monotonic_s, sleep=clock.sleep, **about)
    return Turns(policy, queue, around, TimeBudget(timeout_ms, around))


@pytest.mark.parametrize(
    ("ahead", "longest_ms", "slept"),
    [
        ((0,), 10_000, [0.0]),
        ((1,), 10_000, [0.28]),
        ((6, 3, 1), 10_000, [1.2, 0.6, 0.21]),
        ((6, 6, 1), 10_000, [1.2, 1.2, 0.168]),
        ((6, 0), 10_000, [1.2, 0.0]),
        ((8, 2, 1), 900, [0.9, 0.15, 0.105]),
        ((6, 6, 6, 6, 6, 6), 900, [0.9] * 6),
    ],
    ids=["none", "one", "shorter turns", "a slow one", "all gone", "no longer than may be", "no end"],
)
def test_a_commit_waits_for_those_that_came_before(ahead: tuple[int, ...], longest_ms: int, slept: list[float]) -> None:
    """Turns are 0.4 s long as far as it knows; it looks again half of the way, and no more often than so many times."""
    clock, queue = Clock(), Queue(*ahead)
    waited_ms = turns(clock, queue, longest_ms).wait(0.4, 7)
    assert clock.slept == pytest.approx(slept)
    assert waited_ms == pytest.approx(sum(slept) * 1000, abs=1)
    assert set(queue.asked) == {7} and not queue.left


def test_waiting_leaves_some_of_the_time_to_try() -> None:
    clock, queue = Clock(), Queue(*[50] * 6)
    made = turns(clock, queue, timeout_ms=8_000)
    made.wait(1.0, 7)
    assert clock.slept == pytest.approx([4.0, 2.0, 1.0, 0.5, 0.25, 0.125])
    assert made.budget.left_s() > 0


def test_who_has_lost_twice_or_has_a_ticket_waits() -> None:
    queue = Queue()
    made = turns(Clock(), queue)
    assert (made.queues(1), made.queues(2)) == (False, True)
    queue.number = 5
    assert made.queues(1)


def test_a_process_that_may_not_delete_tickets_takes_no_more_of_them() -> None:
    queue = Queue(0)
    queue.number = 5
    made = turns(Clock(), queue)
    with Threads(1) as aside:
        made.give_back(aside)
    assert not made.crowd.may_queue
    assert (made.queues(9), made.wait(1.0, 1), queue.asked) == (False, 0, [])


def test_nobody_waits_where_no_time_passes() -> None:
    clock = Clock()
    made = turns(clock, Queue(), time_passes=False)
    assert (made.queues(9), made.wait(1.0, 1), clock.slept) == (False, 0, [])
