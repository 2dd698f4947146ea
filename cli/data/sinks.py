"""Write rows to a terminal, a pipe or a file, in one of several formats.

Owns: the output formats of `read`. Must not know: where rows come from. Invariants: rows are written as they arrive,
and memory holds one batch. A file appears under its name only once it is complete.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...core.errors import InvalidArgument
from ..frame.json_values import json_rows, text_columns, to_json
from ..frame.output import Output, PlainTable

FORMATS = ("table", "json", "csv", "parquet", "arrow")
BINARY = ("parquet", "arrow")

Write = Callable[[Any], None]


@contextmanager
def open_sink(file_format: str, schema: pa.Schema, path: str | None, output: Output) -> Iterator[Write]:
    """A function that writes record batches to a file, or without a path to standard output. Raises InvalidArgument
    where a binary format would go to a terminal, or the file cannot be written.
    """
    if path is None:
        if file_format in BINARY and output.on_terminal:
            raise InvalidArgument(
                f"{file_format} is a binary format and is not shown on a terminal",
                next_step="use --output FILE, or a pipe",
            )
        if file_format == "table" and output.on_terminal:
            with _rich_rows(schema, output) as write:
                yield write
            return
        sys.stdout.flush()
        with _writer(file_format, schema, sys.stdout.buffer) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    partial = f"{path}.partial"
    try:
        with open(partial, "wb") as file, _writer(file_format, schema, file) as write:
            yield write
        os.replace(partial, path)
    except OSError as error:
        if error.filename in (partial, path):
            raise InvalidArgument(f"{path} cannot be written: {error.strerror}") from error
        raise
    finally:
        Path(partial).unlink(missing_ok=True)


@contextmanager
def _writer(file_format: str, schema: pa.Schema, stream: Any) -> Iterator[Write]:
    if file_format == "parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            yield writer.write_batch
    elif file_format == "arrow":
        with pa.ipc.new_stream(stream, schema) as writer:
            yield writer.write_batch
    elif file_format == "csv":
        with _csv_writer(schema, stream) as write:
            yield write
    elif file_format == "json":
        yield lambda batch: stream.write(_json_lines(batch))
    else:
        with _plain_rows(schema, stream) as write:
            yield write


@contextmanager
def _csv_writer(schema: pa.Schema, stream: Any) -> Iterator[Write]:
    from pyarrow import csv

    as_text = text_columns(pa.RecordBatch.from_pylist([], schema=schema)).schema
    with csv.CSVWriter(stream, as_text) as writer:
        yield lambda batch: writer.write_batch(text_columns(batch))


def _json_lines(batch: pa.RecordBatch) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in json_rows(batch)).encode()


def _values(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(to_json(column) for column in batch.columns), strict=True))


@contextmanager
def _plain_rows(schema: pa.Schema, stream: Any) -> Iterator[Write]:
    table: PlainTable | None = None

    def write(batch: pa.RecordBatch) -> None:
        nonlocal table
        rows = _values(batch)
        lines = []
        if table is None:
            table = PlainTable(schema.names, rows)
            lines.append(table.header)
        stream.write(("\n".join(lines + table.lines(rows)) + "\n").encode())

    yield write
    if table is None:
        stream.write((PlainTable(schema.names, ()).header + "\n").encode())


@contextmanager
def _rich_rows(schema: pa.Schema, output: Output) -> Iterator[Write]:
    """Collect all rows and print one table. `read` limits the number of rows on a terminal."""
    rows: list[tuple[Any, ...]] = []
    yield lambda batch: rows.extend(_values(batch))
    output.table(schema.names, rows)
