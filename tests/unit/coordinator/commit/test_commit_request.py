"""Invalid requests are refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.coordinator.commit.request import IDENTIFIER_MAX, CommitRequest, Remarks
from lakelatch.core.errors import InvalidArgument


def request(**more: Any) -> CommitRequest:
    return CommitRequest(**{"kind": "APPEND", "entries": (), "commit_user": "etl", **more})


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"identifier": 0},
        {"identifier": IDENTIFIER_MAX},
        {"isolation": "serializable"},
        {"remarks": Remarks(properties={"lake": "1", "my.lakelatch.x": "2"})},
    ],
    ids=str,
)
def test_valid_requests_are_accepted(fine: dict[str, Any]) -> None:
    request(**fine).check()


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"identifier": -1}, "identifier -1 is out of range"),
        ({"identifier": IDENTIFIER_MAX + 1}, "out of range"),
        ({"commit_user": ""}, "commit_user must not be empty"),
        ({"isolation": "none"}, "isolation 'none'"),
        ({"remarks": Remarks(properties={"mine": "1", "lakelatch.base": "2"})}, "property 'lakelatch.base'"),
    ],
    ids=str,
)
def test_invalid_requests_are_refused(wrong: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgument, match=why):
        request(**wrong).check()


def test_the_largest_identifier_is_the_one_below_those_of_batches() -> None:
    """The format uses the largest 64-bit number for commits without an identifier."""
    assert IDENTIFIER_MAX == 2**63 - 2
