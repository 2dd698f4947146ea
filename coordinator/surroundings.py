"""What a commit takes from the machine that it runs on: time, sleep, fresh ids, dice and threads.

Owns: `Surroundings`, the one seam through which the coordinator meets clock, randomness and threads. Must not know: stores,
what any of it is used for. Invariant: a commit whose surroundings and store answer the same runs the same, step by step:
the lab puts virtual ones in here, and runs everything else as shipped.
"""

from __future__ import annotations

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
