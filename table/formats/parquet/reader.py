"""Read one Parquet data file into the columns of a projection.

Owns: the choice of leaf columns and row groups. Must not know: splits, partitions, predicates (except for skipping row groups).
Source: format/data-files §3; format/manifests §6.

Invariants: Memory holds one row group of the needed columns, a few small ones, or a part of one (`DataSource.part_bytes`). An
INT96 that nanoseconds cannot hold is refused, never wrapped around.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap

from ....core.errors import Unsupported
from ....core.expressions.tree import Predicate
from ....core.rows import sizes, whole
from ...projection.physical import timestamp_leaves
from ...projection.plan import ProjectionPlan
from ..data_source import BATCH_ROWS, DataSource, Part
from ..file_rows import FileRows
from .page_index import PageIndex
from .row_groups import bounded_columns, wanted_row_groups

_LENGTH_BYTES = 4
_LEAST_COLUMN_BYTES = 1 << 16
_LEAST_VALUE_BYTES, _TEXT_BYTES, _WIDE_BYTES = 8, 128, 1 << 12
_NANO_LIMIT_US = (2**63 - 1) // 1000
_WRAP_US = 2**64 // 1000
_MOST_PART_BYTES = 64 << 20
"""Row groups that take more than this, decompressed, are read one after the other, column beside column."""
_BATCH_BYTES = 8 << 20
"""Batches of narrow rows are this large …"""
_MOST_BATCH_ROWS = 1 << 18
"""… with so many rows at most: each batch costs the reader and its consumer a tenth of a millisecond, whatever its size."""


class _RowWidth:
    """How wide the rows are that were read of a file so far. Its row groups may be read at the same time.

    The footer cannot tell: it knows nothing of the sizes of texts that are in a dictionary.
    """

    def __init__(self) -> None:
        self._rows = self._bytes = 0

    def learn(self, batch: pa.RecordBatch) -> None:
        self._rows, self._bytes = batch.num_rows, batch.nbytes

    @property
    def batch_rows(self) -> int:
        if not self._rows:
            return BATCH_ROWS
        usual = max(BATCH_ROWS, min(_MOST_BATCH_ROWS, _BATCH_BYTES * self._rows // max(self._bytes, 1)))
        return max(1, min(usual, sizes.PIECE_BYTES * self._rows // max(self._bytes, 1)))

    @property
    def is_known(self) -> bool:
        return self._rows > 0


class ParquetFile:
    """A Parquet file; see `OpenDataFile`."""

    def __init__(self, source: DataSource, projection: ProjectionPlan) -> None:
        self._source = source
        self.projection = projection
        self._unit = "ns" if projection.needs_nanos else "us"
        with source.blamed():
            self._input = source.open()
            self._reader = self._parquet(self._unit)
            self._leaves = projection.leaves(self._reader.schema_arrow)
            self._paths = [self._reader.schema.column(i).path for i in self._leaves]
        self._metadata, self._width = self._reader.metadata, _RowWidth()
        source.check_rows(self._metadata.num_rows)
        if source.part_bytes is not None:  # many of the rows are left out: their texts need not be made
            short = self._short_texts()
            if short:
                with source.blamed():
                    self._reader = self._parquet(self._unit, self._metadata, short)

    @property
    def has_columns(self) -> bool:
        return bool(self._leaves)

    def _short_texts(self) -> list[str]:
        """The columns of texts that take less space than the lengths of their values would, so that they are dictionaries."""
        if not self._metadata.num_row_groups:
            return []
        group = self._metadata.row_group(0)
        found = []
        for leaf in self._leaves:
            column, chunk = self._reader.schema.column(leaf), group.column(leaf)
            is_text = column.physical_type == "BYTE_ARRAY" and column.path == column.name
            if is_text and chunk.has_dictionary_page and chunk.total_uncompressed_size < _LENGTH_BYTES * group.num_rows:
                found.append(column.path)
        return found

    def _parquet(self, unit: str, metadata: Any = None, dictionaries: Sequence[str] = ()) -> Any:
        parts = self._column_bytes()
        return pq.ParquetFile(
            self._input,
            metadata=metadata,
            read_dictionary=list(dictionaries),
            pre_buffer=self._source.part_bytes is None,
            buffer_size=parts,
            coerce_int96_timestamp_unit=unit,
            page_checksum_verification=True,
        )

    def _column_bytes(self) -> int:
        """The bytes of a column that are fetched at a time; 0 if row groups are fetched whole, or the file is in memory."""
        part_bytes = self._source.part_bytes
        if part_bytes is None or self._source.is_small or self._source.file.file_size <= part_bytes:
            return 0
        return max(_LEAST_COLUMN_BYTES, part_bytes // (2 * max(len(self.projection.columns), 1)))

    def batches(
        self, predicate: Predicate | None = None, wanted: BitMap | None = None, *, threads: bool = False
    ) -> Iterator[tuple[int, FileRows]]:
        for group, start in self._groups(predicate, wanted):
            yield from self._group(group, start, threads, predicate)

    def parts(self, predicate: Predicate | None = None, wanted: BitMap | None = None) -> list[Part]:
        """The same rows in parts that may be read at the same time: the row groups, if they are small enough for that."""
        groups = list(self._groups(predicate, wanted))
        largest = max((self._metadata.row_group(group).total_byte_size for group, _ in groups), default=0)
        if len(groups) < 2 or self._source.part_bytes is not None or largest > _MOST_PART_BYTES:
            return [partial(self.batches, predicate, wanted, threads=True)]
        return [partial(self._apart, group, start, predicate) for group, start in groups]

    def _groups(self, predicate: Predicate | None, wanted: BitMap | None) -> Iterator[tuple[int, int]]:
        """The row groups that may hold wanted rows, each with the position of its first row."""
        chosen = None if predicate is None else wanted_row_groups(self._metadata, self.projection, predicate)
        position = 0
        for group in range(self._metadata.num_row_groups):
            start, position = position, position + self._metadata.row_group(group).num_rows
            if wanted is not None and not wanted.range_cardinality(start, position):
                continue
            if chosen is None or group in chosen:
                yield group, start

    def _apart(self, group: int, start: int, predicate: Predicate | None) -> Iterator[tuple[int, FileRows]]:
        """The rows of a row group, by a reader of its own: Arrow's keeps what it fetched ahead, for one user at a time."""
        other = copy(self)
        with self._source.blamed():
            other._input = self._source.open()
            other._reader = other._parquet(self._unit, self._metadata)
        yield from other._group(group, start, False, predicate)

    def _group(
        self, group: int, start: int, threads: bool, predicate: Predicate | None
    ) -> Iterator[tuple[int, FileRows]]:
        pages = None if predicate is None else self._pages_of(group, predicate)
        if pages is not None:
            for at, batch in pages:
                yield start + at, FileRows(batch, self.projection, self._source.where)
            return
        self._check_int96(group)
        # Ask for one row group at a time, because pyarrow keeps everything in memory until the iterator is dropped.
        parted = self._source.part_bytes is not None
        usual = self._source.batch_rows(self._row_bytes(group)) if parted else self._width.batch_rows
        rows = max(1, min(usual, self._most_rows(group)))
        with self._source.blamed():
            batches = self._reader.iter_batches(
                rows,
                row_groups=[group],
                columns=self._paths,
                use_threads=threads,
            )
        while True:
            with self._source.blamed():
                batch = next(batches, None)
            if batch is None:
                return
            self._width.learn(batch)
            yield start, FileRows(batch, self.projection, self._source.where)
            start += batch.num_rows

    def _pages_of(self, group: int, predicate: Predicate) -> list[tuple[int, pa.RecordBatch]] | None:
        """The rows of those pages that can hold matching rows, with their places in the row group; None to read it whole."""
        if self._source.is_small or self._unit == "ns":
            return None
        with self._source.blamed():
            index = self._page_index
            places = bounded_columns(self._metadata, self.projection, predicate) if index else []
            if index is None or not places:
                return None
            rows = index.rows_of(group, predicate, places)
            if sum(end - start for start, end in rows) > self._most_rows(group):
                return None
            how = {"coerce_int96_timestamp_unit": self._unit, "page_checksum_verification": True}
            if not rows:
                return []
            columns = index.columns(group, self._leaves, rows, **how)
            if columns is None:
                return None
            names = [self._reader.schema.column(leaf).name for leaf in self._leaves]
            batch = pa.RecordBatch.from_arrays(columns, names)
        found, at = list[tuple[int, pa.RecordBatch]](), 0
        for start, end in rows:
            for first in range(start, end, BATCH_ROWS):
                count = min(BATCH_ROWS, end - first)
                found.append((first, batch.slice(at, count)))
                at += count
        return found

    @cached_property
    def _page_index(self) -> PageIndex | None:
        if not PageIndex.is_worth_a_look(self._metadata):
            return None
        source = self._source
        return PageIndex(self._metadata, source.file.file_size, source.range, source.ranges_at_once, self._again)

    def _again(self, start: int, end: int) -> bytes:
        """Bytes near the file's end. An open file still holds them since its footer was read, so that no request is made."""
        self._input.seek(start)
        return bytes(self._input.read(end - start))

    def _row_bytes(self, group: int) -> int:
        found = self._metadata.row_group(group)
        chunks = [found.column(leaf) for leaf in self._leaves]
        plain = sum(chunk.total_uncompressed_size for chunk in chunks) // max(found.num_rows, 1)
        if any(chunk.physical_type == "BYTE_ARRAY" for chunk in chunks) and plain < _WIDE_BYTES:
            return _TEXT_BYTES  # small batches of texts take more memory than their size says, as was measured
        return int(max(plain, _LEAST_VALUE_BYTES * len(chunks)))

    def _most_rows(self, group: int) -> int:
        """How many rows of a row group may be decoded at once. The size of a dictionary of long texts says little of that.

        Columns are looked at only where it matters: pyarrow ends the process if a damaged footer says impossible things of one.
        """
        found, footer = _MOST_BATCH_ROWS, self._metadata.row_group(group)
        if footer.total_byte_size * footer.num_rows <= whole.WIDE_ABOVE:
            return found
        for leaf, column in self._texts:
            chunk = footer.column(leaf)
            size = max(chunk.total_uncompressed_size, 1)
            if not chunk.has_dictionary_page:
                found = min(found, sizes.PIECE_BYTES * footer.num_rows // size)
            elif size * footer.num_rows > whole.WIDE_ABOVE:
                longest, mean = size, 1
                if column.path == column.name:
                    longest, mean = self._texts_of(group, column.path)
                elif self._width.is_known:
                    continue
                found = min(found, whole.WIDE_ABOVE // max(longest, 1), sizes.PIECE_BYTES // max(mean, 1))
        return found

    @cached_property
    def _texts(self) -> list[tuple[int, Any]]:
        """The leaves that hold texts or bytes."""
        columns = [(leaf, self._reader.schema.column(leaf)) for leaf in self._leaves]
        return [(leaf, column) for leaf, column in columns if column.physical_type == "BYTE_ARRAY"]

    def _texts_of(self, group: int, path: str) -> tuple[int, int]:
        """The length of the longest text in a column's dictionary, and their mean."""
        with self._source.blamed():
            reader = self._parquet(self._unit, self._metadata, [path])
            column = next(reader.iter_batches(1, row_groups=[group], columns=[path])).column(0)
        if not pa.types.is_dictionary(column.type) or not len(column.dictionary):
            return 0, 0
        lengths = sizes.row_bytes(column.dictionary)
        return int(lengths.max()), int(lengths.mean())

    def _check_int96(self, group: int) -> None:
        """Refuse times outside the years 1677 to 2262, for which Arrow's decoder to nanoseconds wraps around.

        They are found by decoding to microseconds, which do not overflow. Apache Paimon's negative nanoseconds of the day (before
        1970, format/data-files §3) are then decoded 584 years late, so a time of 2262 to 2554 looks the same as one of 1677 to
        1970, and is taken for the latter. Times that are often used for "never" (year 1, year 9999) are found.
        """
        if self._unit != "ns":
            return
        with self._source.blamed():
            columns = [self._reader.schema.column(i) for i in self._leaves]
            paths = [column.path for column in columns if column.physical_type == "INT96"]
            if not paths:
                return
            coarse = self._parquet("us", self._metadata).read_row_group(group, columns=paths)
        for name, column in zip(coarse.schema.names, coarse.columns, strict=True):
            for chunk in column.chunks:
                for array in timestamp_leaves(chunk):
                    if array.type.unit == "us" and not _fits_nanos(array.cast(pa.int64())):
                        raise Unsupported(
                            f"{self._source.where}: column '{name}' holds a time outside the years 1677 to 2262, which"
                            " Arrow's nanoseconds cannot hold",
                            next_step="leave the column out",
                        )


def _fits_nanos(micros: Any) -> bool:
    ends = pc.min_max(micros)
    if not ends["min"].is_valid:
        return True
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low < -_NANO_LIMIT_US or high > _WRAP_US:
        return False
    late = pc.filter(micros, pc.greater(micros, _NANO_LIMIT_US))
    return not len(late) or pc.min(late).as_py() >= _WRAP_US - _NANO_LIMIT_US
