"""Predicates, which are conditions on rows.

Owns: the tree (`Comparison`, `And`, `Or`, `Not`), `col()`, and binding, which checks columns and coerces literals.
Must not know: Arrow (see `arrow`), SQL text (`sql`), statistics (`pruning`).
Sources: architecture §5; format/statistics §3; format/binary-row §2 (floats).

Invariants: A predicate is frozen and hashable. It follows SQL's three-valued logic: a comparison with null is unknown, and
so is its negation. A row is kept only if the predicate is true. FLOAT and DOUBLE compare as in Java (NaN is the largest,
-0.0 is below 0.0).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from ..errors import InvalidArgument
from ..rows.java_text import timestamp_sql
from ..rows.literals import Instant, Nanos, coerce_literal, exact_number, integer_range, plain_scalar
from ..rows.partition import closest
from ..rows.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, AtomicType, DataType, Field, RowType, sql
from ..rows.values import EXACT, decimal_of, root_of

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
NULL_TESTS = ("is_null", "is_not_null")
TEXT_TESTS = ("starts_with", "ends_with", "contains", "like")
OPERATORS = (*COMPARISONS, *NULL_TESTS, *TEXT_TESTS, "in")

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

_PART = re.compile(r"`([^`]+)`|([^.`]+)")
_PATH = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))+")


class Predicate:
    """The base class of predicates. Combine them with ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __and__(self, other: Predicate) -> Predicate:
        return And(_parts(And, self) + _parts(And, _checked(other)))

    def __or__(self, other: Predicate) -> Predicate:
        return Or(_parts(Or, self) + _parts(Or, _checked(other)))

    def __invert__(self) -> Predicate:
        return Not(self)

    def __bool__(self) -> bool:
        raise InvalidArgument(
            "a predicate is not true or false until it is applied to a row",
            next_step="combine predicates with & | ~ instead of and, or, not, and put each comparison in brackets",
        )


@dataclass(frozen=True, slots=True)
class Comparison(Predicate):
    """One test of one column, or of one field of a ROW column.

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
        name = ".".join(map(_name_text, (self.column, *self.path)))
        texts = [_literal_text(v) for v in self.literals]
        if self.op in NULL_TESTS:
            return f"{name} {self.op.replace('_', ' ').upper()}"
        if self.op == "in":
            return f"{name} IN ({', '.join(texts)})"
        if self.op in COMPARISONS:
            return f"{name} {self.op} {texts[0]}"
        return f"{name} {self.op.replace('_', ' ').upper()} {texts[0]}"


@dataclass(frozen=True, slots=True)
class And(Predicate):
    """True if all parts are true."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({p})" if isinstance(p, Or) else str(p) for p in self.parts) or "TRUE"


@dataclass(frozen=True, slots=True)
class Or(Predicate):
    """True if any part is true."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(str(p) for p in self.parts) or "FALSE"


@dataclass(frozen=True, slots=True)
class Not(Predicate):
    """True if the part is false, and unknown if it is unknown."""

    part: Predicate

    def __str__(self) -> str:
        return f"NOT ({self.part})"


def _parts(kind: type[And | Or], predicate: Predicate) -> tuple[Predicate, ...]:
    return predicate.parts if isinstance(predicate, kind) else (predicate,)


def _checked(other: Any) -> Predicate:
    if not isinstance(other, Predicate):
        raise InvalidArgument(
            f"{other!r} is not a predicate",
            next_step="put each comparison in brackets: (col('a') == 1) & (col('b') > 2)",
        )
    return other


def _name_text(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"


def _literal_text(value: Any) -> str:
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


# ------------------------------------------------------------------------------------------------------------ columns


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """A column in an expression; see `col`."""

    name: str

    def __eq__(self, other: object) -> Predicate:  # type: ignore[override]
        return self._compare("=", other)

    def __ne__(self, other: object) -> Predicate:  # type: ignore[override]
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Predicate:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Predicate:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Predicate:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Predicate:
        return self._compare(">=", other)

    def __hash__(self) -> int:
        return hash(self.name)

    def __bool__(self) -> bool:
        raise InvalidArgument(f"column '{self.name}' is not a condition", next_step="compare it: col('a') == True")

    def _compare(self, op: str, other: Any) -> Predicate:
        if other is None:
            raise InvalidArgument(
                f"column '{self.name}' {op} None is never true", next_step="use .is_null() or .is_not_null()"
            )
        return Comparison(op, self.name, (_literal(self.name, other),))

    def is_null(self) -> Predicate:
        return Comparison("is_null", self.name)

    def is_not_null(self) -> Predicate:
        return Comparison("is_not_null", self.name)

    def is_in(self, values: Iterable[Any]) -> Predicate:
        """True if the column equals one of the values."""
        if isinstance(values, (str, bytes)):
            raise InvalidArgument(f"column '{self.name}': is_in needs a list of values, not {values!r}")
        return Comparison("in", self.name, tuple(_literal(self.name, v) for v in values))

    def between(self, low: Any, high: Any) -> Predicate:
        """True for values from `low` to `high`, both included."""
        return self._compare(">=", low) & self._compare("<=", high)

    def starts_with(self, text: str | bytes) -> Predicate:
        return Comparison("starts_with", self.name, (_literal(self.name, text),))

    def ends_with(self, text: str | bytes) -> Predicate:
        return Comparison("ends_with", self.name, (_literal(self.name, text),))

    def contains(self, text: str | bytes) -> Predicate:
        return Comparison("contains", self.name, (_literal(self.name, text),))

    def like(self, pattern: str) -> Predicate:
        r"""SQL's LIKE: `%` matches any text, `_` any character, and `\` escapes both."""
        return Comparison("like", self.name, (_literal(self.name, pattern),))


