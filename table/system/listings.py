"""Short listings of a table's metadata as rows: history, files, partitions.

Owns: the columns of these listings. Must not know: how they are printed, the system tables of Apache Paimon.
Source: format/snapshot §6 (names of columns).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...coordinator.history.lost import lost_attempts
from ...coordinator.intents.carried import riders_of, said_by
from ...core.metadata.data_file import DataFile, ManifestEntry
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import BATCH_IDENTIFIER, Snapshot
from ...core.paths import TablePaths, safe_name

if TYPE_CHECKING:
    import pyarrow as pa

    from ...core.expressions.tree import Predicate
    from ...core.metadata.file_columns import FileColumns


def history_row(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot as one row of the history; times in milliseconds since 1970."""
    said = said_by(snapshot)
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
        "riders": [
            {"commit_user": r.user, "identifier": r.identifier, "rows": r.rows, "properties": said.get(r.commit, {})}
            for r in riders_of(snapshot)
        ],
        "writer": snapshot.writer_version,
        "uuid": snapshot.uuid,
    }


def files_table(
    schema: TableSchema, paths: TablePaths, files: Sequence[FileColumns], where: Predicate | None = None
) -> pa.Table:
    import pyarrow as pa

    if where is not None:
        files = _of_partitions(files, where, schema)
    found = [_files_table(schema, paths, part) for part in files or [_no_files()]]
    return pa.concat_tables(found)


def _of_partitions(files: Sequence[FileColumns], where: Predicate, schema: TableSchema) -> list[FileColumns]:
    import numpy as np

    from ...core.expressions.binding import condition_of
    from ...core.places import codec_of
    from ...core.statistics.pruning import PartitionTest

    test, kept = PartitionTest(condition_of(where, schema.fields), codec_of(schema)), []
    for part in files:
        partitions = part.column("partition").dictionary_encode()
        mask = np.array(test.kept(partitions.dictionary.to_pylist()), bool)[np.asarray(partitions.indices)]
        kept.append(part.chosen(np.flatnonzero(mask)))
    return kept


def _no_files() -> FileColumns:
    from ...core.metadata.file_columns import FileColumns

    return FileColumns([])


def _files_table(schema: TableSchema, paths: TablePaths, files: FileColumns) -> pa.Table:
    import pyarrow as pa

    from ...core.places import codec_of
    from .files import PLAIN, by_partition, formats_of, paths_of

    codec = codec_of(schema)
    _check_names(files.column("file_name").filter(files.column("external_path").is_null()))
    numbers = "schema_id", "level", "record_count", "file_size_in_bytes", "min_sequence_number", "max_sequence_number"
    return pa.table(
        {
            "partition": by_partition(files, codec.path),
            "bucket": files.column("bucket"),
            "file_path": paths_of(files, codec.path, paths.bucket_dir),
            "file_format": formats_of(files.column("file_name")),
            **{name: files.column(PLAIN[name]) for name in numbers},
            "delete_row_count": files.column("delete_row_count"),
            "creation_time_ms": files.column("creation_time"),
        }
    )


def _check_names(names: pa.Array) -> None:
    """Refuse names that would leave the table's folder."""
    import pyarrow.compute as pc

    for name in names.filter(pc.match_substring_regex(names, r"[/\\\x00]|^\.{0,2}$")).to_pylist():
        safe_name(name, "data file name")


@dataclass(frozen=True)
class PartitionTotal:
    """What a partition holds, by its bytes in manifests and by its path, such as `month=1`.

    `last_creation_ms` is by the wall clock of the writer of its newest file, as if that were UTC; None if unknown.
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
