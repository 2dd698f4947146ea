"""What a commit becomes on its base: every change of other writers is seen, data files and deleted rows alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from changes import (
    check,
    created,
    delete_rows,
    files,
    index_of,
    marked_rows,
    meanwhile,
    publish,
    reopened,
    replace_a,
    rewritten,
    rows,
    values,
    vector_file,
    written,
)

from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.data_file import ADD, DELETE, SOURCE_APPEND, SOURCE_COMPACT, IndexEntry, IndexFile
from lakelatch.table.table import Table

KINDS = pytest.mark.parametrize("kind", ["APPEND", "OVERWRITE", "COMPACT"])


@pytest.fixture
def table() -> Table:
    """Partition a holds 1, 2, 3 in one file, partition b holds 10."""
    made = created()
    made.append(rows("a", 1, 2, 3))
    made.append(rows("b", 10))
    return made


# ------------------------------------------------------------------------------------------------------ deleted rows


@KINDS
def test_an_overwrite_is_a_conflict_where_rows_that_it_read_were_deleted(table: Table, kind: str) -> None:
    """H22: its new rows are based on the row that was deleted, and would bring it back."""
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    meanwhile(table, lambda: delete_rows(table, {name: [0]}, kind))
    with pytest.raises(CommitConflict, match=r"rows_deleted_meanwhile.*snapshot 3 .*deleting-job"):
        replace_a(table, 1, 2, 3)
    check(table, [2, 3, 10])


@pytest.mark.parametrize("counted", [True, False])
def test_an_overwrite_is_a_conflict_where_more_rows_of_a_marked_file_were_deleted(table: Table, counted: bool) -> None:
    """Vectors of old releases do not record how many rows they mark: then their bytes decide."""
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {name: [0]}, counted=counted)
    meanwhile(table, lambda: delete_rows(table, {name: [2]}, counted=counted))
    with pytest.raises(CommitConflict, match="rows_deleted_meanwhile"):
        replace_a(table, 2, 3)
    assert values(table) == [2, 10]


def test_an_overwrite_is_a_conflict_where_as_many_other_rows_are_marked(table: Table) -> None:
    """As after a rollback to a state in which another row was deleted."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {file.file.file_name: [0]})
    (old,) = index_of(table)
    new, upload = vector_file(file.partition, file.bucket, {file.file.file_name: [1]})
    change = [replace(old, kind=DELETE), new]
    meanwhile(table, lambda: publish(table, "OVERWRITE", (), change, [upload]))
    with pytest.raises(CommitConflict, match="rows_deleted_meanwhile"):
        replace_a(table, 2, 3)
    check(table, [1, 3, 10])


