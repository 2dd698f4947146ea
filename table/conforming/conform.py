"""Convert the caller's rows to the table's columns and types.

Owns: matching columns and fields by name, defaults, and rebuilding nested values. Must not know: files, partitions, how single
values are converted (`values`). Source: architecture §5 (columns are matched by name), format/schema §1 (defaults).
Invariants: A value is stored exactly or refused, never cut or left out, at every depth. An error names the column and the value.
No Python code runs per row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timezone
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...core.errors import InvalidArgument
from ...core.rows.arrow import VARIANT_STORAGE, arrow_schema, to_arrow
from ...core.rows.literals import coerce_literal
from ...core.rows.sizes import is_list, list_offsets, run_numbers
from ...core.rows.types import (
    MAX_LENGTH,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)
from ...core.rows.values import to_arrow_scalar
from .plain import entries, nulls_of, plain
from .required import with_required_parts
from .rules import is_map, places_of, refusal
from .values import converted

_kinds = pa.types
_COUNT = AtomicType("INT")


class Conformer:
    """Makes batches fit a table's columns.

    >>> from ...core.rows.types import string
    >>> conformer = Conformer((Field(0, "a", AtomicType("BIGINT")), Field(1, "b", string())))
    >>> conformer(pa.record_batch({"a": pa.array([1], pa.int8())})).to_pylist()
    [{'a': 1, 'b': None}]
    """

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self.schema = arrow_schema(fields)
        self._known = {f.name for f in fields}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Fit a batch. `InvalidArgument`: the table lacks a column of it, a required one is missing, or a value does not fit."""
        names = batch.schema.names
        unknown = [name for name in names if name not in self._known]
        if unknown:
            raise InvalidArgument(
                f"the table has no column {unknown[0]!r}", next_step=f"its columns are {sorted(self._known)}"
            )
        given = dict(zip(names, batch.columns, strict=True))
        if len(given) != len(names):
            raise InvalidArgument("the data has two columns with the same name")
        columns = [self._column(given.get(f.name), f, self.schema.field(i), batch) for i, f in enumerate(self.fields)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _column(self, given: Any, field: Field, target: pa.Field, batch: pa.RecordBatch) -> pa.Array:
        if given is None:
            array = with_required_parts(pa.nulls(batch.num_rows, target.type), target.type, field.name)
        else:
            array = fitted(given, field, target.type)
        if array.null_count and field.default_value is not None:
            array = pc.fill_null(array, _default(field, target.type))
        if array.null_count and not field.type.nullable:
            what = "is missing" if given is None else f"has {array.null_count} nulls"
            raise InvalidArgument(f"column {field.name!r} {what}, but it is NOT NULL")
        return array


def _default(field: Field, target: pa.DataType) -> pa.Scalar:
    value = coerce_literal(field.default_value, field.type, f"default of column {field.name!r}", timezone.utc)
    return to_arrow_scalar(value, field.type, target)


def fitted(array: pa.Array, field: Field, target: pa.DataType) -> pa.Array:
    """An array cast to a column's type. `InvalidArgument` names a value that does not fit exactly."""
    if array.type.equals(target) and _needs_no_look(field.type):
        return array
    made = _fitted(array, field.type, field.name)
    made = with_required_parts(made, target, field.name)
    return made if made.type.equals(target) else made.cast(target)


@lru_cache(maxsize=4096)
def _needs_no_look(data_type: DataType) -> bool:
    """Are all arrays of the type's Arrow form values of it?"""
    match data_type:
        case AtomicType(root=root, length=length):
            return root != "VARIANT" and (not length or length == MAX_LENGTH)
        case ArrayType(element=part):
            return part.nullable and _needs_no_look(part)
        case MapType(key=key, value=value):
            return value.nullable and _needs_no_look(key) and _needs_no_look(value)
        case RowType(fields=fields):
            return all(f.type.nullable and _needs_no_look(f.type) for f in fields)
        case _:
            return False


@lru_cache(maxsize=4096)
def _loose(data_type: DataType) -> Any:
    """The Arrow form of a type in which all parts may be null: whether they are is checked where nulls are visible."""
    return _with_nullable_parts(to_arrow(data_type))


def _with_nullable_parts(t: Any) -> Any:
    if _kinds.is_struct(t) and t != VARIANT_STORAGE:
        return pa.struct([f.with_type(_with_nullable_parts(f.type)).with_nullable(True) for f in t])
    if _kinds.is_map(t):
        item = pa.field("value", _with_nullable_parts(t.item_type))
        return pa.map_(pa.field("key", _with_nullable_parts(t.key_type), False), item)
    if _kinds.is_fixed_size_list(t):
        return pa.list_(pa.field("element", _with_nullable_parts(t.value_type)), t.list_size)
    if _kinds.is_list(t):
        return pa.list_(pa.field("element", _with_nullable_parts(t.value_type)))
    return t


def _fitted(array: Any, data_type: DataType, where: str) -> Any:
    target = _loose(data_type)
    if array.null_count == len(array) and not _kinds.is_dictionary(array.type):
        return pa.nulls(len(array), target)  # there is no value that could be changed
    array = _decoded(array)
    match data_type:
        case AtomicType(root="VARIANT") if _kinds.is_struct(array.type):
            return _variant(array, data_type, where)
        case AtomicType():
            return converted(array, data_type, where)
        case RowType() if _kinds.is_struct(array.type):
            return _row(array, data_type, target, where)
        case ArrayType(element=element) if is_list(array.type):
            return _list(array, element, target, where)
        case VectorType(element=element, length=length) if is_list(array.type):
            return _vector(array, element, length, target, where)
        case MapType(key=key, value=value) if is_map(array.type):
            return _map(array, key, value, target, where)
        case MultisetType(element=element) if is_map(array.type):
            return _map(array, element, _COUNT, target, where)
    raise refusal(array.type, data_type, where)


def _decoded(array: Any) -> Any:
    while True:
        t = array.type
        if _kinds.is_dictionary(t):
            array = plain(array.dictionary).take(array.indices)
        elif _kinds.is_run_end_encoded(t):
            array = plain(array.values).take(pa.array(run_numbers(array)))
        elif (
            isinstance(t, pa.BaseExtensionType)
            and t.storage_type.num_fields
            and not t.extension_name.startswith("pandas.")
        ):
            array = array.storage
        else:
            return array


def _row(array: Any, data_type: RowType, target: Any, where: str) -> Any:
    places, parts = places_of(array.type, data_type, where), array.flatten()
    made = [
        pa.nulls(len(array), target.field(i).type)
        if place is None
        else _fitted(parts[place], field.type, f"{where}.{field.name}")
        for i, (field, place) in enumerate(zip(data_type.fields, places, strict=True))
    ]
    return pa.StructArray.from_arrays(made, fields=list(target), mask=nulls_of(array))


def _variant(array: Any, data_type: AtomicType, where: str) -> Any:
    names = [f.name for f in array.type]
    if sorted(names) != ["metadata", "value"]:
        raise refusal(array.type, data_type, where)
    parts = [plain(array.field(names.index(field.name))) for field in VARIANT_STORAGE]
    return pa.StructArray.from_arrays(parts, fields=list(VARIANT_STORAGE), mask=nulls_of(array))


def _list(array: Any, element: DataType, target: Any, where: str) -> Any:
    values = _fitted(array.flatten(), element, f"{where}.element")
    return pa.ListArray.from_arrays(_offsets(list_offsets(array), where), values, type=target, mask=nulls_of(array))


def _vector(array: Any, element: DataType, length: int, target: Any, where: str) -> Any:
    places = list_offsets(array)
    wrong = (np.diff(places) != length) & np.asarray(array.is_valid())
    if wrong.any():
        found = int(np.diff(places)[wrong][0])
        raise InvalidArgument(f"column {where!r}: a list of {found} values is no VECTOR of {length}")
    return _list(array, element, pa.list_(target.value_field), where).cast(target)


def _map(array: Any, key: DataType, value: DataType, target: Any, where: str) -> Any:
    if is_list(array.type):
        places, (keys, items) = list_offsets(array), array.flatten().flatten()
    else:
        places, keys, items = entries(array)
    keys = _fitted(keys, key, f"{where}.key")
    if keys.null_count:
        raise InvalidArgument(f"column '{where}.key' has {keys.null_count} nulls, and keys of a MAP are never null")
    items = _fitted(items, value, f"{where}.value")
    return pa.MapArray.from_arrays(_offsets(places, where), keys, items, type=target, mask=nulls_of(array))


def _offsets(places: Any, where: str) -> Any:
    if len(places) and places[-1] > 2**31 - 1:
        raise InvalidArgument(
            f"column {where!r}: {places[-1]} elements in so few rows are more than Arrow's lists hold"
        )
    return pa.array(places, pa.int32())
