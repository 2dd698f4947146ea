"""Pruning: a file with a matching row is never dropped, and files without one usually are."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.expressions.binding import bind, condition_of
from lakelatch.core.expressions.columns import col
from lakelatch.core.expressions.evaluate import to_arrow_mask
from lakelatch.core.expressions.tree import And, Comparison
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.partition import PartitionCodec
from lakelatch.core.rows.types import AtomicType, Field, string, timestamp
from lakelatch.core.statistics.collect import ColumnStats, StatsMode, decode_stats, file_stats_fields
from lakelatch.core.statistics.pruning import (
    PartitionTest,
    like_prefix,
    may_match,
    may_match_range,
    partition_stats,
    split_predicate,
)
from lakelatch.tests.collected import collect_stats, row_stats
from lakelatch.tests.predicates import FIELDS, evaluate, predicates, tables, values_of

MODES = [StatsMode("none"), StatsMode("counts"), StatsMode("truncate", 1), StatsMode("truncate", 16), StatsMode("full")]
X = col("x")


def by_name(table: pa.Table, mode: StatsMode) -> dict[str, ColumnStats]:
    stats, columns = collect_stats(table, FIELDS, {f.name: mode for f in FIELDS})
    fields = file_stats_fields(FIELDS, None, columns) or []
    return {f.name: c for f, c in zip(fields, decode_stats(stats, fields), strict=True)}


@settings(max_examples=300, deadline=None)
@given(tables(), predicates(), st.sampled_from(MODES))
def test_a_file_with_a_matching_row_is_kept(table: pa.Table, predicate: Any, mode: StatsMode) -> None:
    """G1: pruning never hides a row: random columns with NaN, zeros, nulls and long texts, random trees, every mode."""
    bound = bind(predicate, FIELDS)
    if pc.any(to_arrow_mask(bound, table)).as_py():
        stats = by_name(table, mode)
        for trusted in (True, False):
            assert may_match(bound, stats, table.num_rows, trust_float_bounds=trusted)
            assert may_match(bound, stats, None, trust_float_bounds=trusted)


@settings(max_examples=150, deadline=None)
@given(tables(), predicates())
def test_foreign_float_bounds_are_not_trusted(table: pa.Table, predicate: Any) -> None:
    """G1: bounds of writers that ignore NaN and the sign of zero, or that saw NaN first, hide no row."""
    bound = bind(predicate, FIELDS)
    if not pc.any(to_arrow_mask(bound, table)).as_py():
        return
    honest = by_name(table, StatsMode("full"))
    for name in ("f", "d"):
        numbers = [v for v in table[name].to_pylist() if v is not None]
        without_nan = [v for v in numbers if v == v] or [math.nan]
        for low, high in ((min(without_nan), max(without_nan)), (math.nan, math.nan)):
            foreign = honest | {name: ColumnStats(low, high, honest[name].null_count)} if numbers else honest
            assert may_match(bound, foreign, table.num_rows)


@settings(max_examples=150, deadline=None)
@given(tables(max_rows=1), predicates())
def test_one_row_is_pruned_exactly(table: pa.Table, predicate: Any) -> None:
    """G4: with full statistics of one row nothing is left to guess, but for text inside of text, floats' zeros, and binary."""
    bound = bind(predicate, FIELDS)
    if table.num_rows and not any(
        w in repr(bound) for w in ("ends_with", "contains", "like", "'f'", "'d'", "'y'", "is_null", "is_not_null")
    ):
        row = values_of(table)[0]
        assert may_match(bound, by_name(table, StatsMode("full")), 1) is (evaluate(bound, row) is True)


