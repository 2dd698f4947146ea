"""What a compaction with a changelog writes: merged rows, and the rows before and after (format/lookup-compaction §2)."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.core.rows.value_numbers import same_values
from lakelatch.table.merging.compared import Comparison, keys_without_old_row, merge_and_compare

ADD, BEFORE, AFTER, DELETE = range(4)
Rows = list[tuple[Any, ...]]
LOOKUP = Comparison()
FIELDS = (
    Field(0, "k", AtomicType("INT", nullable=False)),
    Field(1, "a", AtomicType("INT")),
    Field(2, "b", AtomicType("DOUBLE")),
)
TYPES = (pa.int32(), pa.int64(), pa.int8(), pa.int32(), pa.int32(), pa.float64())
NAMES = ("_LEVEL", "_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "a", "b")


def rules_of(**options: str) -> MergeRules:
    texts = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    rules = merge_rules(new_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"} | texts))
    assert rules is not None
    return rules.of_lookups if rules.has_lookups else rules


def compared(
    rows: Rows, comparison: Comparison = LOOKUP, drop_deletes: bool = True, **options: str
) -> tuple[Rows, Rows]:
    """Rows of (level, sequence number, kind, k, a, b), merged, and their changelog, without levels."""
    options = options or {"changelog_producer": "lookup"}
    columns = {n: pa.array([r[i] for r in rows], TYPES[i]) for i, n in enumerate(NAMES)}
    found = merge_and_compare(
        rules_of(**options), columns.__getitem__, FIELDS, NAMES[3:], comparison, drop_deletes=drop_deletes
    )
    after, changes = ([tuple(row[n] for n in NAMES[1:]) for row in table.to_pylist()] for table in found)
    return after, changes


def test_the_rows_before_are_those_above_level_0() -> None:
    rows = [
        (3, 1, ADD, 1, 10, None),
        (0, 5, AFTER, 1, 11, None),  # updated
        (0, 6, AFTER, 2, 20, None),  # inserted, although its kind says otherwise
        (4, 2, ADD, 3, 30, None),
        (0, 7, DELETE, 3, 31, None),  # deleted: the row before is shown
        (0, 8, DELETE, 4, 40, None),  # deleted before it was there
        (4, 3, AFTER, 5, 50, None),  # nothing new
        (2, 4, DELETE, 6, 60, None),
        (0, 9, ADD, 6, 61, None),  # inserted after a delete
    ]
    after, changes = compared(rows)
    assert [row[2:4] for row in after] == [(1, 11), (2, 20), (5, 50), (6, 61)]
    assert changes == [
        (1, BEFORE, 1, 10, None),
        (5, AFTER, 1, 11, None),
        (6, ADD, 2, 20, None),
        (2, DELETE, 3, 30, None),
        (9, ADD, 6, 61, None),
    ]
    kept, _ = compared(rows, drop_deletes=False)
    assert [row[:4] for row in kept if row[1] == DELETE] == [(7, DELETE, 3, 31), (8, DELETE, 4, 40)]


def test_of_several_older_rows_the_one_in_the_lowest_level_counts() -> None:
    rows = [(5, 1, ADD, 1, 1, None), (3, 2, ADD, 1, 2, None), (0, 3, ADD, 1, 4, None)]
    options = {"merge_engine": "aggregation", "fields__a__aggregate_function": "sum", "changelog_producer": "lookup"}
    after, changes = compared(rows, **options)
    assert after == [(3, ADD, 1, 6, None)]
    assert changes == [(2, BEFORE, 1, 2, None), (3, AFTER, 1, 6, None)]


def test_a_full_compaction_compares_with_the_top_level() -> None:
    rows = [
        (5, 1, ADD, 1, 1, None),
        (4, 2, ADD, 1, 2, None),  # not seen by any reader of the changelog before
        (0, 3, DELETE, 1, 3, None),
        (5, 4, ADD, 2, 4, None),
        (4, 5, ADD, 3, 5, None),
        (4, 6, DELETE, 4, 6, None),
        (5, 7, ADD, 5, 7, None),
        (4, 8, ADD, 5, 7, None),
    ]
    options = {"changelog_producer": "full-compaction"}
    after, changes = compared(rows, Comparison(top_level=5), **options)
    assert [row[2] for row in after] == [2, 3, 5]
    assert changes == [
        (1, DELETE, 1, 1, None),
        (5, ADD, 3, 5, None),
        (7, BEFORE, 5, 7, None),
        (8, AFTER, 5, 7, None),
    ]
    assert compared(rows, Comparison(5, ("k", "a", "b")), **options)[1] == changes[:2]


def test_rows_that_are_equal_in_the_compared_columns_have_not_changed() -> None:
    rows = [
        (1, 1, ADD, 1, 1, -0.0),
        (0, 2, ADD, 1, 1, 0.0),
        (1, 3, ADD, 2, 1, None),
        (0, 4, ADD, 2, 1, None),
        (1, 5, ADD, 3, 1, 1.0),
        (0, 6, ADD, 3, 2, 1.0),
        (1, 7, ADD, 4, 1, None),
        (0, 8, ADD, 4, 1, 1.0),
    ]
    assert {row[2] for row in compared(rows)[1]} == {1, 2, 3, 4}
    assert {row[2] for row in compared(rows, Comparison(compared=("k", "a", "b")))[1]} == {1, 3, 4}
    assert {row[2] for row in compared(rows, Comparison(compared=("k", "b")))[1]} == {1, 4}


def test_an_older_row_wins_by_its_sequence_field() -> None:
    rows = [(4, 1, ADD, 1, 9, 1.0), (0, 2, ADD, 1, 5, 2.0), (4, 3, ADD, 2, 5, 1.0), (0, 4, ADD, 2, 9, 2.0)]
    after, changes = compared(rows, Comparison(compared=("a",)), sequence__field="a", changelog_producer="lookup")
    assert after == [(1, ADD, 1, 9, 1.0), (4, ADD, 2, 9, 2.0)]
    assert [row[2] for row in changes] == [2, 2]


def test_a_single_row_is_merged_too_where_older_rows_are_looked_up() -> None:
    """Apache Paimon takes back what was never there: the sum is negative, and the key exists."""
    options = {"merge_engine": "aggregation", "fields__a__aggregate_function": "sum"}
    rows = [(0, 1, DELETE, 1, 5, None), (0, 2, AFTER, 2, 6, None)]
    after, _ = compared(rows, changelog_producer="lookup", **options)
    assert after == [(1, ADD, 1, -5, None), (2, ADD, 2, 6, None)]
    after, changes = compared(rows, Comparison(5), changelog_producer="full-compaction", **options)
    assert after == [(2, AFTER, 2, 6, None)] and changes == [(2, ADD, 2, 6, None)]


def test_the_first_row_stays_without_a_change() -> None:
    rows = [(3, 1, ADD, 1, 1, None), (0, 2, ADD, 1, 2, None), (0, 4, ADD, 2, 4, None), (0, 3, AFTER, 2, 3, None)]
    after, changes = compared(rows, merge_engine="first-row", changelog_producer="lookup")
    assert after == [(1, ADD, 1, 1, None), (3, AFTER, 2, 3, None)]
    assert changes == [(3, AFTER, 2, 3, None)]


def test_keys_that_only_level_0_has_are_looked_up() -> None:
    rows = [(0, 1, ADD, 1, 0, None), (0, 2, ADD, 1, 0, None), (2, 3, ADD, 2, 0, None), (0, 4, ADD, 2, 0, None)]
    columns = {n: pa.array([r[i] for r in rows], TYPES[i]) for i, n in enumerate(NAMES)}
    found = keys_without_old_row(rules_of(changelog_producer="lookup"), columns.__getitem__)
    assert [rows[i][3] for i in found] == [1]


NESTED = [
    (pa.list_(pa.int32()), [[1], [2, None], [], None, [1], [3, 4]], [[1], [2, 3], [], [], [1, 2], [3, 4]]),
    (
        pa.map_(pa.string(), pa.int32()),
        [[("a", 1)], [("a", 1)], [], None, [("a", 1)], [("a", 1), ("b", 2)]],
        [[("a", 1)], [("a", 2)], [], [], [("a", 1), ("b", 2)], [("a", 1), ("b", 2)]],
    ),
    (
        pa.struct([("x", pa.list_(pa.string())), ("y", pa.int8())]),
        [{"x": ["a"], "y": 1}, {"x": ["a"], "y": 1}, {"x": None, "y": None}, None, {"x": [], "y": 1}, {"x": ["b"], "y": 2}],
        [{"x": ["a"], "y": 1}, {"x": ["b"], "y": 1}, {"x": None, "y": None}, {"x": None, "y": None}, {"x": None, "y": 1},
         {"x": ["b"], "y": 2}],
    ),
]  # fmt: skip


_BOTH = [("a", 1), ("b", None)], [("b", None), ("a", 1)]
MAPS = pa.map_(pa.string(), pa.float32())


@pytest.mark.parametrize(
    ("kind", "one", "other", "same"),
    [
        (pa.float64(), math.nan, math.nan, True),
        (pa.float32(), -0.0, 0.0, False),
        (MAPS, [("a", 1), ("b", math.nan)], [("b", math.nan), ("a", 1)], True),
        (MAPS, [("a", 1), ("b", 2)], [("b", 1), ("a", 2)], False),
        (pa.list_(MAPS), [[("a", 1), ("b", 2)]], [[("b", 2), ("a", 1)]], True),
        (pa.struct([("x", pa.list_(pa.float64())), ("m", MAPS)]), *({"x": [math.nan], "m": e} for e in _BOTH), True),
        (
            pa.map_(pa.float64(), pa.list_(pa.int8())),
            [(math.nan, [1]), (0.0, [2])],
            [(0.0, [2]), (math.nan, [1])],
            True,
        ),
    ],
)
def test_nan_is_equal_and_the_order_of_a_map_does_not_count_at_any_depth(
    kind: pa.DataType, one: Any, other: Any, same: bool
) -> None:
    assert same_values(pa.array([None, one], kind), pa.array([None, other], kind)).tolist() == [True, same]


@pytest.mark.parametrize(("kind", "one", "other"), NESTED, ids=["list", "map", "row"])
def test_nested_values_are_compared(kind: pa.DataType, one: list[Any], other: list[Any]) -> None:
    expected = [True, False, True, False, False, True]
    first, second = pa.array(one, kind), pa.array(other, kind)
    assert same_values(first, second).tolist() == expected
    assert same_values(first.slice(1), second.slice(1)).tolist() == expected[1:]
    assert same_values(first, first).all()


@pytest.mark.parametrize("drops", [True, False])
@pytest.mark.parametrize("compares", [None, ("a", "b"), ("a",)])
@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_the_changes_of_many_keys_are_those_of_each(producer: str, compares: Any, drops: bool) -> None:
    """For each key: what was there in the last level, and what is there once the newer rows are merged with it."""
    random = Random(f"{producer}/{compares}")
    comparison = Comparison(5 if producer == "full-compaction" else None, compares)
    for keys in (1, 2, 5, 40):
        rows, after, changes = list[Any](), list[Any](), list[Any]()
        for key in range(keys):
            versions = [
                (0 if i or random.random() < 0.3 else 5, 10 * key + i, random.choice([ADD, AFTER, DELETE]), key, a, b)
                for i in range(random.randint(1, 3))
                for a, b in [(random.choice([None, 1, 2]), random.choice([None, 0.5]))]
            ]
            rows += versions
            newest = versions[-1][1:]
            old = versions[0][1:] if versions[0][0] == 5 and versions[0][2] != DELETE else None
            new = newest if newest[1] != DELETE else None
            after += [newest] if new is not None or not drops else []
            if versions[-1][0] == 5:
                continue  # no newer row
            if old is not None and new is not None:
                places = [("k", "a", "b").index(name) + 2 for name in compares or ()]
                if compares is None or any(old[i] != new[i] for i in places):
                    changes += [(old[0], BEFORE, *old[2:]), (new[0], AFTER, *new[2:])]
            elif old is not None:
                changes.append((old[0], DELETE, *old[2:]))
            elif new is not None:
                changes.append((new[0], ADD, *new[2:]))
        rows.sort(key=lambda row: (-row[0], row[1]))  # as files come: the last level first
        found = compared(rows, comparison, drops, changelog_producer=producer)
        assert found == (after, changes), rows


def test_a_row_that_deletes_and_does_not_count_is_no_change_of_the_first_rows() -> None:
    """Alone under its key it stays in the file, as in Apache Paimon, and nobody is told of it."""
    rules = merge_rules(
        new_schema(
            FIELDS, primary_keys=["k"], options={"bucket": "1", "merge-engine": "first-row", "ignore-delete": "true"}
        )
    )
    assert rules is not None
    rows = [(0, 5, ADD, 1, 10, None), (0, 6, DELETE, 2, 20, None), (5, 1, ADD, 3, 30, None), (0, 7, ADD, 3, 31, None)]
    columns = {n: pa.array([r[i] for r in rows], TYPES[i]) for i, n in enumerate(NAMES)}
    for top in (None, 5):
        after, changes = merge_and_compare(
            rules, columns.__getitem__, FIELDS, NAMES[3:], Comparison(top), drop_deletes=False
        )
        assert list(zip(after["k"].to_pylist(), after["a"].to_pylist(), strict=True)) == [(1, 10), (2, 20), (3, 30)]
        told = [changes[name].to_pylist() for name in ("_VALUE_KIND", "k", "a")]
        assert told == [[ADD], [1], [10]]
