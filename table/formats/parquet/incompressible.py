"""Guess which columns of a Parquet file are not worth a codec.

Owns: the guess, from rows of the file's beginning. Must not know: files, why a codec was chosen.
Source: decision 81. Invariant: A wrong guess costs time or bytes, never a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

SAMPLES = 3
"""From the beginning, the middle and the end of the rows, because values may change their nature within a file."""
SAMPLE_ROWS = 4_096
LEAST_BYTES = 4_096
"""Fewer are not worth a look."""
WORTH = 0.9
"""A codec must make values smaller than this share of their size: otherwise it costs more time than the bytes that it saves."""


def incompressible_leaves(rows: pa.Table, codec: str, level: int | None) -> list[bool]:
    """For each leaf column, in Parquet's order: do its values stay nearly as large with this codec?

    Few values, and values that are not numbers of fixed size, count as compressible.

    >>> import random
    >>> dice, whole = [random.random() for _ in range(5000)], list(range(5000))
    >>> rows = pa.table({"dice": dice, "whole": whole, "pairs": [[n / 7, n / 3] for n in dice], "name": ["x"] * 5000})
    >>> incompressible_leaves(rows, "zstd", 1)
    [True, False, True, False]
    """
    packer = pa.Codec(codec, level)
    last = max(0, rows.num_rows - SAMPLE_ROWS)
    starts = sorted({last * i // (SAMPLES - 1) for i in range(SAMPLES)})
    samples = [_leaf_bytes(rows.slice(start, SAMPLE_ROWS)) for start in starts]
    return [all(data and _stays_large(data, packer) for data in leaf) for leaf in zip(*samples, strict=True)]


def _stays_large(data: Any, packer: pa.Codec) -> bool:
    return len(packer.compress(data)) > WORTH * len(data)


def _leaf_bytes(rows: pa.Table) -> list[Any]:
    """The bytes of each leaf column, as Parquet stores them without a dictionary; empty where they are not worth a look."""
    columns = [c.chunk(0) if c.num_chunks else pa.array([], c.type) for c in rows.combine_chunks().columns]
    return [_bytes(leaf) for column in columns for leaf in _leaves(column)]


def _leaves(values: pa.Array) -> Iterator[pa.Array]:
    """The values of each leaf column below a column, without nulls. Those of a MAP are left out."""
    kind = values.type
    if pa.types.is_struct(kind):
        for child in values.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(kind):
        yield from _leaves(values.keys.slice(0, 0))
        yield from _leaves(values.items.slice(0, 0))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(values.flatten())
    else:
        yield pc.drop_null(values) if values.null_count else values


def _bytes(leaf: pa.Array) -> Any:
    kind = leaf.type
    is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
    if not is_number or leaf.nbytes < LEAST_BYTES:
        return b""
    width = kind.bit_width // 8
    return memoryview(leaf.buffers()[1])[leaf.offset * width : (leaf.offset + len(leaf)) * width]
