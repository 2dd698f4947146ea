"""A journal file that several processes share: its writer and its readers apply the same rule to every line."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from fragile import ROWS, Fragile, only, opened, recovered, recovered_later, snapshots
from full_disk import Filling, length_of, room_for

from lakelatch.backends.store import AlreadyThere, Created, Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import BoundJournal, Entry, read_journal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.core.errors import CommitConflict, OutcomeUnknown, StoreUnavailable

REQUESTED = ev.CommitRequested("me", None, "APPEND", False)
PREPARED = ev.SnapshotPrepared(ev.SnapshotRef(1, "a"), None, "{}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


def entry(event: ev.Event, commit: str = "c") -> Entry:
    return Entry(commit, "/t", 1, event)


def test_writer_and_reader_agree_on_a_line_however_much_of_it_was_written(path: Path) -> None:
    """G2: the disk is full after each byte of a line; either the entry was kept, or it will never be read."""
    wanted = entry(PREPARED)
    kept = []
    for size in range(length_of(wanted) + 1):
        path.unlink(missing_ok=True)
        journal = FileJournal(path)
        journal.record(entry(REQUESTED))
        try:
            with room_for(path, size):
                kept.append(isinstance(journal.record(wanted, decisive=True), Created))
        except StoreUnavailable:
            kept.append(False)
        FileJournal(path).record(entry(REQUESTED, "another"))
        assert (wanted in read_journal(path)) == kept[-1], f"room for {size} bytes"
    assert kept == [False] * (len(kept) - 2) + [True] * 2, "only the newline after an entry may be missing"


@pytest.mark.parametrize("size", [0, 1, 2, 200, -3, -2, -1])
def test_caller_and_recovery_agree_however_much_of_a_prepared_snapshot_was_written(
    path: Path, tmp_path: Path, size: int
) -> None:
    """G2: reported as "not committed" because the journal is full, and no entry in it can be sent later."""
    store = Fragile()
    opened(store).append(ROWS)
    try:
        landed = opened(store, Filling(path, "SnapshotPrepared", size)).append(ROWS).snapshot_id == 2
    except StoreUnavailable:
        landed = False
    assert landed == (size == -1)
    found = only(recovered(lambda: FileJournal(path), store)).outcome
    assert found == ("landed" if landed else "not landed")
    assert snapshots(store) == ([1, 2] if landed else [1])


@pytest.mark.parametrize("size", [0, 1, 40, -3, -2, -1])
def test_a_truncated_mark_takes_no_commit_over(path: Path, size: int) -> None:
    """G2: the disk is full while a commit is taken over; the slow writer and a later recovery agree whether it was."""
    store = Fragile()
    opened(store).append(ROWS)

    def meanwhile() -> None:
        opened(store).append(ROWS)
        only(recovered_later(lambda: Filling(path, "TakenOver", size), store))

    store.before["create snapshot/snapshot-2"] = meanwhile
    journal = FileJournal(path)
    if size == -1:
        with pytest.raises(CommitConflict, match="took this commit over"):
            opened(store, journal).append(ROWS)
    else:
        assert opened(store, journal).append(ROWS).snapshot_id == 3
    assert only(recovered(lambda: FileJournal(path), store)).outcome == ("not landed" if size == -1 else "landed")
    assert snapshots(store) == ([1, 2] if size == -1 else [1, 2, 3])


def test_a_disk_that_is_full_while_a_commit_is_taken_over_leaves_it_unknown(path: Path) -> None:
    """Nothing is sent for a commit that was not taken over; the answer gives the reason, and other commits are reported."""
    store = Fragile()
    writer = FileJournal(path)
    for commit in ("one", "two"):
        writer.record(entry(REQUESTED, commit))
    full = Filling(path, "TakenOver", 0)
    commits = recovered(lambda: full, store).commits
    assert [c.outcome for c in commits] == ["unknown", "unknown"]
    assert all("cannot be written" in c.reason for c in commits)
    assert [c.outcome for c in recovered(lambda: FileJournal(path), store).commits] == ["not landed"] * 2


def test_a_mark_between_a_line_and_the_look_at_it_is_found_by_the_next_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G2: a commit is taken over just after its writer's line was written, before the writer checks who came first."""
    writer, real = FileJournal(path), os.fsync

    def taken_over_meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", real)
        FileJournal(path).record(entry(ev.TakenOver()), decisive=True)
        real(handle)

    writer.record(entry(REQUESTED))
    monkeypatch.setattr(os, "fsync", taken_over_meanwhile)
    assert writer.record(entry(PREPARED), decisive=True) == Created(), "its line was first"
    assert writer.record(entry(ev.BaseAged()), decisive=True) == AlreadyThere()


