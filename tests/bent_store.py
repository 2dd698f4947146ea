"""A store in memory for tests of maintenance: something happens just before a snapshot is created, or its create has no answer.

Owns: `Bent`. Must not know: what the tests do.
"""

from __future__ import annotations

from typing import Any

from lakelatch.backends.memory import MemoryStore
from lakelatch.backends.store import PutOutcome, Unknown


class Bent(MemoryStore):
    """Runs a hook just before the next snapshot is created, or never answers."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.before: list[Any] = []
        self.silent = False

    def put_if_absent(self, key: str, data: bytes) -> PutOutcome:
        if key.startswith("snapshot/snapshot-"):
            if self.before:
                self.before.pop(0)()
            if self.silent:
                return Unknown("timeout")
        return super().put_if_absent(key, data)
