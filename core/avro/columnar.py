"""Write and read the records of manifests in ORC and Parquet (option `manifest.format`).

Owns: the Arrow form of an Avro schema, and the codecs of both formats. Must not know: what the records mean.
Source: format/manifests §1, §2. Invariants: The columns, their types and their field ids are those of Apache Paimon. Bytes
that are cut off or damaged raise `TableCorrupt` with the file's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..errors import TableCorrupt, Unsupported

ORC_MAGIC, PARQUET_MAGIC = b"ORC", b"PAR1"
_CODECS = {
    "orc": {"none": "uncompressed", **{name: name for name in ("zstd", "snappy", "zlib", "lz4")}},
    "parquet": {"none": "none", "lz4": "lz4", **{name: name for name in ("zstd", "snappy", "gzip")}},
}
FORMATS = ("avro", *_CODECS)
_BYTE_SIZED = ("_KIND", "_FILE_SOURCE")
"""The fields that Avro widens to `int`."""
_WITHOUT_ID = "_VERSION"
_FIRST_ITEM_ID = 536870912
_IDS_OF_ITEMS = 1024
_BATCH_ROWS = 256
_ORC_READ_AHEAD = 8
"""Arrow reads up to 32 batches of ORC ahead, so each of them may be that much smaller."""
_TOO_LARGE = "its columns hold more than {} bytes"


def write_columnar(schema: Any, records: Iterable[dict[str, Any]], form: str, compression: str, level: int) -> bytes:
    """A file with one column per field, for a schema of `fastavro.parse_schema`. Raises Unsupported, which names option
    `manifest.compression`. `level` is that of zstandard in Parquet; Arrow's writer of ORC has no levels.
    """
    import pyarrow as pa

    codec = _CODECS[form].get(compression)
    if codec is None:
        raise Unsupported(
            f"option 'manifest.compression' = {compression!r} cannot be written with 'manifest.format' = {form!r}",
            next_step=f"use one of {', '.join(_CODECS[form])}",
        )
    table = pa.Table.from_pylist(list(records), schema=pa.schema(_fields(schema, form)))
    sink = pa.BufferOutputStream()
    if form == "orc":
        from pyarrow import orc

        orc.write_table(table, sink, compression=codec)
    else:
        from pyarrow import parquet

        parquet.write_table(
            table, sink, compression=codec, compression_level=level if codec == "zstd" else None, store_schema=False
        )
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def read_columnar(data: bytes, where: str) -> list[dict[str, Any]]:
    import pyarrow as pa

    try:
        return _records(data, _orc_batches if data[:3] == ORC_MAGIC else _parquet_batches)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableCorrupt(f"{where} is cut off or damaged: {error}") from error


def _records(data: bytes, batches: Callable[[bytes, int], Iterator[Any]]) -> list[dict[str, Any]]:
    """The records, in parts: a value of a dictionary may be large, and be named by every row."""
    from .blocks import most_plain

    most, size, found = most_plain(len(data)), 0, list[dict[str, Any]]()
    for batch in batches(data, most):
        size += sum(_plain_size(column) for column in batch.columns)
        if size > most:
            raise ValueError(_TOO_LARGE.format(most))
        found += batch.to_pylist()
    return found


def _orc_batches(data: bytes, most: int) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import dataset, orc

    from ..orc.streams import check_file

    widest = check_file(data)
    _check_rows(orc.ORCFile(pa.BufferReader(data)).nrows, data)
    fragment = dataset.OrcFileFormat().make_fragment(pa.py_buffer(data))
    yield from fragment.to_batches(
        batch_size=_batch_rows(widest, most, _ORC_READ_AHEAD), batch_readahead=0, use_threads=False
    )


def _parquet_batches(data: bytes, most: int) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import parquet

    file = parquet.ParquetFile(pa.BufferReader(data))
    _check_rows(file.metadata.num_rows, data)
    plain = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
    yield from file.iter_batches(batch_size=_batch_rows(plain, most))


def _batch_rows(plain: int, most: int, ahead: int = 1) -> int:
    if plain > most:
        raise ValueError(_TOO_LARGE.format(most))
    return max(1, min(_BATCH_ROWS, most // max(plain * ahead, 1)))


def _plain_size(column: Any) -> int:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return int(column.dictionary.nbytes) * len(column)  # at most
    if column.type.num_fields and any(_holds_dictionaries(column.type.field(i)) for i in range(column.type.num_fields)):
        raise ValueError("it has a dictionary within a column")
    return int(column.nbytes)


def _holds_dictionaries(field: Any) -> bool:
    import pyarrow as pa

    kind = field.type
    return pa.types.is_dictionary(kind) or any(_holds_dictionaries(kind.field(i)) for i in range(kind.num_fields))


def _check_rows(count: int, data: bytes) -> None:
    if count > len(data):  # each entry has a name of its own
        raise ValueError(f"{len(data)} bytes tell of {count} entries")


def _fields(record: Any, form: str) -> list[Any]:
    numbered = [field for field in record["fields"] if field["name"] != _WITHOUT_ID]
    ids = {field["name"]: number for number, field in enumerate(numbered)}
    return [_field(field["name"], field["type"], ids.get(field["name"], -1), form) for field in record["fields"]]


def _field(name: str, kind: Any, number: int, form: str) -> Any:
    import pyarrow as pa

    nullable = isinstance(kind, list)
    made = pa.int8() if name in _BYTE_SIZED else _type(kind[-1] if nullable else kind, number, form)
    if number < 0:
        return pa.field(name, made, nullable)
    key = "paimon.id" if form == "orc" else "PARQUET:field_id"
    return pa.field(name, made, nullable, metadata={key: str(number)})


def _type(kind: Any, number: int, form: str) -> Any:
    import pyarrow as pa

    if isinstance(kind, dict):
        if kind["type"] == "record":
            return pa.struct(_fields(kind, form))
        if kind["type"] == "array":
            return pa.list_(_field("element", kind["items"], _FIRST_ITEM_ID + _IDS_OF_ITEMS * number, form))
        return pa.timestamp("ms")
    return {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "bytes": pa.binary()}[kind]