def _literal(column: str, value: Any) -> Any:
    if isinstance(value, (Column, Predicate)):
        raise InvalidArgument(
            f"column '{column}' can be compared with a value only, not with another column or condition"
        )
    return plain_scalar(bytes(value) if isinstance(value, (bytearray, memoryview)) else value)


def col(name: str) -> Column:
    """A column for use in conditions.

    Args:
        name: the name of a column, or the path to a field of a ROW column: `st.a`. A column whose whole name is `st.a` comes
            first. In a path, names that hold a dot are written in backticks.

    >>> str((col("month") == 1) & ~col("carrier").is_in(["AA", "UA"]))
    "month = 1 AND NOT (carrier IN ('AA', 'UA'))"
    """
    return Column(name)


# ------------------------------------------------------------------------------------------------------------- trees


def columns_of(predicate: Predicate) -> frozenset[str]:
    """The columns that a predicate tests, each as a whole where only a field of it is tested.

    >>> sorted(columns_of((col("a") == 1) | col("b").is_null()))
    ['a', 'b']
    """
    return frozenset(leaf.column for leaf in comparisons(predicate))


def compares_with_null(predicate: Predicate) -> bool:
    """Is there a null among the values that columns are compared with, so that it may be unknown for a row without nulls?

    >>> compares_with_null(col("a").is_in([1, None])), compares_with_null(col("a").is_null())
    (True, False)
    """
    return any(value is None for leaf in comparisons(predicate) for value in leaf.literals)


def comparisons(predicate: Predicate) -> Iterator[Comparison]:
    """The comparisons of a predicate, from left to right."""
    match predicate:
        case Comparison():
            yield predicate
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                yield from comparisons(part)
        case Not(part=part):
            yield from comparisons(part)
        case _:
            raise InvalidArgument(f"{predicate!r} is not a predicate", next_step="build it with col(...)")


def transformed(predicate: Predicate, leaf: Callable[[Comparison], Predicate]) -> Predicate:
    """The same tree, with every comparison replaced by the result of `leaf`."""
    match predicate:
        case Comparison():
            return leaf(predicate)
        case And(parts=parts):
            return And(tuple(transformed(p, leaf) for p in parts))
        case Or(parts=parts):
            return Or(tuple(transformed(p, leaf) for p in parts))
        case Not(part=part):
            return Not(transformed(part, leaf))
        case _:
            raise InvalidArgument(f"{predicate!r} is not a predicate", next_step="build it with col(...)")


# ------------------------------------------------------------------------------------------------------------ binding


def bind(predicate: Predicate, fields: Sequence[Field], zone: tzinfo | None = None) -> Predicate:
    """Convert the literals of a predicate to values of their columns. Binding twice changes nothing.

    A number between two values of an integer or DECIMAL column, or out of its range, is not an error. The comparison is
    replaced by an equivalent one with a value of the column (``int_column > 1.5`` becomes ``int_column > 1``).

    Args:
        predicate: the predicate as the user built it.
        fields: the columns of the table.
        zone: the zone of text and dates without one, where the column counts points in time (see `coerce_literal`); None
            refuses them.

    Raises:
        InvalidArgument: A column does not exist (the message lists similar ones), its type does not support the test, or
            a literal does not fit.

    >>> str(bind(col("a") > 1.5, [Field(0, "a", AtomicType("INT"))]))
    'a > 1'
    >>> bind(col("st.a") > 1, [Field(0, "st", RowType((Field(1, "a", AtomicType("INT")),)))])
    Comparison(op='>', column='st', literals=(1,), path=('a',))
    """
    by_name = {f.name: f for f in fields}
    return transformed(predicate, lambda leaf: _bound(leaf, by_name, zone))


