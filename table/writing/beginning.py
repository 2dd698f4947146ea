"""When a job began to write: what orders its rows among those of other jobs.

Owns: `Beginning`. Must not know: buckets, snapshots. Source: H14; decision 39.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from random import random

from ...backends.requests.threads import forked_lock
from ...core.metadata.sorted_runs.sequence_numbers import first_number


class _Clock:
    """The clock of a process, which gives no millisecond twice."""

    def __init__(self) -> None:
        self._lock = forked_lock()
        self._last_ms = 0

    def next_ms(self) -> int:
        with self._lock:
            self._last_ms = max(self._last_ms + 1, int(time.time() * 1000))
            return self._last_ms


_CLOCK = _Clock()


@dataclass(frozen=True)
class Beginning:
    """The beginning of one job. It can be sent to the tasks of the job, whose rows then have numbers of one range.

    Attributes:
        began_ms: milliseconds since 1970; no two jobs of a process have the same.
        share: a random number from 0 up to 1, by which jobs of other processes differ.
    """

    began_ms: int
    share: float

    @staticmethod
    def now() -> Beginning:
        return Beginning(_CLOCK.next_ms(), random())

    def first_number(self, largest: int) -> int:
        """The number of the first row in a bucket whose largest number was `largest`, -1 for none."""
        return first_number(largest, self.began_ms, self.share)
