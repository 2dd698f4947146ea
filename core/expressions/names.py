"""The tables that an expression may name, and their columns.

Owns: `Names`, which binds the references of an expression. Must not know: values, SQL text.
Source: architecture §5. Invariant: a name that could mean two columns is refused, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import InvalidArgument
from ..rows.partition import closest
from .tree import Call, Case, Cast, Expression, Literal, Reference


@dataclass(frozen=True)
class Names:
    """The columns of some tables.

    Attributes:
        columns: for each table (`target`, `source`), the names of its columns.
        aliases: the other names of the tables.
    """

    columns: Mapping[str, Sequence[str]]
    aliases: Mapping[str, str]

    @cached_property
    def _known(self) -> dict[str, frozenset[str]]:
        return {table: frozenset(names) for table, names in self.columns.items()}

    def bound(self, expression: Expression, where: str, only: str | None = None) -> Expression:
        """The expression with each reference as `(table, column, field …)`.

        Args:
            where: what the expression is for, for errors.
            only: the one table whose columns may be named here.

        Raises:
            InvalidArgument: a name is unknown or ambiguous, or its table has no row here.
        """
        match expression:
            case Reference():
                return self._found(expression, where, only)
            case Call(arguments=arguments):
                return replace(expression, arguments=tuple(self.bound(a, where, only) for a in arguments))
            case Case(branches=branches, otherwise=otherwise):
                bound = tuple((self.bound(c, where, only), self.bound(v, where, only)) for c, v in branches)
                return Case(bound, self.bound(otherwise, where, only))
            case Cast(value=value):
                return replace(expression, value=self.bound(value, where, only))
            case Literal():
                return expression

    def _found(self, reference: Reference, where: str, only: str | None) -> Reference:
        first, *rest = reference.parts
        table = self.aliases.get(first, first if first in self.columns else None)
        if table is not None and rest and rest[0] in self._known[table]:
            if only is not None and table != only:
                raise InvalidArgument(
                    f"{where}: '{reference}' is a column of the {table}, which has no row here",
                    next_step=f"use columns of the {only} only",
                )
            return Reference((table, *rest))
        owners = [t for t, names in self._known.items() if first in names and only in (None, t)]
        if len(owners) == 1:
            return Reference((owners[0], first, *rest))
        if owners:
            names = " or ".join(f"{self._alias(owner)}.{reference}" for owner in owners)
            raise InvalidArgument(f"{where}: '{reference}' is ambiguous", next_step=f"write {names}")
        known = [name for t, names in self.columns.items() if only in (None, t) for name in names]
        missing = rest[0] if table is not None and rest else first
        raise InvalidArgument(f"{where}: there is no column '{reference}'", next_step=closest(missing, known))

    def _alias(self, table: str) -> str:
        return next((alias for alias, meant in self.aliases.items() if meant == table), table)
