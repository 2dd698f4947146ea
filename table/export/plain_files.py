"""Writes the rows of a plan into a folder of Parquet, ORC or CSV files, which any engine reads.

Owns: `export_rows`. Must not know: how rows are read. Source: decision 66.
Invariant: partition columns are in the folders' names alone, as Spark writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.metadata.schema import TableSchema
from ...core.rows.partition import PartitionCodec
from ..reading.arrow import read_batches
from ..scan.plan import ScanPlan
from .folder import Export, begin, finish

FORMATS = ("parquet", "orc", "csv")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


def export_rows(
    store: Store,
    timeline: Timeline,
    plan: ScanPlan,
    schema: TableSchema,
    file_format: str,
    rows_per_file: int,
    progress: Callable[[int, int], None] | None,
) -> Export:
    """Write the rows of a plan. `InvalidArgument`: the folder holds files of something else, or a finished export."""
    if file_format not in FORMATS:
        raise InvalidArgument(
            f"format {file_format!r} cannot be exported", next_step=f"use one of {', '.join((*FORMATS, 'iceberg'))}"
        )
    begin(store, timeline, plan, file_format)
    codec = PartitionCodec(schema.partition_fields, HIVE_NULL, legacy_name=False)
    names = [field.name for field in schema.fields if field.name not in schema.partition_keys]
    partitions = list(dict.fromkeys(split.partition for split in plan.splits))
    files, rows = list[str](), 0
    for done, partition in enumerate(partitions, start=1):
        part = replace(plan, splits=tuple(split for split in plan.splits if split.partition == partition))
        folder = codec.path(partition)
        batches = read_batches(timeline, part, schema, names)
        for table in _filled(batches, rows_per_file):
            key = f"{folder}/" if folder else ""
            key += f"part-{len(files):05}.{file_format}"
            _write(store, key, table, file_format)
            files.append(key)
            rows += table.num_rows
        if progress is not None:
            progress(done, len(partitions))
    return finish(store, plan, files, rows)


def _filled(batches: Iterator[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        held.append(batch)
        count += batch.num_rows
        if count >= most:
            yield pa.Table.from_batches(held)
            held, count = [], 0
    if count:
        yield pa.Table.from_batches(held)


def _write(store: Store, key: str, table: pa.Table, file_format: str) -> None:
    output = store.open_output(key)
    try:
        _encoders()[file_format](table, output)
    except pa.ArrowNotImplementedError as error:
        output.abort()
        raise InvalidArgument(
            f"the rows cannot be written as {file_format}: {error}", next_step="use another format"
        ) from error
    except BaseException:
        output.abort()
        raise
    output.close()


def _encoders() -> dict[str, Callable[[pa.Table, Any], Any]]:
    import pyarrow.csv
    import pyarrow.orc
    import pyarrow.parquet

    return {
        "parquet": lambda table, output: pyarrow.parquet.write_table(table, output, compression="zstd"),
        "orc": lambda table, output: pyarrow.orc.write_table(table, output, compression="zstd"),
        "csv": pyarrow.csv.write_csv,
    }
