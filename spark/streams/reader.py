"""Streams out of a table: `spark.readStream.format("lakelatch")`.

Owns: `TableStreamReader`, and the task that turns changes into the rows of a stream. Must not know: how ranges are chosen, how
changes are found. Source: format/spark §8.

Invariants: The offsets of a stream are positions between snapshots, and a batch is replayed with the same rows. All that reading
needs is planned on the driver and travels with each partition. A row that went is never shown as one that came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...coordinator.history.timeline import Timeline
from ...coordinator.surroundings import MACHINE
from ...coordinator.watching.batches import report_batch
from ...core.errors import InvalidArgument
from ...core.metadata.snapshot import Snapshot
from ...table.changelog.key_changes import check_mode
from ...table.changelog.reading import DESCRIPTION_FIELDS, ROW_KIND, SNAPSHOT_ID
from ...table.changelog.steps import ChangeStep
from ...table.following.consumer import Mover, start_of_consumer
from ...table.following.position import Position
from ...table.following.ranges import Ranges
from ...table.following.reader import batch_of
from ...table.methods.streams import watched_timeline
from ..jobs.packing import in_order
from ..options.source_options import SourceOptions
from ..reading.change_scan import ChangeTask
from ..sessions.shipping import Carried
from ..sessions.worker_errors import one_sentence

try:  # Spark 4.2
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as _AvailableNow
except ImportError:
    _AvailableNow = object

_TASKS = 4
_CAME = ("+I", "+U")


class TableStreamReader(Carried, DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Reads the changes of a table in batches. Nothing is checked before the first question (format/spark §7)."""

    def __init__(self, given: Mapping[str, str], folder: str | None, schema: spark.StructType) -> None:
        self._given, self._folder, self._schema = dict(given), folder, schema
        self._opened: Ranges | None = None
        self._looked_s, self._is_behind = 0.0, True

    @property
    def _options(self) -> SourceOptions:
        return SourceOptions(self._given, self._folder)

    def _ranges(self) -> Ranges:
        if self._opened is None:
            options = self._options
            options.check_stream_reader()
            stream = options.stream
            table = options.table()
            check_mode(stream.mode, table.schema)
            names = [f.name for f in self._schema.fields]
            described = [f.name for f in DESCRIPTION_FIELDS]
            columns = names[: -len(described)] if stream.row_kinds else names
            if stream.row_kinds and names[-len(described) :] != described:
                raise InvalidArgument(
                    f"a stream with option 'row-kinds' ends with the columns {', '.join(described)}",
                    next_step="leave the schema out, and choose columns with option 'columns'",
                )
            for name in columns:
                if name not in table.schema.by_name:
                    raise InvalidArgument(
                        f"the table has no column '{name}'", next_step="start the stream again with load()"
                    )
            timeline = watched_timeline(table)
            self._opened = Ranges(
                timeline,
                table.schema,
                lambda newest: self._begin(timeline, newest, options.start_moment(stream.start)),
                limits=stream.limits,
                columns=columns,
                where=options.wanted_rows(table.schema),
                overwrites=options.overwrites,
                mode=stream.mode,
            )
        return self._opened

    def _begin(self, timeline: Timeline, newest: Snapshot | None, start: int | str) -> tuple[Position, bool]:
        stream = self._options.stream
        position, _ = start_of_consumer(timeline, stream.consumer, start, newest, stream.full)
        placed = stream.consumer is not None and not position.whole  # which is found again if it is asked for again
        return position, start == "latest" and not placed

    @one_sentence()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return self._ranges().initial().as_json()

    @one_sentence()
    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch. Spark 4.1 gives no argument, so the reader remembers where it is.

        Spark asks again at once where a stream has no trigger, and each look costs requests. A stream that is behind does not
        pause, nor one that looks no more.
        """
        ranges = self._ranges()
        if not self._is_behind and not ranges.is_frozen:
            MACHINE.sleep(max(0.0, self._looked_s + self._options.stream.poll_s - MACHINE.monotonic_s()))
        self._looked_s = MACHINE.monotonic_s()
        end = ranges.latest(None if start is None else Position.from_json(start))
        self._is_behind = end.snapshot_id < ranges.newest_id
        return end.as_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name, from 4.2 on
        """Read up to what is newest now, and then end."""
        with one_sentence():
            self._ranges().freeze()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name, from 4.2 on
        """The newest place, for the progress of the query."""
        newest = self._ranges().newest_id
        return {"snapshot": newest} if newest else None

    @one_sentence()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch. After a restart, Spark 4.1 first asks for the empty range at which the stream goes on."""
        ranges, stream = self._ranges(), self._options.stream
        windows = ranges.between(Position.from_json(start), Position.from_json(end))
        found: list[InputPartition] = []
        planned: list[ChangeStep] = []
        for steps, reader in ranges.planned(windows):
            task = StreamTask(ChangeTask(ranges.timeline.store, reader), stream.row_kinds, stream.ignores_deletes)
            found += [StreamPartition(task, group) for group in in_order(steps, _TASKS)]
            planned += steps
        if windows:
            last, count = Position.from_json(end).snapshot_id, sum(len(window.snapshots) for window in windows)
            report_batch(batch_of("read", ranges.timeline, last, ranges.newest_id, count, planned))
        return found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a task. If there are no partitions, Spark may still run one task, without a partition."""
        if isinstance(partition, StreamPartition):
            with one_sentence():
                yield from partition.task.read(partition.steps)

    def commit(self, end: dict[str, Any]) -> None:
        """Called when the next batch begins: all up to `end` has been worked on, and the consumer is moved."""
        consumer = self._options.stream.consumer
        if consumer is not None:
            with one_sentence():
                Mover(self._ranges().timeline, consumer)(Position.from_json(end))

    def stop(self) -> None:
        """Called when the stream ends."""

    def __reduce__(self) -> tuple[Any, ...]:
        self._opened = None  # partitions bring what tasks need
        return super().__reduce__()


@dataclass
class StreamPartition(InputPartition):
    task: StreamTask
    steps: list[ChangeStep]


@dataclass(frozen=True)
class StreamTask:
    """Reads changes into the rows of a stream.

    Without `row_kinds`, only rows that came are shown, and rows that went are an error, unless `ignores_deletes`.
    """

    task: ChangeTask
    row_kinds: bool
    ignores_deletes: bool

    def read(self, steps: Sequence[ChangeStep]) -> Iterator[Any]:
        for batch in self.task.read(steps):
            yield batch if self.row_kinds else self._came(batch)

    def _came(self, batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        kinds = batch.column(ROW_KIND)
        came = pc.is_in(kinds, value_set=pa.array(_CAME))
        if not self.ignores_deletes and pc.any(pc.equal(kinds, "-D")).as_py():
            where = batch.column(SNAPSHOT_ID)[pc.index(kinds, "-D").as_py()].as_py()
            raise InvalidArgument(
                f"snapshot {where} removed or replaced rows, which a stream of rows without kinds cannot show",
                next_step="set option 'row-kinds' to true to read what came and went, or 'deletes' to ignore to read only what"
                " came; with 'overwrites' = false, what overwrites changed is left out",
            )
        left = batch if pc.all(came).as_py() is not False else batch.filter(came)
        return left.select(left.schema.names[: -len(DESCRIPTION_FIELDS)])
