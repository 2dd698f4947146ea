"""`df.mergeInto(name, condition)` for tables of ours.

Owns: `MergeWriter`. Must not know: how rows are matched and written. Source: decision 123.
Invariant: it is the MERGE statement of the same clauses, with the frame as its source under the frame's own alias.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..catalogs.run import Run
from ..catalogs.texts import quoted_name
from ..column_text import as_text
from .naming import instead_of, parts, run_of


def understand_merge_into(session: Any) -> None:
    """Let `mergeInto` of this kind of frames (classic or Connect) know tables of ours."""
    kind = type(session.range(0))
    if hasattr(kind, "mergeInto"):
        instead_of(kind, "mergeInto", _merge_into)


def _merge_into(sparks: Any) -> Any:
    def merge_into(self: Any, table: str, condition: Any) -> Any:
        run, found = run_of(self.sparkSession), parts(table)
        if run is None or not found or run.names.locate(found) is None:
            return sparks(self, table, condition)
        return MergeWriter(run, self, found, condition)

    return merge_into


class MergeWriter:
    """What `df.mergeInto(name, condition)` returns: the methods of Spark's `MergeIntoWriter`."""

    def __init__(self, run: Run, frame: Any, table: list[str], condition: Any) -> None:
        self._run, self._frame, self._table = run, frame, table
        self._condition = _text(condition, "the condition of mergeInto")
        self._clauses: list[str] = []
        self._evolves = ""

    def whenMatched(self, condition: Any = None) -> MergeClause:  # noqa: N802 - Spark's names
        """What becomes of rows that match, where a condition holds."""
        return MergeClause(self, "MATCHED", condition)

    def whenNotMatched(self, condition: Any = None) -> MergeClause:  # noqa: N802
        """What becomes of rows of the frame that match none."""
        return MergeClause(self, "NOT MATCHED", condition)

    def whenNotMatchedBySource(self, condition: Any = None) -> MergeClause:  # noqa: N802
        """What becomes of rows of the table that no row of the frame matches."""
        return MergeClause(self, "NOT MATCHED BY SOURCE", condition)

    def withSchemaEvolution(self) -> MergeWriter:  # noqa: N802
        """First add the columns that only the frame has."""
        self._evolves = "WITH SCHEMA EVOLUTION "
        return self

    def merge(self) -> None:
        """Carry it out, in one commit."""
        target, view = ".".join(map(quoted_name, self._table)), f"lakelatch_{uuid.uuid4().hex}"
        alias = quoted_name(_alias(self._frame) or view)
        self._frame.createTempView(view)
        try:
            clauses = " ".join(self._clauses)
            self._run.session.sql(
                f"MERGE {self._evolves}INTO {target} USING {view} AS {alias} ON ({self._condition}) {clauses}"
            )
        finally:
            self._run.session.catalog.dropTempView(view)

    def _with(self, clause: str) -> MergeWriter:
        self._clauses.append(clause)
        return self


@dataclass(frozen=True)
class MergeClause:
    """The rows of one clause; its methods say what becomes of them."""

    writer: MergeWriter
    rows: str
    condition: Any

    def updateAll(self) -> MergeWriter:  # noqa: N802
        """Give the rows the values of all columns of the frame."""
        return self._then("UPDATE SET *")

    def update(self, assignments: Mapping[str, Any]) -> MergeWriter:
        """Give columns of the rows other values."""
        return self._then(
            f"UPDATE SET {', '.join(f'{_column(key)} = {_value(assignments, key)}' for key in assignments)}"
        )

    def delete(self) -> MergeWriter:
        """Delete the rows."""
        return self._then("DELETE")

    def insertAll(self) -> MergeWriter:  # noqa: N802
        """Add the rows, with all of their columns."""
        return self._then("INSERT *")

    def insert(self, assignments: Mapping[str, Any]) -> MergeWriter:
        """Add the rows, with these values for columns of the table."""
        values = ", ".join(_value(assignments, key) for key in assignments)
        return self._then(f"INSERT ({', '.join(map(_column, assignments))}) VALUES ({values})")

    def _then(self, action: str) -> MergeWriter:
        test = "" if self.condition is None else f" AND ({_text(self.condition, 'the condition of a clause')})"
        return self.writer._with(f"WHEN {self.rows}{test} THEN {action}")


def _text(condition: Any, what: str) -> str:
    return str(as_text(condition, what))


def _value(assignments: Mapping[str, Any], column: str) -> str:
    return _text(assignments[column], f"the value of column '{column}'")


def _column(name: str) -> str:
    return ".".join(map(quoted_name, parts(name)))


def _alias(frame: Any) -> str | None:
    """What `alias` has called a frame; None if it was not called."""
    if hasattr(frame, "_jdf"):
        plan = frame._jdf.queryExecution().analyzed()
        return plan.alias() if plan.nodeName() == "SubqueryAlias" else None
    return getattr(frame._plan, "_alias", None)
