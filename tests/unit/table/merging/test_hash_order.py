"""Rows with keys are written in the order of Java's hash map of 16 places, of twice as many where it is three quarters full."""

from __future__ import annotations

import pytest

from lakelatch.table.merging.aggregates.nested import in_hash_order


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (12, [64, 32, 16, 0, 1, 17, 2]),
        (13, [64, 32, 0, 1, 2, 16, 17]),
        (24, [64, 32, 0, 1, 2, 16, 17]),
        (25, [64, 0, 1, 2, 16, 17, 32]),
        (48, [64, 0, 1, 2, 16, 17, 32]),
        (49, [0, 1, 2, 16, 17, 32, 64]),
    ],
)
def test_keys_come_by_their_places_and_then_as_they_came(count: int, order: list[int]) -> None:
    """Of keys whose hash is their number: 12 keys fit into 16 places, 24 into 32, 48 into 64."""
    came = {key: key for key in (64, 32, 16, 1, 0, 17, 2)}
    assert in_hash_order(came, came, count) == order


def test_the_newest_of_a_place_may_come_first() -> None:
    came = {key: key for key in (16, 0, 1)}
    assert in_hash_order(came, came, 3, newest_first=True) == [0, 16, 1]
