"""How many requests are under way at a store that asks for fewer. On the wire: `tests/contract/test_throttling.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress

import pytest

from lakelatch.backends.requests.throttle import FREE, Throttle, throttle_of


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class Busy(Exception):
    pass


@contextmanager
def asked(throttle: Throttle, waits: bool = True, within_s: float = 0.0) -> Iterator[None]:
    with throttle.request(lambda error: isinstance(error, Busy), waits, within_s):
        yield


def refuse(throttle: Throttle) -> None:
    with pytest.raises(Busy), asked(throttle):
        raise Busy


def test_a_busy_answer_halves_what_is_under_way_once_for_all_that_were() -> None:
    clock = Clock()
    throttle = Throttle(clock)
    with ExitStack() as stack:
        for _ in range(9):
            stack.enter_context(asked(throttle))
        refuse(throttle)
        assert throttle.limit == 5.0
    clock.now_s, throttle.limit = 1.0, 5.0
    with pytest.raises(Busy), ExitStack() as both:
        both.enter_context(asked(throttle))
        both.enter_context(asked(throttle))
        raise Busy
    assert throttle.limit == 2.5, "the second of the two began before the first told of it"


def test_it_grows_by_one_for_each_round_until_nothing_is_limited() -> None:
    throttle = Throttle()
    refuse(throttle)
    assert (throttle.limit, throttle.allowed(32)) == (1.0, 1)
    count = 0
    while throttle.limit is not None:
        with asked(throttle):
            count += 1
    assert FREE**2 / 2 * 0.9 < count < FREE**2 / 2 * 1.1
    assert throttle.allowed(32) == 32


def test_other_errors_are_none_of_its_business() -> None:
    throttle = Throttle()
    with pytest.raises(ValueError, match="x"), asked(throttle):
        raise ValueError("x")
    assert (throttle.limit, throttle.under_way) == (None, 0)


def test_a_request_takes_its_turn_and_one_for_which_others_wait_does_not() -> None:
    throttle, order = Throttle(), []
    refuse(throttle)
    release, began = threading.Event(), threading.Event()

    def slow() -> None:
        with asked(throttle):
            began.set()
            release.wait(10)
            order.append("slow")

    def next_one() -> None:
        with asked(throttle, within_s=10.0):
            order.append("next")

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(slow)]
        assert began.wait(10)
        jobs.append(pool.submit(next_one))
        with suppress(ValueError), asked(throttle, waits=False):
            order.append("create")
            raise ValueError  # else it would make room for the next one
        release.set()
        for job in jobs:
            job.result(10)
    assert order == ["create", "slow", "next"]


def test_a_request_that_hangs_does_not_hold_up_others_for_ever() -> None:
    throttle = Throttle()
    refuse(throttle)
    began_s = time.monotonic()
    with asked(throttle), asked(throttle, within_s=0.1):
        assert 0.1 <= time.monotonic() - began_s < 4.0


def test_each_place_has_its_own() -> None:
    assert throttle_of("a bucket") is throttle_of("a bucket")
    assert throttle_of("a bucket") is not throttle_of("another")
