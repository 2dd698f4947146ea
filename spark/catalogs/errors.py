"""Errors that are Spark's as well as ours.

Owns: `TableMissing`. Must not know: names, statements. Invariant: who catches Spark's error catches it, and finds its class.
"""

from __future__ import annotations

from pyspark.errors import AnalysisException

from ...core.errors import TableNotFound


class TableMissing(TableNotFound, AnalysisException):
    """There is no table of that name; Spark's condition for it is TABLE_OR_VIEW_NOT_FOUND."""

    def __init__(self, name: str, message: str, *, next_step: str | None = None) -> None:
        condition = "TABLE_OR_VIEW_NOT_FOUND"
        TableNotFound.__init__(
            self, f"[{condition}] {name}: {message}", next_step=next_step
        )  # which forgets the condition
        AnalysisException.__init__(self, message, errorClass=condition, messageParameters={"relationName": name})
