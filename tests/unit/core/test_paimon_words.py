"""Every word that Apache Paimon parses strictly is one that its releases know, so that nothing locks them out of a table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from paimon_words import BYTES, INDEXES, TEXTS, WRITTEN, constants

import lakelatch as ll
from lakelatch.coordinator.commit.request import CommitRequest, Remarks
from lakelatch.core.errors import InvalidArgument
from lakelatch.core.metadata.snapshot import OPERATIONS, Snapshot, parse_snapshot

RELEASES = ("1.4.2", "2.0.0")


@pytest.mark.parametrize("enum", WRITTEN)
def test_words_are_known_to_every_release_that_parses_them(enum: str) -> None:
    for release in RELEASES:
        assert WRITTEN[enum] <= set(constants(enum, release)) or not constants(enum, release)


def test_positions_and_names_of_indexes_are_theirs() -> None:
    for enum, numbers in BYTES.items():
        for release in RELEASES:
            assert dict(zip(constants(enum, release), range(9), strict=False)) == numbers
    assert set(TEXTS.values()) == INDEXES


@pytest.mark.parametrize(
    ("kind", "word"), [("APPEND", "RESCALE"), ("RESCALE", "WRITE"), ("APPEND", "write"), ("APPEND", "")]
)
def test_a_commit_with_another_word_is_refused(kind: Any, word: Any) -> None:
    table = ll.create_table("memory://words/t", pa.schema([("v", pa.int64())]), exist_ok=True)
    with pytest.raises(InvalidArgument, match="Apache Paimon could not parse it"):
        table.committer.commit(CommitRequest(kind, (), "job", remarks=Remarks(word)))
    assert table.snapshot() is None


def test_a_word_of_an_earlier_version_is_read_and_not_written_on() -> None:
    """Tags, branches and changelogs are made of snapshots that were read."""
    snapshot = Snapshot(1, 0, "b", "d", "job", 7, "OVERWRITE", 0, 1, 1, operation="RESCALE")
    assert b"RESCALE" not in snapshot.to_json()
    for word in OPERATIONS:
        held = Snapshot(1, 0, "b", "d", "job", 7, "OVERWRITE", 0, 1, 1, operation=word)
        assert parse_snapshot(held.to_json(), "snapshot-1").operation == word
    text = held.to_json().replace(b"CREATE_OR_REPLACE_TABLE_AS_SELECT", b"RESCALE")
    assert parse_snapshot(text, "snapshot-1").operation == "RESCALE"


@pytest.mark.parametrize("kind", ["GEOMETRY", "GEOGRAPHY", "ARRAY<GEOMETRY>", "ROW<g GEOGRAPHY>"])
def test_a_type_that_no_release_has_is_refused(kind: str) -> None:
    table = ll.create_table("memory://words/g", pa.schema([("v", pa.int64())]), exist_ok=True)
    with pytest.raises(InvalidArgument, match="is in no release of Apache Paimon"):
        table.alter(ll.add_column("g", kind))
    assert len(table.schemas()) == 1
