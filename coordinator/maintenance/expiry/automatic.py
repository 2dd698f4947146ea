"""Expiry after a commit, where the table's options say so: on a thread of its own, after the caller has its receipt.

Owns: `AfterCommit`, and the turns of tables. Must not know: commits, what expires. Source: format/commit §9; decision 65; H23.
Invariants: a commit is neither failed nor delayed by it. In one process no two expiries of one branch run at once. The child of
a fork begins afresh. At the interpreter's end it runs on for a few seconds at most; the next finishes it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ....backends.requests.refusals import DeletionRefused, past_refusals
from ....backends.requests.threads import PerProcess, Threads, forked_lock
from ....core import options as opt
from ....core.errors import CommitConflict, LakelatchError, TableCorrupt
from ....core.options import TableOptions
from ...history.timeline import Timeline
from ...surroundings import MACHINE, Surroundings
from ..orphans import store_clock_ms
from .consumers import expire_consumers, expired_consumers, list_consumers
from .expire import RefusedRoots, expire
from .retention import Retention, is_automatic

_LOG = logging.getLogger("lakelatch.expiry")
LONGEST_PAUSE_S = 60.0
PAUSE_SHARE = 100
"""After a run, the next one waits for this part of the time that snapshots are kept, and at most `LONGEST_PAUSE_S`."""
TRIED_AGAIN_S = 3600.0
"""What the store did not delete is left alone for so long, by this process."""
_ROUNDS = 100


def _pause_s(options: TableOptions) -> float:
    return min(LONGEST_PAUSE_S, options.get(opt.SNAPSHOT_TIME_RETAINED) / 1000 / PAUSE_SHARE)


@dataclass
class _Turn:
    """The state of one branch of one table in this process.

    Attributes:
        running: whether an expiry is queued or runs; `again`: whether a commit came meanwhile.
        not_before_s: by the monotonic clock; a commit before this begins no expiry.
        refused: snapshots that the store did not delete, until `until_s`.
    """

    running: bool = False
    again: bool = False
    not_before_s: float = 0.0
    refused: RefusedRoots = field(default_factory=RefusedRoots)
    until_s: float = 0.0


_LOCK = forked_lock()
_TURNS: PerProcess[dict[tuple[str, str], _Turn]] = PerProcess(dict)
_THREADS = Threads(1, "lakelatch-expiry")


@dataclass(frozen=True)
class AfterCommit:
    """Called after each commit to a branch. Returns at once and raises nothing.

    Attributes:
        timeline: the branch; one that knows the table's first schema, so that another table at the same place is left alone.
        options: those with which the commit was made. The expiry itself goes by the newest.
    """

    timeline: Timeline
    options: TableOptions
    around: Surroundings = MACHINE

    def __call__(self) -> bool:
        """Begin an expiry, if it is the table's turn. Returns whether one was begun."""
        try:
            if not is_automatic(self.options):
                return False
            with _LOCK:
                turn = _TURNS.get().setdefault((self.timeline.store.url, self.timeline.paths.branch), _Turn())
                if turn.running:
                    turn.again = True
                    return False
                if self.around.monotonic_s() < turn.not_before_s:
                    return False
                turn.running = True
            begun = False
            try:
                begun = _THREADS.offer(self._run, turn)
            finally:
                if not begun:  # otherwise the run itself says that it has ended, which may be before this line
                    turn.running = False
            return begun
        except Exception as error:
            _LOG.warning("expiry after a commit could not begin: %s", error)
            return False

    def _run(self, turn: _Turn) -> None:
        pause_s = _pause_s(self.options)
        try:
            if self._others_were_here(pause_s):
                return
            for _ in range(_ROUNDS):
                turn.again = False
                if self.around.monotonic_s() >= turn.until_s:
                    turn.refused = RefusedRoots()
                options, found = self._expired(turn.refused)
                pause_s = _pause_s(options)
                if found < options.get(opt.SNAPSHOT_EXPIRE_LIMIT) and not (turn.again and found):
                    break
        except DeletionRefused as error:
            if not turn.refused.infos:
                turn.until_s = self.around.monotonic_s() + TRIED_AGAIN_S
            turn.refused.add(error)
            _LOG.warning("the commit has landed, but the expiry after it could not delete all: %s", error)
        except CommitConflict as error:
            _LOG.info("the expiry after a commit is left to the next one: %s", error)
        except TableCorrupt as error:
            level = logging.INFO if self._others_are_here() else logging.WARNING
            _LOG.log(level, "the commit has landed, but the expiry after it ended: %s", error)
        except LakelatchError as error:
            _LOG.warning("the commit has landed, but the expiry after it failed: %s", error)
        except Exception:
            _LOG.warning("the commit has landed, but the expiry after it failed", exc_info=True)
        finally:
            turn.not_before_s = self.around.monotonic_s() + pause_s
            turn.running = False

    def _others_were_here(self, pause_s: float) -> bool:
        """Has another process begun an expiry since the last pause began? It has written EARLIEST then. Times are the store's."""
        if pause_s < 1:
            return False
        folder = self.timeline.paths.snapshot_dir
        times = {info.key: info.modified_ms for info in self.timeline.store.list(folder)}
        announced_ms = times.get(self.timeline.paths.hint("EARLIEST"))
        return announced_ms is not None and max(times.values()) - announced_ms < pause_s * 1000

    def _others_are_here(self) -> bool:
        """Is another process expiring snapshots, so that lists of some are gone already?"""
        try:
            oldest = min(self.timeline.snapshot_ids(), default=0)
            return (self.timeline.hint("EARLIEST") or 0) > oldest
        except LakelatchError:
            return False

    @past_refusals()
    def _expired(self, refused: RefusedRoots) -> tuple[TableOptions, int]:
        timeline = self.timeline
        timeline.check_table()
        schema = timeline.latest_schema()
        options = schema.options
        if not is_automatic(options):
            return options, 0
        idle_ms = options.get(opt.CONSUMER_EXPIRATION)
        if idle_ms is not None and list_consumers(timeline):
            until_ms = store_clock_ms(timeline.store, self.around.new_uuid().hex) - idle_ms
            expire_consumers(timeline, expired_consumers(timeline, until_ms))
        done = expire(timeline, schema, Retention.of(options, self.around.wall_ms), None, refused)
        if done.snapshot_ids or done.changelogs.ids:
            _LOG.info("expired after a commit to %s: %s", timeline.store.url, done)
        return options, len(done.snapshot_ids)
