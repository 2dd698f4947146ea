"""What a commit becomes on the base that it lands on: every change of others is seen, data files and deleted rows alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from changes import (
    delete_rows,
    index_of,
    marked_rows,
    publish,
    reopened,
    rewritten,
    vector_file,
    written,
)

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.conflicts import Conflict, written_under_another_layout
from lakelatch.coordinator.history import History
from lakelatch.coordinator.message import PendingUpload
from lakelatch.coordinator.request import CommitRequest
from lakelatch.core.data_file import (
    ADD,
    DELETE,
    SOURCE_APPEND,
    SOURCE_COMPACT,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakelatch.core.errors import CommitConflict
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("part", pa.string()), ("v", pa.int64())])
KINDS = pytest.mark.parametrize("kind", ["APPEND", "OVERWRITE", "COMPACT"])


class Raced(MemoryStore):
    """A store in memory in which others come first: what they do happens before the next snapshots are created."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.first: list[Callable[[], Any]] = []

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/") and self.first:
            others, self.first = self.first, []
            for other in others:
                other()
        return super().put_if_absent(key, data)


def created(partition_by: tuple[str, ...] = ("part",), **options: str) -> Table:
    store = Raced(f"memory://settling-{next(COUNTER)}/t")
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in options.items()}
    made = ll.create_table(store.url, SCHEMA, partition_by=list(partition_by), options=named)
    return Table(store, made.schema)


def rows(part: str, *values: int) -> pa.Table:
    return pa.table({"part": [part] * len(values), "v": list(values)})


def values(table: Table) -> list[int]:
    return sorted(reopened(table).to_arrow()["v"].to_pylist())


def files(table: Table) -> list[ManifestEntry]:
    return reopened(table).entries()


def meanwhile(table: Table, *others: Callable[[], Any]) -> None:
    """What others do between the start of the next commit's work and its publish."""
    assert isinstance(table.store, Raced)
    table.store.first = list(others)


def replace_a(table: Table, *new: int, **options: Any) -> Any:
    return table.overwrite(rows("a", *new), partition={"part": "a"}, **options)


def check(table: Table, wanted: list[int]) -> None:
    """The rows, and every count that the metadata gives of them."""
    newest = reopened(table)
    snapshot = newest.timeline.latest()
    assert snapshot is not None
    assert values(table) == sorted(wanted)
    assert newest.count() == len(wanted)
    marks = sum(len(marked) for marked in marked_rows(newest).values())
    assert snapshot.total_record_count == len(wanted) + marks
    assert newest.verify(data=True) == []


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
    """H22: its new rows were made while the deleted row was there, and would bring it back."""
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    meanwhile(table, lambda: delete_rows(table, {name: [0]}, kind))
    with pytest.raises(CommitConflict, match=r"rows_deleted_meanwhile.*snapshot 3 .*deleting-job"):
        replace_a(table, 1, 2, 3)
    check(table, [2, 3, 10])


def test_an_overwrite_is_a_conflict_where_more_rows_of_a_marked_file_were_deleted(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {name: [0]})
    meanwhile(table, lambda: delete_rows(table, {name: [2]}))
    with pytest.raises(CommitConflict, match="rows_deleted_meanwhile"):
        replace_a(table, 2, 3)
    check(table, [2, 10])


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


def test_rows_that_were_deleted_in_another_partition_are_no_conflict(table: Table) -> None:
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
    """The appended file stays, as the isolation says, and so do its marks."""
    meanwhile(table, appended_and_marked(table, 20, 21))
    replace_a(table, 7)
    check(table, [7, 10, 21])


def test_a_vector_file_of_files_that_go_and_of_files_that_stay_is_divided(table: Table) -> None:
    (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 3]
    delete_rows(table, {name: [1]})
    meanwhile(table, appended_and_marked(table, 20, 21))
    replace_a(table, 7)
    check(table, [7, 10, 21])
    assert name not in marked_rows(table)


def test_the_vectors_of_files_that_an_overwrite_replaces_go(table: Table) -> None:
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


def test_a_vector_that_was_only_moved_to_another_file_is_no_conflict() -> None:
    """Marks of a file outside of the overwrite's reading were changed: the vector of a file that it read stands as it was."""
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
    """H22: a snapshot may call itself an append and delete files all the same."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    meanwhile(table, lambda: publish(table, kind, [file.deletion()]))
    with pytest.raises(CommitConflict, match=r"overwritten_meanwhile.*snapshot 3 .*another-job"):
        replace_a(table, 7)
    check(table, [10])


@KINDS
def test_an_overwrite_is_a_conflict_where_rows_were_rewritten_under_any_kind(table: Table, kind: str) -> None:
    """An update replaces a file by another with as many rows; it is no compaction."""
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


def test_a_compaction_of_an_old_release_that_says_nothing_of_its_files_is_a_conflict(table: Table) -> None:
    """Before 0.9 manifests do not say where a file comes from: an update looks the same."""
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
    """Its rows are those of its inputs less the marked ones; a vector that does not say how many it marks, marks some."""
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
    """It is the same file with the same rows, whatever wrote it; only its identity in the manifests is another."""
    (file,) = [e for e in files(table) if e.file.row_count == 3]
    raised = file._replace(file=file.file._replace(level=5))
    meanwhile(table, lambda: publish(table, "COMPACT", [file.deletion(), raised]))
    replace_a(table, 7)
    check(table, [7, 10])


def test_the_second_of_two_overwrites_of_an_empty_partition_is_a_conflict(table: Table) -> None:
    """The first looks like an append, but for what it calls itself: both would stand side by side."""
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
    """H13: deleting the compacted file would lose the rows that came meanwhile, keeping it would keep the replaced ones."""
    other = reopened(table)
    meanwhile(table, lambda: other.append(rows("a", 4)), lambda: other.compact("part = 'a'", min_files=2))
    with pytest.raises(CommitConflict, match=r"compacted_with_newer_rows.*snapshot 4 .*merged newer rows"):
        replace_a(table, 7)
    check(table, [1, 2, 3, 4, 10])


def test_an_overwrite_follows_compactions_of_what_it_read_and_leaves_newer_files(table: Table) -> None:
    table.append(rows("a", 4))
    other = reopened(table)
    meanwhile(table, lambda: other.compact("part = 'a'", min_files=2), lambda: other.append(rows("a", 5)))
    replace_a(table, 7)
    check(table, [5, 7, 10])


def test_an_overwrite_is_a_conflict_where_rows_of_the_compacted_file_were_deleted(table: Table) -> None:
    """The marks are followed through a compaction as the files are."""
    table.append(rows("a", 4))

    def mark_the_new_file() -> None:
        (name,) = [e.file.file_name for e in files(table) if e.file.row_count == 4]
        delete_rows(table, {name: [0]})

    meanwhile(table, lambda: reopened(table).compact("part = 'a'", min_files=2), mark_the_new_file)
    with pytest.raises(CommitConflict, match=r"rows_deleted_meanwhile.*snapshot 5"):
        replace_a(table, 7)
    assert len(values(table)) == 4


def test_a_compaction_of_files_of_which_rows_were_deleted_names_the_other_commit(table: Table) -> None:
    table.append(rows("a", 4))
    (first,) = [e for e in files(table) if e.file.row_count == 3]
    inputs = [e for e in files(table) if e.partition == first.partition]
    request = CommitRequest(
        "COMPACT",
        tuple(rewritten(inputs, written(table, rows("a", 1, 2, 3, 4)), SOURCE_COMPACT)),
        "compactor",
        read_snapshot=table.timeline.latest(),
    )
    meanwhile(table, lambda: delete_rows(table, {first.file.file_name: [0]}))
    with pytest.raises(CommitConflict, match=r"inputs_marked.*rows of its input files were deleted by snapshot 4 "):
        table.committer.commit(request)


@pytest.mark.parametrize(
    ("seen", "told"),
    [(True, "inputs_marked.*snapshot 4 "), (False, "index_file_replaced.*index-by-hand")],
    ids=["history is looked at", "history is not looked at"],
)
def test_an_index_file_that_was_replaced_meanwhile_is_not_replaced_again(table: Table, seen: bool, told: str) -> None:
    """H12: two jobs replace one vector file: the second would undo the marks of the first."""
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
def test_rows_of_a_file_that_is_gone_are_not_deleted(table: Table, seen: bool, told: str) -> None:
    """H22: the marks would be put on a file that a compaction took away, and the rows would live on in its output."""
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
    """A table without snapshots is nothing that the commit could have read them from."""
    with pytest.raises(CommitConflict, match="deletes_unknown_file"):
        publish(created(), "COMPACT", [files(table)[0].deletion()])


def test_other_index_files_go_with_the_partition_that_is_replaced(table: Table) -> None:
    """They say which rows the replaced files have; those of other partitions stay."""
    found = [
        IndexEntry(ADD, e.partition, e.bucket, IndexFile("HASH", f"index-of-{e.file.row_count}", 4, 1))
        for e in files(table)
    ]
    publish(table, "APPEND", (), found, [PendingUpload(f"index/{e.file.file_name}", b"hash") for e in found])
    replace_a(table, 7)
    assert [e.file.file_name for e in index_of(table)] == ["index-of-1"]
    check(table, [7, 10])


# ------------------------------------------------------------------------------------- numbers, history, and schemas


def test_row_ids_are_those_of_the_base_that_the_commit_lands_on() -> None:
    table = created((), row_tracking__enabled="true")
    table.append(pa.table({"part": ["x"], "v": [1]}))
    meanwhile(table, lambda: reopened(table).append(pa.table({"part": ["x", "x"], "v": [2, 3]})))
    table.append(pa.table({"part": ["x"], "v": [4]}))
    newest = table.timeline.latest()
    assert newest is not None and newest.next_row_id == 4
    given = {e.file.first_row_id: e.file.row_count for e in files(table)}
    assert given == {0: 1, 1: 2, 3: 1}
    read = reopened(table).to_arrow(columns=["v", "_ROW_ID"]).sort_by("v")
    assert read["_ROW_ID"].to_pylist() == [0, 1, 2, 3]


def test_a_snapshot_that_was_replaced_by_another_of_its_id_is_not_the_one_that_was_read(table: Table) -> None:
    """After a rollback by Apache Paimon the id is given again: what came after it says nothing of what was read."""
    read = table.timeline.latest()
    assert read is not None
    table.store.delete_many([table.paths.snapshot(read.id)])
    reopened(table).append(rows("a", 40))  # snapshot 2 again, another one
    reopened(table).append(rows("b", 50))
    request = CommitRequest(
        "OVERWRITE", (), "me", target=lambda partition: True, read_snapshot=read, operation="TRUNCATE"
    )
    with pytest.raises(CommitConflict, match="history_is_visible"):
        reopened(table).committer.commit(request)
    check(table, [1, 2, 3, 40, 50])


def test_changes_are_not_taken_from_a_snapshot_that_was_replaced_between_two_attempts(table: Table) -> None:
    """H18: what was read of a snapshot is kept under its identity, not under its id."""
    held = reopened(table)

    def replaced_by_a_delete() -> None:
        table.store.delete_many([table.paths.snapshot(3)])
        (file,) = [e for e in files(table) if e.file.row_count == 3]
        publish(table, "APPEND", [file.deletion()])
        publish(table, "APPEND")

    meanwhile(table, lambda: held.append(rows("b", 11)), lambda: meanwhile(table, replaced_by_a_delete))
    with pytest.raises(CommitConflict):
        replace_a(table, 7)
    check(table, [10])


def test_what_others_did_is_not_known_where_a_snapshot_in_between_is_gone(table: Table) -> None:
    history = History(table.timeline, FileKeys(table.schema), lambda partition: True)
    for value in (11, 12, 13):
        table.append(rows("b", value))
    read, base = table.timeline.find(2), table.timeline.find(5)
    changes = history.since(read, base)
    assert isinstance(changes, list) and [c.snapshot_id for c in changes] == [3, 4, 5]
    table.store.delete_many([table.paths.snapshot(4)])
    gone = history.since(read, base)
    assert isinstance(gone, Conflict) and gone.check == "history_is_visible"


ANOTHER_SCHEMA = r"another_schema.*option 'bucket' is 4.*schema 1"


def altered(table: Table, **texts: str) -> Callable[[], None]:
    """Another job's new schema with these options; and a commit, so that everybody sees that there is something new."""

    def change() -> None:
        newest = table.timeline.latest_schema()
        options = {**newest.option_texts, **texts}
        made = replace(newest, id=newest.id + 1, option_texts=options)
        table.store.put(f"schema/schema-{made.id}", made.to_json())
        publish(table, "APPEND")

    return change


