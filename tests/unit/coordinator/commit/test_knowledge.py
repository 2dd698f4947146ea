"""What a committer keeps from one commit to the next, and the newest schema that one commit has seen."""

from __future__ import annotations

from itertools import count

import pyarrow as pa
import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.commit.checks.newest_schema import NewestSchema
from lakelatch.coordinator.commit.knowledge import Knowledge, NewestBase
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNT = count()
SCHEMA = new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])))


def base(number: int, seen_ms: float) -> Base:
    made = Snapshot(number, 0, "b", "d", "etl", 1, "APPEND", 0, 1, 1) if number else None
    return Base(made, (), 0, seen_ms)


def test_of_two_bases_the_one_that_was_seen_later_is_kept() -> None:
    """Threads of one committer learn in any order."""
    newest = NewestBase()
    assert (newest.get(), newest.id()) == (None, 0)
    newest.learn(base(0, 5.0))
    assert newest.id() == 0, "a table without a snapshot"
    newest.learn(base(4, 20.0))
    newest.learn(base(3, 10.0))
    assert (newest.get(), newest.id()) == (base(4, 20.0), 4)
    newest.learn(base(5, 20.0))
    assert newest.id() == 5, "of two that were seen at once, the one that was learnt last"
    newest.forget()
    assert (newest.get(), newest.id()) == (None, 0)
    newest.learn(base(3, 1.0))
    assert newest.id() == 3


def test_a_committer_begins_with_its_own_schema_and_a_name() -> None:
    knows = Knowledge(MACHINE, SCHEMA)
    assert knows.schemas == {0: SCHEMA}
    assert len(knows.writer_id.get()) == 16
    assert knows.writer_id.get() == knows.writer_id.get() != Knowledge(MACHINE, SCHEMA).writer_id.get()
    assert not knows.crowd.is_near(0.0)


# ---------------------------------------------------------------------------------------------------- the newest schema


@pytest.fixture
def store() -> MeteredStore:
    return MeteredStore(MemoryStore(f"memory://newest-{next(COUNT)}/t"))


def newest(store: MeteredStore, matters: bool, written_with: int = 1) -> NewestSchema:
    return NewestSchema(matters, written_with, Timeline(store, TablePaths()))


def test_a_newer_schema_is_a_conflict_of_rows_that_can_be_written_again(store: MeteredStore) -> None:
    for number in range(4):
        store.put(f"schema/schema-{number}", b"")
    found = newest(store, True)
    assert found.is_due and found.conflict is None, "it has not looked yet"
    found.look()
    assert not found.is_due
    assert found.conflict is not None
    assert found.conflict.check == "newer_schema"
    assert found.conflict.reason.startswith(
        "its rows were written with schema 1, and the table has schema 3 by now: open"
    )


def test_the_same_schema_is_no_conflict_and_one_look_is_enough(store: MeteredStore) -> None:
    found = newest(store, True)
    found.look()
    assert (found.is_due, found.conflict) == (False, None)
    assert store.snapshot().by_operation == {"get": 1}
    found.saw(2)
    assert found.conflict is not None, "another look, made for another reason, counts"


def test_rows_that_land_as_they_are_need_no_look(store: MeteredStore) -> None:
    found = newest(store, False)
    assert not found.is_due
    found.saw(9)
    assert found.conflict is None
