"""How long a commit waits for answers before its caller is told what is known.

Owns: `TimeBudget`: time, and nothing else. Must not know: effects, events, stores.
Invariant: a store that hangs holds the caller for the commit's time budget and a few seconds at most, once a snapshot was
sent.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

from ...backends.deadline import answered_within
from ..surroundings import LEAST_LOOK_S, Surroundings

ANSWER_WITHIN_S = 120.0
"""From the first send of a snapshot to the end of its attempt, where the table sets no `commit.timeout`."""


class TimeBudget:
    """The time that is left to one commit.

    Args:
        timeout_ms: option `commit.timeout`: for the whole commit; None = only what follows a send is bounded.
    """

    def __init__(self, timeout_ms: int | None, around: Surroundings) -> None:
        self._around = around
        self._whole = timeout_ms is not None
        self._until_s = math.inf if timeout_ms is None else around.monotonic_s() + timeout_ms / 1000

    @property
    def spent(self) -> bool:
        """Is no time left to ask anything a second time?"""
        return self._left_s() <= 0

    def sending(self) -> None:
        """A snapshot is about to be sent for the first time: from here on the caller waits for an answer."""
        if not self._whole:
            self._until_s = self._around.monotonic_s() + ANSWER_WITHIN_S

    def preparing(self) -> AbstractContextManager[None]:
        """The deadline for what comes before a send: as long as the commit has."""
        return answered_within(max(LEAST_LOOK_S, self._left_s())) if self._whole else nullcontext()

    def settling(self) -> AbstractContextManager[None]:
        """The deadline for one step that settles what became of a send: half of the time left belongs to what follows."""
        return answered_within(max(LEAST_LOOK_S, self._left_s() / 2))

    def _left_s(self) -> float:
        return self._until_s - self._around.monotonic_s()
