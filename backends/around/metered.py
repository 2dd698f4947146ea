"""A store wrapper that counts requests by operation, bytes, and the longest chain of sequential round trips.

Owns: the counts, and the report of each request to a listener. Must not know: any particular store, the purpose of requests.
Invariants: it changes no answer. Every request is counted when it ends, whether it succeeded or failed. Readings are
consistent under many threads. Files opened for reading go through `get_range`, as in an object store.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, TypeVar

from ...core.errors import LakelatchError
from ..files.open_files import OutputFile, RangeInput
from ..requests.threads import forked_lock
from ..store import AlreadyThere, Capabilities, Created, ObjectInfo, ObjectNotFound, PutOutcome, Store, Unknown

T = TypeVar("T")

_PAGE = 1000
"""The keys that one request lists. Also those that one request deletes, unless the store says otherwise."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The requests through a `MeteredStore` since it was made or reset.

    Attributes:
        by_operation: `get`, `get_range`, `head`, `put`, `put_if_absent`, `list`, `delete_many`.
        bytes_in, bytes_out: read from and sent to the store.
        sequential_depth: the length of the longest chain of requests in which each began after the previous one had ended.
    """

    by_operation: MappingProxyType[str, int]
    bytes_in: int
    bytes_out: int
    sequential_depth: int

    @property
    def requests(self) -> int:
        return sum(self.by_operation.values())


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """One request that ended.

    Attributes:
        operation: as in `Usage.by_operation`.
        key: of the object, or the prefix of the listing, or the first of the deleted keys.
        outcome: `ok`; for `put_if_absent` `created`, `already there` or `unknown`; `not found`; otherwise the error's
            code, or the name of its class if it is not one of lakelatch's errors.
        requests: how many it stands for: objects may be sent in parts, and keys deleted in pages.
        sent, received: in bytes.
    """

    operation: str
    key: str
    outcome: str
    seconds: float
    requests: int
    sent: int
    received: int


class MeteredStore:
    """Wraps a store and counts its requests. `heard` is called with every request as it ends, on the thread that made
    it. It must not raise.

    >>> from ..memory import MemoryStore
    >>> store = MeteredStore(MemoryStore("memory://doctest-metered"))
    >>> store.put("a", b"12345"); store.get("a")
    b'12345'
    >>> usage = store.snapshot()
    >>> usage.requests, usage.bytes_in, usage.bytes_out, usage.sequential_depth
    (2, 5, 5, 2)
    """

    def __init__(self, store: Store, heard: Callable[[StoreRequest], None] | None = None) -> None:
        self.inner = store
        self._heard = heard
        self._lock = forked_lock()
        self._clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return MeteredStore, (self.inner,)  # an unpickled copy starts its own counts

    def __repr__(self) -> str:
        return f"MeteredStore({self.inner!r})"

    def reset(self) -> None:
        with self._lock:
            self._clear()

    def snapshot(self) -> Usage:
        with self._lock:
            counts = MappingProxyType(dict(self._counts))
            return Usage(counts, self._bytes_in, self._bytes_out, self._depth)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    def get(self, key: str) -> bytes:
        return self._counted("get", key, lambda: self.inner.get(key), received=len)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._counted("get_range", key, lambda: self.inner.get_range(key, start, end), received=len)

    def head(self, key: str) -> ObjectInfo:
        return self._counted("head", key, lambda: self.inner.head(key))

    def put(self, key: str, data: bytes) -> None:
        self._counted("put", key, lambda: self.inner.put(key, data), sent=len(data))

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return self._counted("put_if_absent", key, lambda: self.inner.put_if_absent(key, data), sent=len(data))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._listed(prefix, self.inner.list(prefix))

    def glance(self, prefix: str) -> Iterator[ObjectInfo]:
        """As `list`, of objects that may be missed without harm, if the store has a cheaper way for that."""
        return self._listed(prefix, getattr(self.inner, "glance", self.inner.list)(prefix))

    def delete_many(self, keys: Iterable[str]) -> None:
        doomed = tuple(keys)
        requests = -(-len(doomed) // getattr(self.inner, "delete_page", _PAGE))
        if requests:
            self._counted("delete_many", doomed[0], lambda: self.inner.delete_many(doomed), requests=requests)

    def open_input(self, key: str, size: int | None = None) -> Any:
        return RangeInput(self, key, size)

    def open_output(self, key: str) -> Any:
        return _MeteredOutput(self, self.inner.open_output(key))

    def _clear(self) -> None:
        self._counts: Counter[str] = Counter()
        self._bytes_in = self._bytes_out = 0
        self._depth, self._chain_end = 0, float("-inf")

    def _counted(
        self,
        operation: str,
        key: str,
        request: Callable[[], T],
        *,
        requests: int = 1,
        sent: int = 0,
        received: Callable[[T], int] | None = None,
    ) -> T:
        start, count, outcome = time.monotonic(), 0, "interrupted"
        try:
            answer = request()
            count, outcome = received(answer) if received is not None else 0, _outcome_of(answer)
            return answer
        except Exception as error:
            outcome = _failure_of(error)
            raise
        finally:
            self._add(operation, key, start, requests, sent, count, outcome)

    def _add(
        self, operation: str, key: str, start: float, requests: int, sent: int, received: int, outcome: str
    ) -> None:
        end = time.monotonic()
        with self._lock:
            self._counts[operation] += requests
            self._bytes_out += sent
            self._bytes_in += received
            # Requests arrive in the order of their ends, so this greedy choice of the next one gives the longest chain.
            if start >= self._chain_end:
                self._depth, self._chain_end = self._depth + 1, end
        if self._heard is not None:
            self._heard(StoreRequest(operation, key, outcome, end - start, requests, sent, received))

    def _listed(self, prefix: str, listing: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        # One request per page; the time that the caller spends between two objects is not counted.
        page: list[ObjectInfo] = []
        first = True
        while first or len(page) == _PAGE:
            start, page, outcome = time.monotonic(), [], "ok"
            try:
                page.extend(islice(listing, _PAGE))
            except Exception as error:
                outcome = _failure_of(error)
                raise
            finally:
                if first or page:
                    self._add("list", prefix, start, 1, 0, 0, outcome)
            first = False
            yield from page


def _outcome_of(answer: object) -> str:
    match answer:
        case Created():
            return "created"
        case AlreadyThere():
            return "already there"
        case Unknown():
            return "unknown"
    return "ok"


def _failure_of(error: Exception) -> str:
    if isinstance(error, ObjectNotFound):
        return "not found"
    return error.code if isinstance(error, LakelatchError) else type(error).__name__


class _MeteredOutput(OutputFile):
    def __init__(self, meter: MeteredStore, inner: Any) -> None:
        super().__init__(inner.key)
        self._meter = meter
        self._inner = inner

    def _append(self, data: memoryview) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        start, outcome = time.monotonic(), "ok"
        try:
            self._inner.close()
        except Exception as error:
            outcome = _failure_of(error)
            raise
        finally:
            self.requests = self._inner.requests
            self._meter._add("put", self.key, start, max(1, self.requests), self.tell(), 0, outcome)

    def _discard(self) -> None:
        self._inner.abort()
