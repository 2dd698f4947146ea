"""Translates filters of other tools, which come as Arrow compute expressions, to predicates that keep at least the same rows.

Owns: reading an expression's tree, and the cases in which Arrow's comparisons differ from the format's. Must not know: tables,
datasets, who sends the expression. Source: format/statistics §3; format/binary-row §2 (floats).

Invariants: A row that the expression keeps is kept by the predicate; the tool's expression is still evaluated afterwards. What
is not understood keeps every row. A negation is translated only if its part keeps exactly the same rows, because the negation of
a wider condition is narrower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from ..errors import InvalidArgument
from ..rows.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, AtomicType, DataType, Field
from .binding import bind, type_at
from .tree import MIRRORED, And, Comparison, Not, Or, Predicate

_COMPARED = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_WIDER = {"<": "<=", "<=": "<=", ">": ">=", ">=": ">="}
"""A literal that a FLOAT cannot hold is rounded when it is bound, so that the bound itself must be let in."""
_TEXT_TESTS = {"starts_with": "starts_with", "ends_with": "ends_with", "match_substring": "contains"}
_EXACT_DOUBLE = 1 << 52
_HEADING = "-- schema metadata --"


@dataclass(frozen=True)
class _Reference:
    path: tuple[str, ...]


@dataclass(frozen=True)
class _Literal:
    value: pa.Scalar


@dataclass(frozen=True)
class _Call:
    function: str
    arguments: tuple[_Node, ...]
    options: Mapping[str, Any]


_Node: TypeAlias = "_Reference | _Literal | _Call"


@dataclass(frozen=True)
class _Found:
    """A predicate, and whether it keeps exactly the rows of the expression (and is unknown for the same rows)."""

    predicate: Predicate
    exact: bool = True


class _NotUnderstood(Exception):
    """The expression, or a part of it, has another form."""


def wider_predicate(expression: Any, fields: Sequence[Field]) -> Predicate | None:
    """A bound predicate that keeps every row that an expression of `pyarrow.compute` keeps; None if all must be kept.

    >>> import pyarrow.compute as pc
    >>> fields = [Field(0, "a", AtomicType("INT")), Field(1, "b", AtomicType("INT"))]
    >>> str(wider_predicate((pc.field("a") > 1) & (pc.abs(pc.field("b")) == 2), fields))
    'a > 1'
    """
    try:
        tree = _tree(expression, fields)
    except _NotUnderstood:
        return None
    found = _translated(tree, {f.name: f for f in fields})
    return None if found is None else found.predicate


def names_in(expression: Any, fields: Sequence[Field]) -> frozenset[str]:
    """The columns that an expression needs: all of them if its form is not understood."""
    try:
        return frozenset(_names(_tree(expression, fields)))
    except _NotUnderstood:
        return frozenset(f.name for f in fields)


def _names(node: _Node) -> Iterator[str]:
    match node:
        case _Reference(path=path):
            yield path[0]
        case _Call(arguments=arguments):
            for argument in arguments:
                yield from _names(argument)


# ------------------------------------------------------------------------------------------------------------ the tree


def _tree(expression: Any, fields: Sequence[Field]) -> _Node:
    """Arrow has no functions to look into an expression, but pickles it as a record batch: its metadata list the nodes."""
    if any("\n" in f.name or "\r" in f.name for f in fields):
        raise _NotUnderstood  # the list of nodes has one line for each
    try:
        batch = pa.ipc.open_file(expression.__reduce__()[1][0]).get_batch(0)
        _, heading, text = batch.schema.to_string(truncate_metadata=False, show_field_metadata=False).partition(
            f"{_HEADING}\n"
        )
        words = _Words(text.splitlines(), batch) if heading else None
        tree = None if words is None else words.node()
    except (pa.ArrowException, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _NotUnderstood from error
    if tree is None or words is None or words.lines:
        raise _NotUnderstood
    return tree


class _Words:
    def __init__(self, lines: list[str], batch: pa.RecordBatch) -> None:
        self.lines, self._batch = lines, batch

    def _next(self) -> tuple[str, str]:
        key, colon, value = self.lines.pop(0).partition(": ")
        if not colon or len(value) < 2 or value[0] != "'" or value[-1] != "'":
            raise _NotUnderstood
        return key, value[1:-1]

    def node(self) -> _Node:
        key, value = self._next()
        if key == "field_ref":
            return _Reference((value,))
        if key == "nested_field_ref":
            parts = [self._next() for _ in range(int(value))]
            if any(kind != "field_ref" for kind, _ in parts):
                raise _NotUnderstood
            return _Reference(tuple(name for _, name in parts))
        if key == "literal":
            return _Literal(self._batch.column(int(value))[0])
        if key != "call":
            raise _NotUnderstood
        arguments: list[_Node] = []
        options: Mapping[str, Any] = {}
        while not self.lines[0].startswith("end: "):
            if self.lines[0].startswith("options: "):
                scalar = self._batch.column(int(self._next()[1]))[0]
                options = {name: scalar[name] for name in scalar.type.names} if pa.types.is_struct(scalar.type) else {}
            else:
                arguments.append(self.node())
        self._next()
        return _Call(value, tuple(arguments), options)


# ----------------------------------------------------------------------------------------------------- the translation


def _translated(node: _Node, columns: Mapping[str, Field]) -> _Found | None:
    match node:
        case _Reference():
            place = _place(node, columns)
            if place is None or place[1].root != "BOOLEAN":
                return None
            return _Found(Comparison("=", place[0].column, (True,), place[0].path))
        case _Literal(value=value):
            if value.type != pa.bool_():
                return None
            return _Found(And(()) if value.as_py() else Or(()), exact=value.is_valid)
        case _Call(function="and_kleene" | "and", arguments=arguments):
            return _all_of([_translated(a, columns) for a in arguments])
        case _Call(function="or_kleene" | "or", arguments=arguments):
            parts = [_translated(a, columns) for a in arguments]
            known = [p for p in parts if p is not None]
            if len(known) < len(parts):
                return None
            return _Found(_joined(Or, known), all(p.exact for p in known))
        case _Call(function="invert", arguments=(argument,)):
            part = _translated(argument, columns)
            return _Found(Not(part.predicate)) if part is not None and part.exact else None
        case _Call(function="if_else", arguments=(condition, kept, _Literal(value=other))):
            # DuckDB's IN. Where the condition is not true, the row is kept only if the other value is true.
            if other.as_py() is True:
                return None
            both = _all_of([_translated(condition, columns), _translated(kept, columns)])
            return None if both is None else _Found(both.predicate, exact=False)
        case _Call(arguments=(_Reference() as reference, *_)):
            return _test(node, reference, columns)
        case _Call(function=function, arguments=(_Literal() as literal, _Reference() as reference)):
            if function not in _COMPARED:
                return None
            return _compared(MIRRORED[_COMPARED[function]], reference, literal, columns)
        case _:
            return None


def _all_of(parts: list[_Found | None]) -> _Found | None:
    known = [p for p in parts if p is not None]
    if not known:
        return None
    return _Found(_joined(And, known), len(known) == len(parts) and all(p.exact for p in known))


def _joined(kind: type[And | Or], parts: list[_Found]) -> Predicate:
    flat: list[Predicate] = []
    for part in parts:
        flat.extend(part.predicate.parts if isinstance(part.predicate, kind) else (part.predicate,))
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _place(reference: _Reference, columns: Mapping[str, Field]) -> tuple[Comparison, AtomicType] | None:
    """The column or field as a test whose operator is still open, and its type; None if it cannot be compared."""
    leaf = Comparison("is_null", reference.path[0], path=reference.path[1:])
    try:
        kind: DataType = type_at(columns[leaf.column].type, leaf)
    except (InvalidArgument, KeyError):
        return None
    return (leaf, kind) if isinstance(kind, AtomicType) else None


def _test(call: _Call, reference: _Reference, columns: Mapping[str, Field]) -> _Found | None:
    place = _place(reference, columns)
    if call.function in ("is_null", "is_valid") and len(call.arguments) == 1:
        leaf = place[0] if place is not None else Comparison("is_null", reference.path[0], path=reference.path[1:])
        nan_is_null = call.options.get("nan_is_null")
        if leaf.column not in columns or (nan_is_null is not None and nan_is_null.as_py()):
            return None
        op = "is_null" if call.function == "is_null" else "is_not_null"
        return _bound(Comparison(op, leaf.column, (), leaf.path), columns)
    if place is None:
        return None
    leaf, kind = place
    if call.function in _COMPARED and len(call.arguments) == 2 and isinstance(call.arguments[1], _Literal):
        return _compared(_COMPARED[call.function], reference, call.arguments[1], columns)
    if call.function == "is_in" and len(call.arguments) == 1:
        values = list(call.options["value_set"].values) if "value_set" in call.options else [None]
        literals = [_literal(value, kind) for value in values]
        if any(literal is None for literal in literals):
            return None
        found = _bound(Comparison("in", leaf.column, tuple(literals), leaf.path), columns)
        return None if found is None else _Found(found.predicate, exact=False)  # Arrow's is_in is false for null
    if call.function in _TEXT_TESTS and len(call.arguments) == 1 and kind.root in STRING_ROOTS:
        pattern, folds = call.options.get("pattern"), call.options.get("ignore_case")
        if pattern is None or folds is None or folds.as_py():
            return None
        text = pattern.as_py()
        text = text.decode() if isinstance(text, bytes) else text
        return _bound(Comparison(_TEXT_TESTS[call.function], leaf.column, (text,), leaf.path), columns)
    return None


def _compared(op: str, reference: _Reference, literal: _Literal, columns: Mapping[str, Field]) -> _Found | None:
    place = _place(reference, columns)
    if place is None or not literal.value.is_valid:
        return None
    leaf, kind = place
    value = _literal(literal.value, kind)
    if value is None:
        return None
    if kind.root in ("FLOAT", "DOUBLE"):
        return _compared_float(op, leaf, float(value), columns)
    return _bound(Comparison(op, leaf.column, (value,), leaf.path), columns)


def _compared_float(op: str, leaf: Comparison, value: float, columns: Mapping[str, Field]) -> _Found | None:
    """In Arrow no comparison with NaN is true but `!=`. In SQL as Spark has it, NaN is the largest number."""
    if op == "!=":
        return None
    found = _bound(Comparison(_WIDER.get(op, op), leaf.column, (value,), leaf.path), columns)
    return None if found is None else _Found(found.predicate, exact=False)


def _bound(leaf: Comparison, columns: Mapping[str, Field]) -> _Found | None:
    try:
        return _Found(bind(leaf, tuple(columns.values())))
    except InvalidArgument:
        return None


# -------------------------------------------------------------------------------------------------------- the literals


def _literal(scalar: pa.Scalar, kind: AtomicType) -> Any:
    """A literal that means the same to Arrow and to the format; None if that is not certain."""
    if not scalar.is_valid:
        return None
    meant = next((meant for roots, meant in _MEANT if kind.root in roots), None)
    try:
        return None if meant is None else meant(scalar)
    except (OverflowError, ValueError):  # Python has no such date
        return None


def _number(scalar: pa.Scalar) -> Any:
    if pa.types.is_integer(scalar.type):
        return scalar.as_py()
    return None


def _whole(scalar: pa.Scalar) -> Any:
    """Arrow compares an integer with a float as doubles, which is exact only for small numbers."""
    if pa.types.is_decimal(scalar.type):
        return scalar.as_py()
    if pa.types.is_floating(scalar.type):
        value = scalar.as_py()
        return Decimal(value) if math.isfinite(value) and abs(value) < _EXACT_DOUBLE else None
    return _number(scalar)


def _decimal(scalar: pa.Scalar) -> Any:
    return scalar.as_py() if pa.types.is_decimal(scalar.type) else _number(scalar)


def _float(scalar: pa.Scalar) -> Any:
    if not (pa.types.is_floating(scalar.type) or pa.types.is_integer(scalar.type)):
        return None
    value = float(scalar.as_py())
    return None if math.isnan(value) else value


def _text(scalar: pa.Scalar) -> Any:
    value = scalar.as_py()
    return value if isinstance(value, str) else None


def _bytes(scalar: pa.Scalar) -> Any:
    value = scalar.as_py()
    return value if isinstance(value, bytes) else None


def _moment(scalar: pa.Scalar, zoned: bool) -> Any:
    if not pa.types.is_timestamp(scalar.type) or (scalar.type.tz is not None) is not zoned:
        return None
    return scalar


_MEANT: tuple[tuple[tuple[str, ...], Callable[[pa.Scalar], Any]], ...] = (
    (INTEGER_ROOTS, _whole),
    (("DECIMAL",), _decimal),
    (("FLOAT", "DOUBLE"), _float),
    (STRING_ROOTS, _text),
    (BINARY_ROOTS, _bytes),
    (("BOOLEAN",), lambda scalar: scalar.as_py() if pa.types.is_boolean(scalar.type) else None),
    (("DATE",), lambda scalar: scalar.as_py() if pa.types.is_date32(scalar.type) else None),
    (("TIMESTAMP",), lambda scalar: _moment(scalar, False)),
    (("TIMESTAMP_LTZ",), lambda scalar: _moment(scalar, True)),
)
