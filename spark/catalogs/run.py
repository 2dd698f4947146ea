"""What a statement is carried out with.

Owns: `Run`. Must not know: who carries out which statement (`spark.statements.executors`). Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .names import Names


@dataclass(frozen=True)
class Run:
    """One call of `sql`.

    Attributes:
        session: the session; its `sql` may be replaced, so executors call `sparks`.
        sparks: Spark's own `sql`.
        text: the whole statement, for the places of errors.
        arguments, named: `args` and the keywords of `sql`, for what goes to Spark.
    """

    session: Any
    sparks: Any
    names: Names
    text: str
    arguments: Any = None
    named: Mapping[str, Any] = field(default_factory=dict)


Executor: TypeAlias = Callable[[Run, Any], Any]
"""Carries out a statement and returns its frame; None if it concerns no table of ours, and Spark is to have it."""
