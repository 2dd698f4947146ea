"""How long one request is repeated, and how long it waits in between.

Owns: `Patience`. Must not know: any client, what an answer proves. Source: decision 70; format/stores §4.
Invariants: a store that says that it is busy is asked again for minutes, not for a number of sends, within the deadline of the
operation (`deadline`); what it says of when to come back counts. A store that does not answer at all is given up sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import tenacity

BUSY_SECONDS = 120.0
"""How long a busy store is asked again where the operation has no deadline: as long as a commit waits for an answer."""

HUNG = 4
"""A request without any answer is not sent again after this many deadlines: a read, whose size is not known, twice."""

LONGEST_TOLD_S = 20.0
"""What a store asks to wait is believed up to here."""

Asks: TypeAlias = Callable[[BaseException], bool]


@dataclass(frozen=True, slots=True)
class Patience:
    """The limits on the duration and the number of sends of one request.

    Attributes:
        deadline_seconds: the deadline of a request without a body; option `request_timeout`.
        sends: the most sends, the first one included, where the store is not busy.
        first_wait_seconds: the upper bound of the first random wait. It doubles up to `longest_wait_seconds`.
        busy_seconds: a store that is busy is asked again for so long.
    """

    deadline_seconds: float = 30.0
    sends: int = 8
    first_wait_seconds: float = 0.1
    longest_wait_seconds: float = 5.0
    busy_seconds: float = 0.0

    def retrying(
        self,
        again: Asks,
        within: float = float("inf"),
        busy: Asks = lambda error: False,
        told_s: Callable[[BaseException], float] = lambda error: 0.0,
        silent: Asks = lambda error: False,
    ) -> tenacity.Retrying:
        """Full jitter, bounded in sends and in seconds (`within`). The last error is raised unchanged. `again` tells
        whether an error is worth another send, `busy` whether the store is busy, `silent` whether a deadline passed
        without an answer; `told_s` is the wait that the store asks for.
        """
        jitter = tenacity.wait_random_exponential(self.first_wait_seconds, self.longest_wait_seconds)
        busy_sends = 0

        def stop(state: tenacity.RetryCallState) -> bool:
            nonlocal busy_sends
            error, spent_s = _error_of(state), (state.seconds_since_start or 0.0) + state.upcoming_sleep
            if spent_s >= within:
                return True
            if error is not None and busy(error) and spent_s < self.busy_seconds:
                busy_sends += 1
                return False
            if error is not None and silent(error) and spent_s >= HUNG * self.deadline_seconds:
                return True
            return state.attempt_number - busy_sends >= self.sends

        def wait(state: tenacity.RetryCallState) -> float:
            error = _error_of(state)
            return jitter(state) + (0.0 if error is None else min(told_s(error), LONGEST_TOLD_S))

        return tenacity.Retrying(
            stop=stop,
            wait=wait,
            # tenacity also asks about an interrupt, which is not an answer and ends the request (H23)
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, Exception) and again(error)),
            reraise=True,
        )


def _error_of(state: tenacity.RetryCallState) -> BaseException | None:
    outcome = getattr(state, "outcome", None)
    return None if outcome is None else outcome.exception()
