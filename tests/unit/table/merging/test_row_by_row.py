"""Columns that are merged at once give what one row after another gives, as format/primary-keys §4 says it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from unit.table.merging.test_merge import ADD, AFTER, BEFORE, DELETE, section, written

from lakelatch.table.merging.merge import columns_to_merge, merge_section

Row = tuple[Any, ...]
"""Sequence number, kind, key, and the values of a, b, c and d."""
COLUMNS = "abcd"
KINDS = [ADD] * 5 + [AFTER, BEFORE, DELETE]


def history(random: Random, keys: int, rows: int, kinds: list[int]) -> list[Row]:
    """Rows of some keys, not in the order of their numbers."""

    def value() -> int | None:
        return random.choice([None, 1, 2, 3, 4])

    found = [
        (number, random.choice(kinds), random.randrange(keys), *(value() for _ in COLUMNS)) for number in range(rows)
    ]
    random.shuffle(found)
    return found


def by_key(rows: list[Row]) -> dict[int, list[Row]]:
    """The rows of each key, oldest first."""
    found: dict[int, list[Row]] = {}
    for row in sorted(rows):
        found.setdefault(row[2], []).append(row)
    return dict(sorted(found.items()))


class Partial:
    """One key of an engine `partial-update`, to which rows are added one by one.

    Args:
        groups: sequence columns and the columns that go with them.
        ignores, removes: what becomes of rows that delete: nothing; the row is removed.
        removing: sequence columns whose rows that delete remove the row.
    """

    def __init__(self, groups: dict[str, str], ignores: bool, removes: bool, removing: str) -> None:
        self.groups, self.ignores, self.removes, self.removing = groups, ignores, removes, removing
        self.values: dict[str, int | None] | None = None
        self.added, self.is_there, self.number = False, False, 0

    def take(self, row: Row) -> None:
        number, kind, given = row[0], row[1], dict(zip(COLUMNS, row[3:], strict=True))
        retracts = kind in (BEFORE, DELETE)
        if self.values is None:
            self.values = dict(given) if retracts else dict.fromkeys(COLUMNS)
        if retracts and self.ignores:
            self.is_there = self.added
            return
        self.number = number
        if retracts:
            self.is_there = self.added
            self._retract(kind, given)
            return
        self.added = self.is_there = True
        grouped = "".join(sequence + members for sequence, members in self.groups.items())
        self.values |= {n: v for n, v in given.items() if v is not None and n not in grouped}
        for sequence, members in self.groups.items():
            if self._counts(sequence, given):
                self.values |= {name: given[name] for name in sequence + members}

    def _retract(self, kind: int, given: dict[str, int | None]) -> None:
        assert self.values is not None
        if not self.groups:
            assert self.removes
            if kind == DELETE:
                self.values, self.is_there = dict(given), False
            return
        for sequence, members in self.groups.items():
            if not self._counts(sequence, given):
                continue
            if kind == DELETE and set(sequence) & set(self.removing):
                self.values, self.is_there = dict(given), False
                return
            self.values |= dict.fromkeys(members) | {name: given[name] for name in sequence}

    def _counts(self, sequence: str, given: dict[str, int | None]) -> bool:
        """Is a row at least as new as what the group has?"""
        assert self.values is not None
        new, old = ([-1 if values[n] is None else values[n] for n in sequence] for values in (given, self.values))
        return any(given[name] is not None for name in sequence) and new >= old


CASES: dict[str, tuple[dict[str, str], dict[str, Any], list[int]]] = {
    "only additions": ({}, {}, [ADD, AFTER]),
    "deletes are ignored": ({"ignore_delete": "true"}, {"ignores": True}, KINDS),
    "deletes remove": ({"partial_update__remove_record_on_delete": "true"}, {"removes": True}, KINDS),
    "a group": ({"fields__a__sequence_group": "b,c"}, {"groups": {"a": "bc"}}, KINDS),
    "a group, deletes are ignored": (
        {"fields__a__sequence_group": "b,c", "ignore_delete": "true"},
        {"groups": {"a": "bc"}, "ignores": True},
        KINDS,
    ),
    "a group of two": ({"fields__a,b__sequence_group": "c"}, {"groups": {"ab": "c"}}, KINDS),
    "two groups": (
        {"fields__a__sequence_group": "b", "fields__c__sequence_group": "d"},
        {"groups": {"a": "b", "c": "d"}},
        KINDS,
    ),
    "two groups of which one removes": (
        {
            "fields__a__sequence_group": "b",
            "fields__c__sequence_group": "d",
            "partial_update__remove_record_on_sequence_group": "a",
        },
        {"groups": {"a": "b", "c": "d"}, "removing": "a"},
        KINDS,
    ),
    "two groups of which the second removes": (
        {
            "fields__a__sequence_group": "b",
            "fields__c__sequence_group": "d",
            "partial_update__remove_record_on_sequence_group": "c",
        },
        {"groups": {"a": "b", "c": "d"}, "removing": "c"},
        KINDS,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_partial_updates_give_what_one_row_after_another_gives(case: str) -> None:
    options, about, kinds = CASES[case]
    random = Random(case)
    for keys, rows in [(1, 2), (1, 3), (2, 7), (3, 5), (5, 40), (40, 60)] * 6:
        given = history(random, keys, rows, kinds)
        expected = []
        for key, versions in by_key(given).items():
            if len(versions) == 1:  # a row that is not merged with another stays as it is
                number, kind, _, *values = versions[0]
                expected.append((number, kind, key, *values))
                continue
            state = Partial(**({"groups": {}, "ignores": False, "removes": False, "removing": ""} | about))
            for row in versions:
                state.take(row)
            assert state.values is not None
            expected.append((state.number, ADD if state.is_there else DELETE, key, *state.values.values()))
        found = written(given, merge_engine="partial-update", **options)
        assert found == expected, given
        left = [row for row in expected if row[1] in (ADD, AFTER)]
        assert written(given, drop_deletes=True, merge_engine="partial-update", **options) == left


@pytest.mark.parametrize("wanted", ["a", "b", "d", "bd", "ka", "c"])
@pytest.mark.parametrize("case", CASES)
def test_some_columns_are_merged_without_the_others(case: str, wanted: str) -> None:
    """Only what they need is read."""
    options, _, kinds = CASES[case]
    given = history(Random(case), 8, 40, kinds)
    rules, fields, columns = section(given, None, None, {"merge_engine": "partial-update", **options})
    needed = columns_to_merge(rules, fields, [*wanted])
    read = {n: values for n, values in columns.items() if n in needed or n.startswith("_")}
    count, found = merge_section(rules, read.__getitem__, fields, [*wanted])
    whole_count, whole = merge_section(rules, columns.__getitem__, fields, ["k", *COLUMNS])
    assert count == whole_count and {n: found[n].to_pylist() for n in wanted} == {
        n: whole[n].to_pylist() for n in wanted
    }


ORDERS: dict[str, tuple[dict[str, str], str, bool]] = {
    "by their numbers": ({}, "", False),
    "by a column": ({"sequence__field": "a"}, "a", False),
    "by two columns": ({"sequence__field": "b,a"}, "ba", False),
    "by a column, the smallest last": (
        {"sequence__field": "a", "sequence__field__sort_order": "descending"},
        "a",
        True,
    ),
}


@pytest.mark.parametrize("engine", ["deduplicate", "first-row"])
@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_the_newest_or_the_oldest_row_stays(order: str, ignores: bool, engine: str) -> None:
    """Nulls are the oldest values, in both directions."""
    options, fields, descending = ORDERS[order]
    if engine == "first-row" and fields:
        return
    random = Random(f"{order}/{engine}")
    kinds = KINDS if ignores or engine == "deduplicate" else [ADD, AFTER]

    def age(row: Row) -> tuple[Any, ...]:
        values = dict(zip(COLUMNS, row[3:], strict=True))
        known = [-10 if values[name] is None else -values[name] if descending else values[name] for name in fields]
        return (*known, row[0])

    for keys, rows in [(1, 2), (2, 7), (3, 5), (5, 40), (40, 60)] * 4:
        given = history(random, keys, rows, kinds)
        expected = []
        for versions in by_key(given).values():
            counted = [r for r in versions if not (ignores and r[1] in (BEFORE, DELETE) and len(versions) > 1)]
            if counted:
                chosen = max(counted, key=age) if engine == "deduplicate" else counted[0]
                expected.append(chosen)
        about = {"merge_engine": engine, **options} | ({"ignore_delete": "true"} if ignores else {})
        assert written(given, **about) == expected, given
