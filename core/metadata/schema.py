"""A schema file: columns, keys, options.

Owns: `TableSchema`, reading and writing its JSON, and the rules for a new schema. Must not know: the location of the file.
Source: format/schema §1. Invariant: A schema that was read is written as JSON that Apache Paimon reads as the same schema.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as attribute
from functools import cached_property
from typing import Any

from .. import options as opt
from ..avro.columnar import FORMATS
from ..errors import InvalidArgument, TableCorrupt
from ..file_index.options import index_specs
from ..json_text import parse_json
from ..rows.types import (
    BINARY_ROOTS,
    STRING_ROOTS,
    VECTOR_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    field_json,
    is_blob_type,
    parse_field,
    sql,
    walk_fields,
    walk_types,
    with_nullable,
)
from .orc_zones import with_zone_option

SCHEMA_VERSION = 3
ROW_ID = Field(2_147_483_642, "_ROW_ID", AtomicType("BIGINT"))
ROW_SEQUENCE = Field(2_147_483_646, "_SEQUENCE_NUMBER", AtomicType("BIGINT"))
"""Columns of a table with option `row-tracking.enabled`, which are read only if they are named: a row's permanent id, and the
snapshot that last wrote the row."""
RESERVED_NAMES = ("_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID")
KEY_PREFIX = "_KEY_"
_NOT_KEY_ROOTS = ("VARIANT", "BLOB", "GEOMETRY", "GEOGRAPHY")


@dataclass(frozen=True)
class TableSchema:
    """One version of a table's schema.

    Attributes:
        highest_field_id: the largest field id ever used, dropped and nested fields included.
        time_ms: the time of its creation, in milliseconds since 1970.
    """

    id: int
    fields: tuple[Field, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    option_texts: Mapping[str, str] = attribute(default_factory=dict)
    comment: str | None = None
    time_ms: int = 0
    version: int = SCHEMA_VERSION

    @cached_property
    def options(self) -> opt.TableOptions:
        return opt.TableOptions(dict(self.option_texts))

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {f.name: f for f in self.fields}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @property
    def partition_fields(self) -> tuple[Field, ...]:
        return tuple(self.by_name[name] for name in self.partition_keys)

    @property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """The primary key without the partition keys, in the primary key's order."""
        return tuple(k for k in self.primary_keys if k not in self.partition_keys)

    @property
    def bucket(self) -> int:
        return self.options.get(opt.BUCKET)

    @property
    def bucket_keys(self) -> tuple[str, ...]:
        text = self.options.get(opt.BUCKET_KEY)
        return tuple(text.split(",")) if text else self.trimmed_primary_keys

    def to_json(self) -> bytes:
        out: dict[str, Any] = {
            "version": self.version,
            "id": self.id,
            "fields": [field_json(f) for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.option_texts),
        }
        if self.comment is not None:
            out["comment"] = self.comment
        out["timeMillis"] = self.time_ms
        return json.dumps(out, indent=2, ensure_ascii=False).encode()


