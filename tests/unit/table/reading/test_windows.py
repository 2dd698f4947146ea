"""Sections that are larger than memory are merged in ranges of keys, with the same rows as at once (format/primary-keys §6)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.schema import TableSchema, new_schema
from lakelatch.core.metadata.schemas.merge_rules import MergeRules, merge_rules
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.merging.merge import merge_key_rows
from lakelatch.table.reading import windows as reading
from lakelatch.table.reading.section_reader import ColumnRows
from lakelatch.table.reading.windows import Piece, windows

BIGINT = AtomicType("BIGINT", nullable=False)
TEXT = AtomicType("VARCHAR", nullable=False, length=2_147_483_647)
KEYS: dict[str, list[Field]] = {
    "numbers": [Field(0, "k", BIGINT)],
    "texts": [Field(0, "k", TEXT)],
    "both": [Field(0, "k", TEXT), Field(1, "l", BIGINT)],
}
ENGINES: list[dict[str, str]] = [
    {},
    {"sequence.field": "v", "sequence.field.sort-order": "descending"},
    {"ignore-delete": "true"},
    {"merge-engine": "first-row", "ignore-delete": "true"},
    {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    {"merge-engine": "partial-update", "fields.v.sequence-group": "s"},
    {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "fields.s.aggregate-function": "last_value"},
    {"changelog-producer": "lookup"},
]


def table(keys: list[Field], options: dict[str, str]) -> tuple[TableSchema, MergeRules]:
    fields = [*keys, Field(5, "v", AtomicType("BIGINT")), Field(6, "s", string())]
    schema = new_schema(fields, primary_keys=[f.name for f in keys], options={"bucket": "1"} | options)
    rules = merge_rules(schema)
    assert rules is not None
    return schema, rules


def run_of(rng: random.Random, schema: TableSchema, rules: MergeRules, number: int) -> list[Piece]:
    """Pieces of one file: keys of a common space, each once, sorted; now and then a stretch without any."""
    low, size = rng.choice([0, 0, 40]), rng.choice([1, 10, 120])
    chosen = sorted({rng.randrange(low, 120) for _ in range(size)}, key=lambda n: keys_of(n, rules))
    values: dict[str, list[Any]] = {
        f.name: [keys_of(n, rules)[i] for n in chosen] for i, f in enumerate(rules.keys)
    } | {
        "v": [rng.choice([None, 1, 2, 3]) for _ in chosen],
        "s": [rng.choice([None, "a", "b"]) for _ in chosen],
        "_SEQUENCE_NUMBER": [rng.randrange(3) + number * rng.choice([0, 3]) for _ in chosen],
        "_VALUE_KIND": [rng.choice([0, 0, 2, 3]) for _ in chosen],
    }
    kinds = {f.name: to_arrow(f.type) for f in schema.fields} | {
        "_SEQUENCE_NUMBER": pa.int64(),
        "_VALUE_KIND": pa.int8(),
    }
    columns = {name: pa.array(column, kinds[name]) for name, column in values.items()}
    ends = sorted({0, len(chosen), *(rng.randrange(len(chosen) + 1) for _ in range(12))})
    whole = ColumnRows(len(chosen), columns)
    return [Piece(number, number % 3, whole.slice(a, b - a)) for a, b in zip([0, *ends], ends, strict=False)]


def keys_of(number: int, rules: MergeRules) -> tuple[Any, ...]:
    made = {"k": f"key-{number // 4 if len(rules.keys) > 1 else number}", "l": number % 4 - 2}
    return tuple(made[f.name] if f.type != BIGINT or f.name == "l" else number - 60 for f in rules.keys)


def merged(
    runs: list[list[Piece]], schema: TableSchema, rules: MergeRules, budget: int | None
) -> Iterator[dict[str, Any]]:
    names = [f.name for f in schema.fields]
    for window in windows(runs, [f.name for f in rules.keys], budget):
        count, columns = merge_key_rows(rules, window.column, schema.fields, names, drop_deletes=False)
        assert {len(column) for column in columns.values()} == {count}
        yield {name: column.to_pylist() for name, column in columns.items()}


def joined(parts: list[dict[str, list[Any]]]) -> dict[str, list[Any]]:
    return {name: [value for part in parts for value in part[name]] for name in (parts[0] if parts else {})}


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("options", ENGINES, ids=[" ".join(e.values()) or "deduplicate" for e in ENGINES])
def test_ranges_of_keys_give_the_rows_of_one_merge(keys: str, options: dict[str, str]) -> None:
    schema, rules = table(KEYS[keys], options)
    rng = random.Random(f"{keys} {options}")
    most = 0
    for _ in range(8):
        runs = [run_of(rng, schema, rules, number) for number in range(rng.randint(1, 6))]
        (at_once,) = merged(runs, schema, rules, None)
        parts = list(merged(runs, schema, rules, rng.choice([1, 1000])))
        assert joined(parts) == at_once
        most = max(most, len(parts))
    assert most > 3, "nothing was merged in ranges"


def test_a_file_that_is_not_sorted_is_refused_where_it_does_not_fit_into_memory() -> None:
    def pieces(keys: list[list[int]], name: str = "y") -> list[Piece]:
        return [
            Piece(0, 0, ColumnRows(len(part), {"k": pa.array(part, pa.int64())}), f"data file {name}") for part in keys
        ]

    for unsorted in ([[1, 3, 2], [4], [5]], [[1, 2], [2], [3]], [[4], [1], [5]]):
        more = [[n] for n in range(7, 30)]
        with pytest.raises(TableCorrupt, match=r"data file x: the rows are not sorted.*read\.merge-memory"):
            list(windows([pieces([[2], *more]), pieces([*unsorted, *more], "x"), pieces([[1], [6], *more])], ["k"], 1))
        (window,) = windows([pieces(unsorted)], ["k"], 1 << 20)
        assert len(window) == sum(map(len, unsorted))


def test_only_as_much_is_read_as_the_budget_allows() -> None:
    """Two runs of a thousand batches: never more than the budget and two batches of each run are waiting."""
    open_rows = 0
    rows, budget = 100, 8 * 100 * 6

    def run(offset: int) -> Iterator[Piece]:
        nonlocal open_rows
        for start in range(0, 100_000, rows):
            keys = np.arange(start, start + rows) * 2 + offset
            open_rows += rows
            yield Piece(offset, 0, ColumnRows(rows, {"k": pa.array(keys)}))

    most = found = 0
    for window in windows([run(0), run(1)], ["k"], budget):
        most = max(most, open_rows)
        open_rows -= len(window)
        found += len(window)
    assert found == 200_000
    assert most <= budget // 8 + 2 * rows


@pytest.mark.parametrize("budget", [None, 1 << 30, 1 << 10])
@pytest.mark.parametrize("pieces", [1, 8])
def test_many_runs_cost_as_much_for_each_piece_as_few(
    budget: int | None, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at the last keys of all runs serves many pieces, whether they fit into the budget or not."""
    looks = Counter[int]()
    real = reading.key_codes

    def counted(columns: Any) -> Any:
        looks[count] += len(columns[0])
        return real(columns)

    def run(number: int) -> Iterator[Piece]:
        for start in range(pieces):
            keys = (np.arange(start * 9, start * 9 + 9)) * 1000 + number
            yield Piece(number, 0, ColumnRows(9, {"k": pa.array(keys)}))

    monkeypatch.setattr(reading, "key_codes", counted)
    for count in (40, 400):
        found = [len(window) for window in windows([run(number) for number in range(count)], ["k"], budget)]
        assert sum(found) == count * pieces * 9
    assert looks[400] <= 12 * looks[40] + 400
