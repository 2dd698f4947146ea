"""Whether later commits build on the one that is undone: judged by what they have left, and told by the newest of them."""

from __future__ import annotations

from typing import Any

import pytest
from changes import created, delete_rows, index_of, publish, reopened, vector_file

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.coordinator.commit.checks.changes_since import ChangesSince
from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.commit.checks.undoing import builds_on
from lakelatch.coordinator.commit.request import Remarks, Restoration, Undoing
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.metadata.change import owner_of
from lakelatch.core.metadata.data_file import ADD, DELETE, EMPTY_ROW, DataFile, IndexEntry, ManifestEntry
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table


def entry(name: str, bucket: int = 0, **more: Any) -> ManifestEntry:
    return ManifestEntry(ADD, EMPTY_ROW, bucket, -1, DataFile(name, 1, 5, **more))


OLD, MADE, TOO = entry("old"), entry("made"), entry("made too")


@pytest.fixture
def table() -> Table:
    """1: the file `old`; 2: `old` is replaced by `made` and `made too`, which is the commit that is undone."""
    found = created(())
    publish(found, "APPEND", [OLD])
    publish(found, "OVERWRITE", [OLD.deletion(), MADE, TOO])
    return found


def bring_back(table: Table, *entries: ManifestEntry, of: int | None = None) -> None:
    """As an undo of a snapshot does: the base is written without the deletions that would hide these files."""
    said = Remarks(properties={} if of is None else {"undo.snapshot": str(of)})
    request = Restoration("OVERWRITE", entries, "another-job", target=lambda partition: False, remarks=said)
    reopened(table).committer.commit(request)


def snapshot(table: Table, number: int) -> Snapshot:
    return reopened(table).timeline.snapshot(number)


def judged(table: Table, *, of: int = 2, **more: Any) -> Conflict | None:
    """May snapshot 2 be undone on the newest snapshot?"""
    read = snapshot(table, of)
    request = Undoing("OVERWRITE", (MADE.deletion(), TOO.deletion(), OLD), "undo", read_snapshot=read, **more)
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    found = builds_on(request, since, table.timeline.latest())
    return found if isinstance(found, Conflict) else None


def told(table: Table, **more: Any) -> tuple[str, tuple[str, ...]]:
    found = judged(table, **more)
    assert found is not None and found.check == "depended_on"
    return found.reason, found.files


def test_a_file_that_came_back_goes_under_the_identity_that_it_has_now(table: Table) -> None:
    now, earlier = (MADE._replace(file=MADE.file._replace(extra_files=(f"made.{n}.entry",))) for n in (2, 1))
    publish(table, "OVERWRITE", [MADE.deletion()])
    publish(table, "OVERWRITE", [now], properties={"undo.snapshot": "3"})
    request = Undoing("OVERWRITE", (earlier.deletion(), OLD), "undo", read_snapshot=snapshot(table, 2))
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    found = builds_on(request, since, table.timeline.latest())
    assert isinstance(found, Undoing) and found.entries == (now.deletion(), OLD)


def test_a_commit_with_nothing_after_it_can_be_undone(table: Table) -> None:
    assert judged(table) is None
    publish(table, "APPEND", [entry("new")])
    assert judged(table) is None


def test_a_commit_whose_file_was_replaced_cannot_be_undone(table: Table) -> None:
    publish(table, "COMPACT", [MADE.deletion(), entry("compacted", file_source=1)])
    publish(table, "APPEND", [entry("new")])
    said = "snapshot 3 (COMPACT by 'another-job') deleted or rewrote files that it added: made"
    assert told(table) == (said, ("made",))


def test_what_was_taken_back_since_is_no_conflict(table: Table) -> None:
    """Decision 62: the file went and came back, so nothing of it is left."""
    publish(table, "OVERWRITE", [MADE.deletion()])
    assert judged(table) is not None
    bring_back(table, MADE, of=3)
    assert judged(table) is None
    assert judged(table, closed=frozenset({(EMPTY_ROW, 0)})) is None, "it was there before, so nothing was added"
    publish(table, "OVERWRITE", [MADE.deletion()])
    assert told(table)[0].startswith("snapshot 5 "), "the newest that did something with the file"


def test_a_file_that_is_back_already_cannot_come_back(table: Table) -> None:
    bring_back(table, OLD)
    assert told(table) == ("snapshot 3 (OVERWRITE by 'another-job') brought back files that it deleted: old", ("old",))
    publish(table, "OVERWRITE", [OLD.deletion()], properties={"undo.snapshot": "3"})
    assert judged(table) is None


def test_files_come_back_only_where_nothing_newer_was_added(table: Table) -> None:
    """The keys of what comes back may be older than those that came since."""
    publish(table, "APPEND", [entry("elsewhere", bucket=1)])
    closed = frozenset({(EMPTY_ROW, 0)})
    assert judged(table, closed=closed) is None
    publish(table, "APPEND", [entry("here")])
    said = "snapshot 4 (APPEND by 'another-job') added files where files come back: here"
    assert told(table, closed=closed) == (said, ("here",))
    publish(table, "OVERWRITE", [entry("here").deletion()], properties={"undo.snapshot": "4"})
    assert judged(table, closed=closed) is None


