"""Where the events of commits go: the coordinator's state is only ever a fold of them.

Owns: the `Journal` seam, its memory and JSON-lines forms, reading a journal back. Must not know: what becomes of a commit.
Source: design §3 (event sourced). Invariants: a line is written before the effects that follow from its event begin; what a
journal holds of a commit is a prefix of its events; a line that was cut off by a crash is dropped on reading; what a
commit's end hangs on is durable when `record` answers, and the answer says who came first: the writer, or somebody who took
the commit over; no credentials ever reach a journal (H19).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..backends.store import AlreadyThere, Created, PutOutcome, Unknown
from ..backends.threads import ForkedLock
from ..core.errors import LakelatchError, StoreUnavailable, TableCorrupt
from ..core.json_text import parse_json
from ..core.paths import DEFAULT_BRANCH
from .protocol import events as ev
from .protocol.events import Event, event_from_json, event_json
from .surroundings import MACHINE, Surroundings

OBJECT = "object"
"""The setting that means a journal beside the table, in its own store."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of one commit.

    Attributes:
        commit: the id of the commit's run, unique in the journal.
        table: URL of the table; an absolute path where it is local.
        at_ms: wall clock, milliseconds since 1970.
    """

    commit: str
    table: str
    at_ms: int
    event: Event
    branch: str = DEFAULT_BRANCH

    def to_json(self) -> dict[str, Any]:
        head = {"commit": self.commit, "table": self.table, "branch": self.branch, "at_ms": self.at_ms}
        return {**head, **event_json(self.event)}


class Journal(Protocol):
    """Takes entries as they happen, from several threads."""

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        """Keep an entry.

        Args:
            decisive: durably, and after asking who came first.

        Returns:
            Of a decisive one: `AlreadyThere` where somebody took the commit over before this entry, `Unknown` where it is
            not known whether it is kept; all else means that it is.

        Raises:
            StoreUnavailable: it was not kept.
        """

    def conclude(self, commit: str) -> None:
        """How this commit ended is known, and was told: nothing of it is needed any more to find out."""


class MemoryJournal:
    """Keeps the newest entries in memory.

    Args:
        limit: entries kept.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._entries: list[Entry] = []
        self._lock = ForkedLock()

    def record(self, entry: Entry, decisive: bool = False) -> None:
        with self._lock:
            self._entries.append(entry)
            if len(self._entries) > self._limit:
                del self._entries[: self._limit // 2]

    def conclude(self, commit: str) -> None:
        return

    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries)


