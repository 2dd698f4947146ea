"""Evaluates expressions on Arrow columns.

Owns: `evaluate`, and the rules of AND, OR, CASE and CAST. Must not know: the names of functions (`functions`), SQL text.
Source: architecture §5; format/statistics §3.
Invariants: SQL's three-valued logic. No Python code runs per row. An expression is evaluated on the rows that need its value
only, so that `CASE WHEN b <> 0 THEN a / b END` never divides by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidArgument
from ..rows.arrow import to_arrow
from ..rows.literals import coerce_literal, plain_scalar
from ..rows.types import AtomicType, DataType, timestamp
from ..rows.values import to_arrow_scalar
from .functions import FUNCTIONS, rounded, unified
from .tree import Call, Case, Cast, Expression, Literal, Reference, references_of

Tables = Mapping[str, Any]
"""For each table, a batch with the columns that are named. All have the same number of rows."""

_MAY_FAIL = frozenset(("/", "%", "+", "-", "*", "negate", "mod", "in"))


def evaluate(expression: Expression, tables: Tables, rows: int, where: str = "expression") -> Any:
    """The values of an expression.

    Args:
        expression: bound by `Names`.
        tables: the rows of each table.
        rows: their number.
        where: what the expression is for, for errors.

    Returns:
        An Arrow array with one value per row, or a scalar if it is the same for all.

    Raises:
        InvalidArgument: the types do not fit the operators, or a value cannot be computed: an overflow, a division by zero.
    """
    try:
        return _Evaluation(tables, rows, where).value(expression)
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
    found = evaluate(expression, tables, rows, where)
    if pa.types.is_null(found.type):
        return np.zeros(rows, bool)
    if not pa.types.is_boolean(found.type):
        raise InvalidArgument(f"{where}: a condition is true or false, but this is of type {found.type}")
    if isinstance(found, pa.Scalar):
        return np.full(rows, bool(found.as_py()))
    return pc.fill_null(found, False).to_numpy(zero_copy_only=False)


def type_of(expression: Expression, tables: Mapping[str, pa.Schema], where: str = "expression") -> pa.DataType:
    """The Arrow type of an expression, which is found without any row.

    Raises:
        InvalidArgument: the types do not fit the operators.
    """
    named: dict[str, dict[str, pa.Array]] = {}
    for table, column, *_ in (reference.parts for reference in references_of(expression)):
        named.setdefault(table, {})[column] = pa.nulls(0, tables[table].field(column).type)
    empty = {table: pa.RecordBatch.from_pydict(columns) for table, columns in named.items()}
    return evaluate(expression, empty, 0, where).type


def literal_scalar(literal: Literal, where: str) -> pa.Scalar:
    """A literal as an Arrow scalar of its own type."""
    value = literal.value
    if literal.kind:
        return _typed(literal, where)
    value = plain_scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return pa.scalar(value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return pa.scalar(value, pa.int64())
    value = Decimal(value)
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or max(len(digits), -exponent, len(digits) + exponent) > 38:
        raise InvalidArgument(f"{where}: {value} has more than 38 digits")
    scale = max(-exponent, 0)
    return pa.scalar(value, pa.decimal128(max(len(digits) + max(exponent, 0), scale, 1), scale))


def _typed(literal: Literal, where: str) -> pa.Scalar:
    kinds: dict[str, DataType] = {"DATE": AtomicType("DATE"), "TIME": AtomicType("TIME", precision=3)}
    data_type = kinds.get(literal.kind)
    if data_type is None:
        text = str(literal.value).strip()
        has_zone = text[-1:] in "zZ" or any(sign in text[11:] for sign in "+-")
        local_zone = literal.kind == "TIMESTAMP_LTZ" or (literal.kind == "TIMESTAMP" and has_zone)
        data_type = timestamp(6, local_zone=local_zone)
    value = coerce_literal(literal.value, data_type, f"{where}: {literal.kind}")
    return to_arrow_scalar(value, data_type, to_arrow(data_type))


class _Evaluation:
    def __init__(self, tables: Tables, rows: int, where: str) -> None:
        self._tables, self._rows, self._where = tables, rows, where

    def value(self, expression: Expression) -> Any:
        match expression:
            case Literal():
                return literal_scalar(expression, self._where)
            case Reference(parts=(table, column, *path)):
                return self._column(table, column, path)
            case Call(name="and" | "or" as name, arguments=(left, right)):
                return self._logical(name, left, right)
            case Call(name=name, arguments=arguments):
                function = FUNCTIONS.get(name)
                if function is None:
                    raise InvalidArgument(
                        f"{self._where}: there is no function '{name}'",
                        next_step=f"there are {', '.join(sorted(n for n in FUNCTIONS if n.isidentifier()))}",
                    )
                return self._plain(function(self._where, [self.value(a) for a in arguments]))
            case Case(branches=branches, otherwise=otherwise):
                return self._case(branches, otherwise)
            case Cast(value=value, type=data_type):
                return self._cast(self.value(value), data_type)
            case _:
                raise InvalidArgument(f"{self._where}: {expression!r} is no expression")

    @staticmethod
    def _plain(found: Any) -> Any:
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found

    def _column(self, table: str, column: str, path: Sequence[str]) -> Any:
        found = self._plain(self._tables[table].column(column))
        for name in path:
            if not pa.types.is_struct(found.type) or found.type.get_field_index(name) < 0:
                raise InvalidArgument(f"{self._where}: column '{column}' has no field '{name}'")
            found = pc.struct_field(found, [name])
        return found.dictionary_decode() if pa.types.is_dictionary(found.type) else found

    # ----------------------------------------------------------------------------------------------- logic, choices

    def _logical(self, name: str, left: Expression, right: Expression) -> Any:
        decided = name == "or"
        first = self._truth(self.value(left))
        if not _may_fail(right):
            return _KLEENE[name](first, self._truth(self.value(right)))
        column = pa.repeat(first, self._rows) if isinstance(first, pa.Scalar) else first
        open_rows = np.flatnonzero(pc.fill_null(pc.not_equal(column, decided), True).to_numpy(zero_copy_only=False))
        second = self._truth(self._on(right, open_rows))
        if isinstance(second, pa.Scalar):
            second = pa.repeat(second, len(open_rows))
        rest = np.setdiff1d(np.arange(self._rows), open_rows)
        both = pa.concat_arrays([second, pa.repeat(pa.scalar(decided), len(rest))])
        return _KLEENE[name](column, both.take(pa.array(np.argsort(np.concatenate((open_rows, rest))))))

    def _truth(self, value: Any) -> Any:
        if pa.types.is_null(value.type):
            return value.cast(pa.bool_())
        if not pa.types.is_boolean(value.type):
            raise InvalidArgument(f"{self._where}: a condition is true or false, but a part is of type {value.type}")
        return value

    def _on(self, expression: Expression, positions: Any) -> Any:
        """The values of an expression for some of the rows."""
        if len(positions) == self._rows:
            return self.value(expression)
        chosen = pa.array(positions)
        named: dict[str, list[str]] = {}
        for reference in references_of(expression):
            named.setdefault(reference.parts[0], []).append(reference.parts[1])
        tables = {t: self._tables[t].select(list(dict.fromkeys(c))).take(chosen) for t, c in named.items()}
        return _Evaluation(tables, len(positions), self._where).value(expression)

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
            for value, where in zip(unified(self._where, values), positions, strict=True)
        ]
        return pa.concat_arrays(made).take(pa.array(np.argsort(np.concatenate(positions), kind="stable")))

    def _cast(self, value: Any, data_type: DataType) -> Any:
        target, given = to_arrow(data_type), value.type
        whole = pa.types.is_integer(target)
        if (pa.types.is_string(given) or pa.types.is_large_string(given)) and not pa.types.is_boolean(target):
            value = pc.utf8_trim_whitespace(value)
        if whole and (pa.types.is_floating(given) or pa.types.is_decimal(given)):
            value = pc.trunc(value)
        if pa.types.is_decimal(target) and pa.types.is_decimal(given):
            value = rounded(value, target.scale)
        if pa.types.is_floating(given) and pa.types.is_string(target):
            raise InvalidArgument(f"{self._where}: a number of type {given} has no one text: cast it to DECIMAL first")
        return pc.cast(value, target, safe=not (pa.types.is_timestamp(given) and pa.types.is_date(target)))


_KLEENE: Mapping[str, Callable[[Any, Any], Any]] = {"and": pc.and_kleene, "or": pc.or_kleene}


def _may_fail(expression: Expression) -> bool:
    match expression:
        case Call(name=name, arguments=arguments):
            return name in _MAY_FAIL or any(map(_may_fail, arguments))
        case Case(branches=branches, otherwise=otherwise):
            return _may_fail(otherwise) or any(_may_fail(part) for branch in branches for part in branch)
        case Cast():
            return True
        case _:
            return False
