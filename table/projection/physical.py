"""Convert the Arrow arrays of a data file, in any physical form, to the standard Arrow form of their data type.

Owns: the physical forms of a leaf that writers use (dictionaries, large and view layouts, INT96 and other units, missing zones,
bare integers), and rebuilding nested arrays from converted children. Must not know: schemas, field ids, files.
Source: format/data-files §3. Invariants: A value is kept exactly, or `Misfit` is raised. No Python code runs per row. Of a sliced
array, only the slice is converted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.rows.arrow import to_arrow
from ...core.rows.binary.binary_row import COMPACT_DECIMAL_DIGITS
from ...core.rows.types import AtomicType
from ...core.rows.values import plain_array
from .variants import assembled

_kinds = pa.types
_DECIMAL_BYTES, _LONG_BYTES = 16, 8


class Misfit(Exception):
    """The array has an Arrow type that cannot hold values of the data type."""


class OutOfRange(Misfit):
    """A value is valid for the data type, but does not fit into its Arrow form (the year 9999 in nanoseconds)."""


def leaf(array: Any, data_type: AtomicType) -> Any:
    """Convert an array of a file to the Arrow type of its column, in the schema with which the file was written.

    `Misfit`: it holds another kind of values; the caller adds the file and the column to the error.

    >>> leaf(pa.array([1, None], pa.int32()), AtomicType("TINYINT")).type
    DataType(int8)
    """
    target = to_arrow(data_type)
    if array.type == target:
        return array
    if data_type.root == "VARIANT":
        return _variant(array, target)
    if not _holds(data_type.root, array.type):
        raise Misfit(f"it holds {array.type}")
    array = plain_array(array)
    try:
        if _kinds.is_timestamp(target):
            return _timestamp(array, target)
        if data_type.root == "DECIMAL" and _kinds.is_binary(array.type):
            return decimals_of(array, target)
        if data_type.root == "TIME" and _kinds.is_integer(array.type):
            return array.cast(pa.int32()).view(target)
        if data_type.root == "DATE" and _kinds.is_integer(array.type):
            return array.cast(pa.int32()).view(target)
        return array.cast(target)
    except pa.ArrowException as error:
        raise Misfit(str(error).partition("\n")[0]) from error


def _is_text(kind: Any) -> bool:
    return bool(
        _kinds.is_string(kind) or _kinds.is_large_string(kind) or _kinds.is_string_view(kind) or _is_bytes(kind)
    )


def _is_bytes(kind: Any) -> bool:
    return bool(
        _kinds.is_binary(kind)
        or _kinds.is_large_binary(kind)
        or _kinds.is_binary_view(kind)
        or _kinds.is_fixed_size_binary(kind)
    )


_HOLDS: dict[str, Callable[[Any], bool]] = {
    "BOOLEAN": _kinds.is_boolean,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _kinds.is_integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _kinds.is_floating),
    "DECIMAL": lambda kind: _kinds.is_decimal(kind) or _kinds.is_binary(kind),
    **dict.fromkeys(("CHAR", "VARCHAR"), _is_text),
    **dict.fromkeys(("BINARY", "VARBINARY", "BLOB", "GEOMETRY", "GEOGRAPHY"), _is_text),
    "DATE": lambda kind: _kinds.is_date(kind) or _kinds.is_int32(kind),
    "TIME": lambda kind: _kinds.is_time(kind) or _kinds.is_int32(kind),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ"), _kinds.is_timestamp),
}


def _holds(root: str, kind: Any) -> bool:
    if _kinds.is_dictionary(kind):
        kind = kind.value_type
    return root in _HOLDS and bool(_HOLDS[root](kind))


def _timestamp(array: Any, target: Any) -> Any:
    """A zone is a label, which does not change the number (INT96 has none, format/data-files §3)."""
    if array.type.tz != target.tz:
        array = array.view(pa.timestamp(array.type.unit, target.tz))
    if array.type == target:
        return array
    finer = {"s": 0, "ms": 1, "us": 2, "ns": 3}
    if finer[array.type.unit] > finer[target.unit]:
        # Digits beyond the column's precision are cut by rounding down, also before 1970.
        array = pc.floor_temporal(array, unit={"s": "second", "ms": "millisecond", "us": "microsecond"}[target.unit])
    return in_unit(array, target)


def in_unit(array: Any, target: Any) -> Any:
    """Timestamps in a finer unit. Raises OutOfRange."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid as error:
        raise OutOfRange(str(error).partition("\n")[0]) from error


