"""What a receipt says: one line for people, every field for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelatch.coordinator.commit.receipt import Receipt


def receipt(**more: Any) -> Receipt:
    known: dict[str, Any] = {
        "snapshot_id": 7, "snapshot_uuid": "u-7", "commit_user": "etl", "identifier": 42, "kind": "APPEND",
        "attempts": 1, "retries": 0, "requests": 9, "sequential_requests": 3, "elapsed_ms": 12.4, "replayed": False,
    }  # fmt: skip
    return Receipt(**{**known, **more})


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "snapshot 7 (APPEND by etl/42): 1 attempt, 9 requests (3 sequential), 12 ms"),
        ({"identifier": None}, "snapshot 7 (APPEND by etl): 1 attempt, 9 requests (3 sequential), 12 ms"),
        ({"identifier": 0}, "snapshot 7 (APPEND by etl/0): 1 attempt, 9 requests (3 sequential), 12 ms"),
        ({"attempts": 3}, "snapshot 7 (APPEND by etl/42): 3 attempts, 9 requests (3 sequential), 12 ms"),
        ({"attempts": 0, "replayed": True}, "snapshot 7 (APPEND by etl/42): had landed before, nothing was written"),
        (
            {"kind": "OVERWRITE", "partitions_replaced": 1},
            "snapshot 7 (OVERWRITE by etl/42): 1 partition replaced, 1 attempt, 9 requests (3 sequential), 12 ms",
        ),
        (
            {"kind": "OVERWRITE", "partitions_replaced": 0},
            "snapshot 7 (OVERWRITE by etl/42): 0 partitions replaced, 1 attempt, 9 requests (3 sequential), 12 ms",
        ),
        (
            {"leader": "boss", "attempts": 2},
            "snapshot 7 (APPEND by etl/42): carried by boss, 2 attempts, 9 requests (3 sequential), 12 ms",
        ),
        (
            {"riders": 1},
            "snapshot 7 (APPEND by etl/42): with 1 other commit, 1 attempt, 9 requests (3 sequential), 12 ms",
        ),
        (
            {"riders": 2},
            "snapshot 7 (APPEND by etl/42): with 2 other commits, 1 attempt, 9 requests (3 sequential), 12 ms",
        ),
    ],
)
def test_a_receipt_is_one_line(more: dict[str, Any], line: str) -> None:
    assert str(receipt(**more)) == line


def test_a_receipt_is_ready_for_json() -> None:
    found = receipt().to_dict()
    assert json.loads(json.dumps(found)) == found
    assert found == {
        "snapshot_id": 7, "snapshot_uuid": "u-7", "commit_user": "etl", "identifier": 42, "kind": "APPEND",
        "attempts": 1, "retries": 0, "requests": 9, "sequential_requests": 3, "elapsed_ms": 12.4, "replayed": False,
        "partitions_replaced": None, "leader": None, "riders": 0, "rows": None, "partitions": None,
    }  # fmt: skip


def test_a_notebook_shows_the_line_and_the_fields() -> None:
    shown = receipt()._repr_html_()
    assert "snapshot 7 (APPEND by etl/42)" in shown
    assert "snapshot_uuid" in shown and "u-7" in shown
