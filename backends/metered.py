"""A store that counts: requests by operation, bytes, and how many round trips were waited for one after another.

Owns: the counts. Must not know: any particular store, what the requests are for. It changes no answer.
Invariants: every request that goes through is counted when it ended, whether it was answered or failed; readings are
consistent under many threads. Files opened for reading go through `get_range`, as an object store would be read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeVar

from .files import OutputFile, RangeInput
from .store import Capabilities, ObjectInfo, PutOutcome, Store

T = TypeVar("T")

_PAGE = 1000
"""Keys that one request lists, or deletes where the store does not say otherwise."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What went through a `MeteredStore` since it was made or reset.

    Attributes:
        by_operation: requests per operation (`get`, `get_range`, `head`, `put`, `put_if_absent`, `list`, `delete_many`).
        bytes_in: bytes read from the store.
        bytes_out: bytes sent to the store.
        sequential_depth: length of the longest chain of requests of which each began after the one before had ended.
    """

    by_operation: MappingProxyType[str, int]
    bytes_in: int
    bytes_out: int
    sequential_depth: int

    @property
    def requests(self) -> int:
        """All of them."""
        return sum(self.by_operation.values())


class MeteredStore:
    """A store with counters around it.

    >>> from .memory import MemoryStore
    >>> store = MeteredStore(MemoryStore("memory://doctest-metered"))
    >>> store.put("a", b"12345"); store.get("a")
    b'12345'
    >>> usage = store.snapshot()
    >>> usage.requests, usage.bytes_in, usage.bytes_out, usage.sequential_depth
    (2, 5, 5, 2)
    """

    def __init__(self, store: Store) -> None:
        self.inner = store
        self._lock = Lock()
        self._clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return MeteredStore, (self.inner,)  # a copy elsewhere counts for itself

    def __repr__(self) -> str:
        return f"MeteredStore({self.inner!r})"

    def reset(self) -> None:
        """Begin to count anew."""
        with self._lock:
            self._clear()

    def snapshot(self) -> Usage:
        """The counts so far."""
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
        return self._counted("get", lambda: self.inner.get(key), received=len)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._counted("get_range", lambda: self.inner.get_range(key, start, end), received=len)

    def head(self, key: str) -> ObjectInfo:
        return self._counted("head", lambda: self.inner.head(key))

    def put(self, key: str, data: bytes) -> None:
        self._counted("put", lambda: self.inner.put(key, data), sent=len(data))

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        return self._counted("put_if_absent", lambda: self.inner.put_if_absent(key, data), sent=len(data))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._listed(self.inner.list(prefix))

    def delete_many(self, keys: Iterable[str]) -> None:
        doomed = tuple(keys)
        requests = -(-len(doomed) // getattr(self.inner, "delete_page", _PAGE))
        if requests:
            self._counted("delete_many", lambda: self.inner.delete_many(doomed), requests=requests)

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
        request: Callable[[], T],
        *,
        requests: int = 1,
        sent: int = 0,
        received: Callable[[T], int] | None = None,
    ) -> T:
        start, count = time.monotonic(), 0
        try:
            answer = request()
            count = received(answer) if received is not None else 0
            return answer
        finally:
            self._add(operation, start, requests, sent, count)

    def _add(self, operation: str, start: float, requests: int, sent: int, received: int) -> None:
        with self._lock:
            self._counts[operation] += requests
            self._bytes_out += sent
            self._bytes_in += received
            # Requests come here in the order of their ends: taking each that begins after the last one taken is longest.
            if start >= self._chain_end:
                self._depth, self._chain_end = self._depth + 1, time.monotonic()

    def _listed(self, listing: Iterator[ObjectInfo]) -> Iterator[ObjectInfo]:
        # One request per page: the time that the caller takes between two objects is not the store's.
        page: list[ObjectInfo] = []
        first = True
        while first or len(page) == _PAGE:
            start, page = time.monotonic(), []
            try:
                page.extend(islice(listing, _PAGE))
            finally:
                if first or page:
                    self._add("list", start, 1, 0, 0)
            first = False
            yield from page


class _MeteredOutput(OutputFile):
    """Hands every byte on; the object counts as its requests when it is closed."""

    def __init__(self, meter: MeteredStore, inner: Any) -> None:
        super().__init__(inner.key)
        self._meter = meter
        self._inner = inner

    def _append(self, data: memoryview) -> None:
        self._inner.write(data)

    def _publish(self) -> None:
        start = time.monotonic()
        try:
            self._inner.close()
        finally:
            self.requests = self._inner.requests
            self._meter._add("put", start, max(1, self.requests), self.tell(), 0)

    def _discard(self) -> None:
        self._inner.abort()
