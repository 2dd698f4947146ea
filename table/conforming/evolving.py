"""Columns, and fields of ROWs at any depth, that rows have and a table lacks.

Owns: `missing_parts`. Must not know: how a schema is changed in a store. Source: format/schema §5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ...core.errors import InvalidArgument
from ...core.rows.sizes import is_list
from ...core.rows.types import ArrayType, DataType, Field, MapType, RowType, with_nullable


def missing_parts(
    known: Sequence[Field], given: Sequence[Field], path: str = "", *, tells_case: bool = False
) -> Iterator[tuple[str, DataType]]:
    """What is missing: its path, as `add_column` takes it, and its type.

    A name that differs from a known one only in the case of its letters is an `InvalidArgument`, unless `tells_case`.

    >>> from ...core.rows.types import AtomicType, string
    >>> row, more = RowType((Field(1, "a", string()),)), RowType((Field(1, "a", string()), Field(2, "b", string())))
    >>> given = [Field(0, "x", ArrayType(more)), Field(3, "y", string())]
    >>> [path for path, _ in missing_parts([Field(0, "x", ArrayType(row))], given)]
    ['x.element.b', 'y']
    """
    by_name = {f.name: f.type for f in known}
    for field in given:
        where = path + field.name
        if field.name in by_name:
            yield from _inside(by_name[field.name], field.type, where, tells_case)
            continue
        like = next((name for name in by_name if name.casefold() == field.name.casefold()), None)
        if like is not None and not tells_case:
            raise InvalidArgument(
                f"column '{where}' differs from the table's column '{path}{like}' only in the case of its letters",
                next_step=f"rename it to '{like}', or add the column with alter if both are meant",
            )
        yield where, with_nullable(field.type, True)


def without_nulls(t: pa.DataType) -> pa.DataType:
    """A type without the fields that have no value, and so no type, in the rows at hand."""
    if pa.types.is_struct(t):
        return pa.struct([f.with_type(without_nulls(f.type)) for f in t if not pa.types.is_null(f.type)])
    if pa.types.is_map(t):
        return pa.map_(t.key_field, t.item_field.with_type(without_nulls(t.item_type)))
    if is_list(t):
        return pa.list_(t.value_field.with_type(without_nulls(t.value_type)))
    return t


def _inside(known: DataType, given: DataType, path: str, tells_case: bool) -> Iterator[tuple[str, DataType]]:
    match known, given:
        case RowType(fields=fields), RowType(fields=others):
            yield from missing_parts(fields, others, f"{path}.", tells_case=tells_case)
        case ArrayType(element=element), ArrayType(element=other):
            yield from _inside(element, other, f"{path}.element", tells_case)
        case MapType(value=value), MapType(value=other):
            yield from _inside(value, other, f"{path}.value", tells_case)
