"""Which columns of a Parquet file are not worth a dictionary.

Owns: the guess, from the first rows. Must not know: files, schemas, what else speaks against a dictionary.
Source: format/data-files §4; measured: hashing every value of columns whose dictionary overflows costs a third of the writer's
time, and makes files a tenth larger. Invariant: a wrong guess costs time or bytes, never a value.
"""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE_ROWS = 20_000
_LEAST_ROWS = 1_000
DICTIONARY_BYTES = 1 << 20
"""Where Parquet writers give a column's dictionary up."""


def overflowing_columns(table: Any) -> frozenset[str]:
    """Columns without parts whose dictionary would overflow, if they go on as they begin.

    Args:
        table: `pa.Table`, the first rows of the file.

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
    """Of values drawn evenly from D, n draws show D (1 - exp(-n / D)) different ones: more of them than the largest D that
    has room would show means that there is no room."""
    rows = len(column) - column.null_count
    if rows < _LEAST_ROWS:
        return False
    width = max(column.nbytes / rows, 1)
    draws_per_value = rows * width / DICTIONARY_BYTES
    expected = -math.expm1(-draws_per_value) / draws_per_value
    return bool(pc.count_distinct(column).as_py() > rows * expected)
