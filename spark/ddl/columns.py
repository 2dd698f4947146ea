"""Columns as SQL writes them: from the text of CREATE TABLE to columns of the format, and back.

Owns: `declared`, `type_of`, `ddl_of`, `constant`. Must not know: tables. Source: format/schema §2; format/data-files §3.
Invariants: nullability, comments and defaults are kept at every depth. What SQL cannot say of a column is an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import types as spark

from ...core.errors import InvalidArgument, Unsupported
from ...core.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    RowType,
    with_nullable,
)
from ..catalogs.texts import quoted, quoted_name
from ..grammar.words import words_of
from ..types import from_spark_schema, to_spark

_LONGEST = 2**31 - 1
_WITHOUT_LENGTH = {"VARCHAR": "STRING", "VARBINARY": "BINARY"}
_TIMES = {"TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMP_LTZ": "TIMESTAMP"}
_MICROSECONDS = 6
_DEFAULTS = frozenset("BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL CHAR VARCHAR DATE TIMESTAMP".split())
"""Types whose defaults mean the same to every reader of the text that the format keeps: no times that need a zone."""
_SPARKS = {"TIMESTAMP_LTZ": "type TIMESTAMP, whose text needs a zone", "VARBINARY": "type BINARY"}
_SIGNS = ("+", "-", "(", ")", ",")
_CONSTANT = frozenset(
    "NULL TRUE FALSE CAST TRY_CAST AS DATE TIMESTAMP TIMESTAMP_NTZ TIMESTAMP_LTZ BOOLEAN TINYINT BYTE SMALLINT SHORT INT INTEGER"
    " BIGINT LONG FLOAT REAL DOUBLE DECIMAL DEC NUMERIC STRING CHAR CHARACTER VARCHAR".split()
)
"""Words of literals, and of casts to the types that have a default."""


def declared(columns: str, defaults: Mapping[str, Any] | None = None) -> tuple[Field, ...]:
    """The columns of a list such as `id INT NOT NULL COMMENT 'x', s STRUCT<a: INT>`; `defaults` has their constants."""
    parsed = spark.StructType.fromDDL(columns)
    assert isinstance(parsed, spark.StructType)
    fields = []
    for column, made in zip(parsed.fields, from_spark_schema(parsed), strict=True):
        default = (defaults or {}).get(column.name)
        fields.append(replace(_described(column, made), default_value=None if default is None else _text_of(default)))
    return tuple(fields)


def _described(column: spark.StructField, made: Field) -> Field:
    kind = with_nullable(_nested(column.dataType, made.type), column.nullable)
    return replace(made, type=kind, description=column.metadata.get("comment"))


def _nested(told: spark.DataType, made: DataType) -> DataType:
    """What the fields inside of a type say of nulls and comments."""
    match told, made:
        case spark.StructType(), RowType():
            fields = zip(told.fields, made.fields, strict=True)
            return replace(made, fields=tuple(_described(column, field) for column, field in fields))
        case spark.ArrayType(), ArrayType():
            return replace(made, element=_nested(told.elementType, made.element))
        case spark.MapType(), MapType():
            return replace(made, key=_nested(told.keyType, made.key), value=_nested(told.valueType, made.value))
        case _:
            return made


def type_of(text: str) -> DataType:
    """The type that a text such as `STRUCT<a: INT>` means in Spark, nullable."""
    return declared(f"x {text}")[0].type


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def constant(sql: Callable[..., Any], expression: str, data_type: DataType, column: str) -> Any:
    """The value of a default: an expression without columns that is the same each time, cast to the column's type by Spark.

    Raises:
        Unsupported: the expression is not a constant, or the type has no default.
    """
    if not isinstance(data_type, AtomicType) or data_type.root not in _DEFAULTS:
        kind = data_type.root if isinstance(data_type, AtomicType) else "a nested type"
        raise Unsupported(
            f"column {column!r}: a default of {_SPARKS.get(kind, kind)}",
            next_step="leave DEFAULT out, and give the value in each INSERT",
        )
    if not _is_constant(expression):
        raise Unsupported(
            f"column {column!r}: DEFAULT {expression.strip()} is not a constant, and the table keeps one value",
            next_step="write a literal, or give the value in each INSERT",
        )
    target = to_spark(data_type).simpleString()
    value = sql(f"SELECT CAST(CAST(({expression}\n) AS {target}) AS STRING)").first()[0]
    if value is not None and data_type.root in ("CHAR", "VARCHAR") and len(value) > data_type.length:
        raise InvalidArgument(
            f"column {column!r}: DEFAULT {expression.strip()} is longer than {data_type.length} characters"
        )
    return value


def _is_constant(expression: str) -> bool:
    """Literals, signs, and casts of them."""
    return all(
        word.kind in ("text", "number") or word.raw in _SIGNS or word.upper in _CONSTANT
        for word in words_of(expression)
    )


# --------------------------------------------------------------------------------------------------------------- back


def ddl_of(data_type: DataType) -> str:
    """The type as SQL writes it, without its own nullability.

    >>> from lakelatch.core.rows.types import decimal
    >>> ddl_of(decimal(10, 2))
    'DECIMAL(10,2)'
    """
    match data_type:
        case AtomicType(root="VARCHAR" | "VARBINARY" as root, length=length) if length in (None, _LONGEST):
            return _WITHOUT_LENGTH[root]
        case AtomicType(root="CHAR" | "VARCHAR" as root, length=length):
            return f"{root}({length})"
        case AtomicType(root="TIMESTAMP" | "TIMESTAMP_LTZ" as root, precision=digits) if digits == _MICROSECONDS:
            return _TIMES[root]
        case ArrayType(element=element):
            return f"ARRAY<{ddl_of(element)}>"
        case MapType(key=key, value=value):
            return f"MAP<{ddl_of(key)}, {ddl_of(value)}>"
        case RowType(fields=fields):
            return f"STRUCT<{', '.join(_inner(f) for f in fields)}>"
        case _:
            return to_spark(data_type).simpleString().upper()


def _inner(field: Field) -> str:
    return f"{quoted_name(field.name)}: {_rest(field)}"


def _rest(field: Field) -> str:
    null = "" if field.type.nullable else " NOT NULL"
    comment = "" if field.description is None else f" COMMENT {quoted(field.description)}"
    return f"{ddl_of(field.type)}{null}{comment}"


def column_ddl(field: Field) -> str:
    """A column of CREATE TABLE that makes this column.

    Raises:
        Unsupported: SQL has no text for its type.
    """
    text = f"{quoted_name(field.name)} {_rest(field)}"
    if not _alike(declared(text), [field]):
        raise Unsupported(
            f"column {field.name!r} has the type {field.type}, for which Spark's SQL has no text",
            next_step="CREATE TABLE … LIKE makes such a table",
        )
    if field.default_value is None:
        return text
    if not isinstance(field.type, AtomicType) or field.type.root not in _DEFAULTS:
        raise Unsupported(
            f"column {field.name!r} has a default for which SQL has no text",
            next_step="CREATE TABLE … LIKE makes such a table",
        )
    default = f" DEFAULT CAST({quoted(field.default_value)} AS {ddl_of(field.type)})"
    comment = "" if field.description is None else f" COMMENT {quoted(field.description)}"
    return f"{text.removesuffix(comment)}{default}{comment}"


def same_type(one: DataType, other: DataType) -> bool:
    """Are the types the same, apart from the ids of fields?"""
    return bool(_without_ids(one) == _without_ids(other))


def _alike(made: Sequence[Field], fields: Sequence[Field]) -> bool:
    return [_plain(f) for f in made] == [_plain(f) for f in fields]


def _plain(field: Field) -> tuple[Any, ...]:
    return field.name, field.description, _without_ids(field.type)


def _without_ids(data_type: DataType) -> Any:
    match data_type:
        case RowType(fields=fields, nullable=nullable):
            return "row", nullable, tuple(_plain(f) for f in fields)
        case ArrayType(element=element, nullable=nullable):
            return "array", nullable, _without_ids(element)
        case MapType(key=key, value=value, nullable=nullable):
            return "map", nullable, _without_ids(key), _without_ids(value)
        case _:
            return data_type
