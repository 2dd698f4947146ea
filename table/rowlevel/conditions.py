"""Conditions that choose rows: a part that files are chosen by, and a part that is computed for each row.

Owns: `Where`. Must not know: files, what becomes of the rows.
Source: architecture §5. Invariant: a row is chosen only if the whole condition is true; what is unknown leaves a row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.expressions.evaluate import condition, type_of
from ...core.expressions.filters import as_predicate
from ...core.expressions.names import Names
from ...core.expressions.predicate import Predicate, bind
from ...core.expressions.sql import parse_expression
from ...core.expressions.tree import Call, Expression, conjuncts, references_of
from ...core.rows.arrow import arrow_schema
from ...core.rows.types import Field

TARGET, SOURCE = "target", "source"
"""The tables that expressions name."""


@dataclass(frozen=True)
class Where:
    """A condition on the rows of a table.

    Attributes:
        predicate: the parts that compare a column with values, bound. Readers test it and leave out files by it.
        rest: the other parts, bound to the names of columns.
    """

    predicate: Predicate | None = None
    rest: Expression | None = None

    @staticmethod
    def of(
        given: Predicate | str | None, fields: Sequence[Field], names: Names | None = None, zone: tzinfo | None = None
    ) -> Where:
        """A condition from what the caller gave.

        Args:
            given: a predicate made with `ll.col`, SQL text, or None for all rows.
            names: the names that text may use; by default those of the columns.
            zone: of times that are points in time and have none; None refuses them.

        Raises:
            InvalidArgument: the text is no condition, or does not fit the columns.
        """
        if given is None:
            return Where()
        if isinstance(given, Predicate):
            return Where(bind(given, fields, zone))
        if not isinstance(given, str):
            raise InvalidArgument(
                f"where is {given!r}",
                next_step="give SQL text, or a condition made with ll.col(…); True changes all rows",
            )
        names = names or Names({TARGET: [f.name for f in fields]}, {})
        predicates, rest = [], []
        for part in conjuncts(parse_expression(given, "where")):
            bound = names.bound(part, "where", TARGET)
            predicate = as_predicate(bound)
            if predicate is None:
                _check(bound, fields)
                rest.append(bound)
            else:
                predicates.append(bind(predicate, fields, zone))
        joined = reduce(lambda a, b: Call("and", (a, b)), rest) if rest else None
        return Where(reduce(and_, predicates) if predicates else None, joined)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `rest` needs."""
        if self.rest is None:
            return ()
        return tuple(dict.fromkeys(reference.parts[1] for reference in references_of(self.rest)))

    def chosen(self, rows: pa.RecordBatch) -> Any:
        """The places of the rows for which `rest` is true, as a NumPy array."""
        if self.rest is None:
            return np.arange(rows.num_rows)
        return np.flatnonzero(condition(self.rest, {TARGET: rows}, rows.num_rows, "where"))


def _check(expression: Expression, fields: Sequence[Field]) -> None:
    found = type_of(expression, {TARGET: arrow_schema(fields)}, "where")
    if not (pa.types.is_boolean(found) or pa.types.is_null(found)):
        raise InvalidArgument(f"where: a condition is true or false, but this is of type {found}")
