"""System tables of a table's files: files, buckets, partitions, manifests, table_indexes.

Owns: their columns and values. Must not know: how live files are found, rows of the table.
Source: format/manifests §2, §3, §7; format/statistics §1; format/binary-row §3.
Invariants: `partition`, `bucket` and `level` are tested before anything else of a file is computed. There is no loop over files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core import options as opt
from ...core.expressions.evaluate import to_arrow_mask
from ...core.expressions.tree import columns_of
from ...core.metadata.data_file import IndexEntry
from ...core.metadata.deletion_vector import INDEX_TYPE
from ...core.metadata.file_columns import FileColumns
from ...core.metadata.schemas.merge_rules import POSTPONED
from ...core.paths import format_of
from ...core.places import codec_of
from ...core.rows.arrow import arrow_schema
from ...core.rows.types import ArrayType, AtomicType, Field, RowType, string
from ...core.statistics.pruning import split_predicate
from .definition import Rows, SystemTable, View, Wanted, columns, fixed, with_rows
from .live_files import entry_chunks, live_chunks
from .texts import BoundsLayout, arities, grouped_texts, key_texts, partition_spec, partition_text

# -------------------------------------------------------------------------------------------------------------- files

_FILES = columns(
    ("partition", "STRING"),
    ("bucket", "INT NOT NULL"),
    ("file_path", "STRING NOT NULL"),
    ("file_format", "STRING NOT NULL"),
    ("schema_id", "BIGINT NOT NULL"),
    ("level", "INT NOT NULL"),
    ("record_count", "BIGINT NOT NULL"),
    ("file_size_in_bytes", "BIGINT NOT NULL"),
    ("min_key", "STRING"),
    ("max_key", "STRING"),
    ("null_value_counts", "STRING NOT NULL"),
    ("min_value_stats", "STRING NOT NULL"),
    ("max_value_stats", "STRING NOT NULL"),
    ("min_sequence_number", "BIGINT"),
    ("max_sequence_number", "BIGINT"),
    ("creation_time", "TIMESTAMP(3)"),
    ("deleteRowCount", "BIGINT"),
    ("file_source", "STRING"),
    ("first_row_id", "BIGINT"),
    ("write_cols", "TEXTS"),
)
PLAIN = {
    "bucket": "bucket",
    "schema_id": "schema_id",
    "level": "level",
    "record_count": "row_count",
    "file_size_in_bytes": "file_size",
    "min_sequence_number": "min_sequence_number",
    "max_sequence_number": "max_sequence_number",
    "creation_time": "creation_time",
    "deleteRowCount": "delete_row_count",
    "first_row_id": "first_row_id",
    "write_cols": "write_cols",
}
_CHEAP = ("partition", "bucket", "level")
_SOURCES = ("APPEND", "COMPACT")


def _files(view: View, wanted: Wanted) -> Rows:
    names = [f for f in _FILES if f.name in wanted.names]
    early = None if wanted.where is None else split_predicate(wanted.where, _CHEAP)[0]
    tested = [f for f in _FILES if early is not None and f.name in columns_of(early)]
    texts = _FileTexts(view)
    for chunk in live_chunks(view, wanted):
        if view.schema.bucket == POSTPONED:
            chunk = chunk.chosen(np.flatnonzero(np.asarray(chunk.column("bucket")) != POSTPONED))
        if early is not None:
            mask = to_arrow_mask(early, texts.table(chunk, tested))
            chunk = chunk.chosen(np.flatnonzero(np.asarray(pc.fill_null(mask, False))))
        if len(chunk):
            yield texts.table(chunk, names)


class _FileTexts:
    def __init__(self, view: View) -> None:
        self._view, self._codec = view, codec_of(view.schema)
        self._made: dict[str, Callable[[FileColumns], pa.Array]] = {
            "partition": lambda files: by_partition(files, lambda data: partition_text(self._codec, data)),
            "file_path": self._paths,
            "file_format": lambda files: formats_of(files.column("file_name")),
            "min_key": lambda files: self._keys(files, "min_key"),
            "max_key": lambda files: self._keys(files, "max_key"),
            "null_value_counts": self._null_counts,
            "min_value_stats": lambda files: self._bounds(files, "min_values"),
            "max_value_stats": lambda files: self._bounds(files, "max_values"),
            "file_source": lambda files: pa.array(_SOURCES).take(files.column("file_source")),
        }

    def table(self, files: FileColumns, fields: list[Field]) -> pa.Table:
        schema = arrow_schema(fields)
        arrays = [
            self._made[f.name](files) if f.name in self._made else files.column(PLAIN[f.name]).cast(f.type)
            for f in schema
        ]
        return with_rows(pa.table(arrays, schema=schema), len(files))

    def _paths(self, files: FileColumns) -> pa.Array:
        root, folder = self._view.root, self._view.timeline.paths.bucket_dir
        return paths_of(files, self._codec.path, lambda path, bucket: f"{root}/{folder(path, bucket)}")

    def _keys(self, files: FileColumns, name: str) -> pa.Array:
        rows, schema_ids = files.column(name), np.asarray(files.column("schema_id"))
        sizes = arities(rows)

        def make(places: np.ndarray) -> pa.Array:
            first = places[0]
            return key_texts(
                rows.take(pa.array(places)), self._view.schema_of(int(schema_ids[first])), int(sizes[first])
            )

        return grouped_texts(len(files), [schema_ids, sizes], make)

    def _bounds(self, files: FileColumns, name: str) -> pa.Array:
        rows = files.column(name)
        return self._by_layout(files, lambda layout, places: layout.bounds(rows.take(places)))

    def _null_counts(self, files: FileColumns) -> pa.Array:
        counts, rows = files.column("null_counts"), files.column("row_count")
        return self._by_layout(files, lambda layout, places: layout.null_counts(counts.take(places), rows.take(places)))

    def _by_layout(self, files: FileColumns, make: Callable[[BoundsLayout, pa.Array], pa.Array]) -> pa.Array:
        dense, written = files.column("value_stats_cols"), files.column("write_cols")
        lists = [
            np.asarray(pc.fill_null(pc.binary_join(names, "\0").dictionary_encode().indices, -1))
            for names in (dense, written)
        ]
        schema_ids, sizes = np.asarray(files.column("schema_id")), arities(files.column("min_values"))

        def group(places: np.ndarray) -> pa.Array:
            first = int(places[0])
            schema = self._view.schema_of(int(schema_ids[first]))
            named, own = dense[first].as_py(), written[first].as_py()
            partial = named is None and own is not None and len(own) == sizes[first]
            columns = own if partial else named
            layout = BoundsLayout(self._view.schema, schema, columns, int(sizes[first]), partial)
            return make(layout, pa.array(places))

        return grouped_texts(len(files), [schema_ids, *lists, sizes], group)


def by_partition(files: FileColumns, text: Callable[[bytes], str]) -> pa.Array:
    encoded = files.column("partition").dictionary_encode()
    return pa.array([text(data) for data in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


def paths_of(files: FileColumns, text: Callable[[bytes], str], folder: Callable[[str, int], str]) -> pa.Array:
    """The path of each file: its own if it is elsewhere, else its name below the folder of its partition and bucket.

    `text` gives the path of a partition; `folder`, of such a path and a bucket, a folder with a slash at its end.
    """
    partitions = files.column("partition").dictionary_encode()
    paths = [text(data) for data in partitions.dictionary.to_pylist()]
    places = np.asarray(partitions.indices, np.int64) << 32 | np.asarray(files.column("bucket")).astype(np.uint32)
    known, which = np.unique(places, return_inverse=True)
    pairs = zip((known >> 32).tolist(), known.astype(np.int32).tolist(), strict=True)
    folders = [folder(paths[p], bucket) for p, bucket in pairs]
    inside = pc.binary_join_element_wise(
        pa.array(folders, pa.string()).take(pa.array(which.reshape(-1))), files.column("file_name"), ""
    )
    return pc.coalesce(files.column("external_path"), inside)


def formats_of(names: pa.Array) -> pa.Array:
    endings = pc.extract_regex(names, r"(?P<end>(?:\.[A-Za-z0-9]{1,9})?\.[^.]*)$").field("end")
    encoded = pc.coalesce(endings, names).dictionary_encode()
    return pa.array([format_of(end) for end in encoded.dictionary.to_pylist()], pa.string()).take(encoded.indices)


# --------------------------------------------------------------------------------------------- buckets and partitions

_BUCKETS = columns(
    ("partition", "STRING"),
    ("bucket", "INT NOT NULL"),
    ("record_count", "BIGINT NOT NULL"),
    ("file_size_in_bytes", "BIGINT NOT NULL"),
    ("file_count", "BIGINT NOT NULL"),
    ("last_update_time", "TIMESTAMP(3)"),
)
_PARTITIONS = columns(
    ("partition", "STRING"),
    ("record_count", "BIGINT NOT NULL"),
    ("file_size_in_bytes", "BIGINT NOT NULL"),
    ("file_count", "BIGINT NOT NULL"),
    ("last_update_time", "TIMESTAMP(3)"),
    ("created_at", "TIMESTAMP(3)"),
    ("created_by", "STRING"),
    ("updated_by", "STRING"),
    ("options", "STRING"),
    ("total_buckets", "INT NOT NULL"),
    ("done", "BOOLEAN NOT NULL"),
    ("deleted_record_count", "BIGINT"),
)
_COUNTED = ("row_count", "file_size")


def _totals(view: View, wanted: Wanted, keys: list[str], real_buckets: bool = False) -> list[dict[str, Any]]:
    """What the entries of each partition, or bucket, add up to. The last file counts for the time even if it is gone."""
    parts = []
    for files, signs in entry_chunks(view, wanted):
        sign = pa.array(signs)
        table = {name: files.column(name) for name in ("partition", "bucket", "total_buckets", "creation_time")}
        table |= {name: pc.multiply(files.column(name), sign) for name in _COUNTED} | {"files": sign}
        part = pa.table(table)
        parts.append(part.filter(pc.field("bucket") != POSTPONED) if real_buckets else part)
    if not parts:
        return []
    sums = [(name, "sum") for name in (*_COUNTED, "files")]
    grouped = pa.concat_tables(parts).group_by(keys, use_threads=False)
    found = grouped.aggregate([*sums, ("creation_time", "max"), ("total_buckets", "last")])
    return [row for row in found.to_pylist() if row["files_sum"] > 0]


def _told(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "record_count": row["row_count_sum"],
        "file_size_in_bytes": row["file_size_sum"],
        "file_count": row["files_sum"],
        "last_update_time": row["creation_time_max"],
    }


def _buckets(view: View, wanted: Wanted) -> Iterator[Mapping[str, Any]]:
    codec = codec_of(view.schema)
    found = [
        (partition_text(codec, row["partition"]), row["bucket"], row)
        for row in _totals(view, wanted, ["partition", "bucket"])
    ]
    for partition, bucket, row in sorted(found, key=lambda item: item[:2]):
        yield {"partition": partition, "bucket": bucket, **_told(row)}


def _partitions(view: View, wanted: Wanted) -> Iterator[Mapping[str, Any]]:
    codec = codec_of(view.schema)
    deleted: dict[bytes, int | None] = {}
    if (
        view.snapshot is not None
        and "deleted_record_count" in wanted.names
        and view.schema.options.get(opt.DELETION_VECTORS)
    ):
        deleted = _deleted_rows(view.timeline.index_entries(view.snapshot))
    everything = Wanted(wanted.names)  # `partition` is the path here, not the row
    rows = _totals(view, everything, ["partition"], real_buckets=view.schema.bucket == POSTPONED)
    for partition, row in sorted(((partition_spec(codec, row["partition"]), row) for row in rows), key=lambda p: p[0]):
        yield {
            "partition": partition,
            **_told(row),
            "total_buckets": row["total_buckets_last"],
            "done": False,
            "deleted_record_count": deleted.get(row["partition"], 0),
        }


def _deleted_rows(index: list[IndexEntry]) -> dict[bytes, int | None]:
    """The rows that deletion vectors mark in each partition; None where a writer did not record it."""
    out: dict[bytes, int | None] = {}
    for entry in index:
        counts = (
            [v.cardinality for v in entry.file.deletion_vectors or ()] if entry.file.index_type == INDEX_TYPE else []
        )
        known = out.get(entry.partition, 0)
        if counts:
            numbers = [n for n in counts if n is not None]
            complete = known is not None and len(numbers) == len(counts)
            out[entry.partition] = known + sum(numbers) if complete and known is not None else None
    return out


# --------------------------------------------------------------------------------------------- manifests and indexes

_MANIFESTS = columns(
    ("file_name", "STRING NOT NULL"),
    ("file_size", "BIGINT NOT NULL"),
    ("num_added_files", "BIGINT NOT NULL"),
    ("num_deleted_files", "BIGINT NOT NULL"),
    ("schema_id", "BIGINT NOT NULL"),
    ("min_partition_stats", "STRING"),
    ("max_partition_stats", "STRING"),
    ("min_row_id", "BIGINT"),
    ("max_row_id", "BIGINT"),
)
_VECTOR = RowType(
    (
        Field(0, "f0", string(nullable=False)),
        Field(1, "f1", AtomicType("INT", nullable=False)),
        Field(2, "f2", AtomicType("INT", nullable=False)),
        Field(3, "_CARDINALITY", AtomicType("BIGINT")),
    )
)
_TABLE_INDEXES = (
    *columns(
        ("partition", "STRING"),
        ("bucket", "INT NOT NULL"),
        ("index_type", "STRING NOT NULL"),
        ("file_name", "STRING NOT NULL"),
        ("file_size", "BIGINT NOT NULL"),
        ("row_count", "BIGINT NOT NULL"),
    ),
    Field(6, "dv_ranges", ArrayType(_VECTOR)),
    *columns(
        ("row_range_start", "BIGINT"),
        ("row_range_end", "BIGINT"),
        ("index_field_id", "INT"),
        ("index_field_name", "STRING"),
    ),
)


def _manifests(view: View, wanted: Wanted) -> Iterator[Mapping[str, Any]]:
    if view.snapshot is None:
        return
    codec, timeline = codec_of(view.schema), view.timeline
    for manifest in (*timeline.manifests(view.snapshot), *timeline.changelog_manifests(view.snapshot)):
        stats = manifest.partition_stats
        yield {f.name: getattr(manifest, f.name, None) for f in _MANIFESTS} | {
            "min_partition_stats": partition_text(codec, stats.min_values),
            "max_partition_stats": partition_text(codec, stats.max_values),
        }


def _table_indexes(view: View, wanted: Wanted) -> Iterator[Mapping[str, Any]]:
    if view.snapshot is None:
        return
    codec, names = codec_of(view.schema), {f.id: f.name for f in view.schema.fields}
    for entry in view.timeline.index_entries(view.snapshot):
        file, index, ranges = entry.file, entry.file.global_index, entry.file.deletion_vectors
        vectors = None
        if ranges is not None:
            vectors = [dict(zip(_KEYS, (v.data_file, v.offset, v.length, v.cardinality), strict=True)) for v in ranges]
        row = {
            "partition": partition_text(codec, entry.partition),
            "bucket": entry.bucket,
            "index_type": file.index_type,
            "file_name": file.file_name,
            "file_size": file.file_size,
            "row_count": file.row_count,
            "dv_ranges": vectors,
        }
        if index is not None:
            ids = (index.index_field_id, *(index.extra_field_ids or ()))
            row |= {
                "row_range_start": index.row_range_start,
                "row_range_end": index.row_range_end,
                "index_field_id": index.index_field_id,
                "index_field_name": ",".join(names[i] for i in ids) if all(i in names for i in ids) else None,
            }
        yield row


_KEYS = [f.name for f in _VECTOR.fields]
TABLES = (
    SystemTable("files", lambda schema: _FILES, _files),
    fixed("buckets", _BUCKETS, _buckets),
    fixed("partitions", _PARTITIONS, _partitions),
    fixed("manifests", _MANIFESTS, _manifests),
    fixed("table_indexes", _TABLE_INDEXES, _table_indexes),
)
