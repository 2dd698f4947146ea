"""Write TIMESTAMPs with 7 to 9 digits of the second as INT96 in Parquet files. pyarrow can do so for all timestamps or none.

Owns: the twelve bytes of a value, and the change of a finished footer from FIXED_LEN_BYTE_ARRAY(12) to INT96. Must not
know: tables, stores, when a file is complete. Source: format/data-files §3; decision 2.

Invariants: Pages of both physical types hold the same bytes, so only the footer changes and nothing before it moves. A DECIMAL
of twelve bytes, which has an annotation, is not changed. No value is lost, because Arrow's nanoseconds fit into INT96.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...projection.physical import list_of, map_of, struct_of, vector_of
from .thrift_compact import I32, Struct, decode_struct, encode_struct

STAND_IN = pa.binary(12)
"""The type of a column until its file's footer is changed."""
_NANOS_PER_DAY = 86_400_000_000_000
_EPOCH_JULIAN_DAY = 2_440_588
_LAYOUT = np.dtype([("nanos", "<i8"), ("day", "<i4")])

_kinds = pa.types

# --------------------------------------------------------------------------------------------------------- the values


def stand_in_type(kind: pa.DataType) -> pa.DataType:
    """An Arrow type with all its nanosecond timestamps replaced. Names, nullability and metadata stay.

    >>> str(stand_in_type(pa.list_(pa.timestamp("ns")))), str(stand_in_type(pa.timestamp("us")))
    ('list<item: fixed_size_binary[12]>', 'timestamp[us]')
    """
    if _kinds.is_timestamp(kind):
        return STAND_IN if kind.unit == "ns" else kind
    if _kinds.is_struct(kind):
        return pa.struct([stand_in_field(part) for part in kind])
    if _kinds.is_map(kind):
        return pa.map_(stand_in_field(kind.key_field), stand_in_field(kind.item_field))
    if _kinds.is_fixed_size_list(kind):
        return pa.list_(stand_in_field(kind.value_field), kind.list_size)
    if _kinds.is_list(kind):
        return pa.list_(stand_in_field(kind.value_field))
    return kind


def stand_in_field(field: pa.Field) -> pa.Field:
    return field.with_type(stand_in_type(field.type))


def stand_in_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([stand_in_field(field) for field in schema])


def is_stand_in(column: Any) -> bool:
    """Does a `pq.ColumnSchema` stand in for INT96?"""
    kind = (column.physical_type, column.length, column.logical_type.type)
    return bool(kind == ("FIXED_LEN_BYTE_ARRAY", STAND_IN.byte_width, "NONE"))


def with_stand_ins(table: pa.Table) -> pa.Table:
    """A table whose nanosecond timestamps are the twelve bytes of INT96."""
    for position, field in enumerate(table.schema):
        target = stand_in_field(field)
        if not target.type.equals(field.type):
            chunks = [_stand_in(chunk, target.type) for chunk in table.column(position).chunks]
            table = table.set_column(position, target, pa.chunked_array(chunks, target.type))
    return table


def _stand_in(array: Any, target: Any) -> Any:
    if array.type.equals(target):
        return array
    if _kinds.is_timestamp(array.type):
        return _twelve_bytes(array)
    if _kinds.is_struct(target):
        return struct_of(array, [_stand_in(array.field(i), part.type) for i, part in enumerate(target)], target)
    if _kinds.is_map(target):
        key, item = target.key_type, target.item_type
        return map_of(array, target, lambda keys: _stand_in(keys, key), lambda items: _stand_in(items, item))
    make = vector_of if _kinds.is_fixed_size_list(target) else list_of
    return make(array, target, lambda elements: _stand_in(elements, target.value_type))


def _twelve_bytes(array: Any) -> Any:
    """The nanoseconds of the day, which are never negative, and the Julian day, both little-endian."""
    nanos = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    out = np.empty(len(nanos), _LAYOUT)
    days, out["nanos"] = np.divmod(nanos, _NANOS_PER_DAY)
    out["day"] = days + _EPOCH_JULIAN_DAY
    made = pa.Array.from_buffers(STAND_IN, len(nanos), [None, pa.py_buffer(out.tobytes())])
    return pc.if_else(array.is_valid(), made, pa.scalar(None, STAND_IN)) if array.null_count else made


# --------------------------------------------------------------------------------------------------------- the footer

_INT96, _FIXED = 3, 7
_TYPE, _TYPE_LENGTH, _CHILDREN, _CONVERTED, _LOGICAL = 1, 2, 5, 6, 10
_SCHEMA, _ROW_GROUPS, _COLUMNS, _META_DATA, _STATISTICS = 2, 4, 1, 3, 12


def with_int96_footer(tail: bytes) -> bytes:
    """The end of a Parquet file with its stand-in columns declared as INT96. Bytes before the footer are not changed.

    `tail` begins anywhere before the footer, and goes to the end of the file.
    """
    size = int.from_bytes(tail[-8:-4], "little")
    before, footer = tail[: -8 - size], tail[-8 - size : -8]
    meta = decode_struct(footer)
    leaves = [e for e in meta[_SCHEMA][1][1] if _CHILDREN not in e]
    changed = [_declare_int96(element) for element in leaves]
    for group in meta[_ROW_GROUPS][1][1] if _ROW_GROUPS in meta else ():
        for is_changed, chunk in zip(changed, group[_COLUMNS][1][1], strict=True):
            if is_changed:
                column = chunk[_META_DATA][1]
                column[_TYPE] = (I32, _INT96)
                column.pop(_STATISTICS, None)  # they compare bytes, but INT96 has no order
    changed_footer = encode_struct(meta)
    return before + changed_footer + len(changed_footer).to_bytes(4, "little") + tail[-4:]


def _declare_int96(element: Struct) -> bool:
    kind, length = element.get(_TYPE, (0, None))[1], element.get(_TYPE_LENGTH, (0, None))[1]
    if (kind, length) != (_FIXED, STAND_IN.byte_width) or _CONVERTED in element or _LOGICAL in element:
        return False
    element[_TYPE] = (I32, _INT96)
    del element[_TYPE_LENGTH]
    return True
