"""Reads the changes of a table as a DataFrame: the driver plans, and tasks read files, compare states and tell kinds by Arrow.

Owns: `changes`, the task, and the packing of steps into tasks. Must not know: where changes are found, how rows are compared.
Source: format/spark §3. Invariant: The rows are those of `Table.changes`; Spark may give them in any order.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...backends.store import Store
from ...core.expressions.tree import Predicate
from ...core.paths import DEFAULT_BRANCH
from ...table.changelog.key_changes import Mode, check_mode
from ...table.changelog.reading import ChangeReader, plan_changes
from ...table.changelog.steps import ChangeStep
from ...table.changelog.window import window_of
from ...table.create import open_table
from ...table.table import Table
from ..jobs.packing import frame_of, packed_steps
from ..sessions.session import checked_url, has_time_type, parallelism
from ..sessions.shipping import shipped
from ..sessions.zones import bound_in, session_zone
from ..types import arrow_field_for_spark, batch_for_spark, spark_schema


def changes(
    spark: Any,
    url: str,
    start: int | str,
    end: int | str | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | str | None = None,
    overwrites: bool = True,
    mode: Mode = "auto",
    storage_options: Mapping[str, Any] | None = None,
    branch: str = DEFAULT_BRANCH,
) -> Any:
    """The rows that came, went and changed after one snapshot, up to and with another, as a DataFrame.

    Args:
        spark: the session, classic or Connect.
        url: the URL of the table, which must mean the same on the driver and on the executors.
        start, end, columns, overwrites, mode: as for `Table.changes`.
        where: only changes of rows for which this is true: an `ll.col(...)` predicate or its text. Text and dates without a zone
            are times of `spark.sql.session.timeZone`.
        storage_options: fsspec's options for the store. Keys given here are sent to the executors; prefer profiles (H19).
        branch: the branch of the table whose changes are read.

    Returns:
        A DataFrame with the columns of the rows, `_row_kind`, `_snapshot_id` and `_commit_time`. It always shows the same
        changes, in any order: sort by `_snapshot_id`.

    Raises:
        TableNotFound, InvalidArgument, TableCorrupt, Unsupported: as for `Table.changes`.

    Example:
        ``lakelatch.spark.changes(spark, "s3://lake/flights", start=3, end=7).where("_row_kind = '+I'").show()``
    """
    table = open_table(checked_url(spark, url), branch=branch, storage_options=storage_options)
    predicate = bound_in(session_zone(spark), where, table.schema)
    names = None if columns is None else list(columns)
    steps, reader = planned(table, start, end, names, predicate, overwrites, mode)
    has_time = has_time_type(spark)
    schema = spark_schema(reader.output, has_time=has_time)
    groups = packed_steps(steps, parallelism(spark))
    if not groups:
        return spark.createDataFrame([], schema).select("*")  # so that Spark refuses rows for a view of it
    return frame_of(spark, groups).mapInArrow(shipped(ChangeTask(table.store, reader, has_time)), schema)


def planned(
    table: Table,
    start: int | str,
    end: int | str | None,
    columns: Sequence[str] | None,
    where: Predicate | None,
    overwrites: bool,
    mode: Mode,
) -> tuple[list[ChangeStep], ChangeReader]:
    """The steps of a read of changes, and what reads them. Refuses what the executors could not read."""
    check_mode(mode, table.schema)
    window = window_of(table.timeline, start, end, table.snapshot(), mode)
    steps, reader = plan_changes(table.timeline, window, table.schema, columns, where, overwrites, mode)
    reader.check(table.store, steps)
    return steps, reader


@dataclass(frozen=True)
class ChangeTask:
    """Reads steps into batches of the types that Spark expects.

    Attributes:
        store: the table's store.
        reader: holds the columns, the filter and the schemas.
        has_time: whether the session supports the type TIME.
    """

    store: Store
    reader: ChangeReader
    has_time: bool = False

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Batches of `SPLIT_SCHEMA` to batches of changes."""
        for batch in batches:
            for group in batch.column(1):
                yield from self.read(pickle.loads(group.as_py()))

    def read(self, steps: Sequence[ChangeStep]) -> Iterator[Any]:
        """The changes of some steps."""
        fields = self.reader.output
        schema = pa.schema([arrow_field_for_spark(f, has_time=self.has_time) for f in fields])
        for step in steps:
            for batch in self.reader.batches(self.store, step):
                yield batch_for_spark(batch, fields, schema)
