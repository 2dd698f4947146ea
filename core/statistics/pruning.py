"""Find the files, manifests and partitions that cannot hold a row that matches a predicate.

Owns: testing bound predicates against statistics and partition values. Must not know: manifests' bytes, stores, rows.
Source: format/statistics §1, §3. Invariant: A file with a matching row is never dropped, whatever is unknown about it
and whichever writer made it, even one that computes bounds without NaN (see `trust_float_bounds`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..expressions.evaluate import rows_kept
from ..expressions.masks import tested
from ..expressions.tree import COMPLEMENT, And, Comparison, Not, Or, Predicate, columns_of
from ..metadata.data_file import SimpleStats
from ..rows.partition import PartitionCodec
from ..rows.types import Field
from ..rows.values import sql_key
from .collect import ColumnStats, decode_stats


def split_predicate(
    predicate: Predicate, partition_columns: Sequence[str]
) -> tuple[Predicate | None, Predicate | None]:
    """Split a predicate into (the part on partition columns, the rest), which together equal it. None is an empty part.

    >>> from ..expressions.columns import col
    >>> part, rest = split_predicate((col("month") == 1) & (col("x") > 2), ["month"])
    >>> str(part), str(rest)
    ('month = 1', 'x > 2')
    """
    keys = set(partition_columns)
    parts = predicate.parts if isinstance(predicate, And) else (predicate,)
    inside = tuple(p for p in parts if columns_of(p) <= keys)
    outside = tuple(p for p in parts if not columns_of(p) <= keys)
    return _all(inside), _all(outside)


def _all(parts: tuple[Predicate, ...]) -> Predicate | None:
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(parts)


class PartitionTest:
    """Tells of which partitions a bound predicate on partition columns keeps the rows. Each is tested once, many at a time."""

    def __init__(self, predicate: Predicate | None, codec: PartitionCodec) -> None:
        self._predicate, self._codec = predicate, codec
        self._known: dict[bytes, bool] = {}

    def kept(self, partitions: Sequence[bytes]) -> list[bool]:
        if self._predicate is None:
            return [True] * len(partitions)
        new = list({p for p in partitions if p not in self._known})
        if new:
            rows = [self._codec.decode(partition) for partition in new]
            columns = {f.name: [row[i] for row in rows] for i, f in enumerate(self._codec.fields)}
            self._known.update(zip(new, rows_kept(self._predicate, columns, self._codec.fields, len(new)), strict=True))
        return [self._known[p] for p in partitions]


def partition_stats(values: Sequence[Any], fields: Sequence[Field], row_count: int) -> dict[str, ColumnStats]:
    """A partition's values as statistics of a file in it, for predicates that combine them with other columns."""
    return {f.name: ColumnStats(v, v, row_count if v is None else 0) for f, v in zip(fields, values, strict=True)}


def may_match(
    predicate: Predicate,
    stats: Mapping[str, ColumnStats],
    row_count: int | None,
    *,
    trust_float_bounds: bool = False,
) -> bool:
    """Can a file hold a row that matches a bound predicate? Statistics of a missing column are unknown.

    Args:
        row_count: the rows of the file, including nulls.
        trust_float_bounds: in the bounds of FLOAT and DOUBLE, NaN counts as the largest value. This holds for lakelatch's files
            and for Apache Paimon's Parquet and Avro files, but not for its ORC files or for other writers.

    >>> from ..expressions.columns import col
    >>> may_match(col("a") > 5, {"a": ColumnStats(1, 5, 0)}, 10), may_match(col("b") > 5, {}, 10)
    (False, True)
    """
    return _may(predicate, _File(stats, row_count, trust_float_bounds), negated=False)


def may_match_range(
    predicate: Predicate,
    stats: SimpleStats,
    fields: Sequence[Field],
    entry_count: int | None,
    where: str = "_PARTITION_STATS",
) -> bool:
    """Can a manifest with these `_PARTITION_STATS` hold a partition that a predicate keeps? Raises TableCorrupt."""
    columns = decode_stats(stats, fields, where)
    return may_match(predicate, {f.name: c for f, c in zip(fields, columns, strict=True)}, entry_count)


# ----------------------------------------------------------------------------------------------------------- the test


class _File:
    __slots__ = ("row_count", "stats", "trusts_floats")

    def __init__(self, stats: Mapping[str, ColumnStats], row_count: int | None, trusts_floats: bool) -> None:
        self.stats = stats
        self.row_count = row_count
        self.trusts_floats = trusts_floats


