"""The columns of manifest entries as Arrow arrays, without an object for each entry.

Owns: `FileColumns`, which gives columns by the names of `ManifestEntry` and `DataFile`. Must not know: what is made of them.
Source: format/manifests §3, §6. Invariant: A column has the same values whether the entries came as columns or as objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..avro.values import AvroColumn
from ..avro.varints import Bytes
from ..errors import TableCorrupt
from ..typed import Array
from .data_file import ManifestEntry
from .manifest_columns import EntryColumns

_NUMBERS = {
    "bucket": pa.int32(),
    "total_buckets": pa.int32(),
    "file_size": pa.int64(),
    "row_count": pa.int64(),
    "schema_id": pa.int64(),
    "level": pa.int32(),
    "min_sequence_number": pa.int64(),
    "max_sequence_number": pa.int64(),
    "creation_time": pa.int64(),
    "delete_row_count": pa.int64(),
    "file_source": pa.int32(),
    "first_row_id": pa.int64(),
}
_BYTES = ("partition", "min_key", "max_key", "min_values", "max_values")
_TEXTS = ("file_name", "external_path")
_TEXT_LISTS = ("write_cols", "value_stats_cols")
_OF_ENTRY = ("partition", "bucket", "total_buckets")
_MOSTLY = 1.5
_OF_STATS = {"min_values": "_MIN_VALUES", "max_values": "_MAX_VALUES", "null_counts": "_NULL_COUNTS"}


class FileColumns:
    """Entries of manifests as columns: `column("row_count")` and so on, by the names of `ManifestEntry` and `DataFile`,
    and `min_values`, `max_values` and `null_counts` of the value statistics. `part` is what `Timeline.entry_parts`
    gives; `rows` are the ascending indices of the entries.
    """

    def __init__(self, part: EntryColumns | Sequence[ManifestEntry], rows: Array | None = None) -> None:
        self._part, self._rows = part, rows
        if not isinstance(part, EntryColumns) and rows is not None:
            self._part = [part[i] for i in rows.tolist()]
            self._rows = None

    def __len__(self) -> int:
        if self._rows is not None:
            return len(self._rows)
        return self._part.rows if isinstance(self._part, EntryColumns) else len(self._part)

    def chosen(self, rows: Array) -> FileColumns:
        return FileColumns(self._part, rows if self._rows is None else self._rows[rows])

    def entries(self) -> list[ManifestEntry]:
        return self._part.entries(self._rows) if isinstance(self._part, EntryColumns) else list(self._part)

    def column(self, name: str) -> pa.Array:
        if not isinstance(self._part, EntryColumns):
            return _of_objects(self._part, name)
        found = self._part.values(_avro_name(name), self._rows)
        if found is None:
            return pa.nulls(len(self), _type_of(name))
        array = _arrow(found, self._part.data, _type_of(name))
        if name in _TEXTS or name in _TEXT_LISTS:
            try:
                array.validate(full=True)
            except pa.ArrowInvalid as error:
                raise TableCorrupt(f"{', '.join(self._part.names)}: field {_avro_name(name)} is not text") from error
        return array


def _avro_name(name: str) -> str:
    if name in _OF_STATS:
        return f"_FILE._VALUE_STATS.{_OF_STATS[name]}"
    return f"_{name.upper()}" if name in _OF_ENTRY else f"_FILE._{name.upper()}"


def _type_of(name: str) -> pa.DataType:
    if name in _NUMBERS:
        return _NUMBERS[name]
    if name == "null_counts":
        return pa.list_(pa.int64())
    if name in _TEXT_LISTS:
        return pa.list_(pa.string())
    return pa.binary() if name in _BYTES else pa.string()


def _of_objects(entries: Sequence[ManifestEntry], name: str) -> pa.Array:
    if name in _OF_ENTRY:
        found: list[Any] = [getattr(e, name) for e in entries]
    elif name in _OF_STATS:
        found = [getattr(e.file.value_stats, name) for e in entries]
    else:
        found = [getattr(e.file, name) for e in entries]
    return pa.array(found, _type_of(name))


# ------------------------------------------------------------------------------------------------------ Avro to Arrow


def _arrow(column: AvroColumn, data: Bytes, arrow_type: pa.DataType) -> pa.Array:
    if column.items is not None:
        offsets = _offsets(_sizes(column))
        lists = pa.ListArray.from_arrays(pa.array(offsets), _arrow(column.items, data, arrow_type.value_type))
        return lists if column.valid is None else _masked(lists, column.valid)
    if column.lengths is not None:
        return _bytes_array(data, column.values, _sizes(column), column.valid, arrow_type)
    return pa.array(column.values, mask=None if column.valid is None else ~column.valid).cast(arrow_type)


def _sizes(column: AvroColumn) -> Array:
    return column.sizes if column.valid is None else np.where(column.valid, column.sizes, 0)


def _offsets(sizes: Array) -> Array:
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _masked(lists: pa.Array, valid: Array) -> pa.Array:
    return pa.ListArray.from_arrays(lists.offsets, lists.values, mask=pa.array(~valid))


def _bytes_array(data: Bytes, starts: Array, sizes: Array, valid: Array | None, arrow_type: pa.DataType) -> pa.Array:
    """Values of different lengths, copied together. Those of almost one length are cut at the longest first, which is faster."""
    offsets = _offsets(sizes)
    width = int(sizes[0]) if len(sizes) else 0
    longest = int(sizes.max(initial=0))
    if width and (sizes == width).all():
        joined = data.cut(starts, width)
    elif 0 < longest * len(sizes) <= _MOSTLY * int(offsets[-1]) and int(starts.max()) + longest <= data.end:
        table = np.frombuffer(data.cut(starts, longest), np.uint8).reshape(len(sizes), longest)
        joined = table[np.arange(longest) < sizes[:, np.newaxis]].tobytes()
    else:
        places = np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(starts - offsets[:-1], sizes)
        joined = data.at(places).tobytes()
    bits = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    buffers = [bits, pa.py_buffer(offsets.tobytes()), pa.py_buffer(joined)]
    return pa.Array.from_buffers(arrow_type, len(sizes), buffers)
