"""Postponed buckets (`bucket` = -2) that the tasks of one job choose without asking each other.

Owns: `PostponedPlan`. Must not know: DataFrames, how rows are set aside, commits. Source: format/binary-row §5; decision 46.
Invariants: Rows go where `table.writing.placing` puts those of a job without Spark. All rows of a real bucket are in one task,
where the job can bring rows together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd

from ...backends.store import Store
from ...coordinator.commit.base_numbers import BaseNumbers
from ...core import options as opt
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.bucket_mode import BucketMode, bucket_mode
from ...table.writing.buckets.placement import Placement
from ...table.writing.buckets.postponed import PostponedBuckets, SettledBuckets


@dataclass(frozen=True)
class PostponedPlan:
    """What is sent to the tasks of a job: the number of real buckets of each partition that has some, and that of the others.

    `counts` is None if all rows are set aside.
    """

    counts: Mapping[bytes, int] | None
    default: int

    @staticmethod
    def of(schema: TableSchema, base: BaseNumbers) -> PostponedPlan | None:
        """The plan of a job; None if the table's buckets are not postponed."""
        if bucket_mode(schema) is not BucketMode.POSTPONE:
            return None
        settles = schema.options.get(opt.POSTPONE_FIXED_BUCKET)
        return PostponedPlan(
            base.bucket_counts() if settles else None, schema.options.get(opt.POSTPONE_DEFAULT_BUCKETS)
        )

    def placement(self, store: Store, schema: TableSchema) -> Placement:
        return PostponedBuckets(schema) if self.counts is None else SettledBuckets(schema, self.counts.get)

    def as_fixed(self, schema: TableSchema) -> TableSchema:
        """A schema by whose fixed buckets rows are brought together: those of one real bucket have one number.

        Partitions may differ in their numbers of buckets. Their greatest common divisor divides them all, so that the rows of a
        real bucket have one remainder by it. Rows that are set aside stay where they are.
        """
        if self.counts is None:
            return schema
        number = gcd(self.default, *self.counts.values())
        return replace(schema, option_texts={**schema.option_texts, opt.BUCKET.key: str(number)})
