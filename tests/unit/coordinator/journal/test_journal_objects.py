"""The objects of a journal beside the table: which of them are read, what a create without an answer means, who deletes them."""

from __future__ import annotations

import gc
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from at_each_request import Struck
from fragile import Fragile, names

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import AlreadyThere, Created, ObjectNotFound, PutOutcome, Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Entry, line_of
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.journal.shared_journal import OpenCommit
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.core.errors import StoreUnavailable

REQUESTED = ev.CommitRequested("me", None, "APPEND", False)


def prepared(number: int) -> ev.SnapshotPrepared:
    return ev.SnapshotPrepared(SnapshotRef(number, f"u{number}"), None, "{}")


def entry(event: Any, commit: str = "c", at_ms: int = 1) -> Entry:
    return Entry(commit, "/t", at_ms, event)


def claim(journal: Any, event: Any, commit: str = "c") -> PutOutcome | None:
    answer: PutOutcome | None = journal.record(entry(event, commit), decisive=True)
    return answer


@pytest.fixture
def store() -> Fragile:
    return Fragile()


# ------------------------------------------------------------------------------------------------- which are read


def test_the_newest_object_of_each_commit_is_read_in_the_order_of_their_names(store: Fragile) -> None:
    """Commit ids contain hyphens; what is no object of a journal is not looked at."""
    for commit, number in (("b-1-x", 1), ("b-1-x", 2), ("a-9", 1), ("late", 3), ("gap", 1), ("gap", 3)):
        line = line_of(entry(REQUESTED, commit, at_ms=number))
        store.put(f"{FOLDER}{commit}-{number}.jsonl", line)
    for name in ("late-2", "c-1", "c-x.jsonl", "-1.jsonl", "nothing.jsonl", "c-1.jsonl.tmp", "c-².jsonl", "c-01.jsonl"):
        store.put(FOLDER + name, b"garbage, and more of it")
    assert ObjectJournal(store).lines() == [
        entry(REQUESTED, "a-9", at_ms=1),
        entry(REQUESTED, "b-1-x", at_ms=2),
    ]


def test_a_commit_that_is_concluded_while_the_journal_is_read_hides_no_other(store: Fragile) -> None:
    for commit in "abc":
        claim(ObjectJournal(store), prepared(1), commit)

    def gone() -> None:
        raise ObjectNotFound("it was there a moment ago")

    store.before[f"get {FOLDER}b-1"] = gone
    assert [line.commit for line in ObjectJournal(store).lines()] == ["a", "c"]


# ------------------------------------------------------------------------------------------------- how they are created


def test_an_object_holds_everything_so_far(store: Fragile) -> None:
    journal = ObjectJournal(store)
    journal.record(entry(REQUESTED))
    assert names(store, FOLDER) == [], "it is kept with the next claim"
    assert claim(journal, prepared(1)) == Created()
    journal.record(entry(ev.SnapshotPublished()))
    assert claim(journal, prepared(2)) == Created()
    assert names(store, FOLDER) == [f"{FOLDER}c-1.jsonl", f"{FOLDER}c-2.jsonl"]
    events = [line.event for line in ObjectJournal(store).entries()]
    assert events == [REQUESTED, prepared(1), ev.SnapshotPublished(), prepared(2)]


@pytest.mark.parametrize("applied", [True, False])
def test_a_create_without_an_answer_is_read_back(store: Fragile, applied: bool) -> None:
    """H2: it holds our bytes, or is sent again; either way it is kept, and may arrive once more."""
    create = MemoryStore.put_if_absent

    def unheard() -> Unknown:
        if applied:
            create(store, f"{FOLDER}c-1.jsonl", line_of(entry(prepared(1))))
        return Unknown("no answer")

    journal = ObjectJournal(store)
    store.before[f"create {FOLDER}"] = unheard
    assert claim(journal, prepared(1)) == Created()
    journal.conclude("c")
    assert len(names(store, FOLDER)) == 1, "its name stays taken"


def test_a_refused_create_of_our_own_bytes_was_ours(store: Fragile) -> None:
    """H3: an earlier send of the same request had landed."""
    store.put(f"{FOLDER}c-1.jsonl", line_of(entry(prepared(1))))
    assert claim(ObjectJournal(store), prepared(1)) == Created()
    store.put(f"{FOLDER}d-1.jsonl", line_of(entry(prepared(9), "d")))
    assert claim(ObjectJournal(store), prepared(1), "d") == AlreadyThere()


