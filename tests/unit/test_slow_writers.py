"""A writer that was merely slow, and others that finish its commit meanwhile: both journals, one protocol."""

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
from lakelatch.coordinator.file_journal import FileJournal
from lakelatch.coordinator.object_journal import FOLDER, ObjectJournal
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import OutcomeUnknown
from lakelatch.table.table import Table

MINE = pa.table({"v": [7]})


@pytest.fixture
def store() -> Fragile:
    return Fragile()


@pytest.fixture(params=["file", "object"])
def journal(request: pytest.FixtureRequest, store: Fragile, tmp_path: Path) -> Any:
    """Makes the journal of one process; each call is another process."""
    return lambda: FileJournal(tmp_path / "journal") if request.param == "file" else ObjectJournal(store)


def sleeping(table: Table, meanwhile: Callable[[], Any]) -> Table:
    """A table whose writer sleeps for a minute once its snapshot is in the journal, before it sends it."""
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


def test_a_writer_whose_base_aged_asks_who_finishes_its_snapshot(store: Fragile, journal: Any) -> None:
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


def test_a_snapshot_that_was_given_up_in_the_journal_is_sent_by_nobody(store: Fragile, journal: Any) -> None:
    """G2: the base expired before the first send; the writer says so in the journal, and dies before its next attempt."""
    opened(store).append(ROWS)

    def expired_meanwhile() -> None:
        other = opened(store)
        for _ in range(2):
            other.append(ROWS)
        expired(store, 1, 2)
        store.before["create snapshot/"] = die

    table = sleeping(opened(store, journal()), expired_meanwhile)
    with pytest.raises(Died):
        table.append(MINE)
    first, second = [e.event for e in journal().entries() if type(e.event).__name__ == "SnapshotPrepared"]
    assert (first.snapshot.id, second.snapshot.id) == (2, 4)
    commit = only(recovered(journal, store))
    assert (commit.outcome, commit.snapshot_id) == ("finished", 4)
    assert opened(store).to_arrow()["v"].to_pylist().count(7) == 1


def test_a_journal_is_kept_where_the_outcome_is_not_known(store: Fragile, journal: Any) -> None:
    """G1: nothing but the journal knows the bytes; it goes only once the caller was told how the commit ended."""
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
    """G5: another engine rolls the winner of a lost race back, so that the attempt that lost it can be finished after all."""
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
