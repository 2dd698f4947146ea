"""Invalid requests are refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.coordinator.commit.request import IDENTIFIER_MAX, CommitRequest, KeyedRows, Remarks, Undoing
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, IndexEntry, IndexFile, ManifestEntry


def request(**more: Any) -> CommitRequest:
    return CommitRequest(**{"kind": "APPEND", "entries": (), "commit_user": "etl", **more})


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"identifier": 0},
        {"identifier": IDENTIFIER_MAX},
        {"isolation": "serializable"},
        {"group": "auto"},
        {"group": "off"},
        {"remarks": Remarks(properties={"lake": "1", "my.lakelatch.x": "2"})},
        {"remarks": Remarks(operation="UPDATE", watermark_ms=-(2**63))},
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
        ({"identifier": "7"}, "identifier '7' is not a whole number"),
        ({"identifier": True}, "identifier True is not a whole number"),
        ({"kind": "INSERT"}, "kind 'INSERT' and operation None: Apache Paimon could not parse it"),
        ({"remarks": Remarks(operation="INSERT")}, "kind 'APPEND' and operation 'INSERT'"),
        ({"remarks": Remarks(watermark_ms=-(2**63) - 1)}, "watermark_ms"),
        ({"commit_user": ""}, "commit_user must not be empty"),
        ({"isolation": "none"}, "isolation 'none'"),
        ({"group": "on"}, "group 'on': use 'auto' or 'off'"),
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


def test_an_overwrite_of_partitions_lists_no_changelog() -> None:
    """As in Apache Paimon."""
    log = (ManifestEntry(ADD, EMPTY_ROW, 0, 1, DataFile("log", 1, 1)),)
    assert request(keyed=KeyedRows(changelog=log)).published_changelog == log
    assert request(keyed=KeyedRows(changelog=log), target=lambda partition: True).published_changelog == ()


def test_an_undo_changes_the_partitions_of_its_files_and_of_its_index_files() -> None:
    entry = ManifestEntry(DELETE, b"a", 0, -1, DataFile("f", 1, 1))
    index = IndexEntry(ADD, b"b", 0, IndexFile("HASH", "i", 1, 1))
    made = Undoing("OVERWRITE", (entry,), "etl", index_entries=(index,))
    assert made.partitions == {b"a", b"b"}
