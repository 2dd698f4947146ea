"""Journals: their cost, what they keep through a crash, and where they are looked for."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path
from typing import Any

import pytest
from fragile import ROWS, Died, Fragile, die, names, only, opened, recovered, snapshots
from histories import expire as expire_all

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore, StoreRequest
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.refusals import DeletionRefused
from lakelatch.backends.store import AlreadyThere, Created, PutOutcome, Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import BoundJournal, Entry, line_of, read_journal
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.core.errors import InvalidArgument, OutcomeUnknown, StoreUnavailable, TableCorrupt, TableNotFound
from lakelatch.table.table import Table


@pytest.fixture
def store() -> Fragile:
    return Fragile()


def test_a_journal_beside_the_table_costs_one_round_trip_and_stays_while_it_matters(store: Fragile) -> None:
    """architecture §3: nothing is written before a snapshot is to be sent; nothing stays after the caller got its answer."""
    table = opened(store, "object")
    table.append(ROWS)
    seen: list[list[str]] = []
    store.before["create snapshot/snapshot-2"] = lambda: seen.append(names(store, FOLDER))
    receipt = table.append(ROWS)
    table.committer.settle()
    assert [len(s) for s in seen] == [1]
    assert names(store, FOLDER) == []
    assert receipt.requests == 7, "the journal's own are not the commit's"


@pytest.mark.parametrize("beaten", [False, True])
def test_an_object_whose_deletion_is_refused_tells_how_its_commit_ended(store: Fragile, beaten: bool) -> None:
    """Also when its snapshot has expired, which else would have to tell."""
    table, other = opened(store, "object"), opened(store)
    other.append(ROWS)
    if beaten:
        store.before["create snapshot/snapshot-2"] = lambda: other.append(ROWS) and None
    delete = store.delete_many

    def refuses(keys: Any) -> None:
        asked = list(keys)
        held = {key: "a legal hold" for key in asked if key.startswith(FOLDER)}
        delete([key for key in asked if key not in held])
        if held:
            raise DeletionRefused(held)

    store.delete_many = refuses  # type: ignore[method-assign]
    receipt = table.append(ROWS)
    table.committer.settle()
    for _ in range(3):
        other.append(ROWS)
    expire_all(store)
    assert snapshots(store) == [receipt.snapshot_id + 3]
    found = only(recovered(lambda: ObjectJournal(store), store))
    assert (found.outcome, found.snapshot_id) == ("landed", receipt.snapshot_id)
    assert names(store, FOLDER) != []
    store.delete_many = delete  # type: ignore[method-assign]
    assert only(recovered(lambda: ObjectJournal(store), store)).outcome == "landed"
    assert names(store, FOLDER) == []


def test_a_journal_that_cannot_be_written_stops_a_commit_before_it_is_sent(store: Fragile, tmp_path: Path) -> None:
    """If recovery was asked for, a snapshot that cannot be recorded is not sent."""

    def refused() -> None:
        raise StoreUnavailable("access denied")

    store.before[f"create {FOLDER}"] = refused
    with pytest.raises(StoreUnavailable, match="journal"):
        opened(store, "object").append(ROWS)
    assert snapshots(store) == []
    full = FileJournal("/dev/full")
    with pytest.raises(StoreUnavailable, match="/dev/full"):
        opened(store, full).append(ROWS)
    assert snapshots(store) == []


def test_a_journal_object_without_an_answer_is_an_unknown_outcome(store: Fragile) -> None:
    """G2: it may exist, and any process that finds it sends its snapshot, so it is never reported as "not committed"."""
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        Unknown("no answer") if key.startswith(FOLDER) else MemoryStore.put_if_absent(store, key, data)
    )
    with pytest.raises(OutcomeUnknown, match="journal"):
        opened(store, "object").append(ROWS)


def test_a_line_that_a_kill_cut_off_is_dropped_wherever_it_stands(tmp_path: Path) -> None:
    """A shared journal goes on after one of its processes was killed in the middle of a line; damage is reported by line."""
    path = tmp_path / "journal"
    whole = Entry("a", "/t", 1, ev.CommitRequested("me", None, "APPEND", False))
    FileJournal(path).record(whole)
    text = path.read_bytes().strip()
    for cut in range(1, len(text)):
        path.write_bytes(text[:cut])
        FileJournal(path).record(whole)
        assert list(read_journal(path)) == [whole], text[:cut]
    path.write_bytes(b'{"commit": garbage}\n')
    with pytest.raises(TableCorrupt, match=r"journal: line 1 "):
        list(read_journal(path))


def test_a_bound_journal_keeps_a_prefix(tmp_path: Path) -> None:
    """No entry follows one that was not kept; a journal's failure does not fail a commit that was sent (H17)."""

    class Full(FileJournal):
        def record(self, entry: Entry, decisive: bool = False) -> Any:
            if isinstance(entry.event, ev.SnapshotPublished):
                raise StoreUnavailable("the disk is full")
            return super().record(entry, decisive)

    journal = Full(tmp_path / "journal")
    bound = BoundJournal(journal, "c", "/t")
    for event in (ev.BaseAged(), ev.SnapshotPublished(), ev.LineageVerified()):
        assert bound.record(event) == event
    assert [type(e.event) for e in journal.entries()] == [ev.BaseAged]


