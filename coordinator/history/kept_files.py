"""Metadata files that were read, within a bound of memory.

Owns: `KeptFiles`. Must not know: what is in the files. Invariant: only files that never
change, and whose names are never used again, are kept.
"""

from __future__ import annotations

from collections import OrderedDict

from ...backends.requests.threads import forked_lock


class KeptFiles:
    """Files by name. The least recently used are dropped above `most_bytes`; the newest stays, however large. Thread-safe.

    >>> kept = KeptFiles(5)
    >>> for name in ("a", "b", "c"):
    ...     kept.keep(name, b"xy")
    >>> kept.get("a"), kept.get("b")
    (None, b'xy')
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = forked_lock()
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def get(self, name: str) -> bytes | None:
        with self._lock:
            data = self._files.get(name)
            if data is not None:
                self._files.move_to_end(name)
            return data

    def keep(self, name: str, data: bytes) -> None:
        with self._lock:
            self._drop(name)
            self._files[name] = data
            self._bytes += len(data)
            while self._bytes > self._most_bytes and len(self._files) > 1:
                self._drop(next(iter(self._files)))

    def forget(self, *names: str) -> None:
        """Drop files that are damaged: they may be restored under the same names."""
        with self._lock:
            for name in names:
                self._drop(name)

    def _drop(self, name: str) -> None:
        self._bytes -= len(self._files.pop(name, b""))
