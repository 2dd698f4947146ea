"""A store that takes one write a second of a name, as GCS does: a follower does not wait for its consumer."""

from __future__ import annotations

import gc
import itertools
from typing import Any

import pyarrow as pa
import pytest
from passing_time import Clock

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.table.following import consumer as following
from lakelatch.table.following import reader

COUNTER = itertools.count()


class Slow(MemoryStore):
    rewrite_seconds = 1.0
    clock: Clock
    written: list[float]

    def put(self, key: str, data: bytes) -> None:
        if key.startswith("consumer/"):
            self.written.append(self.clock.now_s)
        super().put(key, data)


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A table with ten snapshots, in such a store."""
    url = f"memory://slow-{next(COUNTER)}/t"
    made = ll.create_table(url, pa.schema([("v", pa.int64())]))
    for number in range(10):
        made.append(pa.table({"v": [number]}))
    clock = Clock()
    for module in (following, reader):
        monkeypatch.setattr(module, "MACHINE", clock)
    store = Slow(url)
    store.clock, store.written = clock, []
    return ll.table.table.Table(store, made.schema, first_schema=made._first_schema)


def stands_at(table: Any) -> list[int]:
    return [one.next_snapshot for one in table.consumers()]


def test_the_newest_position_is_written_once_a_second(table: Any) -> None:
    began_s = table.store.clock.now_s
    seen = [batch.snapshot_id for batch in table.follow("earliest", consumer="c", wait=0)]
    assert seen == list(range(1, 11)) and stands_at(table) == [11]
    gaps = [later - earlier for earlier, later in itertools.pairwise(table.store.written)]
    assert min(gaps) >= 1.0 and table.store.clock.now_s - began_s <= 2.0, "it waits at the end, once"


def test_what_is_acknowledged_by_name_is_written_at_once(table: Any) -> None:
    follower = table.follow("earliest", consumer="c", wait=0)
    for expected in (2, 3, 4):
        next(follower).acknowledge()
        assert stands_at(table) == [expected]


@pytest.mark.parametrize("left", ["closed", "dropped"])
def test_a_loop_that_is_left_keeps_what_it_has_acknowledged(table: Any, left: str) -> None:
    follower = table.follow("earliest", consumer="c", wait=0)
    for batch in follower:
        if batch.snapshot_id == 5:
            break
    assert stands_at(table)[0] < 5
    follower.close() if left == "closed" else None
    del follower, batch
    gc.collect()
    assert stands_at(table) == [5], "the fifth was not acknowledged"


def test_other_stores_take_every_position(table: Any) -> None:
    table.store.rewrite_seconds = 0.0
    follower = table.follow("earliest", consumer="c", wait=0)
    for expected in (1, 2, 3):
        next(follower)
        assert stands_at(table) == [expected]
