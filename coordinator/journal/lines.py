"""The journal's interface and its lines: the events of commits, which the coordinator's state is folded from.

Owns: the `Journal` protocol, its in-memory implementation, the per-commit view `BoundJournal`, and the format of lines. Must not
know: how a commit ended, where lines are kept (`shared_journal`). Source: architecture §3 (event sourced).
Invariants: a line is written before the effects of its event begin. The journal holds a prefix of each commit's events. A
truncated line is dropped on reading; a damaged one is reported by name and number. No credentials ever reach a journal (H19).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...backends.requests.threads import forked_lock
from ...backends.store import AlreadyThere, Created, PutOutcome, Unknown
from ...backends.trust import spelled
from ...core.errors import InvalidArgument, LakelatchError, StoreUnavailable, TableCorrupt
from ...core.json_text import parse_json
from ...core.paths import DEFAULT_BRANCH
from ...core.typed import assert_never
from ..protocol import events as ev
from ..protocol.events import Event, event_from_json, event_json
from ..surroundings import MACHINE, Surroundings

OBJECT = "object"
"""The setting for a journal beside the table, in the table's own store."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of one commit.

    Attributes:
        commit: the id of the commit's run, unique in the journal.
        table: URL of the table; an absolute path where it is local.
        at_ms: wall clock, milliseconds since 1970.
        table_id: the identity of the table, which its copies do not share; empty in entries of older versions.
    """

    commit: str
    table: str
    at_ms: int
    event: Event
    branch: str = DEFAULT_BRANCH
    table_id: str = ""

    def to_json(self) -> dict[str, Any]:
        head = {"commit": self.commit, "table": self.table, "branch": self.branch, "at_ms": self.at_ms}
        head |= {"table_id": self.table_id} if self.table_id else {}
        return {**head, **event_json(self.event)}


class Journal(Protocol):
    """Takes entries as they happen, from several threads."""

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        """Keep an entry; a decisive one durably, with a check of who came first. Raises StoreUnavailable if it was not kept.

        Returns:
            For a decisive entry: `AlreadyThere` if another process took the commit over before this entry, `Unknown` if it is
                not known whether the entry is kept. Any other result means that it is kept.
        """

    def conclude(self, commit: str) -> None:
        """The outcome of this commit is known and was reported, so its entries are no longer needed to find it out."""


class MemoryJournal:
    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._entries: list[Entry] = []
        self._lock = forked_lock()

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


class BoundJournal:
    def __init__(
        self,
        journal: Journal,
        commit: str,
        table: str,
        around: Surroundings = MACHINE,
        branch: str = DEFAULT_BRANCH,
        table_id: str = "",
    ) -> None:
        self._journal, self._commit, self._around = journal, commit, around
        self._table, self._branch, self._table_id = table, branch, table_id
        self._failure: StoreUnavailable | None = None
        self._prepared = False
        """Whether the journal holds a snapshot that may still be sent."""

    def record(self, event: Event) -> Event:
        """Keep an event. Returns the event that counts: this one, or the reason why the commit cannot go on with it. A journal
        that fails to keep an event that is not decisive does not fail the commit (H17). Then it keeps none any more, and a
        decisive one fails.
        """
        prepares = isinstance(event, ev.SnapshotPrepared)
        asks = isinstance(event, ev.IntentPrepared)
        gives_up = isinstance(event, ev.IntentRefused)
        gives_up |= self._prepared and isinstance(event, (ev.BaseAged, ev.UploadFailed))
        decisive = prepares or asks or gives_up
        entry = Entry(self._commit, self._table, self._around.wall_ms, event, self._branch, self._table_id)
        kept: PutOutcome | None
        try:
            if self._failure is not None:
                raise self._failure
            kept = self._journal.record(entry, decisive)
        except StoreUnavailable as error:
            self._failure = error
            if prepares or asks:
                return ev.UploadFailed("journal", error.message, error.next_step)
            kept = Unknown(error.message)
        self._prepared = prepares or (self._prepared and not decisive and not isinstance(event, ev.FoundAnother))
        if not decisive:
            return event
        match kept:
            case AlreadyThere() if prepares or asks:
                return ev.TakenOver()
            case AlreadyThere():
                return ev.JournalUnsure("another process took this commit over, and may be sending its snapshot")
            case Unknown(reason=reason):
                return ev.JournalUnsure(f"another process may find its snapshot in the journal, and send it: {reason}")
            case Created() | None:
                return event
            case _:
                assert_never(kept)

    def conclude(self) -> None:
        """See `Journal`; what cannot be removed now is removed when the journal is recovered."""
        try:
            self._journal.conclude(self._commit)
        except LakelatchError:
            return


def address_of(url: str) -> str:
    """The URL of a table in one spelling: a journal's reader may run in another folder. Raises InvalidArgument.

    >>> address_of("s3://lake/flights/"), address_of("/data/../lake"), address_of("file:///lake/")
    ('s3://lake/flights', '/lake', '/lake')
    """
    if "://" in url and not url.startswith("file:"):
        return url.rstrip("/")
    from ...backends.local import local_path

    return local_path(url)


def is_address_of(name: str, table: str) -> bool:
    """Whether a journal's name of a table stands for the table with this address. Older versions kept `file://` in names."""
    try:
        return name == table or spelled(name) == spelled(table)
    except InvalidArgument:
        return False


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that is not an entry, and not merely truncated: where, why, and of which commit (None where it may be any)."""

    where: str
    why: str
    commit: str | None = None

    def __str__(self) -> str:
        return f"{self.where} is not a journal entry: {self.why}"


def line_of(entry: Entry) -> bytes:
    return json.dumps(entry.to_json()).encode()


def read_journal(path: str | Path) -> Iterator[Entry]:
    """The entries of a JSON-lines journal, in order. Raises TableCorrupt, naming file and line, for a damaged line."""
    return parse_journal(Path(path).read_bytes().split(b"\n"), str(path))


def parse_journal(lines: Iterable[bytes], name: str) -> Iterator[Entry]:
    return undamaged(read_lines(lines, name))


def undamaged(lines: Iterable[Entry | Damage]) -> Iterator[Entry]:
    """The entries alone. Raises TableCorrupt at the first damaged line."""
    for line in lines:
        if isinstance(line, Damage):
            raise TableCorrupt(str(line))
        yield line


def read_lines(lines: Iterable[bytes], name: str, commit: str | None = None) -> Iterator[Entry | Damage]:
    """Read the lines of a journal, in order; truncated lines are skipped. `commit`: to which all lines belong, if that is known.

    An entry is complete once the last byte of its JSON object is there, with or without a newline after it. The same rule holds
    for writers: a writer may consider a line as not written only if that byte is missing.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw = parse_json(line)
            event = event_from_json(raw)
            names = raw["commit"], raw["table"], raw.get("branch", DEFAULT_BRANCH), raw.get("table_id", "")
            if type(raw["at_ms"]) is not int or {str} != set(map(type, names)):
                raise TypeError("its commit, table, branch or table_id is no text, or its at_ms no number")
            commit_id, table, branch, table_id = names
            yield Entry(commit_id, table, raw["at_ms"], event, branch, table_id)
        except (ValueError, KeyError, TypeError) as error:
            if not _is_cut_off(line, error):
                yield Damage(f"{name}: line {number}", repr(error), commit)


def _is_cut_off(line: bytes, error: Exception) -> bool:
    """Whether the line is only the beginning of an object: its writer died, or its write failed."""
    if not line.startswith(b"{") or not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(line) - len("true") or error.msg.startswith(("Unterminated string", "Invalid \\"))
