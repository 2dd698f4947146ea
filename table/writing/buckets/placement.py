"""Where rows go: the partition and bucket of each row of a batch.

Owns: `Placement`, what all ways of choosing buckets offer; `FixedBuckets`; cutting a batch by place. Must not know: files,
commits, how a batch became rows of the table. Source: format/binary-row §3, §4, §5.
Invariants: The rows of one bucket keep their order. Python code runs for each distinct place, never for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ....core import options as opt
from ....core.metadata.data_file import PartitionBucket
from ....core.metadata.hash_index import BucketHashes
from ....core.metadata.schema import TableSchema
from ....core.places import codec_of
from ....core.rows.bucket import BucketFunction, buckets
from ....core.rows.partition import PartitionCodec
from ....core.rows.values import column_values
from ....core.typed import Array

UNAWARE_BUCKET = 0
NO_TOTAL_BUCKETS = -1

Placed = Iterator[tuple[PartitionBucket, pa.RecordBatch]]
"""Rows by partition and bucket."""


class Placement(Protocol):
    """Chooses the partition and bucket of each row that a job writes.

    Batches have the table's columns; of a table with a primary key also `_VALUE_KIND`, and any others.
    """

    def place(self, batch: pa.RecordBatch) -> Placed:
        """The rows of a batch by place. Rows may be held back until there are more, or until `rest`."""

    def rest(self) -> Placed:
        """The rows that were held back."""

    def total_buckets(self, partition: bytes) -> int:
        """What the manifest says of the number of buckets of files in a partition."""

    def hashes(self, place: PartitionBucket) -> BucketHashes | None:
        """The keys that were placed there, for the commit; None where buckets are not dynamic."""


class FixedBuckets:
    """The hash of the bucket key decides, or there is one bucket."""

    def __init__(self, schema: TableSchema) -> None:
        self._codec, self._total = codec_of(schema), schema.bucket
        self._bucket_of = bucket_function(schema)

    def place(self, batch: pa.RecordBatch) -> Placed:
        numbers = None if self._bucket_of is None else self._bucket_of(batch)
        yield from by_place(self._codec, batch, numbers)

    def rest(self) -> Placed:
        yield from ()

    def total_buckets(self, partition: bytes) -> int:
        return self._total

    def hashes(self, place: PartitionBucket) -> BucketHashes | None:
        return None


def partition_numbers(codec: PartitionCodec, batch: pa.RecordBatch) -> tuple[Array, list[bytes]]:
    """The partition of each row as a number, and the partitions by number."""
    if not codec.fields:
        return np.zeros(batch.num_rows, np.int64), [codec.encode(())] if batch.num_rows else []
    columns = [batch.column(f.name) for f in codec.fields]
    codes, firsts = partition_codes(columns)
    values = [column_values(column.take(firsts), f.type) for column, f in zip(columns, codec.fields, strict=True)]
    return np.asarray(codes), [codec.encode(row) for row in zip(*values, strict=True)]


def by_place(codec: PartitionCodec, batch: pa.RecordBatch, numbers: Array | None) -> Placed:
    """Cut a batch by partition and bucket. `numbers` has the bucket of each row; None for a table without buckets."""
    codes, partitions = partition_numbers(codec, batch)
    if numbers is None:
        yield from cut(batch, codes, list(zip(partitions, repeat(UNAWARE_BUCKET), strict=False)))
        return
    places, firsts = partition_codes([pa.array(codes), pa.array(numbers)])
    heads = zip(codes[np.asarray(firsts)].tolist(), numbers[np.asarray(firsts)].tolist(), strict=True)
    yield from cut(batch, np.asarray(places), [(partitions[code], number) for code, number in heads])


def cut(batch: pa.RecordBatch, codes: Array, targets: Sequence[PartitionBucket]) -> Placed:
    """The rows of each target, in order. `codes` has the index of each row's target. Each target has a row."""
    if len(targets) == 1:
        yield targets[0], batch
        return
    in_order = batch.take(pa.array(in_order_of(codes, len(targets))))
    ends = np.cumsum(np.bincount(codes, minlength=len(targets))).tolist()
    for target, start, end in zip(targets, [0, *ends], ends, strict=False):
        yield target, in_order.slice(start, end - start)


def bucket_function(schema: TableSchema) -> Callable[[pa.RecordBatch], Any] | None:
    """The function from a batch to the fixed bucket of each row; None for a table without buckets."""
    if schema.bucket < 1:
        return None
    fields = [schema.by_name[name] for name in schema.bucket_keys]
    if not fields:
        return _only_bucket
    function = BucketFunction.parse(schema.options.get(opt.BUCKET_FUNCTION))
    return partial(buckets, key_fields=fields, total=schema.bucket, function=function)


def _only_bucket(batch: pa.RecordBatch) -> Any:
    """Every row goes to bucket 0. Tables of old writers have one bucket and no key."""
    return np.zeros(batch.num_rows, np.int32)


def partition_codes(columns: list[pa.Array]) -> tuple[pa.Array, pa.Array]:
    """Number the combinations of some columns 0, 1, 2 … in order of first sight: each row's number, and each number's first row.

    >>> codes, firsts = partition_codes([pa.array(["a", "b", "a", None])])
    >>> codes.to_pylist(), firsts.to_pylist()
    ([0, 1, 0, 2], [0, 1, 3])
    """
    combined: Array | None = None
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        indices = np.asarray(encoded.indices)
        if combined is None:
            combined = indices
        else:
            wide = combined.astype(np.int64) * len(encoded.dictionary) + indices
            combined = np.asarray(pa.array(wide).dictionary_encode().indices)
    assert combined is not None
    firsts = np.empty(int(combined.max(initial=-1)) + 1, np.int64)
    firsts[combined[::-1]] = np.arange(
        len(combined) - 1, -1, -1
    )  # of several rows with one number, the first is set last
    return pa.array(combined), pa.array(firsts)


def in_order_of(codes: Array, count: int) -> Array:
    """The rows by their code, those of one code in their order. NumPy sorts small integers in one pass.

    >>> in_order_of(np.array([1, 0, 1, 0]), 2).tolist()
    [1, 3, 0, 2]
    """
    return np.argsort(codes.astype(np.uint16) if count <= 1 << 16 else codes, kind="stable")
