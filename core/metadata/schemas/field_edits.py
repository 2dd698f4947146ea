"""Edit columns by path, find a position beside another column, assign new ids.

Owns: finding a field inside a column's type, and replacing it. Must not know: which edits the format allows.
Source: format/schema §3 (field ids). Invariant: Everything else stays as it is, including ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from ...errors import InvalidArgument
from ...rows.types import ArrayType, DataType, Field, MapType, MultisetType, RowType, VectorType, sql

Edit: TypeAlias = Callable[[tuple[Field, ...], int], tuple[Field, ...]]


def edited(fields: tuple[Field, ...], path: tuple[str, ...], whole: str, edit: Edit) -> tuple[Field, ...]:
    """The fields, with the one that a path names edited. Raises InvalidArgument, with the path as `whole`."""
    index = next((i for i, f in enumerate(fields) if f.name == path[0]), None)
    if index is None:
        raise InvalidArgument(f"there is no column '{whole}'", next_step=f"there are {[f.name for f in fields]}")
    if len(path) == 1:
        return edit(fields, index)
    return with_field(fields, index, type=_edited_inside(fields[index].type, path[1:], whole, edit))


def _edited_inside(data_type: DataType, path: tuple[str, ...], whole: str, edit: Edit) -> DataType:
    match data_type:
        case RowType(fields=fields):
            return replace(data_type, fields=edited(fields, path, whole, edit))
        case ArrayType(element=part):
            return replace(data_type, element=_edited_part("element", part, path, whole, edit))
        case MapType(value=part):
            return replace(data_type, value=_edited_part("value", part, path, whole, edit))
        case _:
            raise InvalidArgument(f"'{whole}': {sql(data_type)} has no part '{path[0]}' that can be changed")


def _edited_part(name: str, part: DataType, path: tuple[str, ...], whole: str, edit: Edit) -> DataType:
    """Edit the element or value of an ARRAY or MAP, as if it were a single column. Only its type can change."""
    before = Field(-1, name, part)
    after = edited((before,), path, whole, edit)
    if len(after) != 1 or replace(after[0], type=part) != before:
        raise InvalidArgument(f"only the type of '{whole}' can be changed")
    return after[0].type


def with_field(fields: tuple[Field, ...], index: int, **what: Any) -> tuple[Field, ...]:
    return (*fields[:index], replace(fields[index], **what), *fields[index + 1 :])


def position_beside(fields: tuple[Field, ...], first: bool, after: str | None, before: str | None) -> int | None:
    if (first is True) + (after is not None) + (before is not None) > 1:
        raise InvalidArgument("give only one of first, after and before")
    if first:
        return 0
    beside = after if after is not None else before
    if beside is None:
        return None
    for index, field in enumerate(fields):
        if field.name == beside:
            return index + (after is not None)
    raise InvalidArgument(f"there is no column '{beside}'", next_step=f"there are {[f.name for f in fields]}")


def numbered(data_type: DataType, highest: int) -> tuple[DataType, int]:
    """The type with new ids for its fields (nested fields before their parent), and the new highest id."""
    match data_type:
        case RowType(fields=fields):
            made = []
            for field in fields:
                inner, highest = numbered(field.type, highest)
                highest += 1
                made.append(replace(field, id=highest, type=inner))
            return replace(data_type, fields=tuple(made)), highest
        case ArrayType(element=element) | MultisetType(element=element) | VectorType(element=element):
            inner, highest = numbered(element, highest)
            return replace(data_type, element=inner), highest
        case MapType(key=key, value=value):
            key, highest = numbered(key, highest)
            value, highest = numbered(value, highest)
            return replace(data_type, key=key, value=value), highest
        case _:
            return data_type, highest
