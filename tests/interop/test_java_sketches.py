"""Unions of bitmaps and sketches, compared with those of Apache Paimon's Java (G8)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.core.errors import TableCorrupt, Unsupported
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.merging.aggregates import sketches
from lakelatch.table.merging.aggregates.functions import FUNCTIONS, aggregate_of
from lakelatch.table.merging.aggregates.roaring64 import read_bitmap64, write_bitmap64
from lakelatch.table.merging.aggregates.sketches import check_sketches

pytestmark = pytest.mark.java

SIZES = [(1, 1), (1, 30), (5, 900), (700, 8), (3_000, 20_000), (20_000, 20_000)]


def union(function: str, one: bytes, other: bytes) -> bytes:
    field = Field(0, "s", AtomicType("VARBINARY", 1 << 20))
    array = pa.array([one, other], pa.binary())
    found = aggregate_of(function, field, array, 1, {})
    assert isinstance(found, (sketches.Sketch, FUNCTIONS["rbm64"]))
    return bytes(found.array_of([found.joined(found.value(0), found.value(1))])[0].as_py())  # type: ignore[attr-defined]


@pytest.mark.parametrize("function", ["hll_sketch", "theta_sketch"])
def test_a_union_of_sketches_has_the_bytes_of_java(paimon_java: Any, function: str) -> None:
    """Lists, sets and registers of HyperLogLog; exact and estimating theta sketches; either one larger."""
    from jpype import JArray, JByte, JClass, JInt

    java = JClass(
        {"hll_sketch": "org.apache.paimon.utils.HllSketchUtil"}.get(function, "org.apache.paimon.utils.ThetaSketch")
    )
    for few, many in SIZES:
        one, other = (
            bytes(java.sketchOf(JArray(JInt)(list(range(start, start + count)))))
            for start, count in ((0, few), (few // 2, many))
        )
        expected = bytes(java.union(JArray(JByte)(one), JArray(JByte)(other)))
        assert union(function, one, other) == expected, f"{function} of {few} and {many} values"
    with pytest.raises(TableCorrupt, match="column 's': a value is no sketch"):
        union(function, b"garbage!", one)


def test_a_sketch_without_its_library_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "LIBRARY", "no_such_library")
    with pytest.raises(Unsupported, match=r"'h'.*function 'hll_sketch'.*needs the package.*lakelatch\[sketches\]"):
        check_sketches("hll_sketch", "h")


def numbers(rng: random.Random) -> set[int]:
    """Numbers with few and many different high bits, alone, in runs and in crowds."""
    found: set[int] = set()
    for _ in range(rng.choice([0, 1, 3, 14, 45, 280])):
        high = rng.choice(
            [0, rng.getrandbits(48), rng.getrandbits(9), rng.getrandbits(8) << rng.choice([0, 8, 24, 40])]
        )
        low: Iterable[int] = rng.choice([[rng.getrandbits(16)], range(9, 300), rng.sample(range(65_536), 70)])
        found |= {high << 16 | value for value in low}
    if rng.random() < 0.3:
        found |= {7 << 16 | value for value in rng.sample(range(65_536), 9_000)}
    return found


def test_unions_of_bitmaps_of_64_bits_are_those_of_java(paimon_java: Any) -> None:
    """Java reads what we write, and finds the same numbers; every kind of node and container is among them."""
    from jpype import JArray, JByte, JClass, JLong

    java = JClass("org.apache.paimon.utils.RoaringBitmap64")

    def bitmap(values: set[int]) -> Any:
        made = java()
        for value in values:
            made.add(JLong(value if value < 1 << 63 else value - (1 << 64)))
        return made

    rng = random.Random(64)
    for _ in range(12):
        one, other = numbers(rng), numbers(rng)
        ours = union("rbm64", *(bytes(bitmap(values).serialize()) for values in (one, other)))
        assert {high << 16 | low for high, lows in read_bitmap64(ours).items() for low in lows} == one | other
        read = java()
        read.deserialize(JArray(JByte)(ours))
        assert read.equals(bitmap(one | other)) or not one | other


@pytest.mark.parametrize("cut", [1, 5, 12, 30, -1])
def test_a_damaged_bitmap_is_named(cut: int) -> None:
    from pyroaring import BitMap

    whole = write_bitmap64({0: BitMap([1, 2]), 5: BitMap(range(300)), 1 << 40: BitMap([7])})
    with pytest.raises(TableCorrupt, match="bitmap of 64-bit numbers"):
        read_bitmap64(whole[:cut])
