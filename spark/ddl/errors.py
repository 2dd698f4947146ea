"""Mistakes that Spark has an error class for, so that who catches Spark's error catches them.

Owns: `Refusal`, `AlreadyThere`. Must not know: statements.
Invariant: the message begins with the class, in brackets, as Spark's does.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException

from ...core.errors import InvalidArgument, TableExists


class Refusal(InvalidArgument, AnalysisException):
    """A mistake in a statement; `getCondition()` tells Spark's class of it."""

    def __init__(self, condition: str, message: str, *, next_step: str | None = None) -> None:
        InvalidArgument.__init__(self, f"[{condition}] {message}", next_step=next_step)  # which forgets the condition
        AnalysisException.__init__(self, message, errorClass=condition, messageParameters={})


class AlreadyThere(TableExists, AnalysisException):
    """There is a table of that name."""

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        condition = "TABLE_OR_VIEW_ALREADY_EXISTS"
        TableExists.__init__(self, f"[{condition}] {message}", next_step=next_step)
        AnalysisException.__init__(self, message, errorClass=condition, messageParameters={})
