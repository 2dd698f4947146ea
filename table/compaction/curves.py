"""Orders in which rows that are close in several columns are close in the file: columns in turn, Z-order, Hilbert's curve.

Owns: `row_order`. Must not know: files, what is sorted. Source: decision 60.
Invariants: rows that are equal in all columns are adjacent in every order. The order depends on the ranks of the values alone, so
that every type that can be sorted will do, and a column with a few huge values is spread like any other. Nulls come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import InvalidArgument

Curve: TypeAlias = Literal["order", "zorder", "hilbert"]
CURVES = ("order", "zorder", "hilbert")
MOST_COLUMNS = _BITS = 62


def row_order(rows: pa.RecordBatch, columns: Sequence[str], curve: Curve) -> Any:
    """The places of the rows in their new order, as a NumPy array. The first column is the most important one in `order` only.

    >>> rows = pa.record_batch({"a": [1, 0, 1, 0], "b": [1, 1, 0, 0]})
    >>> [row_order(rows, ["a", "b"], curve).tolist() for curve in CURVES]
    [[3, 1, 2, 0], [3, 1, 2, 0], [3, 1, 0, 2]]
    """
    try:
        if curve == "order":
            keys = [(name, "ascending") for name in columns]
            return pc.sort_indices(rows, keys).to_numpy()
        ranks = [_ranks(rows.column(name)) for name in columns]
    except pa.ArrowException as error:
        raise InvalidArgument(f"rows cannot be sorted by {', '.join(columns)}: {error}") from None
    bits = min(_BITS // len(ranks), max(int(r.max(initial=0)).bit_length() for r in ranks) or 1)
    scaled = [_scaled(r, bits) for r in ranks]
    code = _interleaved(scaled if curve == "zorder" else _on_hilbert(scaled, bits), bits)
    return np.argsort(code, kind="stable")


def _ranks(column: pa.Array) -> Any:
    ranks = pc.rank(column, tiebreaker="dense")
    return ranks.to_numpy().astype(np.int64) - 1


def _scaled(ranks: Any, bits: int) -> Any:
    """Ranks spread over so many bits, so that every column has the same weight."""
    most = max(int(ranks.max(initial=0)), 1)
    return (ranks * ((1 << bits) - 1) // most).astype(np.int64)


def _interleaved(columns: Sequence[Any], bits: int) -> Any:
    code = np.zeros(len(columns[0]), np.int64)
    for bit in range(bits - 1, -1, -1):
        for column in columns:
            code = (code << 1) | ((column >> bit) & 1)
    return code


def _on_hilbert(columns: Sequence[Any], bits: int) -> list[Any]:
    """The coordinates in the form whose interleaved bits are the distance along Hilbert's curve.

    The transformation is J. Skilling's ("Programming the Hilbert curve", 2004): inverse undo, then Gray coding.
    """
    x = [column.copy() for column in columns]
    top = 1 << (bits - 1)
    step = top
    while step > 1:
        low = step - 1
        for i in range(len(x)):
            is_set = (x[i] & step) != 0
            swap = np.where(is_set, 0, (x[0] ^ x[i]) & low)
            x[0] = np.where(is_set, x[0] ^ low, x[0] ^ swap)
            x[i] = x[i] ^ swap
        step >>= 1
    for i in range(1, len(x)):
        x[i] = x[i] ^ x[i - 1]
    turn = np.zeros_like(x[0])
    step = top
    while step > 1:
        turn = np.where((x[-1] & step) != 0, turn ^ (step - 1), turn)
        step >>= 1
    return [column ^ turn for column in x]
