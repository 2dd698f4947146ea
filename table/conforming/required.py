"""Check the parts of nested values that must not be null, and fill those inside a null ROW.

Owns: NOT NULL inside ROW, ARRAY, MAP and VECTOR. Must not know: tables, files. `conform` calls it for each column.
Source: format/data-files §3. Invariants: A null in a required part is refused, and the error names the part. A part inside a null
ROW is not refused, because no reader sees it, but it is filled: Arrow marks it as null, and its Parquet writer would refuse it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import InvalidArgument
from ..projection.physical import list_of, map_of

_kinds = pa.types


def has_required_parts(kind: Any) -> bool:
    """Does the type have a part that must not be null? Keys of a MAP are not counted, since they never are null.

    >>> has_required_parts(pa.list_(pa.int32())), has_required_parts(pa.struct([pa.field("x", pa.int32(), False)]))
    (False, True)
    """
    if _kinds.is_struct(kind):
        return any(not part.nullable or has_required_parts(part.type) for part in kind)
    if _kinds.is_map(kind):
        return not kind.item_field.nullable or has_required_parts(kind.key_type) or has_required_parts(kind.item_type)
    if _kinds.is_list(kind) or _kinds.is_large_list(kind) or _kinds.is_fixed_size_list(kind):
        return not kind.value_field.nullable or has_required_parts(kind.value_type)
    return False


def with_required_parts(array: Any, target: Any, where: str) -> Any:
    """The array with its required parts filled inside null ROWs.

    `InvalidArgument` names a required part that is null. An array of another shape is left for the cast to refuse.
    """
    if not has_required_parts(target):
        return array
    if _kinds.is_struct(target) and _kinds.is_struct(array.type):
        return _struct(array, target, where)
    if _kinds.is_map(target) and _kinds.is_map(array.type):
        kind = array.type
        return map_of(
            array,
            kind,
            lambda keys: with_required_parts(keys, target.key_type, f"{where}.key"),
            lambda items: _part(items, target.item_field, f"{where}.value"),
        )
    if _kinds.is_list(target) and _kinds.is_list(array.type):
        return list_of(array, array.type, lambda values: _part(values, target.value_field, f"{where}.element"))
    if _kinds.is_fixed_size_list(target) and _kinds.is_fixed_size_list(array.type):
        _part(array.flatten(), target.value_field, f"{where}.element")
    return array


def _part(array: Any, field: Any, where: str) -> Any:
    if not field.nullable and array.null_count:
        raise InvalidArgument(f"column {where!r} has {array.null_count} nulls, but it is NOT NULL")
    return with_required_parts(array, field.type, where)


def _struct(array: Any, target: Any, where: str) -> Any:
    parts = []
    for index, source in enumerate(array.type):
        part, position = array.field(index), target.get_field_index(source.name)
        if position >= 0:
            field = target.field(position)
            if array.null_count and (not field.nullable or has_required_parts(field.type)):
                part = _filled(part, field.type, array.is_valid())
            part = _part(part, field, f"{where}.{source.name}")
        parts.append(part)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(parts, fields=list(array.type), mask=mask)


def _filled(part: Any, target: Any, visible: Any) -> Any:
    """The part, with values that are not null where no reader sees them."""
    anything = pa.array([None], pa.struct([pa.field("part", target, nullable=False)])).field(0)
    if not part.type.equals(target):
        anything = anything.cast(part.type)
    chosen = pc.if_else(visible, pa.array(np.arange(len(part))), pa.scalar(len(part), pa.int64()))
    return pa.concat_arrays([part, anything]).take(chosen)
