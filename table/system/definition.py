"""What a system table is: a name, columns, and a way to read its rows.

Owns: `SystemTable`, `View`, `Wanted`; columns by their SQL types; rows as Arrow. Must not know: any one table.
Source: format/snapshot §6. Invariant: a table may leave out rows that cannot match the predicate; whoever asked tests them all.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import pyarrow as pa

from ...coordinator.history.timeline import Timeline
from ...core.expressions.evaluate import rows_kept
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.rows.arrow import arrow_schema
from ...core.rows.types import ArrayType, Field, parse_atomic, string
from ...core.statistics.pruning import split_predicate

Rows = Iterator[pa.Table]

TEXTS = ArrayType(string())


@dataclass(frozen=True)
class View:
    """The table that a system table describes; `schema` is the newest, or that of the snapshot chosen with `at` (`pinned`)."""

    timeline: Timeline
    snapshot: Snapshot | None
    schema: TableSchema
    pinned: bool = False

    @property
    def root(self) -> str:
        return self.timeline.store.url.rstrip("/")

    def schema_of(self, schema_id: int) -> TableSchema:
        return self.schema if schema_id == self.schema.id else self.timeline.schema(schema_id)


@dataclass(frozen=True)
class Wanted:
    """What is asked of a system table: `names` are the columns that are needed, also by the bound predicate `where`."""

    names: frozenset[str]
    where: Predicate | None = None
    fields: tuple[Field, ...] = ()

    def kept(self, **columns: Sequence[Any]) -> list[bool]:
        """Of which rows, given by the values of some columns, it is not known that they do not match.

        >>> from ...core.expressions.columns import col
        >>> wanted = Wanted(frozenset(), (col("id") > 2) & (col("x") == 1), columns(("id", "INT"), ("x", "INT")))
        >>> wanted.kept(id=[2, 3])
        [False, True]
        """
        part = None if self.where is None else split_predicate(self.where, list(columns))[0]
        count = len(next(iter(columns.values())))
        return [True] * count if part is None or not count else rows_kept(part, columns, self.fields, count)

    def among(self, column: str, values: Iterable[Any]) -> list[Any]:
        """The values of a column that a row which matches can have."""
        given = list(values)
        return list(compress(given, self.kept(**{column: given})))


@dataclass(frozen=True)
class SystemTable:
    """A system table: its columns, which may depend on those of the table, and what reads at least the wanted ones."""

    name: str
    fields: Callable[[TableSchema], tuple[Field, ...]]
    rows: Callable[[View, Wanted], Rows]


def columns(*pairs: tuple[str, str]) -> tuple[Field, ...]:
    """Columns by name and SQL type; `TEXTS` is an array of texts."""
    return tuple(
        Field(i, name, TEXTS if kind == "TEXTS" else parse_atomic(kind)) for i, (name, kind) in enumerate(pairs)
    )


def fixed(
    name: str, fields: tuple[Field, ...], rows: Callable[[View, Wanted], Iterable[Mapping[str, Any]]]
) -> SystemTable:
    def tables(view: View, wanted: Wanted) -> Rows:
        yield table_of(fields, list(rows(view, wanted)))

    return SystemTable(name, lambda schema: fields, tables)


def table_of(fields: Sequence[Field], rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    schema = arrow_schema(fields)
    return pa.table([pa.array([row.get(f.name) for row in rows], f.type) for f in schema], schema=schema)


def with_rows(table: pa.Table, rows: int) -> pa.Table:
    """A table that has a number of rows even if it has no columns."""
    return table if table.num_columns else pa.table({"": pa.nulls(rows)}).select([])


def local_time(millis: int | None) -> int | None:
    """A point in time as the wall clock of this machine (TZ) shows it, in milliseconds, as in Apache Paimon's tables."""
    if millis is None:
        return None
    try:
        offset = dt.datetime.fromtimestamp(millis / 1000).astimezone().utcoffset()
    except (ValueError, OverflowError, OSError):
        return millis
    return millis if offset is None else millis + int(offset.total_seconds() * 1000)
