"""What an overwrite replaces: a partition, several, the whole table, or each partition that new rows are in.

Owns: reading and checking what the caller named. Must not know: how rows are written, how a request is committed.
Source: architecture §3 (isolation); H13.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pyarrow as pa

from ...coordinator.commit.request import Target
from ...coordinator.history.timeline import Timeline
from ...core.errors import CommitConflict, InvalidArgument
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ...core.places import codec_of
from ...core.rows.arrow import to_arrow
from ...core.rows.values import to_arrow_scalar
from ..conforming.sources import batches_of


def snapshot_read(timeline: Timeline, read_snapshot: int | None) -> Snapshot | None:
    """The snapshot that an overwrite replaces: the one that its rows were computed from, if the caller gives it (H13).

    If it has expired, that is a conflict, because later changes cannot be distinguished from its contents.
    """
    if read_snapshot is None:
        return timeline.latest()
    found = timeline.find(read_snapshot)
    if found is None:
        raise CommitConflict(f"snapshot {read_snapshot}, from which the rows were computed, does not exist any more")
    return found


def overwrite_spec(
    schema: TableSchema, partition: Mapping[str, Any] | str | None, dynamic: bool
) -> dict[str, Any] | None:
    """What an overwrite replaces: values by partition column ({} = the whole table); None = every partition with new rows."""
    codec = codec_of(schema)
    if dynamic and partition is not None:
        raise InvalidArgument("overwrite takes partition= or dynamic=True, not both")
    if not dynamic and partition is None and codec.fields:
        raise InvalidArgument(
            "overwrite of a partitioned table needs a partition, partition={} for all, or dynamic=True"
        )
    if dynamic and not codec.fields:
        raise InvalidArgument("dynamic=True needs a partitioned table")
    return None if dynamic else codec.parse_spec(partition or {})


def with_partition(data: Any, spec: Mapping[str, Any], schema: TableSchema) -> Iterable[pa.RecordBatch]:
    """Batches with the partition's columns added if the data lacks them."""
    for batch in batches_of(data):
        for name, value in spec.items():
            if name not in batch.schema.names:
                field = schema.by_name[name]
                scalar = to_arrow_scalar(value, field.type, to_arrow(field.type))
                batch = batch.append_column(name, pa.repeat(scalar, batch.num_rows))
        yield batch


def partitions_target(schema: TableSchema, specs: list[dict[str, Any]]) -> Target:
    """Selects the partitions that one of the given ones, each by all or some of its columns, describes."""
    codec = codec_of(schema)

    @cache
    def is_replaced(partition: bytes) -> bool:
        values = codec.decode(partition)
        return any(codec.matches(values, spec) for spec in specs)

    return is_replaced


def refuse_outside(schema: TableSchema, partitions: Iterable[bytes], spec: dict[str, Any] | None) -> None:
    """Refuse rows of a static overwrite that are not in the partition that it replaces."""
    if not spec:
        return
    target = partitions_target(schema, [spec])
    outside = [p for p in partitions if not target(p)]
    if outside:
        path = codec_of(schema).path(outside[0])
        raise InvalidArgument(f"the data has rows of partition {path}, outside the one to be replaced, {spec}")
