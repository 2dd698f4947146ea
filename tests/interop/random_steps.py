"""Histories that are drawn: steps taken one after another, then everybody is asked.

Owns: how a test goes through one. Must not know: what a step does.
"""

from __future__ import annotations

from typing import Protocol


class RandomHistory(Protocol):
    """A table that is changed at random.

    Attributes:
        log: what was done, one line a step.
    """

    log: list[str]

    def step(self, number: int) -> None:
        """One change."""

    def check(self) -> None:
        """Do all readers agree with what was done?"""


def go_through(history: RandomHistory, steps: int) -> None:
    """Takes the steps and checks; prints what was done where that fails."""
    try:
        for number in range(1, steps + 1):
            history.step(number)
        history.check()
    except BaseException:
        print("\n".join(history.log))
        raise
