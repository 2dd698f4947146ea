"""What a follower asks while nothing comes, and how soon it sees what does (H7, H21)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.metered import MeteredStore
from lakelatch.core.errors import TableNotFound
from lakelatch.table.following import reader
from lakelatch.table.following.newest import GLANCES
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
    return made


@pytest.fixture
def table(clock: Clock) -> Table:
    url = f"memory://idle-{next(COUNTER)}/t"
    made = ll.create_table(url, ROWS.schema)
    for _ in range(3):
        made.append(ROWS)
    made.committer.settle()
    return Table(MeteredStore(MemoryStore(url)), made.schema, first_schema=made._first_schema)  # type: ignore[arg-type]


def test_an_idle_follower_asks_for_one_name(clock: Clock, table: Any) -> None:
    follower = table.follow("latest", wait=3 * (GLANCES + 1))
    table.store.reset()
    assert list(follower) == []
    asked = table.store.snapshot().by_operation
    assert asked["list"] <= 4 and asked["get"] <= 1.5 * clock.pauses


@pytest.mark.parametrize("pause", [1, 4, GLANCES, GLANCES + 1])
def test_what_comes_is_seen_with_the_next_look(clock: Clock, table: Any, pause: int) -> None:
    seen: list[int] = []
    clock.at = {pause: lambda: [ll.open_table(table.url).append(ROWS) for _ in range(2)]}
    for batch in table.follow("latest", wait=2 * GLANCES + pause):
        seen.append(batch.snapshot_id)
        assert clock.pauses == pause
    assert seen == [4, 5]


def test_a_table_that_was_dropped_is_noticed(clock: Clock, table: Any) -> None:
    clock.at = {2: lambda: ll.drop_table(table.url)}
    with pytest.raises(TableNotFound):
        list(table.follow("latest", wait=100))
    assert clock.pauses <= GLANCES + 2