def test_a_create_that_is_never_answered_is_given_up(store: Fragile) -> None:
    sends = list[str]()

    def silent(key: str, data: bytes) -> PutOutcome:
        sends.append(key)
        return Unknown("no answer")

    store.put_if_absent = silent  # type: ignore[method-assign]
    answer = claim(ObjectJournal(store), prepared(1))
    assert answer == Unknown(f"{FOLDER}c-1.jsonl neither exists nor was created")
    assert set(sends) == {f"{FOLDER}c-1.jsonl"} and len(sends) > 1


@pytest.mark.parametrize(
    ("second", "answer"),
    [
        (prepared(2), Created()),
        (ev.IntentPrepared(SnapshotRef(1, "a"), "intent", (), "{}"), Created()),
        (ev.BaseAged(), Unknown("an earlier entry of the journal may still arrive")),
        (ev.UploadFailed("data", "refused"), Unknown("an earlier entry of the journal may still arrive")),
    ],
)
def test_nothing_is_given_up_while_an_earlier_claim_may_arrive(
    store: Fragile, second: ev.Event, answer: PutOutcome
) -> None:
    """G2: another process may then find its snapshot. A new snapshot or intent comes after it in any case."""
    journal = ObjectJournal(store)
    store.before[f"create {FOLDER}"] = lambda: Unknown("no answer")
    assert claim(journal, prepared(1)) == Created()
    assert claim(journal, second) == answer
    assert claim(ObjectJournal(store), prepared(1), "other") == Created(), "another commit is not in doubt"


def test_an_answered_claim_lets_its_writer_give_up(store: Fragile) -> None:
    journal = ObjectJournal(store)
    assert [claim(journal, event) for event in (prepared(1), ev.BaseAged())] == [Created(), Created()]


# ------------------------------------------------------------------------------------------------- how they are taken over


def read(store: MemoryStore) -> tuple[ObjectJournal, list[Entry]]:
    journal = ObjectJournal(store)
    return journal, [line for line in journal.lines() if isinstance(line, Entry)]


def test_a_mark_stands_above_the_newest_object_and_an_outcome_replaces_it(store: Fragile) -> None:
    claim(ObjectJournal(store), prepared(1))
    journal, so_far = read(store)
    journal.add(so_far, ev.TakenOver(), 5)
    assert names(store, FOLDER) == [f"{FOLDER}c-1.jsonl", f"{FOLDER}c-2.jsonl"]
    journal, so_far = read(store)
    assert so_far[-1] == entry(ev.TakenOver(), at_ms=5)
    journal.add(so_far, ev.CommitResolved(None, "fenced", "a fork"), 6)
    assert names(store, FOLDER) == [f"{FOLDER}c-1.jsonl", f"{FOLDER}c-2.jsonl"]
    journal, so_far = read(store)
    assert [one.event for one in so_far] == [prepared(1), ev.TakenOver(), ev.CommitResolved(None, "fenced", "a fork")]


def test_a_mark_of_a_commit_that_was_concluded_meanwhile_goes_again(store: Fragile) -> None:
    """Alone it would make a later recovery report a commit whose caller has its answer."""
    claim(ObjectJournal(store), prepared(1))
    journal, so_far = read(store)
    store.delete_many([f"{FOLDER}c-1.jsonl"])
    journal.add(so_far, ev.TakenOver(), 5)
    assert names(store, FOLDER) == []


def test_an_entry_of_another_process_is_about_the_same_table_and_branch(store: Fragile, tmp_path: Path) -> None:
    for journal in (ObjectJournal(store), FileJournal(tmp_path / "j")):
        journal.record(Entry("c", "/t", 1, prepared(1), "dev"), decisive=True)
        so_far = journal.entries()
        journal.add(so_far, ev.TakenOver(), 5)
        assert journal.entries()[-1] == Entry("c", "/t", 5, ev.TakenOver(), "dev")


# ------------------------------------------------------------------------------------------------- how they go


def test_the_newest_object_goes_last() -> None:
    """G2: an older one alone would report less than was known."""
    store = Struck()
    journal = ObjectJournal(store)
    for number in (1, 2, 3):
        claim(journal, prepared(number))
    store.asked.clear()
    journal.conclude("c")
    first, second, last = (f"{FOLDER}c-{number}.jsonl" for number in (1, 2, 3))
    assert store.asked == [f"delete {first}, {second}", f"delete {last}"]
    store.asked.clear()
    journal.conclude("c")
    assert store.asked == [], "it is forgotten"