def test_a_truncated_journal_does_not_show_who_came_first(path: Path) -> None:
    """A log rotation that truncates the file may have removed the mark."""
    for emptied in (0, 30):
        path.unlink(missing_ok=True)
        journal = FileJournal(path)
        for commit in ("c", "d"):
            journal.record(entry(REQUESTED, commit))
        os.truncate(path, emptied)
        assert isinstance(journal.record(entry(PREPARED), decisive=True), Unknown)


def test_a_damaged_line_before_its_own_does_not_show_a_writer_who_came_first(path: Path) -> None:
    """It may have been the mark of a process that took the commit over."""
    journal = FileJournal(path)
    journal.record(entry(REQUESTED))
    with path.open("ab") as file:
        file.write(b'\n{"commit": "c", garbage, "event": "Taken\n')
    assert isinstance(journal.record(entry(PREPARED), decisive=True), Unknown)


def test_a_failed_fsync_is_an_unknown_outcome(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: a recovery may read the line, so no caller gets "not committed"."""
    store = Fragile()

    def failing(handle: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OutcomeUnknown, match="Input/output error"):
        opened(store, FileJournal(path)).append(ROWS)
    monkeypatch.undo()
    assert only(recovered(lambda: FileJournal(path), store)).outcome == "finished"


def test_no_entry_follows_one_that_was_not_written(path: Path) -> None:
    """A journal holds a prefix of a commit's events, even when the disk has room again."""
    bound = BoundJournal(Filling(path, "LatestResolved", 7), "c", "/t")
    events: list[Any] = [REQUESTED, ev.LatestResolved(None, "a", 0), ev.ChangesCollected(1, 0), PREPARED]
    counts = [bound.record(event) for event in events]
    assert counts[:3] == events[:3], "a journal costs no commit before its end hangs on it"
    assert isinstance(counts[3], ev.UploadFailed)
    assert [e.event for e in FileJournal(path).entries()] == [REQUESTED]


def test_what_another_process_adds_names_the_table_and_branch_of_the_newest_entry(path: Path) -> None:
    """Should the entries of one commit ever differ in it, what was said last counts."""
    older, newer = Entry("c", "file:///t", 1, REQUESTED), Entry("c", "/t", 2, PREPARED, "dev")
    FileJournal(path).add([older, newer], ev.TakenOver(), 7)
    assert list(read_journal(path)) == [Entry("c", "/t", 7, ev.TakenOver(), "dev")]


def test_a_damaged_line_from_before_a_commit_began_is_no_matter_to_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes it just as the commit's first line is about to be written: it cannot be this commit's mark."""
    journal, real = FileJournal(path), os.fstat

    def damaged_meanwhile(handle: int) -> os.stat_result:
        monkeypatch.setattr(os, "fstat", real)
        found = real(handle)
        with path.open("ab") as file:
            file.write(b'\n{"commit": "another", garbage}\n')
        return found

    monkeypatch.setattr(os, "fstat", damaged_meanwhile)
    journal.record(entry(REQUESTED))
    assert path.read_bytes().startswith(b'\n{"commit": "another", garbage}\n')
    assert journal.record(entry(PREPARED), decisive=True) == Created()


def test_a_journal_that_could_not_be_opened_has_nothing_to_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)
    with pytest.raises(IsADirectoryError):
        FileJournal(tmp_path)
    gc.collect()
    assert not ignored
