"""System tables of a table's history and settings: snapshots, schemas, options, tags, branches, consumers, and others.

Owns: their columns and values. Must not know: data files. Source: format/snapshot §1, §2, §6; format/schema §1.
Invariant: a predicate on the id or name decides which files are read at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...backends.store import ObjectNotFound
from ...coordinator.maintenance.expiry.consumers import list_consumers
from ...core.errors import TableCorrupt
from ...core.json_text import parse_json
from ...core.metadata.schema import TableSchema
from ...core.metadata.snapshot import Snapshot, parse_snapshot
from ...core.paths import BRANCH_DIR
from ...core.rows.types import field_json
from ..travel import tag_names
from .definition import View, Wanted, columns, fixed, local_time
from .texts import in_hash_order, java_sql

_Row = Mapping[str, Any]

# ---------------------------------------------------------------------------------------------------------- snapshots

_SNAPSHOTS = columns(
    ("snapshot_id", "BIGINT NOT NULL"),
    ("schema_id", "BIGINT NOT NULL"),
    ("commit_user", "STRING NOT NULL"),
    ("commit_identifier", "BIGINT NOT NULL"),
    ("commit_kind", "STRING NOT NULL"),
    ("commit_time", "TIMESTAMP(3) NOT NULL"),
    ("base_manifest_list", "STRING NOT NULL"),
    ("delta_manifest_list", "STRING NOT NULL"),
    ("changelog_manifest_list", "STRING"),
    ("total_record_count", "BIGINT"),
    ("delta_record_count", "BIGINT"),
    ("changelog_record_count", "BIGINT"),
    ("watermark", "BIGINT"),
    ("next_row_id", "BIGINT"),
    ("operation", "STRING"),
    ("writer_version", "STRING"),
)


def _snapshots(view: View, wanted: Wanted) -> Iterator[_Row]:
    ids = wanted.among("snapshot_id", view.timeline.snapshot_ids())
    for found in view.timeline.parallel(view.timeline.find, ids):
        if found is not None:
            yield {f.name: getattr(found, f.name, None) for f in _SNAPSHOTS} | {
                "snapshot_id": found.id,
                "commit_time": local_time(found.time_ms),
            }


# ------------------------------------------------------------------------------------------------ schemas and options

_SCHEMAS = columns(
    ("schema_id", "BIGINT NOT NULL"),
    ("fields", "STRING NOT NULL"),
    ("partition_keys", "STRING NOT NULL"),
    ("primary_keys", "STRING NOT NULL"),
    ("options", "STRING NOT NULL"),
    ("comment", "STRING"),
    ("update_time", "TIMESTAMP(3) NOT NULL"),
)
_OPTIONS = columns(("key", "STRING NOT NULL"), ("value", "STRING NOT NULL"))
_AGGREGATION_FIELDS = columns(
    ("field_name", "STRING NOT NULL"),
    ("field_type", "STRING NOT NULL"),
    ("function", "STRING"),
    ("function_options", "STRING"),
    ("comment", "STRING"),
)


def _flat_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _hashed(options: Mapping[str, str]) -> dict[str, str]:
    return {key: options[key] for key in in_hash_order(options)}


def _schemas(view: View, wanted: Wanted) -> Iterator[_Row]:
    ids = wanted.among("schema_id", view.timeline.schema_ids())
    for schema in view.timeline.parallel(view.timeline.schema, ids):
        yield {
            "schema_id": schema.id,
            "fields": _flat_json([field_json(f) for f in schema.fields]),
            "partition_keys": _flat_json(schema.partition_keys),
            "primary_keys": _flat_json(schema.primary_keys),
            "options": _flat_json(_hashed(dict(schema.option_texts))),
            "comment": schema.comment,
            "update_time": local_time(schema.time_ms),
        }


def _newest(view: View) -> TableSchema:
    return view.timeline.newest_schema(view.schema) if view.pinned else view.schema


def _options(view: View, wanted: Wanted) -> Iterator[_Row]:
    for key, value in _hashed(dict(_newest(view).option_texts)).items():
        yield {"key": key, "value": value}


def _aggregation_fields(view: View, wanted: Wanted) -> Iterator[_Row]:
    schema = _newest(view)
    found: dict[str, list[tuple[str, str]]] = {}
    for key, value in _hashed(dict(schema.option_texts)).items():
        parts = key.rstrip(".").split(".")
        if len(parts) > 2 and parts[0] == "fields":
            found.setdefault(parts[1], []).append((key, value))
    for field in schema.fields:
        options = found.get(field.name, [])
        yield {
            "field_name": field.name,
            "field_type": java_sql(field.type),
            "function": f"[{', '.join(value for _, value in options)}]",
            "function_options": f"[{', '.join(key for key, _ in options)}]",
            "comment": field.description,
        }


# ------------------------------------------------------------------------------------- tags, branches, consumers

_TAGS = columns(
    ("tag_name", "STRING NOT NULL"),
    ("snapshot_id", "BIGINT NOT NULL"),
    ("schema_id", "BIGINT NOT NULL"),
    ("commit_time", "TIMESTAMP(3) NOT NULL"),
    ("record_count", "BIGINT"),
    ("create_time", "TIMESTAMP(3)"),
    ("time_retained", "STRING"),
)
_BRANCHES = columns(("branch_name", "STRING NOT NULL"), ("create_time", "TIMESTAMP(3) NOT NULL"))
_CONSUMERS = columns(("consumer_id", "STRING NOT NULL"), ("next_snapshot_id", "BIGINT NOT NULL"))


def _tags(view: View, wanted: Wanted) -> Iterator[_Row]:
    names = wanted.among("tag_name", tag_names(view.timeline))

    def read(name: str) -> tuple[Snapshot, Any] | None:
        key = view.timeline.paths.tag(name)
        try:
            data = view.timeline.store.get(key)
        except ObjectNotFound:
            return None
        return parse_snapshot(data, key), parse_json(data)

    for name, found in zip(names, view.timeline.parallel(read, names), strict=True):
        if found is not None:
            tag, raw = found
            yield {
                "tag_name": name,
                "snapshot_id": tag.id,
                "schema_id": tag.schema_id,
                "commit_time": local_time(tag.time_ms),
                "record_count": tag.total_record_count,
                "create_time": _created(raw.get("tagCreateTime"), tag),
                "time_retained": _duration(raw.get("tagTimeRetained"), tag),
            }


def _created(parts: Any, tag: Snapshot) -> int | None:
    """`[year, month, day, hour, minute, second, nanosecond]` of a wall clock, the last ones optional, in milliseconds."""
    if parts is None:
        return None
    import datetime as dt

    try:
        given: list[int] = list(parts)
        year, month, day, hour, minute, second, nanos = given + [0] * (7 - len(given))
        moment = dt.datetime(year, month, day, hour, minute, second, tzinfo=dt.timezone.utc)
        return int(moment.timestamp()) * 1000 + int(nanos) // 1_000_000
    except (TypeError, ValueError) as error:
        raise TableCorrupt(f"{tag.read_from}: field 'tagCreateTime' is {parts!r}, not a time: {error}") from error


def _duration(seconds: Any, tag: Snapshot) -> str | None:
    """Seconds as Java prints a duration.

    >>> _duration(90061.5, None), _duration(0, None), _duration(3600, None)
    ('PT25H1M1.5S', 'PT0S', 'PT1H')
    """
    if seconds is None:
        return None
    from decimal import Decimal

    try:
        exact = Decimal(str(seconds))
        whole = int(exact // 1)
        nanos = int((exact - whole) * 1_000_000_000)
    except (ArithmeticError, ValueError) as error:
        raise TableCorrupt(
            f"{tag.read_from}: field 'tagTimeRetained' is {seconds!r}, not a number of seconds"
        ) from error
    text = f"{whole // 3600}H" if whole >= 3600 else ""
    text += f"{whole // 60 % 60}M" if whole // 60 % 60 else ""
    if whole % 60 or nanos:
        text += f"{whole % 60}" + (f".{nanos:09}".rstrip("0") if nanos else "") + "S"
    return f"PT{text or '0S'}"


def _branches(view: View, wanted: Wanted) -> Iterator[_Row]:
    """Object stores have no folders that were made at some time, so a branch is as old as its oldest file."""
    prefix = f"{BRANCH_DIR}/branch-"
    made: dict[str, int] = {}
    for info in view.timeline.store.list(f"{BRANCH_DIR}/"):
        if info.key.startswith(prefix) and "/" in info.key[len(prefix) :]:
            name = info.key[len(prefix) :].partition("/")[0]
            if not name:  # no branch can be called so
                continue
            made[name] = min(made.get(name, info.modified_ms), info.modified_ms)
    for name in sorted(made):
        yield {"branch_name": name, "create_time": local_time(made[name])}


def _consumers(view: View, wanted: Wanted) -> Iterator[_Row]:
    for found in list_consumers(view.timeline):
        yield {"consumer_id": found.name, "next_snapshot_id": found.next_snapshot}


# --------------------------------------------------------------------------------------------------------- statistics

_STATISTICS = columns(
    ("snapshot_id", "BIGINT NOT NULL"),
    ("schema_id", "BIGINT NOT NULL"),
    ("mergedRecordCount", "BIGINT"),
    ("mergedRecordSize", "BIGINT"),
    ("colstat", "STRING"),
)


def _statistics(view: View, wanted: Wanted) -> Iterator[_Row]:
    if view.snapshot is None or view.snapshot.statistics is None:
        return
    key = view.timeline.paths.statistics(view.snapshot.statistics, view.timeline.file_of(view.snapshot))
    try:
        raw = parse_json(view.timeline.store.get(key))
        told = raw.get("colStats") or {}
        yield {
            "snapshot_id": int(raw["snapshotId"]),
            "schema_id": int(raw["schemaId"]),
            "mergedRecordCount": raw.get("mergedRecordCount"),
            "mergedRecordSize": raw.get("mergedRecordSize"),
            "colstat": json.dumps(told, indent=2, separators=(",", " : "), ensure_ascii=False) if told else "{ }",
        }
    except ObjectNotFound:
        raise TableCorrupt(f"{key} is missing; {view.timeline.file_of(view.snapshot)} names it") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TableCorrupt(f"{key} is not a file of statistics: {error!r}") from error


TABLES = (
    fixed("snapshots", _SNAPSHOTS, _snapshots),
    fixed("schemas", _SCHEMAS, _schemas),
    fixed("options", _OPTIONS, _options),
    fixed("tags", _TAGS, _tags),
    fixed("branches", _BRANCHES, _branches),
    fixed("consumers", _CONSUMERS, _consumers),
    fixed("statistics", _STATISTICS, _statistics),
    fixed("aggregation_fields", _AGGREGATION_FIELDS, _aggregation_fields),
)