class FileJournal:
    """Appends one JSON line per event to a file; several processes may share it (O_APPEND, one write per line).

    The order of lines in the file decides who came first; so the file must lie on a file system whose appends are atomic,
    as local ones are.

    Args:
        path: the file; its folder is created.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._looked: dict[str, int] = {}
        """Commit -> how far the file was searched for somebody who took it over."""

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        self._looked.setdefault(entry.commit, os.fstat(self._handle).st_size)
        # A newline in front: what a killed process left half written ends there.
        line = f"\n{json.dumps(entry.to_json())}\n".encode()
        try:
            written = os.write(self._handle, line)
        except OSError as error:
            raise StoreUnavailable(f"journal {self.path} cannot be written: {error.strerror}") from error
        if written < len(line):
            raise StoreUnavailable(f"journal {self.path} cannot be written: the disk is full")
        if not decisive:
            return None
        try:
            os.fsync(self._handle)
            return AlreadyThere() if self._taken_over(entry, line) else Created()
        except OSError as error:
            return Unknown(f"journal {self.path}: {error.strerror}")

    def _taken_over(self, entry: Entry, line: bytes) -> bool:
        """Does a line before this one say so?"""
        start, end = self._looked[entry.commit], os.fstat(self._handle).st_size
        self._looked[entry.commit] = end
        before, _, _ = os.pread(self._handle, end - start, start).partition(line)
        marks = (b'"event": "TakenOver"', f'"commit": "{entry.commit}"'.encode())
        return any(all(mark in other for mark in marks) for other in before.split(b"\n"))

    def conclude(self, commit: str) -> None:
        self._looked.pop(commit, None)

    def entries(self) -> list[Entry]:
        return list(read_journal(self.path))

    def add(self, so_far: Sequence[Entry], event: Event, at_ms: int) -> None:
        """Add what somebody else than its writer has to say about a commit; `entries` then shows who came first."""
        last = so_far[-1]
        self.record(Entry(last.commit, last.table, at_ms, event, last.branch), decisive=True)
        self.conclude(last.commit)

    def __del__(self) -> None:
        handle = self.__dict__.pop("_handle", None)
        if handle is not None:
            os.close(handle)


class BoundJournal:
    """A journal with commit and table filled in: what a driver writes to."""

    def __init__(
        self,
        journal: Journal,
        commit: str,
        table: str,
        around: Surroundings = MACHINE,
        branch: str = DEFAULT_BRANCH,
    ) -> None:
        self._journal, self._commit, self._table, self._around, self._branch = journal, commit, table, around, branch
        self._failure: StoreUnavailable | None = None
        self._prepared = False
        """Is there a snapshot in the journal that may still be sent?"""

    def record(self, event: Event) -> Event:
        """Keep an event.

        Returns:
            The event that counts: this one, or why the commit cannot go on with it. A journal that cannot keep what is
            not decisive costs no commit (H17), but keeps nothing of this one any more, and a decisive event then fails.
        """
        prepares = isinstance(event, ev.SnapshotPrepared)
        decisive = prepares or (self._prepared and isinstance(event, (ev.BaseAged, ev.UploadFailed)))
        entry = Entry(self._commit, self._table, self._around.wall_ms, event, self._branch)
        kept: PutOutcome | None
        try:
            if self._failure is not None:
                raise self._failure
            kept = self._journal.record(entry, decisive)
        except StoreUnavailable as error:
            self._failure = error
            if prepares:
                return ev.UploadFailed("journal", error.message)
            kept = Unknown(error.message)
        self._prepared = prepares or (self._prepared and not decisive and not isinstance(event, ev.FoundAnother))
        if not decisive:
            return event
        match kept:
            case AlreadyThere() if prepares:
                return ev.TakenOver()
            case AlreadyThere():
                return ev.JournalUnsure("another process took this commit over, and may be sending its snapshot")
            case Unknown(reason=reason):
                return ev.JournalUnsure(f"another process may find its snapshot in the journal, and send it: {reason}")
        return event

    def conclude(self) -> None:
        """See `Journal`; what cannot be tidied up now is when the journal is recovered."""
        try:
            self._journal.conclude(self._commit)
        except LakelatchError:
            return


def address_of(url: str) -> str:
    """The URL of a table as a journal names it: whoever reads it may run in another folder.

    >>> address_of("s3://lake/flights/"), address_of("/data/../lake")
    ('s3://lake/flights', '/lake')
    """
    return url.rstrip("/") if "://" in url else os.path.abspath(url)


def read_journal(path: str | Path) -> Iterator[Entry]:
    """The entries of a JSON-lines journal, in order.

    Raises:
        TableCorrupt: a line, other than one that was cut off, is no entry; names file and line.
    """
    return parse_journal(Path(path).read_bytes().split(b"\n"), str(path))


def parse_journal(lines: Iterable[bytes], name: str) -> Iterator[Entry]:
    """The entries in a journal's lines. Arguments and errors as for `read_journal`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = parse_json(line)
            event = event_from_json(raw)
            yield Entry(raw["commit"], raw["table"], raw["at_ms"], event, raw.get("branch", DEFAULT_BRANCH))
        except (ValueError, KeyError, TypeError) as error:
            if _is_cut_off(line, error):
                continue
            raise TableCorrupt(f"{name}: line {number} is no journal entry: {error!r}") from error


def _is_cut_off(line: bytes, error: Exception) -> bool:
    """Is the line the beginning of an object? Its writer died before anything followed from it."""
    if not line.startswith(b"{") or not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(line) - len("true") or error.msg.startswith(("Unterminated string", "Invalid \\"))
