"""When a commit drops old partitions: at most once in an interval, in each process, as table options say.

Owns: `PartitionTurn`. Must not know: which partitions are too old, how they are dropped. Source: format/commit §9; decision 67.
Invariants: as in Apache Paimon the first interval begins when a process first commits to the table, so that a short job drops
nothing unless an option says so. In one process no two such runs of one branch go on at once. The child of a fork begins afresh.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..backends.requests.threads import PerProcess, forked_lock
from ..coordinator.surroundings import MACHINE, Surroundings
from ..core import options as opt
from ..core.metadata.schema import TableSchema
from ..core.options import TableOptions


@dataclass
class _State:
    """`checked_s` is when partitions were last looked at, or the process first came, by the monotonic clock."""

    checked_s: float
    running: bool = False


_LOCK = forked_lock()
_STATES: PerProcess[dict[tuple[str, str], _State]] = PerProcess(dict)


def drops_after_commits(schema: TableSchema) -> bool:
    """Do a table's options ask its writers to drop old partitions?"""
    options = schema.options
    asked = options.get(opt.PARTITION_EXPIRATION_TIME) is not None and not options.get(opt.WRITE_ONLY)
    return asked and bool(schema.partition_keys)


@dataclass(frozen=True)
class PartitionTurn:
    url: str
    branch: str
    around: Surroundings = field(default=MACHINE, repr=False)

    def __post_init__(self) -> None:
        self._state()

    def _state(self) -> _State:
        return _STATES.get().setdefault((self.url, self.branch), _State(self.around.monotonic_s()))

    def take(self, options: TableOptions) -> bool:
        """Take the turn if it is due: once in `partition.expiration-check-interval`, or after each commit if that is 0 or
        `end-input.check-partition-expire` says so. Whoever gets it calls `end`.
        """
        interval_s = options.get(opt.PARTITION_CHECK_INTERVAL) / 1000
        each = interval_s == 0 or options.get(opt.CHECK_PARTITIONS_AT_END)
        with _LOCK:
            state, now_s = self._state(), self.around.monotonic_s()
            if state.running or not (each or now_s > state.checked_s + interval_s):
                return False
            state.running, state.checked_s = True, now_s
            return True

    def end(self) -> None:
        self._state().running = False
