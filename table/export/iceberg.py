"""Writes Iceberg's metadata about the files of a plan, so that a reader of Iceberg finds the same rows in them.

Owns: `publish`, `export_iceberg`, which files of a plan Iceberg's readers read right, and their statistics. Must not know: the
bytes of metadata (`core.iceberg`), how files are chosen. Source: decision 127; Iceberg's specification.

Invariants: what a reader of Iceberg would show otherwise than `Table.to_arrow` is refused by name before anything is written, and
never left out. No data file is copied or changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ...backends.elsewhere import native_root
from ...backends.registry import open_beside
from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core.errors import TableCorrupt, Unsupported
from ...core.iceberg.document import PLAIN, WITH_ROW_LINEAGE, Shown, document_of
from ...core.iceberg.manifests import (
    DATA,
    DELETES,
    Layout,
    ListedManifest,
    PublishedFile,
    PublishedVector,
    data_manifest,
    delete_manifest,
    manifest_list,
)
from ...core.iceberg.names import mapping_of
from ...core.iceberg.puffin import VectorBlob, puffin_of
from ...core.iceberg.types import (
    WRITTEN_AGAIN,
    check_columns,
    check_partitions,
    check_promotion,
    needs_row_lineage,
    schema_of,
)
from ...core.iceberg.values import bound_bytes
from ...core.metadata.data_file import DataFile
from ...core.metadata.deletion_vector import encode_vector
from ...core.metadata.schema import TableSchema
from ...core.metadata.schemas.merge_rules import stored_fields
from ...core.metadata.snapshot import Snapshot
from ...core.paths import format_of
from ...core.places import codec_of, is_external
from ...core.rows.types import BINARY_ROOTS, AtomicType
from ...core.statistics.collect import decode_stats, file_stats_fields
from ...core.version import __version__
from ..formats.external import located
from ..reading.deletion import deleted_rows
from ..scan.fallback import FileSchemas, file_schemas_of
from ..scan.plan import ScanPlan
from ..scan.split import Split
from .folder import Export, begin, finish

T = TypeVar("T")

_FILES_OF_A_MANIFEST = 10_000
_METADATA = "metadata"
_CUT = frozenset("#?")
_NO_MERGE = "compact(full=True), or read the rows of the last full compaction alone: to_iceberg(read_optimized=True)"


class Published(NamedTuple):
    """What was written: the URL of the document, the snapshot that it shows, 0 for none, and the number of rows."""

    document: str
    snapshot_id: int
    row_count: int


def export_iceberg(folder: Store, timeline: Timeline, plan: ScanPlan, schema: TableSchema, uuid: str) -> Export:
    """Write the metadata of a plan into a folder that readers of Iceberg take for a table. Raises as `publish`."""
    inside = open_beside(folder, f"{folder.url.rstrip('/')}/{_METADATA}")
    files = _checked(timeline, plan, schema, inside)
    begin(folder, timeline, plan, "iceberg")
    inside.delete_many([info.key for info in inside.list("")])  # of a run that was cut off
    done = _written(timeline, plan, files, uuid, inside)
    inside.put("version-hint.text", str(done.snapshot_id).encode())
    return finish(folder, plan, [f"{_METADATA}/{info.key}" for info in inside.list("")], done.row_count)


def publish(timeline: Timeline, plan: ScanPlan, schema: TableSchema, uuid: str, folder: Store) -> Published:
    """Write the metadata of a plan without a filter into a folder, which is empty or has what was written of the same plan.

    Raises:
        Unsupported: a column, a file or rows of the table that Iceberg's readers cannot read as this table does; named.
    """
    return _written(timeline, plan, _checked(timeline, plan, schema, folder), uuid, folder)


def _checked(timeline: Timeline, plan: ScanPlan, schema: TableSchema, folder: Store) -> Files:
    check_columns(schema.fields)
    check_partitions(schema.partition_fields)
    for store in (timeline.store, folder):
        _check_place(store)
    files = Files(timeline.store, schema, file_schemas_of(timeline, schema, plan.splits))
    for split in plan.splits:
        files.check(split)
    return files


def _written(timeline: Timeline, plan: ScanPlan, files: Files, uuid: str, folder: Store) -> Published:
    schema = files.schema
    wants_lineage = needs_row_lineage(schema.fields) or any(split.deletions for split in plan.splits)
    version = WITH_ROW_LINEAGE if wants_lineage else PLAIN
    shown = None
    if plan.snapshot is not None:
        shown = _shown(plan.snapshot, files, _published(timeline, plan, files), version, folder)
    names = mapping_of([stored_fields(each) for each in (*files.schemas.values(), schema)])
    document = document_of(schema, str(UUID(uuid)), native_root(timeline.store), version, shown, names)
    snapshot_id, rows = (0, 0) if shown is None else (shown.snapshot.id, shown.row_count - shown.deleted_count)
    return Published(_put(folder, f"v{snapshot_id}.metadata.json", document), snapshot_id, rows)


def _check_place(store: Store) -> None:
    if store.capabilities.native_scheme is None:
        raise Unsupported(
            f"{store.url}: readers of Iceberg cannot open this store",
            next_step="clone() the table to a disk or an object store, or use to_arrow()",
        )
    if _CUT.intersection(store.url):
        raise Unsupported(
            f"{store.url}: readers of Iceberg take what follows # or ? for no part of a file's name",
            next_step="clone() the table to a folder without these signs, or use to_arrow()",
        )


def _published(timeline: Timeline, plan: ScanPlan, files: Files) -> list[tuple[PublishedFile, Any]]:
    """Each file of a plan, with the positions of its deleted rows, or None. Those are fetched side by side."""
    found = [(split, i) for split in plan.splits for i in range(len(split.files))]
    marked = [n for n, (split, i) in enumerate(found) if split.deletion(i) is not None]
    deleted = dict(zip(marked, timeline.parallel(lambda n: files.deleted(*found[n]), marked), strict=True))
    return [(files.published(*file), deleted.get(n)) for n, file in enumerate(found)]


def _shown(
    snapshot: Snapshot, files: Files, published: Sequence[tuple[PublishedFile, Any]], version: int, folder: Store
) -> Shown:
    """Write the manifests of a snapshot, and what the document tells of it."""
    layout = Layout(
        version, snapshot.id, schema_of(files.schema.fields, files.schema.id), files.schema.partition_fields
    )
    data = [file for file, _ in published]
    vectors = _with_vectors(snapshot, [(file, rows) for file, rows in published if rows is not None], folder)
    manifests, row = list[ListedManifest](), 0
    for files_of_one in _parts(data):
        rows = sum(file.row_count for file in files_of_one)
        stored = data_manifest(files_of_one, layout)
        url = _put(folder, f"{snapshot.id}-m{len(manifests)}.avro", stored)
        manifests.append(ListedManifest(url, len(stored), DATA, files_of_one, rows, row))
        row += rows
    for vectors_of_one in _parts(vectors):
        rows, marked = sum(vector.cardinality for vector in vectors_of_one), [vector.file for vector in vectors_of_one]
        stored = delete_manifest(vectors_of_one, layout)
        url = _put(folder, f"{snapshot.id}-m{len(manifests)}.avro", stored)
        manifests.append(ListedManifest(url, len(stored), DELETES, marked, rows))
    return Shown(
        snapshot,
        _put(folder, f"snap-{snapshot.id}.avro", manifest_list(manifests, layout)),
        row_count=row,
        file_count=len(data),
        size=sum(file.size for file in data),
        vector_count=len(vectors),
        deleted_count=sum(vector.cardinality for vector in vectors),
    )


def _with_vectors(
    snapshot: Snapshot, marked: Sequence[tuple[PublishedFile, Any]], folder: Store
) -> list[PublishedVector]:
    """Write the deletion vectors of files, given as positions, into one Puffin file."""
    if not marked:
        return []
    blobs = [VectorBlob(file.url, encode_vector(rows, is_wide=True), len(rows)) for file, rows in marked]
    stored, places = puffin_of(blobs, f"lakelatch {__version__}")
    url = _put(folder, f"{snapshot.id}.puffin", stored)
    return [
        PublishedVector(file, url, len(stored), place, len(blob.vector), blob.cardinality)
        for (file, _), blob, place in zip(marked, blobs, places, strict=True)
    ]


def _parts(found: Sequence[T]) -> Iterator[Sequence[T]]:
    return (found[i : i + _FILES_OF_A_MANIFEST] for i in range(0, len(found), _FILES_OF_A_MANIFEST))


def _put(folder: Store, key: str, data: bytes) -> str:
    """Write a file of metadata, and return its URL for readers."""
    folder.put(key, data)
    return f"{native_root(folder)}/{key}"


@dataclass(frozen=True)
class Files:
    """The data files of a table, as Iceberg's manifests describe them. `schemas` are those that they were written with."""

    store: Store
    schema: TableSchema
    schemas: FileSchemas

    def check(self, split: Split) -> None:
        """Refuse files whose rows are others to a reader of Iceberg."""
        if split.sections:
            raise Unsupported(
                f"{len(split.files)} files of {_place(split)} have rows of the same keys, which Iceberg's readers do not merge",
                next_step=_NO_MERGE,
            )
        if split.is_one_run:
            raise Unsupported(
                f"{len(split.files)} files of {_place(split)} hold columns of the same rows, which Iceberg's readers do not join",
                next_step=WRITTEN_AGAIN,
            )
        for file in split.files:
            if format_of(file.file_name) != "parquet":
                raise Unsupported(
                    f"data file {file.file_name} is no Parquet file, which some of Iceberg's readers want",
                    next_step=f"set option 'file.format' to parquet, and {WRITTEN_AGAIN}",
                )
        for schema_id in split.schema_ids:
            written = self.schemas[split.branch, schema_id]
            check_columns(written.fields, f"files of schema {schema_id}: ")
            check_promotion(written.fields, self.schema.fields, f"files of schema {schema_id}")

    def published(self, split: Split, index: int) -> PublishedFile:
        file, key = split.files[index], split.keys[index]
        located(self.store, key)  # refuses a place outside of the table that the caller did not allow
        counts, lower, upper = dict[int, int](), dict[int, bytes](), dict[int, bytes]()
        for field_id, kind, null_count, low, high in self._statistics(split, file):
            if null_count is not None:
                counts[field_id] = null_count
            for bounds, value in ((lower, low), (upper, high)):
                stored = bound_bytes(value, kind)
                if stored is not None:
                    bounds[field_id] = stored
        return PublishedFile(
            url=key if is_external(key) else f"{native_root(self.store)}/{key}",
            partition=codec_of(self.schema).decode(split.partition),
            row_count=file.row_count,
            size=file.file_size,
            value_counts=dict.fromkeys(counts, file.row_count),
            null_counts=counts,
            lower_bounds=lower,
            upper_bounds=upper,
        )

    def _statistics(self, split: Split, file: DataFile) -> Iterator[tuple[int, AtomicType, int | None, object, object]]:
        """Of each column without parts: its id, its type of today, and what the file's statistics tell."""
        written = self.schemas[split.branch, file.schema_id]
        fields = file_stats_fields(written.fields, file.write_cols, file.value_stats_cols) or []
        today = {field.id: field.type for field in self.schema.fields}
        try:
            found = decode_stats(file.value_stats, fields, file.file_name)
        except TableCorrupt:
            return  # statistics in a form that is not understood count as unknown
        for field, known in zip(fields, found, strict=True):
            kind = today.get(field.id)
            if isinstance(kind, AtomicType):
                ordered = kind.root not in BINARY_ROOTS  # writers of the format differ on the order of bytes
                yield field.id, kind, known.null_count, *((known.min, known.max) if ordered else (None, None))

    def deleted(self, split: Split, index: int) -> Any:
        """The positions of a file's deleted rows."""
        return deleted_rows(self.store, split, [index])


def _place(split: Split) -> str:
    where = f"bucket {split.bucket}"
    return f"partition {split.partition_path}, {where}" if split.partition_path else where
