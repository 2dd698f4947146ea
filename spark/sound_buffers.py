"""Rows that Spark sends, with buffers that pyarrow can read.

Owns: `sound`. Must not know: tables. Source: pyarrow 26.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def sound(rows: Any) -> Any:
    """A batch or table from Spark, whose lists and maps may be without any element.

    The buffers of such elements have no address in Arrow's streams, and pyarrow ends the process when it counts their bytes.
    A copy has addresses.
    """
    for i, column in enumerate(rows.columns):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        if column.type.num_fields and any(b is not None and not b.address for c in chunks for b in c.buffers()):
            rows = rows.set_column(i, rows.schema.field(i), column.take(pa.array(range(len(column)), pa.int64())))
    return rows
