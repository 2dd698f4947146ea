"""The data source `lakelatch`: SQL, temporary views and `spark.read.format(...)`, where habit counts more than speed.

Owns: `register`, the source, its reader. Must not know: how rows are written or committed (see `source_writer`).
Source: format/spark §1. Spark's Python data sources have no column pruning in any version: `lakelatch.spark.read` is the fast
way, `.schema(...)` of some columns the poor man's one here.

Invariants: options are checked, a misspelt one is an error; the reader pins its snapshot when it is made; filters are
offered by Spark, and taken, only where the session allows it.
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
from .scan import TASK_BYTES, packed
from .source_options import SourceOptions
from .source_writer import TableSourceWriter
from .tasks import ReadTask
from .types import spark_schema

NAME = "lakelatch"
_TASKS = 4
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: Any) -> None:
    """Make the data source `lakelatch` known to a session, classic or Connect.

    Filters reach it where `spark.sql.python.filterPushdown.enabled` is true at this moment (register again after a
    change: with the setting off, Spark refuses sources that would take filters).

    A temporary view shows, as those of Spark's own file sources do, what was the latest snapshot when it was first used:
    create it again to see newer rows. `VERSION AS OF` needs a catalog in the JVM: time travel is an option here. Writes
    through the source cost half as much with `spark.sql.execution.arrow.maxBytesPerBatch` = 2147483647 (see `batch_size`;
    `lakelatch.spark.write` does that by itself).

    Args:
        session: it alone: a new session does not know the source.

    Example:
        ``lakelatch.spark.register(spark); spark.read.format("lakelatch").option("snapshot", 3).load(url)``
    """
    pushes = str(session.conf.get(_PUSHDOWN, "false")).lower() == "true"
    session.dataSource.register(FilteringSource if pushes else TableSource)


class TableSource(DataSource):
    """Reads and writes tables; see `SourceOptions` for what can be said."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def _options(self) -> SourceOptions:
        return SourceOptions(self.options)

    def schema(self) -> spark.StructType:
        return spark_schema(self._options().table_to_read().schema.fields)

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        return TableSourceReader(self._options().table_to_read(), schema)

    def writer(self, schema: spark.StructType, overwrite: bool) -> Any:
        return TableSourceWriter(self._options(), schema, overwrite)


class FilteringSource(TableSource):
    """For sessions that offer filters to Python sources."""

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        return FilteringReader(self._options().table_to_read(), schema)


@dataclass
class SplitPartition(InputPartition):
    """The splits of one task, and how they are read: of the reader, Spark keeps what it was before `partitions()`."""

    task: ReadTask
    splits: list[Split]


class TableSourceReader(DataSourceReader):
    """Reads one snapshot.

    Args:
        table: pinned by `at()`, or the latest as of now.
        schema: the columns that Spark wants, by name; all of the table's, unless the user gave a schema.
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
        # Of no partitions at all Spark still runs one task, with nothing (format/spark §1).
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
    """Takes the filters that mean the same here as in Spark; the others stay with Spark."""

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
        # Of zeros the format tells -0.0 from 0.0, Spark does not.
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
