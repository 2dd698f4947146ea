"""The tables that an expression may name, and their columns.

Owns: `Names`, which binds the references of an expression. Must not know: values, SQL text, types.
Source: architecture §5. Invariant: a name that could mean two columns is refused, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..errors import InvalidArgument
from ..rows.partition import closest
from .tree import Expression, Reference, rebuilt

_PART = re.compile(r"`([^`]+)`|([^.`]+)")
_PATH = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))+")


def located(words: Sequence[str], known: Container[str]) -> tuple[str, ...] | None:
    """The column that some words name, and the fields from there; None if there is none.

    A column that is named by the first word comes before one whose whole name has dots. A single word may hold a path, as
    `ll.col("st.a")` does, and then the column of that whole name comes first.

    >>> located(("st", "a"), ["st"]), located(("st.`a b`",), ["st"]), located(("st.a",), ["st", "st.a"])
    (('st', 'a'), ('st', 'a b'), ('st.a',))
    """
    if words[0] in known:
        return tuple(words)
    whole = ".".join(words)
    if whole in known:
        return (whole,)
    if len(words) == 1 and _PATH.fullmatch(words[0]):
        path = tuple(quoted or plain for quoted, plain in _PART.findall(words[0]))
        return path if path[0] in known else None
    return None


@dataclass(frozen=True)
class Names:
    """The columns of the tables `target` and `source`, and the tables' other names."""

    columns: Mapping[str, Sequence[str]]
    aliases: Mapping[str, str]

    @cached_property
    def _known(self) -> dict[str, frozenset[str]]:
        return {table: frozenset(names) for table, names in self.columns.items()}

    def bound(self, expression: Expression, where: str, only: str | None = None) -> Expression:
        """Each reference becomes `(table, column, field …)`, only of table `only` if given. Raises InvalidArgument."""
        if isinstance(expression, Reference):
            return expression if expression.bound else self._found(expression, where, only)
        return rebuilt(expression, lambda part: self.bound(part, where, only))

    def _found(self, reference: Reference, where: str, only: str | None) -> Reference:
        first, *rest = reference.parts
        table = self._table(first)
        of_table = located(rest, self._known[table]) if table is not None and rest else None
        if of_table is not None and table is not None:
            if only is not None and table != only:
                raise InvalidArgument(
                    f"{where}: '{reference}' is a column of the {table}, which has no row here",
                    next_step=f"use columns of the {only} only",
                )
            return Reference((table, *of_table), bound=True)
        found = {t: located(reference.parts, names) for t, names in self._known.items() if only in (None, t)}
        owners = [(t, path) for t, path in found.items() if path is not None]
        if len(owners) == 1:
            return Reference((owners[0][0], *owners[0][1]), bound=True)
        if owners:
            names = " or ".join(f"{self._alias(owner)}.{reference}" for owner, _ in owners)
            raise InvalidArgument(f"{where}: '{reference}' is ambiguous", next_step=f"write {names}")
        known = [name for t, names in self.columns.items() if only in (None, t) for name in names]
        missing = rest[0] if table is not None and rest else first
        raise InvalidArgument(f"{where}: there is no column '{reference}'", next_step=closest(missing, known))

    def _table(self, word: str) -> str | None:
        """The table that a word names. Where there is only one, its columns come before its name."""
        if word in self.aliases or word not in self.columns:
            return self.aliases.get(word)
        return None if len(self.columns) == 1 and word in self._known[word] else word

    def _alias(self, table: str) -> str:
        return next((alias for alias, meant in self.aliases.items() if meant == table), table)
