"""Exactly once (G3): what a table remembers of its commit users, however many they are and whatever has expired."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from identities import commit, expire, foreign, gets, new_store, opened

from lakelatch.coordinator.identity import IDENTIFIERS_PROPERTY

# ------------------------------------------------------------------------------------------------------- many users


def test_a_user_that_was_never_seen_costs_at_most_two_reads_more() -> None:
    """At 260 users the memory has overflowed once; the commit that overflows again is among those that are counted."""
    store = new_store()
    table = opened(store)
    for number in range(260):
        commit(table, f"query-{number}", 0)
    without = gets(store, opened(store), "batch")
    for number in range(60):
        assert gets(store, opened(store), f"new-{number}", 0) <= without + 2


def test_a_user_that_fell_out_is_recognised_after_its_snapshot_expired() -> None:
    """A full memory is not complete: a commit that it does not hold may have landed all the same, and must not double."""
    store = new_store()
    table = opened(store)
    for number in range(450):
        commit(table, f"query-{number}", 7)
    expire(table, keep=2)
    for number in (0, 1, 99, 100, 101, 199, 200, 201, 249, 250, 251, 449):
        assert commit(opened(store), f"query-{number}", 7) == (number + 1, True), number
    assert commit(opened(store), "never", 7) == (451, False)


def test_a_user_that_fell_out_comes_back_with_its_next_identifier() -> None:
    store = new_store()
    table = opened(store)
    for number in range(450):
        commit(table, f"query-{number}", 7)
    assert commit(table, "query-0", 8) == (451, False)
    for number in range(450, 900):
        commit(table, f"query-{number}", 7)
    assert commit(opened(store), "query-0", 8) == (451, True)


# -------------------------------------------------------------------------------------------------- other writers


def test_a_memory_that_did_not_reach_the_beginning_says_so() -> None:
    """A commit without identity walks past a few foreign snapshots only. Who asks later must look below them."""
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
    """The walk may take longer than a base may be old: what it found is kept, so that the next look needs no walk."""
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


# ------------------------------------------------------------------------------------------------------ older tables


def test_tables_of_the_first_form_are_understood() -> None:
    """Their property names no page, and one of 200 users may have lost some: what is below is looked through once."""
    store = new_store()
    table = opened(store)
    for number in range(5):
        commit(table, f"old-{number}", 7)
    latest = table.timeline.latest()
    assert latest is not None
    users = {f"lost-{number}": [1, 1, "gone"] for number in range(200)}
    text = json.dumps({"since": 1, "users": users})
    made = replace(
        latest,
        id=latest.id + 1,
        uuid="00000000-0000-0000-0000-000000000000",
        commit_user="lost-199",
        properties={**latest.properties, IDENTIFIERS_PROPERTY: text},
    )
    store.put("snapshot/snapshot-6", made.to_json())
    assert commit(opened(store), "old-0", 7) == (1, True)
    assert commit(opened(store), "lost-0", 1) == (1, True)
    assert commit(opened(store), "new", 1) == (7, False)
    expire(table, keep=1)
    for number in range(5):
        assert commit(opened(store), f"old-{number}", 7) == (number + 1, True)
    without = gets(store, opened(store), "batch")
    assert gets(store, opened(store), "never", 1) <= without + 2


@pytest.mark.parametrize("users", [1, 199])
def test_a_memory_of_the_first_form_that_is_not_full_is_complete(users: int) -> None:
    store = new_store()
    table = opened(store)
    commit(table, "etl", 7)
    latest = table.timeline.latest()
    assert latest is not None
    text = json.dumps({"since": 1, "users": {f"u-{n}": [1, 1, "gone"] for n in range(users)}})
    made = replace(latest, id=2, uuid="0" * 8, properties={**latest.properties, IDENTIFIERS_PROPERTY: text})
    store.put("snapshot/snapshot-2", made.to_json())
    without = gets(store, opened(store), "batch")
    assert gets(store, opened(store), "never", 1) == without
