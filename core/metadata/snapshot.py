"""A snapshot file: one published state of a table.

Owns: `Snapshot`, reading and writing its JSON, its identity, and the properties that lakelatch adds to it.
Must not know: its location, how it is published. Source: format/snapshot §2; architecture §3 (identity).
Invariants: Version 3 with a uuid is written. Versions 1 to 3 are read. Unknown keys are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ..errors import TableCorrupt
from ..json_text import parse_json

SNAPSHOT_VERSION = 3
BATCH_IDENTIFIER = 9_223_372_036_854_775_807
"""The `commitIdentifier` of a commit without an identifier."""

WRITER = "lakelatch-"
"""The start of `writerVersion` in lakelatch's snapshots."""

UNDONE = "undo.snapshot"
"""Property of the snapshot that an undo makes: the id of the snapshot whose commit it takes back."""
UNDONE_COMMIT = "undo.commit"
"""Property beside it where that snapshot has several commits: the id of the one that is taken back."""

REPLACED = "overwrite.partitions"
"""Property of an overwrite that names partitions: a JSON list of their paths, as `PartitionCodec.spec_path` gives them."""
_MOST_REPLACED = 100
"""A longer list says that the whole table may be meant."""

CommitKind = Literal["APPEND", "COMPACT", "OVERWRITE", "ANALYZE"]
KINDS = ("APPEND", "COMPACT", "OVERWRITE", "ANALYZE")

OperationWord = Literal["WRITE", "OVERWRITE", "DELETE", "TRUNCATE", "UPDATE", "MERGE"]
"""The words for an operation that lakelatch writes …"""
OPERATIONS = (
    *("WRITE", "OVERWRITE", "DELETE", "TRUNCATE", "UPDATE", "MERGE"),
    *("CREATE_TABLE_AS_SELECT", "REPLACE_TABLE_AS_SELECT", "CREATE_OR_REPLACE_TABLE_AS_SELECT"),
)
"""… and all that Apache Paimon 2.0 can read: a snapshot with any other one cannot be parsed there (decision 87)."""


@dataclass(frozen=True)
class Snapshot:
    """The contents of a snapshot file. Attribute names are the format's (format/snapshot §2)."""

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_ms: int
    total_record_count: int
    delta_record_count: int
    uuid: str | None = None
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    index_manifest: str | None = None
    changelog_record_count: int | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    next_row_id: int | None = None
    operation: str | None = None
    writer_version: str | None = None
    version: int = SNAPSHOT_VERSION
    read_from: str = field(default="", compare=False, repr=False)

    @property
    def identity(self) -> str:
        """Distinguishes this snapshot from others with the same id: its uuid, or the names of its lists (architecture §3).

        >>> Snapshot(1, 0, "b", "d", "me", 7, "APPEND", 0, 1, 1).identity
        'b|d'
        """
        return self.uuid or f"{self.base_manifest_list}|{self.delta_manifest_list}"

    @property
    def own_properties(self) -> dict[str, str]:
        """The properties if lakelatch wrote the snapshot. Apache Paimon's manifest compaction copies old ones."""
        return self.properties if (self.writer_version or "").startswith(WRITER) else {}

    def to_json(self) -> bytes:
        """The JSON in the format's order, without nulls and without an operation that others cannot parse."""
        out: dict[str, Any] = {
            "version": self.version,
            "uuid": self.uuid,
            "id": self.id,
            "schemaId": self.schema_id,
            "baseManifestList": self.base_manifest_list,
            "baseManifestListSize": self.base_manifest_list_size,
            "deltaManifestList": self.delta_manifest_list,
            "deltaManifestListSize": self.delta_manifest_list_size,
            "changelogManifestList": self.changelog_manifest_list,
            "changelogManifestListSize": self.changelog_manifest_list_size,
            "indexManifest": self.index_manifest,
            "commitUser": self.commit_user,
            "writerVersion": self.writer_version,
            "commitIdentifier": self.commit_identifier,
            "commitKind": self.commit_kind,
            "timeMillis": self.time_ms,
            "totalRecordCount": self.total_record_count,
            "deltaRecordCount": self.delta_record_count,
            "changelogRecordCount": self.changelog_record_count,
            "watermark": self.watermark,
            "statistics": self.statistics,
            "properties": self.properties or None,
            "nextRowId": self.next_row_id,
            "operation": self.operation if self.operation in OPERATIONS else None,
        }
        return json.dumps({k: v for k, v in out.items() if v is not None}, indent=2, ensure_ascii=False).encode()


