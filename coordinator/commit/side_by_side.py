"""Does pieces of work of an attempt side by side: by threads, and by the caller, who would only wait for them.

Owns: `SideBySide`. Must not know: what the pieces do, what follows.
Invariants: each piece is done once, by whoever comes to it first. One that fails ends no other. There is a thread for each
but one, so that pieces that wait for a store all wait at once. Those that take less time than a thread needs to wake up, such as
files on a fast disk, are mostly done by the caller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from ...backends.requests.threads import forked_lock
from ...core.errors import LakelatchError

UPLOAD_THREADS = 8
"""How many pieces of a commit are done at once, besides the one that its caller does."""


@dataclass
class _Group:
    """Pieces that are reported together; `left` of them have not succeeded yet."""

    name: str
    done: Callable[[], None]
    left: int


class SideBySide:
    """Independent pieces of work. `failure` is of the first that failed: its group, why, and what that asks for."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], None], _Group]] = deque()
        self._lock = forked_lock()
        self.failure: tuple[str, str, str] | None = None

    def add(self, pieces: Sequence[Callable[[], None]], name: str, done: Callable[[], None]) -> None:
        """`done` is called once when all of them have succeeded; at once if there are none."""
        group = _Group(name, done, len(pieces))
        self._waiting.extend((piece, group) for piece in pieces)
        if not pieces:
            done()

    def run(self, pool: Executor) -> None:
        """Begin threads only now, as they would hold up adding. Raises what a piece raised, but for errors of lakelatch."""
        helpers = [pool.submit(self._work) for _ in range(min(len(self._waiting) - 1, UPLOAD_THREADS))]
        try:
            self._work()
        finally:
            self._waiting.clear()  # after an interrupt, nothing more is begun
        for helper in helpers:
            helper.result()

    def _work(self) -> None:
        while self._waiting:
            try:
                piece, group = self._waiting.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                piece()
            except LakelatchError as error:
                with self._lock:
                    self.failure = self.failure or (group.name, error.message, error.next_step)
                continue
            with self._lock:
                group.left -= 1
                if group.left == 0:
                    group.done()
