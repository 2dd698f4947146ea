"""The data source `lakelatch`, for SQL, temporary views and `spark.read.format(...)`.

Owns: `register`, the source and its reader. Must not know: how rows are written or committed (see `source_writer`).
Source: format/spark §1. No version of Spark prunes columns for Python data sources, so `lakelatch.spark.read` is faster. Here,
`.schema(...)` with only some of the columns has a similar effect.

Invariants: Options are checked, and a misspelt one is an error. The reader pins its snapshot when it is created. Spark
pushes filters down only if the session's setting allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from ..core.errors import InvalidArgument
from ..core.predicates.predicate import Comparison, Predicate, bind, col
from ..core.rows.types import AtomicType
from ..table.reading.arrow import SplitReader
from ..table.scan.fallback import file_schemas_of
from ..table.scan.plan import plan_scan
from ..table.scan.split import Split
from ..table.table import Table
from .catalog import NAME, marked, options_of_mark, options_of_statement
from .saving import understand_save_as_table
from .scan import TASK_BYTES, packed
from .source_options import SourceOptions
from .source_writer import TableSourceWriter
from .statements import Statements
from .tasks import ReadTask
from .types import spark_schema

_TASKS = 4
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: Any) -> None:
    """Register the data source `lakelatch` with a session, classic or Connect.

    Spark pushes filters down to it if `spark.sql.python.filterPushdown.enabled` is true at the time of this call. Register
    again after a change of the setting: while it is off, Spark rejects sources that accept filters.

    A temporary view shows the snapshot that was the latest when the view was first used, as with Spark's own file sources.
    Create the view again to see newer rows. `VERSION AS OF` needs a catalog in the JVM, so time travel is an option here.

    `session.sql` is replaced on this session object: Spark does not tell a Python source where a table of its catalog lies, so
    `CREATE TABLE … USING lakelatch` and `INSERT` into such tables are carried out by lakelatch, as jobs of the session. Every
    other statement is passed on as it is (docs/spark-by-habit.md).
    Writes through the source cost half as much with `spark.sql.execution.arrow.maxBytesPerBatch` = 2147483647 (see
    `batch_size`); `lakelatch.spark.write` sets it itself.

    Args:
        session: the only session that will know the source; a new session needs its own call.

    Example:
        ``lakelatch.spark.register(spark); spark.read.format("lakelatch").option("snapshot", 3).load(url)``
    """
    if not isinstance(session.sql, Statements):
        session.sql = Statements(session, session.sql)
    understand_save_as_table(session)
    pushes = str(session.conf.get(_PUSHDOWN, "false")).lower() == "true"
    session.dataSource.register(FilteringSource if pushes else TableSource)


class TableSource(DataSource):
    """Reads and writes tables; `SourceOptions` describes the options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> SourceOptions:
        return SourceOptions(self.options)

    def schema(self) -> spark.StructType:
        stated = options_of_statement(self.options)
        options = self._options() if stated is None else SourceOptions(stated)
        schema = spark_schema(options.table_to_read().schema.fields)
        return schema if stated is None else marked(schema, stated)

    def _table_to_read(self, schema: spark.StructType) -> Table:
        given = dict(self.options)
        if "path" not in given:  # a table of the catalog
            given = {**options_of_mark(schema), **given}
        return SourceOptions(given).table_to_read()

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        return TableSourceReader(self._table_to_read(schema), schema)

    def writer(self, schema: spark.StructType, overwrite: bool) -> Any:
        return TableSourceWriter(self._options(), schema, overwrite)


class FilteringSource(TableSource):
    """The source for sessions that push filters down to Python sources."""

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        return FilteringReader(self._table_to_read(schema), schema)


@dataclass
class SplitPartition(InputPartition):
    """The splits of one task and how to read them; Spark ships the reader as it was before `partitions()`."""

    task: ReadTask
    splits: list[Split]


class TableSourceReader(DataSourceReader):
    """Reads one snapshot.

    Args:
        table: the table, pinned by `at()` or at its latest snapshot.
        schema: the columns that Spark wants, by name; all columns of the table unless the user gave a schema.
    """

    def __init__(self, table: Table, schema: spark.StructType) -> None:
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
        self._where: Predicate | None = None

    def partitions(self) -> Sequence[InputPartition]:
        plan = plan_scan(self._timeline, self._snapshot, self._schema, self._where, self._names, self._as_of_ms)
        schemas = file_schemas_of(self._timeline, self._schema, plan.splits)
        task = ReadTask(self._store, SplitReader(self._schema, self._names, plan.residual, schemas)).check(plan.splits)
        return [SplitPartition(task, splits) for splits in packed(plan.splits, _TASKS, TASK_BYTES)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # If there are no partitions, Spark still runs one task, without a partition (format/spark §1).
        if isinstance(partition, SplitPartition):
            yield from partition.task.read(partition.splits)


def _nullable(data_type: spark.DataType) -> str:
    return data_type.simpleString()


# ------------------------------------------------------------------------------------------------------------- filters

_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    StringStartsWith: "starts_with",
    StringEndsWith: "ends_with",
    StringContains: "contains",
}


class FilteringReader(TableSourceReader):
    """Accepts the filters that mean the same here as in Spark, and leaves the others to Spark."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        taken: list[Predicate] = []
        for offered in filters:
            predicate = self._predicate(offered)
            if predicate is None:
                yield offered
            else:
                taken.append(predicate)
        self._where = reduce(lambda a, b: a & b, taken) if taken else None

    def _predicate(self, offered: Filter) -> Predicate | None:
        if isinstance(offered, Not):
            part = self._predicate(offered.child)
            return None if part is None else ~part
        path: tuple[str, ...] = getattr(offered, "attribute", ())
        field = self._schema.by_name.get(path[0]) if len(path) == 1 else None
        if field is None or not isinstance(field.type, AtomicType) or field.type.root in ("TIME", "VARIANT"):
            return None
        made = _comparison(offered, field.name)
        # The format distinguishes -0.0 from 0.0, and Spark does not.
        if made is None or (field.type.root in ("FLOAT", "DOUBLE") and 0 in made.literals):
            return None
        try:
            bind(made, self._schema.fields)
        except InvalidArgument:
            return None
        return made


def _comparison(offered: Filter, name: str) -> Comparison | None:
    if isinstance(offered, IsNull):
        made: Any = col(name).is_null()
    elif isinstance(offered, IsNotNull):
        made = col(name).is_not_null()
    elif isinstance(offered, In):
        made = Comparison("in", name, tuple(offered.value))
    elif type(offered) in _OPERATORS:
        value = getattr(offered, "value", None)
        made = None if value is None else Comparison(_OPERATORS[type(offered)], name, (value,))
    else:
        made = None
    return made if isinstance(made, Comparison) else None
