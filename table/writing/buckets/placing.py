"""Which way of choosing buckets a job takes.

Owns: `placement_of`, `KeyLookups`. Must not know: how rows are read, the ways themselves. Source: format/binary-row §5.
Invariant: Rows of one job are placed by one snapshot, the one that the job begins on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ....coordinator.commit.base_numbers import BaseNumbers
from ....coordinator.commit.message import CommitMessage
from ....coordinator.commit.settling.hash_indexes import HashIndexes
from ....core import options as opt
from ....core.errors import Unsupported
from ....core.metadata.data_file import PartitionBucket
from ....core.metadata.hash_index import MovedKeys
from ....core.metadata.schema import TableSchema
from ....core.metadata.schemas.bucket_mode import BucketMode, bucket_mode
from ....core.metadata.schemas.merge_rules import merge_rules
from ....core.metadata.snapshot import Snapshot
from .cross_partition import CrossPartition
from .dynamic_buckets import DynamicBuckets
from .placement import FixedBuckets, Placement
from .postponed import PostponedBuckets, SettledBuckets


@dataclass(frozen=True)
class KeyLookups:
    """What a job must read of a table's rows, done by those who know how rows are read.

    `stored` gives the primary keys of all rows of a snapshot, by place. `move` puts some keys of messages into other buckets.
    """

    stored: Callable[[Snapshot | None], Iterable[tuple[PartitionBucket, pa.RecordBatch]]]
    move: Callable[[Sequence[CommitMessage], Sequence[MovedKeys]], list[CommitMessage]]


def placement_of(
    schema: TableSchema,
    base: BaseNumbers,
    indexes: HashIndexes,
    lookups: KeyLookups | None,
    *,
    replaces: bool,
    whole: bool,
) -> Placement:
    """How the rows of a job that begins on `base` get their buckets.

    With `replaces`, the rows replace those of their partitions, or of the table if `whole`, so that no key of these is kept.
    """
    mode = bucket_mode(schema)
    if mode is BucketMode.DYNAMIC:
        return DynamicBuckets(schema, lambda p: ({}, frozenset()) if replaces else indexes.of(base.snapshot, p))
    if mode is BucketMode.CROSS_PARTITION:
        missing = ", ".join(key for key in schema.partition_keys if key not in schema.primary_keys)
        if lookups is None or (replaces and not whole):
            raise Unsupported(
                f"overwriting single partitions of a table whose primary key lacks '{missing}' is not supported: their keys may"
                " be in other partitions too",
                next_step="upsert the rows, or overwrite the whole table",
            )
        rules, read = merge_rules(schema), lookups.stored
        assert rules is not None
        return CrossPartition(schema, rules, lambda: () if replaces else read(base.snapshot))
    if mode is BucketMode.POSTPONE:
        if schema.options.get(opt.POSTPONE_FIXED_BUCKET):
            return SettledBuckets(schema, base.bucket_count)
        return PostponedBuckets(schema)
    return FixedBuckets(schema)
