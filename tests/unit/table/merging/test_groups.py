"""The rows of a section by key and age, as sorting them one by one gives them; no rows, and keys with a single one."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from unit.table.merging.test_merge import ADD, AFTER, BEFORE, DELETE, section

from lakelatch.table.merging.engine import take
from lakelatch.table.merging.groups import Groups, group_rows
from lakelatch.table.merging.merge import chosen_rows, merge_key_rows, merge_section, newest_rows

ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "lookups": {"changelog_producer": "lookup"},
    "ignoring": {"ignore_delete": "true"},
    "first row": {"merge_engine": "first-row"},
    "partial update": {"merge_engine": "partial-update"},
    "a group": {"merge_engine": "partial-update", "fields__a__sequence_group": "b"},
    "aggregation": {"merge_engine": "aggregation", "fields__a__aggregate_function": "sum"},
    "aggregation with lookups": {
        "merge_engine": "aggregation",
        "fields__b__aggregate_function": "max",
        "changelog_producer": "lookup",
    },
}


@pytest.mark.parametrize("engine", ENGINES)
def test_no_rows_become_none(engine: str) -> None:
    rules, fields, columns = section([(1, ADD, 1, 1, 1)], None, None, ENGINES[engine])
    empty = {name: column.slice(1) for name, column in columns.items()}
    names = [f.name for f in fields]
    count, found = merge_section(rules, empty.__getitem__, fields, names)
    assert count == 0 and {name: len(found[name]) for name in names} == dict.fromkeys(names, 0)
    count, found = merge_key_rows(rules, empty.__getitem__, fields, names, drop_deletes=False)
    assert count == 0 and len(found) == len(names) + 2
    groups = group_rows(empty.__getitem__, rules)
    assert groups.order.tolist() == groups.starts.tolist() == [] and list(groups.rounds()) == []
    if rules.keeps_whole_rows:
        assert chosen_rows(rules, empty.__getitem__, fields).tolist() == []
    assert newest_rows(rules, empty.__getitem__).tolist() == []


def shuffled(random: Random, rows: int, keys: int) -> list[tuple[Any, ...]]:
    def value() -> int | None:
        return random.choice([None, 1, 2, 3])

    kinds = [ADD, AFTER, BEFORE, DELETE]
    return [(random.randrange(6), random.choice(kinds), random.randrange(keys), value(), value()) for _ in range(rows)]


@pytest.mark.parametrize(
    ("options", "columns"),
    [({}, ()), ({"sequence__field": "b"}, (4,)), ({"sequence__field": "b,a"}, (4, 3))],
    ids=["by number", "by a column", "by two columns"],
)
def test_rows_are_sorted_by_key_and_then_by_age(options: dict[str, str], columns: tuple[int, ...]) -> None:
    """By the sequence fields, nulls first, then by number; of equal ones a row that deletes is older, and then files decide."""
    random = Random(str(options))
    for count, keys in [(1, 1), (2, 1), (5, 2), (30, 4), (60, 50)] * 8:
        rows = shuffled(random, count, keys)
        rules, _, given = section(rows, None, None, options)

        def age(place: int, rows: list[Any] = rows) -> Any:
            row = rows[place]
            fields = tuple(-1 if row[c] is None else row[c] for c in columns)
            return row[2], *fields, row[0], row[1] not in (BEFORE, DELETE), place

        expected = sorted(range(count), key=age)
        groups = group_rows(given.__getitem__, rules)
        assert groups.order.tolist() == expected
        assert groups.kinds.tolist() == [rows[place][1] for place in expected]
        held = [[place for place in expected if rows[place][2] == key] for key in sorted({row[2] for row in rows})]
        assert groups.sizes.tolist() == [len(places) for places in held]
        assert groups.starts.tolist() == np.cumsum([0, *(len(places) for places in held)])[:-1].tolist()
        assert groups.retracts.tolist() == [rows[place][1] in (BEFORE, DELETE) for place in expected]
        taken: dict[int, list[int]] = {}
        for numbers, places, positions in groups.rounds():
            assert groups.order[places].tolist() == positions.tolist()
            for number, position in zip(numbers.tolist(), positions.tolist(), strict=True):
                taken.setdefault(number, []).append(position)
        assert taken == {number: places for number, places in enumerate(held) if len(places) > 1}


def test_a_key_with_one_row_is_merged_where_the_rules_say_so() -> None:
    order = np.arange(3)
    for merges, alone in ((False, [False, True]), (True, [False, False])):
        groups = Groups(order, np.array([0, 2]), np.array([2, 1]), np.array([ADD, ADD, DELETE]), merges)
        assert groups.is_alone.tolist() == alone
        assert [keys.tolist() for keys, _, _ in groups.rounds()] == ([[0, 1], [0]] if merges else [[0], [0]])
    assert not Groups(order, order, order, order).merges_single


@pytest.mark.parametrize("keys", [1, 3, 40])
def test_of_rows_that_come_oldest_first_the_last_of_each_key_is_the_newest(keys: int) -> None:
    random = Random(keys)
    rows = [(0, ADD, random.randrange(keys), 1, 1) for _ in range(40)]
    rules, _, columns = section(rows, None, None, {})
    found = newest_rows(rules, {"k": columns["k"]}.__getitem__).tolist()
    assert found == [row[2] not in [later[2] for later in rows[place + 1 :]] for place, row in enumerate(rows)]


@pytest.mark.parametrize(
    "positions", [[0, 1, 2], [2, 1, 0], [0, 1], [], [0, -1, 2], [-1, -1, -1], [0, 1, 1], [2, 2, 2, 0, -1]], ids=str
)
def test_rows_are_taken_by_their_places_and_none_is_null(positions: list[int]) -> None:
    values = ["a", None, "c"]
    taken = take(pa.array(values), np.array(positions, np.int64))
    assert taken.to_pylist() == [None if place < 0 else values[place] for place in positions]
    assert take(pa.array([], pa.string()), np.full(len(positions), -1)).to_pylist() == [None] * len(positions)


def test_a_single_row_that_is_ignored_goes_only_where_single_rows_are_merged() -> None:
    """A compaction that looks for older rows merges a key's only row as well; any other leaves it as it is."""
    rules, _, columns = section([(1, DELETE, 1, 1, 1), (2, ADD, 2, 1, 1)], None, None, {"ignore_delete": "true"})
    assert group_rows(columns.__getitem__, rules).order.tolist() == [0, 1]
    found = group_rows(columns.__getitem__, rules.of_lookups)
    assert found.order.tolist() == [1] and found.starts.tolist() == [0] and not found.is_alone.any()
