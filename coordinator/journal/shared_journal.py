"""A journal that other processes than a commit's writer can read and extend, and how they agree on who finishes the commit.

A journal keeps the entries of a commit in one order that every process sees. Most entries are only noted. An entry that decides
how the commit can end is *claimed*: its position in that order is durable and known before any process acts on it.

* The writer claims each snapshot that it is about to send, and each intent that asks others to carry it. It also claims the
  decision to give up a snapshot or an intent that the journal holds.
* A process that finishes another writer's commit claims `TakenOver`, and then reads the journal again. If the mark is there,
  the commit belongs to that process, and entries that the writer added after the mark do not count. Several processes may do
  this at once: they all reach the same answer, because it depends on what the snapshot's name holds, and they may only send the
  same bytes to the same name (H9).
* A writer whose claim comes after such a mark makes no further attempt, and every later claim of it is refused as well.
* A claim without an answer may still arrive. Until it has, its writer can give nothing up, because other processes may find the
  entry.

Owns: this protocol, and what one process knows about its commits under way. Must not know: where entries are kept
(`file_journal`, `object_journal`), how a commit ended (`recovery`).
Invariant: a writer gets the answer "kept", "another process came first" or "unknown" only where every reader finds the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...backends.requests.threads import forked_lock
from ...backends.store import AlreadyThere, PutOutcome, Unknown
from ..protocol import events as ev
from .lines import Damage, Entry, line_of, undamaged


@dataclass
class OpenCommit:
    """A commit under way, as one process knows it.

    Attributes:
        position: how far the journal was read: an offset in the file, or the number of the commit's newest object.
        looked_at: the line of this commit at that position.
        in_doubt: a claim got no answer, and may arrive late.
        is_lost: another process took it over, and owns its entries in the journal from then on.
    """

    lines: list[bytes] = field(default_factory=list)
    position: int = 0
    looked_at: bytes = b""
    in_doubt: bool = False
    is_lost: bool = False


class SharedJournal(ABC):
    """Keeps entries for other processes to find. Calls of the `_` methods for the same commit never run at the same time."""

    def __init__(self) -> None:
        self._open: dict[str, OpenCommit] = {}
        self._lock = forked_lock()

    @abstractmethod
    def lines(self) -> list[Entry | Damage]:
        """The journal's lines for all commits, each commit's entries in their order."""

    @abstractmethod
    def _note(self, commit: OpenCommit) -> None:
        """Keep the newest line now or with the next claim. Raises StoreUnavailable where it was not kept."""

    @abstractmethod
    def _claim(self, name: str, commit: OpenCommit) -> PutOutcome:
        """Keep the newest line durably. `AlreadyThere` if another process's mark came first; errors as for `Journal.record`."""

    @abstractmethod
    def _add(self, so_far: Sequence[Entry], said: Entry) -> None:
        """Keep an entry of another process, which has read `so_far`: a mark, or later how the commit ended."""

    def record(self, entry: Entry, decisive: bool = False) -> PutOutcome | None:
        with self._lock:
            commit = self._open.setdefault(entry.commit, OpenCommit())
        commit.lines.append(line_of(entry))
        if not decisive:
            self._note(commit)
            return None
        if commit.is_lost:
            return AlreadyThere()  # a writer that is asked once more what became of its commit does not go on with it
        was_in_doubt = commit.in_doubt
        answer = self._claim(entry.commit, commit)
        commit.is_lost |= isinstance(answer, AlreadyThere)
        if was_in_doubt and not isinstance(entry.event, (ev.SnapshotPrepared, ev.IntentPrepared)):
            return Unknown("an earlier entry of the journal may still arrive")
        return answer

    def entries(self) -> list[Entry]:
        """All entries. Raises TableCorrupt where a line is damaged, with the journal and the line."""
        return list(undamaged(self.lines()))

    def add(self, so_far: Sequence[Entry], event: ev.TakenOver | ev.CommitResolved, at_ms: int) -> None:
        """Record that a commit is taken over (`lines` shows who came first), or how it ended. Raises LakelatchError."""
        last = so_far[-1]
        self._add(so_far, replace(last, at_ms=at_ms, event=event))

    def conclude(self, commit: str) -> None:
        with self._lock:
            self._open.pop(commit, None)
