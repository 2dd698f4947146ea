"""Write ORC data files: types, field ids, codecs.

Owns: `OrcOutput`, which writes one file, and the check for columns that ORC cannot hold. Must not know: stores, when a file is
complete.
Source: format/data-files §2, §3. Invariant: A point in time is stored in UTC, whatever the zone of this machine. A column that a
reader in another zone would read as other points in time is refused.

Columns and fields of ROWs have field ids. Arrow's writer cannot store those of elements, keys and values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import orc

from ...core import options as opt
from ...core.errors import InvalidArgument, Unsupported
from ...core.options import TableOptions
from ...core.orc.checksum import with_checksum
from ...core.orc.times import split_times, with_plain_fractions
from ...core.rows.arrow import FIELD_ID, file_schema
from ...core.rows.types import Field, sql, walk_types
from ..projection.physical import list_of, map_of, struct_of, timestamp_leaves

CODECS = {"none": "uncompressed", "uncompressed": "uncompressed", **dict.fromkeys(("zstd", "snappy", "zlib", "lz4"))}
"""The codecs, by Apache Paimon's names; None if Arrow's name is the same."""
_ORC_FIELD_ID = b"paimon.id"
STRIPE_BYTES = 64 << 20

_kinds = pa.types


def check_orc(fields: Sequence[Field], options: TableOptions) -> None:
    """Refuse columns that ORC files cannot hold."""
    for field in fields:
        for part in walk_types(field.type):
            root = getattr(part, "root", "")
            if root == "VARIANT":
                raise Unsupported(f"column '{field.name}': ORC files cannot hold VARIANT")
            if root == "TIMESTAMP_LTZ" and options.get(opt.ORC_LTZ_BY_WALL_CLOCK):
                raise Unsupported(
                    f"column '{field.name}' is {sql(part)}: with option '{opt.ORC_LTZ_BY_WALL_CLOCK.key}' = true ORC files"
                    " give other times to readers in other time zones",
                    next_step="alter the table: set_option('file.format', 'parquet') for new files; only if it has no ORC file"
                    f" yet, set option '{opt.ORC_LTZ_BY_WALL_CLOCK.key}' to false instead",
                )


class OrcOutput:
    """An ORC file that is being written. `codec` is a key of `CODECS`."""

    def __init__(self, sink: Any, fields: Sequence[Field], codec: str, stripe_bytes: int) -> None:
        self._schema = pa.schema([_orc_field(field) for field in file_schema(fields)])
        self._sink = _Summed(sink)
        self._has_split_times = False
        self._writer = orc.ORCWriter(self._sink, compression=CODECS[codec] or codec, stripe_size=stripe_bytes)

    def write(self, rows: pa.Table) -> None:
        """Add rows. Refuses times that ORC cannot hold, or that do not fit into the nanoseconds of readers that use Arrow."""
        columns = [_stored(column, field) for column, field in zip(rows.columns, self._schema, strict=True)]
        if any(changed for _, changed in columns):
            self._has_split_times = True
            self._sink.hold()
        self._writer.write(pa.Table.from_arrays([column for column, _ in columns], schema=self._schema))

    def close(self) -> None:
        self._sink.hold()
        self._writer.close()
        start, before = self._sink.held_from, self._sink.checksum

        def ended(end: bytes) -> bytes:
            return with_checksum(with_plain_fractions(end, start) if self._has_split_times else end, before)

        self._sink.release(ended)


class _Summed:
    """The sink of a file, with the CRC-32 and the number of its bytes up to those that are held back."""

    closed = False

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._holds = False
        self.checksum = self.held_from = 0

    def write(self, data: Any) -> int:
        block = bytes(data)
        if not self._holds:
            self.checksum = zlib.crc32(block, self.checksum)
            self.held_from += len(block)
        self._sink.write(block)
        return len(block)

    def hold(self) -> None:
        """Hold back the bytes that are written from now on, unless some are held back already."""
        if not self._holds:
            self._holds = True
            self._sink.hold()

    def release(self, change: Callable[[bytes], bytes]) -> None:
        self._sink.release(change)

    def tell(self) -> int:
        return int(self._sink.tell())

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        return

    def close(self) -> None:
        self.closed = True


def _stored(column: Any, field: pa.Field) -> tuple[Any, bool]:
    """A column as Arrow's writer must be given it, and whether it has times that `with_plain_fractions` must change."""
    try:
        stored = column.cast(field.type)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(
            f"column '{field.name}': ORC files can hold only times of the years 1678 to 2261: {error}",
            next_step="use file format parquet or avro for such times",
        ) from error
    if _kinds.is_nested(field.type):
        stored = pa.chunked_array([_settled(chunk) for chunk in stored.chunks], field.type)
    if not _has_times(field.type):
        return stored, False
    try:
        changed = any(_is_split(leaf) for chunk in stored.chunks for leaf in timestamp_leaves(chunk))
    except ValueError as error:
        raise InvalidArgument(
            f"column '{field.name}': {error}, which ORC files cannot hold",
            next_step="use file format parquet or avro for such times",
        ) from error
    return (pa.chunked_array([_split(chunk) for chunk in stored.chunks], field.type) if changed else stored), changed


