"""Random histories: steps are taken one after another, and then all readers are compared.

Owns: how a test goes through one. Must not know: what a step does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class RandomHistory(Protocol):
    """A table that is changed at random.

    Attributes:
        log: what was done, one line a step.
    """

    log: list[str]

    def step(self, number: int) -> None:
        """One change."""


@contextmanager
def taken(history: RandomHistory, steps: int) -> Iterator[None]:
    """Takes the steps, and prints them if one of them, or a later assertion, fails."""
    try:
        for number in range(1, steps + 1):
            history.step(number)
        yield
    except BaseException:
        print("\n".join(history.log))
        raise
