"""A store with something to do before or after it creates a file, so that writers meet at a chosen moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakelatch.backends.store import PutOutcome, Store

Due = dict[str, Callable[[], Any]]
"""What to do, once, at the first file whose key begins with this prefix."""


class HookedStore:
    """Everything else is the store's own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.before: Due = {}
        self.after: Due = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        _do(self.before, key)
        answer = self._store.put_if_absent(key, data)
        _do(self.after, key)
        return answer


def _do(due: Due, key: str) -> None:
    prefix = next((prefix for prefix in due if key.startswith(prefix)), None)
    if prefix is not None:
        due.pop(prefix)()
