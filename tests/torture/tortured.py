"""Runs writers of one table that are killed at random moments and restarted with the same identities."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from contention.contended import Books, Contention

import lakelatch as ll
from lakelatch.coordinator.journal.lines import parse_journal
from lakelatch.coordinator.protocol.events import CommitRequested
from lakelatch.coordinator.protocol.machine import Phase, state_after

ENDLESS = 10**9
BETWEEN = "between commits"
PATIENCE = 10
"""Random kills may miss the required moments; at most this many times the requested kills are made."""
FROM = (
    "CommitRequested",
    "LatestResolved",
    "ManifestsCompacted",
    "DeltaListWritten",
    "SnapshotPublished",
    "LineageVerified",
)
"""A kill comes a random time after one of these events, so that short phases are hit as well as long ones."""


@dataclass
class Kills:
    """Phase of the commit machine, from the journal of the killed writer -> number of kills in it."""

    phases: Counter[str] = field(default_factory=Counter)

    @property
    def all(self) -> int:
        return self.phases.total()

    @property
    def inside(self) -> int:
        """Kills during a commit, after its beginning and before the writer knew its outcome."""
        return self.all - self.phases[BETWEEN]

    def __str__(self) -> str:
        told = ", ".join(f"{phase} {count}" for phase, count in self.phases.most_common())
        return f"{self.all} kills, {self.inside} inside of a commit ({told})"


class Torture(Contention):
    """Contention without end or pauses, whose writers are killed."""

    def __init__(
        self,
        folder: Path,
        url: str,
        storage_options: dict[str, Any],
        *,
        through: dict[str, Any] | None = None,
        writers: int = 4,
        seed: int = 0,
    ) -> None:
        super().__init__(folder, url, storage_options, writers=writers, commits=ENDLESS, through=through, journals=True)
        self._dice = random.Random(seed)
        self._began_at: dict[str, int] = {}

    def start(self, name: str) -> None:
        journal = self.orders[name].journal
        assert journal is not None
        self._began_at[name] = journal.stat().st_size if journal.exists() else 0
        super().start(name)

    def torture(self, kills: int) -> tuple[Kills, Books]:
        """Kill random writers at random moments `kills` times, and then let all writers finish.

        Continue until one writer was killed during its publish, and one after it, so that its restart was a replay.
        """
        struck, began = Kills(), time.monotonic()
        for name in self.names:
            self.start(name)
        self.open_gate()
        while struck.all < kills or (not self._has_shown(struck) and struck.all < PATIENCE * kills):
            name = self._dice.choice(self.names)
            self._await_event(name, self._dice.choice(FROM))
            time.sleep(self._dice.choice((0, 1)) * self._dice.uniform(0, self._usual_s(name) / 2))
            self.kill(name)
            struck.phases[self._phase(name)] += 1
            self.start(name)
        for name in self.names:
            self._await_event(name, FROM[0])  # the writer that was killed last has resumed its commit
        (self.folder / "stop").touch()
        return struck, self.finish(began)

    def recover(self) -> Counter[str]:
        """Outcome of the commits in the writers' journals -> number of commits."""
        found: Counter[str] = Counter()
        for orders in self.orders.values():
            assert orders.journal is not None
            told = ll.recover(orders.journal, storage_options=self.storage_options, writers_are_gone=True)
            found.update(commit.outcome for commit in told.commits)
        return found

    def _has_shown(self, struck: Kills) -> bool:
        replayed = any(line["replayed"] for name in self.names for line in self.told(name))
        return replayed and struck.phases[Phase.PUBLISH.value] > 0

    def _await_event(self, name: str, event: str) -> None:
        """Wait until the writer's journal has this event, counted from its last start."""
        deadline = time.monotonic() + 120
        while event.encode() not in self._journal_since_start(name):
            assert self.running[name].is_alive(), self.orders[name].log.read_text()
            assert time.monotonic() < deadline, f"{name} does not reach {event}"
            time.sleep(0.001)

    def _usual_s(self, name: str) -> float:
        """The median time of the writer's last commits, in seconds."""
        waits = [line["seconds"] for line in self.told(name)[-20:]]
        return median(waits) if waits else 0.05

    def _journal_since_start(self, name: str) -> bytes:
        journal = self.orders[name].journal
        assert journal is not None
        if not journal.exists():
            return b""
        with journal.open("rb") as lines:
            lines.seek(self._began_at[name], os.SEEK_SET)
            return lines.read()

    def _phase(self, name: str) -> str:
        """The phase of the writer's last commit when the writer was killed."""
        entries = list(parse_journal(self._journal_since_start(name).split(b"\n"), name))
        last = [e.commit for e in entries if isinstance(e.event, CommitRequested)][-1]
        state = state_after([e.event for e in entries if e.commit == last])
        return state.phase.value if state.outcome is None else BETWEEN
