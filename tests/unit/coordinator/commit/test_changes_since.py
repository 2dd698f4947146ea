"""What others changed since a commit read the table: read once, and a vector that only moved is no change."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from changes import created, delete_rows, index_of, publish, reopened, vector_file

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.checks.changes_since import ChangesSince, was_moved
from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.metadata.change import Landed
from lakelatch.core.metadata.data_file import (
    ADD,
    DELETE,
    EMPTY_ROW,
    DataFile,
    DeletionVectorRange,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakelatch.core.metadata.manifest import encode_index_manifest
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table

COUNT = count()
FILE = ManifestEntry(ADD, EMPTY_ROW, 0, -1, DataFile("one", 1, 5))


def of_three_snapshots() -> Table:
    """A table without partitions, each of whose snapshots adds a file."""
    table = created(())
    for name in ("one", "two", "three"):
        publish(table, "APPEND", [FILE._replace(file=FILE.file._replace(file_name=name))])
    return table


def reader(table: Table, concerns: Any = lambda partition: True) -> tuple[ChangesSince, MeteredStore]:
    store = MeteredStore(table.store)
    return ChangesSince(Timeline(store, TablePaths()), FileKeys(table.schema), concerns), store


def changes(table: Table, read: int, since: ChangesSince | None = None) -> list[Landed]:
    start = reopened(table).timeline.find(read) if read else None
    found = (since or reader(table)[0]).since(start, reopened(table).timeline.latest())
    assert isinstance(found, list)
    return found


def test_each_snapshot_is_read_once_for_all_attempts() -> None:
    """The newest snapshot names the one that it builds on, and so on: nothing has to be asked again."""
    table = of_three_snapshots()
    since, store = reader(table)
    base = table.timeline.latest()
    read = table.timeline.find(1)
    first = since.since(read, base)
    assert isinstance(first, list)
    assert [(c.snapshot_id, c.kind, c.user) for c in first] == [
        (2, "APPEND", "another-job"),
        (3, "APPEND", "another-job"),
    ]
    assert [[e.file.file_name for e in c.change.entries] for c in first] == [["two"], ["three"]]
    assert store.snapshot().by_operation == {"get": 1 + 2 * 2}, "snapshot 2; a list and a manifest of 2 and 3"
    store.reset()
    assert since.since(read, base) == first
    assert store.snapshot().requests == 0
    publish(table, "APPEND", [FILE._replace(file=FILE.file._replace(file_name="four"))])
    more = since.since(read, table.timeline.latest())
    assert isinstance(more, list) and more[:2] == first and len(more) == 3
    assert store.snapshot().by_operation == {"get": 2}, "a list and a manifest of 4"


def test_a_snapshot_below_one_of_another_engine_is_read_once_by_one_attempt() -> None:
    """That one does not say what it was built on; what has just been read need not be read again."""
    table = of_three_snapshots()
    since, store = reader(table)
    read, base = table.timeline.find(1), table.timeline.latest()
    assert base is not None
    assert isinstance(since.since(read, replace(base, properties={})), list)
    assert store.snapshot().by_operation == {"get": 1 + 2 * 2}, "snapshot 2; a list and a manifest of 2 and 3"


@pytest.mark.parametrize(
    ("said", "undoes"),
    [
        ({}, None),
        ({"undo.snapshot": "1"}, 1),
        ({"undo.snapshot": "1", "undo.commit": "c1"}, 0),
        ({"undo.commit": "c1"}, None),
        ({"undo.snapshot": "none"}, None),
    ],
    ids=str,
)
def test_a_change_says_which_snapshot_it_has_undone(said: dict[str, str], undoes: int | None) -> None:
    """0 where it has undone one of several commits of a snapshot, so that the others still count."""
    table = created(())
    publish(table, "APPEND", [FILE])
    publish(table, "OVERWRITE", [], properties=said)
    assert changes(table, 1)[0].undoes == undoes


@pytest.mark.parametrize("named", [True, False], ids=["ours", "another engine's"])
def test_a_snapshot_in_whose_place_another_came_is_read_again(named: bool) -> None:
    """A rollback frees ids. Snapshots of other engines do not name what they build on, so that nothing can be concluded."""
    table = of_three_snapshots()
    since, _ = reader(table)
    read = table.timeline.find(1)
    assert isinstance(since.since(read, table.timeline.latest()), list)
    table.store.delete_many([table.paths.snapshot(i) for i in (2, 3)])
    for name in ("other", "another"):
        publish(reopened(table), "APPEND", [FILE._replace(file=FILE.file._replace(file_name=name))])
    base = reopened(table).timeline.latest()
    assert base is not None and base.id == 3
    if not named:
        base = replace(base, properties={})
    found = since.since(read, base)
    assert isinstance(found, list)
    assert [e.file.file_name for c in found for e in c.change.entries] == ["other", "another"]


def test_the_history_is_gone_where_a_snapshot_that_was_read_has_gone_below_one_of_another_engine() -> None:
    """That one does not say what it was built on, so that all below it are read again."""
    table = of_three_snapshots()
    since, _ = reader(table)
    read, base = table.timeline.find(1), table.timeline.latest()
    assert base is not None
    assert isinstance(since.since(read, base), list)
    table.store.delete_many([table.paths.snapshot(2)])
    assert isinstance(since.since(read, base), list), "the base says that it was there"
    assert isinstance(since.since(read, replace(base, properties={})), Conflict)


def test_all_snapshots_below_the_newest_one_of_another_engine_are_read_again() -> None:
    """Of two that do not say what they were built on, the newer one puts more in doubt."""
    table = of_three_snapshots()
    publish(table, "APPEND", [FILE._replace(file=FILE.file._replace(file_name="four"))])
    silent = replace(table.timeline.snapshot(3), properties={})
    table.store.put(table.paths.snapshot(3), silent.to_json())
    since, _ = reader(table)
    read, base = table.timeline.find(1), table.timeline.latest()
    assert base is not None
    assert isinstance(since.since(read, base), list)
    table.store.delete_many([table.paths.snapshot(3)])
    assert isinstance(since.since(read, replace(base, properties={})), Conflict)


def test_the_history_is_gone_where_another_snapshot_is_in_the_place_of_the_one_that_was_read() -> None:
    table = created(())
    for name in ("one", "two"):
        publish(table, "APPEND", [FILE._replace(file=FILE.file._replace(file_name=name))])
    since, _ = reader(table)
    read, stays = table.timeline.find(2), table.timeline.find(1)
    table.store.delete_many([table.paths.snapshot(2)])
    for name in ("other", "another"):
        publish(reopened(table), "APPEND", [FILE._replace(file=FILE.file._replace(file_name=name))])
    base = reopened(table).timeline.latest()
    assert isinstance(since.since(read, base), Conflict)
    assert isinstance(since.since(read, stays), Conflict), "the base is older"
    assert isinstance(since.since(stays, base), list)


def test_manifests_that_were_read_for_something_else_are_not_read_again() -> None:
    table = created(())
    publish(table, "APPEND", [FILE])
    since, store = reader(table)
    base = table.timeline.latest()
    assert base is not None
    (line,) = table.timeline.delta_manifests(base)
    since.manifests[line.file_name] = [FILE]
    (found,) = changes(table, 0, since)
    assert found.change.entries == (FILE,)
    assert store.snapshot().by_operation == {"get": 1}, "the list"


def test_index_files_are_read_only_where_their_manifest_has_another_name() -> None:
    table = created(())
    publish(table, "APPEND", [FILE])
    delete_rows(table, {"one": [0]})
    publish(table, "APPEND", [FILE._replace(file=FILE.file._replace(file_name="two"))])
    first, marks, last = changes(table, 0)
    assert (first.change.index_entries, last.change.index_entries) == ((), ())
    assert [e.kind for e in marks.change.index_entries] == [ADD]
    assert marks.marked == {(EMPTY_ROW, 0, "one")}
    assert (first.marked, last.marked) == (frozenset(), frozenset())
    since, store = reader(table)
    changes(table, 2, since)
    assert store.snapshot().by_operation == {"get": 2}, "the list and the manifest of the last one"


def test_marks_are_compared_only_in_the_partitions_that_matter() -> None:
    table = created(())
    publish(table, "APPEND", [FILE])
    delete_rows(table, {"one": [0]})
    (found,) = changes(table, 1, reader(table, lambda partition: partition != EMPTY_ROW)[0])
    assert found.marked == frozenset()


def test_marks_that_moved_because_their_neighbours_changed_are_no_change() -> None:
    table = created(())
    publish(table, "APPEND", [FILE, FILE._replace(file=FILE.file._replace(file_name="two"))])
    delete_rows(table, {"one": [0]})
    delete_rows(table, {"two": [1]})
    first, second = changes(table, 1)
    assert (first.marked, second.marked) == ({(EMPTY_ROW, 0, "one")}, {(EMPTY_ROW, 0, "two")})
    assert [e.kind for e in second.change.index_entries] == [DELETE, ADD]


def test_rows_that_are_no_longer_deleted_are_a_change_as_well() -> None:
    """A rollback takes the marks away. The file stays."""
    table = created(())
    publish(table, "APPEND", [FILE])
    delete_rows(table, {"one": [0]})
    publish(table, "OVERWRITE", index_entries=[replace(e, kind=DELETE) for e in index_of(table)])
    _, _, back = changes(table, 0)
    assert [e.kind for e in back.change.index_entries] == [DELETE]
    assert back.marked == {(EMPTY_ROW, 0, "one")}


def test_the_marks_of_a_file_that_goes_are_no_change_of_its_rows() -> None:
    """One that only changes its level stays, and its marks count."""
    raised = FILE._replace(file=FILE.file._replace(level=5))
    for change, marked in (([FILE.deletion()], frozenset()), ([FILE.deletion(), raised], {(EMPTY_ROW, 0, "one")})):
        table = created(())
        publish(table, "APPEND", [FILE])
        new, upload = vector_file(EMPTY_ROW, 0, {"one": [0]})
        manifest = table.paths.manifest("index-manifest-by-hand")
        publish(table, "COMPACT", change)
        made = table.timeline.latest()
        assert made is not None
        table.store.put(f"index/{new.file.file_name}", upload.data)
        table.store.put(manifest, encode_index_manifest([new]))
        base = replace(made, index_manifest="index-manifest-by-hand")
        found = reader(table)[0].landed(table.timeline.find(1), base)
        assert found.marked == marked


# --------------------------------------------------------------------------------------------------- vectors that moved


@pytest.fixture
def store() -> MeteredStore:
    return MeteredStore(MemoryStore(f"memory://vectors-{next(COUNT)}/t"))


def place(store: MeteredStore, marks: dict[str, list[int]], of: str, **more: Any) -> Any:
    """A vector in an index file of its own, which is in the store."""
    new, upload = vector_file(EMPTY_ROW, 0, marks, **more)
    store.inner.put(upload.key, upload.data)
    return new, next(v for v in new.file.deletion_vectors or () if v.data_file == of)


def moved(store: MeteredStore, before: Any, after: Any) -> bool:
    return was_moved(store, FileKeys(created(()).schema), before, after)


def test_the_same_vector_in_another_file_was_moved(store: MeteredStore) -> None:
    alone, beside = place(store, {"x": [1, 2]}, "x"), place(store, {"a": [0], "x": [1, 2]}, "x")
    assert moved(store, alone, beside)
    assert moved(store, alone, place(store, {"x": [1, 2]}, "x", counted=False)), "an old release does not count"
    assert store.snapshot().by_operation == {"get_range": 4}


def test_another_vector_of_as_many_rows_was_not_moved(store: MeteredStore) -> None:
    assert not moved(store, place(store, {"x": [1, 2]}, "x"), place(store, {"x": [1, 3]}, "x"))


def test_vectors_of_other_counts_need_not_be_read(store: MeteredStore) -> None:
    one = place(store, {"x": [1]}, "x")
    assert not moved(store, one, place(store, {"x": [1, 2]}, "x"))
    assert not moved(store, None, one)
    assert not moved(store, one, None)
    schema = replace(created(()).schema, option_texts={"data-file.external-paths": "s3://elsewhere"})
    file = replace(one[0].file, external_path="s3://elsewhere/index-1")
    outside = replace(one[0], file=file), one[1]
    assert not was_moved(store, FileKeys(schema), outside, outside), "it is outside of the table's store"
    assert store.snapshot().requests == 0


def test_a_vector_that_cannot_be_read_counts_as_changed(store: MeteredStore) -> None:
    """Both are gone, cut off, or outside of the table: nothing proves that they were the same."""
    there = place(store, {"x": [1]}, "x")
    where = DeletionVectorRange("x", 1, 22, 1)
    gone = IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("DELETION_VECTORS", "index-gone", 40, 1, (where,))), where
    assert not moved(store, gone, gone)
    assert not moved(store, gone, there)
    assert not moved(store, there, gone)
    store.inner.put("index/index-cut", b"\x01\x00\x00\x00\x09cut")
    cut = IndexEntry(ADD, EMPTY_ROW, 0, IndexFile("DELETION_VECTORS", "index-cut", 8, 1, (where,))), where
    assert not moved(store, cut, cut)
    assert not moved(store, there, cut)