def test_where_a_journal_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table's URL finds the journal file that the table names; a path is a journal; a missing one is an error."""
    path, url = tmp_path / "j.jsonl", tmp_path / "t"
    table = ll.create_table(str(url), ROWS.schema, options={"commit.journal": str(path)})
    with pytest.raises(InvalidArgument, match=r"option 'commit.journal' .* was not allowed for this table"):
        table.append(ROWS)
    assert not path.exists()
    ll.allow(url, path)
    table.append(ROWS, commit_user="etl", identifier=1)
    elsewhere = ll.create_table(str(tmp_path / "u"), ROWS.schema, journal=str(path))
    elsewhere.append(ROWS)
    assert [c.identifier for c in ll.recover(url).commits] == [1]
    assert [c.outcome for c in ll.recover(path).commits] == ["landed", "landed"]
    assert str(ll.recover(url)).startswith("landed")
    with pytest.raises(TableNotFound, match="neither a table nor a journal"):
        ll.recover(tmp_path / "nothing")
    monkeypatch.setenv("LAKELATCH_JOURNAL", "object")
    assert isinstance(ll.create_table(str(tmp_path / "v"), ROWS.schema).committer.journal, ObjectJournal)


def test_branches_are_recovered_on_their_branch(store: Fragile, tmp_path: Path) -> None:
    """The journal names the branch, whose snapshots lie in another folder."""
    schema = opened(store).schema
    store.put_if_absent("branch/branch-dev/schema/schema-0", schema.to_json())
    store.before["create branch/branch-dev/snapshot/snapshot-1"] = die
    with pytest.raises(Died):
        Table(store, schema, branch="dev", journal=str(tmp_path / "j")).append(ROWS)
    assert only(recovered(lambda: FileJournal(tmp_path / "j"), store)).outcome == "finished"
    assert snapshots(store) == []
    assert Table(store, schema, branch="dev").to_arrow().num_rows == 1


def test_an_object_whose_create_had_no_answer_stays_when_its_commit_ends(store: Fragile) -> None:
    """The request may arrive once more, after a deletion: then a recovery would find a commit that never ended."""
    create, unanswered = store.put_if_absent, [True]

    def landed_without_an_answer(key: str, data: bytes) -> PutOutcome:
        outcome = create(key, data)
        return Unknown("no answer") if key.startswith(FOLDER) and unanswered and unanswered.pop() else outcome

    store.put_if_absent = landed_without_an_answer  # type: ignore[method-assign]
    table = opened(store, "object")
    assert table.append(ROWS).snapshot_id == 1
    table.committer.settle()
    (left,) = names(store, FOLDER)
    assert b"LineageVerified" in store.get(left), "all that happened is in it"
    assert only(recovered(lambda: ObjectJournal(store), store)).outcome == "landed"
    store.put_if_absent = create  # type: ignore[method-assign]
    answered = opened(store, "object")
    answered.append(ROWS)
    answered.committer.settle()
    assert names(store, FOLDER) in ([], [left]), "an object whose create was answered goes"


