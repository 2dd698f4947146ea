"""A journal beside the table: one object per decisive step, with all that another machine needs to finish a commit.

Owns: `ObjectJournal`, where its objects are, `open_journal`. Must not know: how a commit ended. Source: format/commit §12.
Invariants: an object holds all events of its commit so far and is created atomically, so a writer and a process that takes its
commit over cannot both come first. Nothing is written before a snapshot is about to be sent. An object is deleted once the
outcome of the commit is known, unless its name must stay taken, as a writer may wake up, or a send may be late (H9).

The objects lie in `lakelatch/journal/` under the table's root. Readers of the format only look into named folders, and its
orphan cleaner ignores folders that are neither part of the format nor named `key=value` or `bucket-*`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ...backends.elsewhere import fixed_url
from ...backends.requests.refusals import DeletionRefused
from ...backends.store import AlreadyThere, Created, ObjectNotFound, PutOutcome, Store, Unknown
from ...backends.trust import check_allowed
from ...core import options as opt
from ...core.errors import InvalidArgument, LakelatchError
from ...core.options import TableOptions
from ...core.paths import number_in
from ..protocol import events as ev
from .file_journal import FileJournal
from .lines import OBJECT, Damage, Entry, Journal, MemoryJournal, line_of, read_lines
from .shared_journal import OpenCommit, SharedJournal

FOLDER = "lakelatch/journal/"
JOURNAL_VARIABLE = "LAKELATCH_JOURNAL"
"""The variable of the environment that names a journal, where nothing else does."""
_SUFFIX = ".jsonl"
_SENDS = 3


class ObjectJournal(SharedJournal):
    """A commit that lands at once needs one more request before it is published, and one after its caller has the answer."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self.store = store
        self._read: dict[str, int] = {}
        """Commit -> the object that `lines` found last."""

    def lines(self) -> list[Entry | Damage]:
        found: list[Entry | Damage] = []
        for commit, number in sorted(self._newest().items()):
            key = _key(commit, number)
            try:
                found += read_lines(self.store.get(key).split(b"\n"), key, commit)
            except ObjectNotFound:
                continue  # concluded since it was listed
            self._read[commit] = number
        return found

    def _newest(self) -> dict[str, int]:
        """Commit -> the number of its newest object; an object without its predecessor is left over from a conclusion."""
        found: dict[str, set[int]] = {}
        for info in self.store.list(FOLDER):
            commit, _, written = info.key[len(FOLDER) :].removesuffix(_SUFFIX).rpartition("-")
            number = number_in(written)
            if commit and number is not None and info.key.endswith(_SUFFIX):
                found.setdefault(commit, set()).add(number)
        newest = {commit: max(numbers) for commit, numbers in found.items()}
        return {commit: number for commit, number in newest.items() if number == 1 or number - 1 in found[commit]}

    def _note(self, commit: OpenCommit) -> None:
        return  # kept with the next claim

    def _claim(self, name: str, commit: OpenCommit) -> PutOutcome:
        commit.position += 1
        key, data = _key(name, commit.position), b"\n".join(commit.lines)
        answer = self.store.put_if_absent(key, data)
        commit.in_doubt |= not isinstance(answer, Created)
        try:
            return self._kept(key, data, answer)
        except LakelatchError as error:
            return Unknown(error.message)

    def _kept(self, key: str, data: bytes, answer: PutOutcome) -> PutOutcome:
        """Check who created an object. Every answer but "created" is read back (H2, H3)."""
        for _ in range(_SENDS):
            held = data if isinstance(answer, Created) else self._held(key)
            if held is not None:
                return Created() if held == data else AlreadyThere()
            answer = self.store.put_if_absent(key, data)
        return Unknown(f"{key} neither exists nor was created")

    def _held(self, key: str) -> bytes | None:
        try:
            return self.store.get(key)
        except ObjectNotFound:
            return None

    def _add(self, so_far: Sequence[Entry], said: Entry) -> None:
        name, newest = said.commit, self._read[said.commit]
        data = b"\n".join(line_of(entry) for entry in (*so_far, said))
        if isinstance(said.event, ev.CommitResolved):
            self.store.put(_key(name, newest), data)  # over the mark's object: its writer creates no more objects
            return
        self.store.put_if_absent(_key(name, newest + 1), data)
        if self._held(_key(name, newest)) is None:
            self.store.delete_many([_key(name, newest + 1)])  # its writer concluded it meanwhile

    def conclude(self, commit: str) -> None:
        with self._lock:
            known, read = self._open.pop(commit, OpenCommit()), self._read.pop(commit, 0)
        if known.is_lost:
            return  # the process that took it over reports how it ended; a later recovery must find that instead
        keys = [_key(commit, number) for number in range(1, max(known.position, read) + 1)]
        if known.in_doubt:
            self.store.put(keys[-1], b"\n".join(known.lines))
            return
        # The newest object last: an older one alone would report less than was known.
        try:
            for part in (keys[:-1], keys[-1:]):
                if part:
                    self.store.delete_many(part)
        except DeletionRefused:
            if (
                known.lines
            ):  # the commit is told of as long as the object stays, and by then its snapshot may have expired
                self.store.put(keys[-1], b"\n".join(known.lines))
            raise


def _key(commit: str, number: int) -> str:
    return f"{FOLDER}{commit}-{number}{_SUFFIX}"


def journal_of(options: TableOptions, store: Store) -> str:
    """What option `commit.journal` names: a journal beside the table, or a file. Raises InvalidArgument if the caller did not
    allow the file: whoever writes to the table would write into files of this machine.
    """
    setting = options.get(opt.COMMIT_JOURNAL)
    if setting not in ("", OBJECT):
        check_allowed(fixed_url(store), setting, f"option '{opt.COMMIT_JOURNAL.key}'", itself=True)
    return setting


def file_of(options: TableOptions, store: Store) -> str | None:
    """The file that the option names, where it is a journal that the caller allowed; else it is none to look into."""
    with suppress(InvalidArgument):
        setting = journal_of(options, store)
        return None if setting in ("", OBJECT) else setting
    return None


def open_journal(setting: str | Path | Journal | None, store: Store) -> Journal:
    """Open the journal that a setting names: `object` for one beside the table, otherwise the path of a JSON-lines file. None or
    empty: the value of `LAKELATCH_JOURNAL`, otherwise in memory.
    """
    if setting is None or setting == "":
        setting = os.environ.get(JOURNAL_VARIABLE) or None
    if setting is None:
        return MemoryJournal()
    if setting == OBJECT:
        return ObjectJournal(store)
    if isinstance(setting, (str, Path)):
        return FileJournal(setting)
    return setting
