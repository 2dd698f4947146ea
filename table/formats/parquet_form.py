"""The form of a table's Parquet files: physical types, bounds and encodings that every reader takes right.

Owns: `ParquetForm`: what is told to the Parquet writer, and why; `ParquetOutput`, one growing file. Must not
know: stores, when a file is whole.
Source: format/data-files §3; decisions 2 and 5. Invariant: a filter that a reader applies to footers and dictionaries
never loses a row that it keeps when it looks at the values.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ...core.rows.arrow import file_schema
from ...core.rows.types import Field
from .dictionaries import overflowing_columns
from .int96 import is_stand_in, stand_in_schema, with_int96_footer, with_stand_ins

CODECS = {
    "none": "none",
    "uncompressed": "none",
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "lz4_raw": "lz4",
}
"""Of the codecs that pyarrow writes those that Apache Paimon reads; both spell LZ4 without Hadoop's framing LZ4_RAW."""
_FLOATS = ("FLOAT", "DOUBLE")
_FIXED = "FIXED_LEN_BYTE_ARRAY"


@dataclass(frozen=True)
class ParquetForm:
    """How files of some columns are written; made once per writer.

    Attributes:
        arrow: the columns as the Parquet writer takes them.
        int96: do columns stand in for INT96? Then a file's footer is to be changed when it is closed.
        bounded: the Parquet columns whose bounds go into the footer. Not INT96, which has no order; not FLOAT and DOUBLE:
            Arrow leaves NaN out of them, which is the largest value for Apache Paimon and for Spark.
        dictionaries: the Parquet columns that may be dictionary-encoded. Not DECIMALs of fixed length: Apache Paimon looks
            for the shortest bytes of a literal among the dictionary's padded ones, and skips the row group.
    """

    arrow: pa.Schema
    int96: bool
    bounded: tuple[str, ...]
    dictionaries: tuple[str, ...]

    @staticmethod
    def of(fields: Iterable[Field]) -> ParquetForm:
        """The form for a table's columns.

        >>> from ...core.rows.types import AtomicType, decimal
        >>> form = ParquetForm.of([Field(0, "f", AtomicType("FLOAT")), Field(1, "d", decimal(38, 0))])
        >>> form.bounded, form.dictionaries
        (('d',), ('f',))
        """
        plain = file_schema(fields)
        arrow = stand_in_schema(plain)
        empty = pa.BufferOutputStream()
        with pq.ParquetWriter(empty, arrow, store_decimal_as_integer=True, store_schema=False):
            pass
        columns = list(pq.ParquetFile(empty.getvalue()).schema)
        return ParquetForm(
            arrow=arrow,
            int96=not arrow.equals(plain),
            bounded=tuple(c.path for c in columns if c.physical_type not in _FLOATS and not is_stand_in(c)),
            dictionaries=tuple(c.path for c in columns if c.physical_type != _FIXED or is_stand_in(c)),
        )

    def writer(self, sink: Any, codec: str, level: int | None, first_rows: pa.Table) -> Any:
        """A `pq.ParquetWriter` for one file, with dictionaries where its first rows promise that they pay."""
        overflowing = overflowing_columns(first_rows)
        return pq.ParquetWriter(
            sink,
            self.arrow,
            compression=codec,
            compression_level=level,
            write_statistics=list(self.bounded),
            use_dictionary=[path for path in self.dictionaries if path not in overflowing],
            store_decimal_as_integer=True,
            store_schema=False,
        )

    def stored(self, table: pa.Table) -> pa.Table:
        """Rows of the table's columns as the writer takes them."""
        # The writer compares types without metadata, and takes field ids from its own schema: no cast, which would refuse
        # the nulls that arrays may hold in required fields of a null ROW.
        return with_stand_ins(table) if self.int96 else table


class ParquetOutput:
    """One Parquet file while it grows, a row group per write.

    Args:
        sink: a `SpillingSink`.
        codec: a key of `CODECS`.
        level: of zstd; None for other codecs.
        first_rows: tell which columns are worth a dictionary.
    """

    def __init__(self, sink: Any, form: ParquetForm, codec: str, level: int | None, first_rows: pa.Table) -> None:
        self._sink, self._form = sink, form
        self._writer = form.writer(sink, CODECS[codec], level if CODECS[codec] == "zstd" else None, first_rows)

    def write(self, rows: pa.Table) -> None:
        """Add rows of the table's columns."""
        self._writer.write_table(self._form.stored(rows), row_group_size=rows.num_rows)

    def close(self) -> Any:
        """Write the end of the file; the `pq.FileMetaData`."""
        if self._form.int96:
            self._sink.hold()
        self._writer.close()
        if self._form.int96:
            self._sink.release(with_int96_footer)
        return self._writer.writer.metadata if hasattr(self._writer.writer, "metadata") else None
