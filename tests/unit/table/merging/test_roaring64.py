"""Bitmaps of 64-bit numbers: each container is in the form that takes the fewest bytes, as Apache Paimon stores it."""

from __future__ import annotations

import struct

import pytest
from pyroaring import BitMap

from lakelatch.table.merging.aggregates.roaring64 import _inner, read_bitmap64, write_bitmap64

EMPTY_CONTAINER = 60
"""Bytes of a bitmap of one container around its values, at most."""


@pytest.mark.parametrize(
    ("values", "most_bytes"),
    [
        (range(0, 2000, 2), 2 * 1000),
        (range(0, 60_000, 6), 8192),
        (range(60_000), 6),
        ([n for start in range(0, 60_000, 100) for n in range(start, start + 50)], 2 + 4 * 600),
        ([1, 2, 3, 4, 5], 6),
        ([1, 2, 5], 6),
    ],
    ids=["single numbers", "many single numbers", "one run", "runs", "a short run", "as short in either form"],
)
def test_a_container_has_its_smallest_form(values: range, most_bytes: int) -> None:
    bitmap = {7: BitMap(values)}
    data = write_bitmap64(bitmap)
    assert most_bytes < len(data) <= most_bytes + EMPTY_CONTAINER
    assert read_bitmap64(data) == bitmap


def test_a_container_that_is_as_short_as_a_run_stays_a_list() -> None:
    """As Apache Paimon's library: it changes the form only where that saves bytes."""
    assert struct.pack("<I3H", 3, 1, 2, 3) in write_bitmap64({0: BitMap([1, 2, 3])})
    assert struct.pack("<IH2H", 4, 1, 1, 3) in write_bitmap64({0: BitMap([1, 2, 3, 4])})


@pytest.mark.parametrize(("children", "kind"), [(2, 0), (4, 0), (5, 1), (16, 1), (17, 2), (48, 2), (49, 3), (256, 3)])
def test_a_node_has_the_kind_that_its_children_need(children: int, kind: int) -> None:
    """Kind 3 is one bit for each child: these Apache Paimon counts."""
    branches = range(children) if children > 128 else range(1, 2 * children, 2)
    found, body = _inner(list(branches))
    assert found == kind
    if kind == 3:
        assert sum(byte.bit_count() for byte in body) == children
    bitmap = {branch << 8 | low: BitMap([1]) for branch in branches for low in (0, 7)}
    assert read_bitmap64(write_bitmap64(bitmap)) == bitmap
