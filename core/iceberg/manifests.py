"""Iceberg's manifests and manifest lists.

Owns: their records and Avro schemas, for versions 2 and 3 of Iceberg's format. Must not know: how a table names its files.
Source: Iceberg's specification, "Manifests", "Snapshots" and Appendix A. Invariant: every entry is one that its own snapshot
added, and says its snapshot and sequence number itself.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import fastavro

from ..rows.types import AtomicType, Field
from ..rows.values import order_key
from .values import bound_bytes, partition_type, partition_value

DATA, DELETES = 0, 1
_POSITION_DELETES = 1
_ADDED = 1
_SPEC = 0
_FIRST_PARTITION_ID = 1000
_CODEC = "deflate"  # every reader has it


@dataclass(frozen=True)
class PublishedFile:
    """A data file as Iceberg sees it.

    Attributes:
        url: where it is.
        partition: its values, in the order of the partition columns.
        value_counts, null_counts, lower_bounds, upper_bounds: by field id, for columns of which they are known.
    """

    url: str
    partition: tuple[Any, ...]
    row_count: int
    size: int
    value_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]


@dataclass(frozen=True)
class PublishedVector:
    """The deletion vector of a data file: where it begins in its Puffin file, and the bytes and rows that it has."""

    file: PublishedFile
    puffin_url: str
    puffin_size: int
    offset: int
    length: int
    cardinality: int


@dataclass(frozen=True)
class Layout:
    """What the manifests of a snapshot have in common: the version of the format, the snapshot, the schema's JSON form."""

    version: int
    snapshot_id: int
    schema: Mapping[str, Any]
    partition_fields: tuple[Field, ...]


def partition_spec(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """The fields of the one partition spec: each column as it is."""
    return [
        {"name": f.name, "transform": "identity", "source-id": f.id, "field-id": _FIRST_PARTITION_ID + i}
        for i, f in enumerate(fields)
    ]


def data_manifest(files: Sequence[PublishedFile], layout: Layout) -> bytes:
    return _manifest([_data_record(file, layout) for file in files], layout, "data")


def delete_manifest(vectors: Sequence[PublishedVector], layout: Layout) -> bytes:
    return _manifest([_vector_record(vector, layout) for vector in vectors], layout, "deletes")


@dataclass(frozen=True)
class ListedManifest:
    """A manifest as its list names it; `first_row_id` is that of its first row, for data in version 3."""

    url: str
    size: int
    content: int
    files: Sequence[PublishedFile]
    row_count: int
    first_row_id: int | None = None


def manifest_list(manifests: Iterable[ListedManifest], layout: Layout) -> bytes:
    schema = _record(
        "manifest_file",
        _required("manifest_path", "string", 500),
        _required("manifest_length", "long", 501),
        _required("partition_spec_id", "int", 502),
        _required("content", "int", 517),
        _required("sequence_number", "long", 515),
        _required("min_sequence_number", "long", 516),
        _required("added_snapshot_id", "long", 503),
        *(_required(f"{what}_files_count", "int", 504 + i) for i, what in enumerate(_STATES)),
        *(_required(f"{what}_rows_count", "long", 512 + i) for i, what in enumerate(_STATES)),
        _optional("partitions", {"type": "array", "element-id": 508, "items": _SUMMARY}, 507),
        *([_optional("first_row_id", "long", 520)] if layout.version > 2 else []),
    )
    parent = {"snapshot-id": str(layout.snapshot_id), "sequence-number": str(layout.snapshot_id)}
    return _container(
        schema, [_listed(each, layout) for each in manifests], {**parent, "format-version": str(layout.version)}
    )


_STATES = ("added", "existing", "deleted")


def _listed(manifest: ListedManifest, layout: Layout) -> dict[str, Any]:
    return {
        "manifest_path": manifest.url,
        "manifest_length": manifest.size,
        "partition_spec_id": _SPEC,
        "content": manifest.content,
        "sequence_number": layout.snapshot_id,
        "min_sequence_number": layout.snapshot_id,
        "added_snapshot_id": layout.snapshot_id,
        "added_files_count": len(manifest.files),
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": manifest.row_count,
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": [
            _summary([file.partition[i] for file in manifest.files], field)
            for i, field in enumerate(layout.partition_fields)
        ],
        "first_row_id": manifest.first_row_id,
    }


def _summary(values: Sequence[Any], field: Field) -> dict[str, Any]:
    assert isinstance(field.type, AtomicType)
    known = sorted((v for v in set(values) if v is not None and v == v), key=order_key)
    return {
        "contains_null": None in values,
        "contains_nan": any(v != v for v in values),
        "lower_bound": bound_bytes(known[0], field.type) if known else None,
        "upper_bound": bound_bytes(known[-1], field.type) if known else None,
    }


