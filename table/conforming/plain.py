"""Arrow arrays without encodings: what dictionaries, views and the many widths of one kind of value stand for.

Owns: `plain`, `plain_type`. Must not know: columns of tables.
Invariants: Values stay what they are, at every depth. Points in time are in UTC, which is a label. No Python code runs per row.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.rows.sizes import is_list, list_offsets, run_numbers

_kinds = pa.types
_DECIMAL128_DIGITS = 38


@lru_cache(maxsize=4096)
def plain_type(t: Any, large: bool = False) -> Any:
    """The type of `plain`.

    >>> plain_type(pa.dictionary(pa.int8(), pa.large_string())), plain_type(pa.timestamp("us", "Asia/Tokyo"))
    (DataType(string), TimestampType(timestamp[us, tz=UTC]))
    """
    if isinstance(t, pa.BaseExtensionType):
        return _extension_type(t, large)
    if _kinds.is_dictionary(t) or _kinds.is_run_end_encoded(t):
        return plain_type(t.value_type, large)
    if _kinds.is_string(t) or _kinds.is_large_string(t) or _kinds.is_string_view(t):
        return pa.large_string() if large else pa.string()
    if _kinds.is_binary(t) or _kinds.is_large_binary(t) or _kinds.is_binary_view(t) or _kinds.is_fixed_size_binary(t):
        return pa.large_binary() if large else pa.binary()
    if _kinds.is_float16(t):
        return pa.float32()
    if _kinds.is_date64(t):
        return pa.date32()
    if _kinds.is_decimal(t) and t.precision <= _DECIMAL128_DIGITS:
        return pa.decimal128(t.precision, t.scale)
    if _kinds.is_timestamp(t) and t.tz is not None:
        return pa.timestamp(t.unit, "UTC")
    if _kinds.is_struct(t):
        return pa.struct([f.with_type(plain_type(f.type, large)).with_nullable(True) for f in t])
    if _kinds.is_map(t):
        key, item = plain_type(t.key_type, large), plain_type(t.item_type, large)
        return pa.map_(pa.field("key", key, False), pa.field("value", item))
    if is_list(t):
        element = pa.field("element", plain_type(t.value_type, large))
        return pa.large_list(element) if large else pa.list_(element)
    return t


def _extension_type(t: Any, large: bool) -> Any:
    if t.extension_name == "arrow.bool8":
        return pa.bool_()
    return plain_type(t.storage_type, large) if t.extension_name == "arrow.json" else t


def plain(array: Any, large: bool = False) -> Any:
    """The values as an array of type `plain_type`. Those of an extension type that is not known stay as they are.

    With `large`, texts, bytes and lists get offsets of 64 bits, so that there may be more than 2 GiB of them; else more are a
    `pa.ArrowException`, as is a date with a time of day.

    >>> plain(pa.array([["a"], None], pa.list_(pa.string_view()))).to_pylist()
    [['a'], None]
    """
    t = array.type
    wanted = plain_type(t, large)
    if t.equals(wanted):
        return array
    if isinstance(t, pa.BaseExtensionType):
        return array.storage.cast(pa.bool_()) if wanted == pa.bool_() else plain(array.storage, large)
    if _kinds.is_dictionary(t):
        return plain(array.dictionary, large).take(array.indices)
    if _kinds.is_run_end_encoded(t):
        return plain(array.values, large).take(pa.array(run_numbers(array)))
    if _kinds.is_struct(t):
        parts = [plain(part, large) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(wanted), mask=nulls_of(array))
    if _kinds.is_map(t):
        places, keys, items = entries(array)
        return pa.MapArray.from_arrays(
            pa.array(places, pa.int32()), plain(keys, large), plain(items, large), type=wanted, mask=nulls_of(array)
        )
    if is_list(t):
        made = pa.LargeListArray if large else pa.ListArray
        places = pa.array(list_offsets(array), pa.int64() if large else pa.int32())
        return made.from_arrays(places, plain(array.flatten(), large), type=wanted, mask=nulls_of(array))
    return array.cast(wanted)


def plain_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([plain(column) for column in batch.columns], names=batch.schema.names)


def nulls_of(array: Any) -> Any:
    """Which values are null, for a new array; None if none is."""
    return array.is_null() if array.null_count else None


def entries(array: Any) -> tuple[Any, Any, Any]:
    """Where each map begins among the entries, and where the last one ends; the keys and the values of the entries."""
    kind = array.type
    lists = array.cast(pa.list_(pa.struct([kind.key_field.with_name("key"), kind.item_field.with_name("value")])))
    return (np.asarray(list_offsets(lists)), *lists.flatten().flatten())
