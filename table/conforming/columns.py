"""What callers may give as the columns of a new table.

Owns: `columns_of`. Must not know: stores, keys, options.
Invariant: of what holds rows the columns alone are taken; a stream stays unread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.metadata.schemas.field_edits import numbered
from ...core.rows.arrow import FieldIds, from_arrow_schema
from ...core.rows.type_text import parse_sql_type
from ...core.rows.types import DataType, Field, RowType
from .sources import first_line, peeked

_WHAT = (
    "pass an Arrow schema, a frame with the columns, a dict of names and types, or text such as 'id BIGINT, day DATE'"
)


def columns_of(given: Any) -> tuple[Field, ...]:
    """The columns that something describes. `InvalidArgument`: it is none of these, or names the column whose type is unknown.

    Takes an Arrow schema, or anything that has one or exports one; a pandas or polars frame; a dict, or pairs, of names and
    types, each SQL text or an Arrow type; SQL text of columns; a list of `pa.Field`.

    >>> [f.type.root for f in columns_of("id BIGINT NOT NULL, day DATE")], [f.type.root for f in columns_of({"a": pa.int8()})]
    (['BIGINT', 'DATE'], ['TINYINT'])
    """
    library = type(given).__module__.split(".")[0]
    if isinstance(given, str):
        return _of_row(parse_sql_type(f"ROW<{given}>", "schema"))
    if library in ("pandas", "polars") and type(given).__name__ in ("DataFrame", "LazyFrame"):
        return from_arrow_schema(peeked(given)[0] or pa.schema([]))
    schema = given if isinstance(given, pa.Schema) else getattr(given, "schema", None)
    if isinstance(schema, pa.Schema):
        return from_arrow_schema(schema)
    try:
        if hasattr(given, "__arrow_c_schema__"):
            return from_arrow_schema(pa.schema(given))
        if hasattr(given, "__arrow_c_stream__"):
            return from_arrow_schema(pa.RecordBatchReader.from_stream(given).schema)
    except pa.ArrowException as error:
        raise InvalidArgument(f"schema: {first_line(error)}", next_step="use types that Arrow has") from error
    if isinstance(given, Mapping):
        return _of_pairs(list(given.items()))
    if isinstance(given, Sequence) and not isinstance(given, (bytes, bytearray)):
        return _of_pairs(list(given))
    if library == "pyspark":
        raise InvalidArgument(
            f"schema is Spark's {type(given).__name__}",
            next_step="create the table with lakelatch.spark.write(frame, url)",
        )
    raise InvalidArgument(f"schema is of type {type(given).__name__}", next_step=_WHAT)


def _of_pairs(columns: Sequence[Any]) -> tuple[Field, ...]:
    if all(isinstance(column, pa.Field) for column in columns):
        return from_arrow_schema(pa.schema(columns))
    if all(isinstance(column, Field) for column in columns):
        return tuple(columns)
    made: list[Field] = []
    ids = FieldIds()
    for column in columns:
        if not (isinstance(column, tuple) and len(column) == 2 and isinstance(column[0], str)):
            raise InvalidArgument(f"schema: {column!r} is no pair of a name and a type", next_step=_WHAT)
        name, kind = column
        if isinstance(kind, pa.DataType):
            made.extend(from_arrow_schema(pa.schema([(name, kind)]), ids))
        elif isinstance(kind, str):
            field_id = ids.next()
            data_type, ids.highest = numbered(parse_sql_type(kind, f"column '{name}'"), field_id)
            made.append(Field(field_id, name, data_type))
        else:
            raise InvalidArgument(f"column '{name}': {kind!r} is no type", next_step="give SQL text or an Arrow type")
    return tuple(made)


def _of_row(row: DataType) -> tuple[Field, ...]:
    """The fields of a ROW as columns: a column's id comes before those of its parts."""
    fields = row.fields if isinstance(row, RowType) else ()
    made, highest = list[Field](), -1
    for field in fields:
        field_id = highest + 1
        data_type, highest = numbered(field.type, field_id)
        made.append(Field(field_id, field.name, data_type))
    return tuple(made)
