"""The three Avro schemas of the format's metadata, exactly as Apache Paimon writes them.

Owns: field names, order and types of manifest list, manifest and index manifest. Must not know: what the fields mean.
Source: format/manifests §2. Invariant: The order of fields must not change, because newer readers copy blocks between files.
"""

from __future__ import annotations

from functools import cache
from typing import Any

MANIFEST_VERSION = 2

_STATS_FIELDS = [
    {"name": "_MIN_VALUES", "type": "bytes"},
    {"name": "_MAX_VALUES", "type": "bytes"},
    {"name": "_NULL_COUNTS", "type": ["null", {"type": "array", "items": ["null", "long"]}], "default": None},
]


def _record(name: str, fields: list[Any]) -> dict[str, Any]:
    return {"type": "record", "name": f"org.apache.paimon.avro.generated.{name}", "fields": fields}


def _plain(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": avro_type}


def _nullable(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


_MANIFEST_LIST = _record(
    "record",
    [
        _plain("_VERSION", "int"),
        _plain("_FILE_NAME", "string"),
        _plain("_FILE_SIZE", "long"),
        _plain("_NUM_ADDED_FILES", "long"),
        _plain("_NUM_DELETED_FILES", "long"),
        _plain("_PARTITION_STATS", _record("record__PARTITION_STATS", _STATS_FIELDS)),
        _plain("_SCHEMA_ID", "long"),
        *(_nullable(name, "int") for name in ("_MIN_BUCKET", "_MAX_BUCKET", "_MIN_LEVEL", "_MAX_LEVEL")),
        *(_nullable(name, "long") for name in ("_MIN_ROW_ID", "_MAX_ROW_ID")),
    ],
)

_FILE = _record(
    "record__FILE",
    [
        _plain("_FILE_NAME", "string"),
        _plain("_FILE_SIZE", "long"),
        _plain("_ROW_COUNT", "long"),
        _plain("_MIN_KEY", "bytes"),
        _plain("_MAX_KEY", "bytes"),
        _plain("_KEY_STATS", _record("record__FILE__KEY_STATS", _STATS_FIELDS)),
        _plain("_VALUE_STATS", _record("record__FILE__VALUE_STATS", _STATS_FIELDS)),
        _plain("_MIN_SEQUENCE_NUMBER", "long"),
        _plain("_MAX_SEQUENCE_NUMBER", "long"),
        _plain("_SCHEMA_ID", "long"),
        _plain("_LEVEL", "int"),
        _plain("_EXTRA_FILES", {"type": "array", "items": "string"}),
        _nullable("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _nullable("_DELETE_ROW_COUNT", "long"),
        _nullable("_EMBEDDED_FILE_INDEX", "bytes"),
        _nullable("_FILE_SOURCE", "int"),
        _nullable("_VALUE_STATS_COLS", {"type": "array", "items": "string"}),
        _nullable("_EXTERNAL_PATH", "string"),
        _nullable("_FIRST_ROW_ID", "long"),
        _nullable("_WRITE_COLS", {"type": "array", "items": "string"}),
        _nullable("_WRITE_COLS_SEQUENCES", {"type": "array", "items": "long"}),
    ],
)

_MANIFEST = _record(
    "record",
    [
        _plain("_VERSION", "int"),
        _plain("_KIND", "int"),
        _plain("_PARTITION", "bytes"),
        _plain("_BUCKET", "int"),
        _plain("_TOTAL_BUCKETS", "int"),
        _plain("_FILE", _FILE),
    ],
)

_RANGE = _record(
    "record__DELETIONS_VECTORS_RANGES",
    [_plain("f0", "string"), _plain("f1", "int"), _plain("f2", "int"), _nullable("_CARDINALITY", "long")],
)
_GLOBAL_INDEX = _record(
    "record__GLOBAL_INDEX",
    [
        _plain("_ROW_RANGE_START", "long"),
        _plain("_ROW_RANGE_END", "long"),
        _plain("_INDEX_FIELD_ID", "int"),
        _nullable("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
        _nullable("_INDEX_META", "bytes"),
        _nullable("_SOURCE_META", "bytes"),
    ],
)
_INDEX_MANIFEST = _record(
    "record",
    [
        _plain("_VERSION", "int"),
        _plain("_KIND", "int"),
        _plain("_PARTITION", "bytes"),
        _plain("_BUCKET", "int"),
        _plain("_INDEX_TYPE", "string"),
        _plain("_FILE_NAME", "string"),
        _plain("_FILE_SIZE", "long"),
        _plain("_ROW_COUNT", "long"),
        _nullable("_DELETIONS_VECTORS_RANGES", {"type": "array", "items": ["null", _RANGE]}),
        _nullable("_EXTERNAL_PATH", "string"),
        _nullable("_GLOBAL_INDEX", _GLOBAL_INDEX),
    ],
)


@cache
def parsed(name: str) -> Any:
    import fastavro

    schema = {"list": _MANIFEST_LIST, "manifest": _MANIFEST, "index": _INDEX_MANIFEST}[name]
    return fastavro.parse_schema(schema)
