"""Rows of a table with dynamic buckets: the index of its keys decides, and new keys are added to it.

Owns: `DynamicBuckets`. Must not know: index files, commits, how a hash gets its bucket. Source: format/binary-row §5.
Invariants: All rows of a key go to one bucket. The index of a partition is read once for each write, when its first row comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from ....core import options as opt
from ....core.metadata.data_file import PartitionBucket
from ....core.metadata.hash_index import BucketHashes, encode_hashes
from ....core.metadata.schema import TableSchema
from ....core.places import codec_of
from ....core.rows.binary.hash_buckets import HashBuckets
from ....core.rows.bucket import key_hashes, murmur_hash
from ....core.typed import Array
from .placement import NO_TOTAL_BUCKETS, Placed, by_place, partition_numbers

KnownHashes = Callable[[bytes], tuple[Mapping[int, Array], frozenset[str]]]
"""The hashes of a partition by bucket, and the names of the index files that hold them."""
_ARITY_BYTES = 4


class DynamicBuckets:
    """Gives keys the buckets that their partition's index says, and new keys a bucket with room.

    `known` reads the index of a partition. As many as `assigners` divide the new keys among them; option
    `dynamic-bucket.initial-buckets` by default, else one.
    """

    def __init__(self, schema: TableSchema, known: KnownHashes, *, assigners: int | None = None) -> None:
        options = schema.options
        self._codec, self._known = codec_of(schema), known
        self._keys = [schema.by_name[name] for name in schema.trimmed_primary_keys]
        self._target, self._most = options.get(opt.DYNAMIC_TARGET_ROWS), options.get(opt.DYNAMIC_MAX_BUCKETS)
        initial = options.get(opt.DYNAMIC_INITIAL_BUCKETS)
        self._assigners = assigners if assigners is not None else 1 if initial is None else initial
        self._partitions: dict[bytes, tuple[HashBuckets, frozenset[str]]] = {}

    def place(self, batch: pa.RecordBatch) -> Placed:
        hashes = key_hashes([batch.column(f.name) for f in self._keys], [f.type for f in self._keys])
        codes, partitions = partition_numbers(self._codec, batch)
        numbers = np.empty(len(hashes), np.int32)
        for code, partition in enumerate(partitions):
            rows = codes == code if len(partitions) > 1 else slice(None)
            numbers[rows] = self._index(partition)[0].assign(hashes[rows])
        yield from by_place(self._codec, batch, numbers)

    def rest(self) -> Placed:
        yield from ()

    def total_buckets(self, partition: bytes) -> int:
        return NO_TOTAL_BUCKETS

    def hashes(self, place: PartitionBucket) -> BucketHashes | None:
        partition, bucket = place
        index, read = self._partitions[partition]
        return BucketHashes(encode_hashes(index.used_in(bucket)), encode_hashes(index.new_in(bucket)), read)

    def _index(self, partition: bytes) -> tuple[HashBuckets, frozenset[str]]:
        if partition not in self._partitions:
            known, read = self._known(partition)
            buckets = HashBuckets(
                known,
                target=self._target,
                most=self._most,
                assigners=self._assigners,
                partition_hash=murmur_hash(partition[_ARITY_BYTES:]),
            )
            self._partitions[partition] = buckets, read
        return self._partitions[partition]