SCENES: dict[str, tuple[list[tuple[str, list[ManifestEntry], dict[str, str]]], str]] = {
    "an overwrite": ([("OVERWRITE", [entry("newer")], {})], "snapshot 3 (OVERWRITE by 'another-job') replaced"),
    "a drop of what came since": (
        [("APPEND", [entry("newer")], {}), ("APPEND", [entry("last")], {}), ("OVERWRITE", [entry("newer").deletion()], {})],
        "snapshot 5 (OVERWRITE by 'another-job') replaced files of a partition to which files come back: newer",
    ),
    "a drop that found nothing": ([("OVERWRITE", [], {})], "snapshot 3 (OVERWRITE by 'another-job') replaced a partition"),
    "a merge of manifests": ([("COMPACT", [], {})], ""),
    "an append of nothing": ([("APPEND", [], {})], ""),
    "an append that was undone": (
        [("APPEND", [entry("newer")], {}), ("OVERWRITE", [entry("newer").deletion()], {"undo.snapshot": "3"})], ""
    ),
    "an overwrite that was undone": (
        [("OVERWRITE", [entry("newer")], {}), ("OVERWRITE", [entry("newer").deletion()], {"undo.snapshot": "3"})], ""
    ),
    "an overwrite whose undo was undone": (
        [
            ("OVERWRITE", [entry("newer")], {}),
            ("OVERWRITE", [entry("newer").deletion()], {"undo.snapshot": "3"}),
            ("OVERWRITE", [entry("again")], {"undo.snapshot": "4"}),
        ],
        "snapshot 3 (OVERWRITE by 'another-job') replaced files of a partition to which files come back: newer",
    ),
    "an overwrite beside the undo of one commit of several": (
        [("OVERWRITE", [entry("newer")], {}), ("OVERWRITE", [], {"undo.snapshot": "3", "undo.commit": "c"})],
        "snapshot 3 (OVERWRITE by 'another-job') replaced files of a partition to which files come back: newer",
    ),
    "a compaction of what came since": (
        [
            ("APPEND", [entry("newer")], {}),
            ("COMPACT", [entry("newer").deletion(), entry("compacted", file_source=1)], {}),
        ],
        "",
    ),
    "an overwrite elsewhere": ([("OVERWRITE", [entry("newer")._replace(partition=b"elsewhere")], {})], ""),
}  # fmt: skip


@pytest.mark.parametrize(("commits", "said"), SCENES.values(), ids=SCENES)
def test_old_files_do_not_come_back_below_a_later_overwrite(
    table: Table, commits: list[tuple[str, list[ManifestEntry], dict[str, str]]], said: str
) -> None:
    """Decision 85: it meant all rows of the partition, so that it would have found those that come back."""
    for kind, entries, properties in commits:
        publish(table, kind, entries, properties=properties)
    found = judged(table)
    assert ("" if found is None else found.reason)[: len(said) or None] == said
    appended = Undoing("OVERWRITE", (MADE.deletion(),), "undo", read_snapshot=snapshot(table, 2))
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    assert builds_on(appended, since, table.timeline.latest()) == appended, "nothing comes back"


def test_a_commit_that_named_no_file_is_told_without_one(table: Table) -> None:
    publish(table, "OVERWRITE", [])
    by = "snapshot 3 (OVERWRITE by 'another-job')"
    assert told(table) == (f"{by} replaced a partition to which files come back", ())


def test_marks_are_read_only_where_they_may_have_changed(table: Table) -> None:
    publish(table, "APPEND", [entry("new")])
    delete_rows(table, {"new": [0]})
    for marked, requests in ((frozenset(), 0), (frozenset({owner_of(MADE)}), 1)):
        store = MeteredStore(table.store)
        since = ChangesSince(Timeline(store, table.paths), FileKeys(table.schema), lambda partition: False)
        undone, newest = snapshot(table, 2), table.timeline.latest()
        request = Undoing("OVERWRITE", (), "undo", read_snapshot=undone, marked=marked)
        assert isinstance(since.since(undone, newest), list)
        store.reset()
        assert builds_on(request, since, newest) == request
        assert store.snapshot().requests == requests, "the index manifest"


def test_updated_columns_of_its_rows_are_a_conflict() -> None:
    """Data evolution: the new file has columns of the rows that would go."""
    rows = entry("made", first_row_id=10, min_sequence_number=2)
    table = created(())
    publish(table, "APPEND", [OLD])
    publish(table, "APPEND", [rows])
    publish(table, "APPEND", [entry("columns", first_row_id=12), entry("of others", first_row_id=15)])
    request = Undoing("OVERWRITE", (rows.deletion(), OLD), "undo", read_snapshot=snapshot(table, 2))
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    found = builds_on(request, since, table.timeline.latest())
    assert found is not None
    assert (found.reason.partition(") ")[2], found.files) == ("updated rows that it added: columns", ("columns",))


