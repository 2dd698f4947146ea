"""What a commit uses of the machine that it runs on: time, sleep, fresh ids, randomness and threads.

Owns: `Surroundings`, the only interface between the coordinator and clock, randomness and threads; `backoff_s` and
`LEAST_LOOK_S`, which set the pace of repeated requests. Must not know: stores, how any of it is used.
Invariant: a commit whose surroundings and store give the same answers takes the same steps. The lab passes virtual surroundings
and runs everything else as shipped.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from ..backends.requests.threads import Threads


@dataclass(frozen=True)
class Surroundings:
    """The machine around a commit; the real one by default.

    Attributes:
        wall_s: seconds since 1970.
        monotonic_s: seconds of a clock that is never set back; measures ages and durations.
        time_passes: whether waiting for others helps. It does not where every order of requests is tried anyhow.
    """

    wall_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    uniform: Callable[[float, float], float] = random.uniform
    executor: Callable[[int, str], Executor] = Threads
    time_passes: bool = True

    @property
    def now_ms(self) -> float:
        """The monotonic clock in milliseconds."""
        return self.monotonic_s() * 1000

    @property
    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(self.wall_s() * 1000)


MACHINE = Surroundings()

LEAST_LOOK_S = 2.0
"""The shortest time limit for a request to the store, even when the commit's time is spent."""


def backoff_s(times: int, longest_s: float = math.inf) -> float:
    """Seconds to wait before a request is repeated: 0.05, doubled so many times, but no more than `longest_s`.

    >>> backoff_s(1), backoff_s(2), backoff_s(5000, longest_s=1.0)
    (0.1, 0.2, 1.0)
    """
    return min(longest_s, math.ldexp(0.05, min(times, 64)))
