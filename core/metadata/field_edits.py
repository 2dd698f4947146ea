"""Editing columns where they are: by path, beside another, with fresh ids.

Owns: walking to a field of a column's type and putting it back. Must not know: which edits the format allows.
Source: format/schema §3 (field ids). Invariant: what is not edited stays as it is, ids included.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from ..errors import InvalidArgument
from ..rows.types import ArrayType, DataType, Field, MapType, MultisetType, RowType, VectorType, sql

Edit: TypeAlias = Callable[[tuple[Field, ...], int], tuple[Field, ...]]
"""Fields, and the position of the one that is meant, to other fields."""


def edited(fields: tuple[Field, ...], path: tuple[str, ...], whole: str, edit: Edit) -> tuple[Field, ...]:
    """Fields with the one that a path names edited; `whole` is the path for errors.

    Raises:
        InvalidArgument: there is no such field.
    """
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
    """What an ARRAY or MAP holds, as if it were its only column: its type can change, and nothing else."""
    before = Field(-1, name, part)
    after = edited((before,), path, whole, edit)
    if len(after) != 1 or replace(after[0], type=part) != before:
        raise InvalidArgument(f"of '{whole}' only the type can change")
    return after[0].type


def with_field(fields: tuple[Field, ...], index: int, **what: Any) -> tuple[Field, ...]:
    """Fields with attributes of one replaced."""
    return (*fields[:index], replace(fields[index], **what), *fields[index + 1 :])


def position_beside(fields: tuple[Field, ...], first: bool, after: str | None, before: str | None) -> int | None:
    """Where a column goes; None where nothing was said. Raises InvalidArgument."""
    if (first is True) + (after is not None) + (before is not None) > 1:
        raise InvalidArgument("a column stands first, or after one, or before one")
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
    """The type with fresh ids for its fields, the parts of a field before the field; and the highest id now."""
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
