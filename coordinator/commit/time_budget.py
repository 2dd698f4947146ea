"""How long a commit waits for answers before it reports what is known.

Owns: `TimeBudget`, which handles time and nothing else. Must not know: effects, events, stores.
Invariant: once a snapshot was sent, a hanging store delays the caller by at most the commit's time budget and a few seconds.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

from ...backends.requests.deadline import answered_within
from ..surroundings import LEAST_LOOK_S, Surroundings

ANSWER_WITHIN_S = 120.0
"""Seconds from the first send of a snapshot to the end of its attempt, if the table sets no `commit.timeout`."""


class TimeBudget:
    """The time that is left to one commit. `timeout_ms` is option `commit.timeout`; None bounds only the steps after a send."""

    def __init__(self, timeout_ms: int | None, around: Surroundings) -> None:
        self._around = around
        self._whole = timeout_ms is not None
        self._until_s = math.inf if timeout_ms is None else around.monotonic_s() + timeout_ms / 1000

    @property
    def spent(self) -> bool:
        return self.left_s() <= 0

    def sending(self) -> None:
        """Called before a snapshot is sent for the first time: from here on the caller's wait is bounded."""
        if not self._whole:
            self._until_s = self._around.monotonic_s() + ANSWER_WITHIN_S

    def preparing(self) -> AbstractContextManager[None]:
        """The deadline for the steps before a send: all of the commit's time."""
        return answered_within(max(LEAST_LOOK_S, self.left_s())) if self._whole else nullcontext()

    def settling(self) -> AbstractContextManager[None]:
        """The deadline for one step that finds out whether a send landed: half of the time left; later steps get the rest."""
        return answered_within(max(LEAST_LOOK_S, self.left_s() / 2))

    def left_s(self) -> float:
        return self._until_s - self._around.monotonic_s()
