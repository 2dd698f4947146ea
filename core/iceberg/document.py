"""The document of a table in Iceberg's form, `metadata.json`, which shows one snapshot.

Owns: `Shown`, `document_of`. Must not know: stores. Source: Iceberg's specification, "Table Metadata".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..metadata.schema import TableSchema
from ..metadata.snapshot import Snapshot
from .manifests import partition_spec
from .types import schema_of

PLAIN, WITH_ROW_LINEAGE = 2, 3
"""The versions of Iceberg's format: deletion vectors and nanoseconds need the second."""
_LAST_PARTITION_ID_OF_NONE = 999


@dataclass(frozen=True)
class Shown:
    """What a snapshot has: its manifest list, and the sums over its files."""

    snapshot: Snapshot
    manifest_list: str
    row_count: int
    file_count: int
    size: int
    vector_count: int
    deleted_count: int


def document_of(
    schema: TableSchema, uuid: str, location: str, version: int, shown: Shown | None, names: str | None
) -> bytes:
    """The bytes of the document.

    Args:
        schema: the one that rows are read as.
        uuid: names the table; the same in each of its documents.
        shown: the snapshot; None for a table without one.
        names: which columns are meant in files that have no field ids, as `names.mapping_of` gives them.
    """
    millis = schema.time_ms if shown is None else shown.snapshot.time_ms
    partition = partition_spec(schema.partition_fields)
    out: dict[str, Any] = {
        "format-version": version,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": 0 if shown is None else shown.snapshot.id,
        "last-updated-ms": millis,
        "last-column-id": schema.highest_field_id,
        "schemas": [schema_of(schema.fields, schema.id)],
        "current-schema-id": schema.id,
        "partition-specs": [{"spec-id": 0, "fields": partition}],
        "default-spec-id": 0,
        "last-partition-id": max((f["field-id"] for f in partition), default=_LAST_PARTITION_ID_OF_NONE),
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {} if names is None else {"schema.name-mapping.default": names},
        "current-snapshot-id": -1,
        "refs": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    rows = 0 if shown is None else shown.row_count
    if version == WITH_ROW_LINEAGE:
        out["next-row-id"] = rows
    if shown is not None:
        out["current-snapshot-id"] = shown.snapshot.id
        out["refs"] = {"main": {"snapshot-id": shown.snapshot.id, "type": "branch"}}
        out["snapshots"] = [_snapshot(shown, schema.id, version)]
        out["snapshot-log"] = [{"timestamp-ms": millis, "snapshot-id": shown.snapshot.id}]
    return json.dumps(out, indent=2, ensure_ascii=False).encode()


def _snapshot(shown: Shown, schema_id: int, version: int) -> dict[str, Any]:
    out: dict[str, Any] = {
        "snapshot-id": shown.snapshot.id,
        "sequence-number": shown.snapshot.id,
        "timestamp-ms": shown.snapshot.time_ms,
        "manifest-list": shown.manifest_list,
        "schema-id": schema_id,
        "summary": {
            "operation": "append",
            "added-data-files": str(shown.file_count),
            "added-records": str(shown.row_count),
            "added-files-size": str(shown.size),
            "total-data-files": str(shown.file_count),
            "total-records": str(shown.row_count),
            "total-files-size": str(shown.size),
            "total-delete-files": str(shown.vector_count),
            "total-position-deletes": str(shown.deleted_count),
            "total-equality-deletes": "0",
        },
    }
    if version == WITH_ROW_LINEAGE:
        out |= {"first-row-id": 0, "added-rows": shown.row_count}
    return out
