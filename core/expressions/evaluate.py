"""Evaluates expressions on Arrow columns.

Owns: `evaluate`, `to_arrow_mask` for conditions, and the rules of AND, OR and CASE. Must not know: the names of
functions (`functions`), SQL text. Source: architecture §5; format/statistics §3.
Invariants: SQL's three-valued logic. No Python code runs per row. An expression is evaluated only on the rows that need
its value, so that `CASE WHEN b <> 0 THEN a / b END` never divides by zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument, Unsupported
from ..rows.arrow import to_arrow
from ..rows.literals import coerce_literal, plain_scalar
from ..rows.types import AtomicType, DataType, Field, timestamp
from ..rows.values import plain_array, to_arrow_array, to_arrow_scalar
from .casting import cast
from .functions import FUNCTIONS, unified
from .masks import tested
from .scope import Scope
from .tree import (
    TARGET,
    And,
    Call,
    Case,
    Cast,
    Comparison,
    Expression,
    InZone,
    Literal,
    Not,
    Or,
    Reference,
    children,
    columns_of,
    references_of,
)

Tables = Mapping[str, Any]

_MAY_FAIL = frozenset(("/", "%", "+", "-", "*", "negate", "mod", "in"))


def evaluate(expression: Expression, tables: Tables, rows: int, where: str = "expression") -> Any:
    """The values of an expression bound by `Names`: an Arrow array, or a scalar if it is the same for all rows.

    Raises:
        InvalidArgument: the types do not fit the operators, or a value cannot be computed: an overflow, a division by zero.
    """
    try:
        return _Evaluation(tables, rows, Scope(where)).value(expression)
    except pa.ArrowException as error:
        raise InvalidArgument(f"{where}: {' '.join(str(error).split())[:200]}") from error
    except RecursionError:
        raise InvalidArgument(f"{where}: the expression is too deep") from None


def condition(expression: Expression, tables: Tables, rows: int, where: str = "condition") -> Any:
    """The rows for which a condition is true, as a NumPy array of booleans. A row for which it is unknown is left out.

    >>> rows = pa.record_batch({"a": [1, 2, None]})
    >>> condition(Call(">", (Reference(("t", "a")), Literal(1))), {"t": rows}, 3).tolist()
    [False, True, False]
    """
    return _mask(expression, tables, rows, where).to_numpy(zero_copy_only=False)


def to_arrow_mask(predicate: Expression, table: Any, where: str = "where") -> pa.BooleanArray:
    """One boolean per row, never null, for a condition bound by `binding.bind`.

    >>> to_arrow_mask(Comparison(">", "a", (1,)), pa.table({"a": [1, 2, None]})).to_pylist()
    [False, True, False]
    """
    batches = [table] if isinstance(table, pa.RecordBatch) else table.to_batches()
    masks = [_mask(predicate, {TARGET: batch}, batch.num_rows, where) for batch in batches]
    if not masks and table.num_rows == 0:
        missing = columns_of(predicate) - set(table.schema.names)
        for name in sorted(missing):
            raise InvalidArgument(f"the rows have no column '{name}' to test")
    elif not masks:  # no column is needed, and a table without columns has no batches
        return _mask(predicate, {TARGET: table}, table.num_rows, where)
    return masks[0] if len(masks) == 1 else pa.concat_arrays([pa.array([], pa.bool_()), *masks])


def rows_kept(
    predicate: Expression, columns: Mapping[str, Sequence[Any]], fields: Sequence[Field], rows: int
) -> list[bool]:
    """Which rows, given as values of the module `rows.values`, a condition bound to `fields` keeps.

    >>> rows_kept(Comparison(">", "a", (1,)), {"a": [1, 2, None]}, [Field(0, "a", AtomicType("INT"))], 3)
    [False, True, False]
    """
    named = [f for f in fields if f.name in columns_of(predicate)]
    try:
        batch = pa.RecordBatch.from_pydict({f.name: _values(columns[f.name], f.type) for f in named})
    except Unsupported:  # a time that is too far from 1970 for nanoseconds, so that each row is tested alone
        alone = ({f.name: [columns[f.name][row]] for f in named} for row in range(rows))
        return [rows_kept(predicate, each, fields, 1)[0] for each in alone]
    kept: list[bool] = _mask(predicate, {TARGET: batch}, rows, "where").to_pylist()
    return kept


def _values(values: Sequence[Any], data_type: DataType) -> pa.Array:
    target = to_arrow(data_type)
    try:
        return to_arrow_array(values, data_type, target)
    except Unsupported:
        if len(values) > 1 or not pa.types.is_timestamp(target):
            raise
        return to_arrow_array([values[0] // 1_000_000 * 1_000_000], data_type, pa.timestamp("ms", target.tz))


def _mask(expression: Expression, tables: Tables, rows: int, where: str) -> pa.BooleanArray:
    found = evaluate(expression, tables, rows, where)
    if pa.types.is_null(found.type):
        return pa.repeat(pa.scalar(False), rows)
    if not pa.types.is_boolean(found.type):
        raise InvalidArgument(f"{where}: a condition is true or false, but this is of type {found.type}")
    if isinstance(found, pa.Scalar):
        return pa.repeat(pa.scalar(bool(found.as_py())), rows)
    return pc.fill_null(found, False)


def type_of(expression: Expression, tables: Mapping[str, pa.Schema], where: str = "expression") -> pa.DataType:
    """The Arrow type of an expression, found without any row. Raises InvalidArgument."""
    named: dict[str, dict[str, pa.Array]] = {}
    for table, column, *_ in (reference.parts for reference in references_of(expression)):
        named.setdefault(table, {})[column] = pa.nulls(0, tables[table].field(column).type)
    empty = {table: pa.RecordBatch.from_pydict(columns) for table, columns in named.items()}
    return evaluate(expression, empty, 0, where).type


def literal_scalar(literal: Literal, scope: Scope) -> pa.Scalar:
    value = literal.value
    if literal.kind:
        return _typed(literal, scope)
    value = plain_scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return pa.scalar(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return pa.scalar(value, pa.int64())
    value = Decimal(value)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or max(len(digits), -exponent, len(digits) + exponent) > 38:
        raise InvalidArgument(f"{scope}: {value} has more than 38 digits")
    scale = max(-exponent, 0)
    return pa.scalar(value, pa.decimal128(max(len(digits) + max(exponent, 0), scale, 1), scale))


def _typed(literal: Literal, scope: Scope) -> pa.Scalar:
    kinds: dict[str, DataType] = {"DATE": AtomicType("DATE"), "TIME": AtomicType("TIME", precision=3)}
    data_type = kinds.get(literal.kind)
    if data_type is None:
        text = str(literal.value).strip()
        has_zone = text[-1:] in "zZ" or any(sign in text[11:] for sign in "+-")
        local_zone = literal.kind == "TIMESTAMP_LTZ" or (literal.kind == "TIMESTAMP" and has_zone)
        data_type = timestamp(6, local_zone=local_zone)
    value = coerce_literal(literal.value, data_type, f"{scope}: {literal.kind}", scope.zone)
    return to_arrow_scalar(value, data_type, to_arrow(data_type))


class _Evaluation:
    def __init__(self, tables: Tables, rows: int, scope: Scope) -> None:
        self._tables, self._rows, self._scope = tables, rows, scope

    def value(self, expression: Expression) -> Any:
        match expression:
            case Comparison(column=column, path=path):
                return tested(expression, self._column(TARGET, column, path))
            case Literal():
                return literal_scalar(expression, self._scope)
            case Reference(parts=(table, column, *path)):
                return self._column(table, column, path)
            case And(parts=parts) | Or(parts=parts):
                is_or = isinstance(expression, Or)
                return reduce(lambda first, part: self._logical(is_or, first, part), parts, pa.scalar(not is_or))
            case Not(part=part):
                return pc.invert(self._truth(self.value(part)))
            case Call(name=name, arguments=arguments):
                function = FUNCTIONS.get(name)
                if function is None:
                    raise InvalidArgument(
                        f"{self._scope}: there is no function '{name}'",
                        next_step=f"there are {', '.join(sorted(n for n in FUNCTIONS if n.isidentifier()))}",
                    )
                return self._plain(function(self._scope, [self.value(a) for a in arguments]))
            case Case(branches=branches, otherwise=otherwise):
                return self._case(branches, otherwise)
            case Cast(value=value, type=data_type):
                return cast(self._scope, self.value(value), data_type)
            case InZone(value=value, zone=zone):
                return self._within(zone).value(value)
            case _:
                raise InvalidArgument(f"{self._scope}: {expression!r} is no expression")

    def _within(self, zone: tzinfo) -> _Evaluation:
        return _Evaluation(self._tables, self._rows, Scope(self._scope.where, zone))

    @staticmethod
    def _plain(found: Any) -> Any:
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def _column(self, table: str, column: str, path: Sequence[str]) -> Any:
        rows = self._tables[table]
        if rows.schema.get_field_index(column) < 0:
            raise InvalidArgument(f"the rows have no column '{column}' to test")
        found = self._plain(rows.column(column))
        for name in path:
            if not pa.types.is_struct(found.type) or found.type.get_field_index(name) < 0:
                raise InvalidArgument(f"{self._scope}: column '{column}' has no field '{name}'")
            found = pc.struct_field(found, [name])
        return plain_array(found)

    # ----------------------------------------------------------------------------------------------- logic, choices

    def _logical(self, is_or: bool, first: Any, part: Expression) -> Any:
        kernel = pc.or_kleene if is_or else pc.and_kleene
        if not _may_fail(part) or (isinstance(first, pa.Scalar) and first.as_py() is not is_or):
            return kernel(first, self._truth(self.value(part)))
        column = pa.repeat(first, self._rows) if isinstance(first, pa.Scalar) else first
        open_rows = np.flatnonzero(pc.fill_null(pc.not_equal(column, is_or), True).to_numpy(zero_copy_only=False))
        second = self._truth(self._on(part, open_rows))
        if isinstance(second, pa.Scalar):
            second = pa.repeat(second, len(open_rows))
        rest = np.setdiff1d(np.arange(self._rows), open_rows)
        both = pa.concat_arrays([second, pa.repeat(pa.scalar(is_or), len(rest))])
        return kernel(column, both.take(pa.array(np.argsort(np.concatenate((open_rows, rest))))))

    def _truth(self, value: Any) -> Any:
        if pa.types.is_null(value.type):
            return value.cast(pa.bool_())
        if not pa.types.is_boolean(value.type):
            raise InvalidArgument(f"{self._scope}: a condition is true or false, but a part is of type {value.type}")
        return value

    def _on(self, expression: Expression, positions: Any) -> Any:
        if len(positions) == self._rows:
            return self.value(expression)
        chosen = pa.array(positions)
        named: dict[str, list[str]] = {}
        for reference in references_of(expression):
            named.setdefault(reference.parts[0], []).append(reference.parts[1])
        tables = {t: self._tables[t].select(list(dict.fromkeys(c))).take(chosen) for t, c in named.items()}
        return _Evaluation(tables, len(positions), self._scope).value(expression)

    def _case(self, branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Any:
        left = np.arange(self._rows)
        positions, values = [], []
        for test, value in branches:
            found = self._on(test, left)
            truth = pc.fill_null(self._truth(found), False)
            mask = (
                np.full(len(left), truth.as_py())
                if isinstance(truth, pa.Scalar)
                else truth.to_numpy(zero_copy_only=False)
            )
            positions.append(left[mask])
            values.append(self._on(value, left[mask]))
            left = left[~mask]
        positions.append(left)
        values.append(self._on(otherwise, left))
        made = [
            pa.repeat(value, len(where)) if isinstance(value, pa.Scalar) else value
            for value, where in zip(unified(self._scope, values), positions, strict=True)
        ]
        return pa.concat_arrays(made).take(pa.array(np.argsort(np.concatenate(positions), kind="stable")))


def _may_fail(expression: Expression) -> bool:
    if isinstance(expression, Cast) or (isinstance(expression, Call) and expression.name in _MAY_FAIL):
        return True
    return any(map(_may_fail, children(expression)))
