"""Expressions: values computed from the columns of a row, or of a pair of rows. A condition is one that is true or false.

Owns: the nodes of the tree, `lit`, walks over it, and its text. Must not know: Arrow (see `evaluate`), how text is read (`sql`),
the types of columns (`binding`).
Source: architecture §5; format/statistics §3.

Invariants: A tree is frozen and hashable, and can be pickled to another machine. It follows SQL's three-valued logic: a
comparison with null is unknown, and so is its negation. A row is kept only if its condition is true.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from decimal import Decimal
from typing import Any

from ..errors import InvalidArgument
from ..rows.java_text import timestamp_sql
from ..rows.literals import Instant, Nanos
from ..rows.types import DataType, sql

TARGET, SOURCE = "target", "source"
"""The tables that bound references name: the one that is read or changed, and in a MERGE the one with the new rows."""

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
NULL_TESTS = ("is_null", "is_not_null")
TEXT_TESTS = ("starts_with", "ends_with", "contains", "like")
OPERATORS = (*COMPARISONS, *NULL_TESTS, *TEXT_TESTS, "in")

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Operator -> the operator that gives the same with its sides exchanged."""

COMPLEMENT = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
    "is_null": "is_not_null",
    "is_not_null": "is_null",
}
"""Operator -> the operator that is true exactly if the first is false; unknown stays unknown."""


class Expression:
    """The base class of expressions. Combine conditions with ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return And(_parts(And, self) + _parts(And, _checked(other)))

    def __or__(self, other: Expression) -> Expression:
        return Or(_parts(Or, self) + _parts(Or, _checked(other)))

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise InvalidArgument(
            "a predicate is not true or false until it is applied to a row",
            next_step="combine predicates with & | ~ instead of and, or, not, and put each comparison in brackets",
        )


@dataclass(frozen=True, slots=True)
class Literal(Expression):
    """A value that is the same for every row; see `lit`.

    Attributes:
        kind: the SQL type that the text names (`DATE '…'`); empty for others.
    """

    value: Any
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {literal_text(self.value)}".strip()


@dataclass(frozen=True, slots=True)
class Reference(Expression):
    """A column, or a field of one, by the words of its name: `("t", "id")`, `("id",)`, `("t", "st", "a")`.

    Attributes:
        bound: does the first word name the table (see `names`)?
    """

    parts: tuple[str, ...]
    bound: bool = field(default=False, compare=False)

    @property
    def column(self) -> str:
        """The column, of a bound reference; of another one, its first word."""
        return self.parts[1 if self.bound else 0]

    def __str__(self) -> str:
        shown = self.parts[1:] if self.bound and self.parts[0] == TARGET else self.parts
        return ".".join(map(name_text, shown))


@dataclass(frozen=True, slots=True)
class Call(Expression):
    """An operator or a function, by its name in lower case, and what it is applied to."""

    name: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        name, texts = self.name, list(map(_inner, self.arguments))
        if name == "in":
            return f"{texts[0]} IN ({', '.join(map(str, self.arguments[1:]))})"
        if name in ("is_null", "negate"):
            return f"{texts[0]} IS NULL" if name == "is_null" else f"- {texts[0]}"
        if not name.isidentifier() or name == "like":
            return f"{texts[0]} {'<>' if name == '!=' else name.upper()} {texts[1]}"
        return f"{name.upper()}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """`CASE WHEN … THEN … ELSE … END`: the value of the first condition that is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression

    def __str__(self) -> str:
        whens = " ".join(f"WHEN {test} THEN {value}" for test, value in self.branches)
        return f"CASE {whens} ELSE {self.otherwise} END"


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """`CAST(… AS type)`."""

    value: Expression
    type: DataType

    def __str__(self) -> str:
        return f"CAST({self.value} AS {sql(self.type)})"


@dataclass(frozen=True, slots=True)
class InZone(Expression):
    """A value in whose computation a time without a zone is one of this zone."""

    value: Expression
    zone: tzinfo

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Comparison(Expression):
    """One test of one column, or of one field of a ROW column, against values: what statistics and indexes can answer.

    Attributes:
        op: one of `OPERATORS`.
        column: the name of the column. Before it is bound, it may be the path to a field: `st.a` (see `col`).
        literals: the values to compare with: none for null tests, any number for `in`, and one for other operators.
            An empty `in` is never true.
        path: the names that lead from the column to the field that is tested; empty if the column itself is tested.
    """

    op: str
    column: str
    literals: tuple[Any, ...] = ()
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = ".".join(map(name_text, (self.column, *self.path)))
        texts = [literal_text(v) for v in self.literals]
        if self.op in NULL_TESTS:
            return f"{name} {self.op.replace('_', ' ').upper()}"
        if self.op == "in":
            return f"{name} IN ({', '.join(texts)})"
        if self.op in COMPARISONS:
            return f"{name} {self.op} {texts[0]}"
        return f"{name} LIKE {literal_text(self._pattern())}"

    def _pattern(self) -> Any:
        value = self.literals[0]
        if self.op == "like" or not isinstance(value, str):
            return value
        text = re.sub(r"([%_\\])", r"\\\1", value)
        return f"{'' if self.op == 'starts_with' else '%'}{text}{'' if self.op == 'ends_with' else '%'}"


