"""Tables with many commit users behind them: written commit by commit, and by other writers."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pyarrow as pa

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.metered import MeteredStore
from lakelatch.coordinator.request import CommitRequest
from lakelatch.core.arrow import from_arrow_schema
from lakelatch.core.schema import new_schema
from lakelatch.core.snapshot import BATCH_IDENTIFIER, Snapshot
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIELDS = pa.schema([("v", pa.int64())])


def new_store() -> MeteredStore:
    """A store in memory with an empty table, that counts its requests."""
    store = MeteredStore(MemoryStore(f"memory://identities-{next(COUNTER)}/t"))
    store.put("schema/schema-0", new_schema(from_arrow_schema(FIELDS)).to_json())
    return store


def opened(store: MeteredStore) -> Table:
    """The table as a process sees it that knows nothing of it yet."""
    return Table(store, new_schema(from_arrow_schema(FIELDS)))


def commit(table: Table, user: str, identifier: int | None = None) -> tuple[int, bool]:
    """An append without rows. Returns the snapshot that carries it, and whether it had landed before."""
    receipt = table.committer.commit(CommitRequest("APPEND", (), user, identifier))
    table.committer.settle()
    return receipt.snapshot_id, receipt.replayed


def gets(store: MeteredStore, table: Table, user: str, identifier: int | None = None) -> int:
    """How many objects a commit reads."""
    store.reset()
    commit(table, user, identifier)
    return store.snapshot().by_operation.get("get", 0)


def foreign(table: Table, user: str, identifier: int = BATCH_IDENTIFIER) -> Snapshot:
    """An append without rows by another engine, on top of the latest snapshot: it carries nothing of ours."""
    latest = table.timeline.latest()
    if latest is None:
        commit(table, "first")
        latest = table.timeline.latest()
        assert latest is not None
    snapshot = replace(
        latest,
        id=latest.id + 1,
        uuid=f"00000000-0000-0000-0000-{next(COUNTER):012}",
        commit_user=user,
        commit_identifier=identifier,
        properties={},
        writer_version="paimon-1.4.2",
        delta_record_count=0,
    )
    table.store.put(f"snapshot/snapshot-{snapshot.id}", snapshot.to_json())
    return snapshot


def expire(table: Table, keep: int) -> None:
    """Delete all snapshots but so many."""
    ids = table.timeline.snapshot_ids()
    table.store.delete_many([f"snapshot/snapshot-{i}" for i in ids[:-keep]])