def _bound(leaf: Comparison, by_name: Mapping[str, Field], zone: tzinfo | None) -> Predicate:
    leaf = _located(leaf, by_name)
    where = f"column '{'.'.join((leaf.column, *leaf.path))}'"
    if leaf.op not in OPERATORS:
        raise InvalidArgument(f"{where}: unknown operator {leaf.op!r}")
    data_type = type_at(by_name[leaf.column].type, leaf)
    if leaf.op in NULL_TESTS:
        return leaf
    root = root_of(data_type)
    if leaf.op in TEXT_TESTS and (
        root not in (*STRING_ROOTS, *BINARY_ROOTS) or (leaf.op == "like" and root in BINARY_ROOTS)
    ):
        raise InvalidArgument(f"{where} is of type {sql(data_type)}: {leaf.op} needs a column of text")
    if root in INTEGER_ROOTS or root == "DECIMAL":
        return _snapped(leaf, data_type, where)
    return replace(leaf, literals=tuple(coerce_literal(v, data_type, where, zone) for v in leaf.literals))


def _located(leaf: Comparison, by_name: Mapping[str, Field]) -> Comparison:
    """The comparison with the name of an existing column, and the path from there. A column's whole name comes first."""
    if leaf.column in by_name:
        return leaf
    whole = ".".join((leaf.column, *leaf.path))
    if whole in by_name:
        return replace(leaf, column=whole, path=())
    if not leaf.path and _PATH.fullmatch(leaf.column):
        first, *rest = (quoted or plain for quoted, plain in _PART.findall(leaf.column))
        if first in by_name:
            return replace(leaf, column=first, path=tuple(rest))
    raise InvalidArgument(f"there is no column '{whole}'", next_step=closest(leaf.column, list(by_name)))


def type_at(data_type: DataType, leaf: Comparison) -> DataType:
    """The type of what a bound comparison tests: that of its column, or of the field that its path leads to.

    Args:
        data_type: the type of the column.

    Raises:
        InvalidArgument: the path leads to no field of a ROW.
    """
    name = leaf.column
    for part in leaf.path:
        if not isinstance(data_type, RowType):
            raise InvalidArgument(
                f"column '{name}' is of type {sql(data_type)}, so there is no '{name}.{part}'",
                next_step="only the fields of a ROW can be tested by name",
            )
        found = next((f.type for f in data_type.fields if f.name == part), None)
        if found is None:
            raise InvalidArgument(
                f"column '{name}' has no field '{part}'", next_step=closest(part, [f.name for f in data_type.fields])
            )
        name, data_type = f"{name}.{part}", found
    return data_type


def _snapped(leaf: Comparison, data_type: DataType, where: str) -> Predicate:
    """Bind exact numbers; a literal that is not a value of the column gives an equivalent comparison with one that is."""
    assert isinstance(data_type, AtomicType)
    steps = [_grid_step(v, data_type, where) for v in leaf.literals]
    if leaf.op == "in":
        return replace(leaf, literals=tuple(v for v, exact in steps if exact or v is None))
    value, exact = steps[0]
    if exact or value is None:
        return replace(leaf, literals=(value,))
    never = replace(leaf, op="in", literals=())
    if leaf.op in ("=", "!="):
        return never if leaf.op == "=" else Not(never)
    below_all, above_all = value == "below", value == "above"
    upwards = leaf.op in (">", ">=")
    if below_all or above_all:
        return Not(never) if below_all == upwards else never
    return replace(leaf, op=">" if upwards else "<=", literals=(value,))


def _grid_step(literal: Any, data_type: AtomicType, where: str) -> tuple[Any, bool]:
    """(the column's value, True), or (the next lower value, or "below" or "above" if out of range, False)."""
    literal = plain_scalar(literal)
    if literal is None:
        return None, True
    scale = data_type.scale if data_type.root == "DECIMAL" else 0
    try:
        number = Decimal(exact_number(literal))
    except (ValueError, ArithmeticError):
        return coerce_literal(literal, data_type, where), True  # raises the error that names the column and the value
    if data_type.root == "DECIMAL":
        high = 10**data_type.precision - 1
        low = -high
    else:
        low, high = integer_range(data_type.root)
    if number.adjusted() + scale > 40:
        return ("above" if number > 0 else "below"), False
    shifted = number.scaleb(scale, EXACT)
    lower = int(shifted.to_integral_value(ROUND_FLOOR))
    if lower > high:
        return "above", False
    if lower < low:
        return "below", False
    value = decimal_of(lower, scale) if data_type.root == "DECIMAL" else lower
    return value, lower == shifted
