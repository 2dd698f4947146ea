"""Describes a foreign data file as a manifest does: row count and statistics, from its footer alone.

Owns: `described`. Must not know: where the file goes, commits. Source: format/statistics §1; format/manifests §6.
Invariants: a bound that a footer may have wrong is left unknown: those of floating point numbers (NaN, -0.0) and of times.
Only null counts and bounds that the footer gives for every row group are taken over.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ...backends.store import Store
from ...core.errors import InvalidArgument, LakelatchError
from ...core.metadata.data_file import NO_STATS, SOURCE_APPEND, DataFile, SimpleStats
from ...core.rows.binary.binary_row import encode_row
from ...core.rows.dates import days_to_date
from ...core.rows.types import INTEGER_ROOTS, STRING_ROOTS, Field
from ...core.rows.values import order_key, root_of
from ...core.statistics.bounds import Bounds, footer_bounds, truncated
from ...core.statistics.collect import ColumnStats, StatsMode
from ..formats.orc_reader import tail_of
from .source import SourceFile

_PLAIN = frozenset(("BOOLEAN", "DECIMAL", "DATE", *INTEGER_ROOTS))
"""Types whose footer bounds have the form of `core.rows.values`, and the format's order."""


def described(
    store: Store,
    file: SourceFile,
    name: str,
    file_format: str,
    fields: Sequence[Field],
    partition: Mapping[str, Any],
    modes: Mapping[str, StatsMode],
    external_path: str | None,
) -> DataFile:
    """The manifest's description of a file, from its footer. `InvalidArgument`: it is not of this format, or damaged.

    `partition` has the values of the partition columns, which the file may lack; `modes` the statistics that the options ask for.
    """
    rows, stats = _footer(store, file, file_format, fields, partition, modes)
    now = time.time()
    return DataFile(
        file_name=name,
        file_size=file.size,
        row_count=rows,
        value_stats=stats,
        max_sequence_number=max(0, rows - 1),
        creation_time=int((now + time.localtime(now).tm_gmtoff) * 1000),
        file_source=SOURCE_APPEND,
        external_path=external_path,
    )


def _footer(
    store: Store,
    file: SourceFile,
    file_format: str,
    fields: Sequence[Field],
    partition: Mapping[str, Any],
    modes: Mapping[str, StatsMode],
) -> tuple[int, SimpleStats]:
    source = store.open_input(file.key, file.size)
    try:
        if file_format == "parquet":
            import pyarrow.parquet as pq

            footer = pq.read_metadata(source)
            return footer.num_rows, _parquet_stats(footer, fields, partition, modes)
        if file_format == "orc":
            return sum(stripe.rows for stripe in tail_of(source).stripes), NO_STATS
        import fastavro

        return sum(block.num_records for block in fastavro.block_reader(source)), NO_STATS
    except LakelatchError:
        raise
    except Exception as error:
        what = " ".join(str(error).split())
        raise InvalidArgument(f"{store.url}/{file.key} is no {file_format} file, or damaged: {what}") from error
    finally:
        source.close()


def _parquet_stats(
    footer: Any, fields: Sequence[Field], partition: Mapping[str, Any], modes: Mapping[str, StatsMode]
) -> SimpleStats:
    positions = {footer.schema.column(i).path: i for i in range(footer.num_columns)}
    tops = {path.partition(".")[0] for path in positions}
    found = [_column(footer, field, positions, tops, partition, modes[field.name]) for field in fields]
    types = [field.type for field in fields]
    return SimpleStats(
        encode_row([one.min for one in found], types),
        encode_row([one.max for one in found], types),
        tuple(one.null_count for one in found),
    )


def _column(
    footer: Any,
    field: Field,
    positions: Mapping[str, int],
    tops: set[str],
    partition: Mapping[str, Any],
    mode: StatsMode,
) -> ColumnStats:
    if mode.kind == "none":
        return ColumnStats()
    if field.name in partition:
        value = partition[field.name]
        bounds = _kept(Bounds(value, value), mode)
        return ColumnStats(bounds.min, bounds.max, footer.num_rows if value is None else 0)
    if field.name not in tops:  # the file lacks the column, which is null in all of its rows
        return ColumnStats(None, None, footer.num_rows)
    position = positions.get(field.name)
    if position is None:  # a column with parts
        return ColumnStats()
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    chunks = [group.column(position).statistics for group in groups if group.num_rows]
    if any(chunk is None or not chunk.has_null_count for chunk in chunks):
        return ColumnStats()
    nulls = sum(chunk.null_count for chunk in chunks)
    bounds = _kept(_bounds(footer, field, chunks), mode)
    return ColumnStats(bounds.min, bounds.max, nulls)


def _kept(bounds: Bounds, mode: StatsMode) -> Bounds:
    if not mode.wants_bounds or bounds.min is None:
        return Bounds(None, None)
    return truncated(bounds, mode.length) if mode.kind == "truncate" else bounds


def _bounds(footer: Any, field: Field, chunks: Sequence[Any]) -> Bounds:
    root = root_of(field.type)
    unknown = Bounds(None, None)
    if root in STRING_ROOTS:
        return footer_bounds(footer, field) or unknown
    with_values = [chunk for chunk in chunks if chunk.num_values]
    if root not in _PLAIN or not with_values or not all(chunk.has_min_max for chunk in with_values):
        return unknown
    if root == "DATE":
        if any(chunk.physical_type != "INT32" for chunk in with_values):
            return unknown
        pairs = [(days_to_date(chunk.min_raw), days_to_date(chunk.max_raw)) for chunk in with_values]
    else:
        pairs = [(chunk.min, chunk.max) for chunk in with_values]
    return Bounds(min((low for low, _ in pairs), key=order_key), max((high for _, high in pairs), key=order_key))
