"""Statistics of rows that are all at hand, for tests: of Arrow data and of plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakelatch.core.metadata.data_file import SimpleStats
from lakelatch.core.rows.binary.binary_row import encode_row
from lakelatch.core.rows.types import Field
from lakelatch.core.rows.values import order_key
from lakelatch.core.statistics.collect import StatsCollector, StatsMode


def collect_stats(
    table: Any, fields: Sequence[Field], modes: Mapping[str, StatsMode], dense: bool = True
) -> tuple[SimpleStats, tuple[str, ...] | None]:
    """What `StatsCollector` makes of a `pa.Table`, a `pa.RecordBatch`, or an iterable of batches."""
    collector = StatsCollector(fields, modes, dense)
    for batch in [table] if isinstance(table, (pa.Table, pa.RecordBatch)) else table:
        collector.update(batch)
    return collector.finish()


def row_stats(rows: Sequence[Sequence[Any]], fields: Sequence[Field]) -> SimpleStats:
    """Untruncated statistics of rows of values, computed in the plainest way."""
    present = [[row[i] for row in rows if row[i] is not None] for i in range(len(fields))]
    nulls = tuple(len(rows) - len(values) for values in present)
    lows = [min(values, key=order_key, default=None) for values in present]
    highs = [max(values, key=order_key, default=None) for values in present]
    types = [f.type for f in fields]
    return SimpleStats(encode_row(lows, types), encode_row(highs, types), nulls)