def _data_record(file: PublishedFile, layout: Layout) -> dict[str, Any]:
    return {
        "content": DATA,
        "file_path": file.url,
        "file_format": "PARQUET",
        "partition": _partition_record(file, layout),
        "record_count": file.row_count,
        "file_size_in_bytes": file.size,
        **{name: _pairs(getattr(file, attribute)) for name, attribute, *_ in _MAPS},
    }


def _vector_record(vector: PublishedVector, layout: Layout) -> dict[str, Any]:
    return {
        "content": _POSITION_DELETES,
        "file_path": vector.puffin_url,
        "file_format": "PUFFIN",
        "partition": _partition_record(vector.file, layout),
        "record_count": vector.cardinality,
        "file_size_in_bytes": vector.puffin_size,
        "referenced_data_file": vector.file.url,
        "content_offset": vector.offset,
        "content_size_in_bytes": vector.length,
    }


def _partition_record(file: PublishedFile, layout: Layout) -> dict[str, Any]:
    """The values under the names of the record's fields, which need not be those of the columns: ids tell which is which."""
    return {
        _avro_name(i): partition_value(value, field.type)
        for i, (field, value) in enumerate(zip(layout.partition_fields, file.partition, strict=True))
        if isinstance(field.type, AtomicType)
    }


def _avro_name(index: int) -> str:
    """Avro's names have no blanks or dots, as those of columns may have."""
    return f"p{index}"


def _pairs(values: Mapping[int, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _manifest(records: Sequence[dict[str, Any]], layout: Layout, content: str) -> bytes:
    partition = [
        _optional(_avro_name(i), partition_type(field.type), _FIRST_PARTITION_ID + i)
        for i, field in enumerate(layout.partition_fields)
        if isinstance(field.type, AtomicType)
    ]
    data_file = _record(
        "r2",
        _required("content", "int", 134),
        _required("file_path", "string", 100),
        _required("file_format", "string", 101),
        _required("partition", _record("r102", *partition), 102),
        _required("record_count", "long", 103),
        _required("file_size_in_bytes", "long", 104),
        *(_optional(name, _map(key, value, kind), number) for name, _, number, key, value, kind in _MAPS),
        _optional("referenced_data_file", "string", 143),
        *(_VECTOR_FIELDS if layout.version > 2 else ()),
    )
    entry = _record(
        "manifest_entry",
        _required("status", "int", 0),
        _optional("snapshot_id", "long", 1),
        _optional("sequence_number", "long", 3),
        _optional("file_sequence_number", "long", 4),
        _required("data_file", data_file, 2),
    )
    entries = [
        {
            "status": _ADDED,
            "snapshot_id": layout.snapshot_id,
            "sequence_number": layout.snapshot_id,
            "file_sequence_number": layout.snapshot_id,
            "data_file": record,
        }
        for record in records
    ]
    return _container(
        entry,
        entries,
        {
            "schema": json.dumps(layout.schema),
            "schema-id": str(layout.schema["schema-id"]),
            "partition-spec": json.dumps(partition_spec(layout.partition_fields)),
            "partition-spec-id": str(_SPEC),
            "format-version": str(layout.version),
            "content": content,
        },
    )


def _container(schema: dict[str, Any], records: Sequence[dict[str, Any]], told: Mapping[str, str]) -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, schema, records, codec=_CODEC, metadata=dict(told))
    return sink.getvalue()


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _required(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": number}


def _optional(name: str, kind: Any, number: int) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": number}


def _map(key: int, value: int, kind: str) -> dict[str, Any]:
    """A map by field id: Avro's own maps have only texts as keys."""
    item = _record(f"k{key}_v{value}", _required("key", "int", key), _required("value", kind, value))
    return {"type": "array", "logicalType": "map", "items": item}


_MAPS = (
    ("value_counts", "value_counts", 109, 119, 120, "long"),
    ("null_value_counts", "null_counts", 110, 121, 122, "long"),
    ("lower_bounds", "lower_bounds", 125, 126, 127, "bytes"),
    ("upper_bounds", "upper_bounds", 128, 129, 130, "bytes"),
)
"""The maps of a data file: name, attribute of `PublishedFile`, ids of the field, the key and the value, type of the value."""
_VECTOR_FIELDS = (_optional("content_offset", "long", 144), _optional("content_size_in_bytes", "long", 145))
_SUMMARY = _record(
    "r508",
    _required("contains_null", "boolean", 509),
    _optional("contains_nan", "boolean", 518),
    _optional("lower_bound", "bytes", 510),
    _optional("upper_bound", "bytes", 511),
)
