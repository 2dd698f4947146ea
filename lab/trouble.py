"""What is to go wrong with some tables, kept in a folder that every process of a job can see.

Owns: the folder: settings, planned strikes, the record of what struck. Must not know: stores, pytest, what a strike does.
Invariants: a planned strike is taken once, by one process, whichever comes first; a folder holds credentials where the
settings do, and is readable by its owner alone (H19).
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

LOSE_ANSWER = "lose-answer"
"""A snapshot is created, the answer is lost, and so are the next looks at it: the commit ends as unknown (H2)."""
KILL_BEFORE, KILL_AFTER = "kill-before-commit", "kill-after-commit"
"""The process that publishes a snapshot dies: it sends nothing more."""
RIVAL_AFTER_READ, RIVAL_BEFORE_COMMIT = "rival-after-read", "rival-before-commit"
"""Another writer commits: when a process that has read the table looks for the latest snapshot again; just before a publish."""

_SETTINGS, _RECORD, _READ = "trouble.json", "struck.jsonl", "table-was-read"


@dataclass
class Settings:
    """What holds for all tables of a folder.

    Attributes:
        url: below it, the tables really lie.
        storage_options: of that store.
        seed: of the dice for `faults`.
        faults: operation of a store -> fault -> how likely (0 to 1); see `backends.faulty.Faults`.
    """

    url: str
    storage_options: dict[str, Any] = field(default_factory=dict, repr=False)
    seed: int = 0
    faults: dict[str, dict[str, float]] = field(default_factory=dict)


class Trouble:
    """A folder of trouble.

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
        """An Arrow file: what a rival appends."""
        return self.folder / "rival.arrow"

    def plan(self, strike: str, times: int = 1) -> None:
        """Let it strike so many more times."""
        first = len(list(self.folder.glob(f"{strike}.*")))
        for number in range(first, first + times):
            (self.folder / f"{strike}.{number:03}").touch()

    def planned(self) -> Counter[str]:
        """What has not struck yet."""
        return Counter(path.stem for path in self.folder.glob("*.[0-9][0-9][0-9]"))

    def calm(self) -> None:
        """Plan nothing any more."""
        for path in self.folder.glob("*.[0-9][0-9][0-9]"):
            path.unlink(missing_ok=True)

    def take(self, strike: str, key: str) -> bool:
        """Is it to strike here? Then it has, and is on record."""
        for path in sorted(self.folder.glob(f"{strike}.*")):
            try:
                path.unlink()
            except FileNotFoundError:  # another process was first
                continue
            self.note(strike, key)
            return True
        return False

    def note(self, strike: str, key: str) -> None:
        """Put on record that something struck."""
        line = json.dumps({"strike": strike, "key": key}) + "\n"
        handle = os.open(self.folder / _RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)

    def struck(self, strike: str | None = None) -> list[dict[str, str]]:
        """What struck so far, in order: all, or one kind."""
        path = self.folder / _RECORD
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if strike in (None, line["strike"])]

    def was_read(self) -> None:
        """Some process has read the table's state."""
        (self.folder / _READ).touch()

    def read_since(self) -> bool:
        """Has a process read the table since this was last asked?"""
        try:
            (self.folder / _READ).unlink()
        except FileNotFoundError:
            return False
        return True
