"""Write Parquet data files, with physical types, bounds and encodings that every reader understands.

Owns: `ParquetForm`, the settings of the Parquet writer and their reasons; `Encodings`, what is found out about columns;
`ParquetOutput`, which writes one file. Must not know: stores, when a file is complete.
Source: format/data-files §3; decisions 2, 5, 112. Invariant: A filter that a reader applies to footers and dictionaries never
drops a row that the same filter keeps when it is applied to the values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ....core.rows.arrow import file_schema
from ....core.rows.types import Field
from .dictionaries import overflowing_columns
from .incompressible import LEAST_BYTES, incompressible_leaves
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
"""The codecs that pyarrow writes and Apache Paimon reads. Both call LZ4 without Hadoop's framing LZ4_RAW."""
_PAGES = (
    {"max_rows_per_page": 1 << 16} if "max_rows_per_page" in signature(pq.ParquetWriter.__init__).parameters else {}
)
"""Pages end at 1 MiB, or at 65,536 rows. New versions of Arrow end them at 20,000 rows by default: a reader of single rows then
reads half as much, but zstd finds fewer repetitions in such short pages, and files of numbers and names were 5 % larger for the
same CPU (decision 118).
"""
_FLOATS = ("FLOAT", "DOUBLE")
_FIXED = "FIXED_LEN_BYTE_ARRAY"
SMALL_ROWS = 1 << 16
"""In files of more rows, a look costs little beside the rest."""
LOOKS = 8
_BUFFER_BYTES = 32 << 10
"""Arrow writes the header and the content of each page alone, and each time waits until Python is free."""
_KEPT_FORMS = 64
"""A commit of a few rows needs the form two or three times, and finding it takes as long as writing the rows."""


@dataclass(frozen=True)
class ParquetCodec:
    """How the columns of files are compressed, by a codec of pyarrow. `level` is that of zstd.

    If `is_optional`, columns that it hardly makes smaller are written without it.
    """

    name: str
    level: int | None = None
    is_optional: bool = False

    def columns(self, paths: tuple[str, ...], first_rows: pa.Table) -> tuple[str, ...]:
        """Those of a file's Parquet columns that are written with it."""
        if not self.is_optional or first_rows.nbytes < LEAST_BYTES:
            return paths
        stay_large = incompressible_leaves(first_rows, self.name, self.level)
        return tuple(path for path, stays_large in zip(paths, stay_large, strict=True) if not stays_large)


@dataclass(frozen=True)
class ParquetForm:
    """How files with these columns are written. Made once per writer.

    Attributes:
        arrow: the columns in the form that the Parquet writer takes.
        int96: whether columns stand in for INT96, so that a file's footer must be changed when it is closed.
        bounded: the Parquet columns whose bounds are written to the footer. INT96 is not among them because it has no order.
            FLOAT and DOUBLE are not among them because Arrow leaves NaN out of their bounds, but for Apache Paimon and Spark
            NaN is the largest value.
        dictionaries: the Parquet columns that may be dictionary-encoded. DECIMALs of fixed length are not among them:
            Apache Paimon searches the dictionary's padded values for the shortest bytes of a literal, does not find them, and
            skips the row group.
    """

    arrow: pa.Schema
    int96: bool
    columns: tuple[str, ...]
    bounded: tuple[str, ...]
    dictionaries: tuple[str, ...]

    @staticmethod
    def of(fields: Iterable[Field]) -> ParquetForm:
        """The form for a table's columns. Found once for the same columns, by writing an empty file.

        >>> from ....core.rows.types import AtomicType, decimal
        >>> form = ParquetForm.of([Field(0, "f", AtomicType("FLOAT")), Field(1, "d", decimal(38, 0))])
        >>> form.bounded, form.dictionaries
        (('d',), ('f',))
        """
        return _form_of(tuple(fields))

    def writer(self, sink: Any, encodings: Encodings, first_rows: pa.Table) -> Any:
        """A `pq.ParquetWriter` for one file. Its first rows tell which columns get a dictionary, and an optional codec."""
        codec, chosen = encodings.codec, encodings.of(first_rows)
        packed = dict.fromkeys(chosen.packed, codec.level)
        return pq.ParquetWriter(
            sink,
            self.arrow,
            compression={path: codec.name if path in packed else "none" for path in self.columns},
            compression_level=None if codec.level is None else packed,
            write_statistics=list(self.bounded),
            use_dictionary=[path for path in self.dictionaries if path not in chosen.plain],
            store_decimal_as_integer=True,
            store_schema=False,
            **_PAGES,
            write_page_index=True,
            write_page_checksum=True,  # in a comparison of fourteen files each way the cost was within the noise
        )

    def stored(self, table: pa.Table) -> pa.Table:
        """Rows of the table's columns in the form that the writer takes."""
        # The writer compares types without metadata, and takes field ids from its own schema. So no cast is needed, which
        # would refuse the nulls that arrays may have in required fields of a null ROW.
        return with_stand_ins(table) if self.int96 else table


