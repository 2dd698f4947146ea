"""Read rows from Parquet, CSV, JSON lines or Arrow IPC files, or from standard input.

Owns: the input formats, their extensions, and reading them as streams. Must not know: the table's own files, or what is done
with the rows. Invariants: a few megabytes of each file are in memory at a time. Text is read as the table's types, which are
never guessed for a column that the table has. A file that cannot be read causes one error that names the file.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from csv import reader as csv_lines
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.json_text import loads
from ..frame.json_values import from_json

FORMATS = ("parquet", "csv", "json", "arrow")
STDIN = "-"
JSON_ROWS = 1 << 14
_EXTENSIONS = {
    "parquet": "parquet", "pq": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
    "arrow": "arrow", "arrows": "arrow", "ipc": "arrow", "feather": "arrow",
}  # fmt: skip
_COMPRESSIONS = ("gz", "bz2", "zst", "lz4")
_ARROW_FILE_MAGIC = b"ARROW1"


def format_of_name(name: str, given: str | None = None) -> str:
    """The format of a file: `given`, or else by its extension, where `.gz` and the like do not count.

    >>> format_of_name("flights.csv.gz"), format_of_name("-"), format_of_name("rows.txt", "json")
    ('csv', 'arrow', 'json')
    """
    if given is not None:
        return given
    if name == STDIN:
        return "arrow"
    parts = Path(name).name.lower().split(".")[1:]
    if parts and parts[-1] in _COMPRESSIONS:
        parts.pop()
    if not parts or parts[-1] not in _EXTENSIONS:
        raise InvalidArgument(f"{name}: the format is not known", next_step=f"add --format {'|'.join(FORMATS)}")
    return _EXTENSIONS[parts[-1]]


def rows_of(name: str, schema: pa.Schema, file_format: str | None = None, nulls: tuple[str, ...] = ()) -> Iterator[Any]:
    """The rows of a file, or of standard input (`-`). Text is read as the types of the schema; `nulls` mean null in
    CSV, besides the empty text. Raises InvalidArgument, which names the file.
    """
    kind = format_of_name(name, file_format)
    with _blamed(name):
        if kind == "parquet":
            yield from _parquet_rows(name)
            return
        with _opened(name) as source:
            if kind == "csv":
                try:
                    yield from _csv_rows(source, schema, nulls)
                except pa.ArrowInvalid as error:
                    raise _csv_error(error, name) from error
            elif kind == "json":
                yield from _json_rows(source, schema, name)
            else:
                yield from _arrow_rows(source)


def schema_of(name: str, file_format: str | None = None) -> pa.Schema:
    """The columns of a file. The types of CSV and JSON are inferred by Arrow from the first megabyte."""
    import pyarrow.parquet as pq
    from pyarrow import csv
    from pyarrow import json as arrow_json

    kind = format_of_name(name, file_format)
    with _blamed(name):
        if kind == "parquet":
            return pq.read_schema(name)
        with _opened(name) as source:
            if kind == "arrow":
                return _arrow_reader(source).schema
            return (csv.open_csv if kind == "csv" else arrow_json.open_json)(source).schema


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    where = "standard input" if name == STDIN else name
    try:
        yield
    except InvalidArgument:
        raise
    except OSError as error:
        raise InvalidArgument(f"{where} cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, ValueError, UnicodeError) as error:
        raise InvalidArgument(f"{where}: {' '.join(str(error).split())}") from error


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    if name == STDIN:
        yield pa.PythonFile(sys.stdin.buffer, mode="r")
        return
    with pa.input_stream(name, compression="detect") as source:
        yield source


def _parquet_rows(name: str) -> Iterator[Any]:
    import pyarrow.parquet as pq

    if name == STDIN:
        raise InvalidArgument("Parquet cannot be read from a stream", next_step="name a file, or use --format arrow")
    with pq.ParquetFile(name) as file:
        yield from file.iter_batches()


def _arrow_reader(source: Any) -> Any:
    """A reader for Arrow's file format if the bytes begin with its magic, else for its stream format (as for any pipe)."""
    if _rewound(source):
        head = source.read(len(_ARROW_FILE_MAGIC))
        source.seek(0)
        if head == _ARROW_FILE_MAGIC:
            return pa.ipc.open_file(source)
    return pa.ipc.open_stream(source)


def _rewound(source: Any) -> bool:
    try:
        source.seek(0)
    except (OSError, pa.ArrowException):
        return False
    return True


