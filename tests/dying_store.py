"""A store in memory whose process dies at its n-th request: just before the request is applied, or just after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.requests.threads import forked_lock
from lakelatch.backends.store import ObjectInfo, PutOutcome


class Died(BaseException):
    """Nothing catches it, so nothing is tidied up."""


class DyingStore(MemoryStore):
    """Counts every request. From number `last` on, each raises `Died`; with `applied`, the first of them still takes effect."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.requests, self.last, self.applied = 0, 10**9, False
        self.guard = forked_lock()

    def doomed(self) -> bool:
        """Count a request. Raises where the process is dead; True if it dies once the request was applied."""
        with self.guard:
            self.requests += 1
            now = self.requests
        if now > self.last or (now == self.last and not self.applied):
            raise Died
        return now == self.last

    def get(self, key: str) -> bytes:
        if self.doomed():
            raise Died
        return super().get(key)

    def head(self, key: str) -> ObjectInfo:
        if self.doomed():
            raise Died
        return super().head(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if self.doomed():
            raise Died
        return super().list(prefix)

    def put(self, key: str, data: bytes) -> None:
        dies = self.doomed()
        super().put(key, data)
        if dies:
            raise Died

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        dies = self.doomed()
        answer = super().put_if_absent(key, data)
        if dies:
            raise Died
        return answer

    def delete_many(self, keys: Iterable[str]) -> None:
        for key in keys:
            dies = self.doomed()
            super().delete_many([key])
            if dies:
                raise Died


def contents(store: MemoryStore) -> dict[str, bytes]:
    """Every object of a store."""
    return {info.key: MemoryStore.get(store, info.key) for info in MemoryStore.list(store, "")}
