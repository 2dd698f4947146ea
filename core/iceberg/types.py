"""Types and columns in Iceberg's words.

Owns: `schema_of`, `atomic_type`, and which types and changes of a type Iceberg's readers understand (`check_columns`,
`check_partitions`, `check_promotion`, `needs_row_lineage`). Must not know: values, files.
Source: Iceberg's specification, "Schemas and Data Types" and "Schema Evolution".
Invariant: the ids of a list's element and of a map's key and value are those in the Parquet files (`core.rows.arrow`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import Unsupported
from ..rows.arrow import element_id, key_id
from ..rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
    sql,
    walk_types,
)
from ..typed import assert_never

_PLAIN = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "DATE": "date",
}
_MICROS = 6
WRITTEN_AGAIN = (
    "have the rows written again: at = table.snapshot().id; table.overwrite(table.to_arrow(), partition={}, read_snapshot=at,"
    " isolation='serializable')"
)
"""What helps where the files are the reason, and not the columns."""
_WIDER = (("int", "long"), ("float", "double"))


def schema_of(fields: Sequence[Field], schema_id: int) -> dict[str, Any]:
    """The columns of a schema, in the form of a table's document. Raises Unsupported as `check_columns` does.

    >>> schema_of([Field(0, "v", AtomicType("BIGINT", nullable=False))], 3)["fields"]
    [{'id': 0, 'name': 'v', 'required': True, 'type': 'long'}]
    """
    check_columns(fields)
    return {"type": "struct", "schema-id": schema_id, "fields": fields_of(fields)}


def fields_of(fields: Sequence[Field]) -> list[dict[str, Any]]:
    """Columns, or the fields of a ROW, whose types Iceberg has."""
    return [_field(field) for field in fields]


def _field(field: Field) -> dict[str, Any]:
    found = {"id": field.id, "name": field.name, "required": not field.type.nullable}
    found["type"] = _type(field.type, field.id, 1)
    return found if field.description is None else {**found, "doc": field.description}


def _type(data_type: DataType, field_id: int, depth: int) -> Any:
    """The type of a field, or of a part of it that lies so deep in lists and maps."""
    up, down = element_id(field_id, depth), key_id(field_id, depth)
    match data_type:
        case AtomicType():
            return atomic_type(data_type)
        case ArrayType(element=element):
            return {
                "type": "list",
                "element-id": up,
                "element": _type(element, field_id, depth + 1),
                "element-required": not element.nullable,
            }
        case MultisetType(element=element):
            return _map(_type(element, field_id, depth + 1), "int", True, up, down)
        case MapType(key=key, value=value):
            return _map(
                _type(key, field_id, depth + 1), _type(value, field_id, depth + 1), not value.nullable, up, down
            )
        case RowType(fields=fields):
            return {"type": "struct", "fields": fields_of(fields)}
        case VectorType():
            raise AssertionError("check_columns refuses it")
        case _:
            assert_never(data_type)


def _map(key: Any, value: Any, required: bool, up: int, down: int) -> dict[str, Any]:
    return {"type": "map", "key-id": down, "key": key, "value-id": up, "value": value, "value-required": required}


def atomic_type(data_type: AtomicType) -> str:
    """The name of a type without parts.

    >>> atomic_type(AtomicType("DECIMAL", precision=10, scale=2)), atomic_type(AtomicType("TIMESTAMP", precision=3))
    ('decimal(10, 2)', 'timestamp')
    """
    match data_type.root:
        case "DECIMAL":
            return f"decimal({data_type.precision}, {data_type.scale})"
        case "TIMESTAMP" | "TIMESTAMP_LTZ" as root:
            zone = "tz" if root == "TIMESTAMP_LTZ" else ""
            return f"timestamp{zone}_ns" if data_type.precision > _MICROS else f"timestamp{zone}"
        case root:
            return _PLAIN[root]


def needs_row_lineage(fields: Sequence[Field]) -> bool:
    """Has a column a type that only version 3 of Iceberg's format has, in which rows have ids?"""
    return any(_has_nanos(part) for field in fields for part in walk_types(field.type))


def _has_nanos(part: DataType) -> bool:
    return isinstance(part, AtomicType) and part.root == "TIMESTAMP" and part.precision > _MICROS


def check_columns(fields: Sequence[Field], files: str = "") -> None:
    """Raises Unsupported, which names the column, for a type that Iceberg, or a widely used reader of it, does not have. `files`
    says which files hold the columns, where the table itself may have dropped them.
    """
    for field in fields:
        for part in walk_types(field.type):
            if not _has_equal(part):
                inside = f" holds {sql(part)}" if part != field.type else ""
                raise Unsupported(
                    f"{files}column '{field.name}' is {sql(field.type)}{inside}, for which Iceberg's readers have no type",
                    next_step=WRITTEN_AGAIN
                    if files
                    else "use to_arrow(), or export(), which writes plain Parquet files",
                )


def check_partitions(fields: Sequence[Field]) -> None:
    """Raises Unsupported for a partition column whose values readers do not find in manifests."""
    for field in fields:
        if _has_nanos(field.type):
            raise Unsupported(
                f"partition column '{field.name}' is {sql(field.type)}: Iceberg's readers know no nanoseconds in manifests",
                next_step="use to_arrow(), or export(), which writes plain Parquet files",
            )


def _has_equal(part: DataType) -> bool:
    if not isinstance(part, AtomicType):
        return not isinstance(part, VectorType)
    if part.root == "TIMESTAMP_LTZ":
        return part.precision <= _MICROS  # readers take nanoseconds with a zone for microseconds, or refuse them
    return part.root in _PLAIN or part.root in ("DECIMAL", "TIMESTAMP")


def check_promotion(written: Sequence[Field], read: Sequence[Field], what: str) -> None:
    """Raises Unsupported, which names the column, where files that were written with other types would be misread.

    Iceberg lets INT become BIGINT, FLOAT become DOUBLE, and a DECIMAL get more digits before the point. A column that was added
    later is null in older files.
    """
    before = {field.id: field.type for field in written}
    for field in read:
        old = before.get(field.id)
        if old is not None and not _may_become(old, field.type):
            raise Unsupported(
                f"{what} hold column '{field.name}' as {sql(old)}; Iceberg's readers cannot read it as {sql(field.type)}",
                next_step=WRITTEN_AGAIN,
            )


def _may_become(old: DataType, new: DataType) -> bool:
    match old, new:
        case AtomicType(), AtomicType():
            return _is_wider(old, new)
        case RowType(), RowType():
            before = {field.id: field.type for field in old.fields}
            return all(_may_become(before.get(field.id, field.type), field.type) for field in new.fields)
        case ArrayType(element=a), ArrayType(element=b):
            return _may_become(a, b)
        case MultisetType(element=a), MultisetType(element=b):
            return _may_become(a, b)
        case MapType(), MapType():
            return _may_become(old.key, new.key) and _may_become(old.value, new.value)
        case _:
            return False


def _is_wider(old: AtomicType, new: AtomicType) -> bool:
    if old.root == new.root == "DECIMAL":
        return old.scale == new.scale and old.precision <= new.precision
    was, now = (atomic_type(each) if _has_equal(each) else each.root for each in (old, new))
    return was == now or (was, now) in _WIDER
