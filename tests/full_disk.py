"""A file that cannot grow any more: the kernel itself takes as many bytes as there is room for, and no more."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakelatch.coordinator.journal.file_journal import FileJournal
from lakelatch.coordinator.journal.lines import Entry, line_of


@contextmanager
def room_for(path: Path, size: int) -> Iterator[None]:
    """Inside the block the file can take so many bytes more. No privilege is needed, and no other file is touched.

    Python ignores SIGXFSZ, so that a longer write is cut short, and one that finds no room at all fails (EFBIG).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class Filling(FileJournal):
    """A journal whose disk is full while events of one type are written.

    Args:
        kind: the name of the events' type.
        size: bytes that there is room for; from the end of the line where it is negative.
    """

    def __init__(self, path: Path, kind: str, size: int) -> None:
        super().__init__(path)
        self._kind, self._size = f'"event": "{kind}"'.encode(), size

    def _append(self, line: bytes) -> None:
        if self._kind not in line:
            super()._append(line)
            return
        with room_for(self.path, self._size if self._size >= 0 else len(line) + 2 + self._size):
            super()._append(line)


def length_of(entry: Entry) -> int:
    """Bytes of the entry's line, with the newlines before and after it."""
    return len(line_of(entry)) + 2
