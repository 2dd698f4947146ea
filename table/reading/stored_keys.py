"""The primary keys of all rows of a table, with the partition and bucket of each.

Owns: `stored_keys`. Must not know: what the keys are for. Source: format/binary-row §5; format/primary-keys §5.
Invariant: The key of every row is found, also of rows that batch reads do not see yet because their files are of level 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa

from ...coordinator.history.timeline import Timeline
from ...core import options as opt
from ...core.metadata.data_file import PartitionBucket
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot
from ..scan.fallback import file_schemas_of
from ..scan.plan import plan_scan
from ..scan.split import Split
from .arrow import LOCAL_READ_THREADS, READ_THREADS, SplitReader
from .read_ahead import in_order

_VISIBLE = {"deletion-vectors.merge-on-read": "true", opt.FALLBACK_BRANCH.key: "", opt.PRIMARY_BRANCH.key: ""}
_ENGINE = "merge-engine"


def stored_keys(
    timeline: Timeline, snapshot: Snapshot | None, schema: TableSchema
) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
    """The columns of the primary key of all rows, in batches of one partition and bucket each. No key comes twice."""
    seen = _with_all_levels(schema)
    plan = plan_scan(timeline, snapshot, seen, None)
    reader = SplitReader(seen, schema.primary_keys, None, file_schemas_of(timeline, seen, plan.splits))

    def keys(split: Split) -> Iterator[tuple[PartitionBucket, pa.RecordBatch]]:
        for batch in reader.batches(timeline.store, [split]):
            yield (split.partition, split.bucket), batch

    local = timeline.store.capabilities.native_scheme == "file"
    yield from in_order([partial(keys, split) for split in plan.splits], LOCAL_READ_THREADS if local else READ_THREADS)


def _with_all_levels(schema: TableSchema) -> TableSchema:
    """The schema with options that hide no level. For keys alone, all rows of a first-row table merge like any others."""
    texts = dict(schema.option_texts) | _VISIBLE
    if texts.get(_ENGINE, "").lower() == "first-row":
        texts[_ENGINE] = "deduplicate"
    return replace(schema, option_texts=texts)
