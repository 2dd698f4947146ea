"""What a request becomes on a base, settled directly: numbers, index files and the checks that each kind of request asks for."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from changes import created, delete_rows, files, index_of, publish, reopened, said, without_numbers

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.coordinator.commit.checks.changes_since import HISTORY_GONE
from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.commit.request import (
    ColumnUpdate,
    CommitRequest,
    KeyedRows,
    ManifestMerge,
    Remarks,
    Restoration,
    RowChange,
    RowsRead,
    Undoing,
)
from lakelatch.coordinator.commit.settling.settler import Settled, Settler
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.row_numbers import NUMBERS_MAX, RowNumbers, Span, row_numbers
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.metadata.data_file import (
    ADD,
    DELETE,
    EMPTY_ROW,
    SOURCE_COMPACT,
    DataFile,
    IndexEntry,
    IndexFile,
    ManifestEntry,
)
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.places import codec_of
from lakelatch.table.table import Table

COUNT = count()


def entry(name: str, buckets: int = -1, **more: Any) -> ManifestEntry:
    return ManifestEntry(ADD, EMPTY_ROW, 0, buckets, DataFile(name, 1, 5, **more))


KEYED = pa.schema([pa.field("k", pa.int64(), False), ("v", pa.int64())])


def opened_with(keys: bool) -> tuple[Any, Any]:
    """A table of two buckets, with a primary key or without."""
    more: dict[str, Any] = {"primary_key": ["k"]} if keys else {}
    options = {"bucket": "2", **({} if keys else {"bucket-key": "k"})}
    made = ll.create_table(f"memory://settling-rules-{next(COUNT)}/t", KEYED, options=options, **more)
    return made.store, made.schema


ONE, TWO, OURS = entry("one"), entry("two"), entry("ours")


def settler(table: Table, request: CommitRequest) -> Settler:
    """As a committer that has just opened the table makes it."""
    return reopened(table).committer._run(request, f"u{next(COUNT)}", table.store, rides=False, crowded=False).settler


def base_of(table: Table) -> Base:
    latest = reopened(table).timeline.latest()
    manifests = table.timeline.manifests(latest) if latest is not None else ()
    return Base(latest, manifests, 0, 0.0)


def settled(table: Table, request: CommitRequest) -> Settled:
    found = settler(table, request).settle(base_of(table), base_of(table).id + 1)
    assert isinstance(found, Settled)
    return found


def conflict(table: Table, request: CommitRequest) -> str:
    found = settler(table, request).settle(base_of(table), base_of(table).id + 1)
    assert isinstance(found, Conflict)
    return found.check


def latest(table: Table) -> Snapshot:
    found = reopened(table).timeline.latest()
    assert found is not None
    return found


def names(found: Settled) -> list[tuple[int, str]]:
    return [(e.kind, e.file.file_name) for e in found.entries]


@pytest.fixture
def table() -> Table:
    """Files one and two, without partitions."""
    made = created(())
    publish(made, "APPEND", [ONE])
    publish(made, "APPEND", [TWO])
    return made


def everything(partition: bytes) -> bool:
    return True


# ------------------------------------------------------------------------------------------------------------- overwrites


def test_an_overwrite_deletes_what_it_read_before_it_adds_its_own(table: Table) -> None:
    request = CommitRequest("OVERWRITE", (OURS,), "us", target=everything, read_snapshot=latest(table))
    assert names(settled(table, request)) == [(DELETE, "one"), (DELETE, "two"), (ADD, "ours")]
    publish(table, "APPEND", [entry("three")])
    assert names(settled(table, request)) == [(DELETE, "one"), (DELETE, "two"), (ADD, "ours")], "what came since stays"
    nothing = replace(request, read_snapshot=None)
    assert names(settled(table, nothing)) == [(ADD, "ours")], "it read a table without a snapshot"


def test_the_files_that_an_overwrite_read_are_read_once_for_all_attempts(table: Table) -> None:
    store = MeteredStore(table.store)
    request = CommitRequest("OVERWRITE", (OURS,), "us", target=everything, read_snapshot=latest(table))
    made = settler(table, request)
    made.timeline = Timeline(store, TablePaths())
    for requests in (2, 0):
        store.reset()
        assert isinstance(made.settle(base_of(table), 3), Settled)
        assert store.snapshot().requests == requests, "the two manifests of its base"


def test_a_rollback_leaves_files_that_are_still_there_alone(table: Table) -> None:
    """Files that come back keep their numbers, and the base is written without deletions."""
    back = entry("back", min_sequence_number=3, max_sequence_number=7)
    request = Restoration("OVERWRITE", (ONE, back), "us", target=everything, read_snapshot=latest(table))
    found = settled(table, request)
    assert names(found) == [(DELETE, "two"), (ADD, "back")]
    assert found.entries[1] == back
    assert found.folded is not None and found.folded.mode == "full"
    tracked = created((), row_tracking__enabled="true")
    publish(tracked, "APPEND", [ONE])
    again = settled(tracked, Restoration("OVERWRITE", (entry("back"),), "us", target=everything))
    assert (again.entries[-1].file.first_row_id, again.next_row_id) == (None, 5)
    plain = settled(tracked, CommitRequest("APPEND", (entry("new"),), "us"))
    assert (plain.entries[-1].file.first_row_id, plain.next_row_id, plain.folded) == (5, 10, None)


def test_an_undo_deletes_a_file_that_came_back_by_the_entry_that_it_has_now(table: Table) -> None:
    undone = latest(table)
    now = TWO._replace(file=TWO.file._replace(extra_files=("two.1.entry",)))
    publish(table, "OVERWRITE", [TWO.deletion()])
    publish(table, "OVERWRITE", [now], properties={"undo.snapshot": "3"})
    request = Undoing("OVERWRITE", (TWO.deletion(),), "us", read_snapshot=undone)
    assert settled(table, request).entries == (now.deletion(),)


def test_only_a_merge_of_manifests_folds_the_base(table: Table) -> None:
    publish(table, "OVERWRITE", [ONE.deletion()])
    found = settled(table, ManifestMerge("COMPACT", (), "us"))
    assert found.entries == () and found.folded is not None
    (run,) = found.folded.runs
    assert [(line.num_added_files, line.num_deleted_files) for line in run[1]] == [(1, 0)]


# ------------------------------------------------------------------------------------------------------- inputs and keys


def test_a_compaction_of_the_newest_snapshot_checks_nothing_and_an_older_one_what_came(table: Table) -> None:
    store = MeteredStore(table.store)
    joins = (ONE.deletion(), TWO.deletion(), entry("joined", file_source=SOURCE_COMPACT))
    made = settler(table, CommitRequest("COMPACT", joins, "us", read_snapshot=latest(table)))
    made.timeline = made._since.timeline = Timeline(store, TablePaths())
    base = base_of(table)
    assert isinstance(made.settle(base, 3), Settled)
    assert store.snapshot().requests == 0
    publish(table, "APPEND", [entry("three")])
    assert isinstance(made.settle(base_of(table), 4), Settled)
    assert store.snapshot().requests == 2, (
        "the list and manifest of the new snapshot, which names the one that was read"
    )
    publish(table, "OVERWRITE", [ONE.deletion()])
    assert isinstance(made.settle(base_of(table), 5), Conflict)


def test_inputs_of_a_commit_that_names_no_snapshot_are_looked_for(table: Table) -> None:
    joins = CommitRequest("COMPACT", (ONE.deletion(), entry("joined", file_source=SOURCE_COMPACT)), "us")
    assert names(settled(table, joins)) == [(DELETE, "one"), (ADD, "joined")]
    publish(table, "OVERWRITE", [ONE.deletion()])
    assert conflict(table, joins) == "deletes_unknown_file"
    assert conflict(created(()), joins) == "deletes_unknown_file", "a table without a snapshot has no such file"


def test_inputs_are_looked_for_where_the_history_is_gone(table: Table) -> None:
    read = latest(table)
    publish(table, "APPEND", [entry("three")])
    publish(table, "APPEND", [entry("four")])
    base = base_of(table)
    table.store.delete_many([table.paths.snapshot(3)])
    joins = (ONE.deletion(), entry("joined", file_source=SOURCE_COMPACT))
    request = CommitRequest("COMPACT", joins, "us", read_snapshot=read)
    found = settler(table, request).settle(base, 5)
    assert isinstance(found, Settled) and names(found) == [(DELETE, "one"), (ADD, "joined")]
    lost = settler(table, replace(request, entries=(entry("gone").deletion(),))).settle(base, 5)
    assert isinstance(lost, Conflict) and lost.check == "deletes_unknown_file"


def test_keys_are_checked_only_for_rows_that_were_placed_by_them(table: Table) -> None:
    read = latest(table)
    by_keys = CommitRequest("APPEND", (OURS,), "us", read_snapshot=read, keyed=KeyedRows(reads_keys=True))
    made = settler(table, by_keys)
    assert isinstance(made.settle(base_of(table), 3), Settled)
    publish(table, "APPEND", [entry("three")])
    assert isinstance(made.settle(base_of(table), 4), Conflict)
    assert made.keys_changed
    plain = settler(table, replace(by_keys, keyed=KeyedRows()))
    assert isinstance(plain.settle(base_of(table), 4), Settled)
    assert not plain.keys_changed


def test_columns_conflict_with_changes_of_their_rows_only_if_there_are_any() -> None:
    table = created((), row_tracking__enabled="true")
    publish(table, "APPEND", [ONE])
    read = latest(table)
    update = ColumnUpdate("APPEND", (entry("column", first_row_id=0),), "us", read_snapshot=read)
    assert names(settled(table, update)) == [(ADD, "column")]
    publish(table, "APPEND", [TWO])
    assert names(settled(table, update)) == [(ADD, "column")]
    publish(table, "APPEND", [entry("theirs", first_row_id=3)])
    assert conflict(table, update) == "rows_changed"


# ---------------------------------------------------------------------------------------------------- changes of rows


def test_a_change_of_rows_is_compared_with_what_came_since_it_read() -> None:
    """Marks count in every partition: a row whose absence mattered may be live again, or gone."""
    table = created()
    codec = codec_of(table.schema)
    in_a, in_b = (ONE._replace(partition=codec.encode((part,))) for part in "ab")
    publish(table, "APPEND", [in_a, in_b._replace(file=TWO.file)])
    read = RowsRead(latest(table), lambda e: e.file.file_name == "mine", absent=True)
    request = RowChange("OVERWRITE", (), "us", rows_read=read)
    assert names(settled(table, request)) == []
    publish(table, "APPEND", [in_a._replace(file=entry("theirs").file)])
    assert names(settled(table, request)) == []
    publish(table, "APPEND", [in_a._replace(file=entry("mine").file)])
    assert conflict(table, request) == "rows_read_changed"
    again = replace(request, rows_read=replace(read, snapshot=latest(table)))
    assert names(settled(table, again)) == []
    delete_rows(table, {"two": [0]})
    assert conflict(table, again) == "rows_read_changed"
    assert names(settled(table, replace(again, rows_read=None))) == [], "isolation snapshot"


def test_who_has_to_see_the_changes_of_others_gives_way_where_they_have_expired() -> None:
    table = created((), row_tracking__enabled="true")
    publish(table, "APPEND", [ONE])
    read = latest(table)
    publish(table, "APPEND", [TWO])
    publish(table, "APPEND", [entry("three", first_row_id=6)])
    base = base_of(table)
    table.store.delete_many([table.paths.snapshot(2)])
    requests = (
        RowChange("OVERWRITE", (), "us", rows_read=RowsRead(read, everything)),
        ColumnUpdate("APPEND", (entry("column", first_row_id=0),), "us", read_snapshot=read),
        CommitRequest("APPEND", (OURS,), "us", read_snapshot=read, keyed=KeyedRows(reads_keys=True)),
        CommitRequest("OVERWRITE", (OURS,), "us", read_snapshot=read, target=everything),
        Undoing("OVERWRITE", (ONE.deletion(),), "us", read_snapshot=read),
    )
    for request in requests:
        found = settler(table, request).settle(base, 4)
        assert isinstance(found, Conflict) and found.check == HISTORY_GONE, request


# ----------------------------------------------------------------------------------------------------------- index files


def index(name: str, kind: int = ADD) -> IndexEntry:
    return IndexEntry(kind, EMPTY_ROW, 0, IndexFile("HASH", name, 1, 1))


def test_the_index_manifest_is_kept_by_name_where_nothing_of_it_changes(table: Table) -> None:
    append = CommitRequest("APPEND", (OURS,), "us")
    assert settled(table, append).index_manifest is None
    publish(table, "APPEND", (), [index("i1")])
    name = latest(table).index_manifest
    assert name is not None
    for request in (
        append,
        CommitRequest("COMPACT", (ONE.deletion(),), "us"),
        replace(append, index_entries=(index("i1"),)),
    ):
        found = settled(table, request)
        assert (found.index_manifest, found.new_index_files) == (name, ())
    found = settled(table, replace(append, index_entries=(index("i2"),)))
    assert found.index_manifest != name
    assert [file.name for file in found.new_index_files] == [found.index_manifest]


def test_an_overwrite_takes_the_index_files_of_its_partitions_away_even_if_it_names_them(table: Table) -> None:
    publish(table, "APPEND", (), [index("i1")])
    request = CommitRequest("OVERWRITE", (OURS,), "us", target=everything, read_snapshot=latest(table))
    for asked in (request, replace(request, index_entries=(index("i1", DELETE),))):
        found = settled(table, asked)
        assert found.index_manifest not in (None, latest(table).index_manifest)
    nowhere = replace(request, target=lambda partition: False)
    assert settled(table, nowhere).index_manifest == latest(table).index_manifest
    assert [e.file.file_name for e in index_of(table)] == ["i1"]


# ------------------------------------------------------------------------------------------------------------- buckets


def test_rows_of_fixed_buckets_are_numbered_by_a_clock_above_what_their_base_says() -> None:
    """So others need not know them; nothing is read, and on a later base the same rows keep their numbers."""
    table = created((), bucket="1", bucket_key="v")
    table.append(pa.table({"part": ["x"] * 3, "v": [1, 2, 3]}))
    table.committer.settle()
    before = row_numbers(latest(table))
    assert before is not None
    store = MeteredStore(table.store)
    request = CommitRequest("APPEND", (entry("ours", 1),), "us", remarks=Remarks("WRITE"))
    made = reopened(table).committer._run(request, "u", store, rides=False, crowded=False).settler
    found, again = made.settle(base_of(table), 2), made.settle(base_of(table), 2)
    assert isinstance(found, Settled) and isinstance(again, Settled) and found.numbers is not None
    file = found.entries[0].file
    assert file.min_sequence_number > before.largest
    assert file.max_sequence_number == file.min_sequence_number + 4
    assert again.entries == found.entries
    assert found.numbers.writes == (Span(file.min_sequence_number, file.max_sequence_number),)
    assert (found.numbers.largest, found.numbers.buckets) == (file.max_sequence_number, 1)
    assert store.snapshot().requests == 0
    late = NUMBERS_MAX - 9
    said(table.store, 1, RowNumbers(late, 1).to_property())
    assert settled(table, request).entries[0].file.min_sequence_number == late + 1, "later than any clock"
    said(table.store, 1, before.to_property())
    assert conflict(table, replace(request, entries=(entry("ours", 2),))) == "another_bucket_count"


def test_rows_of_fixed_buckets_continue_the_numbers_of_a_silent_base_without_reading_own_manifests() -> None:
    table = created((), bucket="1", bucket_key="v")
    table.append(pa.table({"part": ["x"] * 3, "v": [1, 2, 3]}))
    without_numbers(table.store, 1)
    table = reopened(table)
    table.append(pa.table({"part": ["x"] * 2, "v": [4, 5]}))
    table.committer.settle()
    without_numbers(table.store, 2)
    store = MeteredStore(table.store)
    request = CommitRequest("APPEND", (entry("ours", 1),), "us")
    made = table.committer._run(request, "u", store, rides=False, crowded=False).settler
    found = made.settle(base_of(table), 3)
    assert isinstance(found, Settled)
    file = found.entries[0].file
    assert (file.min_sequence_number, file.max_sequence_number) == (5, 9)
    assert store.snapshot().requests == 0
    assert conflict(table, replace(request, entries=(entry("ours", 2),))) == "another_bucket_count"
    everything_new = CommitRequest(
        "OVERWRITE", (entry("ours", 2),), "us", target=everything, read_snapshot=latest(table)
    )
    assert len(settled(table, everything_new).entries) == 3, "what had another count goes"


@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("overwrites", [True, False])
def test_for_compacted_files_nothing_is_read_but_by_an_overwrite_of_a_table_with_keys(
    keys: bool, overwrites: bool
) -> None:
    """They keep their numbers. A reader looks for a key in one bucket, so a file that came beside the overwrite must agree."""
    table = Table(*opened_with(keys))
    for number in range(2):
        table.append(pa.table({"k": [number], "v": [1]}, KEYED))
    table.committer.settle()
    old, made = files(table), reopened(table)
    new = old[0]._replace(file=old[0].file._replace(file_name="new", file_source=SOURCE_COMPACT))
    request = CommitRequest("COMPACT", (*(e.deletion() for e in old), new), "us", read_snapshot=latest(table))
    if overwrites:
        request = CommitRequest("OVERWRITE", (new,), "us", target=everything, read_snapshot=latest(table))
    store = MeteredStore(table.store)
    run = made.committer._run(request, "u", store, rides=False, crowded=False)
    found = run.settler.settle(base_of(table), 3)
    assert isinstance(found, Settled)
    assert sorted(names(found)) == sorted([(ADD, "new"), *((DELETE, e.file.file_name) for e in old)])
    replaced = 2 if overwrites else 0
    assert store.snapshot().requests == replaced + (2 if keys and overwrites else 0)
    if not (keys and overwrites):
        return
    table.append(pa.table({"k": [5], "v": [1]}, KEYED))
    fewer = replace(request, entries=(new._replace(total_buckets=1),))
    found = settler(table, fewer).settle(base_of(table), 4)
    assert isinstance(found, Conflict) and found.check == "another_bucket_count"


def test_an_overwrite_of_a_table_with_keys_that_only_removes_files_reads_each_manifest_once() -> None:
    """There is no new file whose number of buckets had to be that of others."""
    table = Table(*opened_with(True))
    for number in range(2):
        table.append(pa.table({"k": [number], "v": [1]}, KEYED))
    table.committer.settle()
    request = CommitRequest("OVERWRITE", (), "us", target=everything, read_snapshot=latest(table))
    base, store = base_of(table), MeteredStore(table.store)
    run = reopened(table).committer._run(request, "u", store, rides=False, crowded=False)
    found = run.settler.settle(base, 3)
    assert isinstance(found, Settled) and len(found.entries) == 2
    assert store.snapshot().requests == len(base.manifests) == 2


def test_a_live_file_that_is_added_again_with_another_bucket_count_is_a_conflict() -> None:
    """Nothing deletes it: only files that the commit deletes may have had another count."""
    table, one = created((), bucket="1", bucket_key="v"), entry("one", 1)
    publish(table, "APPEND", [one])
    again = entry("one", 2)
    assert again.identity == one.identity
    assert conflict(table, CommitRequest("APPEND", (again,), "us")) == "another_bucket_count"
    moved = CommitRequest("COMPACT", (one.deletion(), entry("two", 2, file_source=SOURCE_COMPACT)), "us")
    assert names(settled(table, moved)) == [(DELETE, "one"), (ADD, "two")]
