"""What callers type for a MERGE: the clauses by name, and the checks before any row is read.

Owns: `Merge`. Must not know: how a MERGE is carried out.
Source: architecture §5 (columns are matched by name). Invariant: each call returns a new object, so that a MERGE that was begun
can be continued in two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.expressions.binding import Binder, check_condition
from ...core.expressions.evaluate import type_of
from ...core.expressions.names import Names
from ...core.expressions.sql import parse_expression
from ...core.expressions.tree import (
    SOURCE,
    TARGET,
    Call,
    Cast,
    Expression,
    Predicate,
    Reference,
    all_of,
    conjuncts,
    references_of,
)
from ...core.metadata.schema import TableSchema
from ...core.rows.arrow import arrow_schema
from ...core.rows.partition import closest
from ...core.rows.types import timestamp
from .assignments import Assignment
from .merge import Clause, Key, MergeRows
from .operation import Operation
from .receipt import RowReceipt

_MATCHED, _UNMATCHED, _ABSENT = "matched", "not matched by source", "not matched"
_NEVER_ALONE = "the clause before it has no condition, so that this one never applies"


@dataclass(frozen=True)
class _When:
    """A clause as it was given. `set` is None for the values of the source's columns, or for a delete."""

    kind: str
    condition: Predicate | str | None
    deletes: bool = False
    set: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Merge:
    """A MERGE that is being put together; `execute` carries it out. Made by `Table.merge`.

    Clauses of one kind are tried in their order, and the first whose condition is true wins. Conditions and values are SQL text,
    in which `t` (or `target`) is the table and `s` (or `source`) the source; a name that only one of them has needs neither.
    """

    source: pa.RecordBatch
    on: Sequence[str] | str
    run: Callable[[Callable[[TableSchema], Operation]], RowReceipt]
    aliases: Mapping[str, str]
    evolve: Callable[[pa.Schema], None] | None = None
    zone: tzinfo | None = None
    clauses: tuple[_When, ...] = ()

    def when_matched_update(
        self,
        set: Mapping[str, Any],  # noqa: A002
        condition: Predicate | str | None = None,
    ) -> Merge:
        """Give columns of rows that match new values.

        Args:
            set: for each column, SQL text, `ll.lit(…)`, or a value that is no text.
            condition: SQL text; None for all rows that match.
        """
        return self._with(_When(_MATCHED, condition, set=set))

    def when_matched_update_all(self, condition: Predicate | str | None = None) -> Merge:
        """Give rows that match the values of all columns that the source has. Other columns keep theirs."""
        return self._with(_When(_MATCHED, condition))

    def when_matched_delete(self, condition: Predicate | str | None = None) -> Merge:
        """Delete rows that match."""
        return self._with(_When(_MATCHED, condition, deletes=True))

    def when_not_matched_insert(self, values: Mapping[str, Any], condition: Predicate | str | None = None) -> Merge:
        """Add a row for each row of the source that matches none. Columns without a value get their default, or null."""
        return self._with(_When(_ABSENT, condition, set=values))

    def when_not_matched_insert_all(self, condition: Predicate | str | None = None) -> Merge:
        """Add the rows of the source that match none."""
        return self._with(_When(_ABSENT, condition))

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, Any],  # noqa: A002
        condition: Predicate | str | None = None,
    ) -> Merge:
        """Give columns of rows of the table that no row of the source matches new values."""
        return self._with(_When(_UNMATCHED, condition, set=set))

    def when_not_matched_by_source_delete(self, condition: Predicate | str | None = None) -> Merge:
        """Delete rows of the table that no row of the source matches."""
        return self._with(_When(_UNMATCHED, condition, deletes=True))

    def execute(self) -> RowReceipt:
        """Carry it out, in one commit. The receipt has the numbers of rows and files.

        Raises:
            InvalidArgument: a name, a type or a value does not fit, or two rows of the source change one row; nothing changed.
            CommitConflict: other commits of the same rows kept coming first.
        """
        if not self.clauses:
            raise InvalidArgument("the merge has no clause", next_step="add when_matched_update_all(), for instance")
        if self.evolve is not None and any(c.set is None and not c.deletes for c in self.clauses):
            self.evolve(self.source.schema)
        return self.run(self.operation)

    def _with(self, clause: _When) -> Merge:
        before = [c for c in self.clauses if c.kind == clause.kind]
        if before and before[-1].condition is None:
            raise InvalidArgument(f"a clause for rows that are {clause.kind}: {_NEVER_ALONE}")
        return replace(self, clauses=(*self.clauses, clause))

    # ---------------------------------------------------------------------------------------------------- the operation

    def operation(self, schema: TableSchema) -> MergeRows:
        """The MERGE for a schema of the table, after all checks of names and types."""
        bound = _Bound(schema, self.source, self.aliases, self.zone)
        keys, rest, chosen = bound.match(self.on)
        clauses = {kind: tuple(bound.clause(c) for c in self.clauses if c.kind == kind) for kind in _KINDS}
        return MergeRows(
            schema,
            self.source,
            keys,
            rest,
            chosen,
            matched=clauses[_MATCHED],
            unmatched=clauses[_UNMATCHED],
            absent_rows=clauses[_ABSENT],
        )


