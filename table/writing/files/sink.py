"""A data file that is being written: in memory while it is small, in the store once it is larger.

Owns: `SpillingSink`. Must not know: what the bytes mean. Source: format/data-files §4.
Invariant: At most `SPILL_BYTES` of a file are in memory, besides what the store's own output holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....backends.elsewhere import located
from ....backends.store import Store
from ....coordinator.commit.message import PendingUpload
from ....core.places import is_external

TRAVELLING_BYTES = 4 << 20
"""A finished file up to this size may be stored together with its commit."""
SPILL_BYTES = 16 << 20


class SpillingSink:
    """A file that is being written. Its key is a whole URL if it is stored outside the table's folder."""

    def __init__(self, store: Store, key: str) -> None:
        self.key = key
        self._store, self._key = located(store, key)
        self._parts: list[bytes] = []
        self._held = 0
        self._output: Any = None
        self._tail: list[bytes] | None = None
        self.size = 0
        self.closed = False
        self._aborted = False

    def write(self, data: Any) -> int:
        block = bytes(data)
        if self._aborted:
            return len(block)  # Arrow's writer of a Parquet file ends the file when it is collected
        self.size += len(block)
        if self._tail is not None:
            self._tail.append(block)
            return len(block)
        if self._output is not None:
            self._output.write(block)
            return len(block)
        self._parts.append(block)
        self._held += len(block)
        if self._held > SPILL_BYTES:
            self._output = self._store.open_output(self._key)
            for part in self._parts:
                self._output.write(part)
            self._parts = []
        return len(block)

    def hold(self) -> None:
        """Hold back the bytes that are written from now on."""
        self._tail = []

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Write the bytes that were held back, after changing them."""
        held = b"".join(self._tail or ())
        self._tail = None
        self.size -= len(held)
        self.write(change(held))

    def tell(self) -> int:
        return self.size

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def finish(self, travelling: bool) -> PendingUpload | None:
        """Make the file durable, or return its bytes if it is small and may be stored with the commit."""
        if self._output is not None:
            self._output.close()
            return None
        data = b"".join(self._parts)
        if travelling and len(data) <= TRAVELLING_BYTES and not is_external(self.key):
            return PendingUpload(self._key, data)
        self._store.put(self._key, data)
        return None

    def abort(self) -> None:
        """Discard the file, and what is still written to it."""
        self._parts, self._aborted = [], True
        if self._output is not None:
            self._output.abort()