def _is_split(times: Any) -> bool:
    nanos = _nanos(times)
    return split_times(nanos) is not nanos


def _nanos(times: Any) -> Any:
    return times.cast(pa.int64()).fill_null(0).to_numpy()


def _split(array: Any) -> Any:
    """An array with its times before 1970 in the form of `split_times`."""
    kind = array.type
    if _kinds.is_timestamp(kind):
        made = split_times(_nanos(array))
        return pa.array(made, pa.int64(), mask=array.is_null().to_numpy(False)).cast(kind)
    if not _has_times(kind):
        return array
    if _kinds.is_struct(kind):
        return struct_of(array, [_split(part) for part in array.flatten()], kind)
    if _kinds.is_map(kind):
        return map_of(array, kind, _split, _split)
    return list_of(array, kind, _split)


def _has_times(kind: pa.DataType) -> bool:
    return _kinds.is_timestamp(kind) or any(_has_times(kind.field(i).type) for i in range(kind.num_fields))


def _settled(array: pa.Array) -> pa.Array:
    """An array whose ROWs begin at offset 0, and whose fields are null wherever their ROW is.

    Otherwise Arrow's writer stores values of other rows
    (apache/arrow, cpp/src/arrow/adapters/orc/util.cc, NormalizeArray).
    """
    return _with_nulls(array.take(pa.array(np.arange(len(array)))))


def _with_nulls(array: pa.Array) -> pa.Array:
    kind = array.type
    if not _has_rows(kind):
        return array
    if _kinds.is_struct(kind):
        parts = [_with_nulls(part) for part in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if _kinds.is_map(kind):
        keys, items = _with_nulls(array.keys), _with_nulls(array.items)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=array.is_null())
    return pa.ListArray.from_arrays(array.offsets, _with_nulls(array.values), type=kind, mask=array.is_null())


def _has_rows(kind: pa.DataType) -> bool:
    return _kinds.is_struct(kind) or any(_has_rows(kind.field(i).type) for i in range(kind.num_fields))


def _orc_field(field: pa.Field) -> pa.Field:
    """A field of the ORC schema. ORC has no time of day (its milliseconds are stored as INT) and no NOT NULL."""
    made = pa.field(field.name, _orc_type(field.type))
    found = (field.metadata or {}).get(FIELD_ID)
    return made if found is None else made.with_metadata({_ORC_FIELD_ID: found})


def _orc_type(kind: pa.DataType) -> pa.DataType:
    if _kinds.is_time(kind):
        return pa.int32()
    if _kinds.is_timestamp(kind):
        return pa.timestamp("ns", kind.tz)
    if _kinds.is_struct(kind):
        return pa.struct([_orc_field(part) for part in kind])
    if _kinds.is_map(kind):
        return pa.map_(_orc_type(kind.key_type), _orc_type(kind.item_type))
    if _kinds.is_list(kind) or _kinds.is_fixed_size_list(kind):
        return pa.list_(_orc_type(kind.value_type))
    return kind
