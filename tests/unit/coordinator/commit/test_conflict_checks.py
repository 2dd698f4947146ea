"""The checks of an overwrite, one by one: what each asks of a change, and what it lets through."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.coordinator.commit.checks.conflicts import (
    Conflict,
    Followed,
    appended_meanwhile,
    columns_updated_meanwhile,
    compacted_with_newer_rows,
    follow,
    overwritten_meanwhile,
    replaced_files,
    rows_changed_meanwhile,
    rows_deleted_meanwhile,
    rows_read_changed,
)
from lakelatch.coordinator.commit.request import CommitRequest, RowsRead
from lakelatch.coordinator.commit.settling.bucket_numbers import another_bucket_count
from lakelatch.core.metadata.change import Change, Group, Landed, owner_of
from lakelatch.core.metadata.data_file import ADD, DELETE, SOURCE_APPEND, SOURCE_COMPACT, DataFile, ManifestEntry
from lakelatch.core.rows.partition import PartitionCodec
from lakelatch.core.rows.types import Field, string

CODEC = PartitionCodec((Field(0, "part", string()),))
PLACE = (CODEC.encode(("a",)), 0)


def entry(kind: int, name: str, rows: int, **more: Any) -> ManifestEntry:
    return ManifestEntry(kind, *PLACE, -1, DataFile(name, 1, rows, **{"file_source": SOURCE_APPEND, **more}))


def judged(
    check: Any,
    *entries: ManifestEntry,
    replaced: tuple[ManifestEntry, ...] = (),
    isolation: Any = "snapshot",
    kind: str = "APPEND",
    marked: tuple[ManifestEntry, ...] = (),
) -> str:
    """The check's answer to a change of partition a: the text of its conflict, or nothing."""
    change = Landed(3, kind, "another-job", Change(entries, (), 0), frozenset(map(owner_of, marked)))
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


@pytest.mark.parametrize(
    ("operation", "entries", "told"),
    [
        ("UPDATE", (entry(ADD, "new", 1),), "rows_changed_meanwhile: new"),
        ("DELETE", (entry(ADD, "new", 1),), "rows_changed_meanwhile: new"),
        ("MERGE", (entry(ADD, "new", 1),), "rows_changed_meanwhile: new"),
        ("WRITE", (entry(ADD, "new", 1),), ""),
        (None, (entry(ADD, "new", 1),), ""),
        ("UPDATE", (entry(DELETE, "read", 5),), ""),
        ("UPDATE", (entry(DELETE, "read", 5), entry(ADD, "joined", 5, file_source=SOURCE_COMPACT)), ""),
    ],
)
def test_rows_that_were_computed_from_replaced_ones_would_come_back(
    operation: str | None, entries: tuple[ManifestEntry, ...], told: str
) -> None:
    """Files that go are another check's affair, and a compaction computes nothing."""
    change = Landed(3, "APPEND", "another-job", Change(entries, (), 0), operation=operation)
    (group,) = change.groups(lambda partition: True)
    found = rows_changed_meanwhile(CommitRequest("OVERWRITE", (), "us"), change, group, {})
    assert ("" if found is None else f"{found.check}: {', '.join(found.files)}") == told


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


# ----------------------------------------------------------------------------------------------------- overwrites alone

OTHER = entry(ADD, "other", 4)
JOINED = entry(ADD, "joined", 9, file_source=SOURCE_COMPACT)


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("APPEND", [entry(ADD, "new", 1)], ""),
        ("OVERWRITE", [entry(ADD, "new", 1)], "overwritten_meanwhile: new"),
        ("APPEND", [READ.deletion()], "overwritten_meanwhile: read"),
        ("APPEND", [entry(ADD, "new", 1), READ.deletion()], "overwritten_meanwhile: read, new"),
        ("OVERWRITE", [READ.deletion(), OTHER.deletion(), JOINED], ""),
        ("OVERWRITE", [], ""),
    ],
    ids=["append", "first rows of a partition", "delete", "update", "compaction", "marks alone"],
)
def test_files_that_went_are_a_conflict_and_files_that_came_by_another_overwrite(
    kind: str, change: list[ManifestEntry], told: str
) -> None:
    """An overwrite of an empty partition looks like an append, but for its kind. A compaction changes no row."""
    assert judged(overwritten_meanwhile, *change, replaced=(READ,), kind=kind, marked=(READ,)) == told


def test_marks_are_a_conflict_only_on_files_that_are_replaced() -> None:
    assert judged(rows_deleted_meanwhile, replaced=(READ, OTHER), marked=(READ,)) == "rows_deleted_meanwhile: read"
    assert judged(rows_deleted_meanwhile, replaced=(READ,), marked=(OTHER,)) == ""


def test_new_columns_are_seen_beside_files_without_row_ids() -> None:
    both = entry(ADD, "without-ids", 5), entry(ADD, "columns", 5, first_row_id=10)
    assert judged(columns_updated_meanwhile, *both, replaced=(READ,)) == "columns_updated_meanwhile: columns"


def test_a_compaction_adds_no_rows_to_a_serializable_overwrite() -> None:
    compaction = READ.deletion(), OTHER.deletion(), JOINED
    assert judged(appended_meanwhile, *compaction, replaced=(READ, OTHER), isolation="serializable") == ""


@pytest.mark.parametrize(
    ("replaced", "told"),
    [
        ((READ, OTHER), ""),
        ((), ""),
        ((READ,), "compacted_with_newer_rows: read, other, joined"),
        ((OTHER,), "compacted_with_newer_rows: read, other, joined"),
    ],
    ids=["all of them are replaced", "none is", "the first is", "the second is"],
)
def test_a_compaction_may_join_replaced_files_or_newer_ones_but_not_both(
    replaced: tuple[ManifestEntry, ...], told: str
) -> None:
    assert judged(compacted_with_newer_rows, READ.deletion(), OTHER.deletion(), JOINED, replaced=replaced) == told


