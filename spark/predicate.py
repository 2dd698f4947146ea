"""Translates a bound predicate to a Spark column expression that keeps the same rows.

Owns: the translation, and the cases in which Spark's comparisons differ from ours. Must not know: plans, files.
Source: core/expressions; format/binary-row §2 (floats).

Invariants: For every row, `to_column` is true exactly if `to_arrow_mask` is. A predicate that Spark cannot express this
way raises `Untranslatable`, and the caller then filters with Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ..core.expressions.binding import type_at
from ..core.expressions.tree import And, Comparison, Not, Or, Predicate
from ..core.rows.dates import date_to_days, moment_text
from ..core.rows.types import INTEGER_ROOTS, TIMESTAMP_ROOTS, AtomicType, Field
from ..core.rows.values import SECONDS_PER_DAY
from .types import to_spark

_MICRO = 1000
_MOST_DAYS = 36_000_000
"""Dates and times this far from 1970 (about 98 000 years) are not filtered by Spark, whose literals take years of six digits."""


class Untranslatable(Exception):
    """Spark has no expression that keeps the same rows."""


def column_of(name: str) -> Column:
    """The column with exactly this name, which may contain dots and backticks."""
    return F.col(quoted(name))


def quoted(name: str) -> str:
    """A name quoted for Spark's SQL.

    >>> quoted("a.b`c")
    '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def to_column(predicate: Predicate, fields: Sequence[Field]) -> Column:
    """The predicate, bound to `fields`, as a condition for `DataFrame.filter`."""
    return _column(predicate, {f.name: f for f in fields})


def _column(predicate: Predicate, fields: Mapping[str, Field]) -> Column:
    match predicate:
        case Comparison(column=name):
            data_type = type_at(fields[name].type, predicate)
            if not isinstance(data_type, AtomicType):
                return _null_test(predicate)
            return _leaf(predicate, data_type)
        case And(parts=parts):
            return reduce(lambda a, b: a & b, (_column(p, fields) for p in parts), F.lit(True))
        case Or(parts=parts):
            return reduce(lambda a, b: a | b, (_column(p, fields) for p in parts), F.lit(False))
        case Not(part=part):
            return ~_column(part, fields)
        case _:
            raise Untranslatable(str(predicate))


def _tested(leaf: Comparison) -> Column:
    return F.col(".".join(quoted(name) for name in (leaf.column, *leaf.path)))


def _null_test(leaf: Comparison) -> Column:
    column = _tested(leaf)
    if leaf.op == "is_null":
        return column.isNull()
    if leaf.op == "is_not_null":
        return column.isNotNull()
    raise Untranslatable(str(leaf))


def _leaf(leaf: Comparison, data_type: AtomicType) -> Column:
    if leaf.op in ("is_null", "is_not_null"):
        return _null_test(leaf)
    column = _tested(leaf)
    if leaf.op == "in":
        return _in(column, leaf.literals, data_type)
    value = leaf.literals[0]
    if value is None:
        return _where_not_null(column, None)
    if leaf.op in ("=", "!=", "<", "<=", ">", ">="):
        return _compare(column, leaf.op, value, data_type)
    if leaf.op == "like":
        return column.like(like_for_spark(value))
    test = {"starts_with": column.startswith, "ends_with": column.endswith, "contains": column.contains}[leaf.op]
    return test(F.lit(value))


def _where_not_null(column: Column, answer: bool | None) -> Column:
    """`answer` for rows in which the column has a value, and unknown for rows in which it is null."""
    return F.when(column.isNotNull(), F.lit(answer).cast("boolean"))


def _compare(column: Column, op: str, value: Any, data_type: AtomicType) -> Column:
    if data_type.root in TIMESTAMP_ROOTS:
        micros, rest = divmod(int(value), _MICRO)
        if rest:  # the literal lies between two values of Spark's type
            if op in ("=", "!="):
                return _where_not_null(column, op == "!=")
            op = "<=" if op in ("<", "<=") else ">"
        return _apply(column, op, _timestamp(micros, data_type))
    if data_type.root in ("FLOAT", "DOUBLE") and value == 0:
        return _compare_zero(column, op, data_type)
    return _apply(column, op, _literal(value, data_type))


