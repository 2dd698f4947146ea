"""How long, and how often, a commit that lost a race tries again.

Owns: the policy, composed of tenacity's values from the table's `commit.*` options. Must not know: what is retried.
Source: design §3 (retries): full jitter; a time budget before an attempt budget. tenacity retries *conflicts* here;
single requests are retried below, in the backends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tenacity import RetryCallState, Retrying, stop_after_attempt, stop_after_delay, stop_any, wait_random_exponential

from ..core import options as opt
from ..core.options import TableOptions


@dataclass(frozen=True)
class RetryPolicy:
    """When to try a lost commit again.

    Attributes:
        max_retries: attempts after the first.
        timeout_ms: no retry begins after this; None = no bound.
        min_wait_ms, max_wait_ms: the waits are uniform in [0, min * 2^n], with max as the cap.

    >>> policy = RetryPolicy.from_options(TableOptions({"commit.max-retries": "1"}))
    >>> policy.next_wait_ms(1, 0.0) is None, policy.next_wait_ms(2, 0.0)
    (False, None)
    """

    max_retries: int
    timeout_ms: int | None
    min_wait_ms: int
    max_wait_ms: int
    _retrying: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        stops: list[Any] = [stop_after_attempt(self.max_retries + 1)]
        if self.timeout_ms is not None:
            stops.insert(0, stop_after_delay(self.timeout_ms / 1000))
        wait = wait_random_exponential(multiplier=self.min_wait_ms / 1000, max=self.max_wait_ms / 1000)
        object.__setattr__(self, "_retrying", Retrying(stop=stop_any(*stops), wait=wait))

    @staticmethod
    def from_options(options: TableOptions) -> RetryPolicy:
        """The policy that the table's options ask for."""
        return RetryPolicy(
            options.get(opt.COMMIT_MAX_RETRIES),
            options.get(opt.COMMIT_TIMEOUT),
            options.get(opt.COMMIT_MIN_RETRY_WAIT),
            options.get(opt.COMMIT_MAX_RETRY_WAIT),
        )

    def next_wait_ms(self, attempt: int, elapsed_s: float) -> int | None:
        """Milliseconds to wait after `attempt` was lost, None where the budget is spent.

        Args:
            attempt: 1 for the first.
            elapsed_s: seconds since the commit began.
        """
        call = RetryCallState(self._retrying, None, (), {})
        call.attempt_number = attempt
        call.outcome_timestamp = call.start_time + elapsed_s
        if self._retrying.stop(call):
            return None
        return int(self._retrying.wait(call) * 1000)
