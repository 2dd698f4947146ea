"""Read one CSV or JSON data file into the columns of a projection.

Owns: lines and their decompression. Must not know: splits, partitions, predicates, the text of a value (see `text_values`).
Source: format/data-files §3. Invariants: A line that cannot be read is an error that names the file; Apache Paimon reads its
values as null. The columns of a CSV file are found by their position in the schema that it was written with, after
the keys, the sequence number and the kind in a table with a primary key.
"""

from __future__ import annotations

import bz2
import gzip
import io
from abc import abstractmethod
from collections.abc import Callable, Iterator
from csv import reader as rows_of_text
from typing import Any

import pyarrow as pa
from pyarrow import csv

from ....core.casts.columns import CastFailure
from ....core.errors import Unsupported
from ....core.json_text import loads
from ....core.metadata.data_file import EMPTY_ROW
from ....core.metadata.schema import ROW_ID, ROW_SEQUENCE
from ....core.metadata.schemas.merge_rules import VALUE_KIND
from ....core.paths import codec_of_name, format_of
from ....core.rows.types import AtomicType, Field
from ...projection.plan import ProjectionPlan
from ..data_source import BATCH_ROWS, DataSource
from ..streamed import StreamedFile
from .values import array_of, check_text, values_of

_DECOMPRESSED: dict[str, Callable[[bytes], bytes]] = {"": bytes, "gz": gzip.decompress, "bz2": bz2.decompress}


class _TextFile(StreamedFile):
    def __init__(self, source: DataSource, projection: ProjectionPlan) -> None:
        super().__init__(source, projection)
        named = source.file.write_cols
        wanted = {column.source for column in projection.columns}
        keyed = source.file.min_key != EMPTY_ROW
        # Computed, unless the file says that it holds them, or belongs to a table with a primary key.
        counted = () if keyed else (ROW_ID.name, ROW_SEQUENCE.name, VALUE_KIND.name)
        self._written = [f for f in projection.written if (f.name not in counted if named is None else f.name in named)]
        self._fields = [f for f in self._written if f.name in wanted]
        check_text(format_of(source.file.file_name), self._fields, source.options)
        codec = codec_of_name(source.file.file_name)
        if codec not in _DECOMPRESSED:
            raise Unsupported(f"{source.where} is compressed with {codec}, which is not supported")
        with source.blamed():
            self._data = _DECOMPRESSED[codec](source.open().read())

    @property
    def has_columns(self) -> bool:
        return bool(self._fields)

    def _decoded(self) -> Iterator[pa.RecordBatch]:
        decoded = self._parsed()
        while True:
            with self._source.blamed():
                try:
                    batch = next(decoded, None)
                except CastFailure as error:
                    raise ValueError(str(error)) from error
            if batch is None:
                return
            yield batch

    @abstractmethod
    def _parsed(self) -> Iterator[pa.RecordBatch]:
        """The columns of `_fields`, a batch at a time."""

    def _batch(self, arrays: list[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(arrays, [f.name for f in self._fields])


class CsvFile(_TextFile):
    def _parsed(self) -> Iterator[pa.RecordBatch]:
        names = [str(position) for position in range(len(self._written))]
        chosen = [str(self._written.index(f)) for f in self._fields]
        if not self._data:
            return
        if VALUE_KIND in self._written:
            names, chosen = self._places_with_keys()
        table = csv.read_csv(
            io.BytesIO(self._data),
            csv.ReadOptions(column_names=names, use_threads=False),
            csv.ParseOptions(escape_char="\\", ignore_empty_lines=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=chosen,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        for part in table.to_batches(BATCH_ROWS):
            yield self._batch([_typed(part.column(i), f) for i, f in enumerate(self._fields)])

    def _places_with_keys(self) -> tuple[list[str], list[str]]:
        """The positions of all columns and of the wanted ones, in a file of a table with a primary key: keys, sequence number and
        kind come before the others, and the file has no names. In thin mode there are no keys.
        """
        first = next(rows_of_text(io.StringIO(self._data.decode()), escapechar="\\", doublequote=False))
        columns = [f for f in self._written if f not in (ROW_ID, ROW_SEQUENCE, VALUE_KIND)]
        keys = len(first) - len(columns) - 2
        if keys < 0:
            raise ValueError(
                f"a row has {len(first)} values, but the table has {len(columns)} columns and its files two more"
            )
        layout = [*range(keys), ROW_SEQUENCE, VALUE_KIND, *columns]
        return [str(i) for i in range(len(layout))], [str(layout.index(f)) for f in self._fields]


def _typed(texts: Any, field: Field) -> Any:
    assert isinstance(field.type, AtomicType), field
    return values_of(texts, field.type)


class JsonFile(_TextFile):
    """An open file of JSON objects, one in each line. A column that an object lacks is null."""

    def _parsed(self) -> Iterator[pa.RecordBatch]:
        lines = self._data.split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        for start in range(0, len(lines), BATCH_ROWS):
            text = b"[" + b",".join(lines[start : start + BATCH_ROWS]) + b"]"
            rows = loads(text, parse_int=str, parse_float=str, parse_constant=str)
            if len(rows) != len(lines[start : start + BATCH_ROWS]) or not all(isinstance(row, dict) for row in rows):
                raise ValueError("a line is not one JSON object")
            yield self._batch([array_of([row.get(f.name) for row in rows], f.type) for f in self._fields])
