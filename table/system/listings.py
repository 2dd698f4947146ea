"""Short listings of a table's metadata as rows: history, files, partitions.

Owns: the columns of these listings. Must not know: how they are printed, the system tables of Apache Paimon.
Source: format/snapshot §6 (names of columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...coordinator.history.lost import lost_attempts
from ...coordinator.intents.carried import riders_of
from ...core.metadata.data_file import DataFile, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ...core.paths import TablePaths, format_of

if TYPE_CHECKING:
    import pyarrow as pa


def history_row(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as one row of the history; times in milliseconds since 1970."""
    return {
        "snapshot_id": snapshot.id,
        "time_ms": snapshot.time_ms,
        "kind": snapshot.commit_kind,
        "operation": snapshot.operation,
        "commit_user": snapshot.commit_user,
        "identifier": None if snapshot.commit_identifier == BATCH_IDENTIFIER else snapshot.commit_identifier,
        "schema_id": snapshot.schema_id,
        "delta_rows": snapshot.delta_record_count,
        "total_rows": snapshot.total_record_count,
        "attempts": len(lost_attempts(snapshot)) + 1,
        "riders": [{"commit_user": r.user, "identifier": r.identifier, "rows": r.rows} for r in riders_of(snapshot)],
        "writer": snapshot.writer_version,
        "uuid": snapshot.uuid,
    }


def files_table(schema: TableSchema, paths: TablePaths, entries: Sequence[ManifestEntry]) -> pa.Table:
    """One row per data file."""
    import pyarrow as pa

    from ...core.places import codec_of

    codec = codec_of(schema)
    names = {e.partition: codec.path(e.partition) for e in entries}
    columns: dict[str, tuple[pa.DataType, list[Any]]] = {
        "partition": (pa.string(), [names[e.partition] for e in entries]),
        "bucket": (pa.int32(), [e.bucket for e in entries]),
        "file_path": (pa.string(), [_path(paths, names[e.partition], e) for e in entries]),
        "file_format": (pa.string(), [format_of(e.file.file_name) for e in entries]),
        "schema_id": (pa.int64(), [e.file.schema_id for e in entries]),
        "level": (pa.int32(), [e.file.level for e in entries]),
        "record_count": (pa.int64(), [e.file.row_count for e in entries]),
        "file_size_in_bytes": (pa.int64(), [e.file.file_size for e in entries]),
        "min_sequence_number": (pa.int64(), [e.file.min_sequence_number for e in entries]),
        "max_sequence_number": (pa.int64(), [e.file.max_sequence_number for e in entries]),
        "delete_row_count": (pa.int64(), [e.file.delete_row_count for e in entries]),
        "creation_time_ms": (pa.int64(), [e.file.creation_time for e in entries]),
    }
    return pa.table({name: pa.array(values, arrow_type) for name, (arrow_type, values) in columns.items()})


def _path(paths: TablePaths, partition: str, entry: ManifestEntry) -> str:
    return entry.file.external_path or paths.data_file(partition, entry.bucket, entry.file.file_name)


@dataclass(frozen=True)
class PartitionTotal:
    """What a partition holds.

    Attributes:
        partition: its bytes, as in manifests.
        path: its name, such as `month=1`.
        rows, size, files: of its live files; the size in bytes.
        last_creation_ms: when its newest file was made, by the wall clock of its writer, as if that were UTC; None if unknown.
    """

    partition: bytes
    path: str
    rows: int
    size: int
    files: int
    last_creation_ms: int | None


def partition_totals(schema: TableSchema, entries: Sequence[ManifestEntry]) -> list[PartitionTotal]:
    """What each partition holds, in the order of their paths."""
    from ...core.places import codec_of

    codec = codec_of(schema)
    of_partition: dict[bytes, list[DataFile]] = {}
    for entry in entries:
        of_partition.setdefault(entry.partition, []).append(entry.file)
    totals = [
        PartitionTotal(
            partition,
            codec.path(partition),
            sum(file.row_count for file in files),
            sum(file.file_size for file in files),
            len(files),
            max((file.creation_time for file in files if file.creation_time is not None), default=None),
        )
        for partition, files in of_partition.items()
    ]
    return sorted(totals, key=lambda total: (total.path, total.partition))


def partitions_table(schema: TableSchema, entries: Sequence[ManifestEntry]) -> pa.Table:
    """One row per partition, in the order of their paths."""
    import pyarrow as pa

    totals = partition_totals(schema, entries)
    return pa.table(
        {
            "partition": pa.array([total.path for total in totals], pa.string()),
            "record_count": pa.array([total.rows for total in totals], pa.int64()),
            "file_size_in_bytes": pa.array([total.size for total in totals], pa.int64()),
            "file_count": pa.array([total.files for total in totals], pa.int64()),
            "last_creation_time_ms": pa.array([total.last_creation_ms for total in totals], pa.int64()),
        }
    )
