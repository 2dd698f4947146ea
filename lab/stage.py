"""Where an actor plays: its own store, clock, dice and ids, and what it told its caller.

Owns: `Stage`, `Told`, virtual surroundings, executors without threads. Must not know: schedules, invariants, what actors do.
Invariant: what an actor does is a function of the replies that it was given, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from ..backends.probe import PROBED
from ..backends.store import PutOutcome
from ..coordinator.commit.committer import Committer
from ..coordinator.history.timeline import Timeline
from ..coordinator.journal.lines import Entry
from ..coordinator.journal.object_journal import ObjectJournal
from ..coordinator.protocol.events import Event, SnapshotRef
from ..coordinator.surroundings import Surroundings
from ..core.metadata.schema import TableSchema, new_schema, parse_schema
from ..core.paths import TablePaths
from ..core.places import FileKeys
from ..core.rows.arrow import from_arrow_schema
from .simulated_store import Reply, Request, SimulatedStore

PATHS = TablePaths()
START_S = 1_700_000_000.0


def lab_schema(**options: str) -> TableSchema:
    """One column; manifests without compression: they are read and written a million times."""
    return _schema((), options)


def partitioned_schema(**options: str) -> TableSchema:
    """The same, partitioned by a second column, `p`."""
    return _schema(("p",), options)


def _schema(partition_keys: tuple[str, ...], options: Mapping[str, str]) -> TableSchema:
    columns = [("v", pa.int64()), *((key, pa.int32()) for key in partition_keys)]
    texts = {"manifest.compression": "none", "commit.max-retries": "1000", **options}
    return new_schema(from_arrow_schema(pa.schema(columns)), partition_keys=partition_keys, options=texts)


@lru_cache(maxsize=100)
def file_keys(schema_json: bytes) -> FileKeys:
    """Where the files of a table with such a schema lie."""
    return FileKeys(parse_schema(schema_json, "schema"))


def file_of(*rows: str, made_by: str = "") -> str:
    """The data file that holds some rows.

    Args:
        rows: each by the name of the commit that made it; one that makes a row per partition names them `A1~0`, `A1~1`.
        made_by: a compaction, which adds none of its own.

    >>> file_of("A1", "B1", made_by="C1"), rows_in("data-A1+B1@C1.parquet")
    ('data-A1+B1@C1.parquet', ('A1', 'B1'))
    """
    return f"data-{'+'.join(rows)}{'@' if made_by else ''}{made_by}.parquet"


def rows_in(file_name: str) -> tuple[str, ...]:
    """The rows that a data file holds, in their order."""
    names = file_name.removeprefix("data-").removesuffix(".parquet").partition("@")[0]
    return tuple(names.split("+")) if names else ()


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller was told of one commit.

    Attributes:
        commit: label of the commit: it names its data file.
        outcome: "committed", "not committed" or "unknown".
        detail: the error's code, "replayed" for a replay, else empty.
        snapshot: where it landed, or what to look for.
        rows: the names of the rows that it adds; None where there is one, which is named after the commit.
        deletes: the names of the rows that it marks as deleted.
    """

    commit: str
    outcome: str
    detail: str
    snapshot: SnapshotRef | None
    rows: tuple[str, ...] | None = None
    deletes: tuple[str, ...] = ()

    @property
    def added(self) -> tuple[str, ...]:
        return (self.commit,) if self.rows is None else self.rows


@dataclass
class Batch:
    """Which requests go out side by side: those of one pool, and what its owner asks while the pool is open.

    Attributes:
        open_pools: how many pools are open as a block.
        longest_s: of the requests so far: what goes out beside them costs only what it takes longer.
    """

    pool: object = None
    inside: bool = False
    open_pools: int = 0
    longest_s: float = 0.0

    def extra_s(self, latency_s: float) -> float:
        """Seconds that a request of such a latency costs its asker, beside the others."""
        if not self.inside and not self.open_pools:
            self.begin(None)
        extra_s = max(0.0, latency_s - self.longest_s)
        self.longest_s = max(self.longest_s, latency_s)
        return extra_s

    def begin(self, pool: object) -> None:
        """Requests from here on do not go out beside earlier ones."""
        self.pool, self.longest_s = pool, 0.0


