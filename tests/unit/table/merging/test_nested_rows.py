"""Lists of rows: what the options of `nested_update` say of rows without a key, and of how many there may be."""

from __future__ import annotations

from typing import Any

import pytest
from unit.table.merging.test_merge import ADD, DELETE, INT, aggregated

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.types import ArrayType, Field, RowType

ROWS = ArrayType(RowType((Field(10, "id", INT), Field(11, "x", INT))))


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


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6])
def test_a_limit_counts_the_rows_that_the_list_has(limit: int) -> None:
    """Without a key all rows count; with one, a full list still takes newer rows of its keys."""
    lists = [rows((1, 1), (2, 2), (3, 3)), rows((1, 7), (4, 4), (5, 5))]
    whole = [(1, 1), (2, 2), (3, 3), (1, 7), (4, 4), (5, 5)]
    assert updated(lists, count_limit=str(limit)) == sorted(whole[:limit], key=str)
    by_key = [(1, 7), (2, 2), (3, 3), (4, 4), (5, 5)]
    assert updated(lists, nested_key="id", count_limit=str(limit)) == by_key[:limit]
