"""Writes the rows of a plan into a folder of Parquet, ORC or CSV files, which any engine reads.

Owns: `export_rows`, `Export`. Must not know: how rows are read. Source: decision 66.
Invariants: partition columns are in the folders' names alone, as Spark writes them. `_SUCCESS` is written last. A run that was
cut off is repeated from the beginning, under the same names; files that the earlier run left are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.html_text import ShownAsText
from ...core.metadata.schema import TableSchema
from ...core.rows.partition import PartitionCodec
from ..reading.arrow import read_batches
from ..scan.plan import ScanPlan

FORMATS = ("parquet", "orc", "csv")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
DONE, BEGUN = "_SUCCESS", "_lakelatch_export"


@dataclass(frozen=True)
class Export(ShownAsText):
    """What was written: the state, None for a table without a snapshot, and the keys of the files relative to the folder."""

    folder: str
    snapshot_id: int | None
    files: tuple[str, ...]
    row_count: int

    def __str__(self) -> str:
        return f"snapshot {self.snapshot_id} in {self.folder}: {len(self.files)} files, {self.row_count} rows"

    def to_dict(self) -> dict[str, Any]:
        """The export with stable keys, ready for JSON."""
        return {
            "folder": self.folder,
            "snapshot_id": self.snapshot_id,
            "files": len(self.files),
            "rows": self.row_count,
        }


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
            f"format {file_format!r} cannot be exported", next_step=f"use one of {', '.join(FORMATS)}"
        )
    identity = plan.snapshot.identity if plan.snapshot is not None else ""
    _begin(store, json.dumps({"url": timeline.store.url, "snapshot": identity, "format": file_format}).encode())
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
    left = [info.key for info in store.list("") if info.key not in {*files, BEGUN}]
    store.delete_many([*left, BEGUN])
    store.put(DONE, b"")
    return Export(store.url, plan.snapshot.id if plan.snapshot is not None else None, tuple(files), rows)


def _begin(store: Store, mark: bytes) -> None:
    """Mark the folder, so that a run that is repeated knows the files of the earlier one."""
    found = [info.key for info in store.list("")]
    if BEGUN in found and store.get(BEGUN) == mark:
        return
    if found:
        what = "a finished export" if DONE in found else f"other files, such as {min(found)}"
        raise InvalidArgument(f"{store.url} holds {what}", next_step="choose an empty folder")
    store.put(BEGUN, mark)


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
