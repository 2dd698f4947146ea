"""A store wrapper that fails on purpose, driven by a seed, to test the callers that commit through it.

Owns: the faults, when they strike, the log of them. Must not know: any particular store, the purpose of requests.
Invariants: whether a request is hit depends only on the seed, the operation, the key and the number of earlier requests for
it, so that a seed can be replayed under any order of threads. An answer of success is always true. A late write is unchanged.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from threading import RLock
from typing import Any, TypeVar

from ...core.errors import StoreUnavailable
from ..files.open_files import OutputFile, RangeInput
from ..store import Capabilities, ObjectInfo, PutOutcome, Store, Unknown

T = TypeVar("T")

OPERATIONS = ("get", "get_range", "head", "put", "put_if_absent", "list", "delete_many")


@dataclass(frozen=True, slots=True)
class Faults:
    """The probability of each fault per request, from 0 to 1 and together at most 1.

    Attributes:
        error: the connection is cut before the request reaches the store.
        lost: the store carries the request out, but its answer is lost (H2).
        refused: the store refuses and does nothing (credentials, rights).
        throttled: the store answers "slow down" until the adapter gives up, and does nothing (H4).
        delayed: the right answer comes `FaultyStore.delay_seconds` later.
        duplicate: the client sends the request twice and returns the answer to the second send (H3).
        stale: a listing lacks its newest numbered object (H7). Other requests are not affected.
        late: no answer now; the request lands after `FaultyStore.late_after` further requests, or at `settle()` (H9). For
            reads and streamed outputs it is an `error` instead.
    """

    error: float = 0.0
    lost: float = 0.0
    refused: float = 0.0
    throttled: float = 0.0
    delayed: float = 0.0
    duplicate: float = 0.0
    stale: float = 0.0
    late: float = 0.0


@dataclass(frozen=True, slots=True)
class Struck:
    """One fault that struck: the request, the fault, and the number of earlier requests for the key."""

    operation: str
    key: str
    fault: str
    number: int


class FaultyStore:
    """Wraps a store and injects faults by a seed.

    Args:
        plan: operation -> its faults; `"*"` stands for every operation that is not listed.
        sleep: called with the seconds of a delay.
        on_strike: called with each fault as it strikes.

    >>> from ..memory import MemoryStore
    >>> store = FaultyStore(MemoryStore("memory://doctest-faulty"), 1, {"put_if_absent": Faults(lost=1.0)})
    >>> store.put_if_absent("a", b"there")
    Unknown(reason='injected: the answer was lost')
    >>> store.get("a"), [struck.fault for struck in store.log]
    (b'there', ['lost'])
    """

    def __init__(
        self,
        store: Store,
        seed: int,
        plan: Mapping[str, Faults],
        *,
        sleep: Callable[[float], None] = time.sleep,
        on_strike: Callable[[Struck], None] = lambda struck: None,
    ) -> None:
        unknown = set(plan) - {*OPERATIONS, "*"}
        if unknown:
            raise ValueError(f"no operation is called {sorted(unknown)}")
        self.inner = store
        self.seed = seed
        self.plan = dict(plan)
        self.delay_seconds = 0.05
        self.late_after = 3
        self._sleep, self._on_strike = sleep, on_strike
        self._lock = RLock()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._log: list[Struck] = []
        self._late: list[tuple[int, Callable[[], object]]] = []
        self._requests = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return FaultyStore, (self.inner, self.seed, self.plan)

    def __repr__(self) -> str:
        return f"FaultyStore({self.inner!r}, seed={self.seed})"

    @property
    def log(self) -> tuple[Struck, ...]:
        with self._lock:
            return tuple(self._log)

    def settle(self) -> None:
        """Carry out every late request that has not landed yet."""
        self._land(None)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def get(self, key: str) -> bytes:
        return self._struck("get", key, lambda: self.inner.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._struck("get_range", key, lambda: self.inner.get_range(key, start, end))

    def head(self, key: str) -> ObjectInfo:
        return self._struck("head", key, lambda: self.inner.head(key))

    def put(self, key: str, data: bytes) -> None:
        self._struck("put", key, lambda: self.inner.put(key, data), may_be_late=True)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        try:
            return self._struck("put_if_absent", key, lambda: self.inner.put_if_absent(key, data), may_be_late=True)
        except _Unanswered as fault:
            return Unknown(fault.message)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        def listed() -> Iterator[ObjectInfo]:
            return self.inner.list(prefix)

        return self._struck("list", prefix, listed, stale=lambda: _without_newest(listed()))

    def delete_many(self, keys: Iterable[str]) -> None:
        doomed = tuple(keys)
        first = doomed[0] if doomed else ""
        self._struck("delete_many", first, lambda: self.inner.delete_many(doomed), may_be_late=True)

    def open_input(self, key: str, size: int | None = None) -> Any:
        return RangeInput(self, key, size)

    def open_output(self, key: str) -> Any:
        return _FaultyOutput(self, self.inner.open_output(key))

    def _struck(
        self,
        operation: str,
        key: str,
        request: Callable[[], T],
        *,
        may_be_late: bool = False,
        stale: Callable[[], T] | None = None,
    ) -> T:
        fault = self._fault(operation, key, may_be_late)
        self._land(self._requests)
        match fault:
            case "error":
                raise _Unanswered(f"{self.url}: {operation} {key}: injected: cut before the store saw it")
            case "refused":
                raise StoreUnavailable(f"{self.url}: {operation} {key}: injected: access denied")
            case "throttled":
                raise _Unanswered(f"{self.url}: {operation} {key}: injected: slow down")
            case "late":
                with self._lock:
                    self._late.append((self._requests + self.late_after, request))
                raise _Unanswered(f"{self.url}: {operation} {key}: injected: no answer yet")
            case "lost":
                request()
                raise _Unanswered("injected: the answer was lost")
            case "duplicate":
                request()
            case "stale" if stale is not None:
                return stale()
            case "delayed":
                self._sleep(self.delay_seconds)
        return request()

    def _fault(self, operation: str, key: str, may_be_late: bool) -> str:
        with self._lock:
            self._requests += 1
            number = self._asked[operation, key]
            self._asked[operation, key] += 1
            text = f"{self.seed}|{operation}|{key}|{number}"
            dice = (
                int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")
                / 2**56
            )
            faults = self.plan.get(operation, self.plan.get("*", Faults()))
            for field in fields(faults):
                dice -= getattr(faults, field.name)
                if dice < 0:
                    if field.name == "stale" and operation != "list":
                        return ""
                    fault = "error" if field.name == "late" and not may_be_late else field.name
                    struck = Struck(operation, key, fault, number)
                    self._log.append(struck)
                    self._on_strike(struck)
                    return fault
        return ""

    def _land(self, now: int | None) -> None:
        with self._lock:
            due = [request for at, request in self._late if now is None or at <= now]
            self._late = [(at, request) for at, request in self._late if now is not None and at > now]
        for request in due:
            request()


def _without_newest(listed: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
    """A listing that is out of date: of the names that end in a number, the highest is missing, unless it is the only one."""
    found = list(listed)
    numbers = [(int(number), at) for at, info in enumerate(found) if (number := info.key.rpartition("-")[2]).isdigit()]
    missing = max(numbers)[1] if len(numbers) > 1 else None
    return (info for at, info in enumerate(found) if at != missing)


class _Unanswered(StoreUnavailable):
    """An injected error that leaves open whether the request was carried out."""


class _FaultyOutput(OutputFile):
    def __init__(self, store: FaultyStore, inner: Any) -> None:
        super().__init__(inner.key)
        self._store = store
        self._inner = inner

    def _append(self, data: memoryview) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        self._store._struck("put", self.key, self._inner.close)
        self.requests = self._inner.requests

    def _discard(self) -> None:
        self._inner.abort()
