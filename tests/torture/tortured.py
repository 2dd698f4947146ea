"""Writers of one table that are killed at random moments, again and again, and started anew under the same identities."""

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
"""The dice may miss the moments that matter: up to so many times the kills that were asked for."""
FROM = (
    "CommitRequested",
    "LatestResolved",
    "ManifestsCompacted",
    "DeltaListWritten",
    "SnapshotPublished",
    "LineageVerified",
)
"""A kill comes some time after one of these: phases differ in length, and the short ones matter as much."""


@dataclass
class Kills:
    """Where the kills fell: phase of the commit machine, as the victim's journal has it -> how many."""

    phases: Counter[str] = field(default_factory=Counter)

    @property
    def all(self) -> int:
        return self.phases.total()

    @property
    def inside(self) -> int:
        """Kills that fell inside of a commit: begun, and not yet told."""
        return self.all - self.phases[BETWEEN]

    def __str__(self) -> str:
        told = ", ".join(f"{phase} {count}" for phase, count in self.phases.most_common())
        return f"{self.all} kills, {self.inside} inside of a commit ({told})"


class Torture(Contention):
    """Contention without an end, and without pauses, whose writers are killed."""

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
        """Kill so many times, a writer of the dice's choice at a moment of the dice's choice; then let all end well.

        And some more, until one was killed in the midst of its publish, and one after it: its restart was a replay.
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
            self._await_event(name, FROM[0])  # whoever was killed last has come back to what it had begun
        (self.folder / "stop").touch()
        return struck, self.finish(began)

    def recover(self) -> Counter[str]:
        """What the writers' journals say became of each commit that was begun: outcome -> how many."""
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
        """Until its commits have come to this, since it was started."""
        deadline = time.monotonic() + 120
        while event.encode() not in self._journal_since_start(name):
            assert self.running[name].is_alive(), self.orders[name].log.read_text()
            assert time.monotonic() < deadline, f"{name} does not get to {event}"
            time.sleep(0.001)

    def _usual_s(self, name: str) -> float:
        """How long a commit of this writer takes, lately."""
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
        """What the last commit that a writer began was at when it died."""
        entries = list(parse_journal(self._journal_since_start(name).split(b"\n"), name))
        last = [e.commit for e in entries if isinstance(e.event, CommitRequested)][-1]
        state = state_after([e.event for e in entries if e.commit == last])
        return state.phase.value if state.outcome is None else BETWEEN
