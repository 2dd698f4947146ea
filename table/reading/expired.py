"""Which rows have not expired yet, and which files have rows that have (options `record-level.*`).

Must not know: clocks, compactions. Source: format/primary-keys §7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from ...core.errors import TableCorrupt
from ...core.metadata.data_file import DataFile
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.record_expiry import FIRST_MILLIS, RecordExpiry
from ...core.rows.types import TIMESTAMP_ROOTS
from ...core.statistics.collect import decode_column_stats, file_stats_fields
from ...core.typed import Array

_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def unexpired(expiry: RecordExpiry, times: Any, now_s: float) -> Any:
    """A mask of the rows that stay, by the values of `expiry.column`."""
    stays = np.asarray(times.is_null().to_numpy(zero_copy_only=False), bool)
    seconds = _seconds(expiry, times.fill_null(0) if times.null_count else times)
    return pa.array(stays | (int(now_s) <= seconds + expiry.seconds))


def _seconds(expiry: RecordExpiry, times: Any) -> Array:
    if expiry.root not in TIMESTAMP_ROOTS:
        values = np.asarray(times.to_numpy(zero_copy_only=False), np.int64)
        return np.where((expiry.root == "BIGINT") & (values >= FIRST_MILLIS), values // 1000, values)
    values = np.asarray(times.view(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    if times.type.unit == "s":
        return values
    millis = values // _PER_MILLI[times.type.unit]
    return np.where(millis >= 0, millis // 1000, -(-millis // 1000))


def has_expired_rows(
    expiry: RecordExpiry, file: DataFile, schema_of: Callable[[int], TableSchema], now_s: float
) -> bool:
    """Whether a file's statistics show that it has a row which has expired."""
    written = schema_of(file.schema_id)
    fields = file_stats_fields(written.fields, file.write_cols, file.value_stats_cols) or []
    position = next((i for i, field in enumerate(fields) if field.id == expiry.column.id), None)
    if position is None or fields[position].type != expiry.column.type:
        return False
    try:
        least = decode_column_stats(file.value_stats, position, fields, file.file_name).min
    except TableCorrupt:
        return False
    return least is not None and int(now_s) > expiry.second_of(int(least)) + expiry.seconds
