"""Reads a table's changes in ranges, as stream engines ask for them: an initial place, the latest one, and what lies between two.

Owns: `Ranges` and `Limits`. Must not know: Spark, rows. Source: format/spark §8 (streams); format/snapshot §4.

Invariants: A range that is asked for again is the same range, whatever was committed since, also if the engine forgot where it
began: an engine that fails in its first batch asks for the initial place anew. So a stream that begins with what is newest has
no changes in its first range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ..changelog.key_changes import Mode
from ..changelog.reading import ChangeReader, plan_changes
from ..changelog.steps import ChangeStep
from ..changelog.window import Window
from .ahead import MOST_SNAPSHOTS, check_columns, rolled_back, window_after
from .newest import Newest
from .position import Position
from .start import expired, oldest_told


@dataclass(frozen=True)
class Limits:
    """How much one range holds at most; a single snapshot is never divided.

    `rows` and `size` (bytes) are those of the files that are read.
    """

    snapshots: int | None = None
    files: int | None = None
    size: int | None = None
    rows: int | None = None

    @property
    def counts_files(self) -> bool:
        return (self.files, self.size, self.rows) != (None, None, None)

    def __bool__(self) -> bool:
        return self.snapshots is not None or self.counts_files


class Ranges:
    """The ranges of one stream.

    Given the newest snapshot, `begin` says where a new stream begins, and whether that is so because this snapshot is the newest.
    """

    def __init__(
        self,
        timeline: Timeline,
        schema: TableSchema,
        begin: Callable[[Snapshot | None], tuple[Position, bool]],
        *,
        limits: Limits | None = None,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        overwrites: bool = True,
        mode: Mode = "auto",
    ) -> None:
        self.timeline, self._schema, self._begin = timeline, schema, begin
        self._from_newest, self._limits = False, limits or Limits()
        self._columns = None if columns is None else list(columns)
        self._where, self._overwrites, self._mode = where, overwrites, mode
        self._initial: Position | None = None
        self._first = False
        self._at: Position | None = None
        self._newest = Newest(timeline)
        self._target: Snapshot | None = None

    @property
    def newest_id(self) -> int:
        return 0 if self._newest.snapshot is None else self._newest.snapshot.id

    @property
    def is_frozen(self) -> bool:
        """Whether no newer snapshot is looked for."""
        return self._target is not None

    def initial(self) -> Position:
        """Where a new stream begins; the same answer each time."""
        if self._initial is None:
            self._initial, self._from_newest = self._begin(self._look())
            self._first = True
        return self._initial

    def freeze(self) -> None:
        """From now on, the newest snapshot of this moment is the last one."""
        self._target = self._look()

    def latest(self, start: Position | None = None) -> Position:
        """The end of the next range. `InvalidArgument`: the table was rolled back, or what a limit must count has expired.

        `start` is by default the end of the range that was asked for last, or the initial place.
        """
        newest = self._target if self._target is not None else self._newest.glance()
        at = start if start is not None else self._at
        if at is None:
            at = self.initial()
            newest = newest if newest is not None and newest.id >= at.snapshot_id else self._newest.snapshot
        if self._first and at == self._initial:
            self._first = False
            if self._from_newest:
                return replace(at, whole=False)
        if at.snapshot_id == 0 and newest is None:
            return at
        if newest is None or newest.id < at.snapshot_id:
            if self._target is not None:
                return at
            raise rolled_back(at)
        return self._limited(at, newest) if self._limits else Position.of(newest)

    def between(self, start: Position, end: Position) -> list[Window]:
        """The snapshots after `start`, up to and with `end`. `InvalidArgument`: some have expired, or were rolled back."""
        self._at = end
        if start == end:
            return []
        windows = []
        newest = self._look()
        if newest is None or newest.id < end.snapshot_id:
            raise rolled_back(end)
        if start.whole:
            if start.snapshot_id > end.snapshot_id and self._from_newest:
                start = replace(end, whole=True)
            windows.append(window_after(self.timeline, start, newest, self._mode))
            start = replace(start, whole=False)
        if start.snapshot_id > end.snapshot_id:
            if self._from_newest:
                return windows
            raise expired(end.snapshot_id - 1, oldest_told(self.timeline))
        at = start
        while at.snapshot_id < end.snapshot_id:
            most = min(MOST_SNAPSHOTS, end.snapshot_id - at.snapshot_id)
            window = window_after(self.timeline, at, newest, self._mode, most)
            windows.append(window)
            at = Position.of(window.snapshots[-1])
        if end.identity and at.identity and at.identity != end.identity:
            raise rolled_back(end)
        return windows

    def planned(self, windows: Sequence[Window]) -> Iterator[tuple[list[ChangeStep], ChangeReader]]:
        """The steps of each window, and what reads them. `InvalidArgument`: a snapshot has lost a column that is being read."""
        for window in windows:
            for found in window.snapshots:
                check_columns(self.timeline, self._schema, self._columns, found, Position(found.id - 1))
            steps, reader = plan_changes(
                self.timeline, window, self._schema, self._columns, self._where, self._overwrites, self._mode
            )
            reader.check(self.timeline.store, steps)
            yield steps, reader

    def _look(self) -> Snapshot | None:
        return self._newest.look()

    def _limited(self, at: Position, newest: Snapshot) -> Position:
        """The last snapshot after a position that is within the limits; always at least one, or the state."""
        if at.whole:
            return replace(at, whole=False)
        limits, taken, files, size, rows = self._limits, 0, 0, 0, 0
        while at.snapshot_id < newest.id:
            window = window_after(self.timeline, at, newest, self._mode)
            for before, found in window.pairs():
                if limits.counts_files:
                    one = replace(window, before=before, snapshots=(found,))
                    for steps, _ in self.planned([one]):
                        splits = [split for step in steps for split in step.splits]
                        files += sum(len(split.files) for split in splits)
                        size += sum(split.size for split in splits)
                        rows += sum(split.row_count for split in splits)
                taken += 1
                pairs = ((limits.snapshots, taken), (limits.files, files), (limits.size, size), (limits.rows, rows))
                if taken > 1 and any(most is not None and count > most for most, count in pairs):
                    return at
                at = Position.of(found)
        return at


def positive(name: str, value: int) -> int:
    if value <= 0:
        raise InvalidArgument(f"option '{name}' is {value}", next_step="use 1 or more, or leave it out")
    return value
