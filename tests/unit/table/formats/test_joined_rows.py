"""Small parts of sorted files are joined before their columns are made, where no column is converted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.core.rows.types import AtomicType, Field, string
from lakelatch.table.formats import file_rows
from lakelatch.table.formats.file_rows import FileRows, MergedRows, Rows, joined
from lakelatch.table.projection.plan import ProjectionPlan, plan_projection

INT, BIGINT = AtomicType("INT"), AtomicType("BIGINT")
FIELDS = [Field(0, "k", BIGINT), Field(1, "s", string())]
AS_IT_IS = plan_projection(FIELDS, FIELDS)
OF_ANOTHER = plan_projection([Field(0, "k", INT), FIELDS[1]], FIELDS)
NUMBER_OF_TEXT = plan_projection([FIELDS[0], Field(1, "s", string())], [FIELDS[0], Field(1, "s", INT)])


def part(plan: ProjectionPlan, first: int, count: int, kind: Any = None, where: str = "data file x") -> FileRows:
    numbers = range(first, first + count)
    kind = kind or (pa.int32() if plan is OF_ANOTHER else pa.int64())
    texts = pa.array([str(n) if n % 3 else None for n in numbers], pa.string())
    batch = pa.record_batch({"k": pa.array(numbers, kind), "s": texts})
    rows = FileRows(batch, plan, where)
    rows.column("k")  # as the merge made it
    return rows


def values(parts: Sequence[Rows]) -> list[tuple[int, str | None]]:
    return [pair for p in parts for pair in zip(p.column("k").to_pylist(), p.column("s").to_pylist(), strict=True)]


def test_small_parts_of_like_files_become_one() -> None:
    (only,) = joined([part(AS_IT_IS, 0, 3), part(AS_IT_IS, 3, 1), part(AS_IT_IS, 4, 5)])
    assert values([only]) == [(n, str(n) if n % 3 else None) for n in range(9)]


@pytest.mark.parametrize(
    "others",
    [
        pytest.param([part(OF_ANOTHER, 3, 2), part(OF_ANOTHER, 5, 2)], id="columns that are converted"),
        pytest.param(
            [part(AS_IT_IS, 3, 2, pa.int32()), part(AS_IT_IS, 5, 2, pa.int32())], id="other types in the file"
        ),
        pytest.param([MergedRows([part(AS_IT_IS, 3, 2)], {"k": 0, "s": 0}), part(AS_IT_IS, 5, 2)], id="several files"),
        pytest.param([part(AS_IT_IS, 3, 5000), part(AS_IT_IS, 9000, 1)], id="large parts"),
    ],
)
def test_others_stay_as_they_are(others: list[Rows]) -> None:
    parts = [part(AS_IT_IS, 0, 3), *others]
    found = list(joined(parts))
    assert [len(p) for p in found] == [len(p) for p in parts]
    assert values(found) == values(parts)


def test_an_error_still_tells_which_file_it_is() -> None:
    parts = [part(NUMBER_OF_TEXT, n, 1, where=f"data file {n}") for n in (1, 2)]
    bad = FileRows(pa.record_batch({"k": pa.array([5]), "s": ["five"]}), NUMBER_OF_TEXT, "data file 3")
    with pytest.raises(InvalidArgument, match=r"^data file 3: column 's' became 's' with another type"):
        for rows in joined([*parts, bad]):
            rows.column("s")


def test_memory_holds_a_few_mebibytes_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [part(AS_IT_IS, n * 100, 100) for n in range(50)]
    monkeypatch.setattr(file_rows, "_JOINED_BYTES", 4 * parts[-1].nbytes + 1)
    found = list(joined(parts))
    assert {len(p) for p in found} == {400, 200}
    assert values(found) == values(parts)
    monkeypatch.setattr(file_rows, "_JOINED_ROWS", 250)
    assert {len(p) for p in joined(parts)} == {200}


def test_rows_without_a_column_keep_their_number() -> None:
    batch = pa.record_batch({"": pa.nulls(3)}).select([])
    assert [len(p) for p in joined([FileRows(batch, AS_IT_IS, "x"), FileRows(batch, AS_IT_IS, "y")])] == [3, 3]


def test_a_large_part_does_not_overtake_small_ones_that_take_nothing() -> None:
    empty = pa.record_batch({"n": pa.nulls(2)})
    parts = [FileRows(empty, AS_IT_IS, "x"), FileRows(pa.record_batch({"n": pa.nulls(5000)}), AS_IT_IS, "y")]
    assert [len(p) for p in joined(parts)] == [2, 5000]


def test_any_mix_gives_the_same_rows_in_their_order() -> None:
    rng = random.Random(7)
    for _ in range(40):
        plans = [rng.choice([AS_IT_IS, AS_IT_IS, AS_IT_IS, OF_ANOTHER]) for _ in range(12)]
        parts = [part(plan, n * 10, rng.choice([1, 2, 9])) for n, plan in enumerate(plans)]
        assert values(list(joined(parts))) == values(parts)