def test_a_drop_is_a_conflict_where_rows_that_it_read_were_deleted(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    meanwhile(table, lambda: delete_rows(table, {name: [0]}))
    with pytest.raises(CommitConflict, match="rows_deleted_meanwhile"):
        table.drop_partitions([{"part": "a"}])
    check(table, [2, 3, 10])


def test_a_rollback_is_a_conflict_where_rows_were_deleted_meanwhile(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    meanwhile(table, lambda: delete_rows(table, {name: [0]}))
    with pytest.raises(CommitConflict, match="rows_deleted_meanwhile"):
        table.rollback(snapshot=1)
    check(table, [2, 3, 10])


def test_rows_deleted_in_another_partition_are_not_a_conflict(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 1]
    meanwhile(table, lambda: delete_rows(table, {name: [0]}))
    replace_a(table, 7)
    check(table, [7])


def appended_and_marked(table: Table, *new: int) -> Callable[[], None]:
    """Another job appends rows to partition a, and deletes the first of them again."""

    def change() -> None:
        before = {e.file.file_name for e in files(table)}
        reopened(table).append(rows("a", *new))
        (name,) = {e.file.file_name for e in files(table)} - before
        delete_rows(table, {name: [0]})

    return change


def test_deleted_rows_of_files_that_were_appended_meanwhile_stay_deleted(table: Table) -> None:
    """The appended file stays, as the isolation promises, and so do its deletion marks."""
    meanwhile(table, appended_and_marked(table, 20, 21))
    replace_a(table, 7)
    check(table, [7, 10, 21])


def test_a_vector_file_of_replaced_and_remaining_files_is_split(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {name: [1]})
    meanwhile(table, appended_and_marked(table, 20, 21))
    replace_a(table, 7)
    check(table, [7, 10, 21])
    assert name not in marked_rows(table)


def test_the_vectors_of_replaced_files_are_removed(table: Table) -> None:
    delete_rows(table, {e.file.file_name: [0] for e in files(table)})
    replace_a(table, 7)
    check(table, [7])
    assert len(marked_rows(table)) == 1


def test_a_rollback_keeps_deleted_rows_of_files_that_were_appended_meanwhile(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {name: [1]})  # snapshot 3
    delete_rows(table, {name: [2]})
    meanwhile(table, appended_and_marked(table, 20, 21))
    table.rollback(snapshot=3)
    check(table, [1, 3, 10, 21])
    assert marked_rows(table)[name] == {1}


def test_a_vector_that_was_only_moved_to_another_file_is_not_a_conflict() -> None:
    """Marks of a file that the overwrite did not read changed: the vector of the file that it read is unchanged."""
    table = created()
    table.append(rows("a", 1, 2, 3))
    (name,) = [e.file.file_name for e in files(table)]
    delete_rows(table, {name: [0]}, counted=False)
    meanwhile(table, appended_and_marked(table, 20, 21))
    replace_a(table, 7)
    check(table, [7, 21])


# --------------------------------------------------------------------------------------------- judged by their content


@KINDS
def test_an_overwrite_is_a_conflict_where_files_were_deleted_under_any_kind(table: Table, kind: str) -> None:
    """H22: a snapshot of kind APPEND may still delete files."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    meanwhile(table, lambda: publish(table, kind, [file.deletion()]))
    with pytest.raises(CommitConflict, match=r"overwritten_meanwhile.*snapshot 3 .*another-job"):
        replace_a(table, 7)
    check(table, [10])


@KINDS
def test_an_overwrite_is_a_conflict_where_rows_were_rewritten_under_any_kind(table: Table, kind: str) -> None:
    """An update replaces a file by another with as many rows; it is not a compaction."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    new = written(table, rows("a", 1, 2, 30))
    meanwhile(table, lambda: publish(table, kind, rewritten([file], new, SOURCE_APPEND)))
    with pytest.raises(CommitConflict, match="overwritten_meanwhile"):
        replace_a(table, 7)
    check(table, [1, 2, 10, 30])


@pytest.mark.parametrize("source", [SOURCE_COMPACT, None])
@pytest.mark.parametrize("kept", [(1, 2), (1, 2, 3, 4)], ids=["fewer rows", "more rows"])
def test_a_compaction_whose_rows_do_not_add_up_is_a_conflict(table: Table, source: int, kept: tuple[int, ...]) -> None:
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    new = written(table, rows("a", *kept))
    meanwhile(table, lambda: publish(table, "COMPACT", rewritten([file], new, source)))
    with pytest.raises(CommitConflict, match="overwritten_meanwhile"):
        replace_a(table, 7)
    check(table, [*kept, 10])


def test_a_compaction_of_an_old_release_that_does_not_mark_its_files_is_a_conflict(table: Table) -> None:
    """Before 0.9, manifests do not record where a file comes from, so an update looks the same."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    new = written(table, rows("a", 1, 2, 3))
    meanwhile(table, lambda: publish(table, "COMPACT", rewritten([file], new, None)))
    with pytest.raises(CommitConflict, match="overwritten_meanwhile"):
        replace_a(table, 7)


@KINDS
def test_a_compaction_is_followed_under_any_kind(table: Table, kind: str) -> None:
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    new = written(table, rows("a", 1, 2, 3))
    meanwhile(table, lambda: publish(table, kind, rewritten([file], new, SOURCE_COMPACT)))
    replace_a(table, 7)
    check(table, [7, 10])


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("kept", [(2, 3), (2,), ()])
def test_a_compaction_leaves_out_the_rows_that_were_marked(table: Table, counted: bool, kept: tuple[int, ...]) -> None:
    """Its rows are those of its inputs without the marked ones; a vector without a count marks at least some."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {file.file.file_name: [0]}, counted=counted)
    (vectors,) = index_of(table)
    new = written(table, rows("a", *kept)) if kept else ()
    change = rewritten([file], new, SOURCE_COMPACT)
    meanwhile(table, lambda: publish(table, "COMPACT", change, [replace(vectors, kind=DELETE)]))
    if kept == (2, 3) or not counted:
        replace_a(table, 7)
        check(table, [7, 10])
    else:
        with pytest.raises(CommitConflict, match="overwritten_meanwhile"):
            replace_a(table, 7)


def test_an_overwrite_follows_a_file_that_changed_its_level(table: Table) -> None:
    """It is the same file with the same rows; only its identity in the manifests differs."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    raised = file._replace(file=file.file._replace(level=5))
    meanwhile(table, lambda: publish(table, "COMPACT", [file.deletion(), raised]))
    replace_a(table, 7)
    check(table, [7, 10])


def test_the_second_of_two_overwrites_of_an_empty_partition_is_a_conflict(table: Table) -> None:
    """The first looks like an append except for its kind; both would exist side by side."""
    new = {"partition": {"part": "c"}}
    meanwhile(table, lambda: reopened(table).overwrite(rows("c", 20), **new))
    with pytest.raises(CommitConflict, match=r"overwritten_meanwhile.*snapshot 3 "):
        table.overwrite(rows("c", 30), **new)
    check(table, [1, 2, 3, 10, 20])


def test_serializable_sees_added_rows_under_any_kind(table: Table) -> None:
    new = written(table, rows("a", 5))
    meanwhile(table, lambda: publish(table, "COMPACT", new))
    with pytest.raises(CommitConflict, match=r"appended_meanwhile.*snapshot 3"):
        replace_a(table, 7, isolation="serializable")
    check(table, [1, 2, 3, 5, 10])


# ------------------------------------------------------------------------------------------------------- compactions


def test_an_overwrite_is_a_conflict_where_a_compaction_mixed_in_newer_rows(table: Table) -> None:
    """H13: deleting the compacted file would lose the newer rows, keeping it would keep the replaced ones."""
    other = reopened(table)
    meanwhile(table, lambda: other.append(rows("a", 4)), lambda: other.compact("part = 'a'", min_files=2))
    with pytest.raises(
        CommitConflict, match=r"compacted_with_newer_rows.*snapshot 4 .*merged newer rows.*: [^,]+, [^,]+, [^,]+"
    ):
        replace_a(table, 7)
    check(table, [1, 2, 3, 4, 10])


def test_an_overwrite_follows_compactions_of_what_it_read_and_leaves_newer_files(table: Table) -> None:
    table.append(rows("a", 4))
    other = reopened(table)
    meanwhile(table, lambda: other.compact("part = 'a'", min_files=2), lambda: other.append(rows("a", 5)))
    replace_a(table, 7)
    check(table, [5, 7, 10])


def test_an_overwrite_lands_beside_a_compaction_of_newer_files_alone(table: Table) -> None:
    """Each change is compared with the snapshot right before it: the marks that the compaction applied are new, too."""

    def compact_the_newer_file() -> None:
        (newer,) = [e for e in files(table) if e.file.row_count == 2]
        vectors = [replace(e, kind=DELETE) for e in index_of(table)]
        change = rewritten([newer], written(table, rows("a", 21)), SOURCE_COMPACT)
        publish(table, "COMPACT", change, vectors)

    meanwhile(table, appended_and_marked(table, 20, 21), compact_the_newer_file)
    replace_a(table, 7)
    check(table, [7, 10, 21])


def test_an_overwrite_is_a_conflict_where_rows_of_the_compacted_file_were_deleted(table: Table) -> None:
    """The marks are followed through a compaction, like the files."""
    table.append(rows("a", 4))

    def mark_the_new_file() -> None:
        (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 4]
        delete_rows(table, {name: [0]})

    meanwhile(table, lambda: reopened(table).compact("part = 'a'", min_files=2), mark_the_new_file)
    with pytest.raises(CommitConflict, match=r"rows_deleted_meanwhile.*snapshot 5"):
        replace_a(table, 7)
    assert len(values(table)) == 4


@pytest.mark.parametrize(
    ("seen", "told"),
    [(True, "rows of its input files were deleted by snapshot 4 "), (False, "were deleted since it read them")],
    ids=["history is looked at", "history is not looked at"],
)
def test_a_compaction_of_files_of_which_rows_were_deleted_is_a_conflict(table: Table, seen: bool, told: str) -> None:
    """The conflict names the other commit, if the changes of other writers can be read."""
    table.append(rows("a", 4))
    (first,) = [e for e in files(table) if e.file.row_count == 3]
    inputs = [e for e in files(table) if e.partition == first.partition]
    entries = rewritten(inputs, written(table, rows("a", 1, 2, 3, 4)), SOURCE_COMPACT)
    read = table.timeline.latest() if seen else None
    meanwhile(table, lambda: delete_rows(table, {first.file.file_name: [0]}))
    with pytest.raises(CommitConflict, match=f"inputs_marked.*{told}"):
        table.committer.commit(CommitRequest("COMPACT", tuple(entries), "compactor", read_snapshot=read))
    check(table, [2, 3, 4, 10])


@pytest.mark.parametrize(
    ("seen", "told"),
    [(True, "inputs_marked.*snapshot 4 "), (False, "index_file_replaced.*index-by-hand")],
    ids=["history is looked at", "history is not looked at"],
)
def test_an_index_file_that_was_replaced_meanwhile_is_not_replaced_again(table: Table, seen: bool, told: str) -> None:
    """H12: two jobs replace one vector file: the second one would undo the marks of the first."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {file.file.file_name: [0]})
    (old,) = index_of(table)
    new, upload = vector_file(file.partition, file.bucket, {file.file.file_name: [0, 1]})
    request = CommitRequest(
        "OVERWRITE",
        (),
        "second",
        index_entries=(replace(old, kind=DELETE), new),
        uploads=(upload,),
        read_snapshot=table.timeline.latest() if seen else None,
    )
    meanwhile(table, lambda: delete_rows(table, {file.file.file_name: [2]}))
    with pytest.raises(CommitConflict, match=told):
        reopened(table).committer.commit(request)
    check(table, [2, 10])


@pytest.mark.parametrize(
    ("seen", "told"),
    [(True, "inputs_gone.*snapshot 4 "), (False, "deletes_unknown_file")],
    ids=["history is looked at", "history is not looked at"],
)
def test_rows_of_a_removed_file_are_not_deleted(table: Table, seen: bool, told: str) -> None:
    """H22: the marks would apply to a file that a compaction removed, and the rows would live on in its output."""
    table.append(rows("a", 4))
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    new, upload = vector_file(file.partition, file.bucket, {file.file.file_name: [0]})
    read = table.timeline.latest() if seen else None
    request = CommitRequest("OVERWRITE", (), "me", index_entries=(new,), uploads=(upload,), read_snapshot=read)
    meanwhile(table, lambda: reopened(table).compact("part = 'a'", min_files=2))
    with pytest.raises(CommitConflict, match=told):
        reopened(table).committer.commit(request)
    check(table, [1, 2, 3, 4, 10])


def test_files_of_another_table_are_not_deleted_in_an_empty_one(table: Table) -> None:
    """The commit cannot have read them from a table without snapshots."""
    with pytest.raises(CommitConflict, match="deletes_unknown_file"):
        publish(created(), "COMPACT", [files(table)[0].deletion()])


def test_other_index_files_are_removed_with_the_replaced_partition(table: Table) -> None:
    """They index the rows of the replaced files; those of other partitions stay."""
    found = [
        IndexEntry(ADD, e.partition, e.bucket, IndexFile("HASH", f"index-of-{e.file.row_count}", 4, 1))
        for e in files(table)
    ]
    publish(table, "APPEND", (), found, [PendingUpload(f"index/{e.file.file_name}", b"hash") for e in found])
    replace_a(table, 7)
    assert [e.file.file_name for e in index_of(table)] == ["index-of-1"]
    check(table, [7, 10])


def test_a_conflict_names_three_files_and_counts_the_others(table: Table) -> None:
    for number in range(4):
        table.append(rows("a", 100 + number))
    part = next(e.partition for e in files(table) if e.file.row_count == 3)
    of_a = [e.deletion() for e in files(table) if e.partition == part]
    meanwhile(table, lambda: publish(table, "OVERWRITE", of_a))
    with pytest.raises(CommitConflict, match=r"read the table: [^,]+, [^,]+, [^,]+ and 2 more") as conflict:
        replace_a(table, 7)
    assert len(of_a) == 5
    assert sum(e.file.file_name in str(conflict.value) for e in of_a) == 3


def test_vector_files_without_vectors_are_ignored(table: Table) -> None:
    """An index manifest of Apache Paimon may list a deletion vector file without vectors."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    table.store.put("index/index-empty", b"\x01")
    empty = IndexEntry(ADD, file.partition, file.bucket, IndexFile("DELETION_VECTORS", "index-empty", 1, 0, None))
    publish(table, "APPEND", (), [empty], [])
    replace_a(table, 7)
    check(table, [7, 10])