def prepared(number: int) -> ev.SnapshotPrepared:
    return ev.SnapshotPrepared(ev.SnapshotRef(number, f"uuid-{number}"), None, "{}")


def test_the_objects_of_a_commit_that_was_taken_over_are_left_to_the_other_process(store: Fragile) -> None:
    """The process that took it over says there how it ended, and a later recovery must find that."""
    writer, other = ObjectJournal(store), ObjectJournal(store)
    requested = Entry("c", "/t", 1, ev.CommitRequested("me", None, "APPEND", False))
    writer.record(requested)
    assert isinstance(writer.record(Entry("c", "/t", 2, prepared(1)), decisive=True), Created)
    other.add([e for e in other.lines() if isinstance(e, Entry)], ev.TakenOver(), 3)
    kept = names(store, FOLDER)
    assert isinstance(writer.record(Entry("c", "/t", 4, prepared(2)), decisive=True), AlreadyThere)
    writer.conclude("c")
    assert set(kept) <= set(names(store, FOLDER))
    assert ev.TakenOver() in [entry.event for entry in ObjectJournal(store).entries()]


def test_a_commit_that_claimed_nothing_is_concluded_without_a_request(store: Fragile) -> None:
    asked: list[StoreRequest] = []
    journal = ObjectJournal(MeteredStore(store, asked.append))
    journal.record(Entry("c", "/t", 1, ev.CommitRequested("me", None, "APPEND", False)))
    journal.conclude("c")
    journal.conclude("another")
    assert asked == []


def test_a_journal_object_that_cannot_be_read_back_is_in_doubt(store: Fragile) -> None:
    """H2: the create had no answer, and then the store does not answer at all: no error, and no claim that it was kept."""

    def unreachable() -> None:
        raise StoreUnavailable("connection refused")

    journal, key = ObjectJournal(store), f"{FOLDER}c-1.jsonl"
    store.before = {f"create {key}": lambda: Unknown("no answer"), f"get {key}": unreachable}
    answer = journal.record(Entry("c", "/t", 1, prepared(1)), decisive=True)
    assert isinstance(answer, Unknown)
    assert "connection refused" in answer.reason


def test_a_journal_file_is_closed_with_its_journal(tmp_path: Path) -> None:
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    for number in range(20):
        FileJournal(tmp_path / f"j{number}")
    gc.collect()
    assert len(list(open_files.iterdir())) <= before


def test_a_journal_file_that_cannot_be_made_durable_leaves_the_claim_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line may be on the disk or not: only a reader will know."""
    journal = FileJournal(tmp_path / "j")

    def broken(handle: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    answer = journal.record(Entry("c", "/t", 1, prepared(1)), decisive=True)
    assert isinstance(answer, Unknown)
    assert "Input/output error" in answer.reason
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StoreUnavailable, match="j cannot be written"):
        journal.add(journal.entries(), ev.TakenOver(), 2)


def test_a_journal_file_whose_lines_were_put_in_another_order_is_in_doubt(tmp_path: Path) -> None:
    """Something else wrote the file: where the newest line comes before an older one, nothing shows who came first."""
    path = tmp_path / "j"
    journal = FileJournal(path)
    for number in (1, 2):
        assert isinstance(journal.record(Entry("c", "/t", number, prepared(number)), decisive=True), Created)
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    third = Entry("c", "/t", 3, prepared(3))
    path.write_bytes(b"\n" + lines[0] + b"\n\n" + line_of(third) + b"\n\n" + lines[1] + b"\n")
    appended = journal._append
    journal._append = lambda line: None  # type: ignore[method-assign]  # it stands in the file already, in the wrong place
    assert isinstance(journal.record(third, decisive=True), Unknown)
    journal._append = appended  # type: ignore[method-assign]
