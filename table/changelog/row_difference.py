"""The rows by which two tables differ, where order means nothing and equal rows are counted.

Owns: numbering equal rows, choosing those that one side has more often, and those that the other side has too. Must not
know: files, snapshots. Invariant: Nothing is done row by row: columns become numbers, and numbers become rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ...core.rows.value_numbers import row_numbers, value_numbers


def differing_rows(before: pa.Table, after: pa.Table) -> tuple[Any, Any]:
    """The positions of the rows of `before` that `after` lacks, and of those of `after` that `before` lacks, ascending.

    >>> one, other = pa.table({"a": [1, 2, 2, 3]}), pa.table({"a": [2, 3, 3]})
    >>> [positions.tolist() for positions in differing_rows(one, other)]
    [[0, 2], [2]]
    """
    both = pa.concat_tables([before, after])
    if not both.num_rows or not both.num_columns:
        shorter = min(before.num_rows, after.num_rows)
        return np.arange(shorter, before.num_rows), np.arange(shorter, after.num_rows)
    rows = row_numbers([value_numbers(_combined(column)) for column in both.columns])
    old, new = rows[: before.num_rows], rows[before.num_rows :]
    kinds = int(rows.max()) + 1
    return _surplus(old, new, kinds), _surplus(new, old, kinds)


def rows_with_partner(one: pa.Table, other: pa.Table) -> tuple[Any, Any]:
    """For each row of either table, whether the other table has an equal row.

    >>> [found.tolist() for found in rows_with_partner(pa.table({"k": [1, 2]}), pa.table({"k": [2, 3]}))]
    [[False, True], [True, False]]
    """
    both = pa.concat_tables([one, other])
    if not both.num_rows:
        return np.zeros(0, bool), np.zeros(0, bool)
    rows = row_numbers([value_numbers(_combined(column)) for column in both.columns])
    old, new = rows[: one.num_rows], rows[one.num_rows :]
    return np.isin(old, new), np.isin(new, old)


def _surplus(one: Any, other: Any, kinds: int) -> Any:
    """The positions of the rows of one side that come after as many equal rows as the other side has."""
    order = np.argsort(one, kind="stable")
    counts = np.bincount(one, minlength=kinds)
    rank = np.empty(len(one), np.int64)
    rank[order] = np.arange(len(one)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.flatnonzero(rank >= np.bincount(other, minlength=kinds)[one])


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