def parse_schema(data: bytes, where: str) -> TableSchema:
    """Raises TableCorrupt where the bytes are not JSON, a required key is missing, or a type is unknown."""
    try:
        raw = parse_json(data)
        version = int(raw.get("version", 1))
        if not 0 < version <= SCHEMA_VERSION:
            raise TableCorrupt(f"{where}: field 'version' is {version}; up to {SCHEMA_VERSION} can be read")
        fields = tuple(parse_field(f, f"{where}: field") for f in raw["fields"])
        options = {str(k): str(v) for k, v in (raw.get("options") or {}).items()}
        schema = TableSchema(
            id=int(raw["id"]),
            fields=fields,
            highest_field_id=int(raw["highestFieldId"]),
            partition_keys=tuple(map(str, raw.get("partitionKeys") or ())),
            primary_keys=tuple(map(str, raw.get("primaryKeys") or ())),
            option_texts=_with_version_defaults(options, version),
            comment=raw.get("comment"),
            time_ms=int(raw.get("timeMillis") or 0),
            version=version,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise TableCorrupt(f"{where} is not a schema: {error!r}") from error
    missing = [k for k in (*schema.partition_keys, *schema.primary_keys) if k not in schema.by_name]
    if missing:
        raise TableCorrupt(f"{where}: key column {missing[0]!r} is not among the fields")
    return schema


def _with_version_defaults(options: dict[str, str], version: int) -> dict[str, str]:
    if version <= 1:
        options.setdefault("bucket", "1")
    if version <= 2:
        options.setdefault("file.format", "orc")
    return options


# -------------------------------------------------------------------------------------------------------- new schemas


def new_schema(
    fields: Sequence[Field],
    *,
    partition_keys: Sequence[str] = (),
    primary_keys: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_ms: int = 0,
) -> TableSchema:
    """The first schema of a table, after checks. Raises InvalidArgument for what the format refuses.

    Options `partition` and `primary-key` become the schema's keys. Columns of the primary key become NOT NULL, and columns of
    bytes that option `blob-field` names become BLOB, as with Apache Paimon's connectors. A table of ORC files with times with
    local time zone gets the option `orc.timestamp-ltz.legacy.type` = false, if it is not given.
    """
    texts = {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in (options or {}).items()}
    partition_keys = tuple(partition_keys) or _split(texts.pop("partition", ""))
    primary_keys = tuple(primary_keys) or _split(texts.pop("primary-key", ""))
    texts.pop("path", None)
    keys = set(primary_keys)
    columns = tuple(replace(f, type=with_nullable(f.type, False)) if f.name in keys else f for f in fields)
    blobs = _split(texts.get("blob-field", ""))
    columns = tuple(replace(f, type=_as_blob(f)) if f.name in blobs else f for f in columns)
    highest = max((f.id for f in walk_fields(columns)), default=-1)
    schema = TableSchema(
        id=0,
        fields=columns,
        highest_field_id=highest,
        partition_keys=partition_keys,
        primary_keys=primary_keys,
        option_texts=texts,
        comment=comment,
        time_ms=time_ms,
    )
    schema = with_zone_option(schema)
    check_schema(schema)
    if schema.options.get(opt.MANIFEST_FORMAT) != "avro":
        raise InvalidArgument(
            "option 'manifest.format': releases of Apache Paimon after 2.0 read only avro, so new tables have no other",
            next_step="remove the option",
        )
    return schema


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _as_blob(field: Field) -> DataType:
    if is_blob_type(field.type):
        return field.type
    if not isinstance(field.type, AtomicType) or field.type.root not in BINARY_ROOTS:
        raise InvalidArgument(f"option 'blob-field': column '{field.name}' is {sql(field.type)}, and not BYTES")
    return AtomicType("BLOB", field.type.nullable)


def check_schema(schema: TableSchema) -> None:
    """Check the format's rules for a schema that is to be written (format/schema §1)."""
    _check_columns(schema)
    _check_keys(schema)
    schema.options.check()
    _check_buckets(schema)
    _check_snapshot_ordering(schema)
    _check_row_tracking(schema)
    index_specs(schema.fields, schema.option_texts)
    manifest_format = schema.options.get(opt.MANIFEST_FORMAT)
    if manifest_format not in FORMATS:
        raise InvalidArgument(
            f"option 'manifest.format' = {manifest_format!r} is not a format of manifests",
            next_step=f"use one of {', '.join(FORMATS)}",
        )


def _check_columns(schema: TableSchema) -> None:
    if not schema.fields:
        raise InvalidArgument("a table needs at least one column")
    for field in schema.fields:
        if field.name in RESERVED_NAMES or field.name.startswith(KEY_PREFIX):
            raise InvalidArgument(f"column name {field.name!r} is reserved by the format")
    types = [t for f in schema.fields for t in walk_types(f.type)]
    for fields in (schema.fields, *(t.fields for t in types if isinstance(t, RowType))):
        for name, times in Counter(f.name for f in fields).items():
            if not name.strip() or times > 1:
                raise InvalidArgument(f"column name {name!r} is blank or used twice")
    for data_type in types:
        _check_type(data_type)
    ids = [f.id for f in walk_fields(schema.fields)]
    if len(ids) != len(set(ids)):
        raise InvalidArgument("two fields have the same field id")


def _check_type(data_type: DataType) -> None:
    match data_type:
        case VectorType(element=element, length=length):
            if not isinstance(element, AtomicType) or element.root not in VECTOR_ROOTS:
                raise InvalidArgument(
                    f"{sql(data_type)}: a VECTOR can hold only numbers or BOOLEANs", next_step="use ARRAY"
                )
            too_short = length < 1
        case AtomicType(root=root, length=length, precision=precision):
            too_short = (root in STRING_ROOTS + BINARY_ROOTS and length < 1) or (root == "DECIMAL" and precision < 1)
        case _:
            return
    if too_short:
        raise InvalidArgument(f"{sql(data_type)}: a length or precision must be at least 1")


def _check_keys(schema: TableSchema) -> None:
    for what, keys in (("partition_by", schema.partition_keys), ("primary_key", schema.primary_keys)):
        if len(set(keys)) != len(keys):
            raise InvalidArgument(f"{what} names a column twice: {list(keys)}")
        for key in keys:
            if key not in schema.by_name:
                raise InvalidArgument(f"{what}: there is no column {key!r}; columns are {list(schema.names)}")
            if not is_key_type(schema.by_name[key].type):
                raise InvalidArgument(f"{what}: column {key!r} has a type that cannot be a key")
    if schema.primary_keys and not schema.trimmed_primary_keys:
        raise InvalidArgument("the primary key must have a column that is not a partition key")


def _check_snapshot_ordering(schema: TableSchema) -> None:
    option = opt.SNAPSHOT_ORDERING.key
    if not schema.options.get(opt.SNAPSHOT_ORDERING):
        return
    if not schema.primary_keys:
        raise InvalidArgument(
            f"option '{option}' needs a primary key: other tables have no rows that replace each other"
        )
    if schema.option_texts.get("sequence.field", "").strip():
        raise InvalidArgument(
            f"options '{option}' and 'sequence.field' cannot both order the rows of a key: choose one"
        )
    if not schema.options.get(opt.WRITE_ONLY):
        raise InvalidArgument(
            f"option '{option}' needs option 'write-only' = true: the order of rows is known once they are committed",
            next_step="set both to true, and compact with compact()",
        )


def is_key_type(data_type: DataType) -> bool:
    """May a column of this type be a partition, primary or bucket key?"""
    match data_type:
        case AtomicType(root=root):
            return root not in _NOT_KEY_ROOTS
        case ArrayType() | MapType() | MultisetType() | RowType() | VectorType():
            return False


def _check_row_tracking(schema: TableSchema) -> None:
    options, tracking, evolution = schema.options, opt.ROW_TRACKING.key, opt.DATA_EVOLUTION.key
    if options.get(opt.ROW_TRACKING) and (schema.bucket != -1 or schema.primary_keys):
        raise InvalidArgument(f"option '{tracking}' needs 'bucket' = -1 and no primary key")
    if options.get(opt.DATA_EVOLUTION):
        if not options.get(opt.ROW_TRACKING):
            raise InvalidArgument(f"option '{evolution}' needs option '{tracking}'", next_step="set both to true")
        for other in (opt.DELETION_VECTORS, opt.CLUSTERING_INCREMENTAL):
            if options.get(other):
                raise InvalidArgument(f"options '{evolution}' and '{other.key}' cannot both be true")
    blobs = [f.name for f in schema.fields if is_blob_type(f.type)]
    if blobs and not options.get(opt.DATA_EVOLUTION):
        raise InvalidArgument(
            f"column '{blobs[0]}' is a BLOB, which needs data evolution",
            next_step=f"set options '{tracking}' and '{evolution}' to true",
        )
    if blobs and len(blobs) == len(schema.fields):
        raise InvalidArgument("a table needs another column than BLOBs")


def _check_buckets(schema: TableSchema) -> None:
    bucket, key_text = schema.bucket, schema.options.get(opt.BUCKET_KEY)
    if bucket < -2 or bucket == 0 or (bucket == -2 and not schema.primary_keys):
        raise InvalidArgument(f"option 'bucket' = {bucket}: use a positive number, or -1")
    if bucket == -1 and key_text:
        raise InvalidArgument("option 'bucket-key' needs a fixed number of buckets: set 'bucket'")
    if bucket > 0 and not schema.bucket_keys:
        raise InvalidArgument("a table with a fixed number of buckets and no primary key needs option 'bucket-key'")
    for key in schema.bucket_keys if key_text else ():
        if key not in schema.by_name or key in schema.partition_keys or not is_key_type(schema.by_name[key].type):
            raise InvalidArgument(f"option 'bucket-key': {key!r} is not a column that can be a bucket key")
        if schema.primary_keys and key not in schema.primary_keys:
            raise InvalidArgument(f"option 'bucket-key': {key!r} is not part of the primary key")
