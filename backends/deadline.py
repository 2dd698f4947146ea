"""Until when the caller wants an answer, whatever a store's own patience says.

Owns: the deadline of this thread (and of threads that run in its context). Must not know: stores, commits.
Invariant: a deadline inside another never ends later than the outer one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNTIL_S: ContextVar[float] = ContextVar("lakelatch_deadline", default=math.inf)
LEAST_REQUEST_S = 0.05
"""A request gets that long even when the deadline has passed: what is there at once is still an answer."""


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Requests inside this block end, with an answer or without, within so many seconds.

    >>> with answered_within(5.0), answered_within(60.0):
    ...     left_s() <= 5.0
    True
    """
    token = _UNTIL_S.set(min(_UNTIL_S.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _UNTIL_S.reset(token)


def left_s() -> float:
    """Seconds that a request may take; infinite where nobody set a deadline."""
    return max(_UNTIL_S.get() - time.monotonic(), LEAST_REQUEST_S)
