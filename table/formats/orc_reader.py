"""Read one ORC data file into the columns of a projection.

Owns: the choice of columns, read stripe by stripe, and corrections for values that ORC's writers store in another form.
Must not know: splits, partitions, predicates. Source: format/data-files §3.

Invariants: Memory holds one stripe of the needed columns. A time that nanoseconds cannot hold is refused, never wrapped around.
Arrow's reader gets a file only after its tail has passed `core.orc.tail`, and a stripe of a small file only after the stripe has
passed `core.orc.streams`.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyroaring import BitMap

from ...core import options as opt
from ...core.errors import Unsupported
from ...core.expressions.tree import Predicate
from ...core.orc.checksum import checksum_in
from ...core.orc.statistics import OrcStatistics, statistics_of
from ...core.orc.streams import check_streams
from ...core.orc.tail import OrcTail, parse_tail, tail_size, writer_zone
from ...core.rows.values import NANOS_PER_MILLI, NANOS_PER_SECOND
from ..projection.physical import list_of, map_of, struct_of
from ..projection.plan import Atomic, Node, Pairs, ProjectionPlan, Repeated, Row, Text, leaves_of
from .data_source import BATCH_ROWS, DataSource, Part
from .file_rows import FileRows

_TAIL_BYTES = 16 << 10
_PART_BYTES = 8 << 20
_OUT_OF_RANGE = "out of range for nanosecond"
_UTC = ("", "UTC", "GMT")
_STORED_OTHERWISE = ("CHAR", "TIMESTAMP_LTZ", "TIMESTAMP")


class OrcFile:
    """An ORC file; see `OpenDataFile`."""

    def __init__(self, source: DataSource, projection: ProjectionPlan) -> None:
        self._source = source
        self.projection = projection
        with source.blamed():
            self._input = source.open()
            self._tail = tail_of(self._input)
            self._reader = orc.ORCFile(self._input)
            there = set(self._reader.schema.names)
        self._names = [c.source for c in projection.columns if c.source is not None and c.source in there]
        self._by_wall_clock = source.options.get(opt.ORC_LTZ_BY_WALL_CLOCK)
        self._zone_of_others = source.options.get(opt.ORC_WRITER_ZONE)
        self._adjusted = {
            column.source: column.node
            for column in projection.columns
            if column.source in self._names and any(leaf.root in _STORED_OTHERWISE for leaf in leaves_of(column.node))
        }
        source.check_rows(sum(stripe.rows for stripe in self._tail.stripes))

    @property
    def has_columns(self) -> bool:
        return bool(self._names)

    def batches(
        self, predicate: Predicate | None = None, wanted: BitMap | None = None, *, threads: bool = False
    ) -> Iterator[tuple[int, FileRows]]:
        # liborc reads `a.b` as field b of column a. So all columns are read if a name has a dot.
        names = None if any("." in name for name in self._names) else self._names
        position = 0
        for number, described in enumerate(self._tail.stripes):
            if wanted is not None and not wanted.range_cardinality(position, position + described.rows):
                position += described.rows
                continue
            stripe = self._stripe(number, names)
            if stripe.num_rows != described.rows:
                self._source.check_rows(position + stripe.num_rows)
            for start in range(0, stripe.num_rows, BATCH_ROWS):
                rows = stripe.slice(start, BATCH_ROWS)
                yield position, FileRows(rows, self.projection, self._source.where)
                position += rows.num_rows

    def parts(self, predicate: Predicate | None = None, wanted: BitMap | None = None) -> list[Part]:
        return [partial(self.batches, predicate, wanted)]

    def _stripe(self, number: int, names: list[str] | None) -> pa.RecordBatch:
        with self._source.blamed():
            if self._source.is_small:  # all its bytes are in memory; of a large file only some are fetched
                described = self._tail.stripes[number]
                check_streams(self._bytes(described.offset, described.end), described, self._tail, names)
            try:
                stripe = self._reader.read_stripe(number, names)
            except pa.ArrowInvalid as error:
                if _OUT_OF_RANGE not in str(error):
                    raise
                raise Unsupported(
                    f"{self._source.where} holds a time outside the years 1677 to 2262, which Arrow's nanoseconds"
                    f" cannot hold: {error}",
                    next_step="leave the column out",
                ) from error
            if not self._adjusted:
                return stripe
            zone = self._zone(number)
            columns = [
                self._as_meant(stripe.column(i), self._adjusted[name], zone)
                if name in self._adjusted
                else stripe.column(i)
                for i, name in enumerate(stripe.schema.names)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=stripe.schema)

    def _zone(self, number: int) -> str:
        stripe = self._tail.stripes[number]
        return writer_zone(self._bytes(stripe.footer_start, stripe.end), self._tail)

    def _as_meant(self, array: Any, node: Node, zone: str) -> Any:
        """Values as their writer meant them.

        A CHAR is returned without the blanks with which ORC pads it, as by ORC's own readers. A TIMESTAMP_LTZ whose UTC wall
        clock was stored as if it were that of the writer's zone is converted back; where the file does not name that zone, an
        option does. A TIMESTAMP of a writer in another zone gets the second that ORC's Java readers take for it.
        """
        kind = array.type
        match node:
            case Atomic(source=source) if source.root == "CHAR":
                return pc.utf8_rtrim(array, " ")
            case Atomic(source=source) if source.root == "TIMESTAMP_LTZ" and self._by_wall_clock:
                zone = zone or self._zone_of_others
                return (
                    array if zone in _UTC else pc.local_timestamp(array.view(pa.timestamp(kind.unit, zone))).view(kind)
                )
            case Atomic(source=source) if source.root == "TIMESTAMP" and zone not in _UTC:
                return _by_seconds_of(array, zone)
            case Row(parts=parts):
                nodes = dict(part for part in parts if part[0] is not None)
                children = [array.field(i) for i in range(kind.num_fields)]
                made = [
                    self._as_meant(child, nodes[part.name], zone) if part.name in nodes else child
                    for part, child in zip(kind, children, strict=True)
                ]
                return struct_of(array, made, kind)
            case Repeated(element=element):
                return list_of(array, kind, lambda a: self._as_meant(a, element, zone))
            case Pairs(key=key, value=value):
                return map_of(
                    array, kind, lambda a: self._as_meant(a, key, zone), lambda a: self._as_meant(a, value, zone)
                )
            case Text(inner=inner):
                return self._as_meant(array, inner, zone)
            case _:
                return array

    def _bytes(self, start: int, end: int) -> bytes:
        self._input.seek(start)
        return bytes(self._input.read(end - start))


def tail_of(source: Any) -> OrcTail:
    """The tail of a seekable file; `ValueError` if it is damaged."""
    last, size = _tail_bytes(source)
    return parse_tail(last, size)


def check_checksum(source: DataSource) -> None:
    """Compare a file with the checksum that lakelatch wrote into it; files without one pass."""
    with source.blamed():
        opened = source.open()
        last, size = _tail_bytes(opened)
        found = checksum_in(last, size)
        if found is None:
            return
        before = at = 0
        while at < found.footer_start:
            opened.seek(at)
            part = bytes(opened.read(min(_PART_BYTES, found.footer_start - at)))
            if not part:
                raise ValueError("it is cut off")
            before, at = zlib.crc32(part, before), at + len(part)
        if not found.matches(before):
            raise ValueError("its bytes do not have the checksum in its footer")


def statistics_in(source: DataSource) -> dict[str, OrcStatistics]:
    """The statistics in a file's footer, by top-level column."""
    with source.blamed():
        last, size = _tail_bytes(source.open())
        return statistics_of(last, parse_tail(last, size))


def _tail_bytes(source: Any) -> tuple[bytes, int]:
    """The tail of a file, and the file's size."""
    size = source.seek(0, os.SEEK_END)
    last = _last(source, size, _TAIL_BYTES)
    needed = tail_size(last)
    return last if needed <= len(last) else _last(source, size, needed), size


def _last(source: Any, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    return bytes(source.read(min(count, size)))


def _by_seconds_of(array: Any, zone: str) -> Any:
    """Wall clock times near 1970-01-01T00:00, in nanoseconds, as ORC's Java readers take them.

    A stored second before 1970 is rounded up where there are nanoseconds above 999 999. Java looks at the instant for what is
    before 1970, and liborc at the wall clock, so that they differ by a second between these two.
    """
    local = pc.local_timestamp(pa.scalar(0, pa.timestamp("s", zone))).value
    nanos = array.cast(pa.int64()).fill_null(0).to_numpy()
    seconds, fractions = np.divmod(nanos, NANOS_PER_SECOND)
    stored = np.where(seconds < 0, seconds + 1, seconds)
    is_between = (stored >= min(local, 0)) & (stored < max(local, 0)) & (fractions >= NANOS_PER_MILLI)
    if not is_between.any():
        return array
    made = nanos + np.where(is_between, -NANOS_PER_SECOND if local > 0 else NANOS_PER_SECOND, 0)
    return pa.array(made, pa.int64(), mask=array.is_null().to_numpy(False)).cast(array.type)
