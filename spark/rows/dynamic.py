"""Dynamic buckets that the tasks of one job choose without asking each other.

Owns: `DynamicPlan`. Must not know: DataFrames, how a bucket is chosen. Source: format/binary-row §5; decision 45.
Invariant: All rows of a partition whose keys have one assigner are in one task, so that a new key gets one bucket in a job.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...backends.store import Store
from ...coordinator.commit.settling.hash_indexes import HashIndexes, HashMemory
from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.bucket_mode import BucketMode, bucket_mode
from ...core.metadata.snapshot import Snapshot
from ...core.paths import TablePaths
from ...core.places import FileKeys
from ...table.writing.buckets.dynamic_buckets import DynamicBuckets


@dataclass(frozen=True)
class DynamicPlan:
    """What is sent to the tasks of a job. Keys are placed by the index of `snapshot`; assigners divide new keys among them.

    If `replaces`, the rows replace those of their partitions, whose index begins again.
    """

    paths: TablePaths
    snapshot: Snapshot | None
    assigners: int
    replaces: bool

    @staticmethod
    def of(
        schema: TableSchema, paths: TablePaths, base: Snapshot | None, tasks: int, replaces: bool
    ) -> DynamicPlan | None:
        """None if the buckets are not dynamic. There are `tasks` assigners, unless `dynamic-bucket.initial-buckets` is set."""
        if bucket_mode(schema) is not BucketMode.DYNAMIC:
            return None
        return DynamicPlan(paths, base, schema.options.get(opt.DYNAMIC_INITIAL_BUCKETS) or tasks, replaces)

    def placement(self, store: Store, schema: TableSchema) -> DynamicBuckets:
        """How one task places its rows. Each task reads the index of the partitions that it has rows of."""
        indexes = HashIndexes(Timeline(store, self.paths), FileKeys(schema), HashMemory())
        return DynamicBuckets(
            schema,
            lambda partition: ({}, frozenset()) if self.replaces else indexes.of(self.snapshot, partition),
            assigners=self.assigners,
        )

    def as_fixed(self, schema: TableSchema) -> TableSchema:
        """The schema with as many fixed buckets as there are assigners: rows with one bucket number have one assigner."""
        texts = {k: v for k, v in schema.option_texts.items() if k not in (opt.BUCKET_KEY.key, opt.BUCKET_FUNCTION.key)}
        return replace(schema, option_texts=texts | {opt.BUCKET.key: str(self.assigners)})
