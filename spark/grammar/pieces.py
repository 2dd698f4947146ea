"""What statements are made of: names, pieces of text, and queries.

Owns: these values. Must not know: how statements are read, sessions, tables.
Source: decision 123. Invariant: expressions and queries are kept as they were written, byte for byte; a `Query` has
blanks where the statement had other clauses, so that a place in it is the same place in the statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .words import Word


@dataclass(frozen=True)
class Name:
    """A name in one or more parts, without quotes; `start` and `end` are its place in the statement."""

    parts: tuple[str, ...]
    start: int = 0
    end: int = 0

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Text:
    """A piece of the statement as it was written. `line` and `column` are counted from 1."""

    text: str
    start: int = 0
    line: int = 1
    column: int = 1


@dataclass(frozen=True)
class Travel:
    """`VERSION AS OF` or `TIMESTAMP AS OF`, also as `t@v3` and `t@20260101000000000`; `value` is an expression of SQL."""

    kind: Literal["version", "timestamp"]
    value: Text


@dataclass(frozen=True)
class TableUse:
    """A place where rows of a table are read: from `start` to `end` are its name, time travel and options.

    Attributes:
        aliased: does the statement give it another name, or forbid one?
        alias_at: where another name goes.
        scope: a number that those have in common that stand in one FROM.
        options: those of `WITH (…)` behind the name; None without it.
    """

    name: Name
    start: int
    end: int
    aliased: bool
    alias_at: int
    travel: Travel | None = None
    scope: int = 0
    options: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Query:
    """A statement whose tables are only read, or the query of one.

    Attributes:
        text: as long as the statement, with blanks where that has other clauses.
        references: the names of several parts that are no tables, such as `air.flights.month`.
        what: its first words, such as `CREATE VIEW`.
        persists: does Spark keep its text, and run it later?
        aliases: the other names of tables, and the names of queries, in lower case.
    """

    text: str
    tables: tuple[TableUse, ...] = ()
    references: tuple[Name, ...] = ()
    what: str = "SELECT"
    persists: bool = False
    aliases: frozenset[str] = frozenset()

    @property
    def travels(self) -> bool:
        """Does it name old snapshots?"""
        return any(use.travel is not None for use in self.tables)


@dataclass(frozen=True)
class Condition:
    """A condition or value of rows: its text, the queries inside of it, and its words."""

    text: Text
    subqueries: tuple[Subquery, ...] = ()
    words: tuple[Word, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class Subquery:
    """`( query )` inside of a condition; `start` and `end` are the places of the parentheses."""

    start: int
    end: int
    query: Query
    kind: Literal["scalar", "in", "exists"]
