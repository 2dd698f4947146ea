"""A journal in a file of JSON lines, which any number of processes can share.

Owns: `FileJournal`. Must not know: how a commit ended. Source: architecture §3 (event sourced).
Invariants: each line is one write in append mode, so the order of the lines is the order of the writes. A line counts as kept,
and a mark as another process's, for its writer exactly when `read_lines` finds it. So the file system must append atomically.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...backends.store import AlreadyThere, Created, PutOutcome, Unknown
from ...core.errors import StoreUnavailable
from ..protocol import events as ev
from .lines import Damage, Entry, line_of, read_lines
from .shared_journal import OpenCommit, SharedJournal


class FileJournal(SharedJournal):
    """Appends one line per entry to a file, whose folder is created."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)

    def lines(self) -> list[Entry | Damage]:
        return list(read_lines(self.path.read_bytes().split(b"\n"), str(self.path)))

    def _note(self, commit: OpenCommit) -> None:
        if not commit.looked_at:
            commit.position, commit.looked_at = os.fstat(self._handle).st_size, commit.lines[-1]
        self._append(commit.lines[-1])

    def _claim(self, name: str, commit: OpenCommit) -> PutOutcome:
        self._note(commit)
        try:
            os.fsync(self._handle)
            return self._who_was_first(name, commit)
        except OSError as error:
            return Unknown(f"journal {self.path}: {error.strerror}")

    def _append(self, line: bytes) -> None:
        # The leading newline ends a line that a killed process left half written.
        try:
            written = os.write(self._handle, b"\n" + line + b"\n")
        except OSError as error:
            raise self._unwritten(error.strerror) from error
        # The line is complete without its last newline: a reader finds it, so its writer must not report it as missing (G2).
        if written < len(b"\n" + line):
            raise self._unwritten("the disk is full")

    def _unwritten(self, why: str | None) -> StoreUnavailable:
        step = "see to that disk, or name another file with option commit.journal"
        return StoreUnavailable(f"journal {self.path} cannot be written: {why}", next_step=step)

    def _who_was_first(self, name: str, commit: OpenCommit) -> PutOutcome:
        """Check for another process's mark between the line of this commit that was last looked at and its newest one."""
        seen = os.pread(self._handle, max(0, os.fstat(self._handle).st_size - commit.position), commit.position)
        start, end = _place_of(commit.looked_at, seen), _place_of(commit.lines[-1], seen)
        if start < 0 or end < start:
            return Unknown(f"journal {self.path} was truncated, or replaced, while the commit was under way")
        # The next look starts at this line: others may have added theirs since it was written.
        commit.position, commit.looked_at = commit.position + end, commit.lines[-1]
        first: PutOutcome = Created()
        for line in read_lines(seen[start:end].split(b"\n"), str(self.path)):
            if isinstance(line, Damage):
                first = Unknown(f"journal {self.path} holds a damaged line: {line.why}")
            elif line.commit == name and isinstance(line.event, ev.TakenOver):
                return AlreadyThere()
        return first

    def _add(self, so_far: Sequence[Entry], said: Entry) -> None:
        self._append(line_of(said))
        try:
            os.fsync(self._handle)
        except OSError as error:
            raise self._unwritten(error.strerror) from error

    def __del__(self) -> None:
        handle = self.__dict__.pop("_handle", None)
        if handle is not None:
            os.close(handle)


def _place_of(line: bytes, seen: bytes) -> int:
    return seen.find(b"\n" + line)
