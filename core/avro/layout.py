"""The fields of an Avro schema, and the readers of their types.

Owns: `layout_of`. Must not know: bytes, containers, what the records mean.
Source: Avro specification 1.11 (schemas); format/manifests §1.

Invariant: A type that manifests never have raises `Irregular`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from ..json_text import parse_json
from .blocks import Irregular
from .values import ByteString, Kind, List, Long, Nullable

Layout: TypeAlias = Mapping[str, Kind]


@lru_cache(maxsize=64)
def layout_of(schema_json: bytes) -> Layout:
    try:
        fields = list(_flat(parse_json(schema_json), "", {}))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Irregular(f"the schema cannot be understood: {error!r}") from error
    if len(dict(fields)) != len(fields):
        raise Irregular("two fields with the same name")
    return dict(fields)


def _flat(record: Any, prefix: str, known: dict[str, Any]) -> Iterator[tuple[str, Kind]]:
    if record["type"] != "record":
        raise Irregular("the schema is not a record")
    _remember(record, known)
    for field in record["fields"]:
        name, inner = prefix + field["name"], _meant(field["type"], known)
        if isinstance(inner, dict) and inner["type"] == "record":
            yield from _flat(inner, f"{name}.", known)
        else:
            yield name, _kind(inner, known)


def _kind(schema: Any, known: dict[str, Any]) -> Kind:
    schema = _meant(schema, known)
    if isinstance(schema, list):
        if len(schema) != 2 or "null" not in schema:
            raise Irregular("a union other than of null and one type")
        null = schema.index("null")
        return Nullable(_kind(schema[1 - null], known), null)
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "int" | "long":
            return Long()
        case "string" | "bytes":
            return ByteString()
        case "array":
            item = _kind(schema["items"], known)
            if isinstance(item.inner if isinstance(item, Nullable) else item, List):
                raise Irregular("an array of arrays")
            return List(item)
    raise Irregular(f"a field of type {kind!r}")


def _meant(schema: Any, known: dict[str, Any]) -> Any:
    if isinstance(schema, str):
        return known.get(schema, schema)
    if isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
        return _meant(schema["type"], known)
    return schema


def _remember(record: Any, known: dict[str, Any]) -> None:
    if "name" in record:
        known[record["name"]] = known[record["name"].rpartition(".")[2]] = record
