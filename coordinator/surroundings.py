"""What a commit takes from the machine that it runs on: time, sleep, fresh ids, dice and threads.

Owns: `Surroundings`, the one seam through which the coordinator meets clock, randomness and threads;
`backoff_s` and `LEAST_LOOK_S`, the pace at which a store is asked again. Must not know: stores, what any of it is used for.
Invariant: a commit whose surroundings and store answer the same runs the same, step by step: the lab puts virtual ones in
here, and runs everything else as shipped.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from ..backends.threads import Threads


@dataclass(frozen=True)
class Surroundings:
    """The machine around a commit; by default the real one.

    Attributes:
        wall_s: seconds since 1970.
        monotonic_s: seconds, never set back: how old knowledge is, how long a commit takes.
        sleep: waits so many seconds.
        new_uuid: a uuid that nobody has.
        uniform: evenly between two numbers.
        executor: threads of the process that uses them, given how many and their name.
    """

    wall_s: Callable[[], float] = time.time
    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4
    uniform: Callable[[float, float], float] = random.uniform
    executor: Callable[[int, str], Executor] = Threads

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
"""A question to the store may take this long, even when the commit's time is spent."""


def backoff_s(times: int, longest_s: float = math.inf) -> float:
    """Seconds to wait before a store is asked the same thing again: 0.05, doubled so many times.

    Args:
        times: grows by one with each question.
        longest_s: no wait is longer.

    >>> backoff_s(1), backoff_s(2), backoff_s(5000, longest_s=1.0)
    (0.1, 0.2, 1.0)
    """
    return min(longest_s, math.ldexp(0.05, min(times, 64)))
