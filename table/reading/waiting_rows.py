"""Rows of which only the columns that decide a merge are in memory; the others wait in a file until they are wanted.

Owns: `WaitingRows`. Must not know: files, how rows are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from ..formats.file_rows import FileRows


class WaitingRows:
    """Some rows that wait. The columns of `head` are in memory; `load` reads all, which takes `waiting_bytes`."""

    def __init__(self, head: Mapping[str, Any], count: int, load: Callable[[], FileRows], waiting_bytes: int) -> None:
        self._head, self._count, self._load, self.waiting_bytes = head, count, load, waiting_bytes
        self._loaded: FileRows | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._head.values())

    def column(self, name: str) -> Any:
        """A column of the result. All that wait are read, and stay in memory with these rows."""
        if name in self._head:
            return self._head[name]
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded.column(name)

    def kept(self, mask: pa.BooleanArray, columns: Sequence[str] | None = None) -> FileRows:
        return self._load().kept(mask, columns)

    def slice(self, offset: int, length: int | None = None) -> WaitingRows:
        count = max(self._count - offset, 0) if length is None else min(length, max(self._count - offset, 0))
        return WaitingRows(
            {name: array.slice(offset, count) for name, array in self._head.items()},
            count,
            lambda: self._load().slice(offset, count),
            self.waiting_bytes * count // max(self._count, 1),
        )
