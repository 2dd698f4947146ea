"""How long to wait, and how often to retry, after a commit lost a race.

Owns: the retry policy, from the table's `commit.*` options, and what is known of other writers. Must not know: what is retried.
Source: architecture §3 (retries): full jitter, and a time budget before an attempt budget. The commit machine runs the loop;
single requests are retried by tenacity, in the backends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...core import options as opt
from ...core.options import TableOptions
from ..surroundings import MACHINE

_CROWD_LASTS_S = 10.0
_FORGET = 0.7
_ALONE = 0.5
_BUSY_S = 1.0
_IN_A_ROW = 5
_TURNS = 4
"""So many attempts lie between two looks for others of a writer that always wins."""


@dataclass(frozen=True)
class RetryPolicy:
    """When to try a lost commit again.

    Attributes:
        max_retries: attempts after the first.
        timeout_ms: no retry begins after this; None = no bound.
        min_wait_ms, max_wait_ms: waits are uniform in [0, min * 2^n], and never beyond max.

    >>> policy = RetryPolicy.from_options(TableOptions({"commit.max-retries": "1"}))
    >>> policy.next_wait_ms(2, elapsed_s=0.1, attempt_s=0.1, others=1) is None
    True
    >>> policy.next_wait_ms(1, elapsed_s=0.1, attempt_s=0.1, others=1) <= 200
    True
    """

    max_retries: int
    timeout_ms: int | None
    min_wait_ms: int
    max_wait_ms: int

    @staticmethod
    def from_options(options: TableOptions) -> RetryPolicy:
        return RetryPolicy(
            options.get(opt.COMMIT_MAX_RETRIES),
            options.get(opt.COMMIT_TIMEOUT),
            options.get(opt.COMMIT_MIN_RETRY_WAIT),
            options.get(opt.COMMIT_MAX_RETRY_WAIT),
        )

    def next_wait_ms(
        self,
        attempt: int,
        *,
        elapsed_s: float,
        attempt_s: float,
        others: int,
        uniform: Callable[[float, float], float] = MACHINE.uniform,
    ) -> int | None:
        """Milliseconds to wait after a lost attempt, None where the budget is spent.

        Exponential waits alone would make losers sleep for seconds while the table takes a commit every few milliseconds. So the
        turns that other writers need bound it, too, and a writer that has lost to all of them has had its wait.

        Args:
            attempt: the attempt that was lost, 1 for the first.
            elapsed_s: seconds since the commit began.
            attempt_s: seconds that an attempt takes on this store.
            others: the number of different committers that it lost to.
        """
        turns = others if attempt <= others else 1
        longest_s = min(self.max_wait_ms / 1000, turns * attempt_s)
        late = self.timeout_ms is not None and elapsed_s >= self.timeout_ms / 1000
        if late or attempt > self.max_retries:
            return None
        doubled_s = math.ldexp(self.min_wait_ms / 1000, min(attempt - 1, 64))
        return int(uniform(0, min(doubled_s, longest_s)) * 1000)


@dataclass
class Crowd:
    """The number of other writers recently met, and how long a turn is.

    A writer that just won starts its next commit sooner than the losers can try again, and would win forever (architecture
    §3). So a writer that met others first asks who waits, and forgets them when they no longer appear.

    >>> crowd = Crowd()
    >>> crowd.observe(others=4, attempt_s=0.01, now_s=0.0); crowd.is_near(1.0), crowd.is_near(60.0)
    (True, False)
    """

    size: float = 0.0
    attempt_s: float = 0.0
    lasted_s: float = 0.0
    met_at_s: float = 0.0
    ended_at_s: float = -math.inf
    looked_at_s: float = -math.inf
    in_a_row: int = 0
    may_queue: bool = True

    def observe(self, others: int, attempt_s: float, now_s: float, lasted_s: float = 0.0) -> None:
        """A commit ended which lost races to so many other writers, with attempts that took so long. `lasted_s`: how long the
        others take for a snapshot, if it has waited for theirs; longer than an attempt.
        """
        self.attempt_s, self.ended_at_s = attempt_s, now_s
        self.lasted_s = max(attempt_s, lasted_s)
        if others:
            self.size, self.met_at_s = max(float(others), self.size), now_s
        else:
            self.size *= _FORGET

    def may_be_unseen(self, began_s: float, now_s: float, *, rides: bool = True) -> bool:
        """Whether a commit that always wins should look now and then for others that do not.

        It is so where one commit began soon after another: writers that lose need more requests in sequence for an attempt, and
        would never be met. A writer that commits now and then leaves them enough time.

        Args:
            began_s: when the commit began that ends now; call it before `observe`.
            rides: others may ask it to carry them. If not, they wait longer before they say so, and it commits a few times first.
        """
        is_busy = not self.size and began_s - self.ended_at_s <= _BUSY_S
        self.in_a_row = self.in_a_row + 1 if is_busy else 0
        if self.in_a_row < (1 if rides else _IN_A_ROW) or now_s - self.looked_at_s < _TURNS * self.attempt_s:
            return False
        self.looked_at_s = now_s
        return True

    def is_near(self, now_s: float) -> bool:
        return self.size >= _ALONE and now_s - self.met_at_s <= _CROWD_LASTS_S
