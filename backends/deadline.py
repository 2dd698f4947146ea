"""The caller's deadline for store requests, which overrides a store's own patience.

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
"""A request gets at least this long, even after the deadline: an immediate answer is still useful."""


@contextmanager
def answered_within(seconds: float) -> Iterator[None]:
    """Within this block, requests end after at most so many seconds, with an answer or without.

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
    """The seconds that a request may take; infinite if no deadline is set."""
    return max(_UNTIL_S.get() - time.monotonic(), LEAST_REQUEST_S)
