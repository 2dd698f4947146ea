"""Computes the statistics of a table from its rows.

Owns: `analyzed`, `read_statistics`; which types can be analyzed. Must not know: commits. Source: format/snapshot §6;
format/statistics §1. Invariants: rows are streamed, and memory does not grow with their number. The figures are those of
Apache Paimon's ANALYZE: texts and bytes have no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..backends.store import ObjectNotFound
from ..coordinator.history.timeline import Timeline
from ..core.errors import InvalidArgument, missing
from ..core.metadata.folding import live
from ..core.metadata.schema import TableSchema
from ..core.metadata.snapshot import Snapshot
from ..core.rows.arrow import to_arrow
from ..core.rows.java_text import split_nanos, timestamp_sql
from ..core.rows.stored_columns import object_texts
from ..core.rows.types import BINARY_ROOTS, INTEGER_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS, AtomicType, Field, sql
from ..core.rows.values import order_key, to_arrow_array
from ..core.statistics.bounds import Bounds, array_bounds
from ..core.statistics.distinct import DistinctCounter
from ..core.statistics.table_statistics import ColumnStatistics, TableStatistics, parse_statistics
from .reading.arrow import fields_of, read_batches
from .scan.plan import plan_scan

_SIZES = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "BIGINT": 8, "FLOAT": 4, "DOUBLE": 8, "DATE": 4}
_BOUNDED = ("BOOLEAN", *INTEGER_ROOTS, "FLOAT", "DOUBLE", "DECIMAL", "DATE", *TIMESTAMP_ROOTS)
_COMPACT_DIGITS = 18


def read_statistics(timeline: Timeline, snapshot: Snapshot | None) -> TableStatistics | None:
    """The statistics that a snapshot names, or None. `TableCorrupt` names their file if it is missing or damaged."""
    if snapshot is None or snapshot.statistics is None:
        return None
    where = timeline.file_of(snapshot)
    key = timeline.paths.statistics(snapshot.statistics, where)
    try:
        return parse_statistics(timeline.store.get(key), key)
    except ObjectNotFound:
        raise missing(key, where) from None


def analyzed(
    timeline: Timeline,
    snapshot: Snapshot,
    schema: TableSchema,
    columns: Sequence[str] | None,
    progress: Callable[[int, int], object] | None = None,
) -> TableStatistics:
    """As `Table.analyze`. `InvalidArgument`: there is no such column, or its type cannot be analyzed."""
    fields = _chosen(schema, columns)
    plan = plan_scan(timeline, snapshot, schema, None, [f.name for f in fields])
    counters = [_Column(f) for f in fields]
    rows = 0
    for batch in read_batches(timeline, plan, schema, [f.name for f in fields]):
        rows += batch.num_rows
        for counter, array in zip(counters, batch.columns, strict=True):
            counter.update(array)
        if progress is not None:
            progress(rows, max(plan.row_count, rows))
    files = [e.file for e in live(timeline.entries(timeline.manifests(snapshot)))]
    stored, size = sum(f.row_count for f in files), sum(f.file_size for f in files)
    merged = size if rows >= stored else size * rows // stored
    found = {counter.field.name: counter.statistics() for counter in counters}
    return TableStatistics(snapshot.id, schema.id, rows, merged, found)


def _chosen(schema: TableSchema, columns: Sequence[str] | None) -> tuple[Field, ...]:
    if columns is None:
        return tuple(f for f in schema.fields if _is_analyzed(f))
    fields = fields_of(schema, columns)
    for field in fields:
        if not _is_analyzed(field):
            raise InvalidArgument(
                f"column '{field.name}' is of type {sql(field.type)}, which has no statistics",
                next_step="leave it out of columns=[...]",
            )
    return fields


def _is_analyzed(field: Field) -> bool:
    kind = field.type
    return isinstance(kind, AtomicType) and kind.root in (*_BOUNDED, *STRING_ROOTS, *BINARY_ROOTS)


class _Column:
    def __init__(self, field: Field) -> None:
        assert isinstance(field.type, AtomicType)
        self.field, self._kind = field, field.type
        self._distinct, self._bounds = DistinctCounter(), list[Bounds]()
        self._nulls = self._values = self._length = self._longest = 0

    def update(self, array: Any) -> None:
        self._nulls += array.null_count
        self._values += len(array) - array.null_count
        if len(array) == array.null_count:
            return
        self._distinct.update(array)
        if self._kind.root in _BOUNDED:
            bounds = array_bounds(array, self._kind)
            if bounds is not None:
                known = [*self._bounds, bounds]
                low, high = (min((b.min for b in known), key=order_key), max((b.max for b in known), key=order_key))
                self._bounds = [Bounds(low, high)]
            return
        lengths = pc.utf8_length(array) if self._kind.root in STRING_ROOTS else pc.binary_length(array)
        self._length += pc.sum(lengths).as_py()
        self._longest = max(self._longest, pc.max(lengths).as_py())

    def statistics(self) -> ColumnStatistics:
        low, high = self._bounds[0] if self._bounds else Bounds(None, None)
        average, longest = self._lengths()
        count = min(self._distinct.count, self._values)
        return ColumnStatistics(self.field.id, count, self._text(low), self._text(high), self._nulls, average, longest)

    def _lengths(self) -> tuple[int, int]:
        if self._kind.root in _BOUNDED:
            wide = 8 if self._kind.precision <= _COMPACT_DIGITS else 16
            size = _SIZES.get(self._kind.root, wide if self._kind.root == "DECIMAL" else 8)
            return size, size
        return (-(-self._length // self._values) if self._values else 0), self._longest

    def _text(self, value: Any) -> str | None:
        if value is None:
            return None
        if self._kind.root in TIMESTAMP_ROOTS:  # Apache Paimon cannot parse the text of other years
            is_plain = 0 < split_nanos(value)[0].year < 10_000
            return timestamp_sql(value, self._kind.precision) if is_plain else None
        found: pa.Array = object_texts(to_arrow_array([value], self._kind, to_arrow(self._kind)), self._kind)
        return str(found[0].as_py())
