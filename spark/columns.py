"""A DataFrame's columns, made ready for a table's: by name, and cast in Spark only where Spark keeps every value.

Owns: what is refused before the job runs, what Spark casts, what is left to the executors' `Conformer`. Must not know:
tasks, commits. Source: architecture §5 (columns are matched by name); format/spark §2 (Arrow hand-overs map by position).

Invariant: after `Columns.select` the frame's columns are named by position, and `Columns.names` says what each one is: two
columns of one type cannot be swapped, nor names that differ in case only be mixed up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark
from pyspark.sql.pandas.functions import arrow_udf

from ..core.errors import InvalidArgument
from ..core.metadata.schema import TableSchema
from ..core.rows.partition import closest
from ..core.rows.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType, VectorType, sql
from .tasks import BucketTask
from .types import to_spark

_TIMESTAMPS = (spark.TimestampType, spark.TimestampNTZType)
_TEMPORAL = (spark.DateType, *_TIMESTAMPS)
_ALONE = (*_TEMPORAL, spark.VariantType, spark.ArrayType, spark.MapType, spark.StructType)
"""Types whose values Arrow's casts would cut, or read in another time zone than the session's."""


@dataclass(frozen=True)
class Columns:
    """What a frame brings for a table.

    Attributes:
        names: of the frame's columns, in its order; each is a column of the table.
        casts: the Spark type per column, None where it goes as it is.
    """

    names: tuple[str, ...]
    casts: tuple[spark.DataType | None, ...]

    def select(self, frame: Any) -> Any:
        """The frame with its columns renamed by position, and cast where that loses nothing."""
        slots = [f"c{i}" for i in range(len(self.names))]
        named = frame.toDF(*slots)
        columns = [F.col(slot) for slot in slots]
        chosen = [
            c if to is None else c.cast(to).alias(slot) for c, to, slot in zip(columns, self.casts, slots, strict=True)
        ]
        return named.select(*chosen)

    def routed(self, frame: Any, table: TableSchema) -> Any:
        """The selected frame with the rows of each partition and fixed bucket in one task, so that they make one file."""
        if table.bucket < 1:
            return frame
        places = {name: f"c{i}" for i, name in enumerate(self.names)}
        names = tuple(name for name in table.bucket_keys if name in places)
        if not names:
            return frame  # one key, a null or a default: one bucket anyway
        bucket_of = arrow_udf(BucketTask(table, names).buckets, spark.IntegerType())  # type: ignore[call-overload] # its stub knows iterators only
        bucket = bucket_of(F.struct(*(places[name] for name in names)))
        parts = [places[name] for name in table.partition_keys if name in places]
        return frame.withColumn("bucket", bucket).repartition(*parts, "bucket").drop("bucket")


def match_columns(frame_schema: spark.StructType, table: TableSchema, filled: Sequence[str] = ()) -> Columns:
    """Compare a frame's columns with a table's, before any row is made.

    Args:
        frame_schema: the DataFrame's schema.
        table: the table's.
        filled: columns that the frame may leave out because they get a value elsewhere (those of `partition=`).

    Raises:
        InvalidArgument: a column that the table lacks, one that it needs, or a type that never fits; names the column.
    """
    names = [f.name for f in frame_schema.fields]
    if not names:
        raise InvalidArgument("the frame has no column")
    for name in names:
        if name not in table.by_name:
            raise InvalidArgument(f"the table has no column '{name}'", next_step=closest(name, list(table.names)))
        if names.count(name) > 1:
            raise InvalidArgument(f"the frame has column '{name}' twice")
    for field in table.fields:
        given = field.name in names or field.name in filled
        if not given and not field.type.nullable and field.default_value is None:
            raise InvalidArgument(f"column '{field.name}' is missing, but it is NOT NULL")
    casts = tuple(_cast(f.dataType, table.by_name[f.name].type, f"column '{f.name}'") for f in frame_schema.fields)
    return Columns(tuple(names), casts)


def _cast(source: spark.DataType, target: DataType, where: str) -> spark.DataType | None:
    """The type that Spark casts the column to; None where the executors can do it."""
    needed = _needs_spark(source, target, where)
    if not needed:
        return None
    wanted = _as_target(source, target)
    if _loses_nothing(source, wanted):
        return wanted
    raise InvalidArgument(
        f"{where} is {source.simpleString()}, the table has {sql(target)}",
        next_step="cast it in the frame, to the very type",
    )


def _needs_spark(source: spark.DataType, target: DataType, where: str) -> bool:
    """Does the column hold points in time that the session's zone turns into the table's, or nothing but nulls?

    Raises:
        InvalidArgument: no value of the one type is a value of the other.
    """
    match target:
        case AtomicType():
            return _atom_needs_spark(source, target, where)
        case ArrayType(element=element) | VectorType(element=element) if isinstance(source, spark.ArrayType):
            return _needs_spark(source.elementType, element, f"{where}.element")
        case MultisetType(element=element) if isinstance(source, spark.MapType):
            return _needs_spark(source.keyType, element, f"{where}.key")
        case MapType(key=key, value=value) if isinstance(source, spark.MapType):
            keys = _needs_spark(source.keyType, key, f"{where}.key")
            return _needs_spark(source.valueType, value, f"{where}.value") or keys
        case RowType(fields=fields) if isinstance(source, spark.StructType):
            by_name = {f.name: f.type for f in fields}
            found = False
            for part in source.fields:
                if part.name not in by_name:
                    raise InvalidArgument(f"{where}: the table has no field '{part.name}' in it")
                found |= _needs_spark(part.dataType, by_name[part.name], f"{where}.{part.name}")
            return found
    if isinstance(source, spark.NullType):
        return True
    raise InvalidArgument(f"{where} is {source.simpleString()}, the table has {sql(target)}")


def _atom_needs_spark(source: spark.DataType, target: AtomicType, where: str) -> bool:
    if isinstance(source, spark.NullType):
        return True
    if isinstance(source, spark.StringType) and target.root != "VARIANT":
        return False  # texts are parsed value by value, and one that is none of the type is an error
    wanted = to_spark(target)
    if isinstance(source, _TEMPORAL) and isinstance(wanted, _TIMESTAMPS):
        return type(source) is not type(wanted)
    if (isinstance(source, _ALONE) or isinstance(wanted, _ALONE)) and type(source) is not type(wanted):
        raise InvalidArgument(
            f"{where} is {source.simpleString()}, the table has {sql(target)}", next_step="cast it in the frame"
        )
    return False


def _as_target(source: spark.DataType, target: DataType) -> spark.DataType:
    """The table's type as Spark's, in the frame's order of fields: Spark's cast of a struct goes by position."""
    match target:
        case RowType(fields=fields) if isinstance(source, spark.StructType):
            by_name = {f.name: f.type for f in fields}
            parts = [spark.StructField(p.name, _as_target(p.dataType, by_name[p.name])) for p in source.fields]
            return spark.StructType(parts)
        case ArrayType(element=element) | VectorType(element=element) if isinstance(source, spark.ArrayType):
            return spark.ArrayType(_as_target(source.elementType, element))
        case MultisetType(element=element) if isinstance(source, spark.MapType):
            return spark.MapType(_as_target(source.keyType, element), source.valueType)
        case MapType(key=key, value=value) if isinstance(source, spark.MapType):
            return spark.MapType(_as_target(source.keyType, key), _as_target(source.valueType, value))
        case AtomicType(root="TIME"):
            return source if not isinstance(source, spark.NullType) else spark.IntegerType()
        case _:
            return to_spark(target)


_WIDER: tuple[type[spark.DataType], ...] = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)


def _loses_nothing(source: spark.DataType, target: spark.DataType) -> bool:
    """Does Spark's cast keep every value, whatever the session's settings?"""
    if type(source) is type(target) and not isinstance(source, (spark.ArrayType, spark.MapType, spark.StructType)):
        return source == target
    if isinstance(source, spark.NullType):
        return True
    if isinstance(source, _TEMPORAL) and isinstance(target, _TIMESTAMPS):
        return True
    if type(source) in _WIDER and type(target) in _WIDER:
        return _WIDER.index(type(source)) <= _WIDER.index(type(target))
    if isinstance(source, spark.FloatType):
        return isinstance(target, spark.DoubleType)
    if isinstance(source, spark.ArrayType) and isinstance(target, spark.ArrayType):
        return _loses_nothing(source.elementType, target.elementType)
    if isinstance(source, spark.MapType) and isinstance(target, spark.MapType):
        return _loses_nothing(source.keyType, target.keyType) and _loses_nothing(source.valueType, target.valueType)
    if isinstance(source, spark.StructType) and isinstance(target, spark.StructType):
        pairs = zip(source.fields, target.fields, strict=True)
        return all(_loses_nothing(a.dataType, b.dataType) for a, b in pairs)
    return False
