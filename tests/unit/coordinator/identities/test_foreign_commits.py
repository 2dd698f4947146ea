"""Exactly once beside other writers, whose snapshots remember no identity (G3)."""

from __future__ import annotations

from typing import Any

import pytest
from identities import (
    FOLDER,
    commit,
    expire,
    foreign,
    gets,
    new_store,
    opened,
    published,
    ref,
    top,
)

from lakelatch.coordinator.identities.memory import Memory
from lakelatch.coordinator.identities.pages import Page
from lakelatch.coordinator.identities.recall import Known, recall
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.core.errors import StoreUnavailable


def test_a_memory_that_did_not_reach_the_beginning_is_incomplete() -> None:
    """A commit without identity walks past a few snapshots of other writers only. Later look-ups must look below them."""
    store = new_store()
    table = opened(store)
    foreign(table, "flink", 3)
    for _ in range(40):
        foreign(table, "other")
    commit(opened(store), "batch")
    assert commit(opened(store), "flink", 3) == (2, True)


def test_a_commit_without_identity_reads_few_foreign_snapshots() -> None:
    store = new_store()
    table = opened(store)
    for _ in range(60):
        foreign(table, "other", 3)
    before = gets(store, opened(store), "batch")
    for _ in range(60):
        foreign(table, "other", 3)
    assert before <= 30
    assert gets(store, opened(store), "batch") <= 30


@pytest.mark.parametrize(("others", "read"), [(1, 1), (2, 3), (4, 7)])
def test_a_walk_to_our_newest_snapshot_begins_with_one_read(others: int, read: int) -> None:
    """It is usually the one below the base. Each further step of the walk reads more at once than the one before."""
    table = opened(new_store())
    for _ in range(10):
        commit(table, "ours")
    for _ in range(others):
        foreign(table, "other")
    base = top(table)
    table.store.reset()  # type: ignore[attr-defined]
    recall(None, base, opened(table.store).timeline)
    assert table.store.snapshot().by_operation["get"] == read  # type: ignore[attr-defined]


def test_a_walk_to_the_beginning_of_history_is_made_once() -> None:
    store = new_store()
    table = opened(store)
    foreign(table, "flink", 3)
    for _ in range(40):
        foreign(table, "other")
    expire(table, keep=30)
    assert commit(opened(store), "etl", 1)[1] is False
    for number in range(5):
        without = gets(store, opened(store), "batch")
        assert gets(store, opened(store), f"new-{number}", 1) <= without


def test_foreign_identities_are_found_and_carried() -> None:
    store = new_store()
    table = opened(store)
    commit(table, "etl", 1)
    foreign(table, "flink", 5)
    foreign(table, "flink", 6)
    assert commit(opened(store), "flink", 6) == (3, True)
    commit(table, "etl", 2)
    expire(table, keep=1)
    assert commit(opened(store), "flink", 6) == (3, True)
    assert commit(opened(store), "etl", 2) == (4, True)


def test_a_long_foreign_history_is_read_once_however_often_the_base_ages() -> None:
    """The walk may take longer than a base may age: its results are kept, so that the next look needs no walk."""
    store = new_store()
    table = opened(store)
    for _ in range(100):
        foreign(table, "other", 4)
    fresh = opened(store)
    store.reset()
    assert fresh.committer.lookup("etl", 1) is None
    first = store.snapshot().by_operation["get"]
    foreign(table, "other", 5)
    store.reset()
    assert fresh.committer.lookup("etl", 1) is None
    assert first >= 100
    assert store.snapshot().by_operation["get"] <= 4


def test_an_interrupted_walk_is_continued(monkeypatch: pytest.MonkeyPatch) -> None:
    """H24: snapshots that were read before the store failed, or time ran out, are not read again."""
    table, known = opened(new_store()), Known()
    for _ in range(100):
        foreign(table, "other", 4)
    base, read, find = top(table), [], table.timeline.find

    def failing(snapshot_id: int) -> Any:
        if snapshot_id < 50:
            raise StoreUnavailable("away")
        read.append(snapshot_id)
        return find(snapshot_id)

    with monkeypatch.context() as away:
        away.setattr(table.timeline, "find", failing)
        with pytest.raises(StoreUnavailable):
            recall("etl", base, table.timeline, known)
    table.store.reset()  # type: ignore[attr-defined]
    assert recall("etl", base, table.timeline, known).memory.complete
    assert len(read) > 40
    assert table.store.snapshot().by_operation["get"] <= 75  # type: ignore[attr-defined]


def test_a_snapshot_below_a_memory_is_older_than_it() -> None:
    """Read in one batch with the memory, it still counts less than the memory's page."""
    store = new_store()
    table = opened(store)
    foreign(table, "flink", 5)
    store.put(FOLDER + "identities-page-1", Page({"flink": Trace.of(6, ref(9))}).to_bytes())
    published(table, Memory(page="identities-page-1"))
    foreign(table, "other")
    foreign(table, "other")
    assert commit(opened(store), "flink", 6) == (10, True)
