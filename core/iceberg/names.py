"""Which columns are meant in data files that have no field ids, such as those of a migrated table.

Owns: `mapping_of`. Must not know: which files have ids. Source: Iceberg's specification, "Column Projection" and "Name Mapping".
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .types import fields_of


def mapping_of(schemas: Sequence[Sequence[Any]]) -> str | None:
    """The names that each column had in schemas that files were written with, as JSON; None where a name had two meanings.

    >>> from ..rows.types import AtomicType, Field
    >>> a, b = (Field(0, name, AtomicType("INT")) for name in ("a", "b"))
    >>> mapping_of([[a], [b]])
    '[{"field-id": 0, "names": ["a", "b"]}]'
    >>> mapping_of([[a], [Field(1, "a", AtomicType("INT"))]]) is None
    True
    """
    found = _mapped([fields_of(schema) for schema in schemas])
    return None if found is None else json.dumps(found, ensure_ascii=False)


def _mapped(versions: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]] | None:
    meaning: dict[str, int] = {}
    known: dict[int, dict[str, Any]] = {}
    parts: dict[int, list[list[dict[str, Any]]]] = {}
    for field in (field for fields in versions for field in fields):
        if meaning.setdefault(field["name"], field["id"]) != field["id"]:
            return None
        names = known.setdefault(field["id"], {"field-id": field["id"], "names": []})["names"]
        if field["name"] not in names:
            names.append(field["name"])
        parts.setdefault(field["id"], []).append(_parts(field["type"]))
    for number, inside in parts.items():
        if any(inside):
            found = _mapped(inside)
            if found is None:
                return None
            known[number]["fields"] = found
    return list(known.values())


def _parts(kind: Any) -> list[dict[str, Any]]:
    """The fields inside of a type."""
    if isinstance(kind, str):
        return []
    if kind["type"] == "struct":
        return list(kind["fields"])
    names = ("element",) if kind["type"] == "list" else ("key", "value")
    return [{"id": kind[f"{name}-id"], "name": name, "type": kind[name]} for name in names]
