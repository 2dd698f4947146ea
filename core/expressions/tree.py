"""Expressions: values computed from the columns of a row, or of a pair of rows.

Owns: the nodes of the tree, `lit`, and the names that a tree refers to. Must not know: Arrow (see `evaluate`), SQL text (`sql`).
Source: architecture §5. Invariant: a tree is frozen, and can be pickled to another machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..rows.types import DataType


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is the same for every row; see `lit`.

    Attributes:
        kind: the SQL type that the text names (`DATE '…'`); empty for others.
    """

    value: Any
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column, or a field of one, by the words of its name: `("t", "id")`, `("id",)`, `("t", "st", "a")`."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function, by its name in lower case, and what it is applied to."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """`CASE WHEN … THEN … ELSE … END`: the value of the first condition that is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(… AS type)`."""

    value: Expression
    type: DataType


Expression: TypeAlias = "Literal | Reference | Call | Case | Cast"


def lit(value: Any) -> Literal:
    """A value for a column, where text alone would be read as an SQL expression.

    Args:
        value: None, or a value of the column's type in any form that a filter accepts.

    >>> lit("late").value
    'late'
    """
    return value if isinstance(value, Literal) else Literal(value)


def references_of(expression: Expression) -> Iterator[Reference]:
    """The columns that an expression refers to, in order, each as often as it is named."""
    match expression:
        case Reference():
            yield expression
        case Call(arguments=arguments):
            for argument in arguments:
                yield from references_of(argument)
        case Case(branches=branches, otherwise=otherwise):
            for condition, value in branches:
                yield from references_of(condition)
                yield from references_of(value)
            yield from references_of(otherwise)
        case Cast(value=value):
            yield from references_of(value)
        case Literal():
            return


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts that must all be true for a condition to be true."""
    if isinstance(expression, Call) and expression.name == "and":
        return tuple(part for argument in expression.arguments for part in conjuncts(argument))
    return (expression,)
