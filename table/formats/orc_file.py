"""One ORC data file, read into the columns of a projection.

Owns: which columns are read, stripe by stripe; what ORC's own writers store otherwise than it was meant.
Must not know: splits, partitions, predicates. Source: format/data-files §3.
liborc reads a fraction of a second on 1970-01-01 a second late where the writer's zone is east of Greenwich.

Invariants: memory holds one stripe of the columns that are needed; a time that nanoseconds cannot hold is refused, never
wrapped around; Arrow's reader is shown no file whose end has not passed `core.orc.tail`, and no stripe of a small one
that has not passed `core.orc.streams`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyroaring import BitMap

from ...core import options as opt
from ...core.errors import Unsupported
from ...core.orc.streams import check_streams
from ...core.orc.tail import OrcTail, parse_tail, tail_size, writer_zone
from ...core.predicates.predicate import Predicate
from ..projection.physical import list_of, map_of, struct_of
from ..projection.plan import Atomic, Node, Pairs, ProjectionPlan, Repeated, Row, Text, leaves_of
from .data_source import BATCH_ROWS, DataSource
from .file_rows import FileRows

_TAIL_BYTES = 16 << 10
_OUT_OF_RANGE = "out of range for nanosecond"
_UTC = ("", "UTC", "GMT")
_STORED_OTHERWISE = ("CHAR", "TIMESTAMP_LTZ")


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
            self._tail = tail_of(self._input)
            self._reader = orc.ORCFile(self._input)
            there = set(self._reader.schema.names)
        self._names = [c.source for c in projection.columns if c.source is not None and c.source in there]
        self._by_wall_clock = source.options.get(opt.ORC_LTZ_BY_WALL_CLOCK)
        self._adjusted = {
            column.source: column.node
            for column in projection.columns
            if column.source in self._names and any(leaf.root in _STORED_OTHERWISE for leaf in leaves_of(column.node))
        }
        source.check_rows(sum(stripe.rows for stripe in self._tail.stripes))

    @property
    def has_columns(self) -> bool:
        """Does the file hold any of the wanted columns?"""
        return bool(self._names)

    def batches(
        self, predicate: Predicate | None = None, wanted: BitMap | None = None, *, threads: bool = False
    ) -> Iterator[tuple[int, FileRows]]:
        """The rows, a batch at a time.

        Args:
            wanted: positions of rows; stripes without any are left out. None: all are wanted.

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

    def _stripe(self, number: int, names: list[str] | None) -> pa.RecordBatch:
        with self._source.blamed():
            if self._source.is_small:  # its bytes are here; of a large file only some are fetched
                described = self._tail.stripes[number]
                check_streams(self._bytes(described.offset, described.end), described, self._tail, names)
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
            if not self._adjusted:
                return stripe
            zone = self._zone(number) if self._by_wall_clock else ""
            columns = [
                _as_meant(stripe.column(i), self._adjusted[name], zone) if name in self._adjusted else stripe.column(i)
                for i, name in enumerate(stripe.schema.names)
            ]
            return pa.RecordBatch.from_arrays(columns, schema=stripe.schema)

    def _zone(self, number: int) -> str:
        stripe = self._tail.stripes[number]
        return writer_zone(self._bytes(stripe.footer_start, stripe.end), self._tail)

    def _bytes(self, start: int, end: int) -> bytes:
        self._input.seek(start)
        return bytes(self._input.read(end - start))


def tail_of(source: Any) -> OrcTail:
    """The tail of a file.

    Args:
        source: the file, seekable.

    Raises:
        ValueError: damaged.
    """
    size = source.seek(0, os.SEEK_END)
    last = _last(source, size, _TAIL_BYTES)
    needed = tail_size(last)
    return parse_tail(last if needed <= len(last) else _last(source, size, needed), size)


def _last(source: Any, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    return bytes(source.read(min(count, size)))


def _as_meant(array: Any, node: Node, zone: str) -> Any:
    """Values as their writer meant them: a CHAR without the blanks that ORC fills it up with, as ORC's own readers drop them,
    and a TIMESTAMP_LTZ that was stored as UTC's wall clock, taken for the one of the writer's zone."""
    kind = array.type
    match node:
        case Atomic(source=source) if source.root == "CHAR":
            return pc.utf8_rtrim(array, " ")
        case Atomic(source=source) if source.root == "TIMESTAMP_LTZ" and zone not in _UTC:
            return pc.local_timestamp(array.view(pa.timestamp(kind.unit, zone))).view(kind)
        case Row(parts=parts):
            nodes = dict(part for part in parts if part[0] is not None)
            children = [array.field(i) for i in range(kind.num_fields)]
            made = [
                _as_meant(child, nodes[part.name], zone) if part.name in nodes else child
                for part, child in zip(kind, children, strict=True)
            ]
            return struct_of(array, made, kind)
        case Repeated(element=element):
            return list_of(array, kind, lambda a: _as_meant(a, element, zone))
        case Pairs(key=key, value=value):
            return map_of(array, kind, lambda a: _as_meant(a, key, zone), lambda a: _as_meant(a, value, zone))
        case Text(inner=inner):
            return _as_meant(array, inner, zone)
        case _:
            return array
