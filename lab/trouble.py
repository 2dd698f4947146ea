"""The faults that are planned for some tables, kept in a folder that every process of a job can see.

Owns: the folder with the settings, the planned strikes and the record of strikes. Must not know: stores, pytest, what strikes do.
Invariants: each planned strike is taken by one process only. The folder holds credentials if the settings do, and only its
owner can read it (H19).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LOSE_ANSWER = "lose-answer"
"""A snapshot is created, but the answer and the next reads of it are lost: the outcome of the commit is unknown (H2)."""
KILL_BEFORE, KILL_AFTER = "kill-before-commit", "kill-after-commit"
"""The process that publishes a snapshot dies and sends nothing more."""
RIVAL_AFTER_READ, RIVAL_BEFORE_COMMIT = "rival-after-read", "rival-before-commit"
"""Another writer commits: when a process that has read the table looks for the latest snapshot again, or just before a
publish."""

_SETTINGS, _RECORD, _READ = "trouble.json", "struck.jsonl", "table-was-read"


@dataclass
class Settings:
    """The settings for all tables of a folder.

    Attributes:
        url: the tables are stored below this URL.
        storage_options: the options of that store.
        seed: the seed of the random choices for `faults`.
        faults: operation of a store -> fault -> probability (0 to 1); see `backends.faulty.Faults`.
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False)
    seed: int = 0
    faults: dict[str, dict[str, float]] = field(default_factory=dict)


class Trouble:
    """A folder of planned faults.

    >>> import tempfile
    >>> trouble = Trouble(Path(tempfile.mkdtemp()))
    >>> trouble.plan(LOSE_ANSWER)
    >>> trouble.take(LOSE_ANSWER, "snapshot/snapshot-1"), trouble.take(LOSE_ANSWER, "snapshot/snapshot-2")
    (True, False)
    >>> trouble.struck()
    [{'strike': 'lose-answer', 'key': 'snapshot/snapshot-1'}]
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def settings(self) -> Settings:
        return Settings(**json.loads((self.folder / _SETTINGS).read_text()))

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / _SETTINGS).write_text(json.dumps(asdict(settings)))

    @property
    def rival_rows(self) -> Path:
        """The Arrow file with the rows that a rival appends."""
        return self.folder / "rival.arrow"

    def plan(self, strike: str, times: int = 1) -> None:
        """Add a number of strikes of this kind."""
        first = len(list(self.folder.glob(f"{strike}.*")))
        for number in range(first, first + times):
            (self.folder / f"{strike}.{number:03}").touch()

    def planned(self) -> Counter[str]:
        """The strikes that have not happened yet."""
        return Counter(path.stem for path in self.folder.glob("*.[0-9][0-9][0-9]"))

    def calm(self) -> None:
        """Cancel every planned strike."""
        for path in self.folder.glob("*.[0-9][0-9][0-9]"):
            path.unlink(missing_ok=True)

    def take(self, strike: str, key: str) -> bool:
        """Take a planned strike and record it. Returns False if none is planned."""
        for path in sorted(self.folder.glob(f"{strike}.*")):
            try:
                path.unlink()
            except FileNotFoundError:  # another process took it
                continue
            self.note(strike, key)
            return True
        return False

    def note(self, strike: str, key: str) -> None:
        """Record that a strike has happened."""
        line = json.dumps({"strike": strike, "key": key}) + "\n"
        handle = os.open(self.folder / _RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def struck(self, strike: str | None = None) -> list[dict[str, str]]:
        """The strikes so far, in order: all, or those of one kind."""
        path = self.folder / _RECORD
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if strike in (None, line["strike"])]

    def was_read(self) -> None:
        """Record that a process has read the state of the table."""
        (self.folder / _READ).touch()

    def read_since(self) -> bool:
        """Whether a process has read the table since the last call."""
        try:
            (self.folder / _READ).unlink()
        except FileNotFoundError:
            return False
        return True