def _compare_zero(column: Column, op: str, data_type: AtomicType) -> Column:
    """Compare with both zeros. To Spark they are equal, but not to the dictionaries and bounds of Parquet that it asks: in them
    -0.0 is below 0.0, so that a file which has -0.0 alone would be left out for `= 0.0`."""
    negative, positive = (_literal(zero, data_type) for zero in (-0.0, 0.0))
    match op:
        case "=":
            return (column >= negative) & (column <= positive)
        case "!=":
            return (column < negative) | (column > positive)
        case _:
            return _apply(column, op, negative if op in ("<", ">=") else positive)


def _apply(column: Column, op: str, literal: Column) -> Column:
    match op:
        case "=":
            return column == literal
        case "!=":
            return column != literal
        case "<":
            return column < literal
        case "<=":
            return column <= literal
        case ">":
            return column > literal
        case _:
            return column >= literal


def _in(column: Column, literals: tuple[Any, ...], data_type: AtomicType) -> Column:
    values = [v for v in literals if v is not None]
    if data_type.root in TIMESTAMP_ROOTS:
        values = [v for v in values if int(v) % _MICRO == 0]
        options = [_timestamp(int(v) // _MICRO, data_type) for v in values]
    else:
        zeros = data_type.root in ("FLOAT", "DOUBLE") and any(v == 0 for v in values)
        options = [_literal(v, data_type) for v in values if not (zeros and v == 0)]
        if zeros:
            both = _compare_zero(column, "=", data_type)
            return _or_unknown(column.isin(*options) | both if options else both, literals)
    found_any = column.isin(*options) if options else _where_not_null(column, False)
    return _or_unknown(found_any, literals)


def _or_unknown(found: Column, literals: tuple[Any, ...]) -> Column:
    """x IN (1, NULL) is true or unknown, never false."""
    return F.when(found, F.lit(True)) if None in literals else found


def _literal(value: Any, data_type: AtomicType) -> Column:
    root = data_type.root
    if root == "TIME" or root == "VARIANT":
        raise Untranslatable(root)
    if root in ("FLOAT", "DOUBLE"):
        return F.lit(float(value)).cast(to_spark(data_type))
    if root in INTEGER_ROOTS or root == "DECIMAL":
        return F.lit(value).cast(to_spark(data_type))
    if root == "DATE":
        if abs(date_to_days(value)) > _MOST_DAYS:
            raise Untranslatable(str(value))
        return F.expr(f"DATE '{value.isoformat()}'")  # F.lit cannot express years before 1000
    return F.lit(value)


def _timestamp(micros: int, data_type: AtomicType) -> Column:
    if abs(micros) > _MOST_DAYS * SECONDS_PER_DAY * 1_000_000:
        raise Untranslatable(str(micros))
    text = moment_text(micros * 1000, 6)
    if data_type.root == "TIMESTAMP":
        return F.expr(f"TIMESTAMP_NTZ '{text}'")
    return F.expr(f"TIMESTAMP_LTZ '{text}+00:00'")


def like_for_spark(pattern: str) -> str:
    r"""A LIKE pattern that escapes only the characters that Spark allows after a backslash: `%`, `_` and the backslash.

    >>> print(like_for_spark("a\\b\\%_\\"))
    ab\%_\\
    """
    out, characters = [], iter(pattern)
    for c in characters:
        if c == "\\":
            c = next(characters, "\\")
            out.append(f"\\{c}" if c in "\\%_" else c)
        else:
            out.append(c)
    return "".join(out)


def partition_of(condition: Predicate | None, keys: Sequence[str]) -> dict[str, Any] | None:
    """The partition that a condition describes by the values of its columns, {} for all rows; None if it describes others."""
    if condition is None:
        return {}
    tests = condition.parts if isinstance(condition, And) else (condition,)
    found: dict[str, Any] = {}
    for test in tests:
        if not isinstance(test, Comparison) or test.column not in keys or test.column in found or test.path:
            return None
        if test.op == "is_null":
            found[test.column] = None
        elif test.op in ("=", "in") and len(test.literals) == 1:
            found[test.column] = test.literals[0]
        else:
            return None
    return found