def test_a_process_that_only_read_a_commit_removes_all_its_objects(store: Fragile) -> None:
    writer = ObjectJournal(store)
    for number in (1, 2):
        claim(writer, prepared(number))
    claim(writer, prepared(1), "other")
    journal, _ = read(store)
    journal.conclude("c")
    assert names(store, FOLDER) == [f"{FOLDER}other-1.jsonl"]


def test_an_object_in_doubt_stays_with_all_that_happened(store: Fragile) -> None:
    """H9: its late send must find its name taken; a recovery finds there how it ended."""
    journal = ObjectJournal(store)
    assert claim(journal, prepared(1)) == Created()
    store.before[f"create {FOLDER}"] = lambda: Unknown("no answer")
    assert claim(journal, prepared(2)) == Created()
    journal.record(entry(ev.SnapshotPublished()))
    journal.conclude("c")
    assert [line.event for line in ObjectJournal(store).entries()] == [
        prepared(1),
        prepared(2),
        ev.SnapshotPublished(),
    ]


# ------------------------------------------------------------------------------------------------- a journal in a file


def test_marks_of_other_commits_take_nothing_over(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "j")
    journal.record(entry(REQUESTED))
    FileJournal(tmp_path / "j").record(entry(ev.TakenOver(), "another"))
    assert claim(journal, prepared(1)) == Created()
    FileJournal(tmp_path / "j").record(entry(REQUESTED))
    assert claim(journal, ev.BaseAged()) == Created(), "an entry of this commit that is no mark"


def test_a_mark_counts_though_a_line_before_it_is_damaged(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "j")
    journal.record(entry(REQUESTED))
    with (tmp_path / "j").open("ab") as file:
        file.write(b'\n{"commit": garbage, "event": "TakenOver"}\n' + line_of(entry(ev.TakenOver())) + b"\n")
    assert claim(journal, prepared(1)) == AlreadyThere()


@pytest.mark.parametrize("kind", ["file", "object"])
def test_every_claim_after_a_mark_that_was_seen_is_refused(store: Fragile, tmp_path: Path, kind: str) -> None:
    """G2: the commit belongs to others for good, however often its writer is asked what became of it."""

    def opened_again() -> Any:
        return FileJournal(tmp_path / "j") if kind == "file" else ObjectJournal(store)

    journal, other = opened_again(), opened_again()
    journal.record(entry(REQUESTED))
    assert claim(journal, prepared(1)) == Created()
    other.add([line for line in other.lines() if isinstance(line, Entry)], ev.TakenOver(), 1)
    for number in (2, 3):
        assert claim(journal, prepared(number)) == AlreadyThere()
    ours = [line.event for line in opened_again().entries()]
    assert ours.index(ev.TakenOver()) == 2
    assert prepared(3) not in ours


def test_a_concluded_commit_leaves_its_lines_in_the_file(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "deep" / "down" / "j")
    assert claim(journal, prepared(1)) == Created(), "though nothing was noted before it"
    journal.conclude("c")
    journal.conclude("never heard of")
    assert [line.event for line in journal.entries()] == [prepared(1)]


def test_concluded_commits_take_no_memory(store: Fragile, tmp_path: Path) -> None:
    """A process that writes for weeks makes millions of them."""

    earlier = [one for one in gc.get_objects() if isinstance(one, OpenCommit)]  # threads of earlier tests may still end

    def held() -> int:
        found = [one for one in gc.get_objects() if isinstance(one, OpenCommit)]
        return sum(all(one is not other for other in earlier) for one in found)

    journals = [FileJournal(tmp_path / "j"), ObjectJournal(store)]
    for journal in journals:
        claim(journal, prepared(1))
    assert held() == 2
    for journal in journals:
        journal.conclude("c")
    assert held() == 0


def test_a_journal_file_is_readable_for_others(tmp_path: Path) -> None:
    """Another user's recovery reads it."""
    before = os.umask(0o022)
    try:
        FileJournal(tmp_path / "j")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o644


def test_a_journal_file_that_cannot_be_written_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = FileJournal(tmp_path / "j")

    def broken(handle: int, data: bytes) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", broken)
    with pytest.raises(StoreUnavailable, match="j cannot be written: Input/output error"):
        journal.record(entry(REQUESTED))
