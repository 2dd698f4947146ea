"""Orders of rows, compared with what the curves are by their definition."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakelatch.core.errors import InvalidArgument
from lakelatch.table.compaction.curves import CURVES, row_order


def grid(*sizes: int, seed: int = 1) -> pa.RecordBatch:
    """Every point of a grid once, in random order."""
    points = np.indices(sizes).reshape(len(sizes), -1).T.tolist()
    Random(seed).shuffle(points)
    return pa.record_batch({f"c{i}": [p[i] for p in points] for i in range(len(sizes))})


def ordered(rows: pa.RecordBatch, curve: Any) -> list[tuple[Any, ...]]:
    taken = rows.take(pa.array(row_order(rows, rows.schema.names, curve)))
    return [tuple(row.values()) for row in taken.to_pylist()]


def bits_in_turn(point: tuple[int, ...], sizes: tuple[int, ...], bits: int) -> str:
    """The bits of the coordinates, the first bits of all columns first; each column spans all of the bits."""
    spread = [value * ((1 << bits) - 1) // (size - 1) for value, size in zip(point, sizes, strict=True)]
    texts = [format(value, f"0{bits}b") for value in spread]
    return "".join(text[bit] for bit in range(bits) for text in texts)


@pytest.mark.parametrize(("sizes", "bits"), [((8, 8), 3), ((4, 4, 4), 2), ((2, 8), 3), ((9, 3), 4), ((16, 2, 5), 4)])
def test_the_z_order_takes_a_bit_of_each_column_in_turn(sizes: tuple[int, ...], bits: int) -> None:
    """Columns with few values weigh as much as those with many."""
    found = ordered(grid(*sizes), "zorder")
    expected = sorted(found, key=lambda point: bits_in_turn(point, sizes, bits))
    assert [bits_in_turn(p, sizes, bits) for p in found] == [bits_in_turn(p, sizes, bits) for p in expected]


def test_many_columns_share_the_bits_that_a_number_has() -> None:
    random = Random(20)
    rows = pa.record_batch({f"c{i}": [random.randrange(8) for _ in range(300)] for i in range(20)})
    found = ordered(rows, "zorder")
    codes = [bits_in_turn(point, (8,) * 20, 3) for point in found]
    assert codes == sorted(codes) and len({*codes}) == 300


def test_the_hilbert_curve_begins_at_the_smallest_values() -> None:
    assert ordered(grid(2, 2), "hilbert") == [(0, 0), (0, 1), (1, 1), (1, 0)]
    for sides in [(4, 4), (8, 8), (4, 4, 4)]:
        path = ordered(grid(*sides), "hilbert")
        assert path[0] == (0,) * len(sides) and path[-1] == (sides[0] - 1, *[0] * (len(sides) - 1))


@pytest.mark.parametrize("side", [4, 8, 16])
def test_the_hilbert_curve_fills_one_square_after_the_other(side: int) -> None:
    """Each part of the curve whose length is a power of four fills a square of the grid, and each step is to a neighbour."""
    path = np.array(ordered(grid(side, side), "hilbert"))
    assert (np.abs(np.diff(path, axis=0)).sum(axis=1) == 1).all()
    size = 2
    while size < side:
        squares = (path // size).reshape(-1, size * size, 2)
        assert (squares == squares[:, :1]).all()
        size *= 2


def test_columns_in_turn_are_sorted_by_the_first_one_first() -> None:
    found = ordered(grid(3, 4, 2), "order")
    assert found == sorted(found) and len(found) == 24
    turned = grid(3, 4)
    order = row_order(turned, ["c1", "c0"], "order")
    assert [(r["c1"], r["c0"]) for r in turned.take(pa.array(order)).to_pylist()] == sorted(
        (b, a) for a in range(3) for b in range(4)
    )


VALUES = {
    "integers": pa.array([5, None, -7, 1 << 60, 5, 0]),
    "texts": pa.array(["b", None, "", "zz", "b", "a"]),
    "fractions": pa.array([0.5, None, -1e300, 1e300, 0.5, 0.25]),
    "flags": pa.array([True, None, False, True, True, False]),
    "days": pa.array([5, None, -7, 100_000, 5, 0], pa.date32()),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("curve", CURVES)
def test_values_of_any_type_are_sorted_and_nulls_come_last(curve: Any, kind: str) -> None:
    values = VALUES[kind]
    found = [value for (value,) in ordered(pa.record_batch({"v": values}), curve)]
    known = [value for value in values.to_pylist() if value is not None]
    assert found == [*sorted(known), None]


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("curve", CURVES)
def test_rows_that_are_alike_are_neighbours(curve: Any, columns: int) -> None:
    random = Random(columns)
    rows = pa.record_batch({f"c{i}": [random.choice([1, 50, 10**9, None]) for _ in range(200)] for i in range(columns)})
    found = ordered(rows, curve)
    places = {row: [i for i, other in enumerate(found) if other == row] for row in found}
    assert all(at == list(range(at[0], at[0] + len(at))) for at in places.values())


@pytest.mark.parametrize("columns", [1, 2, 20, 31, 62])
@pytest.mark.parametrize("curve", CURVES)
def test_any_number_of_columns_and_rows_will_do(curve: Any, columns: int) -> None:
    """With many columns only the first bits of each count, and a row with the smallest or largest values of all is at an end."""
    names = [f"c{i}" for i in range(columns)]
    none = pa.RecordBatch.from_pylist([], pa.schema([(name, pa.int64()) for name in names]))
    assert row_order(none, names, curve).tolist() == []
    one = pa.record_batch({name: [7] for name in names})
    assert row_order(one, names, curve).tolist() == [0]
    some = pa.record_batch({name: [1, 0] for name in names})
    assert row_order(some, names, curve).tolist() == [1, 0] or (curve == "hilbert" and columns > 1)
    assert sorted(row_order(some, names, curve).tolist()) == [0, 1]


@pytest.mark.parametrize("curve", CURVES)
def test_a_column_that_cannot_be_sorted_is_named(curve: Any) -> None:
    rows = pa.record_batch({"a": [1, 2], "parts": [[1], [2]]})
    with pytest.raises(InvalidArgument, match="rows cannot be sorted by a, parts"):
        row_order(rows, ["a", "parts"], curve)
