"""Maps the format's types to Spark's and back.

Owns: the mapping in both directions, for types and for Arrow arrays that are passed to Spark; the columns that Spark's own
Parquet reader reads correctly. Must not know: files, plans, sessions. Source: format/data-files §3; format/spark §2.

| format | Spark | remark |
|---|---|---|
| CHAR, VARCHAR, STRING | STRING | lengths are checked when rows are written |
| BINARY, VARBINARY, BYTES, GEOMETRY, GEOGRAPHY | BINARY | |
| TIMESTAMP(0-9) | TIMESTAMP_NTZ | Spark has microseconds; values are rounded down to them, after the filter |
| TIMESTAMP_LTZ(0-9) | TIMESTAMP | the same |
| TIME(p) | TIME(6) where `spark.sql.timeType.enabled`, else INT: milliseconds of the day | |
| MULTISET<t> | MAP<t, INT> | |
| VECTOR<t, n> | ARRAY<t> | |
| VARIANT | VARIANT | |

Invariant: Every column is nullable in Spark, as in Spark's own file sources. Both legs of a read give the same types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from ..core.errors import InvalidArgument
from ..core.rows.arrow import FieldIds, timestamp_unit, to_arrow
from ..core.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    decimal,
    string,
    timestamp,
    varbinary,
    walk_fields,
)
from ..core.typed import assert_never
from ..table.projection.physical import list_of, map_of, struct_of

_PLAIN: dict[str, spark.DataType] = {
    "BOOLEAN": spark.BooleanType(),
    "TINYINT": spark.ByteType(),
    "SMALLINT": spark.ShortType(),
    "INT": spark.IntegerType(),
    "BIGINT": spark.LongType(),
    "FLOAT": spark.FloatType(),
    "DOUBLE": spark.DoubleType(),
    "CHAR": spark.StringType(),
    "VARCHAR": spark.StringType(),
    "BINARY": spark.BinaryType(),
    "VARBINARY": spark.BinaryType(),
    "GEOMETRY": spark.BinaryType(),
    "GEOGRAPHY": spark.BinaryType(),
    "BLOB": spark.BinaryType(),
    "DATE": spark.DateType(),
    "TIMESTAMP": spark.TimestampNTZType(),
    "TIMESTAMP_LTZ": spark.TimestampType(),
    "VARIANT": spark.VariantType(),
}
SPARK_TIME_DIGITS = 6


def to_spark(data_type: DataType, *, has_time: bool = False) -> spark.DataType:
    """The Spark type of a column.

    >>> to_spark(decimal(10, 2)), to_spark(AtomicType("TIME", precision=3)).simpleString()
    (DecimalType(10,2), 'int')
    """
    match data_type:
        case AtomicType(root="DECIMAL", precision=precision, scale=scale):
            return spark.DecimalType(precision, scale)
        case AtomicType(root="TIME"):
            return spark.TimeType(SPARK_TIME_DIGITS) if has_time else spark.IntegerType()
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element) | VectorType(element=element):
            return spark.ArrayType(to_spark(element, has_time=has_time))
        case MultisetType(element=element):
            return spark.MapType(to_spark(element, has_time=has_time), spark.IntegerType())
        case MapType(key=key, value=value):
            return spark.MapType(to_spark(key, has_time=has_time), to_spark(value, has_time=has_time))
        case RowType(fields=fields):
            return spark_schema(fields, has_time=has_time)
        case _:
            assert_never(data_type)


def spark_schema(fields: Iterable[Field], *, has_time: bool = False) -> spark.StructType:
    return spark.StructType([spark.StructField(f.name, to_spark(f.type, has_time=has_time)) for f in fields])


# -------------------------------------------------------------------------------------------------------- from Spark

_FROM_PLAIN: dict[type[spark.DataType], str] = {
    spark.BooleanType: "BOOLEAN",
    spark.ByteType: "TINYINT",
    spark.ShortType: "SMALLINT",
    spark.IntegerType: "INT",
    spark.LongType: "BIGINT",
    spark.FloatType: "FLOAT",
    spark.DoubleType: "DOUBLE",
    spark.DateType: "DATE",
    spark.VariantType: "VARIANT",
}


def from_spark_schema(schema: spark.StructType) -> tuple[Field, ...]:
    """Columns for a Spark schema, with new field ids, all nullable. `InvalidArgument` names a column whose type is unknown.

    >>> [f.type.root for f in from_spark_schema(spark.StructType().add("a", "integer").add("b", "timestamp"))]
    ['INT', 'TIMESTAMP_LTZ']
    """
    ids = FieldIds()
    fields = []
    for column in schema.fields:
        field_id = ids.next()
        fields.append(Field(field_id, column.name, _from_spark(column.dataType, column.name, ids)))
    return tuple(fields)


def is_collated(data_type: spark.DataType) -> bool:
    return isinstance(data_type, spark.StringType) and data_type.collation != "UTF8_BINARY"


def _from_spark(data_type: spark.DataType, where: str, ids: FieldIds) -> DataType:
    match data_type:
        case spark.CharType(length=length):
            return AtomicType("CHAR", length=length)
        case spark.VarcharType(length=length):
            return AtomicType("VARCHAR", length=length)
        case spark.StringType():
            if is_collated(data_type):
                raise InvalidArgument(
                    f"column '{where}': the format has no collations, and Spark's {data_type.simpleString()} has one",
                    next_step="cast the column to STRING first; its texts are then compared byte by byte",
                )
            return string()
        case spark.BinaryType():
            return varbinary()
        case spark.DecimalType(precision=precision, scale=scale) if scale >= 0:
            return decimal(precision, scale)
        case spark.TimestampType():
            return timestamp(6, local_zone=True)
        case spark.TimestampNTZType():
            return timestamp(6)
        case spark.TimeType():
            return AtomicType("TIME", precision=3)
        case spark.ArrayType(elementType=element):
            return ArrayType(_from_spark(element, f"{where}.element", ids))
        case spark.MapType(keyType=key, valueType=value):
            return MapType(_from_spark(key, f"{where}.key", ids), _from_spark(value, f"{where}.value", ids))
        case spark.StructType(fields=fields):
            parts = [(f.name, _from_spark(f.dataType, f"{where}.{f.name}", ids)) for f in fields]
            return RowType(tuple(Field(ids.next(), name, part) for name, part in parts))
        case spark.UserDefinedType():
            return _from_spark(type(data_type).sqlType(), where, ids)
    root = _FROM_PLAIN.get(type(data_type))
    if root is None:
        raise InvalidArgument(
            f"column '{where}': the format has no type for Spark's {data_type.simpleString()}",
            next_step="cast the column first",
        )
    return AtomicType(root)


# --------------------------------------------------------------------------------------------------- Arrow, for Spark


def arrow_for_spark(data_type: DataType, *, has_time: bool = False) -> Any:
    """The Arrow type in which a column is passed to Spark.

    >>> arrow_for_spark(timestamp(9)), arrow_for_spark(AtomicType("TIME", precision=3))
    (TimestampType(timestamp[us]), DataType(int32))
    """
    match data_type:
        case AtomicType(root="TIMESTAMP"):
            return pa.timestamp("us")
        case AtomicType(root="TIMESTAMP_LTZ"):
            return pa.timestamp("us", tz="UTC")
        case AtomicType(root="TIME"):
            return pa.time64("ns") if has_time else pa.int32()
        case ArrayType(element=element) | VectorType(element=element):
            return pa.list_(pa.field("element", arrow_for_spark(element, has_time=has_time)))
        case MultisetType(element=element):
            return pa.map_(pa.field("key", arrow_for_spark(element, has_time=has_time), False), pa.int32())
        case MapType(key=key, value=value):
            keys = pa.field("key", arrow_for_spark(key, has_time=has_time), False)
            return pa.map_(keys, arrow_for_spark(value, has_time=has_time))
        case RowType(fields=fields):
            return pa.struct([arrow_field_for_spark(f, has_time=has_time) for f in fields])
        case _:
            return to_arrow(data_type)


def arrow_field_for_spark(field: Field, *, has_time: bool = False) -> Any:
    """Like `arrow_for_spark`, but with the name; a VARIANT gets the same mark as in Spark."""
    arrow = arrow_for_spark(field.type, has_time=has_time)
    if isinstance(field.type, AtomicType) and field.type.root == "VARIANT":
        parts = [part.with_metadata({"variant": "true"}) if part.name == "metadata" else part for part in arrow]
        arrow = pa.struct(parts)
    return pa.field(field.name, arrow)


def array_for_spark(array: Any, data_type: DataType, target: Any) -> Any:
    """Convert an array from the type of `to_arrow` to that of `arrow_for_spark`, rounding down to microseconds.

    >>> nanos = pa.array([-1], pa.timestamp("ns"))
    >>> array_for_spark(nanos, timestamp(9), pa.timestamp("us")).cast(pa.int64()).to_pylist()
    [-1]
    """
    if array.type == target:
        return array
    match data_type:
        case AtomicType(root="TIMESTAMP" | "TIMESTAMP_LTZ"):
            if array.type.unit == "ns":
                array = pc.floor_temporal(array, unit="microsecond")
            return array.cast(target)
        case AtomicType(root="TIME"):
            return array.cast(pa.int32()) if pa.types.is_integer(target) else array.cast(target)
        case ArrayType(element=element) | VectorType(element=element):
            return list_of(array, target, lambda values: array_for_spark(values, element, target.value_type))
        case MultisetType(element=element):
            keys = target.key_type
            return map_of(array, target, lambda found: array_for_spark(found, element, keys), lambda counts: counts)
        case MapType(key=key, value=value):
            return map_of(
                array,
                target,
                lambda keys: array_for_spark(keys, key, target.key_type),
                lambda values: array_for_spark(values, value, target.item_type),
            )
        case RowType(fields=fields):
            parts = [array_for_spark(array.field(i), f.type, target.field(i).type) for i, f in enumerate(fields)]
            return struct_of(array, parts, target)
        case _:
            return array.cast(target)


def batch_for_spark(batch: Any, fields: Sequence[Field], schema: Any) -> Any:
    """A batch with the columns `fields`, chosen by name and cast to the types of `schema`."""
    arrays = [
        array_for_spark(batch.column(field.name), field.type, column.type)
        for field, column in zip(fields, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def unread_by_spark(fields: Sequence[Field]) -> str | None:
    """The reason why Spark's own Parquet reader would misread these columns, or None if it reads them correctly."""
    for field in walk_fields(tuple(fields)):
        for atom in _atoms(field.type):
            if atom.root == "TIME":
                return f"column '{field.name}' is of type TIME"
            if atom.root in ("TIMESTAMP", "TIMESTAMP_LTZ") and timestamp_unit(atom.precision) == "ns":
                return f"column '{field.name}' has digits below a microsecond"
    return None


def _atoms(data_type: DataType) -> list[AtomicType]:
    match data_type:
        case AtomicType():
            return [data_type]
        case ArrayType(element=element) | VectorType(element=element) | MultisetType(element=element):
            return _atoms(element)
        case MapType(key=key, value=value):
            return _atoms(key) + _atoms(value)
        case RowType():
            return []  # `walk_fields` visits its fields
        case _:
            assert_never(data_type)
