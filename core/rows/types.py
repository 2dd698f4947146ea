"""The data types of the format, their SQL text and their JSON form.

Owns: `DataType` and its variants, `Field`, parsing and printing. Must not know: Arrow (see `arrow`), files.
Source: format/schema §2. Invariant: `parse_type(type_json(t)) == t` for every type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..errors import TableCorrupt
from ..typed import assert_never

MAX_LENGTH = 2_147_483_647
"""The length for which VARCHAR is written as STRING, and VARBINARY as BYTES."""

ATOMIC_ROOTS = frozenset(
    "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR BINARY VARBINARY DATE TIME TIMESTAMP TIMESTAMP_LTZ"
    " VARIANT BLOB GEOMETRY GEOGRAPHY".split()
)
_MOST_DEEP = 100
UNRELEASED_ROOTS = ("GEOMETRY", "GEOGRAPHY")
"""Those that Apache Paimon's releases, up to 2.0, cannot parse: they are read, and no table gets them here."""
VECTOR_ROOTS = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
INTEGER_ROOTS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
STRING_ROOTS = ("CHAR", "VARCHAR")
BINARY_ROOTS = ("BINARY", "VARBINARY")
TIMESTAMP_ROOTS = ("TIMESTAMP", "TIMESTAMP_LTZ")


@dataclass(frozen=True, slots=True)
class AtomicType:
    """A type without parts.

    Attributes:
        length: of CHAR and VARCHAR in characters, of BINARY and VARBINARY in bytes.
        precision: digits of a DECIMAL; digits of the fraction of a second, of TIME and TIMESTAMP.
        scale: digits after the point of a DECIMAL.
        parameters: the text in the parentheses of GEOMETRY and GEOGRAPHY.
    """

    root: str
    nullable: bool = True
    length: int = 0
    precision: int = 0
    scale: int = 0
    parameters: str = ""


@dataclass(frozen=True, slots=True)
class ArrayType:
    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MultisetType:
    element: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class VectorType:
    element: DataType
    length: int
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class MapType:
    key: DataType
    value: DataType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class RowType:
    fields: tuple[Field, ...]
    nullable: bool = True


DataType = AtomicType | ArrayType | MultisetType | VectorType | MapType | RowType


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a field of a ROW. `id` is unique in the schema and is never reused."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None


def is_blob_type(data_type: DataType) -> bool:
    """Is it a BLOB, whose values are stored in files of their own?"""
    return isinstance(data_type, AtomicType) and data_type.root == "BLOB"


def with_nullable(data_type: DataType, nullable: bool) -> DataType:
    return replace(data_type, nullable=nullable)


def decimal(precision: int, scale: int, nullable: bool = True) -> AtomicType:
    return AtomicType("DECIMAL", nullable, precision=precision, scale=scale)


def timestamp(precision: int = 6, nullable: bool = True, *, local_zone: bool = False) -> AtomicType:
    return AtomicType("TIMESTAMP_LTZ" if local_zone else "TIMESTAMP", nullable, precision=precision)


def string(nullable: bool = True) -> AtomicType:
    return AtomicType("VARCHAR", nullable, length=MAX_LENGTH)


def varbinary(nullable: bool = True) -> AtomicType:
    return AtomicType("VARBINARY", nullable, length=MAX_LENGTH)


# ---------------------------------------------------------------------------------------------------------- printing


def sql(data_type: DataType) -> str:
    """The type as SQL text.

    >>> sql(decimal(10, 2)), sql(timestamp(3, local_zone=True)), sql(string(nullable=False))
    ('DECIMAL(10, 2)', 'TIMESTAMP(3) WITH LOCAL TIME ZONE', 'STRING NOT NULL')
    """
    text = _sql_without_null(data_type)
    return text if data_type.nullable else f"{text} NOT NULL"


def _sql_without_null(data_type: DataType) -> str:
    match data_type:
        case AtomicType():
            return _atomic_sql(data_type)
        case ArrayType(element=element):
            return f"ARRAY<{sql(element)}>"
        case MultisetType(element=element):
            return f"MULTISET<{sql(element)}>"
        case VectorType(element=element, length=length):
            return f"VECTOR<{sql(element)}, {length}>"
        case MapType(key=key, value=value):
            return f"MAP<{sql(key)}, {sql(value)}>"
        case RowType(fields=fields):
            return "ROW<" + ", ".join(f"{f.name} {sql(f.type)}" for f in fields) + ">"
        case _:
            assert_never(data_type)


