"""Tables with many commit users behind them: written commit by commit, by other writers, or their memory directly."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import pyarrow as pa

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Store, Unknown
from lakelatch.coordinator.commit.attempt import WRITER_VERSION
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.identities.memory import IDENTIFIERS_PROPERTY, Memory
from lakelatch.coordinator.identities.pages import Page, spill
from lakelatch.coordinator.identities.recall import Known, recall
from lakelatch.coordinator.identities.trace import Trace
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from lakelatch.core.rows.arrow import from_arrow_schema
from lakelatch.table.table import Table

COUNTER = itertools.count()
FIELDS = pa.schema([("v", pa.int64())])
FOLDER = "lakelatch/identities/"


class Meddled(MemoryStore):
    """A store in memory: something may happen before a snapshot is created, and the answer may be lost."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.before_create: list[Callable[[], object]] = []
        self.lost_before = 0
        self.deleted: list[str] = []

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-") and self.before_create:
            self.before_create.pop(0)()
        elif key.startswith("snapshot/snapshot-") and self.lost_before > 0:
            self.lost_before -= 1
            return Unknown("timeout")
        return super().put_if_absent(key, data)

    def delete_many(self, keys: Iterable[str]) -> None:
        names = list(keys)
        self.deleted += names
        super().delete_many(names)


class Inline(Executor):
    """No threads: what is submitted is done."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def new_store() -> MeteredStore:
    """A store in memory with an empty table, that counts its requests."""
    store = MeteredStore(Meddled(f"memory://identities-{next(COUNTER)}/t"))
    store.put("schema/schema-0", new_schema(from_arrow_schema(FIELDS)).to_json())
    return store


def opened(store: Store) -> Table:
    """The table as a process sees it that knows nothing of it yet."""
    return Table(store, new_schema(from_arrow_schema(FIELDS)))


def commit(table: Table, user: str, identifier: int | None = None) -> tuple[int, bool]:
    """An append without rows. Returns the snapshot that carries it, and whether it had landed before."""
    receipt = table.committer.commit(CommitRequest("APPEND", (), user, identifier))
    table.committer.settle()
    return receipt.snapshot_id, receipt.replayed


def gets(store: MeteredStore, table: Table, user: str, identifier: int | None = None) -> int:
    """How many objects a commit reads, on a clock that stands: on a busy machine its base would age, and be looked at again."""
    if table._committer is None:
        around = replace(MACHINE, monotonic_s=lambda: 0.0)
        table._committer = Committer(table.store, table.paths, table.schema, around=around)
    store.reset()
    commit(table, user, identifier)
    return store.snapshot().by_operation.get("get", 0)


def top(table: Table) -> Snapshot:
    """The latest snapshot of a table that has one."""
    latest = table.timeline.latest()
    if latest is None:
        commit(table, "first")
        latest = table.timeline.latest()
    assert latest is not None
    return latest


def published(
    table: Table,
    memory: Memory | None,
    user: str = "x",
    identifier: int = BATCH_IDENTIFIER,
    *,
    base: Snapshot | None = None,
    uuid: str | None = None,
) -> Snapshot:
    """A snapshot without rows on top of the latest one.

    Args:
        memory: what it remembers, for one of ours; None for one of another engine, which carries nothing of ours.
        base: the latest snapshot, where it is at hand.
    """
    latest = base or top(table)
    properties = {} if memory is None else {**latest.properties, IDENTIFIERS_PROPERTY: memory.to_property()}
    snapshot = replace(
        latest,
        id=latest.id + 1,
        uuid=uuid or f"00000000-0000-0000-0000-{next(COUNTER):012}",
        commit_user=user,
        commit_identifier=identifier,
        properties=properties,
        writer_version="paimon-1.4.2" if memory is None else WRITER_VERSION,
        delta_record_count=0,
    )
    table.store.put(f"snapshot/snapshot-{snapshot.id}", snapshot.to_json())
    return snapshot


def foreign(table: Table, user: str, identifier: int = BATCH_IDENTIFIER) -> Snapshot:
    """An append without rows by another engine."""
    return published(table, None, user, identifier)


def ref(number: int) -> SnapshotRef:
    """The snapshot that a user who was made up committed in."""
    return SnapshotRef(number + 1, f"identity-{number}")


def remembering(table: Table, users: Sequence[str], *, first: int = 100) -> Memory:
    """A snapshot that remembers these users, with identifier 7 each, as so many commits would have left them.

    Args:
        first: so many users are taken at once to begin with; then a hundred at a time.
    """
    known, memory, numbers = Known(), Memory(), itertools.count()
    unnamed = replace(top(table), writer_version="paimon-1.4.2")
    for begin in (0, *range(first, len(users), 100)):
        end = first if begin == 0 else begin + 100
        new = {user: Trace.of(7, ref(number)) for number, user in enumerate(users[begin:end], begin)}
        memory = replace(memory, users={**memory.users, **new})
        base = replace(unnamed, uuid=f"made-up-{next(COUNTER)}")
        known.keep_memory(SnapshotRef(base.id, base.identity), memory)
        recalled = recall(None, base, table.timeline, known)
        if memory.overflows_with(None):
            memory, files = spill(
                memory, recalled.page or Page(), recalled.leaf, lambda kind: f"{kind}-made-{next(numbers)}"
            )
            for file in files:
                table.store.put(FOLDER + file.name, file.data)
    published(table, memory)
    return memory


def identity_files(table: Table) -> set[str]:
    """The names of all pages and leaves that there are."""
    return {info.key[len(FOLDER) :] for info in table.store.list(FOLDER)}


def expire(table: Table, keep: int) -> None:
    """Delete all snapshots but so many."""
    ids = table.timeline.snapshot_ids()
    table.store.delete_many([f"snapshot/snapshot-{i}" for i in ids[:-keep]])
