"""Which session a method was called on, and what its names mean there.

Owns: `run_of`, `instead_of`. Must not know: what the methods do. Source: decision 123.
Invariant: a session that was not registered gets Spark's own methods, and so does a name that is no table of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..catalogs.names import Names
from ..catalogs.run import Run
from ..options.catalog import parts_of

_OURS = "_knows_tables_of_lakelatch"
_REPLACED: list[tuple[type, str]] = []


def run_of(session: Any) -> Run | None:
    """What carries out statements of a session; None if it was not registered."""
    statements: Any = getattr(session, "sql", None)
    names = getattr(statements, "names", None)
    if statements is None or not isinstance(names, Names):
        return None
    return Run(session, statements.sparks, names, "")


def parts(name: Any) -> list[str]:
    """The parts of a name, without quotes; Spark's own method reports what is none."""
    return parts_of(name) if isinstance(name, str) else []


def instead_of(kind: type, method: str, ours: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a method of one of Spark's classes, once. `ours` gets Spark's and returns the new one.

    A frame makes its readers and writers by itself, so that the session cannot reach them.
    """
    sparks = getattr(kind, method)
    if getattr(sparks, _OURS, False):
        return
    made = wraps(sparks)(ours(sparks))
    setattr(made, _OURS, True)
    setattr(kind, method, made)
    _REPLACED.append((kind, method))


def give_back() -> None:
    """Give all methods that were replaced back to Spark."""
    while _REPLACED:
        kind, method = _REPLACED.pop()
        setattr(kind, method, getattr(kind, method).__wrapped__)
