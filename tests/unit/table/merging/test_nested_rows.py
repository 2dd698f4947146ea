"""Lists and maps of rows: what options say of rows without a key, of how many there may be, and of their times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.table.merging.test_merge import ADD, DELETE, INT, aggregated, section

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.types import ArrayType, AtomicType, Field, MapType, RowType, string
from lakelatch.table.merging.merge import merge_section

ROWS = ArrayType(RowType((Field(10, "id", INT), Field(11, "x", INT))))
TIMED = MapType(
    AtomicType("VARCHAR", length=5, nullable=False), RowType((Field(12, "ts", string()), Field(13, "x", string())))
)


def rows(*found: tuple[int | None, int]) -> list[dict[str, Any]]:
    return [{"id": key, "x": value} for key, value in found]


def updated(lists: list[Any], *kinds: int, **options: str) -> list[tuple[int | None, int]]:
    found = aggregated("nested_update", lists, list(kinds) or None, ROWS, **options)
    return sorted(((row["id"], row["x"]) for row in found), key=str)


@pytest.mark.parametrize("strategy", ["skip", "merg", "null", "merge,ignore"])
@pytest.mark.parametrize("with_nulls", [True, False])
def test_a_strategy_for_nulls_in_keys_that_there_is_not_is_refused(strategy: str, with_nulls: bool) -> None:
    """Also if no key has a null: the rows would be merged in a way that nobody asked for."""
    lists = [rows((1, 1)), rows((None if with_nulls else 2, 2))]
    with pytest.raises(InvalidArgument, match=rf"'fields.a.nested-key-null-strategy' is '{strategy}'") as refused:
        updated(lists, nested_key="id", nested_key_null_strategy=strategy)
    assert refused.value.next_step == "use merge, ignore or error"


@pytest.mark.parametrize("strategy", [None, "merge", "MERGE", "Ignore", "error"])
def test_what_happens_to_rows_with_a_null_in_their_key(strategy: str | None) -> None:
    """They are a key like any other, they are left out, or they are an error; the option's case does not matter."""
    options = {"nested_key": "id"} | ({} if strategy is None else {"nested_key_null_strategy": strategy})
    whole = [rows((1, 1)), rows((2, 2), (1, 3))]
    assert updated(whole, **options) == [(1, 3), (2, 2)]
    lists = [rows((None, 5), (1, 1)), rows((None, 6), (2, 2))]
    if strategy == "error":
        with pytest.raises(InvalidArgument, match="a row in a list has a null in its key"):
            updated(lists, **options)
    else:
        assert updated(lists, **options) == [(1, 1), (2, 2)] + ([] if strategy == "Ignore" else [(None, 6)])


@pytest.mark.parametrize("options", [{}, {"nested_key": "id"}], ids=["without a key", "with a key"])
def test_a_list_without_a_limit_takes_any_number_of_rows(options: dict[str, str]) -> None:
    lists = [rows(*((key, 1) for key in range(start, start + 500))) for start in range(0, 2000, 500)]
    assert updated(lists, **options) == sorted(((key, 1) for key in range(2000)), key=str)
    assert updated([*lists, rows((7, 1))], *[ADD] * 4, DELETE, **options) == sorted(
        ((key, 1) for key in range(2000) if key != 7), key=str
    )


@pytest.mark.parametrize(("option", "last"), [({}, 2), ({"ts_field": "ts"}, 1)], ids=["last field", "named field"])
def test_of_the_rows_of_a_map_the_one_with_the_largest_time_stays(option: dict[str, str], last: int) -> None:
    """The time is the field that the option names, or the last one."""
    maps = [[("a", {"ts": "9", "x": "1"})], [("a", {"ts": "1", "x": "2"})]]
    found = aggregated("merge_map_with_keytime", maps, kind=TIMED, **option)
    assert found == maps[last - 1]


def test_a_time_that_the_rows_of_a_map_do_not_have_is_refused() -> None:
    """Of a table that another engine has made: we do not make one."""
    maps = [(number, ADD, 1, [("a", {"ts": "9", "x": "1"})]) for number in range(2)]
    options = {"merge_engine": "aggregation", "fields__a__aggregate_function": "merge_map_with_keytime"}
    rules, fields, columns = section(maps, [TIMED], None, options)
    rules = replace(rules, texts={**rules.texts, "fields.a.ts-field": "when"})
    told = "option 'fields.a.ts-field' names 'when', which its values do not have"
    with pytest.raises(InvalidArgument, match=told):
        merge_section(rules, columns.__getitem__, fields, ["k", "a"])


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
def test_a_limit_counts_the_rows_that_the_list_has(limit: int) -> None:
    """Without a key all rows count; with one, a full list still takes newer rows of its keys."""
    lists = [rows((1, 1), (2, 2), (3, 3)), rows((1, 7), (4, 4), (5, 5))]
    whole = [(1, 1), (2, 2), (3, 3), (1, 7), (4, 4), (5, 5)]
    assert updated(lists, count_limit=str(limit)) == sorted(whole[:limit], key=str)
    by_key = [(1, 7), (2, 2), (3, 3), (4, 4), (5, 5)]
    assert updated(lists, nested_key="id", count_limit=str(limit)) == by_key[:limit]
