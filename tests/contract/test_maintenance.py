"""Expiry, rollback and orphan cleaning work on every store: exactly the needed files remain, and can be read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hooked_store import HookedStore

from lakelatch.backends.store import ObjectNotFound
from lakelatch.coordinator.commit.steps import publishing
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.maintenance.orphans import apply_clean, plan_orphans, store_clock_ms
from lakelatch.coordinator.maintenance.quarantine import move_orphans, restore
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

from .conftest import KINDS, stores_of

FIELDS = pa.schema([("p", pa.string()), ("v", pa.int64())])
NEVER_MS = 2**62


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "faulty"])
def test_maintenance_works_on_every_store(kind: str, request: pytest.FixtureRequest) -> None:
    """G7: after maintenance the table is complete and holds no other files."""
    store = stores_of(kind, request)("table")
    schema = new_schema(from_arrow_schema(FIELDS), partition_keys=["p"])
    store.put_if_absent("schema/schema-0", schema.to_json())
    table = Table(store, schema)
    for value in range(3):
        table.append(pa.table({"p": ["a b"], "v": [value]}))
    table.truncate()
    table.rollback(snapshot=2)
    table.append(pa.table({"p": ["c"], "v": [9]}))
    table.committer.settle()
    retention = Retention.of(schema.options, NEVER_MS, retain_max=1)
    done = apply_expiry(table.timeline, plan_expiry(table.timeline, schema, retention))
    assert done.snapshot_ids == (1, 2, 3, 4, 5)
    assert len(done.steps.data) == 1, "the row of snapshot 3 alone: the others came back"
    for key in ("manifest/manifest-left-0", "p=a b/bucket-0/data-left-0.parquet"):
        store.put(key, b"left over")
    assert store_clock_ms(store, "contract") > 1_600_000_000_000
    there = {info.key for info in store.list("")}
    moved = move_orphans(plan_orphans(table.timeline, schema, NEVER_MS), 1, 1, "contract")
    assert not {info.key for info in moved.files} & {info.key for info in store.list("")}
    assert restore(table.timeline, schema).files == len(moved.files) >= 2
    assert {info.key for info in store.list("")} == there
    assert store.get("manifest/manifest-left-0") == b"left over"
    orphans = apply_clean(plan_orphans(table.timeline, schema, NEVER_MS))
    assert {"manifest/manifest-left-0", "p=a b/bucket-0/data-left-0.parquet"} <= {info.key for info in orphans.files}
    fresh = Table(store, schema)
    assert sorted(fresh.to_arrow()["v"].to_pylist()) == [0, 1, 9]
    assert [s.id for s in fresh.snapshots()] == [6]
    assert fresh.verify("all", data=True) == []
    assert plan_orphans(fresh.timeline, schema, NEVER_MS).files == ()


class RolledBack(HookedStore):
    """Another engine rolls back to snapshot 1 right after the hint of snapshot 2 was written."""

    def put(self, key: str, data: bytes) -> None:
        self._store.put(key, data)
        if (key, data) == ("snapshot/LATEST", b"2"):
            self._store.put(key, b"1")
            self._store.delete_many(["snapshot/snapshot-2"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "faulty"])
def test_a_slow_hint_goes_with_its_snapshot(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H7: without a hint every engine lists the snapshots."""
    monkeypatch.setattr(publishing, "SLOW_HINT_S", 0.0)
    store = stores_of(kind, request)("rolled-back")
    schema = new_schema(from_arrow_schema(FIELDS), partition_keys=["p"])
    store.put_if_absent("schema/schema-0", schema.to_json())
    rows = pa.table({"p": ["a"], "v": [1]})
    for one in (store, RolledBack(store)):
        table = Table(one, schema)  # type: ignore[arg-type]
        table.append(rows)
        table.committer.settle()
    with pytest.raises(ObjectNotFound):
        store.get("snapshot/LATEST")
    fresh = Table(store, schema)
    assert fresh.append(rows).snapshot_id == 2
    fresh.committer.settle()
    assert store.get("snapshot/LATEST") == b"2"
