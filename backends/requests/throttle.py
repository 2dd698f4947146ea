"""How many requests this process has under way at a store that asks for fewer.

Owns: `Throttle`, `throttle_of`. Must not know: any client, what is requested, repeats.
Invariants: a store that was never busy has no limit. A busy answer halves what may be under way, once for all requests that were
under way then; each success adds a little, until there is no limit again. Nothing waits here for long: a request that hangs must
not hold up others, and each has a deadline of its own. Source: decision 101.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from .threads import forked_lock, this_process

FREE = 64.0
LONGEST_WAIT_S = 5.0


class Throttle:
    """The requests of one process to one bucket or container."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._changed = Condition()
        self._cut_s = -1.0
        self.under_way = 0
        self.limit: float | None = None

    @contextmanager
    def request(self, is_busy: Callable[[Exception], bool], waits: bool, within_s: float) -> Iterator[None]:
        """One request: its turn comes when few enough are under way.

        Args:
            waits: whether it takes its turn, as all do but those for which others wait.
            within_s: how long it may wait for its turn.
        """
        with self._changed:
            if waits and self.limit is not None:
                self._changed.wait_for(self._is_free, min(within_s, LONGEST_WAIT_S))
            self.under_way += 1
            began_s = self._now_s()
        try:
            yield
        except Exception as error:
            if is_busy(error):
                self._cut(began_s)
            raise
        else:
            self._grow()
        finally:
            with self._changed:
                self.under_way -= 1
                self._changed.notify()

    def allowed(self, most: int) -> int:
        return most if self.limit is None else max(1, min(most, int(self.limit)))

    def _is_free(self) -> bool:
        return self.limit is None or self.under_way < max(1.0, self.limit)

    def _cut(self, began_s: float) -> None:
        with self._changed:
            if began_s > self._cut_s:
                known = float(self.under_way) if self.limit is None else self.limit
                self.limit, self._cut_s = max(1.0, known / 2), self._now_s()

    def _grow(self) -> None:
        if self.limit is None:
            return
        with self._changed:
            if self.limit is not None:
                grown = self.limit + 1 / self.limit
                self.limit = None if grown >= FREE else grown
                self._changed.notify_all()


_OF: dict[tuple[object, str], Throttle] = {}
_LOCK = forked_lock()


def throttle_of(place: str) -> Throttle:
    with _LOCK:
        return _OF.setdefault((this_process(), place), Throttle())
