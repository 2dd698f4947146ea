"""How a table assigns rows to buckets.

Owns: `BucketMode`, `bucket_mode`. Must not know: how a bucket is computed. Source: format/binary-row §5.
"""

from __future__ import annotations

from enum import Enum

from ...paths import POSTPONE_BUCKET
from ..schema import TableSchema


class BucketMode(Enum):
    """The modes, with Apache Paimon's names."""

    FIXED = "HASH_FIXED"
    """As many buckets as option `bucket` says: the hash of the bucket key decides."""
    UNAWARE = "BUCKET_UNAWARE"
    """No primary key and no buckets: all files are in one folder."""
    DYNAMIC = "HASH_DYNAMIC"
    """A primary key that contains the partition keys, `bucket` = -1: index files say in which bucket a key is."""
    CROSS_PARTITION = "KEY_DYNAMIC"
    """A primary key without all partition keys, `bucket` = -1: a key is looked for in all partitions."""
    POSTPONE = "POSTPONE_MODE"
    """`bucket` = -2: a compaction chooses the buckets later."""


def bucket_mode(schema: TableSchema) -> BucketMode:
    bucket = schema.bucket
    if bucket == POSTPONE_BUCKET:
        return BucketMode.POSTPONE
    if bucket >= 0:
        return BucketMode.FIXED
    if not schema.primary_keys:
        return BucketMode.UNAWARE
    return BucketMode.CROSS_PARTITION if set(schema.partition_keys) - set(schema.primary_keys) else BucketMode.DYNAMIC
