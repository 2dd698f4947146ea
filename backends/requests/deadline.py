"""The caller's deadline for store requests, which overrides a store's own patience.

Owns: the deadline of this thread (and of threads that run in its context), and what it is for. Must not know: requests, commits.
Invariant: a deadline inside another never ends later than the outer one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

OPERATION_SECONDS = 300.0
"""How long everything together may take that is asked of a table at once, such as a plan: storage option `operation_timeout`."""
_UNTIL_S: ContextVar[float] = ContextVar("lakelatch_deadline", default=math.inf)
_FOR: ContextVar[str] = ContextVar("lakelatch_deadline_for", default="")
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


@contextmanager
def operation(store: object, what: str) -> Iterator[None]:
    """The requests of a store in this block end in time together, if it has an `operation_timeout`. `what` is for errors."""
    asked: Any = store
    while not hasattr(asked, "operation_seconds") and hasattr(asked, "inner"):
        asked = asked.inner
    seconds = getattr(asked, "operation_seconds", math.inf)
    if _UNTIL_S.get() <= time.monotonic() + seconds:  # nested, or the whole is in a hurry
        yield
        return
    token = _FOR.set(f"{what} may take {seconds:g} s: storage option operation_timeout")
    try:
        with answered_within(seconds):
            yield
    finally:
        _FOR.reset(token)


def timed(what: str, store_of: Callable[[Any], object] = lambda self: self.store) -> Callable[[F], F]:
    """Decorates a method that is such a block."""

    def decorated(method: F) -> F:
        @wraps(method)
        def within(self: Any, *args: Any, **kwargs: Any) -> Any:
            with operation(store_of(self), what):
                return method(self, *args, **kwargs)

        return cast("F", within)

    return decorated


def operation_told() -> str:
    return _FOR.get() if left_s() <= LEAST_REQUEST_S else ""


def left_s() -> float:
    """The seconds that a request may take; infinite if no deadline is set."""
    return max(_UNTIL_S.get() - time.monotonic(), LEAST_REQUEST_S)