def _atomic_sql(t: AtomicType) -> str:
    if t.root in ("VARCHAR", "VARBINARY") and t.length == MAX_LENGTH:
        return "STRING" if t.root == "VARCHAR" else "BYTES"
    if t.root in STRING_ROOTS or t.root in BINARY_ROOTS:
        return f"{t.root}({t.length})"
    if t.root == "DECIMAL":
        return f"DECIMAL({t.precision}, {t.scale})"
    if t.root in ("TIME", "TIMESTAMP"):
        return f"{t.root}({t.precision})"
    if t.root == "TIMESTAMP_LTZ":
        return f"TIMESTAMP({t.precision}) WITH LOCAL TIME ZONE"
    return f"{t.root}({t.parameters})" if t.parameters else t.root


def type_json(data_type: DataType) -> Any:
    suffix = "" if data_type.nullable else " NOT NULL"
    match data_type:
        case AtomicType():
            return sql(data_type)
        case ArrayType(element=element):
            return {"type": "ARRAY" + suffix, "element": type_json(element)}
        case MultisetType(element=element):
            return {"type": "MULTISET" + suffix, "element": type_json(element)}
        case VectorType(element=element, length=length):
            return {"type": "VECTOR" + suffix, "element": type_json(element), "length": length}
        case MapType(key=key, value=value):
            return {"type": "MAP" + suffix, "key": type_json(key), "value": type_json(value)}
        case RowType(fields=fields):
            return {"type": "ROW" + suffix, "fields": [field_json(f) for f in fields]}
        case _:
            assert_never(data_type)


def field_json(field: Field) -> dict[str, Any]:
    out: dict[str, Any] = {"id": field.id, "name": field.name, "type": type_json(field.type)}
    if field.description is not None:
        out["description"] = field.description
    if field.default_value is not None:
        out["defaultValue"] = field.default_value
    return out


# ----------------------------------------------------------------------------------------------------------- parsing

_SYNONYMS = {"NUMERIC": "DECIMAL", "DEC": "DECIMAL", "INTEGER": "INT", "DOUBLE PRECISION": "DOUBLE"}
_ATOMIC = re.compile(r"^(?P<root>[A-Z_]+(?: PRECISION)?)\s*(?:\((?P<args>[^)]*)\))?(?P<tail>.*)$")
_MAX_PRECISION = {"TIME": 9, "TIMESTAMP": 9, "TIMESTAMP_LTZ": 9, "DECIMAL": 38}


def parse_type(value: Any, where: str = "type", depth: int = 0) -> DataType:
    """The type of the JSON form. Raises TableCorrupt where it is unknown, or has too many types inside each other.

    >>> sql(parse_type({"type": "ARRAY NOT NULL", "element": "decimal(5,1)"}))
    'ARRAY<DECIMAL(5, 1)> NOT NULL'
    """
    if isinstance(value, str):
        return parse_atomic(value, where)
    if depth > _MOST_DEEP:
        raise TableCorrupt(
            f"{where.split('.', maxsplit=1)[0]}: a type has more than {_MOST_DEEP} types inside each other"
        )
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise TableCorrupt(f"{where}: {value!r} is not a data type")
    head = value["type"].strip().upper()
    nullable = "NOT NULL" not in head

    def part(key: str) -> DataType:
        if key not in value:
            raise TableCorrupt(f"{where}: {head} lacks '{key}'")
        return parse_type(value[key], f"{where}.{key}", depth + 1)

    if head.startswith("ARRAY"):
        return ArrayType(part("element"), nullable)
    if head.startswith("MULTISET"):
        return MultisetType(part("element"), nullable)
    if head.startswith("VECTOR"):
        if not isinstance(value.get("length"), int):
            raise TableCorrupt(f"{where}: {head} lacks the number 'length'")
        return VectorType(part("element"), value["length"], nullable)
    if head.startswith("MAP"):
        return MapType(part("key"), part("value"), nullable)
    if head.startswith("ROW"):
        fields = value.get("fields") or []
        if not isinstance(fields, list):
            raise TableCorrupt(f"{where}: 'fields' of {head} is not a list")
        return RowType(tuple(parse_field(f, where, depth + 1) for f in fields), nullable)
    raise TableCorrupt(f"{where}: unknown type {value['type']!r}")


