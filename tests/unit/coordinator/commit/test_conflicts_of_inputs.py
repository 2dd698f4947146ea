"""Whether the files that a commit was made of are still there, with the rows that they had."""

from __future__ import annotations

from typing import Any

import pytest

from lakelatch.coordinator.commit.checks.conflicts import (
    Conflict,
    deletes_unknown_file,
    inputs_changed,
    inputs_marked,
    inputs_of,
    keys_came,
    rows_changed,
)
from lakelatch.coordinator.commit.request import ColumnUpdate, CommitRequest
from lakelatch.core.metadata.change import Change, Landed
from lakelatch.core.metadata.data_file import (
    ADD,
    DELETE,
    EMPTY_ROW,
    SOURCE_APPEND,
    SOURCE_COMPACT,
    DataFile,
    DeletionVectorRange,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakelatch.core.metadata.deletion_vector import INDEX_TYPE


def entry(kind: int, name: str, **more: Any) -> ManifestEntry:
    return ManifestEntry(kind, EMPTY_ROW, 0, -1, DataFile(name, 1, 5, **{"file_source": SOURCE_APPEND, **more}))


def vectors(kind: int, *names: str) -> IndexEntry:
    """An index file with the deletion vectors of some data files."""
    ranges = tuple(DeletionVectorRange(name, 1, 9, 1) for name in names)
    return IndexEntry(kind, EMPTY_ROW, 0, IndexFile(INDEX_TYPE, "index-1", 10, len(ranges), ranges))


def change(number: int, *entries: ManifestEntry, marked: tuple[str, ...] = ()) -> Landed:
    owners = frozenset((EMPTY_ROW, 0, name) for name in marked)
    return Landed(number, "APPEND", "another-job", Change(entries, (), 0), owners)


def request(*entries: ManifestEntry, index: tuple[IndexEntry, ...] = ()) -> CommitRequest:
    return CommitRequest("COMPACT", entries, "us", index_entries=index)


def told(found: Conflict | None) -> tuple[str, tuple[str, ...]] | None:
    return None if found is None else (found.check, found.files)


INPUT = entry(ADD, "input")
JOINS = request(INPUT.deletion(), entry(ADD, "output", file_source=SOURCE_COMPACT))
BY = "snapshot 4 (APPEND by 'another-job')"


def test_the_inputs_are_the_files_that_go_and_those_whose_rows_are_marked() -> None:
    made = request(INPUT.deletion(), entry(ADD, "new"), index=(vectors(ADD, "marked", "new"), vectors(DELETE, "old")))
    assert {owner[2] for owner in inputs_of(made)} == {"input", "marked"}, "its own new file is no input"


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ([change(3, entry(ADD, "new")), change(4, entry(DELETE, "other"))], None),
        ([change(4, INPUT)], None),
        ([change(3, entry(ADD, "new")), change(4, INPUT.deletion(), entry(DELETE, "other"))], "inputs_gone"),
        ([change(4, INPUT.deletion()), change(5, marked=("input",))], "inputs_gone"),
        ([change(4, marked=("input",)), change(5, INPUT.deletion())], "inputs_marked"),
        ([change(4, marked=("other",))], None),
    ],
    ids=["others", "added again", "gone", "gone first", "marked first", "others marked"],
)
def test_the_oldest_change_of_an_input_is_the_conflict(changes: list[Landed], wanted: str | None) -> None:
    found = inputs_changed(JOINS, changes)
    assert told(found) == (None if wanted is None else (wanted, ("input",)))
    if found is not None:
        assert BY in found.reason


def test_marked_inputs_are_named_in_order_and_at_most_five() -> None:
    names = [f"f{n}" for n in range(7)]
    joins = request(*(entry(DELETE, name) for name in names))
    found = inputs_changed(joins, [change(4, marked=tuple(reversed(names)))])
    assert found is not None
    assert found.reason == f"rows of its input files were deleted by {BY} since it read them: f0, f1, f2, f3, f4"
    assert found.files == tuple(names)


def test_inputs_must_be_live_where_the_history_cannot_be_read() -> None:
    alive = [INPUT, entry(ADD, "marked")]
    marks = request(INPUT.deletion(), index=(vectors(ADD, "marked"),))
    assert deletes_unknown_file(marks, alive) is None
    assert told(deletes_unknown_file(marks, alive[:1])) == ("deletes_unknown_file", ("marked",))
    assert told(deletes_unknown_file(marks, alive[1:])) == ("deletes_unknown_file", ("input",))
    moved = INPUT._replace(file=INPUT.file._replace(level=5))
    assert told(deletes_unknown_file(JOINS, [moved])) == ("deletes_unknown_file", ("input",)), "it has another level"
    assert deletes_unknown_file(request(entry(ADD, "new")), []) is None


def test_files_that_are_gone_are_counted_and_five_of_them_named() -> None:
    found = deletes_unknown_file(request(*(entry(DELETE, f"f{n}") for n in (6, 5, 4, 3, 2, 1, 0))), [])
    assert found is not None
    assert found.reason == "7 of its input files are gone: f0, f1, f2, f3, f4"
    assert found.files == tuple(f"f{n}" for n in range(7))


def test_a_vector_of_a_file_that_goes_was_made_by_another() -> None:
    """H12. A file that only changes its level keeps its vector."""
    index = [vectors(ADD, "other", "input")]
    found = inputs_marked(JOINS, index)
    assert told(found) == ("inputs_marked", ("input",))
    assert found is not None and found.reason == "rows of its input files were deleted since it read them: input"
    raised = request(INPUT.deletion(), INPUT._replace(file=INPUT.file._replace(level=5)))
    assert inputs_marked(raised, index) is None
    assert inputs_marked(JOINS, [vectors(ADD, "other")]) is None


def test_only_new_rows_can_bring_keys() -> None:
    output = entry(ADD, "output", file_source=SOURCE_COMPACT)
    harmless = change(3, INPUT.deletion(), output)
    assert keys_came([harmless]) is None
    assert told(keys_came([harmless, change(4, output, entry(ADD, "new"), INPUT.deletion())])) == (
        "keys_came",
        ("new",),
    )
    unmarked = entry(ADD, "of an old release", file_source=None)
    assert told(keys_came([change(4, unmarked)])) == ("keys_came", ("of an old release",))


def test_the_change_of_rows_that_is_told_names_its_own_files() -> None:
    """Data evolution: a compaction that keeps the rows of the file is passed over, and so are other rows."""
    ours = ColumnUpdate("APPEND", (entry(ADD, "ours", first_row_id=10), entry(DELETE, "never", first_row_id=90)), "us")
    kept = change(3, entry(DELETE, "old", first_row_id=10), entry(ADD, "as old", first_row_id=10, file_source=1))
    far = change(4, entry(ADD, "far", first_row_id=90), entry(DELETE, "far too", first_row_id=15))
    near = change(5, entry(ADD, "far", first_row_id=90), entry(ADD, "near", first_row_id=12))
    assert rows_changed(ours, [kept, far]) is None
    assert told(rows_changed(ours, [kept, far, near])) == ("rows_changed", ("near",))
    both = change(6, *kept.change.entries, entry(ADD, "columns", first_row_id=10))
    assert told(rows_changed(ours, [both])) == ("rows_changed", ("columns",)), (
        "the compaction of the same change is none"
    )
    written_anew = change(7, entry(DELETE, "old", first_row_id=10), entry(ADD, "new", first_row_id=10))
    assert told(rows_changed(ours, [kept, written_anew])) == ("rows_changed", ("old", "new")), (
        "a file with the same rows is that of a compaction only if it says so"
    )
