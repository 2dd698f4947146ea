"""A clock for what waits: no test has to."""

from __future__ import annotations


class Clock:
    """Time that passes where somebody sleeps; `slept`: how long, each time."""

    def __init__(self) -> None:
        self.now_s, self.slept = 100.0, list[float]()

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds
