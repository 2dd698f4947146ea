"""Maps the format's types to Arrow types and back.

Owns: the mapping in both directions, and the field ids in Parquet files. Must not know: files, readers, values.
Source: format/data-files §2, §3. Invariant: `from_arrow(to_arrow(t))` has the same Arrow type as t. Some types are the same in
Arrow (CHAR and STRING, MULTISET and MAP); for these, the schema of the table decides, and never that of Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ..errors import InvalidArgument
from ..typed import assert_never
from .sizes import is_list
from .types import (
    MAX_LENGTH,
    VECTOR_ROOTS,
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
    with_nullable,
)

FIELD_ID = b"PARQUET:field_id"
_COLLECTION_ID = 536_870_911
_ID_STRIDE = 1024

_PLAIN: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "CHAR": pa.string(),
    "VARCHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time32("ms"),
    "BLOB": pa.binary(),
    "GEOMETRY": pa.binary(),
    "GEOGRAPHY": pa.binary(),
}

VARIANT_STORAGE = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False)]
)


def timestamp_unit(precision: int) -> str:
    """The Arrow unit that holds a TIMESTAMP of this precision: ms up to 3 digits, us up to 6, ns up to 9."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow(data_type: DataType) -> pa.DataType:
    """The Arrow type that holds values of a data type.

    >>> to_arrow(decimal(10, 2)), to_arrow(timestamp(9, local_zone=True))
    (Decimal128Type(decimal128(10, 2)), TimestampType(timestamp[ns, tz=UTC]))
    """
    match data_type:
        case AtomicType(root="DECIMAL", precision=precision, scale=scale):
            return pa.decimal128(precision, scale)
        case AtomicType(root="TIMESTAMP", precision=precision):
            return pa.timestamp(timestamp_unit(precision))
        case AtomicType(root="TIMESTAMP_LTZ", precision=precision):
            return pa.timestamp(timestamp_unit(precision), tz="UTC")
        case AtomicType(root="VARIANT"):
            return VARIANT_STORAGE
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable))
        case VectorType(element=element, length=length):
            return pa.list_(pa.field("element", to_arrow(element), element.nullable), length)
        case MultisetType(element=element):
            return pa.map_(pa.field("key", to_arrow(element), False), pa.field("value", pa.int32(), False))
        case MapType(key=key, value=value):
            return pa.map_(pa.field("key", to_arrow(key), False), pa.field("value", to_arrow(value), value.nullable))
        case RowType(fields=fields):
            return pa.struct([to_arrow_field(f) for f in fields])
        case _:
            assert_never(data_type)


def to_arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, to_arrow(field.type), field.type.nullable)


def arrow_schema(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([to_arrow_field(f) for f in fields])


# --------------------------------------------------------------------------------------------------------- field ids


def file_schema(fields: Iterable[Field]) -> pa.Schema:
    return pa.schema([_file_field(f) for f in fields])


def _file_field(field: Field) -> pa.Field:
    return _with_id(pa.field(field.name, _file_type(field.type, field.id, 1), field.type.nullable), field.id)


def element_id(field_id: int, depth: int) -> int:
    """The id of the elements of a list, or of the values of a map, that lies so deep in a field; 1 is the field itself."""
    return _COLLECTION_ID + _ID_STRIDE * field_id + depth


def key_id(field_id: int, depth: int) -> int:
    """The id of the keys of a map."""
    return _COLLECTION_ID - _ID_STRIDE * field_id - depth


def _file_type(data_type: DataType, field_id: int, depth: int) -> pa.DataType:
    up, down = element_id(field_id, depth), key_id(field_id, depth)

    def part(name: str, part_type: DataType, nullable: bool, part_id: int) -> pa.Field:
        return _with_id(pa.field(name, _file_type(part_type, field_id, depth + 1), nullable), part_id)

    match data_type:
        case ArrayType(element=element):
            return pa.list_(part("element", element, element.nullable, up))
        case VectorType(element=element, length=length):
            return pa.list_(part("element", element, element.nullable, up), length)
        case MultisetType(element=element):
            return pa.map_(part("key", element, False, down), _with_id(pa.field("value", pa.int32(), False), up))
        case MapType(key=key, value=value):
            return pa.map_(part("key", key, False, down), part("value", value, value.nullable, up))
        case RowType(fields=fields):
            return pa.struct([_file_field(f) for f in fields])
        case AtomicType(root="VARIANT"):
            return pa.struct([_with_id(VARIANT_STORAGE.field(0), 0), _with_id(VARIANT_STORAGE.field(1), 1)])
        case _:
            return to_arrow(data_type)


def _with_id(field: pa.Field, field_id: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(field_id).encode()})


# -------------------------------------------------------------------------------------------------------- from Arrow

_FROM_PLAIN: list[tuple[Any, str]] = [
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_int8, "TINYINT"),
    (pa.types.is_int16, "SMALLINT"),
    (pa.types.is_uint8, "SMALLINT"),
    (pa.types.is_int32, "INT"),
    (pa.types.is_uint16, "INT"),
    (pa.types.is_int64, "BIGINT"),
    (pa.types.is_uint32, "BIGINT"),
    (pa.types.is_float16, "FLOAT"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "DOUBLE"),
    (pa.types.is_date, "DATE"),
]
_UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


class FieldIds:
    """Ids in Apache Paimon's order: a column before its parts, but the parts of a ROW's field before it (format/schema §3)."""

    def __init__(self, highest: int = -1) -> None:
        self.highest = highest

    def next(self) -> int:
        self.highest += 1
        return self.highest


def from_arrow_schema(schema: pa.Schema, ids: FieldIds | None = None) -> tuple[Field, ...]:
    """Columns with new field ids. Raises InvalidArgument where the format has no equivalent of a column's type.

    >>> [f.type.root for f in from_arrow_schema(pa.schema([("a", pa.uint16()), ("b", pa.large_string())]))]
    ['INT', 'VARCHAR']
    """
    ids = ids or FieldIds()
    fields = []
    for column in schema:
        field_id = ids.next()
        fields.append(Field(field_id, column.name, from_arrow(column.type, column.nullable, column.name, ids)))
    return tuple(fields)


def from_arrow(arrow_type: pa.DataType, nullable: bool, where: str, ids: FieldIds) -> DataType:
    """The data type for an Arrow type. `where` names the column in the error; `ids` numbers nested fields."""
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _from_extension(arrow_type, nullable, where)
    for matches, root in _FROM_PLAIN:
        if matches(arrow_type):
            return AtomicType(root, nullable)
    kinds = pa.types
    if kinds.is_string(arrow_type) or kinds.is_large_string(arrow_type) or kinds.is_string_view(arrow_type):
        return string(nullable)
    if kinds.is_fixed_size_binary(arrow_type):
        return AtomicType("BINARY", nullable, length=arrow_type.byte_width)
    if kinds.is_binary(arrow_type) or kinds.is_large_binary(arrow_type) or kinds.is_binary_view(arrow_type):
        return varbinary(nullable)
    if kinds.is_uint64(arrow_type):
        return decimal(20, 0, nullable)
    if kinds.is_decimal(arrow_type) and arrow_type.precision <= 38 and 0 <= arrow_type.scale <= arrow_type.precision:
        return decimal(arrow_type.precision, arrow_type.scale, nullable)
    if kinds.is_time(arrow_type):
        return AtomicType("TIME", nullable, precision=min(_UNIT_DIGITS[arrow_type.unit], 3))
    if kinds.is_timestamp(arrow_type):
        return timestamp(_UNIT_DIGITS[arrow_type.unit], nullable, local_zone=arrow_type.tz is not None)
    if kinds.is_dictionary(arrow_type) or kinds.is_run_end_encoded(arrow_type):
        return from_arrow(arrow_type.value_type, nullable, where, ids)
    return _nested_from_arrow(arrow_type, nullable, where, ids)


_FROM_EXTENSION = {
    "arrow.json": AtomicType("VARCHAR", length=MAX_LENGTH),
    "arrow.bool8": AtomicType("BOOLEAN"),
    "arrow.uuid": AtomicType("BINARY", length=16),
}


def _from_extension(arrow_type: Any, nullable: bool, where: str) -> DataType:
    found = _FROM_EXTENSION.get(arrow_type.extension_name)
    if found is None:
        raise InvalidArgument(
            f"column '{where}': the format has no type for Arrow's {arrow_type}", next_step="cast the column first"
        )
    return with_nullable(found, nullable)


def _nested_from_arrow(arrow_type: pa.DataType, nullable: bool, where: str, ids: FieldIds) -> DataType:
    kinds = pa.types
    if kinds.is_map(arrow_type):
        key = from_arrow(arrow_type.key_type, False, f"{where}.key", ids)
        return MapType(
            key, from_arrow(arrow_type.item_type, arrow_type.item_field.nullable, f"{where}.value", ids), nullable
        )
    if kinds.is_fixed_size_list(arrow_type):
        element = arrow_type.value_field
        part = from_arrow(element.type, element.nullable, f"{where}.element", ids)
        if isinstance(part, AtomicType) and part.root in VECTOR_ROOTS:
            return VectorType(part, arrow_type.list_size, nullable)
        return ArrayType(part, nullable)
    if is_list(arrow_type):
        element = arrow_type.value_field
        return ArrayType(from_arrow(element.type, element.nullable, f"{where}.element", ids), nullable)
    if kinds.is_struct(arrow_type):
        if not arrow_type.num_fields:
            raise InvalidArgument(f"column '{where}': a ROW without fields cannot be stored", next_step="leave it out")
        parts = []
        for part in arrow_type:
            part_type = from_arrow(part.type, part.nullable, f"{where}.{part.name}", ids)
            parts.append(Field(ids.next(), part.name, part_type))
        return RowType(tuple(parts), nullable)
    raise InvalidArgument(
        f"column '{where}': the format has no type for Arrow's {arrow_type}", next_step="cast the column first"
    )