def replaced_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """The paths of named partitions as the property `REPLACED` has them: the whole table instead of very many."""
    return tuple(paths) if len(paths) <= _MOST_REPLACED else ("",)


def replaced_text(paths: Sequence[str]) -> str:
    return json.dumps(paths, separators=(",", ":"), ensure_ascii=False)


def replaced_by(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The paths of the partitions that an overwrite names ("" for the whole table), or None. Raises TableCorrupt."""
    if snapshot.operation == "TRUNCATE":
        return ("",)
    text = snapshot.own_properties.get(REPLACED)
    if text is None:
        return None
    try:
        return tuple(str(path) for path in parse_json(text))
    except (ValueError, TypeError) as error:
        raise TableCorrupt(f"snapshot-{snapshot.id}: property '{REPLACED}' is garbled: {error!r}") from error


def parse_snapshot(data: bytes, where: str) -> Snapshot:
    try:
        raw = parse_json(data)
        if not isinstance(raw, dict):
            raise TypeError("not a JSON object")
        version = _number(raw, "version", where)
        if not 1 <= version <= SNAPSHOT_VERSION:
            raise TableCorrupt(f"{where}: field 'version' is {version}; up to {SNAPSHOT_VERSION} can be read")
        if raw["commitKind"] not in KINDS:
            raise TableCorrupt(f"{where}: field 'commitKind' is {raw['commitKind']!r}")
        return _from_raw(raw, version, where)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableCorrupt(f"{where} is not a snapshot: {error!r}") from error


def _from_raw(raw: dict[str, Any], version: int, where: str) -> Snapshot:
    return Snapshot(
        version=version,
        uuid=_text(raw, "uuid", where),
        id=_number(raw, "id", where),
        schema_id=_number(raw, "schemaId", where),
        base_manifest_list=_required_text(raw, "baseManifestList", where),
        base_manifest_list_size=_optional(raw, "baseManifestListSize", where),
        delta_manifest_list=_required_text(raw, "deltaManifestList", where),
        delta_manifest_list_size=_optional(raw, "deltaManifestListSize", where),
        changelog_manifest_list=_text(raw, "changelogManifestList", where),
        changelog_manifest_list_size=_optional(raw, "changelogManifestListSize", where),
        index_manifest=_text(raw, "indexManifest", where),
        commit_user=_required_text(raw, "commitUser", where),
        writer_version=_text(raw, "writerVersion", where),
        commit_identifier=_number(raw, "commitIdentifier", where),
        commit_kind=cast(CommitKind, raw["commitKind"]),
        time_ms=_number(raw, "timeMillis", where),
        total_record_count=_optional(raw, "totalRecordCount", where) or 0,
        delta_record_count=_optional(raw, "deltaRecordCount", where) or 0,
        changelog_record_count=_optional(raw, "changelogRecordCount", where),
        watermark=_optional(raw, "watermark", where),
        statistics=_text(raw, "statistics", where),
        properties={str(k): str(v) for k, v in (raw.get("properties") or {}).items()},
        next_row_id=_optional(raw, "nextRowId", where),
        operation=_text(raw, "operation", where),
        read_from=where,
    )


def _number(raw: dict[str, Any], key: str, where: str) -> int:
    value = raw[key]
    if isinstance(value, bool) or not isinstance(value, int):
        raise TableCorrupt(f"{where}: field '{key}' is {value!r}, not a whole number")
    return value


def _optional(raw: dict[str, Any], key: str, where: str) -> int | None:
    return None if raw.get(key) is None else _number(raw, key, where)


def _text(raw: dict[str, Any], key: str, where: str) -> str | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise TableCorrupt(f"{where}: field '{key}' is {value!r}, not text")
    return value


def _required_text(raw: dict[str, Any], key: str, where: str) -> str:
    value = _text(raw, key, where)
    if value is None:
        raise TableCorrupt(f"{where}: field '{key}' is missing")
    return value
