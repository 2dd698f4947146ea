"""File objects over a store: outputs that become an object when closed, and inputs that read ranges.

Owns: `OutputFile` (all or nothing), `RangeInput` (few requests). Must not know: any particular store, file formats.
Invariants: the object of an output appears complete at `close()`, or never. An exception inside `with`, `abort()` and an
output that is dropped without `close()` leave nothing visible. An input never requests bytes that it already holds.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Protocol

from ...core.errors import InvalidArgument

WHOLE_BYTES = 1 << 20
"""Objects up to this size are read with one request, however small the single reads are."""

TAIL_BYTES = 256 << 10
"""The size of the first request near the end of an object: it covers a Parquet footer and its length."""

BLOCK_BYTES = 64 << 10
"""The smallest request, so that many small reads do not become as many requests."""


class OutputFile(ABC):
    """A binary file that becomes an object at `close()`. Not thread-safe. `requests` counts those that it has taken so far."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.requests = 0
        self._written = 0
        self._state = "open"

    @abstractmethod
    def _append(self, data: memoryview) -> None:
        """Take the bytes. The buffer may change after the call returns."""

    @abstractmethod
    def _publish(self) -> None:
        """Make the object appear and durable. Called once."""

    @abstractmethod
    def _discard(self) -> None:
        """Remove everything written so far. Called at most once, also after a failed `_append` or `_publish`."""

    def write(self, data: Any) -> int:
        if self._state != "open":
            raise ValueError(f"write to {self._state} output {self.key}")
        view = memoryview(data).cast("B")
        if view.nbytes:
            self._append(view)
            self._written += view.nbytes
        return view.nbytes

    def close(self) -> None:
        """Publish the object. Does nothing when called again or after `abort()`. Raises StoreUnavailable."""
        if self._state != "open":
            return
        self._state = "closed"
        try:
            self._publish()
        except BaseException:
            self._discard()
            raise

    def abort(self) -> None:
        """Discard the bytes, so that no object appears. Does nothing after `close()`."""
        if self._state != "open":
            return
        self._state = "aborted"
        self._discard()

    def tell(self) -> int:
        return self._written

    def flush(self) -> None:  # noqa: B027  nothing to do in any of them
        """Does nothing: bytes become visible at `close()` only."""

    @property
    def closed(self) -> bool:
        return self._state != "open"

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # A writer that was dropped half way must not publish half a file.
        if getattr(self, "_state", "closed") == "open":
            try:
                self.abort()
            except Exception:  # the interpreter may be shutting down, where nothing can be reported
                pass


class _Ranges(Protocol):
    def get_range(self, key: str, start: int, end: int) -> bytes: ...

    def head(self, key: str) -> Any: ...


class RangeInput(io.RawIOBase):
    """A seekable file over `get_range` of a store, for pyarrow. It holds one block; small objects are read whole."""

    def __init__(self, store: _Ranges, key: str, size: int | None = None) -> None:
        super().__init__()
        self._store = store
        self._key = key
        self._size: int = int(store.head(key).size) if size is None else size
        self._position = 0
        self._start = 0
        self._block = b""

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"seek before the start of {self._key}")
        self._position = base + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        wanted = self._size - self._position if size is None or size < 0 else size
        data = self._at(self._position, min(self._position + wanted, self._size))
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        data = self.read(view.nbytes)
        view[: len(data)] = data
        return len(data)

    def _at(self, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        if not (self._start <= start and end <= self._start + len(self._block)):
            first, last = self._widened(start, end)
            data = self._store.get_range(self._key, first, last)
            if last - first > WHOLE_BYTES:  # large reads are passed on and not kept
                return data
            self._start, self._block = first, data
        return self._block[start - self._start : end - self._start]

    def _widened(self, start: int, end: int) -> tuple[int, int]:
        if self._size <= WHOLE_BYTES:
            return 0, self._size
        if not self._block and end == self._size:
            return max(0, min(start, self._size - TAIL_BYTES)), self._size
        return start, min(max(end, start + BLOCK_BYTES), self._size)


def checked_range(key: str, start: int, end: int) -> None:
    if not 0 <= start <= end:
        raise InvalidArgument(f"range [{start}, {end}) of {key} is not valid")