@dataclass(frozen=True, slots=True)
class And(Expression):
    """True if all parts are true."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts) or "TRUE"


@dataclass(frozen=True, slots=True)
class Or(Expression):
    """True if any part is true."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " OR ".join(str(p) for p in self.parts) or "FALSE"


@dataclass(frozen=True, slots=True)
class Not(Expression):
    """True if the part is false, and unknown if it is unknown."""

    part: Expression

    def __str__(self) -> str:
        return f"NOT ({self.part})"


Predicate = Expression
"""An expression that is true, false or unknown for each row."""


def lit(value: Any) -> Literal:
    """A value for a column, where text alone would be read as an SQL expression.

    Args:
        value: None, or a value of the column's type in any form that a filter accepts.

    >>> lit("late").value
    'late'
    """
    return value if isinstance(value, Literal) else Literal(value)


def _parts(kind: type[And | Or], expression: Expression) -> tuple[Expression, ...]:
    return expression.parts if isinstance(expression, kind) else (expression,)


def _checked(other: Any) -> Expression:
    if not isinstance(other, Expression):
        raise InvalidArgument(
            f"{other!r} is not a predicate",
            next_step="put each comparison in brackets: (col('a') == 1) & (col('b') > 2)",
        )
    return other


# --------------------------------------------------------------------------------------------------------------- text


def name_text(name: str) -> str:
    """A name as it is written in SQL: quoted, unless it is a plain word."""
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def literal_text(value: Any) -> str:
    """A value as it is written in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, Nanos):
        return f"TIMESTAMP '{timestamp_sql(value, 0)}{'Z' if isinstance(value, Instant) else ''}'"
    if isinstance(value, (int, float, Decimal)):
        return str(value) if math.isfinite(value) else f"'{value}'"
    return "'" + str(value).replace("'", "''") + "'"


def _inner(part: Expression) -> str:
    simple = isinstance(part, (Literal, Reference, Case, Cast)) or (isinstance(part, Call) and part.name.isidentifier())
    return str(part) if simple else f"({part})"


# -------------------------------------------------------------------------------------------------------------- walks


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that an expression is made of, from left to right."""
    match expression:
        case Call(arguments=parts) | And(parts=parts) | Or(parts=parts):
            return parts
        case Not(part=part) | Cast(value=part) | InZone(value=part):
            return (part,)
        case Case(branches=branches, otherwise=otherwise):
            return (*(part for branch in branches for part in branch), otherwise)
        case Literal() | Reference() | Comparison():
            return ()
        case _:
            raise InvalidArgument(f"{expression!r} is not a predicate", next_step="build it with col(...)")


def rebuilt(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same expression, made of its changed children."""
    match expression:
        case Call(arguments=arguments):
            return replace(expression, arguments=tuple(map(change, arguments)))
        case And(parts=parts) | Or(parts=parts):
            return type(expression)(tuple(map(change, parts)))
        case Not(part=part):
            return Not(change(part))
        case Cast(value=value) | InZone(value=value):
            return replace(expression, value=change(value))
        case Case(branches=branches, otherwise=otherwise):
            return Case(tuple((change(test), change(value)) for test, value in branches), change(otherwise))
        case _:
            return expression


def nodes(expression: Expression) -> Iterator[Expression]:
    """An expression and all that it is made of, from left to right."""
    yield expression
    for part in children(expression):
        yield from nodes(part)


def references_of(expression: Expression) -> Iterator[Reference]:
    """The columns that an expression refers to, in order, each as often as it is named."""
    for node in nodes(expression):
        if isinstance(node, Reference):
            yield node
        elif isinstance(node, Comparison):
            yield Reference((TARGET, node.column, *node.path), bound=True)


def columns_of(expression: Expression) -> frozenset[str]:
    """The columns that an expression refers to, each as a whole where only a field of it is meant.

    >>> sorted(columns_of(And((Comparison("=", "a", (1,)), Comparison("is_null", "b")))))
    ['a', 'b']
    """
    return frozenset(reference.column for reference in references_of(expression))


def comparisons(expression: Expression) -> Iterator[Comparison]:
    """The comparisons of a condition with values, from left to right."""
    return (node for node in nodes(expression) if isinstance(node, Comparison))


def transformed(expression: Expression, leaf: Callable[[Comparison], Expression]) -> Expression:
    """The same expression, with every comparison replaced by the result of `leaf`."""
    if isinstance(expression, Comparison):
        return leaf(expression)
    return rebuilt(expression, lambda part: transformed(part, leaf))


def may_be_unknown(condition: Expression) -> bool:
    """May a condition be unknown for a row whose columns that it names all have values?

    >>> may_be_unknown(Comparison("in", "a", (1, None))), may_be_unknown(Comparison("is_null", "a"))
    (True, False)
    """
    match condition:
        case Comparison(literals=literals):
            return any(value is None for value in literals)
        case And() | Or() | Not():
            return any(map(may_be_unknown, children(condition)))
        case _:
            return True


def conjuncts(expression: Expression) -> tuple[Expression, ...]:
    """The parts that must all be true for a condition to be true."""
    if isinstance(expression, And):
        return tuple(part for parts in expression.parts for part in conjuncts(parts))
    return (expression,)


def all_of(parts: tuple[Expression, ...] | list[Expression]) -> Expression | None:
    """The condition that all parts are true; None for no parts."""
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))
