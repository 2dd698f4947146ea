"""A store that takes one write a second of a name, as GCS does: no commit waits for a hint, and the newest one wins."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import rewrite_seconds
from lakelatch.table.table import Table

ROWS = pa.table({"v": [1]})
REST_S = 0.4
COUNTER = itertools.count()


class Slow(MemoryStore):
    rewrite_seconds = REST_S

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.hinted: list[tuple[float, bytes]] = []

    def put(self, key: str, data: bytes) -> None:
        if key == "snapshot/LATEST":
            self.hinted.append((time.monotonic(), data))
        super().put(key, data)


@pytest.fixture
def table() -> Table:
    url = f"memory://slow-hints-{next(COUNTER)}/t"
    made = ll.create_table(url, ROWS.schema)
    return Table(Slow(url), made.schema, first_schema=made._first_schema)


def test_the_newest_hint_is_written_once_in_that_time(table: Table) -> None:
    for _ in range(12):
        table.append(ROWS)
    table.settle()
    assert isinstance(table.store, Slow)
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(table.store.hinted)]
    assert gaps and min(gaps) >= REST_S
    assert table.store.hinted[-1][1] == b"12"
    assert len(table.store.hinted) < 12


def test_other_stores_wait_for_nothing() -> None:
    assert rewrite_seconds(MeteredStore(Slow("memory://a/b"))) == REST_S
    assert rewrite_seconds(MeteredStore(MemoryStore("memory://a/b"))) == 0.0
