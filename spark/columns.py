"""Matches the columns of a DataFrame with those of a table by name, and casts them in Spark if that keeps every value.

Owns: which columns are refused before the job runs, which ones Spark casts, and which ones are left to the executors'
`Conformer`. Must not know: tasks, commits. Source: architecture §5 (columns are matched by name); format/spark §2 (Arrow maps
by position).

Invariant: After `Columns.select` the columns of the frame are named by position, and `Columns.names` holds the table's
name of each one. So two columns of the same type cannot be swapped, and names that differ only in case cannot be confused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name
from pyspark.sql import types as spark

from ..core.errors import InvalidArgument
from ..core.metadata.schema import TableSchema
from ..core.rows.partition import closest
from ..core.rows.types import ArrayType, AtomicType, DataType, MapType, MultisetType, RowType, VectorType, sql
from .predicate import quoted
from .rows.routing import routed
from .sessions.session import adapts, parallelism
from .types import is_collated, to_spark

_TIMESTAMPS = (spark.TimestampType, spark.TimestampNTZType)
_TEMPORAL = (spark.DateType, *_TIMESTAMPS)
_INTERVALS = (spark.DayTimeIntervalType, spark.YearMonthIntervalType, spark.CalendarIntervalType)
_ALONE = (*_TEMPORAL, spark.VariantType, spark.ArrayType, spark.MapType, spark.StructType)
"""Types whose values Arrow's casts would truncate, or would interpret in a time zone other than the session's."""


@dataclass(frozen=True)
class Columns:
    """The columns of a frame, matched with those of a table.

    `names` has the table's column for each of the frame; `casts` the Spark type to cast it to, if it must be.
    """

    names: tuple[str, ...]
    casts: tuple[spark.DataType | None, ...]

    def select(self, frame: Any) -> Any:
        """The frame with its columns renamed by position, and cast if no value is lost."""
        slots = [f"c{i}" for i in range(len(self.names))]
        named = frame.toDF(*slots)
        columns = [F.col(slot) for slot in slots]
        chosen = [
            c if to is None else c.cast(to).alias(slot) for c, to, slot in zip(columns, self.casts, slots, strict=True)
        ]
        return named.select(*chosen)

    def routed(self, frame: Any, table: TableSchema) -> Any:
        """The selected frame, repartitioned so that each partition and fixed bucket is written by one task as one file."""
        if table.bucket < 1:
            return frame
        return routed(frame, table, {name: f"c{i}" for i, name in enumerate(self.names)})

    def clustered(self, frame: Any, table: TableSchema, filled: Collection[str]) -> Any:
        """The selected frame, with the rows of each partition together, so that few tasks write files of it.

        With adaptive execution, Spark splits a partition that is much larger than the others, and writes small ones in one task.
        Without it, Spark would start as many tasks as its shuffles have partitions. Columns in `filled` do not vary.
        """
        places = {name: f"c{i}" for i, name in enumerate(self.names)}
        parts = [places[name] for name in table.partition_keys if name in places and name not in filled]
        if not parts:
            return frame
        if not adapts(frame.sparkSession):
            return frame.repartition(parallelism(frame.sparkSession), *parts)
        return frame.hint("rebalance", *parts)


def match_columns(
    frame_schema: spark.StructType, table: TableSchema, filled: Sequence[str] = (), row_kind: str | None = None
) -> Columns:
    """Match the columns of a frame with those of a table, before any row is computed.

    Those of `filled` may be missing. `InvalidArgument`: the table lacks a column (but `row_kind`), a required column is missing,
    or a type can never fit; names the column.
    """
    names = [f.name for f in frame_schema.fields]
    if not names:
        raise InvalidArgument("the frame has no column")
    if row_kind is not None and row_kind not in names:
        raise InvalidArgument(f"row_kind: the frame has no column '{row_kind}'", next_step=closest(row_kind, names))
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidArgument(f"the frame has column '{name}' twice")
        if name not in table.by_name and name != row_kind:
            raise InvalidArgument(f"the table has no column '{name}'", next_step=closest(name, list(table.names)))
    for field in table.fields:
        given = field.name in names or field.name in filled
        if not given and not field.type.nullable and field.default_value is None:
            raise InvalidArgument(f"column '{field.name}' is missing, but it is NOT NULL")
    casts: list[spark.DataType | None] = []
    for column in frame_schema.fields:
        target = table.by_name.get(column.name)
        if target is not None:
            casts.append(_cast(column.dataType, target.type, f"column '{column.name}'"))
        elif isinstance(column.dataType, spark.StringType):
            casts.append(None)
        else:
            kind = column.dataType.simpleString()
            raise InvalidArgument(f"row_kind: column '{column.name}' is {kind}, and must be text such as +I or -D")
    return Columns(tuple(names), tuple(casts))


def _cast(source: spark.DataType, target: DataType, where: str) -> spark.DataType | None:
    """The type that Spark casts the column to; None if the executors can convert it."""
    needed = _needs_spark(source, target, where)
    if not needed:
        return None
    wanted = _as_target(source, target)
    if _loses_nothing(source, wanted):
        return wanted
    raise InvalidArgument(
        f"{where} is {source.simpleString()}, the table has {sql(target)}",
        next_step="cast it in the frame to exactly that type",
    )


def _needs_spark(source: spark.DataType, target: DataType, where: str) -> bool:
    """Whether Spark has to cast the column: the result depends on the session's zone, or there are only nulls."""
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
        if is_collated(source):
            raise InvalidArgument(
                f"{where} is {source.simpleString()}, and the table compares texts byte by byte",
                next_step="cast it in the frame to STRING",
            )
        return False  # the executors parse each text, and one that they cannot parse is an error
    wanted = to_spark(target)
    if isinstance(source, _TEMPORAL) and isinstance(wanted, _TIMESTAMPS):
        return type(source) is not type(wanted)
    if (isinstance(source, _ALONE) or isinstance(wanted, _ALONE)) and type(source) is not type(wanted):
        raise _misfit(source, target, where)
    if isinstance(wanted, spark.StringType):
        return not isinstance(source, spark.BinaryType)  # Spark knows best how it writes its values
    if isinstance(source, _INTERVALS) or isinstance(source, spark.BooleanType) != (target.root == "BOOLEAN"):
        raise _misfit(source, target, where)
    return False


def _misfit(source: spark.DataType, target: DataType, where: str) -> InvalidArgument:
    return InvalidArgument(
        f"{where} is {source.simpleString()}, the table has {sql(target)}", next_step="cast it in the frame"
    )


def _as_target(source: spark.DataType, target: DataType) -> spark.DataType:
    """The table's type in Spark, with the fields in the frame's order because Spark casts structs by position."""
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
    """Does Spark's cast keep every value under any settings of the session?"""
    if type(source) is type(target) and not isinstance(source, (spark.ArrayType, spark.MapType, spark.StructType)):
        return source == target
    if isinstance(source, spark.NullType):
        return True
    if isinstance(target, spark.StringType):
        return isinstance(source, (spark.AtomicType, spark.CalendarIntervalType)) and not isinstance(
            source, spark.BinaryType
        )
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


def named(word: str, columns: Sequence[str], tells_case: bool) -> str | None:
    """The column that a word means: by its letters, or without regard to their case."""
    if word in columns or tells_case:
        return word if word in columns else None
    found = [column for column in columns if column.lower() == word.lower()]
    return found[0] if len(found) == 1 else None


def matched(given: Mapping[str, Any], columns: Sequence[str], tells_case: bool) -> dict[str, Any]:
    """The keys as the table's columns are written."""
    return {named(key, columns, tells_case) or key: value for key, value in given.items()}


def storable(rows: Any, target: spark.StructType, by_name: bool) -> Any:
    """Decimals are cast for columns of floating point, and structs get the table's names by position. Both keep every value.

    `InvalidArgument`: a struct lacks fields of the table's, which would be null.
    """
    wanted = {f.name: f.dataType for f in target.fields}
    casts = {}
    for f in rows.schema.fields:
        to = _stored_as(f.dataType, wanted.get(f.name), by_name, f"column '{f.name}'")
        if to != f.dataType:
            casts[f.name] = F.col(quoted(f.name)).cast(to)
    return rows.withColumns(casts) if casts else rows


def _stored_as(source: spark.DataType, target: spark.DataType | None, by_name: bool, where: str) -> spark.DataType:
    match source, target:
        case spark.DecimalType(), spark.FloatType() | spark.DoubleType():
            return target
        case spark.ArrayType(), spark.ArrayType():
            element = _stored_as(source.elementType, target.elementType, by_name, f"{where}.element")
            return spark.ArrayType(element, source.containsNull)
        case spark.MapType(), spark.MapType():
            key = _stored_as(source.keyType, target.keyType, by_name, f"{where}.key")
            value = _stored_as(source.valueType, target.valueType, by_name, f"{where}.value")
            return spark.MapType(key, value, source.valueContainsNull)
        case spark.StructType(), spark.StructType():
            if not by_name and len(source.names) > len(target.names):
                return source  # which matching the columns refuses
            own = {f.name: f for f in target.fields}
            pairs = (
                [(f, own.get(f.name, f)) for f in source.fields]
                if by_name
                else list(zip(source.fields, target.fields, strict=False))
            )
            missing = [name for name in target.names if name not in {f.name for _, f in pairs}]
            if missing:
                raise InvalidArgument(
                    f"[INCOMPATIBLE_DATA_FOR_TABLE.STRUCT_MISSING_FIELDS] {where} lacks the field {missing[0]!r}",
                    next_step=f"give it a value: named_struct(…, '{missing[0]}', NULL)",
                )
            fields = [(t.name, _stored_as(s.dataType, t.dataType, by_name, f"{where}.{t.name}"), s) for s, t in pairs]
            return spark.StructType([spark.StructField(name, to, s.nullable) for name, to, s in fields])
        case _:
            return source
