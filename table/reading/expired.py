"""Which rows have not expired yet (options `record-level.*`). Must not know: files. Source: format/primary-keys §7."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...core.metadata.record_expiry import FIRST_MILLIS, RecordExpiry
from ...core.rows.types import TIMESTAMP_ROOTS
from ...core.typed import Array

_PER_MILLI = {"ms": 1, "us": 1_000, "ns": 1_000_000}


def unexpired(expiry: RecordExpiry, times: Any, now_s: float) -> Any:
    """A mask of the rows that stay.

    Args:
        times: the values of `expiry.column`.
    """
    stays = np.asarray(times.is_null().to_numpy(zero_copy_only=False), bool)
    seconds = _seconds(expiry, times.fill_null(0) if times.null_count else times)
    return pa.array(stays | (int(now_s) <= seconds + expiry.seconds))


def _seconds(expiry: RecordExpiry, times: Any) -> Array:
    """As `RecordExpiry.second_of`, for many values."""
    if expiry.root not in TIMESTAMP_ROOTS:
        values = np.asarray(times.to_numpy(zero_copy_only=False), np.int64)
        return np.where((expiry.root == "BIGINT") & (values >= FIRST_MILLIS), values // 1000, values)
    values = np.asarray(times.view(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
    if times.type.unit == "s":
        return values
    millis = values // _PER_MILLI[times.type.unit]
    return np.where(millis >= 0, millis // 1000, -(-millis // 1000))
