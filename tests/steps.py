"""One commit, step by step: a table of one file, a committer on a clock of the test, and the steps that a driver asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pyarrow as pa

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome
from lakelatch.coordinator.commit.committer import Committer
from lakelatch.coordinator.commit.message import PendingUpload
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.commit.steps.run import CommitRun
from lakelatch.coordinator.protocol import effects as do
from lakelatch.coordinator.protocol import events as ev
from lakelatch.coordinator.protocol.snapshot_ref import SnapshotRef
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.metadata.data_file import ADD, EMPTY_ROW, DataFile, ManifestEntry
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.paths import TablePaths
from lakelatch.core.rows.arrow import from_arrow_schema

COUNT = count()
SCHEMA = new_schema(from_arrow_schema(pa.schema([("v", pa.int64())])))
EARLIEST, LATEST = "snapshot/EARLIEST", "snapshot/LATEST"


class Answers(MemoryStore):
    """A store in memory: planned answers to creates, something to do at a request, and what was asked."""

    def __init__(self) -> None:
        super().__init__(f"memory://run-{next(COUNT)}/t")
        self.creates: list[PutOutcome | Exception] = []
        self.at: Callable[[str, str], None] = lambda operation, key: None
        self.deleted: list[str] = []

    def get(self, key: str) -> bytes:
        self.at("get", key)
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self.at("put", key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        planned = self.creates.pop(0) if self.creates else None
        if isinstance(planned, Exception):
            raise planned
        return planned if planned is not None else super().put_if_absent(key, data)

    def delete_many(self, keys: Any) -> None:
        self.deleted += (names := list(keys))
        self.at("delete", names[0] if names else "")
        super().delete_many(names)


class World:
    """A table of one file, and a committer on a clock of the test."""

    def __init__(self, commits: int = 1) -> None:
        self.inner = Answers()
        self.store = MeteredStore(self.inner)
        self.store.put("schema/schema-0", SCHEMA.to_json())
        self.now_s, self.slept = 1000.0, list[float]()
        self.around = replace(MACHINE, monotonic_s=lambda: self.now_s, sleep=self.slept.append)
        self.committer = self.another()
        for number in range(commits):
            self.append(f"data-{number}")

    def another(self) -> Committer:
        return Committer(self.store, TablePaths(), SCHEMA, around=self.around)

    def append(self, name: str, committer: Committer | None = None, **more: Any) -> Any:
        chosen = committer or self.committer
        receipt = chosen.commit(request(name, **more))
        chosen.settle()
        return receipt

    def run(self, made: CommitRequest | None = None, committer: Committer | None = None) -> CommitRun:
        chosen = committer or self.committer
        return chosen._run(made or request("ours"), "u1", self.store, rides=False, crowded=False)

    def prepared(self, made: CommitRequest | None = None) -> tuple[CommitRun, ev.SnapshotPrepared]:
        """A commit whose files are durable and whose snapshot was not sent yet."""
        run = self.run(made)
        latest = resolved(run)
        assert isinstance(run.collect_changes(do.CollectChanges(latest.base)), ev.ChangesCollected)
        run.compact_manifests(do.CompactManifests(latest.base, False))
        for effect in (do.WriteBaseList(latest.base), do.WriteDeltaList(latest.base), do.UploadData()):
            for file in run.uploads(effect)[0]:
                run.write(file)
        event = run.prepare_snapshot(do.PrepareSnapshot(ours(run)))
        assert isinstance(event, ev.SnapshotPrepared)
        return run, event

    def sent(self) -> tuple[CommitRun, ev.SnapshotPrepared]:
        """The same, and its snapshot is published."""
        run, event = self.prepared()
        assert run.publish(do.Publish(event.snapshot, 1)) == ev.SnapshotPublished()
        return run, event


def request(name: str, of: type[CommitRequest] = CommitRequest, **more: Any) -> CommitRequest:
    entry = ManifestEntry(ADD, EMPTY_ROW, 0, -1, DataFile(name, 4, 5))
    upload = PendingUpload(f"bucket-0/{name}", b"rows")
    return of(**{"kind": "APPEND", "entries": (entry,), "commit_user": "etl", "uploads": (upload,), **more})


def resolved(run: CommitRun) -> ev.LatestResolved:
    event = run.resolve_latest(do.ResolveLatest(1, None))
    assert isinstance(event, ev.LatestResolved)
    return event


def ours(run: CommitRun) -> SnapshotRef:
    assert run.attempt is not None
    return run.attempt.ours
