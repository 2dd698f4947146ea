"""What a receipt says: one line for people, every field for programs."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from changes import reopened

import lakelatch as ll
from lakelatch.coordinator.commit.committer import _rows_of
from lakelatch.coordinator.commit.receipt import Receipt
from lakelatch.coordinator.intents.carried import CARRIES_PROPERTY, Carried, to_property
from lakelatch.core.metadata.snapshot import Snapshot

COUNT = count()


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


# ---------------------------------------------------------------------------------------------------------------- replays

ROWS = pa.table({"part": ["a", "a", "b"], "v": [1, 2, 3]})


def replayed(kind: str, rows: pa.Table = ROWS, **more: Any) -> Any:
    """The receipt of a job that runs again: of its second commit, after which another one landed."""
    table = ll.create_table(f"memory://receipts-{next(COUNT)}/t", ROWS.schema, partition_by=["part"])
    identity = {"commit_user": "etl", "identifier": 7}
    table.append(ROWS)
    getattr(table, kind)(rows, **more, **identity)
    table.append(ROWS.slice(0, 1), commit_user="other", identifier=7)
    found = reopened(table).committer.lookup("etl", 7)
    again = getattr(reopened(table), kind)(rows, **more, **identity)
    assert (again.rows, again.partitions) == (found.rows, found.partitions)
    return again


def test_a_replayed_append_tells_how_many_rows_it_has_appended() -> None:
    found = replayed("append")
    assert (found.replayed, found.rows, found.partitions) == (True, 3, None)


def test_a_replayed_overwrite_tells_what_it_has_replaced() -> None:
    found = replayed("overwrite", ROWS.slice(0, 2), partition={"part": "a"})
    assert (found.replayed, found.rows, found.partitions) == (True, None, ("part=a",))
    found = replayed("overwrite", dynamic=True)
    assert (found.replayed, found.rows, found.partitions) == (True, None, None), "it named no partition"


def carrying(*carried: Carried) -> Snapshot:
    said = {CARRIES_PROPERTY: to_property(carried)} if carried else {}
    return Snapshot(
        4, 0, "b", "d", "boss", 7, "APPEND", 0, 9, 9, uuid="u4", properties=said, writer_version="lakelatch-1"
    )  # fmt: skip


@pytest.mark.parametrize(("user", "identifier", "rows"), [("boss", 7, 9), ("etl", 7, None), ("boss", 8, None)], ids=str)
def test_the_rows_of_a_snapshot_are_those_of_its_own_commit(user: str, identifier: int, rows: int | None) -> None:
    assert _rows_of(carrying(), user, identifier) == rows


@pytest.mark.parametrize(
    ("user", "identifier", "rows"), [("boss", 7, 2), ("etl", 7, 3), ("etl", 8, 4), ("boss", 8, None)], ids=str
)
def test_of_several_commits_in_a_snapshot_each_has_its_own_rows(user: str, identifier: int, rows: int | None) -> None:
    found = carrying(Carried("boss", 7, "c1", 2), Carried("etl", 7, "c2", 3), Carried("etl", 8, "c3", 4))
    assert _rows_of(found, user, identifier) == rows
