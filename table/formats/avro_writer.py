"""Write Avro data files: the schema in their header, codecs, values in Avro's form.

Owns: `AvroOutput`, which writes one file, and the check for columns that Avro cannot hold. Must not know: stores, when a file is
complete. Source: format/data-files §3.
Invariants: The schema in the header is exactly Apache Paimon's. Times, dates and decimals are converted to plain values as Arrow
columns, so that fastavro only encodes. It does so row by row, which takes ten times as long as writing a Parquet file.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.avro.checksum import KEY, NO_CHECKSUM, with_checksum
from ...core.avro.records import long_bytes
from ...core.errors import InvalidArgument, Unsupported
from ...core.rows.types import (
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    sql,
    walk_types,
)
from ...core.rows.values import root_of
from ...core.typed import assert_never
from ..projection.physical import list_of, map_of, struct_of

CODECS = {
    "zstd": "zstandard",
    "none": "null",
    **{codec: codec for codec in ("null", "snappy", "deflate", "bzip2", "xz", "zstandard")},
}
"""The codecs, by Apache Paimon's names."""
_UNCHECKED = ("null", "deflate", "snappy")
"""The codecs whose blocks have no checksum, or one that fastavro does not compare."""
_MOST_HELD_BYTES = 64 << 20
"""Files without checksums in their blocks are held in memory up to this size, because the checksum is in the header."""
_BATCH_ROWS = 4096
_BLOCK_BYTES = 64_000
_NAMESPACE = "org.apache.paimon.avro.generated"
_MOST_DIGITS = {"TIME": 3, "TIMESTAMP": 6, "TIMESTAMP_LTZ": 6}
_PLAIN = {
    "BOOLEAN": "boolean",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT"), "int"),
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    **dict.fromkeys(("CHAR", "VARCHAR"), "string"),
    **dict.fromkeys(("BINARY", "VARBINARY"), "bytes"),
    "DATE": {"type": "int", "logicalType": "date"},
    "TIME": {"type": "int", "logicalType": "time-millis"},
}
_COUNT = AtomicType("INT")


def check_avro(fields: Sequence[Field]) -> None:
    """Refuse columns that Avro files cannot hold."""
    for field in fields:
        for part in walk_types(field.type):
            if not _fits(part):
                raise Unsupported(
                    f"column '{field.name}': Avro files cannot hold {sql(part)}", next_step="use another file format"
                )


def _fits(part: DataType) -> bool:
    match part:
        case AtomicType(root="DECIMAL"):
            return True
        case AtomicType(root="TIMESTAMP" | "TIMESTAMP_LTZ" | "TIME" as root, precision=precision):
            return precision <= _MOST_DIGITS[root]
        case AtomicType(root=root):
            return root in _PLAIN
        case MultisetType(element=element):
            return root_of(element) in STRING_ROOTS  # Apache Paimon's reader fails for other keys
        case _:
            return isinstance(part, (ArrayType, MapType, RowType))


class AvroOutput:
    """An Avro file that is being written. `codec` is a key of `CODECS`, and `level` that of zstd."""

    def __init__(self, sink: Any, fields: Sequence[Field], codec: str, level: int | None) -> None:
        from fastavro.write import Writer

        self._fields, self._sink = tuple(fields), sink
        self._with_maps = [field for field in fields if _has_maps(field.type)]
        self._is_held = CODECS[codec] in _UNCHECKED
        if self._is_held:
            sink.hold()
        self._writer = Writer(
            sink,
            avro_schema(fields),
            codec=CODECS[codec],
            sync_interval=_BLOCK_BYTES,
            metadata={KEY: NO_CHECKSUM} if self._is_held else None,
            compression_level=level if CODECS[codec] == "zstandard" else None,
        )
        if CODECS[codec] == "zstandard":
            self._writer.block_writer = _checked_block

    def write(self, rows: pa.Table) -> None:
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            columns = [_plain(batch.column(i), field.type) for i, field in enumerate(self._fields)]
            plain = pa.RecordBatch.from_arrays(columns, [field.name for field in self._fields])
            for row in plain.to_pylist():
                for field in self._with_maps:
                    row[field.name] = _with_dicts(row[field.name], field.type)
                self._writer.write(row)
        if self._is_held and self._sink.tell() > _MOST_HELD_BYTES:
            self._is_held = False
            self._sink.release(lambda data: data)

    def close(self) -> None:
        """Write the last block, and the checksum of the file if its codec has none."""
        self._writer.flush()
        if self._is_held:
            self._sink.release(lambda data: with_checksum(data, zlib.crc32(data)))


