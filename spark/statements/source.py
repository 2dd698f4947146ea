"""The data source `lakelatch`, for SQL, temporary views and `spark.read.format(...)`.

Owns: the source and its reader. Must not know: how rows are written or committed (see `source_writer`).
Source: format/spark §1, §4. No version of Spark prunes columns for Python data sources, so `lakelatch.spark.read` is faster.
Options `where` and `columns` say here what a read needs.

Invariants: Options are checked, and a misspelt one is an error. The reader pins its snapshot when it is created. It takes no
filters from Spark, because Spark keeps what a filtered reader has planned, and shows it to other queries too (decision 25).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from ...core.errors import InvalidArgument
from ...core.expressions.tree import Predicate
from ...table.changelog.reading import DESCRIPTION_FIELDS
from ...table.changelog.steps import ChangeStep
from ...table.reading.arrow import SplitReader, fields_of
from ...table.scan.fallback import file_schemas_of
from ...table.scan.plan import plan_scan
from ...table.scan.split import Split
from ...table.system.read import system_fields
from ...table.table import Table
from ..jobs.packing import TASK_BYTES, packed, packed_steps
from ..jobs.tasks import ReadTask
from ..options.catalog import NAME, marked, options_of_mark, options_of_statement
from ..options.source_options import SourceOptions
from ..reading.change_scan import ChangeTask, planned
from ..reading.read_marks import mark_of, with_mark
from ..reading.system import SystemTask, system_task
from ..sessions.shipping import Carried
from ..sessions.worker_errors import one_sentence
from ..source_writer import TableSourceWriter
from ..streams.reader import TableStreamReader
from ..streams.writer import StreamSourceWriter
from ..types import spark_schema

_TASKS = 4


class TableSource(DataSource):
    """Reads and writes tables; `SourceOptions` describes the options.

    Attributes:
        folder: where relative paths begin, or the file system of all paths without a scheme; None refuses relative ones.
        process: the user's, whose marks count.
    """

    folder: str | None = None
    process: str = ""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> SourceOptions:
        return SourceOptions(self.options, self.folder)

    def schema(self) -> spark.StructType:
        stated = options_of_statement(self.options)
        options = self._options() if stated is None else SourceOptions(stated, self.folder)
        if options.system is not None and stated is None:
            return spark_schema(system_fields(options.system, options.table_to_read().schema, options.columns))
        fields = fields_of(options.table_to_read().schema, options.columns)
        described = options.changes is not None or options.stream.row_kinds
        schema = spark_schema((*fields, *DESCRIPTION_FIELDS) if described else fields)
        if stated is None:
            return schema if described else self._marked(schema, options)
        if (options.where, options.columns, options.changes, options.system) != (None, None, None, None):
            raise InvalidArgument(
                "options 'where', 'columns', 'system' and 'incremental-between' do not go with CREATE TABLE, because rows can be"
                " inserted into the table",
                next_step="CREATE TEMPORARY VIEW ... USING lakelatch OPTIONS (...)",
            )
        return marked(schema, stated)

    def _marked(self, schema: spark.StructType, options: SourceOptions) -> spark.StructType:
        """Spark decides when it plans a query which snapshot is the newest, and keeps that."""
        opened, seen = options.table(), options.table_to_read()
        mark = mark_of(opened, seen.pinned, "unknown" if seen.pinned is None else "chosen")
        return with_mark(schema, replace(mark, process=self.process))

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        given = dict(self.options)
        if "path" not in given:  # a table of the catalog
            given = {**options_of_mark(schema), **given}
        options = SourceOptions(given, self.folder)
        options.check_batch("read")
        table = options.table_to_read()
        if options.system is not None:
            return SystemSourceReader(table, schema, options)
        where = options.wanted_rows(table.schema)
        if options.changes is not None:
            return ChangeSourceReader(table, schema, where, options)
        return TableSourceReader(table, schema, where)

    def writer(self, schema: spark.StructType, overwrite: bool) -> Any:
        options = self._options()
        options.check_batch("write")
        return TableSourceWriter(options, schema, overwrite, self.process)

    def streamReader(self, schema: spark.StructType) -> Any:  # noqa: N802 - Spark's name
        return TableStreamReader(self.options, self.folder, schema)

    def streamWriter(self, schema: spark.StructType, overwrite: bool) -> Any:  # noqa: N802 - Spark's name
        return StreamSourceWriter(self._options(), schema, overwrite)


@dataclass
class SplitPartition(InputPartition):
    """The splits of one task and how to read them; Spark ships the reader as it was before `partitions()`."""

    task: ReadTask
    splits: list[Split]


class TableSourceReader(Carried, DataSourceReader):
    """Reads one snapshot.

    Args:
        table: the table, pinned by `at()` or at its latest snapshot.
        schema: the columns that Spark wants, by name; all columns of the table unless the user gave a schema.
        where: the bound predicate of option `where`.
    """

    def __init__(self, table: Table, schema: spark.StructType, where: Predicate | None) -> None:
        self._store, self._schema = table.store, table.schema
        self._names = [f.name for f in schema.fields]
        known = spark_schema(table.schema.fields)
        for field in schema.fields:
            if field.name not in table.schema.by_name:
                raise InvalidArgument(f"the table has no column '{field.name}'")
            if _nullable(known[field.name].dataType) != _nullable(field.dataType):
                raise InvalidArgument(
                    f"column '{field.name}' is {known[field.name].dataType.simpleString()}, the schema that was given"
                    f" says {field.dataType.simpleString()}",
                    next_step="leave the type as it is, and cast in the query",
                )
        self._snapshot = table.snapshot()
        self._as_of_ms = None if table.pinned is None else table.pinned.time_ms
        self._timeline = table.timeline
        self._where = where

    @one_sentence()
    def partitions(self) -> Sequence[InputPartition]:
        plan = plan_scan(self._timeline, self._snapshot, self._schema, self._where, self._names, self._as_of_ms)
        schemas = file_schemas_of(self._timeline, self._schema, plan.splits)
        task = ReadTask(self._store, SplitReader(self._schema, self._names, plan.residual, schemas)).check(plan.splits)
        return [SplitPartition(task, splits) for splits in packed(plan.splits, _TASKS, TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # If there are no partitions, Spark still runs one task, without a partition (format/spark §1).
        if isinstance(partition, SplitPartition):
            with one_sentence():
                yield from partition.task.read(partition.splits)


@dataclass
class StepPartition(InputPartition):
    """The steps of one task and how to read them."""

    task: ChangeTask
    steps: list[ChangeStep]


class ChangeSourceReader(Carried, DataSourceReader):
    """Reads the changes that option `incremental-between` names.

    Args:
        schema: the columns that Spark wants, by name; those of the rows come before those that describe a change.
    """

    def __init__(self, table: Table, schema: spark.StructType, where: Predicate | None, options: SourceOptions) -> None:
        names = [f.name for f in schema.fields]
        described = [f.name for f in DESCRIPTION_FIELDS]
        if names[-len(described) :] != described:
            raise InvalidArgument(
                f"a read of changes ends with the columns {', '.join(described)}",
                next_step="leave the schema out, and choose columns in the query or with option 'columns'",
            )
        self._table, self._names = table, names[: -len(described)]
        self._where, self._changes = where, options.changes

    @one_sentence()
    def partitions(self) -> Sequence[InputPartition]:
        asked = self._changes
        assert asked is not None
        steps, reader = planned(
            self._table, asked.start, asked.end, self._names, self._where, asked.overwrites, asked.mode
        )
        task = ChangeTask(self._table.store, reader)
        return [StepPartition(task, group) for group in packed_steps(steps, _TASKS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, StepPartition):
            with one_sentence():
                yield from partition.task.read(partition.steps)


@dataclass
class SystemPartition(InputPartition):
    """The one task of a read of a system table."""

    task: SystemTask


class SystemSourceReader(Carried, DataSourceReader):
    """Reads the system table that option `system` names.

    Args:
        schema: the columns that Spark wants, by name.
    """

    def __init__(self, table: Table, schema: spark.StructType, options: SourceOptions) -> None:
        assert options.system is not None
        names = [f.name for f in schema.fields]
        with one_sentence():
            self._task = system_task(table, options.system, names, options.where, options.zone)

    @one_sentence()
    def partitions(self) -> Sequence[InputPartition]:
        return [SystemPartition(self._task.before_it_is_sent())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, SystemPartition):
            with one_sentence():
                yield from partition.task.read()


def _nullable(data_type: spark.DataType) -> str:
    return data_type.simpleString()
