"""A file that does not say how many rows it has before its end: Avro, CSV and JSON.

Owns: the positions of its rows, and the check of their number. Must not know: how a format is decoded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyroaring import BitMap

from ...core.expressions.tree import Predicate
from ..projection.plan import ProjectionPlan
from .data_source import DataSource, Part
from .file_rows import FileRows


class StreamedFile(ABC):
    """An open data file that is read from its beginning to its end; see `OpenDataFile`."""

    def __init__(self, source: DataSource, projection: ProjectionPlan) -> None:
        self._source, self.projection = source, projection

    def batches(
        self, predicate: Predicate | None = None, wanted: BitMap | None = None, *, threads: bool = False
    ) -> Iterator[tuple[int, FileRows]]:
        position = 0
        for batch in self._decoded():
            yield position, FileRows(batch, self.projection, self._source.where)
            position += batch.num_rows
        self._source.check_rows(position)

    def parts(self, predicate: Predicate | None = None, wanted: BitMap | None = None) -> list[Part]:
        return [partial(self.batches, predicate, wanted)]

    @abstractmethod
    def _decoded(self) -> Iterator[pa.RecordBatch]:
        """The wanted columns of the file, a batch at a time; raises TableCorrupt where it is damaged."""
