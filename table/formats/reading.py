"""Which reader a data file is opened with: its extension decides, never an option of the table (format/data-files §4).

Owns: the list of formats. Must not know: how a format is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from pyroaring import BitMap

from ...backends.store import Store
from ...core.metadata.data_file import DataFile
from ...core.options import TableOptions
from ...core.paths import format_of
from ...core.predicates.predicate import Predicate
from ..projection.plan import ProjectionPlan
from .avro_file import AvroFile
from .data_source import DataSource
from .file_rows import FileRows
from .orc_file import OrcFile
from .parquet_file import ParquetFile


class OpenDataFile(Protocol):
    """A data file whose columns are read as a projection says."""

    projection: ProjectionPlan

    @property
    def has_columns(self) -> bool:
        """Does the file hold any of the wanted columns?"""

    def batches(
        self, predicate: Predicate | None = None, wanted: BitMap | None = None, *, threads: bool = False
    ) -> Iterator[tuple[int, FileRows]]:
        """(position of the first row in the file, rows), batch by batch in the file's order.

        Args:
            predicate: bound; what cannot hold a matching row may be left out.
            wanted: positions of rows; what holds none of them may be left out. None: all are wanted.
        """


_READERS: dict[str, Callable[[DataSource, ProjectionPlan], OpenDataFile]] = {
    "parquet": ParquetFile,
    "orc": OrcFile,
    "avro": AvroFile,
}
READABLE_FORMATS = tuple(_READERS)


def open_data_file(
    store: Store, key: str, file: DataFile, projection: ProjectionPlan, options: TableOptions
) -> OpenDataFile:
    """A data file of a readable format (see `refusals`), opened.

    Args:
        store: where it lies.
        key: its object.
        file: as the manifest describes it.
        projection: which columns are wanted, and as what.
        options: of the table.

    Raises:
        TableCorrupt: it is missing, damaged, or has another number of rows than the manifest says.
    """
    return _READERS[format_of(file.file_name)](DataSource(store, key, file, options), projection)
