"""Several jobs upsert and delete the same keys while the table is compacted: the rows are those of one serial order (H14)."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.data_file import ADD, SOURCE_APPEND

NUMBERS = itertools.count()
KEYS, JOBS, COMMITS = 12, 3, 5
SCHEMA = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.string())])


@pytest.mark.parametrize(
    "options",
    [{}, {"deletion-vectors.enabled": "true"}, {"write-only": "true"}],
    ids=lambda options: next(iter(options), "inline"),
)
def test_the_rows_are_those_of_a_serial_order_of_the_commits(options: dict[str, str]) -> None:
    """An order in which a commit that began after another one had ended comes after it."""
    url = f"memory://upserts-at-once-{next(NUMBERS)}/t"
    made = {"bucket": "2", "commit.min-retry-wait": "1 ms", "num-sorted-run.compaction-trigger": "3", **options}
    ll.create_table(url, SCHEMA, primary_key=["k"], options=made)
    done: dict[int, tuple[float, float, dict[int, str | None]]] = {}
    over = threading.Event()

    def job(number: int) -> None:
        table, dice = ll.open_table(url), random.Random(number)
        for turn in range(COMMITS):
            keys = dice.sample(range(KEYS), 5)
            written: dict[int, str | None] = dict.fromkeys(keys[:4], f"{number}.{turn}") | {keys[4]: None}
            began = time.monotonic()
            with table.transaction() as tx:
                tx.upsert(pa.table({"k": keys[:4], "v": [f"{number}.{turn}"] * 4}).cast(SCHEMA))
                tx.delete(pa.table({"k": keys[4:]}).cast(pa.schema([SCHEMA.field("k")])))
            done[tx.receipt.snapshot_id] = began, time.monotonic(), written

    def compactor() -> None:
        while not over.is_set():
            try:
                ll.open_table(url).compact(full=True)
            except CommitConflict:
                pass

    with ThreadPoolExecutor(JOBS + 1) as pool:
        compacting = pool.submit(compactor)
        try:
            for each in [pool.submit(job, n) for n in range(JOBS)]:
                each.result()
        finally:
            over.set()
        compacting.result()
    ll.open_table(url).compact(full=True)
    table = ll.open_table(url)
    assert len(done) == JOBS * COMMITS
    order = sorted(done, key=lambda snapshot_id: first_number(table, snapshot_id))
    for earlier, later in itertools.combinations(order, 2):
        assert done[earlier][0] < done[later][1], "the later one had ended when the earlier one began"
    state: dict[int, str | None] = {}
    for snapshot_id in order:
        state |= done[snapshot_id][2]
    found = table.to_arrow()
    assert dict(zip(*(found[name].to_pylist() for name in ("k", "v")), strict=True)) == {
        key: v for key, v in state.items() if v is not None
    }
    assert found.num_rows == len(set(found["k"].to_pylist()))
    assert table.verify(data=True) == []


def first_number(table: Any, snapshot_id: int) -> int:
    """The smallest sequence number of the rows that a snapshot adds."""
    entries = table.timeline.entries(table.timeline.delta_manifests(table.timeline.snapshot(snapshot_id)))
    added = [e.file for e in entries if e.kind == ADD and e.file.file_source == SOURCE_APPEND]
    return int(min(file.min_sequence_number for file in added))


@pytest.mark.parametrize(
    ("drawn", "runs"), [(1.0, [1, 2, 3, 4, 5, 1]), (0.1, [1, 2, 1, 2, 1, 2])], ids=["others", "this one"]
)
def test_of_those_who_upsert_at_once_one_compacts_what_can_wait(drawn: float, runs: list[int]) -> None:
    """Whoever has the lot compacts at the trigger; the others only when a bucket has more runs than it may have."""
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "3", "num-sorted-run.stop-trigger": "5"}
    made = ll.create_table(f"memory://upserts-at-once-{next(NUMBERS)}/t", SCHEMA, primary_key=["k"], options=options)
    table = ll.open_table(made.url)
    table._committer = Committer(  # type: ignore[attr-defined]
        table.store,
        table.paths,
        table.schema,
        around=replace(MACHINE, uniform=lambda least, most: drawn, sleep=lambda s: None),
    )
    found = []
    for number in range(6):
        table.committer.meet(3, 0.0)
        table.upsert(pa.table({"k": [number], "v": ["x"]}).cast(SCHEMA))
        found.append(len(ll.open_table(made.url).entries()))
    assert found == runs