def _may(predicate: Predicate, file: _File, negated: bool) -> bool:
    """A negation is pushed to the comparisons: that a part may be false says nothing about the negation of the whole."""
    match predicate:
        case Comparison():
            return _leaf_may(predicate, file, negated)
        case Not(part=part):
            return _may(part, file, not negated)
        case And(parts=parts):
            answers = (_may(p, file, negated) for p in parts)
            return any(answers) if negated else all(answers)
        case Or(parts=parts):
            answers = (_may(p, file, negated) for p in parts)
            return all(answers) if negated else any(answers)
        case _:
            return True


def _leaf_may(leaf: Comparison, file: _File, negated: bool) -> bool:
    column = file.stats.get(leaf.column)
    if column is None:
        return True
    op = leaf.op
    if negated and op in COMPLEMENT:
        op, negated = COMPLEMENT[op], False
    if op == "is_null":
        return column.null_count != 0 or bool(leaf.path)  # a field may be null where its ROW is not
    if file.row_count is not None and column.null_count == file.row_count:
        return False  # only nulls: every comparison is unknown, and IS NOT NULL is false
    if op == "is_not_null" or leaf.path:
        return True  # there are no bounds of a field in a ROW
    if op != "in" and leaf.literals[0] is None:
        return False
    low, high = _usable_bounds(column, file.trusts_floats)
    if op == "in":
        return _in_may(leaf.literals, low, high, negated)
    if op in _RANGE_TESTS:
        return _RANGE_TESTS[op](sql_key(leaf.literals[0]), low, high)
    return _text_may(op, leaf.literals[0], column, negated)


def _usable_bounds(column: ColumnStats, trusts_floats: bool) -> tuple[Any, Any]:
    low, high = column.min, column.max
    if isinstance(low, float) or isinstance(high, float):
        low, high = _float_bounds(low, high, trusts_floats)
    return None if low is None else sql_key(low), None if high is None else sql_key(high)


def _float_bounds(low: Any, high: Any, trusts_floats: bool) -> tuple[Any, Any]:
    """Writers differ on NaN: ORC's bounds leave it out, or both are NaN if it came first."""
    if not trusts_floats:
        low, high = None if low is not None and math.isnan(low) else low, None
    return low, high


def _below(key: Any, low: Any) -> bool:
    return low is None or low < key


def _above(key: Any, high: Any) -> bool:
    return high is None or high > key


_RANGE_TESTS: dict[str, Callable[[Any, Any, Any], bool]] = {
    "=": lambda key, low, high: (low is None or low <= key) and (high is None or high >= key),
    "!=": lambda key, low, high: low is None or high is None or not low == key == high,
    "<": lambda key, low, high: _below(key, low),
    "<=": lambda key, low, high: low is None or low <= key,
    ">": lambda key, low, high: _above(key, high),
    ">=": lambda key, low, high: high is None or high >= key,
}


def _in_may(literals: tuple[Any, ...], low: Any, high: Any, negated: bool) -> bool:
    keys = [sql_key(v) for v in literals if v is not None]
    if not negated:
        return any(_RANGE_TESTS["="](key, low, high) for key in keys)
    if len(keys) < len(literals):
        return False  # x NOT IN (1, NULL) is never true
    return low is None or low != high or low not in keys


# --------------------------------------------------------------------------------------------------------------- text


def _text_may(op: str, literal: Any, column: ColumnStats, negated: bool) -> bool:
    low, high = column.min, column.max
    if negated:
        # The file has only one value, which can be tested itself.
        if low is not None and low == high:
            return not tested(Comparison(op, "", (literal,)), pa.array([low]))[0].as_py()
        return True
    prefix = literal if op == "starts_with" else like_prefix(literal) if op == "like" else literal[:0]
    if not prefix:
        return True
    # Every text that begins with the prefix is between the prefix and the prefix followed by anything.
    if high is not None and high < prefix:
        return False
    return low is None or low[: len(prefix)] <= prefix


def like_prefix(pattern: str) -> str:
    r"""The prefix of all texts that a LIKE pattern matches.

    >>> like_prefix("ab\\%c%d")
    'ab%c'
    """
    head = re.match(r"(?:[^%_\\]|\\.)*", pattern, re.DOTALL)
    return re.sub(r"\\(.)", r"\1", head[0] if head else "", flags=re.DOTALL)
