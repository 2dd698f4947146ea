"""When a commit that does not ride tries: those that came first go first.

Owns: `Turns`. Must not know: how tickets are kept, what an attempt does. Source: decision 116.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field

from ..intents.tickets import Ticket
from ..surroundings import Surroundings
from .retries import Crowd, RetryPolicy
from .time_budget import TimeBudget

QUEUES_AFTER = 2
"""Who has lost so many races takes a ticket."""
LOOKS = 6
"""How often it looks who is ahead of it, at most."""


@dataclass
class Turns:
    policy: RetryPolicy
    ticket: Ticket
    around: Surroundings
    budget: TimeBudget
    crowd: Crowd = field(default_factory=Crowd)

    @property
    def _may_queue(self) -> bool:
        return self.around.time_passes and self.crowd.may_queue

    def queues(self, lost: int) -> bool:
        return (self.ticket.number is not None or lost >= QUEUES_AFTER) and self._may_queue

    def wait(self, turn_s: float, newest_id: int) -> int:
        """Let those before go first. Looks again half of the way, as turns may be shorter. Returns the milliseconds waited."""
        if not self._may_queue:
            return 0
        began_s, before, pause_s = self.around.monotonic_s(), 0, 0.0
        for _ in range(LOOKS):
            with self.budget.preparing():
                ahead = self.ticket.ahead(newest_id)
            if ahead < before:
                turn_s = min(turn_s, pause_s / (before - ahead))
            longest_s = min(self.policy.max_wait_ms / 1000, self.budget.left_s() / 2)
            pause_s = max(0.0, min(turn_s * max(0.7, ahead / 2), longest_s)) if ahead else 0.0
            self.around.sleep(pause_s)
            before = ahead
            if ahead <= 1:
                break
        return int((self.around.monotonic_s() - began_s) * 1000)

    def give_back(self, aside: Executor) -> None:
        """Let the next one go on, while the caller gets its answer."""
        if self.ticket.number is not None:
            aside.submit(self._give_back)

    def _give_back(self) -> None:
        if not self.ticket.give_back():
            self.crowd.may_queue = False  # or it would leave a ticket for each of its commits
