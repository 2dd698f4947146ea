"""DELETE and UPDATE: changes of the rows for which a condition is true.

Owns: `Edit`. Must not know: files, where the rows are read.
Invariant: see `operation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.expressions.binding import condition_of
from ...core.expressions.names import Names
from ...core.expressions.tree import TARGET, Predicate
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import OperationWord
from ...core.rows.arrow import arrow_schema
from .assignments import Assignment
from .operation import DELETED, Found


@dataclass(frozen=True)
class Edit:
    """Deletes the rows for which `predicate` is true, None for all. With an assignment it updates them. See `Operation`."""

    predicate: Predicate | None
    assignment: Assignment | None = None
    absent: bool = False

    @staticmethod
    def of(
        schema: TableSchema,
        where: Predicate | str | None,
        given: Mapping[str, Any] | None,
        alias: str | None = None,
        zone: tzinfo | None = None,
    ) -> Edit:
        """A change from what the caller gave, as for `Assignment.of`. `alias` is another name of the table."""
        names = Names({TARGET: schema.names}, {alias: TARGET} if alias else {})
        chosen = condition_of(where, schema.fields, zone, names)
        if given is None:
            return Edit(chosen)
        columns = {TARGET: arrow_schema(schema.fields)}
        return Edit(chosen, Assignment.of(given, schema.fields, names, columns, "set", keeps=True, zone=zone))

    @property
    def word(self) -> OperationWord:
        return "DELETE" if self.assignment is None else "UPDATE"

    @property
    def columns(self) -> tuple[str, ...]:
        return ()

    @property
    def assigned(self) -> frozenset[str]:
        return frozenset() if self.assignment is None else frozenset(self.assignment.values)

    @property
    def updates(self) -> bool:
        return self.assignment is not None

    @property
    def deletes_all(self) -> bool:
        return self.assignment is None

    def find(self, rows: pa.RecordBatch) -> Found:
        chosen = np.arange(rows.num_rows)
        action = DELETED if self.assignment is None else 0
        return Found(chosen, np.full(len(chosen), action), np.full(len(chosen), -1), np.zeros(0, np.int64))

    def parts(self, sources: Any) -> Iterator[slice]:
        yield slice(0, len(sources))

    def make(self, rows: pa.RecordBatch, actions: Any, sources: Any) -> pa.RecordBatch:
        assert self.assignment is not None
        return self.assignment.applied({TARGET: rows}, rows.num_rows)

    def inserted(self, met: Any) -> pa.Table | None:
        return None