def parse_field(value: Any, where: str = "field", depth: int = 0) -> Field:
    try:
        name, field_id = str(value["name"]), int(value["id"])
        kind = value["type"]
    except (KeyError, TypeError, ValueError) as error:
        raise TableCorrupt(f"{where}: {value!r} is not a field: {error!r}") from error
    return Field(
        field_id, name, parse_type(kind, f"{where}.{name}", depth), value.get("description"), value.get("defaultValue")
    )


def parse_atomic(text: str, where: str = "type") -> AtomicType:
    """Parse an atomic type from its SQL text; case and white space are ignored.

    >>> parse_atomic("timestamp(3) with local time zone not null").root
    'TIMESTAMP_LTZ'
    """
    folded = " ".join(text.strip().split()).upper()
    nullable = not folded.endswith("NOT NULL")
    core = re.sub(r"\s*(NOT )?NULL$", "", folded)
    found = _ATOMIC.match(core)
    if found is None:
        raise TableCorrupt(f"{where}: unknown type {text!r}")
    root = _SYNONYMS.get(found["root"], found["root"])
    tail = found["tail"].strip()
    if root == "TIMESTAMP" and tail == "WITH LOCAL TIME ZONE":
        root, tail = "TIMESTAMP_LTZ", ""
    elif root in ("TIMESTAMP", "TIME") and tail == "WITHOUT TIME ZONE":
        tail = ""
    if root == "STRING":
        return string(nullable)
    if root == "BYTES":
        return varbinary(nullable)
    if root not in ATOMIC_ROOTS or tail:
        raise TableCorrupt(f"{where}: unknown type {text!r}")
    if root in ("GEOMETRY", "GEOGRAPHY"):
        raw = re.search(r"\(([^)]*)\)", text)
        return AtomicType(root, nullable, parameters=raw[1] if raw else "")
    return _with_arguments(root, nullable, found["args"], text, where)


def _with_arguments(root: str, nullable: bool, args: str | None, text: str, where: str) -> AtomicType:
    try:
        numbers = [int(a) for a in args.split(",")] if args and args.strip() else []
    except ValueError as error:
        raise TableCorrupt(f"{where}: bad arguments in {text!r}") from error
    if root in STRING_ROOTS or root in BINARY_ROOTS:
        return AtomicType(root, nullable, length=numbers[0] if numbers else 1)
    if root in _MAX_PRECISION:
        default = {"DECIMAL": 10, "TIME": 0}.get(root, 6)
        precision = numbers[0] if numbers else default
        scale = numbers[1] if len(numbers) > 1 else 0
        if not 0 <= precision <= _MAX_PRECISION[root] or not 0 <= scale <= precision:
            raise TableCorrupt(f"{where}: precision or scale out of range in {text!r}")
        return AtomicType(root, nullable, precision=precision, scale=scale)
    if numbers:
        raise TableCorrupt(f"{where}: {root} takes no arguments, got {text!r}")
    return AtomicType(root, nullable)


def walk_fields(fields: tuple[Field, ...]) -> Iterator[Field]:
    """All fields of a schema including those in a ROW, parents before their children."""
    for field in fields:
        yield field
        yield from _fields_inside(field.type)


def _fields_inside(data_type: DataType) -> Iterator[Field]:
    match data_type:
        case RowType(fields=fields):
            yield from walk_fields(fields)
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            yield from _fields_inside(element)
        case MapType(key=key, value=value):
            yield from _fields_inside(key)
            yield from _fields_inside(value)
        case _:
            return


def walk_types(data_type: DataType) -> Iterator[DataType]:
    """A data type and all types inside it, outer types before inner ones.

    >>> [type(t).__name__ for t in walk_types(ArrayType(MultisetType(string())))]
    ['ArrayType', 'MultisetType', 'AtomicType']
    """
    yield data_type
    match data_type:
        case RowType(fields=fields):
            for field in fields:
                yield from walk_types(field.type)
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            yield from walk_types(element)
        case MapType(key=key, value=value):
            yield from walk_types(key)
            yield from walk_types(value)
        case AtomicType():
            return
        case _:
            assert_never(data_type)