@pytest.mark.parametrize(
    ("predicate", "stats", "rows", "expected"),
    [
        (X == 5, ColumnStats(1, 4, 0), 9, False),
        (X == 5, ColumnStats(1, 5, 0), 9, True),
        (X != 5, ColumnStats(5, 5, 0), 9, False),
        (X != 5, ColumnStats(5, 6, 0), 9, True),
        (X < 1, ColumnStats(1, 4, 0), 9, False),
        (X <= 1, ColumnStats(1, 4, 0), 9, True),
        (X > 4, ColumnStats(1, 4, 0), 9, False),
        (X >= 5, ColumnStats(1, 4, 0), 9, False),
        (~(X < 5), ColumnStats(1, 4, 0), 9, False),
        (~(X > 0), ColumnStats(1, 4, 0), 9, False),
        (~((X < 5) | (X > 9)), ColumnStats(1, 4, 0), 9, False),
        (~((X < 5) & (X > 0)), ColumnStats(1, 4, 0), 9, False),
        (X.is_in([7, 9]), ColumnStats(1, 4, 0), 9, False),
        (X.is_in([0, 2, 9]), ColumnStats(1, 4, 0), 9, True),
        (~X.is_in([5, 6]), ColumnStats(5, 5, 0), 9, False),
        (~X.is_in([5, 6]), ColumnStats(5, 6, 0), 9, True),
        (~Comparison("in", "x", (1, None)), ColumnStats(5, 6, 0), 9, False),
        (X.is_null(), ColumnStats(1, 4, 0), 9, False),
        (X.is_null(), ColumnStats(1, 4, None), 9, True),
        (~X.is_null(), ColumnStats(None, None, 9), 9, False),
        (X.is_not_null(), ColumnStats(None, None, 9), 9, False),
        (X.is_not_null(), ColumnStats(None, None, 8), 9, True),
        (X == 5, ColumnStats(None, None, 9), 9, False),
        (X != 5, ColumnStats(None, None, 9), 9, False),
        (X == 5, ColumnStats(None, None, 3), 9, True),
        (X == 5, ColumnStats(None, None, None), 9, True),
        (X == 5, ColumnStats(None, 4, 0), 9, False),
        (Comparison("=", "x", (None,)), ColumnStats(1, 4, 0), 9, False),
        (And(()), ColumnStats(1, 4, 0), 9, True),
    ],
)
def test_numbers(predicate: Any, stats: ColumnStats, rows: int, expected: bool) -> None:
    """G4: each rule of the statistics, in both directions."""
    assert may_match(predicate, {"x": stats}, rows) is expected


@pytest.mark.parametrize(
    ("predicate", "low", "high", "expected"),
    [
        (X.starts_with("b"), "c", "d", False),
        (X.starts_with("b"), "a", "az", False),
        (X.starts_with("b"), "a", "b", True),
        (X.starts_with("b"), "ba", "bz", True),
        (X.starts_with("bc"), "b", "bb", False),
        (X.starts_with("bc"), "b", "bcd", True),
        (X.starts_with("bcd"), "bce", "bcf", False),
        (X.starts_with(""), "b", "bb", True),
        (X.like("b%c_"), "c", "d", False),
        (X.like("%b"), "c", "d", True),
        (X.ends_with("b"), "c", "d", True),
        (~X.starts_with("b"), "bb", "bb", False),
        (~X.starts_with("b"), "bb", "bc", True),
        (X > "y" * 17, "a", "y" * 15 + "z", True),
    ],
)
def test_text(predicate: Any, low: str, high: str, expected: bool) -> None:
    """G4: prefixes against bounds, cut ones too."""
    assert may_match(predicate, {"x": ColumnStats(low, high, 0)}, 9) is expected


def test_trusted_floats_prune() -> None:
    """G4: where NaN is known to be counted, a maximum prunes; elsewhere it cannot, for NaN is above every literal."""
    stats = {"x": ColumnStats(1.0, 4.0, 0)}
    assert not may_match(X > 5.0, stats, 9, trust_float_bounds=True) and may_match(X > 5.0, stats, 9)
    assert not may_match(X < 1.0, stats, 9)
    zeros = {"x": ColumnStats(0.0, -0.0, 0)}
    assert not may_match(X < 0.0, zeros, 9, trust_float_bounds=True)
    assert may_match(X >= 0.0, zeros, 9, trust_float_bounds=True), "and its -0.0 for 0.0"
    assert may_match(X < 0.0, {"x": ColumnStats(math.nan, math.nan, 0)}, 9), "ORC's, when NaN came first"


