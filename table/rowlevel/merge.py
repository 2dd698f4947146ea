"""MERGE: changes of rows that the rows of a source match, and of those that match none.

Owns: `MergeRows`, the operation; its clauses. Must not know: files, where the rows are read, how callers name the clauses.
Source: architecture §5 (columns are matched by name). Invariants: Clauses are tried in their order, and the first whose condition
is true wins. A row of the table that two rows of the source change is an error that names its key. A null matches nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...backends.requests.threads import forked_lock
from ...core.errors import InvalidArgument
from ...core.expressions.binding import bind
from ...core.expressions.evaluate import condition, evaluate
from ...core.expressions.tree import SOURCE, TARGET, Comparison, Expression, Predicate, references_of
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import OperationWord
from ...core.rows.sizes import spans, widths
from ...core.rows.whole import one_batch
from .assignments import Assignment
from .join import KeyJoin, as_common, common
from .operation import DELETED, Found, all_but, distinct

_MOST_PAIRS = 1 << 20
_MOST_VALUES = 200
"""Files are chosen by the values of a key, if there are no more; else by the smallest and the largest."""
_NO_ACTION = -2
_ONE_BUILDS = forked_lock()
"""Held by the thread that sorts the keys of a source; the others wait for it instead of doing the same."""


@dataclass(frozen=True)
class Clause:
    """One WHEN of a MERGE. Without a condition it always applies, and without an assignment it deletes the row."""

    condition: Expression | None
    assignment: Assignment | None


@dataclass(frozen=True)
class Key:
    """Two expressions that must be equal for two rows to match."""

    target: Expression
    source: Expression


@dataclass(frozen=True)
class MergeRows:
    """A MERGE; see `Operation`.

    Attributes:
        keys, rest: what must be equal, and what else must be true of a pair; None for nothing.
        chosen: a predicate that rows of the table must fulfil to match; None for none.
        matched, unmatched, absent_rows: the clauses for rows that match, for rows of the table that match nothing, and for rows
            of the source that match nothing.
    """

    schema: TableSchema
    source: pa.RecordBatch
    keys: tuple[Key, ...]
    rest: Expression | None
    chosen: Predicate | None
    matched: tuple[Clause, ...] = ()
    unmatched: tuple[Clause, ...] = ()
    absent_rows: tuple[Clause, ...] = ()

    word: ClassVar[OperationWord] = "MERGE"
    deletes_all = False

    @property
    def absent(self) -> bool:
        return bool(self.absent_rows)

    @cached_property
    def _assignments(self) -> tuple[Assignment, ...]:
        return tuple(c.assignment for c in (*self.matched, *self.unmatched) if c.assignment is not None)

    @property
    def updates(self) -> bool:
        return bool(self._assignments)

    @cached_property
    def assigned(self) -> frozenset[str]:
        """The columns that get another value. A key that is set to what it equals anyway does not count."""
        same = {_column(k.target): k.source for k in self.keys if _column(k.target)}
        return frozenset(name for a in self._assignments for name, value in a.values.items() if same.get(name) != value)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        parts = [k.target for k in self.keys]
        parts += [c.condition for c in (*self.matched, *self.unmatched) if c.condition is not None]
        parts += [self.rest] if self.rest is not None else []
        named = (r.parts for part in parts for r in references_of(part))
        return tuple(dict.fromkeys(p[1] for p in named if p[0] == TARGET))

    def __getstate__(self) -> dict[str, Any]:
        made = ("_assignments", "assigned", "columns", "_joins", "_source_keys", "_widths", "predicate")
        return {k: v for k, v in self.__dict__.items() if k not in made}

    # ------------------------------------------------------------------------------------------------- choosing files

    @cached_property
    def predicate(self) -> Predicate | None:
        """What a row must fulfil to match any row of the source. Rows that match nothing matter if a clause is for them."""
        if self.unmatched:
            return None
        parts = [] if self.chosen is None else [self.chosen]
        for key, values in zip(self.keys, self._source_keys, strict=True):
            name = _column(key.target)
            found = _range(name, values) if name else None
            if found is not None:
                parts.append(bind(found, self.schema.fields))
        return reduce(lambda a, b: a & b, parts) if parts else None

    @cached_property
    def _source_keys(self) -> list[pa.Array]:
        rows = self.source.num_rows
        return [_array(evaluate(k.source, {SOURCE: self.source}, rows, "on"), rows) for k in self.keys]

    # -------------------------------------------------------------------------------------------------------- the rows

    def find(self, rows: pa.RecordBatch) -> Found:
        if self.keys:
            return self._found(rows, *self._pairs(rows))
        step = max(_MOST_PAIRS // max(self.source.num_rows, 1), 1)
        parts = []
        for start in range(0, rows.num_rows, step):
            part = rows.slice(start, step)
            every = self.source.num_rows
            pairs = np.repeat(np.arange(part.num_rows), every), np.tile(np.arange(every), part.num_rows)
            found = self._found(part, *pairs)
            parts.append(Found(found.rows + start, found.actions, found.sources, found.met))
        names = ("rows", "actions", "sources", "met")
        return Found(*(np.concatenate([getattr(p, n) for p in parts]) for n in names)) if parts else Found.nothing()

    def _pairs(self, rows: pa.RecordBatch) -> tuple[Any, Any]:
        count = rows.num_rows
        keys = [_array(evaluate(k.target, {TARGET: rows}, count, "on"), count) for k in self.keys]
        types = tuple(key.type for key in keys)
        with _ONE_BUILDS:
            if types not in self._joins:
                both = [common("on", [s, t.slice(0, 0)]) for s, t in zip(self._source_keys, keys, strict=True)]
                join = KeyJoin([s for s, _ in both], self.source.num_rows)
                self._joins[types] = join, tuple(s.type for s, _ in both)
            join, wanted = self._joins[types]
        return join.pairs([as_common("on", k, t) for k, t in zip(keys, wanted, strict=True)], count)

    @cached_property
    def _joins(self) -> dict[tuple[pa.DataType, ...], tuple[KeyJoin, tuple[pa.DataType, ...]]]:
        """The source by its keys, for each type that the table's side may have."""
        return {}

    def _found(self, rows: pa.RecordBatch, targets: Any, sources: Any) -> Found:
        if self.rest is not None and len(targets):
            holds = self._true(self.rest, "on", rows, targets, sources)
            targets, sources = targets[holds], sources[holds]
        met = distinct(sources)
        actions = self._first(self.matched, 0, rows, targets, sources)
        acted = actions != _NO_ACTION
        self._refuse_two(rows, targets[acted])
        places, numbers, origins = targets[acted], actions[acted], sources[acted]
        if self.unmatched:
            alone = all_but(rows.num_rows, targets)
            done = sum(c.assignment is not None for c in self.matched)
            others = self._first(self.unmatched, done, rows, alone, None)
            acted = others != _NO_ACTION
            places = np.concatenate((places, alone[acted]))
            order = np.argsort(places, kind="stable")
            places = places[order]
            numbers = np.concatenate((numbers, others[acted]))[order]
            origins = np.concatenate((origins, np.full(int(acted.sum()), -1)))[order]
        return Found(places, numbers, origins, met)

    def _true(self, test: Expression, where: str, rows: pa.RecordBatch | None, targets: Any, sources: Any) -> Any:
        """Which pairs fulfil a condition. Only the columns that it names are taken."""
        named: dict[str, list[str]] = {TARGET: [], SOURCE: []}
        for reference in references_of(test):
            named[reference.parts[0]].append(reference.parts[1])
        tables = {}
        if rows is not None:
            tables[TARGET] = rows.select(list(dict.fromkeys(named[TARGET]))).take(pa.array(targets))
        if sources is not None:
            tables[SOURCE] = self.source.select(list(dict.fromkeys(named[SOURCE]))).take(pa.array(sources))
        return condition(test, tables, len(targets if sources is None else sources), where)

    def _first(self, clauses: Sequence[Clause], start: int, rows: pa.RecordBatch, targets: Any, sources: Any) -> Any:
        """For each pair, what the first clause says that applies to it. The clauses' assignments are numbered from `start`."""
        actions = np.full(len(targets), _NO_ACTION)
        number = start
        for clause in clauses:
            action = DELETED if clause.assignment is None else number
            number += clause.assignment is not None
            left = np.flatnonzero(actions == _NO_ACTION)
            if clause.condition is not None and len(left):
                partners = None if sources is None else sources[left]
                left = left[self._true(clause.condition, "a clause's condition", rows, targets[left], partners)]
            actions[left] = action
        return actions

    def _refuse_two(self, rows: pa.RecordBatch, targets: Any) -> None:
        twice = targets[:-1][targets[1:] == targets[:-1]]
        if not len(twice):
            return
        names = dict.fromkeys(r.parts[1] for k in self.keys for r in references_of(k.target)) or self.columns
        row = rows.select(list(names)).slice(int(twice[0]), 1).to_pylist()[0]
        told = ", ".join(f"{name} = {value!r}" for name, value in row.items())
        raise InvalidArgument(
            f"two rows of the source change the same row of the table: {told}",
            next_step="leave one row for each key in the source, or add a condition to the clauses",
        )

    @cached_property
    def _widths(self) -> Any:
        return np.append(widths(self.source), 0)

    def parts(self, sources: Any) -> Iterator[slice]:
        return spans(self._widths[sources])

    def make(self, rows: pa.RecordBatch, actions: Any, sources: Any) -> pa.RecordBatch:
        numbers = distinct(actions)
        if len(numbers) == 1:
            return self._assigned(int(numbers[0]), rows, sources)
        parts, places = [], []
        for number in numbers.tolist():
            here = np.flatnonzero(actions == number)
            parts.append(self._assigned(number, rows.take(pa.array(here)), sources[here]))
            places.append(here)
        return one_batch(parts).take(pa.array(np.argsort(np.concatenate(places))))

    def _assigned(self, number: int, rows: pa.RecordBatch, sources: Any) -> pa.RecordBatch:
        tables: dict[str, Any] = {TARGET: rows}
        if len(sources) and sources[0] >= 0:
            tables[SOURCE] = self.source.take(pa.array(sources))
        return self._assignments[number].applied(tables, rows.num_rows)

    def inserted(self, met: Any) -> pa.Table | None:
        if not self.absent_rows:
            return None
        left = all_but(self.source.num_rows, met)
        parts = []
        for clause in self.absent_rows:
            assert clause.assignment is not None
            holds = np.ones(len(left), bool)
            if clause.condition is not None:
                holds = self._true(clause.condition, "a clause's condition", None, None, left)
            chosen = left[holds]
            for span in self.parts(chosen):
                rows = self.source.take(pa.array(chosen[span]))
                parts.append(clause.assignment.applied({SOURCE: rows}, rows.num_rows))
            left = left[~holds]
        return pa.Table.from_batches(parts) if parts else None


def _array(values: Any, rows: int) -> pa.Array:
    return pa.repeat(values, rows) if isinstance(values, pa.Scalar) else values


def _column(expression: Expression) -> str:
    """The name of the column that an expression is; empty for others."""
    parts: Mapping[int, str] = dict(enumerate(getattr(expression, "parts", ())))
    return parts[1] if len(parts) == 2 else ""


def _range(name: str, values: pa.Array) -> Predicate | None:
    """A predicate that is true for all of some values; None for types whose order Arrow and the format see in two ways."""
    t = values.type
    whole = pa.types.is_integer(t) or pa.types.is_date(t) or pa.types.is_decimal(t)
    text = pa.types.is_string(t) or pa.types.is_large_string(t)
    time = pa.types.is_timestamp(t) and t.unit != "ns"
    if not (whole or text or time):
        return None
    known = pc.unique(values).drop_null()
    if len(known) <= _MOST_VALUES:
        return Comparison("in", name, tuple(known.to_pylist()))
    least, most = (pc.min_max(values)[bound].as_py() for bound in ("min", "max"))
    return Comparison(">=", name, (least,)) & Comparison("<=", name, (most,))
