"""Write CSV and JSON data files, byte for byte as Apache Paimon writes them.

Owns: lines, quoting, compression. Must not know: stores, the text of a value (see `text_values`).
Source: format/data-files §3. Invariant: A value that Apache Paimon would write and then read otherwise is refused: CSV has no
empty texts (they are null), and its readers take a backslash away and break a line at a line feed or a carriage return.
"""

from __future__ import annotations

import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....core.errors import InvalidArgument
from ....core.rows.types import STRING_ROOTS, AtomicType, Field
from ....core.rows.values import root_of
from .values import plain_of, texts_of

CODECS = {"none": "", "uncompressed": "", "null": "", "gzip": "gz"}
"""The codecs by Apache Paimon's names, and the extension of each."""
_BATCH_ROWS = 1 << 14
_GZIP = 31
_QUOTED = r'[,"]'
_UNFIT = r"[\\\n\r]"


class _TextOutput(ABC):
    def __init__(self, sink: Any, fields: Sequence[Field], codec: str) -> None:
        self._sink, self._fields = sink, tuple(fields)
        self._packer = zlib.compressobj(wbits=_GZIP) if CODECS[codec] else None

    def write(self, rows: pa.Table) -> None:
        """Add rows of the table's columns. Refuses texts that the format cannot hold."""
        for batch in rows.to_batches(max_chunksize=_BATCH_ROWS):
            if batch.num_rows:
                data = self._lines(batch).encode()
                self._sink.write(data if self._packer is None else self._packer.compress(data))

    def close(self) -> None:
        if self._packer is not None:
            self._sink.write(self._packer.flush())

    @abstractmethod
    def _lines(self, batch: pa.RecordBatch) -> str:
        """The text of the rows."""


def _named(field: Field, convert: Callable[..., Any], *arguments: Any) -> Any:
    """A converted column. A value that has no text is an error that names the column."""
    try:
        return convert(*arguments)
    except ValueError as error:
        raise InvalidArgument(f"column '{field.name}': {error}", next_step="use another file format") from error


class CsvOutput(_TextOutput):
    def _lines(self, batch: pa.RecordBatch) -> str:
        columns = [_named(field, self._cells, batch.column(i), field) for i, field in enumerate(self._fields)]
        lines = pc.binary_join_element_wise(*columns, ",")
        return "\n".join(lines.to_pylist()) + "\n"

    def _cells(self, array: Any, field: Field) -> Any:
        assert isinstance(field.type, AtomicType), field
        texts = texts_of(array, field.type)
        if root_of(field.type) in STRING_ROOTS:
            unfit = pc.or_(pc.equal(texts, ""), pc.match_substring_regex(texts, _UNFIT))
            if len(self._fields) == 1:  # a blank line is a row of nulls
                unfit = pc.or_(unfit, pc.equal(pc.utf8_trim_whitespace(texts), ""))
            if pc.any(unfit).as_py():
                value = pc.filter(texts, unfit)[0].as_py()
                raise InvalidArgument(
                    f"column '{field.name}': csv files cannot hold the text {value[:40]!r}: readers would take an empty text"
                    " for null, leave out a backslash, and end the line at a line break",
                    next_step="use file format json, or any other",
                )
            quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '\\"'), '"', "")
            texts = pc.if_else(pc.match_substring_regex(texts, _QUOTED), quoted, texts)
        return pc.fill_null(texts, "")


class JsonOutput(_TextOutput):
    """A file of JSON objects, one in each line, that is being written."""

    def _lines(self, batch: pa.RecordBatch) -> str:
        names = [field.name for field in self._fields]
        columns = [_named(field, plain_of, batch.column(i), field.type) for i, field in enumerate(self._fields)]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)
