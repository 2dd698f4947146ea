"""Read every row of a data file, and compare what its metadata says of them.

Owns: recomputing row counts, null counts, bounds and the sums in ORC footers. Must not know: how files were found, deleted rows.
Source: format/statistics §1, §2; format/data-files §3, §7. Invariants: Every page of every column that a read can reach is
decoded, so that each checksum in the file is compared. Memory holds a few batches. A bound that is wider than the values is a
warning, because nothing is read wrongly with it, but a file with other values than it was written with shows in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...backends.store import Store
from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.options import TableOptions
from ...core.orc.statistics import OrcStatistics
from ...core.paths import BLOB_FORMAT, format_of
from ...core.rows.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    RowType,
)
from ...core.rows.values import order_key, root_of
from ...core.statistics.collect import FULL, ColumnStats, StatsCollector, decode_stats, file_stats_fields
from ..formats import avro_reader, orc_reader
from ..formats.blob_reader import blob_values
from ..formats.data_source import DataSource
from ..formats.reading import READABLE_FORMATS, open_data_file
from ..projection.plan import plan_projection
from .finding import Findings

_SUMMED = frozenset((*INTEGER_ROOTS, *BINARY_ROOTS, "VARCHAR", "BOOLEAN", "DECIMAL"))
_EXACT_DIGITS = 18
_CHECKSUMS = {"orc": orc_reader.check_checksum, "avro": avro_reader.check_checksum}


class RowCheck:
    """Reads whole files. Whatever makes a file unreadable is raised."""

    def __init__(self, options: TableOptions, findings: Findings) -> None:
        self._options, self._findings = options, findings

    def check(self, store: Store, key: str, name: str, file: DataFile, schema: TableSchema) -> bool:
        """Read the rows of a file, which findings call `name`. Returns True; else raises `TableCorrupt` or `Unsupported`."""
        file_format = format_of(file.file_name)
        if file_format == BLOB_FORMAT:
            for _ in blob_values([DataSource(store, key, file, self._options)], file.first_row_id or 0, file.row_count):
                pass
            return True
        if file_format not in READABLE_FORMATS:
            return True
        if file_format in _CHECKSUMS:
            _CHECKSUMS[file_format](DataSource(store, key, file, self._options))
        fields = _written(file, schema)
        if not fields:
            return True
        collector, sums = (
            StatsCollector(fields, dict.fromkeys((f.name for f in fields), FULL), dense=False),
            _Sums(fields),
        )
        missing: set[str] = set()
        for batch, absent in self._batches(store, key, file, schema, fields):
            missing |= absent
            collector.update(batch)
            sums.update(batch)
        for column in sorted(missing):
            self._findings.warning(name, "", f"lacks column '{column}', which is read as null")
        stats, _ = collector.finish()
        found = dict(zip((f.name for f in fields), decode_stats(stats, fields), strict=True))
        self._compare(name, file, schema, {n: s for n, s in found.items() if n not in missing})
        if file_format == "orc":
            said = orc_reader.statistics_in(DataSource(store, key, file, self._options))
            self._compare_sums(name, file.row_count, {n: s for n, s in said.items() if n not in missing}, found, sums)
        return True

    def _batches(
        self, store: Store, key: str, file: DataFile, schema: TableSchema, fields: Sequence[Field]
    ) -> Iterator[tuple[pa.RecordBatch, set[str]]]:
        projection = plan_projection(schema.fields, fields, f"schema {schema.id}")
        opened = open_data_file(store, key, file, projection, self._options)
        if not opened.has_columns:
            raise TableCorrupt(f"data file {key} has none of the columns of schema {schema.id}")
        names = [field.name for field in fields]
        for _, rows in opened.batches():
            batch = pa.RecordBatch.from_arrays([rows.column(name) for name in names], names)
            try:
                batch.validate(full=True)
            except pa.ArrowException as error:
                raise TableCorrupt(f"data file {key} is damaged: {' '.join(str(error).split())}") from error
            yield batch, {name for field in fields for name in _lacking(rows.schema, field)}

    def _compare(self, name: str, file: DataFile, schema: TableSchema, found: dict[str, ColumnStats]) -> None:
        fields = file_stats_fields(schema.fields, file.write_cols, file.value_stats_cols)
        for field, said in zip(fields or (), decode_stats(file.value_stats, fields or (), name), strict=True):
            if field.name not in found:
                continue
            seen = found[field.name]
            if said.null_count not in (None, seen.null_count):
                message = f"count {said.null_count} nulls in column {field.name!r}, but the file has {seen.null_count}"
                self._findings.error(name, "_VALUE_STATS", message)
            if root_of(field.type) in BINARY_ROOTS or (seen.max != seen.max and format_of(file.file_name) == "orc"):
                continue  # in ORC files, Apache Paimon's bounds of columns with NaN are of some of the values
            span = f"of column {field.name!r} span {said.min!r} to {said.max!r}"
            values = f"{seen.min!r} to {seen.max!r}"
            if _is_outside(said, seen):
                self._findings.error(name, "_VALUE_STATS", f"{span}, but its values {values}")
            elif not _is_tight(said, seen):
                self._findings.warning(name, "_VALUE_STATS", f"{span}, which is wider than its values {values}")

    def _compare_sums(
        self,
        name: str,
        rows: int,
        said: dict[str, OrcStatistics],
        found: dict[str, ColumnStats],
        sums: _Sums,
    ) -> None:
        for column, statistics in said.items():
            if column not in found:
                continue
            values = rows - (found[column].null_count or 0)
            if statistics.values not in (None, values):
                message = f"counts {statistics.values} values in column {column!r}, but there are {values}"
                self._findings.error(name, "footer", message)
            total = sums.of(column)
            if total is not None and values and statistics.total not in (None, total):
                message = f"says that column {column!r} adds up to {statistics.total}, but it adds up to {total}"
                self._findings.error(name, "footer", message)


def _written(file: DataFile, schema: TableSchema) -> list[Field]:
    return [
        f
        for f in schema.fields
        if f.name not in schema.partition_keys and (file.write_cols is None or f.name in file.write_cols)
    ]


def _lacking(there: Iterable[pa.Field], field: Field) -> Iterator[str]:
    """The paths of a column and of the fields of its ROWs that a file lacks, given the columns or fields that it has."""
    kind = next((part.type for part in there if part.name == field.name), None)
    if kind is None:
        yield field.name
        return
    for part in _rows_in(kind, field.type):
        yield from (f"{field.name}.{name}" for name in part)


def _rows_in(kind: pa.DataType, data_type: DataType) -> Iterator[Iterator[str]]:
    match data_type:
        case RowType(fields=fields) if pa.types.is_struct(kind):
            for field in fields:
                yield _lacking(list(kind), field)
        case ArrayType(element=element) if pa.types.is_list(kind):
            yield from _rows_in(kind.value_type, element)
        case MapType(key=key, value=value) if pa.types.is_map(kind):
            yield from _rows_in(kind.key_type, key)
            yield from _rows_in(kind.item_type, value)


def _is_outside(said: ColumnStats, seen: ColumnStats) -> bool:
    if seen.min is None or seen.max is None:
        return False
    return bool(
        (said.min is not None and order_key(seen.min) < order_key(said.min))
        or (said.max is not None and order_key(seen.max) > order_key(said.max))
    )


def _is_tight(said: ColumnStats, seen: ColumnStats) -> bool:
    """Are the bounds those of the values? Texts may be cut off, and then the last character of the maximum is the next one."""
    if said.min is None or said.max is None:
        return True
    if seen.min is None or seen.max is None:
        return False
    if isinstance(said.min, str):
        cut = len(said.max) < len(seen.max) and seen.max.startswith(said.max[:-1])
        return str(seen.min).startswith(said.min) and (said.max == seen.max or cut)
    pairs = ((said.min, seen.min), (said.max, seen.max))
    return all(
        one == other or order_key(one) == order_key(other) for one, other in pairs
    )  # footers mix up 0.0 and -0.0


class _Sums:
    def __init__(self, fields: Iterable[Field]) -> None:
        self._fields = [f for f in fields if isinstance(f.type, AtomicType) and _is_summed(f.type)]
        self._totals: dict[str, int | Decimal] = {}

    def update(self, batch: pa.RecordBatch) -> None:
        for field in self._fields:
            total = _sum(batch.column(field.name), root_of(field.type))
            self._totals[field.name] = self._totals.get(field.name, 0) + total

    def of(self, name: str) -> int | Decimal | None:
        """The sum of a column, or the number of bytes of its texts; None if it is not computed."""
        return self._totals.get(name)


def _is_summed(data_type: AtomicType) -> bool:
    """Sums of longer decimals are rounded by the writers of ORC."""
    return data_type.root in _SUMMED and not (data_type.root == "DECIMAL" and data_type.precision > _EXACT_DIGITS)


def _sum(array: Any, root: str) -> Any:
    if root in (*BINARY_ROOTS, *STRING_ROOTS):
        return pc.sum(pc.binary_length(array)).as_py() or 0
    if root not in INTEGER_ROOTS:
        return pc.sum(array).as_py() or 0
    wide = array.cast(pa.int64())  # in two halves, whose sums do not overflow
    high, low = pc.shift_right(wide, 32), pc.bit_wise_and(wide, (1 << 32) - 1)
    return ((pc.sum(high).as_py() or 0) << 32) + (pc.sum(low).as_py() or 0)
