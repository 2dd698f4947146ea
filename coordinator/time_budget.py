"""How long a commit waits for answers before its caller is told what is known.

Owns: `TimeBudget`. Must not know: what effects mean, what follows from an answer that never came (the machine).
Source: design §1 (three answers), H2. Invariant: a store that hangs holds the caller for its time budget and a few seconds
at most, once a snapshot was sent; what was asked once is asked again only while time is left.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext

from ..backends.deadline import answered_within
from .protocol import effects as do
from .protocol import events as ev
from .protocol.events import Event
from .run import CommitRun
from .surroundings import Surroundings

ANSWER_WITHIN_S = 120.0
"""From the first send of a snapshot to the end of its attempt, where the table sets no `commit.timeout`."""
LEAST_S = 2.0
"""Every step may ask once, and wait that long, also when the budget is spent."""

_SPENT = "the time budget of the commit is spent"


class TimeBudget:
    """The time that is left to one commit.

    Args:
        timeout_ms: option `commit.timeout`: for the whole commit; None = only what follows a send is bounded.
    """

    def __init__(self, timeout_ms: int | None, around: Surroundings) -> None:
        self._around = around
        self._whole = timeout_ms is not None
        self._until_s = math.inf if timeout_ms is None else around.monotonic_s() + timeout_ms / 1000

    def preparing(self) -> AbstractContextManager[None]:
        """For what comes before a send: as long as the commit has."""
        return answered_within(max(LEAST_S, self._left_s())) if self._whole else nullcontext()

    def answer(self, run: CommitRun, effect: do.Publish | do.ReadBack | do.VerifyLineage) -> Event:
        """Carry out a step that settles what became of a snapshot; half of the time that is left belongs to what follows."""
        if isinstance(effect, do.Publish) and effect.send == 1 and not self._whole:
            self._until_s = self._around.monotonic_s() + ANSWER_WITHIN_S
        left_s = self._left_s()
        with answered_within(max(LEAST_S, left_s / 2)):
            match effect:
                case do.Publish(send=send):
                    return run.publish(effect) if send == 1 or left_s > 0 else ev.AnswerLost(_SPENT)
                case do.ReadBack(look=look):
                    return run.read_back(effect) if look == 1 or left_s > 0 else ev.ReadBackFailed(_SPENT)
                case do.VerifyLineage(look=look):
                    return run.verify_lineage(effect) if look == 1 or left_s > 0 else ev.LineageUnread(_SPENT)

    def _left_s(self) -> float:
        return self._until_s - self._around.monotonic_s()
