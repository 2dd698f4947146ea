"""Bitmaps of 64-bit numbers: each container is in the form that takes the fewest bytes, as Apache Paimon stores it."""

from __future__ import annotations

import struct

import pytest
from merge_cases import SKETCHES
from pyroaring import BitMap

from lakelatch.core.errors import TableCorrupt
from lakelatch.table.merging.aggregates.roaring64 import _inner, read_bitmap64, union64, write_bitmap64

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


OF_JAVA = [bytes.fromhex(text.removeprefix("0x")) for text in SKETCHES["rbm64"]]


@pytest.mark.parametrize("data", OF_JAVA, ids=lambda data: f"{len(data)} bytes")
def test_what_java_wrote_is_written_again_byte_for_byte(data: bytes) -> None:
    assert write_bitmap64(read_bitmap64(data)) == data


@pytest.mark.parametrize("data", OF_JAVA, ids=lambda data: f"{len(data)} bytes")
def test_a_part_of_a_bitmap_is_none(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(TableCorrupt, match="bitmap of 64-bit numbers"):
            read_bitmap64(data[:end])
    (keys,) = struct.unpack_from("<Q", data, 1)
    for wrong in (keys - 1, keys + 1):
        with pytest.raises(TableCorrupt, match="another number of keys than it says"):
            read_bitmap64(data[:1] + struct.pack("<Q", wrong) + data[9:])


def test_no_numbers_are_one_byte() -> None:
    assert write_bitmap64({}) == b"\0" and read_bitmap64(b"\0") == {}


def child_of(kind: int, body: bytes, branch: int) -> int | None:
    """Which child Java's library finds for a byte: it reads words of eight bytes (of four, in the smallest kind)."""
    if kind == 0:
        keys = list(reversed(body))
        return keys.index(branch) if branch in keys else None
    words = [body[start : start + 8][::-1] for start in range(0, len(body), 8)]
    if kind == 1:
        keys = list(b"".join(words))
        return keys.index(branch) if branch in keys else None
    if kind == 2:
        place = b"".join(words)[branch]
        return None if place == 255 else place
    bits = [int.from_bytes(word, "big") for word in words]
    if not bits[branch // 64] >> branch % 64 & 1:
        return None
    return sum(bits[other // 64] >> other % 64 & 1 for other in range(branch))


@pytest.mark.parametrize("children", [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 48, 49, 90, 256])
def test_each_child_is_found_where_java_looks_for_it(children: int) -> None:
    branches = sorted((7 + number * 101) % 255 + 1 for number in range(children)) if children < 256 else [*range(256)]
    assert len(set(branches)) == children
    kind, body = _inner(branches)
    assert len(body) == {0: 4, 1: 16, 2: 256, 3: 32}[kind]
    assert [child_of(kind, body, branch) for branch in branches] == [*range(children)]
    for branch in {*range(1, 256)} - {*branches}:
        assert child_of(kind, body, branch) is None


@pytest.mark.parametrize(
    ("count", "kind"), [(1, 2), (4095, 2), (4096, 2), (4097, 1), (20_000, 1)], ids=lambda value: str(value)
)
def test_single_numbers_are_a_list_up_to_4096_of_them_and_bits_beyond(count: int, kind: int) -> None:
    data = write_bitmap64({3: BitMap(range(0, 3 * count, 3))})
    assert struct.pack("<BBI", 1, kind, count) in data
    assert read_bitmap64(data) == {3: BitMap(range(0, 3 * count, 3))}


def test_keys_with_a_common_beginning_lie_below_one_node() -> None:
    """However long it is; the order of the numbers does not matter."""
    highs = [0, 1, 255, 256, 0xFFFF, 0x10000, 0x10001, 0x7F0000000000, 0x7F0000000001, 0x7F0000010001, (1 << 48) - 1]
    bitmap = {high: BitMap([high % 7, 9]) for high in reversed(highs)}
    data = write_bitmap64(bitmap)
    assert read_bitmap64(data) == bitmap and data == write_bitmap64({high: bitmap[high] for high in highs})
    assert [*read_bitmap64(data)] == highs
    assert read_bitmap64(write_bitmap64({highs[7]: BitMap([1])})) == {highs[7]: BitMap([1])}


def test_two_bitmaps_are_united_number_by_number_and_stay_as_they_are() -> None:
    one, other = {1: BitMap([1, 2]), 5: BitMap([7])}, {5: BitMap([7, 8]), 9: BitMap([0])}
    before = {high: BitMap(low) for high, low in one.items()}
    assert union64(one, other) == {1: BitMap([1, 2]), 5: BitMap([7, 8]), 9: BitMap([0])}
    assert one == before and union64({}, other) == other == union64(other, {})