def bucketed() -> Table:
    table = created((), bucket="2", bucket_key="v")
    table.append(pa.table({"part": ["x"] * 4, "v": [1, 2, 3, 4]}))
    return table


def test_an_append_for_another_bucket_count_is_a_conflict() -> None:
    table = bucketed()
    meanwhile(table, altered(table, bucket="4"))
    with pytest.raises(CommitConflict, match=ANOTHER_SCHEMA):
        table.append(rows("x", 5))
    check(table, [1, 2, 3, 4])


def test_an_overwrite_for_another_bucket_count_is_a_conflict() -> None:
    table = bucketed()
    meanwhile(table, altered(table, bucket="4"))
    with pytest.raises(CommitConflict, match=ANOTHER_SCHEMA):
        table.overwrite(rows("x", 5))
    check(table, [1, 2, 3, 4])


def test_a_compaction_for_another_bucket_count_gives_up() -> None:
    table = bucketed()
    for number in range(5, 9):
        table.append(rows("x", number))
    meanwhile(table, altered(table, bucket="4"))
    done = table.compact(min_files=2)
    assert done.receipts == () and "another_schema" in done.given_up[0].reason
    check(table, [*range(1, 9)])


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ({"bucket-key": "part"}, "option 'bucket-key' is part"),
        ({"data-file.path-directory": "elsewhere"}, "option 'data-file.path-directory' is elsewhere"),
    ],
)
def test_an_append_for_another_place_of_its_files_is_a_conflict(texts: dict[str, str], told: str) -> None:
    table = bucketed()
    meanwhile(table, altered(table, **texts))
    with pytest.raises(CommitConflict, match=f"another_schema.*{told}"):
        table.append(rows("x", 5))


def test_each_thing_that_moves_files_is_another_layout() -> None:
    schema = bucketed().schema
    others = [
        replace(schema, id=1, partition_keys=("part",)),
        replace(schema, id=1, option_texts={**schema.option_texts, "bucket-function.type": "mod"}),
    ]
    told = [written_under_another_layout(schema, other) for other in others]
    assert [c.check for c in told if c is not None] == ["another_schema"] * 2
    assert written_under_another_layout(schema, replace(schema, id=1, comment="new")) is None


def test_a_schema_that_keeps_the_layout_is_no_conflict() -> None:
    table = bucketed()
    meanwhile(table, altered(table, **{"file.compression": "snappy"}))
    table.append(rows("x", 5))
    check(table, [1, 2, 3, 4, 5])
    newest = table.timeline.latest()
    assert newest is not None and newest.schema_id == 1


def test_a_commit_that_writes_no_file_does_not_care_for_the_layout() -> None:
    table = bucketed()
    meanwhile(table, altered(table, bucket="4"))
    table.truncate()
    assert values(table) == []
