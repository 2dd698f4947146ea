"""Open a data file with the reader for its extension, never by an option of the table (format/data-files §4).

Owns: the list of formats. Must not know: how a format is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from pyroaring import BitMap

from ...backends.store import Store
from ...core.expressions.tree import Predicate
from ...core.metadata.data_file import DataFile
from ...core.options import TableOptions
from ...core.paths import format_of
from ..projection.plan import ProjectionPlan
from .avro_reader import AvroFile
from .data_source import DataSource, Part
from .file_rows import FileRows
from .orc_reader import OrcFile
from .parquet.reader import ParquetFile
from .text.reader import CsvFile, JsonFile


class OpenDataFile(Protocol):
    """An open data file that is read through a projection."""

    projection: ProjectionPlan

    @property
    def has_columns(self) -> bool:
        """Does the file hold any of the wanted columns?"""

    def batches(
        self, predicate: Predicate | None = None, wanted: BitMap | None = None, *, threads: bool = False
    ) -> Iterator[tuple[int, FileRows]]:
        """The batches in the file's order, each as (position of its first row in the file, rows).

        Args:
            predicate: bound. Rows may be skipped if none of their row group or stripe can match.
            wanted: the positions of the wanted rows. Others may be skipped. None = all rows.
        """

    def parts(self, predicate: Predicate | None = None, wanted: BitMap | None = None) -> list[Part]:
        """The same batches in parts that may be read at the same time; a single one if the format has none."""


_READERS: dict[str, Callable[[DataSource, ProjectionPlan], OpenDataFile]] = {
    "parquet": ParquetFile,
    "orc": OrcFile,
    "avro": AvroFile,
    "csv": CsvFile,
    "json": JsonFile,
}
READABLE_FORMATS = tuple(_READERS)


def open_data_file(
    store: Store,
    key: str,
    file: DataFile,
    projection: ProjectionPlan,
    options: TableOptions,
    *,
    part_bytes: int | None = None,
) -> OpenDataFile:
    """Open a data file of a readable format (see `refusals`).

    About `part_bytes` of it may be held at a time; None for whole row groups. Only Parquet files can be read in smaller parts; of
    others, a stripe or a block is held anyway.

    Raises:
        TableCorrupt: the file is missing or damaged, or its number of rows is not the manifest's.
        Unsupported: its compression, or a column or an option of a text file, is not supported.
    """
    return _READERS[format_of(file.file_name)](DataSource(store, key, file, options, part_bytes=part_bytes), projection)
