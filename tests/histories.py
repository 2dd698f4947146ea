"""Tables whose histories other engines, expiries and sleeping writers have changed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from fragile import Fragile

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.maintenance.expiry.expire import apply_expiry, plan_expiry
from lakelatch.coordinator.maintenance.expiry.retention import Retention
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import Snapshot
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.create import _open
from lakelatch.table.table import Table

FIELDS = pa.schema([("v", pa.int64())])
MADE_MS = itertools.count(1_700_000_000_000)


def make(store: MemoryStore) -> None:
    """A new table, whoever was there before."""
    schema = new_schema(from_arrow_schema(FIELDS), options={"commit.min-retry-wait": "1 ms"}, time_ms=next(MADE_MS))
    store.put("schema/schema-0", schema.to_json())


def opened(store: Any) -> Table:
    """What another process opens."""
    return _open(store, "main", None)


def rows(*values: int) -> pa.Table:
    return pa.table({"v": pa.array(values, pa.int64())})


def filled(store: Any, *values: int) -> Table:
    """A table with a commit per value; its writer is warm, its hints are written."""
    table = opened(store)
    for value in values:
        table.append(rows(value))
    table.committer.settle()
    return table


def values(store: Any) -> list[int]:
    """What a cold reader sees."""
    return sorted(opened(store).to_arrow()["v"].to_pylist())


def ids(store: MemoryStore) -> list[int]:
    return opened(store).timeline.snapshot_ids()


def delete(store: MemoryStore, *numbers: int) -> None:
    store.delete_many([f"snapshot/snapshot-{n}" for n in numbers])


def roll_back(store: MemoryStore, to: int) -> None:
    """As Apache Paimon does: LATEST first, then the snapshots above, from the top down."""
    above = [n for n in ids(store) if n > to]
    store.put("snapshot/LATEST", str(to).encode())
    for number in reversed(above):
        delete(store, number)


def expire(store: MemoryStore, retained: int = 1) -> None:
    """As shipped, with everything long ago."""
    table = opened(store)
    retention = Retention.of(table.schema.options, int(time.time() * 1000) + 86_400_000, retain_min=retained)
    apply_expiry(table.timeline, plan_expiry(table.timeline, table.schema, retention))


def foreign_append(store: MemoryStore, number: int, value: int, *, on: Snapshot) -> None:
    """A snapshot of another engine: it names no base."""
    other, before = Fragile(), {info.key: store.get(info.key) for info in store.list("")}
    for key, data in before.items():
        if not key.startswith("snapshot/"):
            other.put(key, data)
    other.put(f"snapshot/snapshot-{on.id}", on.to_json())
    filled(other, value)
    theirs = replace(opened(other).timeline.snapshot(on.id + 1), id=number, properties={}, writer_version="2.1")
    for info in other.list(""):
        if not info.key.startswith("snapshot/") and info.key not in before:
            store.put(info.key, other.get(info.key))
    store.put(f"snapshot/snapshot-{number}", theirs.to_json())


def aged(table: Table, seconds: float) -> Callable[[], None]:
    """Lets so many seconds pass for the table's writer when it is called."""
    passed = [0.0]
    around = replace(MACHINE, monotonic_s=lambda: time.monotonic() + passed[0])
    table._committer = Committer(table.store, table.paths, table.schema, around=around)
    return lambda: passed.__setitem__(0, passed[0] + seconds)


def slept_snapshot(store: Fragile) -> bytes:
    """Snapshot 2 of a writer that slept on snapshot 1."""
    other = copied(store)
    filled(other, 77)
    for info in other.list(""):
        if not info.key.startswith("snapshot/"):
            store.put(info.key, other.get(info.key))
    return other.get("snapshot/snapshot-2")


def copied(store: MemoryStore) -> Fragile:
    other = Fragile()
    for info in store.list(""):
        other.put(info.key, store.get(info.key))
    return other


def sent_late(store: Fragile, number: int) -> list[bytes]:
    """The bytes of a snapshot whose first send landed, while its second one is still on its way."""
    sent: list[bytes] = []
    original = MemoryStore.put_if_absent

    def create(key: str, data: bytes) -> PutOutcome:
        if key == f"snapshot/snapshot-{number}":
            sent.append(data)
        instead = store._strike("create", key)
        return instead if instead is not None else original(store, key, data)

    store.put_if_absent = create  # type: ignore[method-assign]
    return sent
