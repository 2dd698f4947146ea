"""What a follower asks while nothing comes, and how soon it sees what does (H7, H21)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import InvalidArgument, TableNotFound
from lakelatch.table.following import newest, reader
from lakelatch.table.following.newest import GLANCES, STANDS
from lakelatch.table.table import Table

COUNTER = itertools.count()
ROWS = pa.table({"v": [1]})


class Clock:
    """Time that passes where somebody sleeps; at a certain pause something happens."""

    def __init__(self) -> None:
        self.pauses = 0
        self.at: dict[int, Callable[[], object]] = {}

    def monotonic_s(self) -> float:
        return float(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        self.at.pop(self.pauses, int)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(reader, "MACHINE", made)
    monkeypatch.setattr(newest, "MACHINE", made)
    return made


@pytest.fixture
def table(clock: Clock) -> Table:
    url = f"memory://idle-{next(COUNTER)}/t"
    made = ll.create_table(url, ROWS.schema)
    for _ in range(3):
        made.append(ROWS)
    made.committer.settle()
    return Table(MeteredStore(MemoryStore(url)), made.schema, first_schema=made._first_schema)  # type: ignore[arg-type]


@pytest.mark.parametrize("minutes", [1, 11])
def test_an_idle_follower_asks_for_one_name(clock: Clock, table: Any, minutes: int) -> None:
    table.store.reset()
    assert list(table.follow("latest", wait=60 * minutes)) == []
    asked = table.store.snapshot()
    assert clock.pauses == 60 * minutes
    assert asked.by_operation["list"] <= 2 + minutes // 10, "the schemas and the snapshots when it begins"
    assert asked.by_operation["list"] + asked.by_operation["get"] <= 66 * minutes


@pytest.mark.parametrize("pause", [1, 4, STANDS, STANDS + 1, GLANCES, GLANCES + 1])
def test_what_comes_is_seen_with_the_next_look(clock: Clock, table: Any, pause: int) -> None:
    seen: list[int] = []
    clock.at = {pause: lambda: [ll.open_table(table.url).append(ROWS) for _ in range(2)]}
    for batch in table.follow("latest", wait=STANDS + pause):
        seen.append(batch.snapshot_id)
        assert clock.pauses == pause
    assert seen == [4, 5]


def test_a_table_that_was_dropped_is_noticed(clock: Clock, table: Any) -> None:
    clock.at = {2: lambda: ll.drop_table(table.url)}
    with pytest.raises(TableNotFound):
        list(table.follow("latest", wait=100))
    assert clock.pauses <= STANDS + 1


def test_a_history_that_went_back_is_noticed(clock: Clock, table: Any) -> None:
    def went_back() -> None:
        other = ll.open_table(table.url)
        other.store.delete_many([other.paths.snapshot(3)])
        other.append(ROWS)

    clock.at = {2: went_back}
    with pytest.raises(InvalidArgument, match="rolled the table back"):
        list(table.follow("latest", wait=100))
    assert clock.pauses <= STANDS + 1


def _beyond_a_gap(table: Any, *gone: int) -> None:
    other = ll.open_table(table.url)
    for _ in range(3):
        other.append(ROWS)
    other.committer.settle()
    other.store.put(other.paths.hint("EARLIEST"), b"6")
    other.store.delete_many([other.paths.snapshot(number) for number in gone])


def test_what_came_and_expired_in_a_long_pause_is_told(clock: Clock, table: Any) -> None:
    """The id after the last one is free then, though a later one is there."""
    follower = table.follow("latest", wait=0)
    clock.pauses += 3600
    _beyond_a_gap(table, 1, 2, 3, 4, 5)
    with pytest.raises(InvalidArgument, match="not all there"):
        list(follower)


def test_a_snapshot_that_could_not_be_deleted_does_not_hide_what_came_after_a_gap(clock: Clock, table: Any) -> None:
    clock.at = {2: lambda: _beyond_a_gap(table, 1, 2, 4, 5)}
    with pytest.raises(InvalidArgument, match="not all there"):
        list(table.follow("latest", wait=200))
    assert clock.pauses <= newest.HINTED
