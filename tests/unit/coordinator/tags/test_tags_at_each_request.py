"""Automatic tags whose process dies at any of its requests, reads included: the next run ends as one that was not cut off (G7).

By day every fifth request is tried, each case beginning with another one; `LAKELATCH_NIGHTLY=1` tries all.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from dying_store import Died, DyingStore, contents
from figures import NIGHTLY

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import plan_orphans
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.table.table import Table

COUNTER = itertools.count()
SCHEMA = pa.schema([("v", pa.int64())])
DAY_MS = 24 * 3_600_000
BEGIN_MS = (MACHINE.wall_ms // DAY_MS + 1) * DAY_MS
"""Midnight: no snapshot is older than its files."""
DAYS = [f"{datetime.fromtimestamp((BEGIN_MS + n * DAY_MS) / 1000, timezone.utc):%Y-%m-%d}" for n in range(4)]
STEP = 1 if NIGHTLY else 5
MODES: dict[str, dict[str, str]] = {
    "by period": {
        "tag.automatic-creation": "process-time",
        "sink.process-time-zone": "UTC",
        "tag.num-retained-max": "2",
        "tag.create-success-file": "true",
    },
    "batch": {
        "tag.automatic-creation": "batch",
        "tag.batch.customized-name": "done",
        "tag.num-retained-max": "2",
        "tag.create-success-file": "true",
        "tag.default-time-retained": "9 d",
    },
}


def prepared(mode: str) -> dict[str, bytes]:
    """Each commit replaces all rows and is a day after the one before. Two days are tagged, and only the newest snapshot is
    left, so that each deleted or replaced tag frees files."""
    table = ll.create_table(f"memory://tags-at-requests-{next(COUNTER)}/t", SCHEMA)
    table.create_branch("away")  # a folder that no tag is in
    for day in range(4):
        table.overwrite(pa.table({"v": [day]}), partition={})
        table.committer.settle()
        made = table.timeline.latest()
        assert made is not None
        table.store.put(
            table.paths.snapshot(made.id), replace(made, time_ms=BEGIN_MS + (day + 1) * DAY_MS + 1).to_json()
        )
        if day == 0:
            table.create_tag(DAYS[0] if mode == "by period" else "first", snapshot=1)
        if day == 1:
            table.create_tag(DAYS[1] if mode == "by period" else "done", snapshot=2)
    newest = table.timeline.latest()
    assert newest is not None
    retention = Retention.of(table.schema.options, newest.time_ms + 10 * DAY_MS, retain_max=2, retain_min=2)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))
    assert table.timeline.snapshot_ids() == [3, 4]
    raw = json.loads(table.store.get("schema/schema-0"))
    raw["options"] |= MODES[mode]
    assert table.verify("all", data=True) == []
    table.store.put("schema/schema-0", json.dumps(raw).encode())
    return contents(table.store)  # type: ignore[arg-type]


def filled(objects: dict[str, bytes]) -> DyingStore:
    store = DyingStore(f"memory://tags-at-requests-{next(COUNTER)}/t")
    for key, data in objects.items():
        MemoryStore.put(store, key, data)
    return store


def opened(store: Any) -> Table:
    return Table(store, ll.open_table(store.url).schema)


def state(store: DyingStore) -> tuple[list[Any], set[str]]:
    """The tags with their rows, and every key."""
    table = opened(MemoryStore(store.url))
    assert table.verify("all", data=True) == []
    tags = [(t.name, t.snapshot.id, table.at(tag=t.name).to_arrow()["v"].to_pylist()) for t in table.tags()]
    return tags, set(contents(store))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("applied", [False, True])
def test_automatic_tags_that_die_at_any_request_are_finished_by_the_next_run(mode: str, applied: bool) -> None:
    objects = prepared(mode)
    whole = filled(objects)
    opened(whole).auto_tag()
    wanted = state(whole)
    assert [t[:2] for t in wanted[0]] == (
        [(DAYS[2], 3), (DAYS[3], 4)] if mode == "by period" else [("first", 1), ("done", 4)]
    )
    assert len(wanted[1]) < len(objects) + 4, "files of the tags that went are gone"
    for last in itertools.count(1 + (len(mode) + applied) % STEP, STEP):
        store = filled(objects)
        table = opened(store)
        store.requests, store.last, store.applied = 0, last, applied
        died = True
        try:
            table.auto_tag()
            died = False
        except Died:
            pass
        store.last = 10**9
        there = {t.name: t.snapshot.id for t in opened(store).tags()}
        opened(store).expire_tags()  # tags that are there stay, whatever the run was about to do
        assert {t.name: t.snapshot.id for t in opened(store).tags()} == there, f"died at request {last}"
        opened(store).auto_tag()
        assert state(store) == wanted, f"died at request {last}"
        assert plan_orphans(table.timeline, table.schema, 2**62).files == ()
        if not died:
            break
    assert last > 8
