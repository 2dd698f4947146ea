"""One ORC data file, read into the columns of a projection.

Owns: which columns are read, stripe by stripe; the time zone of times that were stored by their wall clock.
Must not know: splits, partitions, predicates. Source: data-layer §1.3; observed 1.

Invariants: memory holds one stripe of the columns that are needed; a time that nanoseconds cannot hold is refused, never
wrapped around; nothing is shown to Arrow's reader that its own end has not passed `orc_tail`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from ..core import options as opt
from ..core.errors import Unsupported
from ..core.orc_tail import OrcTail, parse_tail, tail_size, writer_zone
from ..core.predicate import Predicate
from .data_source import BATCH_ROWS, DataSource
from .evolution import ProjectionPlan
from .file_rows import FileRows
from .physical import list_of, map_of, struct_of, timestamp_leaves

_TAIL_BYTES = 16 << 10
_OUT_OF_RANGE = "out of range for nanosecond"
_UTC = ("", "UTC", "GMT")


class OrcFile:
    """A data file, opened.

    Args:
        source: its bytes.
        projection: which columns are wanted, and as what.

    Raises:
        TableCorrupt: it is missing, no ORC file, damaged, or has another number of rows than the manifest says.
    """

    def __init__(self, source: DataSource, projection: ProjectionPlan) -> None:
        self._source = source
        self.projection = projection
        with source.blamed():
            self._input = source.open()
            self._tail = _tail_of(self._input)
            self._reader = orc.ORCFile(self._input)
            there = {field.name: field.type for field in self._reader.schema}
        self._names = [c.source for c in projection.columns if c.source is not None and c.source in there]
        legacy = source.options.get(opt.ORC_LTZ_BY_WALL_CLOCK)
        self._by_wall_clock = legacy and any(_has_instants(there[name]) for name in self._names)
        source.check_rows(sum(stripe.rows for stripe in self._tail.stripes))

    @property
    def has_columns(self) -> bool:
        """Does the file hold any of the wanted columns?"""
        return bool(self._names)

    def batches(self, predicate: Predicate | None = None, *, threads: bool = False) -> Iterator[tuple[int, FileRows]]:
        """The rows, a batch at a time.

        Yields:
            The position of the first row in the file, and the rows; the file must have one of the wanted columns.

        Raises:
            TableCorrupt: damaged.
            Unsupported: a timestamp that Arrow's nanoseconds cannot hold.
        """
        # liborc takes `a.b` for field b of column a: where a name has a point, all columns are read.
        names = None if any("." in name for name in self._names) else self._names
        position = 0
        for number, described in enumerate(self._tail.stripes):
            stripe = self._stripe(number, names)
            if stripe.num_rows != described.rows:
                self._source.check_rows(position + stripe.num_rows)
            for start in range(0, stripe.num_rows, BATCH_ROWS):
                rows = stripe.slice(start, BATCH_ROWS)
                yield position, FileRows(rows, self.projection, self._source.where)
                position += rows.num_rows

    def _stripe(self, number: int, names: list[str] | None) -> pa.RecordBatch:
        with self._source.blamed():
            try:
                stripe = self._reader.read_stripe(number, names)
            except pa.ArrowInvalid as error:
                if _OUT_OF_RANGE not in str(error):
                    raise
                raise Unsupported(
                    f"{self._source.where} holds a time outside of the years 1677 to 2262, which Arrow's nanoseconds"
                    f" cannot hold: {error}",
                    next_step="leave the column out",
                ) from error
            if not self._by_wall_clock:
                return stripe
            zone = self._zone(number)
            if zone in _UTC:
                return stripe
            columns = [_from_wall_clock(column, zone) for column in stripe.columns]
            return pa.RecordBatch.from_arrays(columns, schema=stripe.schema)

    def _zone(self, number: int) -> str:
        stripe = self._tail.stripes[number]
        self._input.seek(stripe.footer_start)
        return writer_zone(bytes(self._input.read(stripe.footer_size)), self._tail)


def _tail_of(source: Any) -> OrcTail:
    size = source.seek(0, os.SEEK_END)
    last = _last(source, size, _TAIL_BYTES)
    needed = tail_size(last)
    return parse_tail(last if needed <= len(last) else _last(source, size, needed), size)


def _last(source: Any, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    return bytes(source.read(min(count, size)))


def _has_instants(kind: pa.DataType) -> bool:
    return any(array.type.tz is not None for array in timestamp_leaves(pa.array([], kind)))


def _from_wall_clock(array: Any, zone: str) -> Any:
    """Undo what Apache Paimon does to TIMESTAMP_LTZ: UTC's wall clock, taken for the one of the writer's zone."""
    kind, kinds = array.type, pa.types
    if kinds.is_timestamp(kind) and kind.tz is not None:
        return pc.local_timestamp(array.view(pa.timestamp(kind.unit, zone))).view(kind)
    if not _has_instants(kind):
        return array
    if kinds.is_struct(kind):
        return struct_of(array, [_from_wall_clock(array.field(i), zone) for i in range(kind.num_fields)], kind)
    if kinds.is_map(kind):
        return map_of(array, kind, lambda a: _from_wall_clock(a, zone), lambda a: _from_wall_clock(a, zone))
    return list_of(array, kind, lambda a: _from_wall_clock(a, zone))
