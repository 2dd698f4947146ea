"""Reads a system table as a DataFrame.

Owns: `system_frame`, `system_task`. Must not know: which rows a system table has. Source: format/snapshot §6; format/spark §3.

Invariants: A frame always shows the same snapshot. Tables of the history, whose times depend on the machine's zone, are made by
the user's process, all others by one task.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.expressions.binding import condition_of
from ...core.expressions.tree import Predicate
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.paths import TablePaths
from ...core.rows.types import Field
from ...table.system.definition import View
from ...table.system.read import MADE_BY_THE_READER, read_system, system_fields
from ...table.table import Table
from ..jobs.packing import SPLIT_SCHEMA
from ..jobs.tasks import NO_COLUMN
from ..sessions.session import has_time_type
from ..sessions.shipping import shipped
from ..types import arrow_field_for_spark, batch_for_spark, spark_schema


@dataclass(frozen=True)
class SystemTask:
    """Reads one system table for Spark, here or on another machine; `made` are rows that this process has made already."""

    store: Store
    branch: str
    schema: TableSchema
    snapshot: Snapshot | None
    pinned: bool
    name: str
    columns: tuple[str, ...]
    where: Predicate | None
    has_time: bool = False
    made: bytes | None = None

    @property
    def output(self) -> tuple[Field, ...]:
        return system_fields(self.name, self.schema, self.columns)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of `SPLIT_SCHEMA` to the rows; what they hold does not matter."""
        for batch in batches:
            for _ in range(batch.num_rows):
                yield from self.read()

    def read(self) -> Iterator[Any]:
        fields = self.output or (NO_COLUMN,)
        schema = pa.schema([arrow_field_for_spark(f, has_time=self.has_time) for f in fields])
        for batch in self._reader():
            if not self.output:
                batch = pa.record_batch({NO_COLUMN.name: pa.nulls(batch.num_rows, pa.bool_())})
            yield batch_for_spark(batch, fields, schema)

    def _reader(self) -> Any:
        if self.made is not None:
            return pa.ipc.open_stream(self.made)
        paths = TablePaths(self.branch, self.schema.options.get(opt.DATA_FILE_DIRECTORY))
        view = View(Timeline(self.store, paths), self.snapshot, self.schema, self.pinned)
        return read_system(view, self.name, self.columns, self.where)

    def before_it_is_sent(self) -> SystemTask:
        """The same with its rows, if they must be made here."""
        from dataclasses import replace

        if self.name not in MADE_BY_THE_READER:
            return self
        reader = self._reader()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)
        return replace(self, made=sink.getvalue().to_pybytes())


def system_task(
    table: Table,
    name: str,
    columns: Sequence[str] | None,
    where: Predicate | str | None,
    zone: tzinfo | None,
    has_time: bool = False,
) -> SystemTask:
    """As `Table.system`, as of now. `zone` is that of text and dates without one in `where`."""
    view = table.system_view()
    fields = system_fields(name, view.schema)
    bound = condition_of(where, fields, zone)
    chosen = tuple(f.name for f in system_fields(name, view.schema, columns))
    paths = view.timeline.paths
    return SystemTask(
        table.store, paths.branch, view.schema, view.snapshot, view.pinned, name.lower(), chosen, bound, has_time
    )


def system_frame(
    spark: Any,
    table: Table,
    name: str,
    columns: Sequence[str] | None,
    where: Predicate | str | None,
    zone: tzinfo | None,
) -> Any:
    has_time = has_time_type(spark)
    task = system_task(table, name, columns, where, zone, has_time).before_it_is_sent()
    frame = spark.createDataFrame([(0, pickle.dumps(None))], SPLIT_SCHEMA).coalesce(1)
    read = frame.mapInArrow(shipped(task), spark_schema(task.output or (NO_COLUMN,), has_time=has_time))
    return read if task.output else read.select()
