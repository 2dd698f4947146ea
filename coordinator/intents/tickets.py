"""Tickets: commits that wait for the table say so, and let those go first that came before them.

Owns: `Ticket`, `withdraw`. Must not know: when a commit takes one, how long a turn lasts. Source: decision 116.
Invariant: a ticket decides nothing. Whoever sees none, or a wrong number of them, loses a race at most. So whatever is wrong
with the store or with a file is no error of the commit, and nothing is kept in memory or in snapshots for tickets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ...backends.requests.refusals import DeletionRefused
from ...backends.store import ObjectInfo, Store
from ...core.errors import LakelatchError
from ..history.timeline import Timeline
from .shelf import folder_of, glance

_FILE = re.compile(r"/ticket-(?P<number>\d{1,19})-(?P<commit>[0-9A-Za-z-]{1,64})$")
_OVER = b"over"
"""What is in a ticket that could not be deleted; a ticket that counts is empty."""
STALE_AFTER_MS = 60_000
"""A ticket that is so much older than the newest one is that of a dead process. Until then it costs the others a turn."""


def withdraw(store: Store, keys: Sequence[str]) -> frozenset[str]:
    """Take tickets away. Returns those that the store keeps: they say that they are over, and stay until the table is cleaned."""
    try:
        store.delete_many(keys)
    except LakelatchError as error:
        kept = frozenset(error.kept if isinstance(error, DeletionRefused) else ())
        for key in kept:
            with suppress(LakelatchError):
                store.put(key, _OVER)
        return kept
    return frozenset()


@dataclass
class Ticket:
    """The place of one commit among those that wait. `number` is the snapshot after which it began to wait; None as long as it
    has no ticket. Smaller ones go first, whatever the clocks say.
    """

    timeline: Timeline
    commit: str
    number: int | None = None
    _stale: list[str] = field(default_factory=list)

    def ahead(self, newest_id: int) -> int:
        """How many wait that came before this one, which has a ticket from now on. Takes one round trip."""
        found, _ = self.timeline.both(lambda: glance(self.timeline), lambda: self._take(newest_id))
        waiting = dict(_tickets(found))
        newest_ms = max((info.modified_ms for info in waiting.values()), default=0)
        live = [place for place, info in waiting.items() if not 0 < info.modified_ms < newest_ms - STALE_AFTER_MS]
        self._stale = [info.key for place, info in waiting.items() if place not in live and place != self._place]
        return sum(place < self._place for place in live)

    def give_back(self) -> bool:
        """Let the next one go on; also takes away tickets of the dead that were seen. False if the store refuses that: the
        ticket then says that it is over, and stays until the table is cleaned.
        """
        if self.number is None:
            return True
        key = self._key
        self.number = None
        return key not in withdraw(self.timeline.store, [key, *self._stale])

    @property
    def _place(self) -> tuple[int, str]:
        return self.number or 0, self.commit

    @property
    def _key(self) -> str:
        return f"{folder_of(self.timeline.paths)}ticket-{self.number}-{self.commit}"

    def _take(self, newest_id: int) -> None:
        if self.number is None:
            self.number = newest_id
            try:
                self.timeline.store.put(self._key, b"")
            except LakelatchError:
                return


def _tickets(files: Iterable[ObjectInfo]) -> Iterable[tuple[tuple[int, str], ObjectInfo]]:
    for info in files:
        found = _FILE.search(info.key)
        if found is not None and not info.size:
            yield (int(found["number"]), found["commit"]), info


def waiting(timeline: Timeline) -> int:
    return sum(1 for _ in _tickets(glance(timeline)))
