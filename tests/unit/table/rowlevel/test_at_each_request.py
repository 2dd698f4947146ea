"""A change of rows that dies at any of its requests, or beside which another job commits at any of them (G1, G2, G3, H5, H12).

By day every fourth request is tried, each test beginning with another one; `LAKELATCH_NIGHTLY=1` tries all.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pyarrow as pa
import pytest
from at_each_request import Struck
from dying_store import Died, DyingStore, contents

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.history.timeline import Timeline
from lakelatch.core.paths import TablePaths
from lakelatch.table.table import Table

_names = itertools.count()
SCHEMA = pa.schema([("id", pa.int64()), ("n", pa.int64())])
KINDS: dict[str, dict[str, Any]] = {
    "copies": {},
    "vectors": {"options": {"deletion-vectors.enabled": "true"}},
    "key": {"options": {"bucket": "1"}, "primary_key": ["id"]},
}
NEWS = pa.table({"id": [1, 5, 90], "n": [100, 500, 900]}, SCHEMA)
STEP = 1 if os.environ.get("LAKELATCH_NIGHTLY") else 4
WANTED = [(0, 0), (1, 101), (2, 2), (4, 4), (5, 505), (90, 900)]


def prepared(kind: str) -> dict[str, bytes]:
    url = f"memory://row-requests/{next(_names)}"
    table = ll.create_table(url, SCHEMA, **KINDS[kind])
    for first in (0, 3):
        table.append(pa.table({"id": range(first, first + 3), "n": range(first, first + 3)}, SCHEMA))
    return contents(table.store)  # type: ignore[arg-type]


def filled(store: Any, objects: dict[str, bytes]) -> Any:
    for key, data in objects.items():
        MemoryStore.put(store, key, data)
    return store


def opened(store: Any) -> Table:
    return Table(store, Timeline(store, TablePaths()).latest_schema())


def merged(table: Table) -> Any:
    merge = table.merge(NEWS, on=["id"], commit_user="job", identifier=1).when_matched_update({"n": "t.n + s.n"})
    return merge.when_not_matched_insert_all().when_not_matched_by_source_delete("t.id = 3").execute()


def state(store: Any) -> list[tuple[int, int]]:
    table = opened(MemoryStore(store.url))
    assert [str(finding) for finding in table.verify(data=True)] == []
    return sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize(("kind", "applied"), [("copies", False), ("vectors", True), ("key", False), ("key", True)])
def test_a_merge_that_dies_at_any_request_lands_once_when_it_runs_again(kind: str, applied: bool) -> None:
    objects = prepared(kind)
    for last in itertools.count(1 + len(kind + str(applied)) % STEP, STEP):
        store = filled(DyingStore(f"memory://row-requests/{next(_names)}"), objects)
        store.requests, store.last, store.applied = 0, last, applied
        died = True
        try:
            merged(opened(store))
            died = False
        except Died:
            pass
        store.last = 10**9
        if died:
            assert state(store) in ([(i, i) for i in range(6)], WANTED), f"died at request {last}"
            merged(opened(store))
        assert state(store) == WANTED, f"died at request {last}"
        if not died:
            break
    assert last > 8


@pytest.mark.parametrize("kind", ["copies", "vectors"])
@pytest.mark.parametrize("other", ["append", "delete", "compact"])
def test_another_commit_at_any_request_is_neither_lost_nor_missed(kind: str, other: str) -> None:
    """The end is that of the other commit before the merge, or after it."""
    objects = prepared(kind)
    do = {
        "append": lambda table: table.append(pa.table({"id": [1, 7], "n": [10, 7]}, SCHEMA)),
        "delete": lambda table: table.delete(where="n = 5 OR n = 505"),
        "compact": lambda table: table.compact(full=True),
    }[other]
    ends = []
    for changes in ((do, merged), (merged, do)):
        store = filled(MemoryStore(f"memory://row-requests/{next(_names)}"), objects)
        for change in changes:
            change(opened(store))
        ends.append(state(store))
    for at in itertools.count(1 + len(kind + other) % STEP, STEP):
        store = filled(Struck(f"memory://row-requests/{next(_names)}", at), objects)
        store.strike = lambda store=store: do(opened(store.plain()))
        store.asked.clear()
        table = opened(store)
        merged(table)
        table.committer.settle()  # a hint is written by another thread
        if len(store.asked) < at:
            break
        assert state(store) in ends, f"{other} at request {at}: {store.asked[at - 1]}"
    assert at > 8
