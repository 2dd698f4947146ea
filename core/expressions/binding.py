"""Binding: the columns and types of an expression are checked, and comparisons with values become `Comparison`s.

Owns: `bind`, and `condition_of`, the one way from what a caller gives as a condition to a bound one. Must not know:
Arrow columns with rows, statistics. Sources: architecture §5; format/statistics §3; format/binary-row §2 (floats).
Invariants: Text and `col()` give the same tree. Binding twice changes nothing. A condition is bound to the same tree
wherever it is used, so that it means the same whether files are chosen by it or rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from decimal import ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from ..errors import InvalidArgument
from ..rows.arrow import arrow_schema
from ..rows.literals import coerce_literal, exact_number, integer_range, plain_scalar
from ..rows.partition import closest
from ..rows.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, AtomicType, DataType, Field, RowType, sql
from ..rows.values import EXACT, decimal_of, root_of
from .evaluate import type_of
from .names import Names, located
from .sql import parse_expression
from .tree import (
    COMPLEMENT,
    MIRRORED,
    NULL_TESTS,
    OPERATORS,
    TARGET,
    TEXT_TESTS,
    And,
    Call,
    Comparison,
    Expression,
    InZone,
    Literal,
    Not,
    Or,
    Reference,
    rebuilt,
    references_of,
)

_PLAIN_LIKE = re.compile(r"(?P<before>%*)(?P<text>[^%_\\]*)(?P<after>%*)")
_NEVER = Or(())
_ALWAYS = And(())


def condition_of(
    given: Expression | str | None,
    fields: Sequence[Field],
    zone: tzinfo | None = None,
    names: Names | None = None,
    where: str = "where",
) -> Expression | None:
    """A bound condition from one made with `ll.col`, from SQL text, or from None for all rows. Raises InvalidArgument.
    `zone` is that of points in time without one (None refuses them); `names` are by default those of the columns.

    >>> str(condition_of("a > 1.5 AND a % 2 = 0", [Field(0, "a", AtomicType("INT"))]))
    'a > 1 AND (a % 2) = 0'
    """
    if given is None:
        return None
    if not isinstance(given, (str, Expression)):
        raise InvalidArgument(
            f"{where} is {given!r}",
            next_step="give SQL text, or a condition made with ll.col(…); leave it out for all rows",
        )
    expression = parse_expression(given, where)
    names = names or Names({TARGET: [f.name for f in fields]}, {})
    try:
        return bind(names.bound(expression, where, TARGET), fields, zone, where)
    except RecursionError:
        raise InvalidArgument(f"{where}: the condition is too deep", next_step="write it in fewer operators") from None


def bind(
    expression: Expression, fields: Sequence[Field], zone: tzinfo | None = None, where: str = "where"
) -> Expression:
    """A condition on the rows of one table, whose literals are values of their columns.

    A number between two values of an integer or DECIMAL column, or out of its range, gives an equivalent comparison
    with a value of the column (``int_column > 1.5`` becomes ``int_column > 1``).

    Args:
        zone: of text and dates without one, where the column counts points in time (see `coerce_literal`); None refuses them.

    Raises:
        InvalidArgument: A column does not exist (the message lists similar ones), or the test or a literal does not fit.

    >>> bind(Comparison(">", "st.a", (1,)), [Field(0, "st", RowType((Field(1, "a", AtomicType("INT")),)))])
    Comparison(op='>', column='st', literals=(1,), path=('a',))
    """
    names = Names({TARGET: [f.name for f in fields]}, {})
    bound = Binder(fields, zone, where).condition(names.bound(expression, where, TARGET))
    _check_computed(bound, fields, where)
    return bound


@dataclass(frozen=True)
class Binder:
    """Makes comparisons of columns of the target with values into `Comparison`s, in conditions on one row or a pair."""

    fields: Sequence[Field]
    zone: tzinfo | None
    where: str

    @cached_property
    def _by_name(self) -> dict[str, Field]:
        return {f.name: f for f in self.fields}

    def condition(self, expression: Expression) -> Expression:
        match expression:
            case Comparison():
                return bound_comparison(expression, self._by_name, self.zone)
            case And() | Or():
                return _flat(type(expression), [self.condition(part) for part in expression.parts])
            case Not(part=part):
                made = self.condition(part)
                if isinstance(made, Comparison) and made.op in NULL_TESTS:  # which are never unknown
                    return replace(made, op=COMPLEMENT[made.op])
                return Not(made)
            case Literal(value=bool() as value):
                return _ALWAYS if value else _NEVER
            case Reference() if self._is_boolean(expression):
                return _test("=", expression, True)
            case InZone(value=value, zone=zone):
                return replace(self, zone=zone).condition(value)
            case _:
                return self.value(expression)

    def value(self, expression: Expression) -> Expression:
        if _is_logic(expression):
            return self.condition(expression)
        if isinstance(expression, InZone):
            made = replace(self, zone=expression.zone).value(expression.value)
            return made if _is_logic(made) or isinstance(made, InZone) else InZone(made, expression.zone)
        made = self._settled(expression)
        if self.zone is None or _is_logic(made) or isinstance(made, (Literal, Reference, InZone)):
            return made
        return InZone(made, self.zone)

    def _settled(self, expression: Expression) -> Expression:
        if isinstance(expression, InZone):
            return self.value(expression)
        found = self._comparison(expression)
        if found is not None:
            return found
        return rebuilt(expression, lambda part: self.condition(part) if _is_logic(part) else self._settled(part))

    def _comparison(self, expression: Expression) -> Expression | None:
        match expression:
            case Comparison():
                return self.condition(expression)
            case Call(name=name, arguments=(Reference() as column, Literal() as value)) if name in MIRRORED:
                return self._compared(name, column, value)
            case Call(name=name, arguments=(Literal() as value, Reference() as column)) if name in MIRRORED:
                return self._compared(MIRRORED[name], column, value)
            case Call(name="is_null", arguments=(Reference() as column,)) if self._of_target(column):
                return self.condition(_test("is_null", column))
            case Call(name="in", arguments=(Reference() as column, *members)) if self._of_target(column):
                values = [m.value for m in members if isinstance(m, Literal)]
                return self.condition(_test("in", column, *values)) if len(values) == len(members) else None
            case Call(name="like", arguments=(Reference() as column, Literal(value=str() as pattern))):
                return self.condition(_like(column, pattern)) if self._of_target(column) else None
            case _:
                return None

    def _compared(self, op: str, column: Reference, value: Literal) -> Expression | None:
        if not self._of_target(column):
            return None
        try:
            return self.condition(_test(op, column, value.value))
        except InvalidArgument:
            # A DATE may be compared with a time of day, and a time of the clock with a point in time.
            if not value.kind.startswith("TIMESTAMP") or self._root(column) not in ("DATE", "TIMESTAMP"):
                raise
            return None

    def _of_target(self, column: Reference) -> bool:
        return column.parts[0] == TARGET

    def _is_boolean(self, column: Reference) -> bool:
        return self._of_target(column) and self._root(column) == "BOOLEAN"

    def _root(self, column: Reference) -> str:
        return root_of(type_at(self._by_name[column.column].type, _test("is_null", column)))


def _is_logic(expression: Expression) -> bool:
    return isinstance(expression, (And, Or, Not, Comparison))


def _test(op: str, column: Reference, *literals: object) -> Comparison:
    _, name, *path = column.parts
    return Comparison(op, name, tuple(literals), tuple(path))


def _like(column: Reference, pattern: str) -> Comparison:
    """The simplest test for a LIKE; statistics can answer a pattern whose only wildcard is at one end."""
    found = _PLAIN_LIKE.fullmatch(pattern)
    if found is None:
        return _test("like", column, pattern)
    before, after = found["before"], found["after"]
    op = "contains" if before and after else "ends_with" if before else "starts_with" if after else "="
    return _test(op, column, found["text"])


def _flat(kind: type[And | Or], parts: Sequence[Expression]) -> Expression:
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, kind) else (part,)))
    return flat[0] if len(flat) == 1 else kind(flat)


def _check_computed(condition: Expression, fields: Sequence[Field], where: str) -> None:
    match condition:
        case And(parts=parts) | Or(parts=parts):
            for part in parts:
                _check_computed(part, fields, where)
        case Not(part=part):
            _check_computed(part, fields, where)
        case Comparison():
            return
        case _:
            check_condition(condition, {TARGET: arrow_schema(fields)}, where)


def check_condition(condition: Expression, schemas: Mapping[str, pa.Schema], where: str) -> None:
    """Refuse an expression that is not true or false, or whose types do not fit its operators."""
    named: dict[str, dict[str, pa.Field]] = {table: {} for table in schemas}
    for reference in references_of(condition):
        table, column = reference.parts[:2]
        named[table][column] = schemas[table].field(column)
    found = type_of(condition, {table: pa.schema(list(columns.values())) for table, columns in named.items()}, where)
    if not (pa.types.is_boolean(found) or pa.types.is_null(found)):
        raise InvalidArgument(f"{where}: a condition is true or false, but this is of type {found}")


# -------------------------------------------------------------------------------------------------------- comparisons


def bound_comparison(leaf: Comparison, by_name: Mapping[str, Field], zone: tzinfo | None) -> Expression:
    """A comparison whose column exists and whose literals are values of it."""
    words = located((leaf.column, *leaf.path), by_name) if leaf.column not in by_name else None
    if leaf.column not in by_name:
        if words is None:
            whole = ".".join((leaf.column, *leaf.path))
            raise InvalidArgument(f"there is no column '{whole}'", next_step=closest(leaf.column, list(by_name)))
        leaf = replace(leaf, column=words[0], path=words[1:])
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


def type_at(data_type: DataType, leaf: Comparison) -> DataType:
    """The type of what a bound comparison tests. Raises InvalidArgument where its path leads to no field of a ROW."""
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


def _snapped(leaf: Comparison, data_type: DataType, where: str) -> Expression:
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
