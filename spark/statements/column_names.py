"""Which column of which table a name in a statement means.

Owns: `Table`, `ColumnNames`. Must not know: what becomes of the column. Source: decision 123.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.errors import InvalidArgument
from ..columns import named
from ..grammar.pieces import Name
from ..grammar.words import at


@dataclass(frozen=True)
class Table:
    """What names of one table look like.

    Attributes:
        qualifiers: the words before the dot.
        word: the word for the table in the result.
        singles: the columns of type FLOAT. Spark compares them, and counts with them, as doubles.
    """

    columns: Sequence[str]
    qualifiers: Sequence[tuple[str, ...]]
    word: str | None
    singles: frozenset[str] = frozenset()


def qualifiers_of(name: Name, alias: str | None, full: Sequence[str] = ()) -> list[tuple[str, ...]]:
    """What may stand before a column: the alias alone, or the name with fewer and fewer parts in front."""
    if alias is not None:
        return [(alias,)]
    found: list[tuple[str, ...]] = []
    for parts in (tuple(full), name.parts):
        found += [parts[start:] for start in range(len(parts))]
    return sorted(dict.fromkeys(found), key=len, reverse=True)


@dataclass(frozen=True)
class ColumnNames:
    """The columns that a statement may name.

    Attributes:
        text: the statement, for the places of errors.
        tells_case: are `a` and `A` two columns?
    """

    text: str
    tables: Sequence[Table]
    tells_case: bool

    def column(self, name: Name) -> str | None:
        """The column as `t`.`a`, or None."""
        owners = [(table, path) for table in self.tables if (path := self.path(name.parts, table)) is not None]
        qualified = [(table, path) for table, path in owners if self._qualified(name.parts, table)]
        owners = qualified or owners
        if not owners:
            return None
        if len(owners) > 1:
            raise InvalidArgument(
                f"[AMBIGUOUS_REFERENCE] {name}, {at(self.text, name.start)}, is a column of the table and of the source",
                next_step="write the table's name before it",
            )
        table, path = owners[0]
        found = ".".join("`" + part.replace("`", "``") + "`" for part in ((table.word, *path) if table.word else path))
        return f"CAST({found} AS DOUBLE)" if path[0] in table.singles and len(path) == 1 else found

    def path(self, parts: Sequence[str], table: Table) -> tuple[str, ...] | None:
        """The column and fields that a name means in a table: first with what stands before a column, then without."""
        for qualifier in table.qualifiers:
            if len(parts) > len(qualifier) and self._same(parts[: len(qualifier)], qualifier):
                column = self._known_column(parts[len(qualifier)], table)
                if column is not None:
                    return (column, *parts[len(qualifier) + 1 :])
        column = self._known_column(parts[0], table)
        return None if column is None else (column, *parts[1:])

    def missing(self, name: Name) -> InvalidArgument:
        """The error for a name that is no column."""
        known = ", ".join(column for table in self.tables for column in table.columns)
        return InvalidArgument(
            f"[UNRESOLVED_COLUMN] there is no column {name}, {at(self.text, name.start)}",
            next_step=f"there are {known}",
        )

    def knows(self, name: Name) -> bool:
        """Is it a column, or does a column begin with it?"""
        return any(self.path(name.parts, table) is not None for table in self.tables) or any(
            self._same(name.parts, qualifier[:1]) for table in self.tables for qualifier in table.qualifiers
        )

    def _qualified(self, parts: Sequence[str], table: Table) -> bool:
        return any(self._same(parts[: len(q)], q) and len(parts) > len(q) for q in table.qualifiers)

    def _known_column(self, word: str, table: Table) -> str | None:
        return named(word, table.columns, self.tells_case)

    @staticmethod
    def _same(some: Sequence[str], others: Sequence[str]) -> bool:
        return [part.lower() for part in some] == [part.lower() for part in others]
