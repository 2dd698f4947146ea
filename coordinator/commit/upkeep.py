"""What follows a commit, once its caller has the receipt: automatic tags, expiry, whatever a table's options ask for.

Owns: `Upkeep`. Must not know: what the work is. Source: architecture §7; H23.
Invariants: no work can fail or delay a commit. A committer does one work at a time, also for commits that land before it begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor

from ...backends.requests.deadline import answered_within
from ..surroundings import Surroundings

_LOG = logging.getLogger("lakelatch.upkeep")
LONGEST_S = 600.0
"""After this, work that the store keeps waiting is given up; the next commit begins it again."""


class Upkeep:
    def __init__(self, around: Surroundings) -> None:
        self.work: tuple[Callable[[], object], ...] = ()
        self._around = around
        self._thread: Executor | None = None
        self._waits = False

    def due(self) -> None:
        if not self.work or self._waits:
            return
        if self._thread is None:
            self._thread = self._around.executor(1, "lakelatch-upkeep")
        self._waits = True
        self._thread.submit(self._run)

    def _run(self) -> None:
        self._waits = False
        for work in self.work:
            try:
                with answered_within(LONGEST_S):
                    work()
            except Exception as error:  # the commit has landed
                _LOG.warning("the commit has landed, but work that follows it failed: %s", error)

    def settle(self) -> None:
        if self._thread is not None:
            self._thread.submit(lambda: None).result()
