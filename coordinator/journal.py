"""Where the events of commits go: the coordinator's state is only ever a fold of them.

Owns: the `Journal` seam, its memory and JSON-lines forms, reading a journal back. Must not know: what the events mean.
Source: design §3 (event sourced). Invariants: a line is written before the effects that follow from its event begin;
a line that was cut off by a crash is the last one, and is dropped on reading; no credentials ever reach a journal (H19).
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..core.errors import TableCorrupt
from .protocol.events import Event, event_from_json, event_json
from .surroundings import MACHINE, Surroundings


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of one commit.

    Attributes:
        commit: the id of the commit's run, unique in the journal.
        table: URL of the table.
        at_ms: wall clock, milliseconds since 1970.
    """

    commit: str
    table: str
    at_ms: int
    event: Event

    def to_json(self) -> dict[str, Any]:
        return {"commit": self.commit, "table": self.table, "at_ms": self.at_ms, **event_json(self.event)}


class Journal(Protocol):
    """Takes entries as they happen, from several threads."""

    def record(self, entry: Entry) -> None: ...


class MemoryJournal:
    """Keeps the newest entries in memory.

    Args:
        limit: entries kept.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._entries: list[Entry] = []
        self._lock = threading.Lock()

    def record(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)
            if len(self._entries) > self._limit:
                del self._entries[: self._limit // 2]

    def entries(self) -> list[Entry]:
        with self._lock:
            return list(self._entries)


class FileJournal:
    """Appends one JSON line per event to a file; several processes may share it (O_APPEND, one write per line).

    Args:
        path: the file; its folder is created.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def record(self, entry: Entry) -> None:
        os.write(self._handle, (json.dumps(entry.to_json(), ensure_ascii=False) + "\n").encode())

    def entries(self) -> list[Entry]:
        return list(read_journal(self.path))

    def __del__(self) -> None:
        handle = self.__dict__.pop("_handle", None)
        if handle is not None:
            os.close(handle)


class BoundJournal:
    """A journal with commit and table filled in: what a driver writes to."""

    def __init__(self, journal: Journal, commit: str, table: str, around: Surroundings = MACHINE) -> None:
        self._journal, self._commit, self._table, self._around = journal, commit, table, around

    def record(self, event: Event) -> None:
        self._journal.record(Entry(self._commit, self._table, self._around.wall_ms, event))


def read_journal(path: str | Path) -> Iterator[Entry]:
    """The entries of a JSON-lines journal, in order.

    Raises:
        TableCorrupt: a line, other than a cut-off last one, is no entry; names file and line.
    """
    lines = Path(path).read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = json.loads(line)
            yield Entry(raw["commit"], raw["table"], raw["at_ms"], event_from_json(raw))
        except (ValueError, KeyError, TypeError) as error:
            if number == len(lines):
                return
            raise TableCorrupt(f"{path}: line {number} is no journal entry: {error!r}") from error


def open_journal(setting: str | Path | Journal | None) -> Journal:
    """A journal from what the user gave: one of ours, a path, or None for memory (or `LAKELATCH_JOURNAL`)."""
    if setting is None or setting == "":
        setting = os.environ.get("LAKELATCH_JOURNAL") or None
    if setting is None:
        return MemoryJournal()
    if isinstance(setting, (str, Path)):
        return FileJournal(setting)
    return setting
