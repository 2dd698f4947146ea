"""Carries out CREATE TEMPORARY VIEW over tables of ours.

Owns: `create_view`. Must not know: how a query is read. Source: decision 123.
Invariant: the view shows the snapshots of the moment in which it was made, as a view of a frame does.
"""

from __future__ import annotations

from typing import Any

from ...core.errors import InvalidArgument
from ..catalogs.queries import arguments_of, replaced
from ..catalogs.run import Run
from ..grammar.table_statements import CreateTemporaryView


def create_view(run: Run, statement: CreateTemporaryView) -> Any:
    """None for a view that reads no table of ours, which Spark keeps as text."""
    text, frames = replaced(run, statement.query)
    if not frames:
        return None
    if len(statement.name.parts) > 1:
        raise InvalidArgument(
            f"the temporary view {statement.name} has a name in several parts", next_step="use its last part"
        )
    frame = run.sparks(text, arguments_of(run, statement.query.text), **run.named, **frames)
    columns = statement.columns
    if columns is not None and len(columns) != len(frame.columns):
        raise InvalidArgument(
            f"the view {statement.name} names {len(columns)} columns, its query has {len(frame.columns)}"
        )
    frame = frame if columns is None else frame.toDF(*columns)
    word = "Global" if statement.everywhere else ""
    verb = "createOrReplace" if statement.replace else "create"
    getattr(frame, f"{verb}{word}TempView")(statement.name.parts[0])
    return run.session.range(0).select()