def test_three_files_are_named_and_the_others_counted() -> None:
    made = [entry(f"f{number}") for number in range(5)]
    for count, shown in ((3, "f0, f1, f2"), (5, "f0, f1, f2 and 2 more")):
        table = created(())
        publish(table, "APPEND", made)
        publish(table, "OVERWRITE", [e.deletion() for e in made[:count]])
        entries = tuple(e.deletion() for e in made)
        since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
        request = Undoing("OVERWRITE", entries, "undo", read_snapshot=snapshot(table, 1))
        found = builds_on(request, since, table.timeline.latest())
        assert found is not None
        assert found.reason.endswith(f"files that it added: {shown}")
        assert len(found.files) == count


def test_later_commits_that_are_gone_are_a_conflict(table: Table) -> None:
    read = snapshot(table, 2)
    publish(table, "APPEND", [entry("new")])
    publish(table, "APPEND", [entry("newer")])
    table.store.delete_many([table.paths.snapshot(3)])
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    found = builds_on(Undoing("OVERWRITE", (), "undo", read_snapshot=read), since, snapshot(table, 4))
    assert isinstance(found, Conflict) and found.check == "history_is_visible"
    nothing = Undoing("OVERWRITE", (), "undo")
    assert builds_on(nothing, since, None) == nothing, "a table without snapshots"


# --------------------------------------------------------------------------------------------------------- deleted rows


def test_rows_of_its_files_that_others_deleted_are_a_conflict(table: Table) -> None:
    delete_rows(table, {"made": [0]})
    publish(table, "APPEND", [entry("new")])
    said = "snapshot 3 (OVERWRITE by 'deleting-job') deleted rows of files that it changed: made"
    assert told(table) == (said, ("made",))


def test_files_whose_rows_were_deleted_are_named_in_order() -> None:
    made = [entry(f"f{number}") for number in range(8)]
    table = created(())
    publish(table, "APPEND", made)
    delete_rows(table, {e.file.file_name: [0] for e in reversed(made)})
    request = Undoing("OVERWRITE", tuple(e.deletion() for e in made), "undo", read_snapshot=snapshot(table, 1))
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    found = builds_on(request, since, table.timeline.latest())
    assert isinstance(found, Conflict)
    assert found.files == tuple(f"f{number}" for number in range(8))


def test_the_newest_commit_is_told_where_nobody_is_known_to_have_deleted_the_rows(table: Table) -> None:
    delete_rows(table, {"made": [0]})
    publish(table, "APPEND", [entry("new")])
    publish(table, "APPEND", [entry("newer")])
    blind = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: False)
    request = Undoing("OVERWRITE", (MADE.deletion(), OLD), "undo", read_snapshot=snapshot(table, 2))
    found = builds_on(request, blind, table.timeline.latest())
    assert found is not None and found.reason.startswith("snapshot 5 ")


def test_deleted_rows_of_other_files_are_no_conflict(table: Table) -> None:
    publish(table, "APPEND", [entry("new")])
    delete_rows(table, {"new": [0]})
    assert judged(table) is None
    owner = (EMPTY_ROW, 0, "new")
    assert told(table, marked=frozenset({owner}))[1] == ("new",), "the commit had changed the marks of that file itself"


def test_marks_that_only_moved_to_another_file_are_no_conflict(table: Table) -> None:
    """The bytes of its vector are the same; that of its neighbour in the index file has changed."""
    publish(table, "APPEND", [entry("new")])
    delete_rows(table, {"made": [1]})
    delete_rows(table, {"new": [0]})
    assert len(index_of(table)) == 1
    entries = (MADE.deletion(),)
    since = ChangesSince(table.timeline, FileKeys(table.schema), lambda partition: True)
    request = Undoing("OVERWRITE", entries, "undo", read_snapshot=snapshot(table, 4))
    assert builds_on(request, since, table.timeline.latest()) == request
    delete_rows(table, {"made": [2]})
    found = builds_on(request, since, table.timeline.latest())
    assert found is not None and found.reason.startswith("snapshot 6 ")


def test_marks_that_went_are_a_conflict_too(table: Table) -> None:
    """As after a rollback: the rows that the commit deleted are live again."""
    delete_rows(table, {"made": [0], "made too": [1]})
    (marks,) = index_of(table)
    new, upload = vector_file(EMPTY_ROW, 0, {"made too": [1]})
    gone = IndexEntry(DELETE, marks.partition, marks.bucket, marks.file)
    publish(table, "OVERWRITE", (), [gone, new], [upload])
    found = told(table, of=3)
    assert found[0].startswith("snapshot 4 (OVERWRITE by 'another-job') deleted rows") and found[1] == ("made",)
