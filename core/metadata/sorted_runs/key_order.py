"""The order of keys: what the smallest and largest key of a data file compare as.

Owns: `comparable_key`. Must not know: Arrow, how rows are merged. Source: format/primary-keys §1, §3.

Invariant: Keys compare as in Apache Paimon: column by column, nulls first, texts by their UTF-8 bytes, -0.0 before 0.0, NaN last.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from ...rows.binary.binary_row import decode_row
from ...rows.types import Field

ComparableKey = tuple[Any, ...]


def comparable_key(row: bytes, keys: Sequence[Field], where: str) -> ComparableKey:
    """A value that compares as keys do, of `_MIN_KEY` or `_MAX_KEY` of a data file; `keys` are without partition columns."""
    values = decode_row(row, [f.type for f in keys], where)
    return tuple((value is not None, _comparable(value)) for value in values)


def _comparable(value: Any) -> Any:
    if not isinstance(value, float):
        return 0 if value is None else value
    bits: int = struct.unpack("<q", struct.pack("<d", math.nan if value != value else value))[0]
    return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF
