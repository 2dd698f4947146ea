"""Brings the rows of each partition and fixed bucket to one task.

Owns: `routed`, and which tables it can serve. Must not know: how rows become files. Source: format/spark §5.

Invariants: All rows of a (partition, bucket) are in one task, so that the files which a job writes there do not overlap in their
sequence numbers. On a table with a primary key, rows of one key stay in the order of the frame: of two rows with one key, the
later one is in a later partition of the frame, or in the same partition and further down.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - Spark's users know it by this name

from ...core.errors import Unsupported
from ...core.metadata.schema import TableSchema
from ...table.writing.buckets.placement import NO_TOTAL_BUCKETS
from ...table.writing.writer import check_writable
from ..sessions.session import parallelism
from .bucket_expressions import BUCKET, with_bucket

TASKS_PER_CORE = 2
_TASK, _ORDER = "task", "position"


def check_written_by_spark(table: TableSchema, *, shuffles: bool) -> None:
    """Refuse tables that no job of Spark can write yet, as `check_writable` does. Who `shuffles` can bring rows together."""
    if table.primary_keys:
        check_buckets(table.bucket, table.primary_keys, table.partition_keys, shuffles=shuffles)
    check_writable(table, keyed=True)


def check_buckets(
    number: int, keys: Collection[str], partition_keys: Collection[str], *, shuffles: bool = True
) -> None:
    """Refuse (`Unsupported`) buckets of a table with a primary key that tasks cannot choose without asking each other."""
    if number != NO_TOTAL_BUCKETS:
        return
    outside = ", ".join(name for name in partition_keys if name not in keys)
    if outside:
        raise Unsupported(
            f"a DataFrame cannot be written to a table whose primary key lacks the partition column '{outside}'"
            f" ('bucket' = {number}): the tasks of Spark do not know in which partition a key is now",
            next_step="write the rows without Spark, with lakelatch.open_table(url).upsert(df.toArrow()), which looks for their"
            " keys in all partitions; or create the table with the partition columns in its primary key",
        )
    if not shuffles:
        raise Unsupported(
            f"the data source cannot write a table with dynamic buckets ('bucket' = {number}): two of its tasks would put one"
            " new key into two buckets",
            next_step="write the DataFrame with lakelatch.spark.write; or create the table with fixed buckets, such as"
            " options={'bucket': '4'}",
        )


def routed(frame: Any, table: TableSchema, places: Mapping[str, str]) -> Any:
    """The frame, repartitioned by partition and bucket; with a primary key, tasks get rows sorted by these and by the key."""
    parts = [places[name] for name in table.partition_keys if name in places]
    if not table.primary_keys and not any(name in places for name in table.bucket_keys):
        return frame  # all rows have the same key, and so there is only one bucket
    names = list(frame.columns)
    frame = with_bucket(frame, table, places)
    if not table.primary_keys:
        return frame.repartition(*parts, BUCKET).drop(BUCKET)
    tasks = TASKS_PER_CORE * parallelism(frame.sparkSession)
    task = F.col(BUCKET)
    if parts:
        # The hash alone would leave tasks without rows where there are few partitions.
        task = task + F.pmod(F.hash(*parts), F.lit(tasks))
    else:
        tasks = min(tasks, table.bucket)
    frame = frame.withColumn(_ORDER, F.monotonically_increasing_id())
    frame = frame.withColumn(_TASK, F.pmod(task, F.lit(tasks))).repartitionById(tasks, F.col(_TASK))
    keys = [places[name] for name in table.trimmed_primary_keys if name in places]
    return frame.sortWithinPartitions(*parts, BUCKET, *keys, _ORDER).select(*names)
