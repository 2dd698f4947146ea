"""A writer that was merely slow while other processes finish its commit: both journals, one protocol."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fragile import (
    ROWS,
    Died,
    Fragile,
    die,
    dying_in_the_second_attempt,
    names,
    only,
    opened,
    recovered,
    recovered_later,
    snapshots,
)

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import Unknown
from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import OutcomeUnknown, StoreUnavailable
from lakelatch.table.table import Table

MINE = pa.table({"v": [7]})


@pytest.fixture
def store() -> Fragile:
    return Fragile()


@pytest.fixture(params=["file", "object"])
def journal(request: pytest.FixtureRequest, store: Fragile, tmp_path: Path) -> Any:
    """Opens the journal as one process; each call is another process."""
    return lambda: FileJournal(tmp_path / "journal") if request.param == "file" else ObjectJournal(store)


def sleeping(table: Table, meanwhile: Callable[[], Any]) -> Table:
    """A table whose writer sleeps for a minute after its snapshot is in the journal, before it sends it."""
    slept = [0.0]
    kept = table.committer.journal
    record = kept.record

    def recorded(entry: Any, decisive: bool = False) -> Any:
        answer = record(entry, decisive)
        if type(entry.event).__name__ == "SnapshotPrepared" and not slept[0]:
            slept[0] = 60.0
            meanwhile()
        return answer

    kept.record = recorded  # type: ignore[method-assign]
    table.committer._around = replace(MACHINE, monotonic_s=lambda: time.monotonic() + slept[0])
    return table


def expired(store: Fragile, *ids: int) -> None:
    store.delete_many([f"snapshot/snapshot-{number}" for number in ids])


def test_a_writer_whose_base_aged_checks_who_finishes_its_snapshot(store: Fragile, journal: Any) -> None:
    """G2, G3: its snapshot was finished and its base expired; another attempt would add its rows a second time."""
    opened(store).append(ROWS)

    def finished_meanwhile() -> None:
        assert only(recovered_later(journal, store)).outcome == "finished"
        opened(store).append(ROWS)
        expired(store, 1)

    with pytest.raises(OutcomeUnknown) as unknown:
        sleeping(opened(store, journal()), finished_meanwhile).append(MINE)
    assert unknown.value.resolve(5).snapshot_id == 2
    assert opened(store).to_arrow()["v"].to_pylist().count(7) == 1
    assert snapshots(store) == [2, 3]


def gone_on(store: Fragile) -> Callable[[], None]:
    """Other writers commit three times, and all but their last snapshot expire."""

    def went_on() -> None:
        other = opened(store)
        for _ in range(3):
            other.append(ROWS)
        expired(store, 1, 2, 3)

    return went_on


def test_a_snapshot_given_up_in_the_journal_is_never_sent(store: Fragile, journal: Any) -> None:
    """G2: the base expired before the first send; the writer records that in the journal, and dies before its next attempt."""
    opened(store).append(ROWS)

    def meanwhile() -> None:
        gone_on(store)()
        store.before["get snapshot/snapshot-4"] = die

    with pytest.raises(Died):
        sleeping(opened(store, journal()), meanwhile).append(MINE)
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("not landed", None)
    assert snapshots(store) == [4]


def test_resolving_ignores_snapshots_that_were_given_up(store: Fragile, journal: Any) -> None:
    """It was never sent, so a name that can no longer be looked up does not keep the caller from an answer."""
    opened(store).append(ROWS)
    create, left = MemoryStore.put_if_absent, [Unknown("no answer")] * 3
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        left.pop() if key == "snapshot/snapshot-5" and left else create(store, key, data)
    )
    with pytest.raises(OutcomeUnknown) as unknown:
        sleeping(opened(store, journal()), gone_on(store)).append(MINE)
    assert unknown.value.resolve(5).snapshot_id == 5


def test_a_journal_is_kept_where_the_outcome_is_not_known(store: Fragile, journal: Any) -> None:
    """G1: only the journal knows the bytes; it is removed only after the caller got the outcome."""
    opened(store).append(ROWS)
    create = MemoryStore.put_if_absent
    store.put_if_absent = lambda key, data: (  # type: ignore[method-assign]
        Unknown("no answer") if key == "snapshot/snapshot-2" else create(store, key, data)
    )
    table = opened(store, journal())
    with pytest.raises(OutcomeUnknown):
        table.append(MINE)
    table.committer.settle()
    del store.put_if_absent  # type: ignore[method-assign]
    assert only(recovered(journal, store)).outcome == "finished"
    assert opened(store).to_arrow()["v"].to_pylist() == [1, 7]
    assert names(store, FOLDER) == []


def test_an_attempt_that_recovery_finished_keeps_its_files(store: Fragile, journal: Any) -> None:
    """G5: another engine rolls back the winner of a lost race, so that the attempt that lost it can still be finished."""
    opened(store).append(ROWS)
    table = opened(store, journal())
    dying_in_the_second_attempt(table)
    store.before["create snapshot/snapshot-2"] = lambda: opened(store).append(ROWS) and None
    with pytest.raises(Died):
        table.append(MINE)
    expired(store, 2)
    store.put("snapshot/LATEST", b"1")
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.cleaned) == ("finished", ())
    assert opened(store).to_arrow()["v"].to_pylist() == [1, 7]
    assert not [f for f in opened(store).verify("all") if f.severity == "error"]


def test_a_journal_object_that_arrives_late_brings_nothing_back_that_was_given_up(store: Fragile) -> None:
    """G2, H9: an object's answer was lost, and its duplicate arrives after the journal was removed."""
    opened(store).append(ROWS)
    create, late = MemoryStore.put_if_absent, list[tuple[str, bytes]]()

    def unheard(key: str, data: bytes) -> Any:
        if key.startswith("snapshot/snapshot-"):
            raise StoreUnavailable("access denied")
        answer = create(store, key, data)
        if key.startswith(FOLDER) and not late:
            late.append((key, data))
            return Unknown("no answer")
        return answer

    store.put_if_absent = unheard  # type: ignore[method-assign]
    table = opened(store, ObjectJournal(store))
    with pytest.raises((OutcomeUnknown, StoreUnavailable)) as told:
        table.append(MINE)
    table.committer.settle()
    del store.put_if_absent  # type: ignore[method-assign]
    for key, data in late:
        store.put_if_absent(key, data)
    outcomes = [c.outcome for c in recovered(lambda: ObjectJournal(store), store).commits]
    landed = opened(store).to_arrow()["v"].to_pylist().count(7) == 1
    assert landed == ("finished" in outcomes)
    assert isinstance(told.value, OutcomeUnknown) or not landed


def test_nothing_is_recorded_for_a_commit_whose_outcome_the_journal_knows(store: Fragile, tmp_path: Path) -> None:
    """A journal file that is recovered every minute does not grow because of that."""
    writer = opened(store, FileJournal(tmp_path / "journal"))
    writer.append(MINE)
    writer.committer.settle()  # the hint is written, and recorded, after `append` has answered
    journal = FileJournal(tmp_path / "journal")
    before = journal.lines()
    commit = only(recovered(lambda: journal, store))
    assert (commit.outcome, commit.known) == ("landed", True)
    assert journal.lines() == before
