"""What a commit's own view of its journal keeps, which entries have to be durable, and what a failure makes of the commit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import AlreadyThere, Created, PutOutcome, Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import (
    BoundJournal,
    Damage,
    Entry,
    MemoryJournal,
    address_of,
    is_address_of,
    line_of,
    read_lines,
)
from lakelatch.coordinator.journal.object_journal import ObjectJournal, open_journal
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.events import Event
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import Surroundings
from lakelatch.core.errors import LakelatchError, StoreUnavailable

PREPARED = ev.SnapshotPrepared(SnapshotRef(1, "a"), None, "{}")
REFUSED = ev.IntentRefused("403")
INTENT = ev.IntentPrepared(SnapshotRef(1, "a"), "intent", (), "{}")
ANOTHER = ev.FoundAnother(SnapshotRef(1, "b"), "they")
AGED, FAILED, OTHER = ev.BaseAged(), ev.UploadFailed("data", "refused"), ev.SnapshotPublished()


class Answering:
    """A journal that answers decisive entries as planned, and remembers what it was given."""

    def __init__(self, answer: PutOutcome | StoreUnavailable | None = None) -> None:
        self.answer = answer
        self.entries: list[Entry] = []
        self.decisive: list[bool] = []
        self.concluded: list[str] = []

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        self.entries.append(entry)
        self.decisive.append(decisive)
        if isinstance(self.answer, StoreUnavailable):
            raise self.answer
        return self.answer if decisive else None

    def conclude(self, commit: str) -> None:
        self.concluded.append(commit)
        raise LakelatchError("cannot be removed now")


@pytest.mark.parametrize(
    ("events", "decisive"),
    [
        ((OTHER, AGED, FAILED), (False, False, False)),
        ((PREPARED, OTHER, AGED), (True, False, True)),
        ((PREPARED, FAILED, FAILED), (True, True, False)),
        ((PREPARED, AGED, AGED), (True, True, False)),
        ((PREPARED, ANOTHER, AGED), (True, False, False)),
        ((PREPARED, AGED, PREPARED, AGED), (True, True, True, True)),
        ((INTENT, AGED), (True, False)),
        ((INTENT, REFUSED), (True, True)),
        ((PREPARED, INTENT, AGED), (True, True, False)),
    ],
)
def test_entries_that_decide_how_a_commit_can_end_are_claimed(
    events: tuple[Event, ...], decisive: tuple[bool, ...]
) -> None:
    """Each snapshot and each intent; giving one of them up, only while the journal holds it and others may still send it."""
    journal = Answering(Created())
    bound = BoundJournal(journal, "c", "/t")
    assert [bound.record(event) for event in events] == list(events)
    assert journal.decisive == list(decisive)


@pytest.mark.parametrize("event", [PREPARED, INTENT])
def test_a_claim_that_another_process_came_before_ends_the_commit(event: Event) -> None:
    assert BoundJournal(Answering(AlreadyThere()), "c", "/t").record(event) == ev.TakenOver()


@pytest.mark.parametrize("event", [PREPARED, INTENT])
def test_a_claim_without_an_answer_leaves_the_commit_unsure(event: Event) -> None:
    told = BoundJournal(Answering(Unknown("timeout")), "c", "/t").record(event)
    assert isinstance(told, ev.JournalUnsure) and "timeout" in told.reason


@pytest.mark.parametrize("event", [PREPARED, INTENT])
@pytest.mark.parametrize("kept", [Created(), None])
def test_a_claim_that_was_kept_counts(event: Event, kept: PutOutcome | None) -> None:
    assert BoundJournal(Answering(kept), "c", "/t").record(event) == event


@pytest.mark.parametrize("event", [PREPARED, INTENT])
def test_a_claim_that_was_refused_stops_the_commit(event: Event) -> None:
    told = BoundJournal(Answering(StoreUnavailable("the disk is full")), "c", "/t").record(event)
    assert told == ev.UploadFailed("journal", "the disk is full")


@pytest.mark.parametrize("event", [AGED, FAILED])
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (AlreadyThere(), "another process took this commit over"),
        (Unknown("timeout"), "timeout"),
        (StoreUnavailable("the disk is full"), "the disk is full"),
    ],
)
def test_a_snapshot_that_the_journal_holds_is_given_up_there_or_not_at_all(
    event: Event, answer: PutOutcome | StoreUnavailable, reason: str
) -> None:
    """G2: another process may find it, and send it."""
    journal = Answering(Created())
    bound = BoundJournal(journal, "c", "/t")
    bound.record(PREPARED)
    journal.answer = answer
    told = bound.record(event)
    assert isinstance(told, ev.JournalUnsure) and reason in told.reason


def test_a_journal_that_failed_keeps_nothing_more() -> None:
    """H17: what decides nothing costs no commit; the journal holds a prefix."""
    journal = Answering(StoreUnavailable("the disk is full"))
    bound = BoundJournal(journal, "c", "/t")
    assert bound.record(OTHER) == OTHER
    journal.answer = Created()
    assert bound.record(AGED) == AGED
    assert bound.record(PREPARED) == ev.UploadFailed("journal", "the disk is full")
    assert [entry.event for entry in journal.entries] == [OTHER]


def test_an_entry_says_where_and_when() -> None:
    journal = Answering()
    BoundJournal(journal, "c", "/t", Surroundings(wall_s=lambda: 12.5), "dev").record(OTHER)
    BoundJournal(journal, "d", "/u", Surroundings(wall_s=lambda: 13.0)).record(OTHER)
    assert journal.entries == [Entry("c", "/t", 12_500, OTHER, "dev"), Entry("d", "/u", 13_000, OTHER, "main")]


def test_entries_that_cannot_be_removed_cost_no_commit() -> None:
    journal = Answering()
    BoundJournal(journal, "c", "/t").conclude()
    assert journal.concluded == ["c"]


# ---------------------------------------------------------------------------------------------------------- in memory


def test_a_journal_in_memory_keeps_the_newest_entries() -> None:
    journal = MemoryJournal(limit=4)
    entries = [Entry("c", "/t", number, OTHER) for number in range(6)]
    for entry in entries[:4]:
        journal.record(entry)
    assert journal.entries() == entries[:4]
    journal.record(entries[4])
    assert journal.entries() == entries[2:5]
    journal.conclude("c")
    journal.record(entries[5])
    assert journal.entries() == entries[2:]


def test_a_journal_in_memory_keeps_ten_thousand_entries() -> None:
    journal = MemoryJournal()
    entry = Entry("c", "/t", 1, OTHER)
    for _ in range(10_000):
        journal.record(entry)
    assert len(journal.entries()) == 10_000
    journal.record(entry)
    assert len(journal.entries()) == 5_001


# ---------------------------------------------------------------------------------------------------------- its lines


def test_an_entry_is_read_as_it_was_written() -> None:
    entry = Entry("c", "s3://lake/t", 5, ev.PublishRefused(True), "dev")
    assert json.loads(line_of(entry)) == {
        "commit": "c",
        "table": "s3://lake/t",
        "branch": "dev",
        "at_ms": 5,
        "event": "PublishRefused",
        "earlier_send": True,
    }
    assert list(read_lines([line_of(entry)], "j")) == [entry]
    old = b'{"commit": "c", "table": "/t", "at_ms": 5, "event": "BaseAged"}'
    assert list(read_lines([old], "j")) == [Entry("c", "/t", 5, ev.BaseAged(), "main")], "before there were branches"


def test_a_table_is_named_so_that_a_reader_in_another_folder_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert address_of("s3://lake/../flights//") == "s3://lake/../flights"
    monkeypatch.setenv("HOME", str(tmp_path))
    for url in ("flights/", "x/../flights", "~/flights", f"file:{tmp_path}/flights", f"file://{tmp_path}/flights/"):
        assert address_of(url) == str(tmp_path / "flights"), url
        assert is_address_of(str(tmp_path / "flights"), address_of(url)), url
    assert is_address_of(f"file://{tmp_path}/flights", str(tmp_path / "flights")), "as older versions named it"
    for url in ("file://elsewhere/flights", "", "s3://lake/flights"):
        assert not is_address_of(url, str(tmp_path / "flights")), "a line of another table, or of none"


REQUESTED = ev.CommitRequested("me", 1, "APPEND", False)


@pytest.mark.parametrize(
    ("event", "name", "wrong"),
    [
        *((OTHER, name, wrong) for name in ("commit", "table", "branch") for wrong in (None, 5, ["x"], {"a": 1})),
        (OTHER, "at_ms", "5"),
        (OTHER, "event", ["x"]),
        (REQUESTED, "user", None),
        (REQUESTED, "identifier", "1"),
        (REQUESTED, "has_data", 1),
        (ANOTHER, "winner", None),
        (ANOTHER, "winner", 5),
        (ANOTHER, "winner", {"id": "1", "identity": "u"}),
        (ANOTHER, "winner", {"id": 1, "identity": None}),
        (PREPARED, "base", "x"),
        (PREPARED, "text", 5),
        (PREPARED, "names", "x"),
        (PREPARED, "names", [5]),
        (ev.RetryGranted(0), "wait_ms", True),
    ],
)
def test_a_line_with_a_value_of_another_type_is_damage(event: Event, name: str, wrong: Any) -> None:
    """No reader of a journal ends with a TypeError, whoever wrote into it."""
    line = json.dumps({**Entry("c", "/t", 5, event).to_json(), name: wrong}).encode()
    (found,) = read_lines([line], "j")
    assert isinstance(found, Damage)
    assert name == "event" or name in found.why


@pytest.mark.parametrize("missing", ["commit", "table", "at_ms", "event"])
def test_a_line_without_one_of_its_fields_is_damage(missing: str) -> None:
    raw = Entry("c", "/t", 5, OTHER).to_json()
    del raw[missing]
    (found,) = read_lines([json.dumps(raw).encode()], "j", "c")
    assert found == Damage("j: line 1", repr(KeyError(missing)), "c")
    assert str(found) == f"j: line 1 is not a journal entry: {KeyError(missing)!r}"


def test_a_line_is_dropped_wherever_it_was_cut_whatever_it_holds() -> None:
    """Texts with accents and quotes are written as escapes, which may be cut, too."""
    event = ev.CommitRequested('é"\\ \U0001f30a', 7, "APPEND", True, rides=False)
    line = line_of(Entry("c", "/t", 5, event))
    assert b"\\u00e9" in line and b"\\ud83c" in line
    for size in range(1, len(line)):
        assert list(read_lines([line[:size]], "j")) == [], line[:size]


@pytest.mark.parametrize(
    "line", [b'["cut', b"garbage", b'{"a": nothing, "b": 1}', b'{"a": 1} and more after it', b'{"a": "\xff"}']
)
def test_a_line_that_no_cut_explains_is_damage(line: bytes) -> None:
    (found,) = read_lines([b"", b"  ", line, b""], "j")
    assert isinstance(found, Damage) and found.where == "j: line 3" and found.commit is None


# ---------------------------------------------------------------------------------------------------------- which journal


def test_a_setting_names_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("memory://open-journal/t")
    own = MemoryJournal()
    assert open_journal(own, store) is own
    assert isinstance(open_journal("object", store), ObjectJournal)
    for setting in (tmp_path / "j", str(tmp_path / "j")):
        opened = open_journal(setting, store)
        assert isinstance(opened, FileJournal) and opened.path == tmp_path / "j"
    for value, kind in ((None, MemoryJournal), ("", MemoryJournal), ("object", ObjectJournal)):
        monkeypatch.delenv("LAKELATCH_JOURNAL", raising=False)
        if value is not None:
            monkeypatch.setenv("LAKELATCH_JOURNAL", value)
        assert isinstance(open_journal(None, store), kind)
        assert isinstance(open_journal("", store), kind)
        assert isinstance(open_journal(tmp_path / "j", store), FileJournal), "what the caller says comes first"
