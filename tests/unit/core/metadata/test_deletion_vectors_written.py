"""Deletion vectors that are written can be read back, and their ranges are those of the file."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.metadata.data_file import DeletionVectorRange
from lakelatch.core.metadata.deletion_vector import (
    decode_vector,
    encode_vector,
    encode_vectors,
    is_wide_vector,
    vector_bytes,
)

ROWS = st.sets(st.integers(0, 200_000), max_size=50) | st.builds(
    lambda first, count, step: set(range(first, first + count * step, step)),
    st.integers(0, 150_000),
    st.integers(0, 9_000),
    st.integers(1, 3),
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), st.tuples(ROWS, st.booleans()), max_size=4))
def test_vectors_of_both_kinds_come_back_from_one_file(files: dict[str, tuple[set[int], bool]]) -> None:
    vectors = {
        name: (encode_vector(np.array(list(rows), np.int64), is_wide), len(rows))
        for name, (rows, is_wide) in files.items()
    }
    data, ranges = encode_vectors(vectors)
    assert [r.data_file for r in ranges] == list(files)
    for found in ranges:
        rows, is_wide = files[found.data_file]
        part = vector_bytes(data, found, "index-0")
        assert part == vectors[found.data_file][0] and is_wide_vector(part) is is_wide
        assert decode_vector(data[found.offset :], found, 1 << 30, "index-0").tolist() == sorted(rows)


def test_the_two_kinds_count_their_lengths_differently() -> None:
    narrow, wide = (encode_vector(np.array([1]), is_wide) for is_wide in (False, True))
    _, ranges = encode_vectors({"a": (narrow, 1), "b": (wide, 1)})
    assert ranges == (
        DeletionVectorRange("a", 1, len(narrow) - 8, 1),
        DeletionVectorRange("b", 1 + len(narrow), len(wide), 1),
    )


def test_a_file_without_vectors_is_one_byte() -> None:
    assert encode_vectors({}) == (b"\x01", ())


@pytest.mark.parametrize("high", [1, 3])
def test_positions_above_32_bits_have_a_bitmap_for_each_part(high: int) -> None:
    """As in Apache Paimon, the parts between are there and empty."""
    position = (high << 32) + 5
    vector = encode_vector(np.array([position]), True)
    assert int.from_bytes(vector[8:16], "little") == high + 1
    found = DeletionVectorRange("a", 0, len(vector), 1)
    assert decode_vector(vector, found, None, "index-0").tolist() == [position]