_KINDS = (_MATCHED, _UNMATCHED, _ABSENT)


class _Bound:
    def __init__(
        self, schema: TableSchema, source: pa.RecordBatch, aliases: Mapping[str, str], zone: tzinfo | None
    ) -> None:
        self._schema, self._source, self._zone = schema, source, zone
        self._names = Names({TARGET: schema.names, SOURCE: source.schema.names}, aliases)
        self._schemas = {TARGET: arrow_schema(schema.fields), SOURCE: source.schema}

    def match(self, on: Sequence[str] | str) -> tuple[tuple[Key, ...], Expression | None, Predicate | None]:
        """What must be equal, what else must be true, and what is asked of rows of the table alone."""
        keys, rest, chosen = [], list[Expression](), list[Predicate]()
        for part in self._parts(on):
            where = "on" if isinstance(on, str) else f"on: column '{next(references_of(part)).parts[1]}'"
            bound = self._condition(part, where)
            match part:
                case Call(name="=", arguments=(left, right)) if {(_side(left), _side(right))} & _BOTH:
                    ours, theirs = (left, right) if _side(left) == TARGET else (right, left)
                    keys.append(self._key(ours, theirs))
                case _:
                    (chosen if _side(part) == TARGET else rest).append(bound)
        return tuple(keys), all_of([*chosen, *rest]), all_of(chosen)

    def _parts(self, on: Sequence[str] | str) -> list[Expression]:
        if isinstance(on, str):
            parts = conjuncts(parse_expression(on, "on"))
            if len(parts) == 1 and isinstance(parts[0], Reference) and len(parts[0].parts) == 1:
                raise InvalidArgument(f"on = {on!r} names one column", next_step=f"write on=[{on!r}], or a condition")
            return [self._names.bound(part, "on") for part in parts]
        if not isinstance(on, Sequence) or isinstance(on, bytes):
            raise InvalidArgument(f"on is {on!r}", next_step="name columns, or give a condition in SQL")
        names = list(on)
        for name in names:
            for columns, what in ((self._schema.names, "table"), (self._source.schema.names, "source")):
                if name not in columns:
                    raise InvalidArgument(
                        f"on: the {what} has no column '{name}'", next_step=closest(str(name), list(columns))
                    )
        if not names:
            raise InvalidArgument("on is empty", next_step="name the columns that rows are matched by")
        return [Call("=", (Reference((TARGET, name)), Reference((SOURCE, name)))) for name in names]

    def _key(self, ours: Expression, theirs: Expression) -> Key:
        """Two sides that must be equal. A time of the clock meets a point in time as one, too."""
        binder = Binder(self._schema.fields, self._zone, "on")
        sides = [binder.value(ours), binder.value(theirs)]
        types = [type_of(side, self._schemas, "on") for side in sides]
        instants = [pa.types.is_timestamp(t) and t.tz is not None for t in types]
        if any(instants) and not all(instants):
            at = instants.index(False)
            sides[at] = binder.value(Cast(sides[at], timestamp(6, local_zone=True)))
        return Key(*sides)

    def clause(self, when: _When) -> Clause:
        only = {_MATCHED: None, _UNMATCHED: TARGET, _ABSENT: SOURCE}[when.kind]
        test = None
        if when.condition is not None:
            where = f"the condition of a clause for rows that are {when.kind}"
            test = self._condition(parse_expression(when.condition, where), where, only)
        if when.deletes:
            return Clause(test, None)
        given = when.set if when.set is not None else self._all_columns()
        where = "values" if when.kind == _ABSENT else "set"
        keeps = when.kind != _ABSENT
        assignment = Assignment.of(
            given, self._schema.fields, self._names, self._schemas, where, keeps=keeps, only=only, zone=self._zone
        )
        return Clause(test, assignment)

    def _all_columns(self) -> dict[str, Any]:
        for name in self._source.schema.names:
            if name not in self._schema.by_name:
                raise InvalidArgument(
                    f"the table has no column '{name}', which the source has",
                    next_step="leave it out, name the columns, or add it with evolve=True",
                )
        return {name: Reference((SOURCE, name)) for name in self._source.schema.names}

    def _condition(self, test: Expression, where: str, only: str | None = None) -> Expression:
        bound = Binder(self._schema.fields, self._zone, where).condition(self._names.bound(test, where, only))
        check_condition(bound, self._schemas, where)
        return bound


_BOTH = {(TARGET, SOURCE), (SOURCE, TARGET)}


def _side(expression: Expression) -> str | None:
    """The one table whose columns an expression names; None for both or none."""
    tables = {reference.parts[0] for reference in references_of(expression)}
    return tables.pop() if len(tables) == 1 else None
