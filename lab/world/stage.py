"""The environment of one actor: its own store, clock, random choices and ids, and the outcomes that it reported.

Owns: `Stage`, `Told`, virtual surroundings, executors without threads. Must not know: schedules, invariants, what actors do.
Invariant: an actor's behaviour depends on the replies that it received, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from uuid import UUID

import pyarrow as pa

from ...backends.probe import PROBED
from ...backends.store import PutOutcome
from ...coordinator.commit.committer import Committer
from ...coordinator.history.timeline import Timeline
from ...coordinator.journal.lines import Entry
from ...coordinator.journal.object_journal import ObjectJournal
from ...coordinator.protocol.events import Event
from ...coordinator.protocol.snapshot_ref import SnapshotRef
from ...coordinator.surroundings import Surroundings
from ...core.metadata.schema import TableSchema, new_schema, parse_schema
from ...core.paths import TablePaths
from ...core.places import FileKeys
from ...core.rows.arrow import from_arrow_schema
from .simulated_store import Reply, Request, SimulatedStore

PATHS = TablePaths()
START_S = 1_700_000_000.0
BEGAN = "began"
"""What a rider tells before it commits, in the place of properties: `detail` is the identity of the snapshot that it read."""


def lab_schema(**options: str) -> TableSchema:
    """A schema of one column. Manifests are not compressed, because they are read and written a million times."""
    return _schema((), options)


def partitioned_schema(**options: str) -> TableSchema:
    return _schema(("p",), options)


def keyed_schema(**options: str) -> TableSchema:
    columns = pa.schema([pa.field("k", pa.int32(), nullable=False), ("v", pa.int64())])
    texts = {"bucket": "1", "manifest.compression": "none", "commit.max-retries": "1000", **options}
    return new_schema(from_arrow_schema(columns), primary_keys=("k",), options=texts)


def _schema(partition_keys: tuple[str, ...], options: Mapping[str, str]) -> TableSchema:
    columns = [("v", pa.int64()), *((key, pa.int32()) for key in partition_keys)]
    texts = {"manifest.compression": "none", "commit.max-retries": "1000", **options}
    return new_schema(from_arrow_schema(pa.schema(columns)), partition_keys=partition_keys, options=texts)


@lru_cache(maxsize=100)
def file_keys(schema_json: bytes) -> FileKeys:
    return FileKeys(parse_schema(schema_json, "schema"))


def file_of(*rows: str, made_by: str = "") -> str:
    """The name of the data file that holds rows, which names the commits that made them or the compaction that wrote it.

    >>> file_of("A1", "B1", made_by="C1"), rows_in("data-A1+B1@C1.parquet")
    ('data-A1+B1@C1.parquet', ('A1', 'B1'))
    """
    return f"data-{'+'.join(rows)}{'@' if made_by else ''}{made_by}.parquet"


def rows_in(file_name: str) -> tuple[str, ...]:
    names = file_name.removeprefix("data-").removesuffix(".parquet").partition("@")[0]
    return tuple(names.split("+")) if names else ()


@dataclass(frozen=True, slots=True)
class Told:
    """What the caller of one commit was told.

    Attributes:
        commit: the label of the commit, which is also part of the name of its data file.
        outcome: "committed", "not committed" or "unknown"; `BEGAN` before that.
        detail: the error's code, "replayed" for a replay, otherwise empty.
        snapshot: the snapshot in which it landed, or the one to look for.
        rows: the names of those that it adds; None for a single row that is named after the commit.
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
    """The requests that go out concurrently: those of one pool, and those of its owner while the pool is open.

    Attributes:
        open_pools: the number of pools that are open as a block.
        longest_s: the longest latency so far. A further concurrent request costs only the time by which it is slower.
    """

    pool: object = None
    inside: bool = False
    open_pools: int = 0
    longest_s: float = 0.0

    def extra_s(self, latency_s: float) -> float:
        if not self.inside and not self.open_pools:
            self.begin(None)
        extra_s = max(0.0, latency_s - self.longest_s)
        self.longest_s = max(self.longest_s, latency_s)
        return extra_s

    def begin(self, pool: object) -> None:
        """Begin a new batch: later requests are not concurrent with earlier ones."""
        self.pool, self.longest_s = pool, 0.0


class Here(Executor):
    """Runs work at once in the caller. An error that is not an `Exception` ends the caller."""

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
    """Keeps work until a result is requested. It stands for work that is done after the outcome was reported."""

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
    now_s: float = 0.0
    skew_s: float = 0.0


@dataclass
class Stage:
    """The environment of one actor.

    Attributes:
        number: its uuids begin with it.
        beside: a journal beside the table, from which commits can be recovered.
        first_schema: the bytes of schema 0 when this actor opened the table; None if they do not matter.
        time_passes: waits take (virtual) time. The explorer tries every order of requests instead.
        while_others_play: entered when it hands over control, and left when it goes on.
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
    time_passes: bool = False
    while_others_play: Callable[[], AbstractContextManager[Any]] = nullcontext
    _ids: int = 0

    def __post_init__(self) -> None:
        self.around = Surroundings(
            wall_s=lambda: START_S + self.clock.now_s + self.clock.skew_s,
            monotonic_s=lambda: self.clock.now_s,
            sleep=self.sleep,
            new_uuid=self._new_uuid,
            uniform=self.uniform,
            executor=self._executor,
            time_passes=self.time_passes,
        )
        self.store = SimulatedStore(self.wire, self.around, self.sends)
        PROBED.remember(self.store.url)

    def committer(self) -> Committer:
        return Committer(self.store, PATHS, self.schema, self, self.around, self.first_schema)

    def committer_with(self, schema: TableSchema) -> Committer:
        return Committer(self.store, PATHS, schema, self, self.around, self.first_schema)

    def timeline(self) -> Timeline:
        return Timeline(self.store, PATHS, self.around.executor)

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
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
    """The actor's process has died."""


class Paused(BaseException):
    def __init__(self, request: Request) -> None:
        super().__init__(request.label)
        self.request = request


@contextmanager
def read_only(objects: Any) -> Iterator[Timeline]:
    from .simulated_store import answer

    stage = Stage("reader", 0, lambda request: answer(objects, request)[1])
    yield stage.timeline()
