"""The checks of an overwrite, one by one: what each asks of a change, and what it lets through."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.coordinator.commit.bucket_numbers import another_bucket_count
from lakelatch.coordinator.commit.conflicts import appended_meanwhile, columns_updated_meanwhile, rows_read_changed
from lakelatch.coordinator.commit.request import CommitRequest, RowsRead
from lakelatch.core.metadata.change import Change, Group, Landed
from lakelatch.core.metadata.data_file import ADD, DELETE, SOURCE_APPEND, SOURCE_COMPACT, DataFile, ManifestEntry
from lakelatch.core.rows.partition import PartitionCodec
from lakelatch.core.rows.types import Field, string

CODEC = PartitionCodec((Field(0, "part", string()),))
PLACE = (CODEC.encode(("a",)), 0)


def entry(kind: int, name: str, rows: int, **more: Any) -> ManifestEntry:
    return ManifestEntry(kind, *PLACE, -1, DataFile(name, 1, rows, **{"file_source": SOURCE_APPEND, **more}))


def judged(
    check: Any, *entries: ManifestEntry, replaced: tuple[ManifestEntry, ...] = (), isolation: Any = "snapshot"
) -> str:
    """The check's answer to a change of partition a: the text of its conflict, or nothing."""
    change = Landed(3, "APPEND", "another-job", Change(entries, (), 0))
    (group,) = change.groups(lambda partition: True) or (Group(PLACE, (), (), frozenset(), {}),)
    request = CommitRequest("OVERWRITE", (), "us", isolation=isolation)
    found = check(request, change, group, {e.identity: e for e in replaced})
    return "" if found is None else f"{found.check}: {', '.join(found.files)}"


READ = entry(ADD, "read", 5, first_row_id=10)


@pytest.mark.parametrize(
    ("added", "told"),
    [
        (entry(ADD, "columns", 5, first_row_id=10), "columns_updated_meanwhile: columns"),
        (entry(ADD, "columns", 2, first_row_id=13), "columns_updated_meanwhile: columns"),
        (entry(ADD, "other-rows", 5, first_row_id=15), ""),
        (entry(ADD, "without-ids", 5), ""),
    ],
    ids=["same rows", "some of the rows", "other rows", "no row ids"],
)
def test_columns_of_replaced_rows_that_were_written_anew(added: ManifestEntry, told: str) -> None:
    """Data evolution: the new rows were made of columns that are older than these."""
    assert judged(columns_updated_meanwhile, added, replaced=(READ,)) == told


def test_only_the_files_of_replaced_rows_are_named() -> None:
    """An append in the same change is no reason for the conflict."""
    both = entry(ADD, "columns", 5, first_row_id=10), entry(ADD, "appended", 5, first_row_id=40)
    assert judged(columns_updated_meanwhile, *both, replaced=(READ,)) == "columns_updated_meanwhile: columns"


def test_a_compaction_of_replaced_rows_writes_no_column_anew() -> None:
    """It keeps the ids of its rows, and their values."""
    output = entry(ADD, "compacted", 5, first_row_id=10, file_source=SOURCE_COMPACT)
    assert judged(columns_updated_meanwhile, entry(DELETE, "read", 5, first_row_id=10), output, replaced=(READ,)) == ""


@pytest.mark.parametrize("isolation", ["snapshot", "serializable"])
def test_only_serializable_overwrites_mind_added_rows(isolation: str) -> None:
    told = judged(appended_meanwhile, entry(ADD, "new", 1), replaced=(READ,), isolation=isolation)
    assert told == ("appended_meanwhile: new" if isolation == "serializable" else "")


def test_a_change_that_adds_nothing_appends_nothing() -> None:
    """Another check judges what it deletes."""
    assert judged(appended_meanwhile, entry(DELETE, "read", 5), replaced=(READ,), isolation="serializable") == ""


def test_a_conflict_of_bucket_counts_names_its_partition_or_the_table() -> None:
    alive = [entry(ADD, "old", 1)._replace(total_buckets=4)]
    new = [entry(ADD, "new", 1)._replace(total_buckets=8)]
    found = another_bucket_count(new, alive, CODEC)
    assert found is not None
    assert "partition part=a has files of 4 buckets, this commit writes 8" in found.reason
    whole = PartitionCodec(())
    alone = [e._replace(partition=whole.encode(())) for e in (*alive, *new)]
    found = another_bucket_count(alone[1:], alone[:1], whole)
    assert found is not None
    assert "the table has files of 4 buckets" in found.reason


def test_rows_that_came_beside_a_compaction_of_the_same_snapshot_are_seen() -> None:
    """A compaction of one bucket does not hide what the same commit added to the next one."""
    inputs = [entry(DELETE, "old", 5), entry(ADD, "joined", 5, file_source=SOURCE_COMPACT)]
    new = entry(ADD, "new", 1)._replace(bucket=1)
    for change in ((*inputs, new), (new, *inputs)):
        landed = Landed(3, "APPEND", "another-job", Change(change, (), 0))
        found = rows_read_changed(RowsRead(None, lambda e: True), [landed])
        assert found is not None
        assert found.files == ("new",)
    assert (
        rows_read_changed(RowsRead(None, lambda e: True), [Landed(3, "COMPACT", "x", Change(tuple(inputs), (), 0))])
        is None
    )


def test_rows_that_went_matter_only_to_a_change_that_looked_for_absent_ones() -> None:
    landed = [Landed(3, "OVERWRITE", "another-job", Change((entry(DELETE, "old", 5),), (), 0))]
    assert rows_read_changed(RowsRead(None, lambda e: True), landed) is None
    found = rows_read_changed(RowsRead(None, lambda e: True, absent=True), landed)
    assert found is not None
    assert found.files == ("old",)
    assert rows_read_changed(RowsRead(None, lambda e: False, absent=True), landed) is None
