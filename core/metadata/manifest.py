"""Encode and decode manifests, manifest lists and index manifests.

Owns: the meaning of each field, and of its absence (the schemas are in `manifest_schema`).
Must not know: which snapshot uses them, their locations. Source: format/manifests §2, §3, §7.
Invariants: A field that an older writer left out is read as null. An unknown `_KIND` or `_VERSION` is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import groupby
from typing import Any

from ..avro import records as avro
from ..avro.blocks import MAGIC, Irregular, schema_of
from ..avro.columns import read_columns
from ..errors import TableCorrupt
from .data_file import (
    EMPTY_ROW,
    DataFile,
    DeletionVectorRange,
    GlobalIndex,
    IndexEntry,
    IndexFile,
    ManifestEntry,
    SimpleStats,
)
from .manifest_columns import EntryColumns
from .manifest_schema import MANIFEST_VERSION, parsed

INDEX_MANIFEST_VERSION = 1
KEPT_LINES = 4096
"""The lines of lists whose bytes are kept, a few hundred bytes each."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """One entry of a manifest list: a manifest, and the ranges of its entries' values (format/manifests §3)."""

    file_name: str
    file_size: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None
    listed_in: str = field(default="", compare=False, repr=False)
    """The name of the manifest list that it was read from."""


# ----------------------------------------------------------------------------------------------------------- writing


def encode_manifest(
    entries: Iterable[ManifestEntry], *, compression: str = "zstd", level: int = 1, form: str = "avro"
) -> bytes:
    """`form` is option `manifest.format`: `avro`, `orc` or `parquet`."""
    records = (
        {
            "_VERSION": MANIFEST_VERSION,
            "_KIND": entry.kind,
            "_PARTITION": entry.partition,
            "_BUCKET": entry.bucket,
            "_TOTAL_BUCKETS": entry.total_buckets,
            "_FILE": _file_record(entry.file),
        }
        for entry in entries
    )
    return avro.write_records(parsed("manifest"), records, compression=compression, level=level, form=form)


def encode_manifest_list(
    manifests: Iterable[ManifestFile], *, compression: str = "zstd", level: int = 1, form: str = "avro"
) -> bytes:
    """A manifest list's bytes. An empty list is a file with a header and no records.

    Each commit writes a list of all manifests, of which nearly all were in the list before it. Their lines are kept.
    """
    if form == "avro" and compression in avro.KEPT_CODECS:
        lines = map(_encoded_line, manifests)
        return avro.with_encoded(_list_header(compression), lines, compression=compression, level=level)
    records = map(_line, manifests)
    return avro.write_records(parsed("list"), records, compression=compression, level=level, form=form)


def _line(m: ManifestFile) -> dict[str, Any]:
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": m.file_name,
        "_FILE_SIZE": m.file_size,
        "_NUM_ADDED_FILES": m.num_added_files,
        "_NUM_DELETED_FILES": m.num_deleted_files,
        "_PARTITION_STATS": _stats_record(m.partition_stats),
        "_SCHEMA_ID": m.schema_id,
        "_MIN_BUCKET": m.min_bucket,
        "_MAX_BUCKET": m.max_bucket,
        "_MIN_LEVEL": m.min_level,
        "_MAX_LEVEL": m.max_level,
        "_MIN_ROW_ID": m.min_row_id,
        "_MAX_ROW_ID": m.max_row_id,
    }


@lru_cache(maxsize=KEPT_LINES)
def _encoded_line(manifest: ManifestFile) -> bytes:
    return avro.encoded(parsed("list"), _line(manifest))


@cache
def _list_header(compression: str) -> bytes:
    return avro.write_records(parsed("list"), (), compression=compression)


def encode_index_manifest(
    entries: Iterable[IndexEntry], *, compression: str = "zstd", level: int = 1, form: str = "avro"
) -> bytes:
    records = (
        {
            "_VERSION": INDEX_MANIFEST_VERSION,
            "_KIND": entry.kind,
            "_PARTITION": entry.partition,
            "_BUCKET": entry.bucket,
            "_INDEX_TYPE": entry.file.index_type,
            "_FILE_NAME": entry.file.file_name,
            "_FILE_SIZE": entry.file.file_size,
            "_ROW_COUNT": entry.file.row_count,
            "_DELETIONS_VECTORS_RANGES": _range_records(entry.file.deletion_vectors),
            "_EXTERNAL_PATH": entry.file.external_path,
            "_GLOBAL_INDEX": _global_index_record(entry.file.global_index),
        }
        for entry in entries
    )
    return avro.write_records(parsed("index"), records, compression=compression, level=level, form=form)


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    counts = None if stats.null_counts is None else list(stats.null_counts)
    return {"_MIN_VALUES": stats.min_values, "_MAX_VALUES": stats.max_values, "_NULL_COUNTS": counts}