@lru_cache(maxsize=_KEPT_FORMS)
def _form_of(fields: tuple[Field, ...]) -> ParquetForm:
    plain = file_schema(fields)
    arrow = stand_in_schema(plain)
    empty = pa.BufferOutputStream()
    with pq.ParquetWriter(empty, arrow, store_decimal_as_integer=True, store_schema=False):
        pass
    columns = list(pq.ParquetFile(empty.getvalue()).schema)
    return ParquetForm(
        arrow=arrow,
        int96=not arrow.equals(plain),
        columns=tuple(c.path for c in columns),
        bounded=tuple(c.path for c in columns if c.physical_type not in _FLOATS and not is_stand_in(c)),
        dictionaries=tuple(c.path for c in columns if c.physical_type != _FIXED or is_stand_in(c)),
    )


class Chosen(NamedTuple):
    """How the columns of one file are encoded: those without a dictionary, and those that the codec compresses."""

    plain: Collection[str]
    packed: Collection[str]


class Encodings:
    """Which columns of a job's files get a dictionary, and an optional codec.

    To look costs as much as to write a small file. So small files of about as many rows are looked at until most of the first
    `LOOKS` agree, and large ones each for itself.

    >>> from ....core.rows.types import AtomicType
    >>> form = ParquetForm.of([Field(0, "id", AtomicType("INT")), Field(1, "city", AtomicType("INT"))])
    >>> encodings = Encodings(form, ParquetCodec("zstd", 1, True))
    >>> encodings.of(pa.table({"id": range(500), "city": [7] * 500}))
    Chosen(plain=frozenset({'id'}), packed=('id', 'city'))
    """

    def __init__(self, form: ParquetForm, codec: ParquetCodec) -> None:
        self.codec = codec
        self._form = form
        self._found: dict[int, list[Chosen]] = {}
        self._settled: dict[int, Chosen] = {}

    def of(self, first_rows: pa.Table) -> Chosen:
        """The choice for a file with these rows at its beginning."""
        if first_rows.num_rows > SMALL_ROWS:
            return self._look(first_rows)
        size = first_rows.num_rows.bit_length()
        if size in self._settled:
            return self._settled[size]
        found = self._found.setdefault(size, [])
        chosen = self._look(first_rows)
        found.append(chosen)
        if len(found) >= LOOKS:
            self._settled[size] = Chosen(*map(_of_most, zip(*found, strict=True)))
        return chosen

    def _look(self, first_rows: pa.Table) -> Chosen:
        return Chosen(overflowing_columns(first_rows), self.codec.columns(self._form.columns, first_rows))


def _of_most(chosen: Sequence[Collection[str]]) -> frozenset[str]:
    counts = Counter(name for names in chosen for name in names)
    return frozenset(name for name, count in counts.items() if 2 * count > len(chosen))


class ParquetOutput:
    """A Parquet file that is being written to a `SpillingSink`. Each write makes one row group."""

    def __init__(self, sink: Any, form: ParquetForm, encodings: Encodings, first_rows: pa.Table) -> None:
        self._sink, self._form = sink, form
        self._buffered = pa.BufferedOutputStream(pa.PythonFile(sink, "w"), _BUFFER_BYTES)
        self._writer = form.writer(self._buffered, encodings, first_rows)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(self._form.stored(rows), row_group_size=rows.num_rows)
        self._buffered.flush()

    def close(self) -> Any:
        """Write the end of the file, and return its `pq.FileMetaData`."""
        if self._form.int96:
            self._sink.hold()
        self._writer.close()
        self._buffered.close()  # Arrow would do it when it is collected, and would lose a Ctrl-C of that time
        if self._form.int96:
            self._sink.release(with_int96_footer)
        return self._writer.writer.metadata if hasattr(self._writer.writer, "metadata") else None
