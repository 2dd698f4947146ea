"""In which format new data files are written: option `file.format`, and what each format takes.

Owns: the list of formats, their codecs, the suffix of names. Must not know: how a format is written, rows.
Source: format/data-files §3, §4.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

import pyarrow as pa

from ...core import options as opt
from ...core.errors import Unsupported
from ...core.metadata.schema import TableSchema
from . import avro_form, orc_form, parquet_form


class Output(Protocol):
    """One data file while it grows."""

    def write(self, rows: pa.Table) -> None:
        """Add rows of the table's columns."""

    def close(self) -> Any:
        """Write the end of the file; Parquet's footer, where it is Parquet."""


OpenOutput = Callable[[Any, pa.Table], Output]
"""Begins a file: (where its bytes go, its first rows)."""

_CODECS: dict[str, Collection[str]] = {"parquet": parquet_form.CODECS, "orc": orc_form.CODECS, "avro": avro_form.CODECS}
_SUFFIXES = {"zstd": "zst", "gzip": "gz"}
_NO_CODEC = ("none", "uncompressed", "null")


def output_of(schema: TableSchema, target_bytes: int = orc_form.STRIPE_BYTES) -> OpenOutput:
    """What begins data files of a table.

    Args:
        target_bytes: how large files grow: no part of one that is held in memory grows larger.

    Raises:
        Unsupported: a format or codec that is not written, or a column that the format cannot hold; names it.
    """
    options, fields = schema.options, schema.fields
    file_format, codec = options.get(opt.FILE_FORMAT), options.get(opt.FILE_COMPRESSION)
    if file_format not in _CODECS:
        raise Unsupported(
            f"option 'file.format' = {file_format!r} is not written", next_step=f"use {', '.join(_CODECS)}"
        )
    if codec not in _CODECS[file_format]:
        raise Unsupported(f"option 'file.compression' = {codec!r} cannot be written with {file_format}")
    level = options.get(opt.ZSTD_LEVEL)
    if file_format == "orc":
        orc_form.check_orc(fields, options)
        stripe_bytes = min(options.get(opt.FILE_BLOCK_SIZE) or orc_form.STRIPE_BYTES, target_bytes)
        return lambda sink, _: orc_form.OrcOutput(sink, fields, codec, stripe_bytes)
    if file_format == "avro":
        avro_form.check_avro(fields)
        return lambda sink, _: avro_form.AvroOutput(sink, fields, codec, level)
    form = parquet_form.ParquetForm.of(fields)
    return lambda sink, first_rows: parquet_form.ParquetOutput(sink, form, codec, level, first_rows)


def suffix_of(schema: TableSchema) -> str:
    """What data files' names end with.

    >>> from ...core.rows.types import AtomicType, Field
    >>> options = {"file.format": "orc", "file.suffix.include.compression": "true"}
    >>> suffix_of(TableSchema(0, (Field(0, "a", AtomicType("INT")),), 0, option_texts=options))
    '.zst.orc'
    """
    options = schema.options
    file_format, codec = options.get(opt.FILE_FORMAT), options.get(opt.FILE_COMPRESSION)
    if options.get(opt.COMPRESSION_IN_SUFFIX) and codec not in _NO_CODEC:
        return f".{_SUFFIXES.get(codec, codec)}.{file_format}"
    return f".{file_format}"
