"""Guess which columns of a Parquet file are not worth a dictionary.

Owns: the guess, from the first rows. Must not know: files, schemas, other reasons against a dictionary.
Source: format/data-files §4. Measurements show that a dictionary that overflows costs a third of the writer's time for hashing,
and makes files a tenth larger. Invariant: A wrong guess costs time or bytes, never a value.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE_ROWS = 20_000
_PAGE_BYTES = 20
"""What a dictionary takes besides its values."""
_LEAST_ROWS = 1_000
DICTIONARY_BYTES = 1 << 20
"""The size at which Parquet writers abandon a column's dictionary."""


def overflowing_columns(table: Any) -> frozenset[str]:
    """The columns without parts whose dictionary would overflow, if all rows of a file are like these first ones.

    >>> rows = pa.table({"id": range(5000), "city": ["a", "b"] * 2500, "tags": [["x"]] * 5000})
    >>> overflowing_columns(rows)
    frozenset({'id'})
    """
    head = table.slice(0, SAMPLE_ROWS)
    columns = zip(head.schema, head.columns, strict=True)
    return frozenset(f.name for f, c in columns if not _has_no_dictionary(f.type) and _overflows(c))


def _has_no_dictionary(kind: Any) -> bool:
    return bool(pa.types.is_nested(kind) or pa.types.is_boolean(kind))


def _overflows(column: Any) -> bool:
    """Estimate whether a column's dictionary would overflow, or, where rows are few, be larger than the values themselves.

    n draws from D equally likely values give about D (1 - exp(-n / D)) different values. The dictionary overflows if the rows
    have more different values than this gives for the largest D that fits.
    """
    rows = len(column) - column.null_count
    if not rows:
        return False
    width = max(column.nbytes / rows, 1)
    if rows < _LEAST_ROWS:
        different = pc.count_distinct(column).as_py()
        return bool(different * width + rows * (different - 1).bit_length() / 8 + _PAGE_BYTES >= rows * width)
    draws_per_value = rows * width / DICTIONARY_BYTES
    expected = -math.expm1(-draws_per_value) / draws_per_value
    return bool(pc.count_distinct(column).as_py() > rows * expected)
