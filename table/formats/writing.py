"""Choose the format of new data files, by option `file.format`.

Owns: the list of formats, their codecs, the suffix of file names. Must not know: how a format is written, rows.
Source: format/data-files §3, §4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import pyarrow as pa

from ...core import options as opt
from ...core.errors import Unsupported
from ...core.metadata.schema import TableSchema
from ...core.options import TableOptions
from ...core.rows.types import Field, is_blob_type
from . import avro_writer, orc_writer
from .parquet import writer as parquet_writer
from .text import writer as text_writer
from .text.values import TEXT_FORMATS, check_text


class Output(Protocol):
    """A data file that is being written."""

    def write(self, rows: pa.Table) -> None:
        """Add rows of the table's columns."""

    def close(self) -> Any:
        """Write the end of the file. Returns the footer of a Parquet file."""


OpenOutput = Callable[[Any, pa.Table], Output]
"""A function that starts a file, given the sink for its bytes and its first rows."""

_CODECS: dict[str, Collection[str]] = {
    "parquet": parquet_writer.CODECS,
    "orc": orc_writer.CODECS,
    "avro": avro_writer.CODECS,
    "csv": text_writer.CODECS,
    "json": text_writer.CODECS,
}
_SUFFIXES = {"zstd": "zst", "gzip": "gz"}
_NO_CODEC = ("none", "uncompressed", "null")


def output_of(
    schema: TableSchema, target_bytes: int = orc_writer.STRIPE_BYTES, columns: Sequence[Field] | None = None
) -> OpenOutput:
    """The function that starts data files of a table. Refuses formats, codecs and columns that cannot be written.

    `target_bytes` also limits what is held of a file. `columns` are by default all but BLOBs, which have files of their own.
    """
    options = schema.options
    fields = [f for f in (schema.fields if columns is None else columns) if not is_blob_type(f.type)]
    file_format, codec = options.get(opt.FILE_FORMAT), _codec(options)
    if file_format not in _CODECS:
        raise Unsupported(
            f"writing with option 'file.format' = {file_format!r} is not supported",
            next_step=f"use {', '.join(_CODECS)}",
        )
    if codec not in _CODECS[file_format]:
        raise Unsupported(
            f"option 'file.compression' = {codec!r} cannot be written with {file_format}",
            next_step=f"set it to {', '.join(_CODECS[file_format])}",
        )
    level = options.get(opt.ZSTD_LEVEL)
    if file_format == "orc":
        orc_writer.check_orc(fields, options)
        stripe_bytes = min(options.get(opt.FILE_BLOCK_SIZE) or orc_writer.STRIPE_BYTES, target_bytes)
        return lambda sink, _: orc_writer.OrcOutput(sink, fields, codec, stripe_bytes)
    if file_format == "avro":
        avro_writer.check_avro(fields)
        return lambda sink, _: avro_writer.AvroOutput(sink, fields, codec, level)
    if file_format in TEXT_FORMATS:
        check_text(file_format, fields, options)
        output = text_writer.CsvOutput if file_format == "csv" else text_writer.JsonOutput
        return lambda sink, _: output(sink, fields, codec)
    form = parquet_writer.ParquetForm.of(fields)
    encodings = parquet_writer.Encodings(form, _parquet_codec(options))
    return lambda sink, first_rows: parquet_writer.ParquetOutput(sink, form, encodings, first_rows)


def _codec(options: TableOptions) -> str:
    """The codec of new files. Texts are not compressed by default: without native libraries, Java has no zstd for them."""
    is_default = opt.FILE_COMPRESSION.key not in options.texts
    return "none" if is_default and options.get(opt.FILE_FORMAT) in TEXT_FORMATS else options.get(opt.FILE_COMPRESSION)


def _parquet_codec(options: TableOptions) -> parquet_writer.ParquetCodec:
    """A codec that nobody has asked for may be left out where it does not pay (decision 81)."""
    name = parquet_writer.CODECS[_codec(options)]
    is_optional = opt.FILE_COMPRESSION.key not in options.texts
    return parquet_writer.ParquetCodec(name, options.get(opt.ZSTD_LEVEL) if name == "zstd" else None, is_optional)


def suffix_of(schema: TableSchema) -> str:
    """The suffix of data files' names.

    >>> from ...core.rows.types import AtomicType, Field
    >>> options = {"file.format": "orc", "file.suffix.include.compression": "true"}
    >>> suffix_of(TableSchema(0, (Field(0, "a", AtomicType("INT")),), 0, option_texts=options))
    '.zst.orc'
    """
    options = schema.options
    file_format, codec = options.get(opt.FILE_FORMAT), _codec(options)
    if file_format in TEXT_FORMATS:  # the whole file is compressed, so the codec comes last
        extension = text_writer.CODECS.get(codec, "")
        return f".{file_format}.{extension}" if extension else f".{file_format}"
    if options.get(opt.COMPRESSION_IN_SUFFIX) and codec not in _NO_CODEC:
        return f".{_SUFFIXES.get(codec, codec)}.{file_format}"
    return f".{file_format}"