def test_prefix_of_a_pattern() -> None:
    """G4: wildcards end it, escaped ones do not."""
    assert [like_prefix(p) for p in ("abc", "a%b", "_a", r"a\_b_c", "")] == ["abc", "a", "", "a_b", ""]


def test_splitting_by_partition_columns() -> None:
    """G4: both halves together are the whole; a mixed OR stays with the rest."""
    part, mixed, rest = (col("p") == 1), (col("p") == 2) | (col("x") == 3), (col("x") > 4)
    assert split_predicate(part & mixed & rest, ["p"]) == (part, mixed & rest)
    assert split_predicate(part, ["p"]) == (part, None)
    assert split_predicate(rest, ["p"]) == (None, rest)
    assert split_predicate(part & (col("p") < 5), ["p"]) == (part & (col("p") < 5), None)


def test_partitions() -> None:
    """G4: exact on the values; null is tested as null; mixed predicates see them as statistics."""
    fields = (Field(0, "p", AtomicType("INT")), Field(1, "q", string()))
    codec = PartitionCodec(fields)
    partitions = [codec.encode(values) for values in ((1, None), (2, "x"), (1, "x"))]
    assert PartitionTest((col("p") == 1) & col("q").is_null(), codec).kept(partitions) == [True, False, False]
    assert PartitionTest(col("q") != "x", codec).kept(partitions) == [False, False, False]
    assert PartitionTest(condition_of("lower(q) = 'x' AND p % 2 = 0", fields), codec).kept(partitions) == [
        False,
        True,
        False,
    ]
    assert PartitionTest(condition_of("1 = 2", ()), PartitionCodec(())).kept([encode_row([], [])]) == [False]
    nanos = Field(0, "p", timestamp(9))
    far = PartitionCodec((nanos,))
    times = [far.encode([nano]) for nano in (0, 4 * 10**19, -6 * 10**19, 1, None)]
    after = PartitionTest(condition_of("p > '1970-01-01'", [nanos]), far)
    assert after.kept(times) == [False, True, False, True, False], "years that nanoseconds cannot count"
    mixed = ((col("p") == 1) & (X == 5)) | ((col("p") == 2) & (X == 9)) | (col("q") == "z")
    file = {"x": ColumnStats(6, 9, 0)}
    assert not may_match(mixed, file | partition_stats((1, None), fields, 7), 7)
    assert may_match(mixed, file | partition_stats((2, None), fields, 7), 7)
    assert may_match(col("q").is_null(), partition_stats((2, None), fields, 7), 7)
    assert not may_match(col("q").is_not_null(), partition_stats((2, None), fields, 7), 7)


def test_manifests() -> None:
    """G4: a manifest is skipped only if none of its partitions can match."""
    fields = (Field(0, "p", AtomicType("INT")), Field(1, "q", string()))
    codec = PartitionCodec(fields)
    rows = [codec.decode(codec.encode(v)) for v in ((1, None), (3, "b"), (3, "d"))]
    stats = row_stats(rows, fields)
    assert may_match_range(col("p") == 2, stats, fields, 3)
    assert not may_match_range(col("p") == 4, stats, fields, 3)
    assert not may_match_range(col("p").is_null(), stats, fields, 3)
    assert may_match_range(col("q").is_null(), stats, fields, 3)
    assert not may_match_range(col("q").is_not_null(), row_stats(rows[:1], fields), fields, 1)
    assert may_match_range(col("p") == 4, row_stats([], ()), fields, None), "no statistics at all"
