"""A store in memory that does something just before its n-th request: another process acts, or this one dies."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import ObjectInfo, PutOutcome

COUNTER = itertools.count()


class Struck(MemoryStore):
    """Counts requests of every kind; before request `at` it calls `strike`.

    Attributes:
        asked: the requests so far, as operation and key.
    """

    def __init__(self, url: str = "", at: int = 0, strike: Callable[[], Any] = lambda: None) -> None:
        super().__init__(url or f"memory://struck-{next(COUNTER)}/table")
        self.at, self.strike, self.asked = at, strike, list[str]()
        self.turn = threading.RLock()

    def _ask(self, operation: str, key: str) -> None:
        with self.turn:
            self.asked.append(f"{operation} {key}")
            if len(self.asked) == self.at:
                self.strike()

    def plain(self) -> MemoryStore:
        """The same objects, for another process."""
        return MemoryStore(self.url)

    def get(self, key: str) -> bytes:
        self._ask("get", key)
        return super().get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self._ask("get_range", key)
        return super().get_range(key, start, end)

    def head(self, key: str) -> ObjectInfo:
        self._ask("head", key)
        return super().head(key)

    def put(self, key: str, data: bytes) -> None:
        self._ask("put", key)
        super().put(key, data)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        self._ask("create", key)
        return super().put_if_absent(key, data)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._ask("list", prefix)
        return super().list(prefix)

    def delete_many(self, keys: Iterable[str]) -> None:
        names = list(keys)
        self._ask("delete", ", ".join(names[:3]))
        super().delete_many(names)