# ------------------------------------------------------------------------------------------------ followed step by step


def change(number: int, *entries: ManifestEntry, kind: str = "APPEND") -> Landed:
    return Landed(number, kind, "another-job", Change(entries, (), 0))


def followed(*changes: Landed, target: Any = lambda partition: True, isolation: Any = "snapshot") -> Any:
    """The names of the files that an overwrite replaces in the end, and of those that came; or the conflict."""
    request = CommitRequest("OVERWRITE", (), "us", target=target, isolation=isolation)
    found = follow(request, {e.identity: e for e in (READ, OTHER)}, changes)
    if isinstance(found, Conflict):
        return found
    assert isinstance(found, Followed)
    return [e.file.file_name for e in found.replaced.values()], [e.file.file_name for e in found.newer.values()]


NEW, NEWER = entry(ADD, "new", 2), entry(ADD, "newer", 3)
NEW_JOINED = entry(ADD, "new-joined", 5, file_source=SOURCE_COMPACT)


def test_an_overwrite_replaces_what_compactions_made_of_its_files() -> None:
    assert followed() == (["read", "other"], [])
    joined = change(3, READ.deletion(), OTHER.deletion(), JOINED)
    assert followed(joined) == (["joined"], [])
    again = entry(ADD, "again", 9, file_source=SOURCE_COMPACT)
    assert followed(joined, change(4, JOINED.deletion(), again)) == (["again"], [])


def test_files_that_came_stay_and_so_does_what_compactions_make_of_them() -> None:
    assert followed(change(3, NEW), change(4, NEWER)) == (["read", "other"], ["new", "newer"])
    joined = change(5, NEW.deletion(), NEWER.deletion(), NEW_JOINED)
    assert followed(change(3, NEW), change(4, NEWER), joined) == (["read", "other"], ["new-joined"])


def test_compactions_of_files_that_came_are_remembered() -> None:
    """What they dropped may matter to rows that a rollback brings back."""
    request = CommitRequest("OVERWRITE", (), "us", target=lambda partition: True)
    joined = change(5, NEW.deletion(), NEWER.deletion(), NEW_JOINED)
    of_read = change(6, READ.deletion(), OTHER.deletion(), JOINED)
    found = follow(request, {e.identity: e for e in (READ, OTHER)}, [change(3, NEW), change(4, NEWER), joined, of_read])
    assert isinstance(found, Followed)
    assert [(group.deleted, group.added) for group in found.merged] == [
        ((NEW.deletion(), NEWER.deletion()), (NEW_JOINED,))
    ]


def test_the_oldest_conflict_is_told() -> None:
    lost = followed(change(3, NEW), change(4, READ.deletion()), change(5, OTHER.deletion()))
    assert lost.check == "overwritten_meanwhile"
    assert lost.reason.startswith("snapshot 4 (APPEND by 'another-job') changed the same partitions since")


def test_a_conflict_in_any_bucket_counts() -> None:
    """The first bucket of the change only got a file; in the second one it replaced what was read."""
    elsewhere = entry(ADD, "elsewhere", 1)._replace(bucket=1)
    assert followed(change(3, NEW, elsewhere.deletion())).files == ("elsewhere",)


def test_other_partitions_are_no_business_of_an_overwrite() -> None:
    away = READ.deletion()._replace(partition=CODEC.encode(("b",)))
    only_a = CODEC.encode(("a",)).__eq__
    assert followed(change(3, away), target=only_a) == (["read", "other"], [])
    assert followed(change(3, away)).check == "overwritten_meanwhile"


def test_an_overwrite_reads_the_live_files_of_its_partitions() -> None:
    """A DELETE whose ADD is gone stops nobody: an overwrite is the way out of such a state."""
    away = entry(ADD, "away", 1)._replace(partition=CODEC.encode(("b",)))
    found = replaced_files(CODEC.encode(("a",)).__eq__, [READ, OTHER, away, OTHER.deletion(), NEW.deletion()])
    assert [e.file.file_name for e in found.values()] == ["read"]
    assert set(found) == {READ.identity}


def test_three_files_of_a_conflict_are_named_and_all_of_them_are_kept() -> None:
    for count, shown in ((3, "f0, f1, f2"), (4, "f0, f1, f2 and 1 more"), (6, "f0, f1, f2 and 3 more")):
        gone = [entry(DELETE, f"f{n}", 1) for n in range(count)]
        found = followed(change(3, *gone))
        assert found.reason.endswith(f"since this commit read the table: {shown}")
        assert found.files == tuple(f"f{n}" for n in range(count))


# ---------------------------------------------------------------------------------------------------------- rows read


def test_marks_matter_to_a_change_that_looked_for_absent_rows() -> None:
    marks = Landed(3, "OVERWRITE", "another-job", Change((), (), 0), frozenset({owner_of(READ)}))
    found = rows_read_changed(RowsRead(None, lambda e: False, absent=True), [marks])
    assert found is not None
    assert (found.check, found.files) == ("rows_read_changed", ())
    assert "deleted rows that it may concern" in found.reason
    assert rows_read_changed(RowsRead(None, lambda e: True), [marks]) is None


def test_only_added_files_that_may_hold_such_rows_are_named() -> None:
    landed = [change(3, OTHER), change(4, NEW, NEWER)]
    found = rows_read_changed(RowsRead(None, lambda e: e.file.file_name == "newer"), landed)
    assert found is not None
    assert found.files == ("newer",)
    assert found.reason.startswith("snapshot 4 (APPEND by 'another-job') added rows that it may concern")
    assert rows_read_changed(RowsRead(None, lambda e: False), landed) is None
