"""Rows as a task gets them from Spark: their columns by position, times of day as numbers, and the fixed bucket of each row.

Owns: `with_names`, `BucketTask`. Must not know: how rows are written. Source: format/spark §2, §5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import InvalidArgument
from ...core.metadata.schema import TableSchema
from ...core.rows.types import AtomicType
from ...core.rows.values import MILLIS_PER_DAY
from ...table.conforming.conform import Conformer
from ...table.writing.buckets.placement import bucket_function


@dataclass(frozen=True)
class BucketTask:
    """Computes the fixed bucket of each row, so that Spark can bring the rows of a bucket together. `names` are by position."""

    schema: TableSchema
    names: tuple[str, ...]

    def buckets(self, keys: pa.Array) -> pa.Array:
        """Structs of key columns to bucket numbers; raises like `WriteTask` if a value does not fit."""
        key_fields = [self.schema.by_name[name] for name in self.schema.bucket_keys]
        batch = with_names(pa.RecordBatch.from_struct_array(keys), self.names, self.schema)
        bucket_of = bucket_function(self.schema)
        assert bucket_of is not None
        return pa.array(bucket_of(Conformer(key_fields)(batch)), pa.int32())


def with_names(batch: Any, names: Sequence[str], schema: TableSchema) -> Any:
    """A batch from Spark with the table's column names, and with its numbers converted for columns of type TIME."""
    batch = batch.rename_columns(list(names))
    for i, name in enumerate(names):
        target = schema.by_name[name].type if name in schema.by_name else None
        if isinstance(target, AtomicType) and target.root == "TIME" and pa.types.is_integer(batch.column(i).type):
            batch = batch.set_column(i, name, _time_of_millis(batch.column(i), name))
    return batch


def _time_of_millis(array: Any, name: str) -> Any:
    """Milliseconds as times of day. The range is checked because Arrow's cast would accept any number."""
    ends = pc.min_max(array)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if low is not None and not 0 <= low <= high < MILLIS_PER_DAY:
        wrong = low if low < 0 else high
        raise InvalidArgument(f"column '{name}': {wrong} is not a millisecond of the day")
    return array.cast(pa.int32()).cast(pa.time32("ms"))