def decimals_of(array: Any, target: Any) -> Any:
    r"""Decimals from their unscaled digits, which are big-endian numbers of any length, as in Avro.

    >>> decimals_of(pa.array([b"\x7b", b"\xff\x85", None]), pa.decimal128(5, 2)).to_pylist()
    [Decimal('1.23'), Decimal('-1.23'), None]
    """
    count = len(array)
    if not count:
        return pa.array([], target)
    _, ends, digits = array.buffers()
    offsets = np.frombuffer(ends, np.int32)[array.offset : array.offset + count + 1]
    lengths, data = np.diff(offsets), np.frombuffer(digits or b"", np.uint8)
    if lengths.max() > _DECIMAL_BYTES:
        raise Misfit(f"a decimal of {lengths.max()} bytes")
    some = lengths > 0
    little = np.zeros((count, _DECIMAL_BYTES), np.uint8)
    little[some] = np.where(data[offsets[:-1][some]] >= 128, 255, 0)[:, None]
    for place in range(lengths.max()):  # the last byte of every number, the one before it, …
        held = lengths > place
        little[held, place] = data[offsets[1:][held] - 1 - place]
    valid = pc.is_valid(array).buffers()[1] if array.null_count else None
    buffers = [valid, pa.py_buffer(little)]
    if lengths.max() <= _LONG_BYTES and target.precision <= COMPACT_DECIMAL_DIGITS:
        return pa.Array.from_buffers(target, count, buffers)  # a sum may have more digits than the type
    return pa.Array.from_buffers(pa.decimal128(38, target.scale), count, buffers).cast(target)


def _variant(array: Any, target: Any) -> Any:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if not _kinds.is_struct(array.type):
        raise Misfit(f"it holds {array.type}")
    names = [field.name for field in array.type]
    if "typed_value" in names:
        try:
            values, metadata = assembled(plain_array(array))
        except (ValueError, OverflowError) as error:
            raise Misfit(f"the parts of a shredded value do not match: {error}") from error
        by_name = {"value": pa.array(values, pa.binary()), "metadata": pa.array(metadata, pa.binary())}
        return struct_of(array, [by_name[field.name].cast(field.type) for field in target], target)
    if sorted(names) != ["metadata", "value"]:
        raise Misfit(f"it has the parts {names}")
    parts = [array.field(names.index(field.name)).cast(field.type) for field in target]
    return struct_of(array, parts, target)


# ------------------------------------------------------------------------------------------------------------- nested


def struct_of(array: Any, parts: Sequence[Any], target: Any) -> Any:
    return pa.StructArray.from_arrays(list(parts), fields=list(target), mask=_mask(array))


def list_of(array: Any, target: Any, convert: Callable[[Any], Any]) -> Any:
    if _kinds.is_fixed_size_list(array.type) or not _kinds.is_list(array.type):
        if not (_kinds.is_fixed_size_list(array.type) or _kinds.is_large_list(array.type)):
            raise Misfit(f"it holds {array.type}")
        array = array.cast(pa.list_(array.type.value_field))
    start, stop, offsets = _window(array)
    elements = convert(array.values.slice(start, stop - start))
    return pa.ListArray.from_arrays(offsets, elements, type=target, mask=_mask(array))


def vector_of(array: Any, target: Any, convert: Callable[[Any], Any]) -> Any:
    """A list array of fixed length with its elements converted. Files store it as a plain list."""
    elements = list_of(array, pa.list_(target.value_field), convert)
    try:
        return elements.cast(target)
    except pa.ArrowException as error:
        raise Misfit(str(error).partition("\n")[0]) from error


def map_of(array: Any, target: Any, convert_keys: Callable[[Any], Any], convert_values: Callable[[Any], Any]) -> Any:
    """A map array with its keys and values converted. File formats without maps store lists of pairs."""
    if not _kinds.is_map(array.type) and not _is_list_of_pairs(array.type):
        raise Misfit(f"it holds {array.type}")
    start, stop, offsets = _window(array)
    keys, items = (array.keys, array.items) if _kinds.is_map(array.type) else array.values.flatten()
    keys = convert_keys(keys.slice(start, stop - start))
    values = convert_values(items.slice(start, stop - start))
    return pa.MapArray.from_arrays(offsets, keys, values, type=target, mask=_mask(array))


def _is_list_of_pairs(kind: Any) -> bool:
    return bool(_kinds.is_list(kind) and _kinds.is_struct(kind.value_type) and kind.value_type.num_fields == 2)


def _window(array: Any) -> tuple[int, int, Any]:
    """The range of children that a list or map array uses (start, end), and its offsets relative to the start."""
    offsets = array.offsets
    start, stop = offsets[0].as_py(), offsets[len(array)].as_py()
    return start, stop, pc.subtract(offsets, pa.scalar(start, pa.int32()))


def _mask(array: Any) -> Any:
    return array.is_null() if array.null_count else None


def timestamp_leaves(array: Any) -> list[Any]:
    """Every timestamp array inside an array. Children are sliced as their parents are.

    >>> [a.type for a in timestamp_leaves(pa.array([{"t": 1}], pa.struct([("t", pa.timestamp("us"))])))]
    [TimestampType(timestamp[us])]
    """
    kind = array.type
    if _kinds.is_timestamp(kind):
        return [array]
    if _kinds.is_struct(kind):
        return [found for i in range(kind.num_fields) for found in timestamp_leaves(array.field(i))]
    if _kinds.is_map(kind):
        return timestamp_leaves(array.keys) + timestamp_leaves(array.items)
    if _kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind):
        return timestamp_leaves(array.values)
    return []
