"""Reads a table's changes on and on, without Spark: one batch for each snapshot that changed rows, as it is committed.

Owns: `Follower`, which is what `Table.follow` returns, and `ChangeBatch`. Must not know: how changes are found or rows read.
Source: format/snapshot §4, §5.

Invariants: A batch holds all changes of one snapshot, so each position is between two snapshots. Batches come in the order of the
snapshots, without a gap. A consumer is moved past a batch only when the batch is acknowledged: by asking for the next one, or by
`ChangeBatch.acknowledge`. So a reader that fails while it works on a batch gets this batch again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from ...backends.elsewhere import fixed_url
from ...coordinator.history.announced import expires_below
from ...coordinator.history.timeline import Timeline
from ...coordinator.journal.lines import address_of
from ...coordinator.surroundings import MACHINE
from ...coordinator.watching.batches import StreamBatch, report_batch
from ...core import options as opt
from ...core.errors import InvalidArgument, TableCorrupt
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ..changelog.key_changes import Mode
from ..changelog.reading import changes_schema, plan_changes
from ..changelog.steps import ChangeStep
from ..changelog.window import Window
from ..reading.arrow import LOCAL_READ_THREADS, READ_THREADS, gathered
from ..reading.read_ahead import in_order
from .ahead import check_columns, window_after
from .newest import Newest
from .position import Position
from .start import expired, oldest_told

Progressed = Callable[[Position], None]


class ChangeBatch:
    """What one snapshot changed, or with `is_state` all rows of one snapshot. Rows are read when they are asked for.

    It can be given to whatever takes Arrow's stream: ``pa.table(batch)``, ``polars.from_arrow(batch)``, DuckDB.

    Attributes:
        position: the place after this batch, from which a later reader goes on: ``follow(start=batch.position)``, or its text.
        snapshot_id, commit_time_ms: the snapshot, and its time in milliseconds since 1970.
        commit_user, identifier: who committed it.
        is_state: the rows are a whole state, with which a reader begins.
        schema: the columns of the rows, then `_row_kind`, `_snapshot_id` and `_commit_time`.
    """

    def __init__(
        self, found: Snapshot, is_state: bool, open_reader: Callable[[], pa.RecordBatchReader], schema: pa.Schema,
        acknowledge: Progressed,
    ) -> None:  # fmt: skip
        self.position = Position.of(found)
        self.snapshot_id, self.commit_time_ms = found.id, found.time_ms
        self.commit_user, self.identifier = found.commit_user, found.commit_identifier
        self.is_state, self.schema = is_state, schema
        self._open, self._acknowledge = open_reader, acknowledge

    def to_reader(self) -> pa.RecordBatchReader:
        """The changes as a reader of record batches; each call reads them again."""
        return self._open()

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._open()

    def to_arrow(self) -> pa.Table:
        return self._open().read_all()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._open().__arrow_c_stream__(requested_schema)

    def acknowledge(self) -> None:
        """Say that the batch has been worked on: the consumer is moved past it. Asking for the next batch says so, too."""
        self._acknowledge(self.position)

    def __repr__(self) -> str:
        return f"ChangeBatch({'the state of' if self.is_state else ''} snapshot {self.snapshot_id})".replace("( ", "(")


LOOKS = 3
"""So often it is looked whether a snapshot whose files are missing has expired."""


class Follower:
    """An iterator over the batches after a position. It waits for new snapshots, and ends only if `wait_s` says so.

    Args:
        columns, where, overwrites, mode: as for `Table.changes`; not mode "diff".
        poll_s: seconds between two looks for a new snapshot.
        wait_s: end after so many seconds without a new snapshot: 0 at the newest snapshot, None never.
        acknowledged: called with the position after each batch that was acknowledged.
        settled: called where the follower pauses, ends, or is asked to acknowledge a batch.

    Attributes:
        position: the position after the newest batch that was acknowledged.
        newest: the id of the newest snapshot that was seen; 0 for none.
    """

    def __init__(
        self,
        timeline: Timeline,
        schema: TableSchema,
        position: Position,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        overwrites: bool = True,
        mode: Mode = "auto",
        poll_s: float = 1.0,
        wait_s: float | None = None,
        newest: Snapshot | None = None,
        acknowledged: Progressed | None = None,
        settled: Callable[[], object] | None = None,
    ) -> None:
        if mode == "diff":
            raise InvalidArgument(
                "mode 'diff' compares two states, and changes that are followed have no end",
                next_step="use auto, delta or changelog",
            )
        if poll_s <= 0 or (wait_s is not None and wait_s < 0):
            raise InvalidArgument("poll must be more than 0 seconds, and wait 0 or more")
        self._timeline, self._schema, self._mode = timeline, schema, mode
        self._columns = None if columns is None else list(columns)
        self._where, self._overwrites = where, overwrites
        self._poll_s, self._wait_s, self._tell = poll_s, wait_s, acknowledged
        self._settle = settled or (lambda: None)
        weakref.finalize(self, _quietly, self._settle)  # a loop that was left, or the end of the process
        self.schema = changes_schema(schema, columns)
        self.position, self.newest = position, position.snapshot_id
        self._given = position
        self._looked = Newest(timeline, newest)
        self._batches = self._all()

    @property
    def behind(self) -> int:
        return max(0, self.newest + 1 - self.position.next_snapshot)

    def __iter__(self) -> Follower:
        return self

    def __next__(self) -> ChangeBatch:
        self._acknowledge(self._given)
        batch = next(self._batches)
        self._given = batch.position
        return batch

    def close(self) -> None:
        """Stop. The last batch is not acknowledged by this."""
        self._batches.close()
        self._settle()

    def _acknowledge_now(self, position: Position) -> None:
        self._acknowledge(position)
        self._settle()

    def _acknowledge(self, position: Position) -> None:
        if position.next_snapshot > self.position.next_snapshot or (self.position.whole and not position.whole):
            self.position = position
            if self._tell is not None:
                self._tell(position)

    def _all(self) -> Generator[ChangeBatch, None, None]:
        position, looked = self._given, self._looked
        newest = looked.glance()
        idle_since = MACHINE.monotonic_s()
        while True:
            self.newest = 0 if newest is None else newest.id
            window = window_after(self._timeline, position, newest, self._mode)
            for part in _by_snapshot(window):
                batch = self._batch(part, position)
                position = Position.of(part.snapshots[0])
                if batch is not None:
                    yield batch
            self._given = position
            self._acknowledge(position)  # snapshots that changed no row need no batch
            if not window.snapshots:
                self._settle()
            if window.snapshots:
                idle_since = MACHINE.monotonic_s()
            elif self._wait_s is not None and MACHINE.monotonic_s() - idle_since >= self._wait_s:
                return
            else:
                MACHINE.sleep(self._poll_s)
            if position.snapshot_id >= self.newest:
                newest = looked.glance()

    def _batch(self, part: Window, position: Position) -> ChangeBatch | None:
        """The batch of one snapshot; None if it surely changed no row."""
        found, timeline = part.snapshots[0], self._timeline
        check_columns(timeline, self._schema, self._columns, found, position)
        threads = LOCAL_READ_THREADS if timeline.store.capabilities.native_scheme == "file" else READ_THREADS
        memory = self._schema.options.get(opt.MERGE_MEMORY) // threads
        with self._told_if_expired(part):
            steps, reader = plan_changes(
                timeline, part, self._schema, self._columns, self._where, self._overwrites, self._mode, memory
            )

        def batches() -> Iterator[pa.RecordBatch]:
            tasks = (partial(reader.batches, timeline.store, step) for step in steps)
            with self._told_if_expired(part):
                yield from gathered(in_order(tasks, threads))

        def opened() -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(self.schema, batches())

        if not steps:
            return None
        report_batch(batch_of("follow", timeline, found.id, self.newest, 1, steps))
        return ChangeBatch(found, part.whole, opened, self.schema, self._acknowledge_now)

    @contextmanager
    def _told_if_expired(self, part: Window) -> Iterator[None]:
        """If a file is missing because an expiry has overtaken the reader, say so.

        Snapshots go after their files: what goes is announced first by lakelatch, and seen a little later of another engine.
        """
        try:
            yield
        except TableCorrupt as error:
            found = part.snapshots[0]
            needed = found.id if part.before is None else part.before.id
            if error.missing and self._expires(needed):
                raise expired(found.id - 1, max(oldest_told(self._timeline), found.id + 1)) from error
            raise

    def _expires(self, snapshot_id: int) -> bool:
        for look in range(LOOKS):
            if look:
                MACHINE.sleep(min(self._poll_s, 1.0))
            if expires_below(self._timeline) > snapshot_id or self._timeline.find(snapshot_id) is None:
                return True
        return False


def _quietly(settle: Callable[[], object]) -> None:
    with suppress(Exception):
        settle()


def batch_of(
    doing: str, timeline: Timeline, snapshot_id: int, newest_id: int, snapshots: int, steps: Sequence[ChangeStep]
) -> StreamBatch:
    return StreamBatch(
        doing,
        address_of(fixed_url(timeline.store)),
        "planned",
        snapshot_id,
        snapshots=snapshots,
        behind=max(0, newest_id - snapshot_id),
        rows=sum(split.row_count for step in steps for split in step.splits),
        size=sum(step.size for step in steps),
    )


def _by_snapshot(window: Window) -> Iterator[Window]:
    for before, found in window.pairs():
        yield replace(window, before=before, snapshots=(found,))
