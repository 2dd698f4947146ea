"""Rows in one batch, however many they are, and back in small ones.

Owns: `one_batch`, `taken`, `whole`. Must not know: tables, files.
Invariants: No row is lost where a column has more than the 2 GiB that Arrow's arrays of texts hold: its offsets get 64 bits. What
is taken from such a batch comes in pieces, with the types that were asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

from . import sizes

WIDE_ABOVE = 1 << 30
_kinds = pa.types


@lru_cache(maxsize=1024)
def wide_type(t: Any) -> Any:
    """The type for more than 2 GiB of texts, bytes or lists.

    >>> wide_type(pa.struct([pa.field("a", pa.string(), nullable=False)]))
    StructType(struct<a: large_string not null>)
    """
    if _kinds.is_string(t):
        return pa.large_string()
    if _kinds.is_binary(t):
        return pa.large_binary()
    if _kinds.is_struct(t):
        return pa.struct([f.with_type(wide_type(f.type)) for f in t])
    if _kinds.is_map(t):
        key, item = t.key_field, t.item_field
        return pa.map_(key.with_type(wide_type(key.type)), item.with_type(wide_type(item.type)))
    if _kinds.is_list(t):
        return pa.large_list(t.value_field.with_type(wide_type(t.value_type)))
    if _kinds.is_fixed_size_list(t):
        return pa.list_(t.value_field.with_type(wide_type(t.value_type)), t.list_size)
    return t


def whole(chunks: Sequence[Any], data_type: Any) -> Any:
    if sum(chunk.nbytes for chunk in chunks) > WIDE_ABOVE:
        data_type = wide_type(data_type)
        chunks = [chunk.cast(data_type) for chunk in chunks]
    return pa.concat_arrays(chunks) if len(chunks) != 1 else chunks[0]


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None) -> pa.RecordBatch:
    """All rows of some batches; `schema` is needed if there may be none.

    >>> one_batch([pa.record_batch({"a": [1]}), pa.record_batch({"a": [2]})]).to_pylist()
    [{'a': 1}, {'a': 2}]
    """
    if len(batches) == 1:
        return batches[0]
    found = schema if schema is not None else batches[0].schema
    columns = [
        whole([b.column(i) for b in batches], t) if batches else pa.nulls(0, t) for i, t in enumerate(found.types)
    ]
    fields = [field.with_type(column.type) for field, column in zip(found, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def joined(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """All rows of some batches, at least one, in as few batches of the same types as Arrow's offsets allow.

    >>> [b.num_rows for b in joined([pa.record_batch({"a": [1]}), pa.record_batch({"a": [2]})])]
    [2]
    """
    return list(batches) if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()


def taken(batch: pa.RecordBatch, places: Any, schema: pa.Schema | None = None) -> Iterator[pa.RecordBatch]:
    """Rows in the order of their places, each at most once, in pieces; `schema` is that of the pieces."""
    small = batch.nbytes <= sizes.PIECE_BYTES
    for span in [slice(0, len(places))] if small and len(places) else sizes.spans(sizes.widths(batch)[places]):
        piece = batch.take(pa.array(places[span]))
        yield piece if schema is None or piece.schema.equals(schema) else narrowed(piece, schema)


def narrowed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [column.cast(t) for column, t in zip(batch.columns, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