def _checked_block(sink: Any, data: bytes, level: int | None) -> None:
    """Write a block compressed by zstd, with the checksum that every reader of zstd compares. fastavro leaves it out."""
    from ...core.avro.zstandard import zstd

    options: dict[int, int] = {zstd.CompressionParameter.checksum_flag: 1}
    if level is not None:
        options[zstd.CompressionParameter.compression_level] = level
    packed = zstd.compress(bytes(data), options=options)
    sink.write(long_bytes(len(packed)) + packed)


# ---------------------------------------------------------------------------------------------------------- the schema


def avro_schema(fields: Sequence[Field]) -> dict[str, Any]:
    """The schema that Apache Paimon writes for these columns.

    >>> avro_schema([Field(0, "a", AtomicType("INT"))])["fields"]
    [{'name': 'a', 'type': ['null', 'int'], 'default': None}]
    """
    return {"type": "record", "name": "record", "namespace": _NAMESPACE, "fields": _parts(fields, "record")}


def _parts(fields: Sequence[Field], name: str) -> list[dict[str, Any]]:
    return [_part(field.name, field.type, f"{name}_{field.name}") for field in fields]


def _part(name: str, data_type: DataType, record: str) -> dict[str, Any]:
    part: dict[str, Any] = {"name": name, "type": _avro(data_type, record)}
    return part | {"default": None} if data_type.nullable else part


def _avro(data_type: DataType, record: str) -> Any:
    plain = _avro_required(data_type, record)
    return ["null", plain] if data_type.nullable else plain


def _avro_required(data_type: DataType, record: str) -> Any:
    match data_type:
        case AtomicType(root="DECIMAL", precision=precision, scale=scale):
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case AtomicType(root="TIMESTAMP" | "TIMESTAMP_LTZ" as root, precision=precision):
            unit = "millis" if precision <= 3 else "micros"
            prefix = "local-" if root == "TIMESTAMP_LTZ" else ""
            return {"type": "long", "logicalType": f"{prefix}timestamp-{unit}"}
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return {"type": "array", "items": _avro(element, record)}
        case MultisetType():
            return {"type": "map", "values": _avro(_COUNT, record)}
        case MapType(key=key, value=value) if root_of(key) in STRING_ROOTS:
            return {"type": "map", "values": _avro(value, record)}
        case MapType(key=key, value=value):
            pair = [
                {"name": "key", "type": _avro(key, f"{record}_key")},
                _part("value", value, f"{record}_value"),
            ]
            return {
                "type": "array",
                "items": {"type": "record", "name": record, "fields": pair},
                "logicalType": "map",
            }
        case RowType(fields=fields):
            return {"type": "record", "name": record, "fields": _parts(fields, record)}
        case VectorType():
            raise AssertionError(data_type)
        case _:
            assert_never(data_type)


# ---------------------------------------------------------------------------------------------------------- the values