class Here(Executor):
    """Runs what it is given at once, in the caller; what is no `Exception` ends the caller."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __enter__(self) -> Here:
        self._batch.begin(self)
        self._batch.open_pools += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._batch.open_pools -= 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if self._batch.pool is not self:
            self._batch.begin(self)
        self._batch.inside = True
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        finally:
            self._batch.inside = False
        return future


class Later(Executor):
    """Keeps what it is given until somebody wants a result: what is done after the caller was told."""

    def __init__(self) -> None:
        self._waiting: list[Callable[[], Any]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._waiting.append(lambda: fn(*args, **kwargs))
        return _Wanted(self._run)

    def _run(self) -> None:
        while self._waiting:
            self._waiting.pop(0)()


class _Wanted(Future[Any]):
    def __init__(self, run: Callable[[], None]) -> None:
        super().__init__()
        self._run = run

    def result(self, timeout: float | None = None) -> Any:
        self._run()
        return None


@dataclass
class Clock:
    """An actor's own time, in seconds since the stage was set."""

    now_s: float = 0.0
    skew_s: float = 0.0


@dataclass
class Stage:
    """What one actor has.

    Attributes:
        number: of the actor; its uuids begin with it.
        wire: where its requests go.
        told: what its callers were told so far.
        events: what its commit machines saw so far.
        fixed_jitter: waits are as long as they can be (the explorer has no dice).
        beside: a journal beside the table, for commits to be recovered from.
        first_schema: the bytes of schema 0 when this actor opened the table; None where that does not matter.
    """

    name: str
    number: int
    wire: Callable[[Request], Reply]
    clock: Clock = field(default_factory=Clock)
    sleep: Callable[[float], None] = lambda seconds: None
    uniform: Callable[[float, float], float] = lambda low, high: high
    schema: TableSchema = field(default_factory=lab_schema)
    sends: int = 2
    told: list[Told] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    on_event: Callable[[], None] = lambda: None
    batch: Batch = field(default_factory=Batch)
    beside: ObjectJournal | None = None
    first_schema: bytes | None = None
    _ids: int = 0

    def __post_init__(self) -> None:
        self.around = Surroundings(
            wall_s=lambda: START_S + self.clock.now_s + self.clock.skew_s,
            monotonic_s=lambda: self.clock.now_s,
            sleep=self.sleep,
            new_uuid=self._new_uuid,
            uniform=self.uniform,
            executor=self._executor,
        )
        self.store = SimulatedStore(self.wire, self.around, self.sends)
        PROBED.remember(self.store.url)

    def committer(self) -> Committer:
        """A fresh process's committer, as shipped."""
        return Committer(self.store, PATHS, self.schema, self, self.around, self.first_schema)

    def committer_with(self, schema: TableSchema) -> Committer:
        """A committer that writes by another schema, as one is made for a change of schema."""
        return Committer(self.store, PATHS, schema, self, self.around, self.first_schema)

    def timeline(self) -> Timeline:
        return Timeline(self.store, PATHS, self.around.executor)

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        """The journal of this actor's commits: as events, and beside the table where it keeps one there."""
        self.events.append(entry.event)
        self.on_event()
        return self.beside.record(entry, decisive) if self.beside is not None else None

    def conclude(self, commit: str) -> None:
        if self.beside is not None:
            self.beside.conclude(commit)

    def tell(self, told: Told) -> None:
        self.told.append(told)
        self.on_event()

    def _executor(self, threads: int, name: str) -> Executor:
        return Later() if name == "lakelatch-hint" else Here(self.batch)

    def _new_uuid(self) -> UUID:
        self._ids += 1
        return UUID(int=(self.number << 96) | self._ids)


class Died(BaseException):
    """The actor's process is gone."""


class Paused(BaseException):
    """The actor waits for the reply to `request`."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.label)
        self.request = request


@contextmanager
def read_only(objects: Any) -> Iterator[Timeline]:
    """The shipped reading of a store's contents, without faults."""
    from .simulated_store import answer

    stage = Stage("reader", 0, lambda request: answer(objects, request)[1])
    yield stage.timeline()