def _arrow_rows(source: Any) -> Iterator[Any]:
    reader = _arrow_reader(source)
    is_file = isinstance(reader, pa.ipc.RecordBatchFileReader)
    yield from map(_sound, (reader.get_batch(i) for i in range(reader.num_record_batches)) if is_file else reader)


def _sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch that may be read. Arrow believes what a file says of its lengths, and reads other memory where they are wrong."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InvalidArgument(
                f"column '{name}' is damaged: {' '.join(str(error).split())[:200]}",
                next_step="write the file again; Arrow's files lose dictionaries that lie in lists or maps",
            ) from error
    return batch


def _csv_rows(source: BinaryIO, schema: pa.Schema, nulls: tuple[str, ...]) -> Iterator[Any]:
    from pyarrow import csv

    # Arrow's CSV reader takes no dates and times of years with a sign or of five digits.
    as_text = [f.name for f in schema if pa.types.is_nested(f.type) or _is_binary(f.type) or _is_moment(f.type)]
    types = {f.name: pa.string() if f.name in as_text else f.type for f in schema}
    convert = csv.ConvertOptions(
        column_types=types, null_values=["", *nulls], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    for batch in csv.open_csv(source, csv.ReadOptions(use_threads=False), convert_options=convert):
        for i, name in enumerate(batch.schema.names):
            if name in as_text:
                column = _from_text(batch.column(i), schema.field(name).type)
                batch = batch.set_column(i, name, column)
        yield batch


_CSV_ERROR = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?(.*)", re.DOTALL)
_CSV_VALUE = re.compile(r"invalid value '(.*)'", re.DOTALL)


def _csv_error(error: Any, name: str) -> Any:
    """The error with the column's name, where Arrow has its number."""
    found = _CSV_ERROR.search(str(error))
    if found is None or name == STDIN:
        return error
    with _opened(name) as source:
        line = source.read(1 << 20).decode(errors="replace").lstrip("\ufeff").splitlines()[:1]
    header = next(csv_lines(line), [])
    place, row, told = int(found[1]), found[2], " ".join(found[3].split())
    column = f"'{header[place]}'" if place < len(header) else f"number {place + 1}"
    value = _CSV_VALUE.search(told)
    hint = None if value is None else f"correct it, or pass --null '{value[1]}' if it means null"
    where = f"row {row}, " if row else ""
    return InvalidArgument(f"{name}: {where}column {column}: {told}", next_step=hint)


def _from_text(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column of a type that CSV cannot hold, from hex text or JSON, or of dates or times."""
    if _is_moment(kind):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            return from_json(texts.to_pylist(), kind)
    if _is_binary(kind):
        return from_json(texts.to_pylist(), kind)
    return from_json([None if t is None else loads(t, parse_float=Decimal) for t in texts.to_pylist()], kind)


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))


def _json_rows(source: Any, schema: pa.Schema, name: str) -> Iterator[Any]:
    """Read JSON lines. A key that is not a column of the table is kept, so that the writer can name it when it refuses it."""
    lines = enumerate(_lines(source), 1)
    while block := list(itertools.islice(lines, JSON_ROWS)):
        numbers = [number for number, line in block if line.strip()]
        rows = [_object(line, number, name) for number, line in block if line.strip()]
        known = {f.name: f.type for f in schema}
        seen = dict.fromkeys(key for row in rows for key in row)
        columns = {}
        for key in seen:
            try:
                columns[key] = from_json([row.get(key) for row in rows], known.get(key, pa.string()))
            except (pa.ArrowException, TypeError, ValueError, ArithmeticError, KeyError) as error:
                if key not in known:
                    raise InvalidArgument(f"the table has no column {key!r}") from None
                told = " ".join(str(error).split())
                line = next(
                    (n for n, row in zip(numbers, rows, strict=True) if not _reads(row.get(key), known[key])),
                    numbers[0],
                )
                raise InvalidArgument(f"{name}, line {line}: column {key!r}: {told}") from error
        if columns:
            yield pa.record_batch(columns)


def _reads(value: Any, kind: pa.DataType) -> bool:
    try:
        from_json([value], kind)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError, KeyError):
        return False
    return True


def _object(line: bytes, number: int, name: str) -> dict[str, Any]:
    try:
        row = loads(line, parse_float=Decimal)
    except ValueError as error:
        raise InvalidArgument(f"{name}, line {number}: {error}") from error
    if not isinstance(row, dict):
        raise InvalidArgument(f"{name}, line {number} is not a JSON object")
    return row


def _lines(source: Any) -> Iterator[bytes]:
    rest = b""
    while block := source.read(1 << 20):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest
