"""A store in memory whose process dies at a chosen request, and folders compared before and after."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from lakelatch.backends.memory import MemoryStore

_COUNTER = itertools.count()
_REQUESTS = ("get", "get_range", "head", "put", "put_if_absent", "list", "delete_many", "open_input", "open_output")


class Killed(BaseException):
    """The process is gone."""


class KilledStore(MemoryStore):
    """Dies at request number `at`, counted from 1, and at every one after it; never if `at` is None."""

    def __init__(self, url: str | None = None, at: int | None = None) -> None:
        super().__init__(url or f"memory://killed-{next(_COUNTER)}/t")
        self.at, self.seen = at, 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in _REQUESTS:
            return found

        def counted(*args: Any) -> Any:
            self.seen += 1
            if self.at is not None and self.seen >= self.at:
                raise Killed
            return found(*args)

        return counted


def contents(store: MemoryStore) -> dict[str, bytes]:
    """Every object under the store's root."""
    plain = MemoryStore(store.url)
    return {info.key: plain.get(info.key) for info in plain.list("")}


def copied(contents_: dict[str, bytes]) -> KilledStore:
    """A new store with these objects."""
    store = KilledStore()
    for key, data in contents_.items():
        MemoryStore(store.url).put(key, data)
    return store


def each_kill(start: dict[str, bytes], act: Callable[[KilledStore], object]) -> Iterator[tuple[int, KilledStore]]:
    """For each request of an action: a store in which the action was killed there. Begins with the first request."""
    for at in itertools.count(1):
        store = copied(start)
        store.at = at
        try:
            act(store)
        except Killed:
            store.at = None
            yield at, store
        else:
            return