def _list_or_none(values: Sequence[Any] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _file_record(file: DataFile) -> dict[str, Any]:
    return {
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.file_size,
        "_ROW_COUNT": file.row_count,
        "_MIN_KEY": file.min_key,
        "_MAX_KEY": file.max_key,
        "_KEY_STATS": _stats_record(file.key_stats),
        "_VALUE_STATS": _stats_record(file.value_stats),
        "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
        "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
        "_SCHEMA_ID": file.schema_id,
        "_LEVEL": file.level,
        "_EXTRA_FILES": list(file.extra_files),
        "_CREATION_TIME": file.creation_time,
        "_DELETE_ROW_COUNT": file.delete_row_count,
        "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
        "_FILE_SOURCE": file.file_source,
        "_VALUE_STATS_COLS": _list_or_none(file.value_stats_cols),
        "_EXTERNAL_PATH": file.external_path,
        "_FIRST_ROW_ID": file.first_row_id,
        "_WRITE_COLS": _list_or_none(file.write_cols),
        "_WRITE_COLS_SEQUENCES": _list_or_none(file.write_cols_sequences),
    }


def _range_records(ranges: tuple[DeletionVectorRange, ...] | None) -> list[dict[str, Any]] | None:
    if ranges is None:
        return None
    return [{"f0": r.data_file, "f1": r.offset, "f2": r.length, "_CARDINALITY": r.cardinality} for r in ranges]


def _global_index_record(index: GlobalIndex | None) -> dict[str, Any] | None:
    if index is None:
        return None
    return {
        "_ROW_RANGE_START": index.row_range_start,
        "_ROW_RANGE_END": index.row_range_end,
        "_INDEX_FIELD_ID": index.index_field_id,
        "_EXTRA_FIELD_IDS": _list_or_none(index.extra_field_ids),
        "_INDEX_META": index.index_meta,
        "_SOURCE_META": index.source_meta,
    }


# ----------------------------------------------------------------------------------------------------------- reading


def decode_manifest(data: bytes, where: str) -> list[ManifestEntry]:
    """The entries in order. Raises TableCorrupt for damaged bytes, a missing field, or an unknown `_KIND` or `_VERSION`."""
    entries = []
    try:
        for record in avro.read_records(data, where):
            _check_head(record, MANIFEST_VERSION, where)
            entries.append(
                ManifestEntry(
                    record["_KIND"],
                    record["_PARTITION"],
                    record["_BUCKET"],
                    record["_TOTAL_BUCKETS"],
                    _file(record["_FILE"]),
                )
            )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableCorrupt(f"{where}: a field of a manifest entry is missing or wrong: {error!r}") from error
    return entries


def decode_manifests(manifests: Sequence[tuple[str, bytes]]) -> Iterator[EntryColumns | list[ManifestEntry]]:
    """Manifests, given by name and bytes, in order: as columns where possible, and entries otherwise. Raises TableCorrupt."""
    for _, group in groupby(manifests, key=lambda manifest: _layout(manifest[1])):
        alike = list(group)
        try:
            yield EntryColumns(read_columns([data for _, data in alike]), [name for name, _ in alike])
        except Irregular:
            yield [entry for name, data in alike for entry in decode_manifest(data, name)]


def _layout(data: bytes) -> bytes:
    try:
        return schema_of(data) if data[:4] == MAGIC else data[:4]
    except Irregular:
        return b""


def decode_manifest_list(data: bytes, where: str) -> list[ManifestFile]:
    try:
        return [
            ManifestFile(
                file_name=r["_FILE_NAME"],
                file_size=r["_FILE_SIZE"],
                num_added_files=r["_NUM_ADDED_FILES"],
                num_deleted_files=r["_NUM_DELETED_FILES"],
                partition_stats=_stats(r["_PARTITION_STATS"]),
                schema_id=r["_SCHEMA_ID"],
                min_bucket=r.get("_MIN_BUCKET"),
                max_bucket=r.get("_MAX_BUCKET"),
                min_level=r.get("_MIN_LEVEL"),
                max_level=r.get("_MAX_LEVEL"),
                min_row_id=r.get("_MIN_ROW_ID"),
                max_row_id=r.get("_MAX_ROW_ID"),
                listed_in=where,
            )
            for r in avro.read_records(data, where)
            if _check_version(r, MANIFEST_VERSION, where)
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableCorrupt(f"{where}: a field of a manifest list entry is missing or wrong: {error!r}") from error


def decode_index_manifest(data: bytes, where: str) -> list[IndexEntry]:
    try:
        entries = []
        for r in avro.read_records(data, where):
            _check_head(r, INDEX_MANIFEST_VERSION, where)
            file = IndexFile(
                index_type=r["_INDEX_TYPE"],
                file_name=r["_FILE_NAME"],
                file_size=r["_FILE_SIZE"],
                row_count=r["_ROW_COUNT"],
                deletion_vectors=_ranges(r.get("_DELETIONS_VECTORS_RANGES")),
                external_path=r.get("_EXTERNAL_PATH"),
                global_index=_global_index(r.get("_GLOBAL_INDEX")),
            )
            entries.append(IndexEntry(r["_KIND"], r["_PARTITION"], r["_BUCKET"], file, listed_in=where))
        return entries
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TableCorrupt(f"{where}: a field of an index manifest entry is missing or wrong: {error!r}") from error


def _check_head(record: dict[str, Any], version: int, where: str) -> None:
    _check_version(record, version, where)
    if record["_KIND"] not in (0, 1):
        raise TableCorrupt(f"{where}: field '_KIND' is {record['_KIND']!r}; 0 (add) and 1 (delete) are known")


def _check_version(record: dict[str, Any], version: int, where: str) -> bool:
    if record["_VERSION"] != version:
        raise TableCorrupt(f"{where}: field '_VERSION' is {record['_VERSION']!r}; {version} is known")
    return True


def _tuple_or_none(values: Sequence[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


def _stats(record: dict[str, Any] | None) -> SimpleStats:
    if record is None:
        return SimpleStats(EMPTY_ROW, EMPTY_ROW, None)
    return SimpleStats(record["_MIN_VALUES"], record["_MAX_VALUES"], _tuple_or_none(record.get("_NULL_COUNTS")))


def _file(r: dict[str, Any]) -> DataFile:
    created = r.get("_CREATION_TIME")
    return DataFile(
        file_name=r["_FILE_NAME"],
        file_size=r["_FILE_SIZE"],
        row_count=r["_ROW_COUNT"],
        min_key=r["_MIN_KEY"],
        max_key=r["_MAX_KEY"],
        key_stats=_stats(r["_KEY_STATS"]),
        value_stats=_stats(r["_VALUE_STATS"]),
        min_sequence_number=r["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=r["_MAX_SEQUENCE_NUMBER"],
        schema_id=r["_SCHEMA_ID"],
        level=r["_LEVEL"],
        extra_files=tuple(r["_EXTRA_FILES"] or ()),
        creation_time=None if created is None else _millis(created),
        delete_row_count=r.get("_DELETE_ROW_COUNT"),
        embedded_file_index=r.get("_EMBEDDED_FILE_INDEX"),
        file_source=r.get("_FILE_SOURCE"),
        value_stats_cols=_tuple_or_none(r.get("_VALUE_STATS_COLS")),
        external_path=r.get("_EXTERNAL_PATH"),
        first_row_id=r.get("_FIRST_ROW_ID"),
        write_cols=_tuple_or_none(r.get("_WRITE_COLS")),
        write_cols_sequences=_tuple_or_none(r.get("_WRITE_COLS_SEQUENCES")),
    )


def _millis(value: Any) -> int:
    if isinstance(value, int):
        return value
    from datetime import datetime, timedelta, timezone

    moment = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    return int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1))


def _ranges(records: list[dict[str, Any]] | None) -> tuple[DeletionVectorRange, ...] | None:
    if records is None:
        return None
    return tuple(DeletionVectorRange(r["f0"], r["f1"], r["f2"], r.get("_CARDINALITY")) for r in records if r)


def _global_index(r: dict[str, Any] | None) -> GlobalIndex | None:
    if r is None:
        return None
    return GlobalIndex(
        r["_ROW_RANGE_START"],
        r["_ROW_RANGE_END"],
        r["_INDEX_FIELD_ID"],
        _tuple_or_none(r.get("_EXTRA_FIELD_IDS")),
        r.get("_INDEX_META"),
        r.get("_SOURCE_META"),
    )