def _plain(array: Any, data_type: DataType) -> Any:
    """An array whose Python values are those that Avro expects."""
    match data_type:
        case AtomicType(root="DECIMAL"):
            return digits_of(array)
        case AtomicType(root="DATE" | "TIME"):
            return array.view(pa.int32())
        case AtomicType(root="TIMESTAMP" | "TIMESTAMP_LTZ", precision=precision):
            unit = pa.timestamp("ms" if precision <= 3 else "us", array.type.tz)
            return array.cast(unit).view(pa.int64())
        case ArrayType(element=element):
            return _list(array, lambda values: _plain(values, element))
        case MapType(key=key, value=value) if root_of(key) not in STRING_ROOTS:
            pairs = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
            return _list(pairs, lambda pair: _struct(pair, [key, value]))
        case MapType(value=value):
            return _map(array, lambda items: _plain(items, value))
        case RowType(fields=fields):
            return _struct(array, [field.type for field in fields])
        case _:
            return array


def _struct(array: Any, types: Sequence[DataType]) -> Any:
    parts = [_plain(array.field(i), data_type) for i, data_type in enumerate(types)]
    target = [pa.field(field.name, part.type) for field, part in zip(array.type, parts, strict=True)]
    return struct_of(array, parts, target)


def _list(array: Any, convert: Any) -> Any:
    empty = convert(array.values[:0])
    return list_of(array, pa.list_(empty.type), convert)


def _map(array: Any, convert: Any) -> Any:
    empty = convert(array.items[:0])
    return map_of(array, pa.map_(array.type.key_type, empty.type), lambda keys: keys, convert)


def _has_maps(data_type: DataType) -> bool:
    match data_type:
        case MultisetType():
            return True
        case MapType(key=key, value=value):
            return root_of(key) in STRING_ROOTS or _has_maps(key) or _has_maps(value)
        case ArrayType(element=element):
            return _has_maps(element)
        case RowType(fields=fields):
            return any(_has_maps(field.type) for field in fields)
        case _:
            return False


def _with_dicts(value: Any, data_type: DataType) -> Any:
    """A Python value whose maps by text are dicts, which pyarrow makes only from version 20 on. Refuses keys that occur twice."""
    if value is None or not _has_maps(data_type):
        return value
    match data_type:
        case ArrayType(element=element):
            return [_with_dicts(each, element) for each in value]
        case RowType(fields=fields):
            return {field.name: _with_dicts(value[field.name], field.type) for field in fields}
        case MapType(key=key, value=of) if root_of(key) not in STRING_ROOTS:
            return [{"key": _with_dicts(p["key"], key), "value": _with_dicts(p["value"], of)} for p in value]
        case MapType(value=of):
            found = {key: _with_dicts(each, of) for key, each in value}
        case _:
            found = dict(value)
    if len(found) < len(value):
        twice = next(key for key, count in Counter(key for key, _ in value).items() if count > 1)
        raise InvalidArgument(f"a map has the key {twice!r} twice", next_step="keep one of its values")
    return found


def digits_of(array: Any) -> Any:
    r"""Decimals (decimal128) as their unscaled digits: big-endian numbers in as few bytes as possible.

    >>> from decimal import Decimal
    >>> digits_of(pa.array([Decimal("1.23"), Decimal("-1.28"), None], pa.decimal128(5, 2))).to_pylist()
    [b'{', b'\x80', None]
    """
    count = len(array)
    if not count:
        return pa.array([], pa.binary())
    raw = np.frombuffer(array.buffers()[1], np.uint8)[16 * array.offset : 16 * (array.offset + count)]
    big = raw.reshape(count, 16)[:, ::-1]
    sign = np.where(big[:, :1] >= 0x80, 0xFF, 0).astype(np.uint8)
    # Bytes are needed from the first that differs from the sign, and one more if the sign would change otherwise.
    differs = (big[:, :-1] != sign) | ((big[:, 1:] ^ sign) >= 0x80)
    first = np.where(differs.any(axis=1), differs.argmax(axis=1), 15)
    lengths = 16 - first
    valid = np.asarray(array.is_valid())
    lengths = np.where(valid, lengths, 0)
    data = big[np.arange(16) >= 16 - lengths[:, None]]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    buffers: list[Any] = [np.packbits(valid, bitorder="little"), offsets, data]
    return pa.Array.from_buffers(pa.binary(), count, [pa.py_buffer(buffer.tobytes()) for buffer in buffers])
