"""Values as the texts of CSV and JSON files, and back.

Owns: which columns these formats can hold, and the text of each type. Must not know: lines, files.
Source: format/data-files §3. Invariants: A value is written as Apache Paimon writes it, and read as it reads it. A type whose
text depends on the writer's time zone is refused, since the file does not name the zone.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ....core.casts.columns import by_value
from ....core.casts.rules import cast_of
from ....core.errors import Unsupported
from ....core.options import TableOptions
from ....core.rows.arrow import to_arrow
from ....core.rows.types import (
    BINARY_ROOTS,
    INTEGER_ROOTS,
    STRING_ROOTS,
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    RowType,
    sql,
    string,
)
from ....core.rows.values import root_of

TEXT_FORMATS = ("csv", "json")
_HELD = frozenset(
    ("BOOLEAN", "FLOAT", "DOUBLE", "DECIMAL", "DATE", "TIME", "TIMESTAMP", *INTEGER_ROOTS, *STRING_ROOTS, *BINARY_ROOTS)
)
_KEYS = frozenset((*INTEGER_ROOTS, *STRING_ROOTS))
_OPTIONS = ("field-delimiter", "seq", "delimiter", "lineSep", "quote", "escape", "header", "nullvalue", "mode")
"""Other names of Apache Paimon for options of its text formats."""


def check_text(file_format: str, fields: Sequence[Field], options: TableOptions) -> None:
    """Refuse columns and options that lakelatch does not write or read as texts."""
    for name in options.texts:
        if name.startswith(f"{file_format}.") or (file_format == "csv" and name in _OPTIONS):
            raise Unsupported(
                f"option '{name}' changes the form of {file_format} files, and is not supported",
                next_step="remove the option, or use another file format",
            )
    for field in fields:
        part = _unheld(field.type, file_format == "json")
        if part is not None:
            zone = " without the time zone of the writer" if root_of(part) == "TIMESTAMP_LTZ" else ""
            raise Unsupported(
                f"column '{field.name}' is {sql(part)}, which {file_format} files cannot hold{zone}",
                next_step="use another file format, or leave the column out",
            )


def _unheld(data_type: DataType, nested: bool) -> DataType | None:
    """The part of a type that cannot be written as text."""
    match data_type:
        case AtomicType(root=root):
            return None if root in _HELD else data_type
        case ArrayType(element=element) if nested:
            return _unheld(element, nested)
        case RowType(fields=fields) if nested:
            return next((part for f in fields if (part := _unheld(f.type, nested)) is not None), None)
        case MapType(key=key, value=value) if nested:
            return _unheld(value, nested) if root_of(key) in _KEYS else data_type
        case _:
            return data_type


def texts_of(array: Any, data_type: AtomicType) -> Any:
    """The texts of a column's values. `ValueError`: a time outside the years 1 to 9999, which readers do not understand."""
    if data_type.root in BINARY_ROOTS:
        return by_value(array, lambda value: base64.b64encode(value).decode(), pa.string())
    if data_type.root in STRING_ROOTS:
        return array
    cast = cast_of(data_type, string())
    assert cast is not None, data_type
    texts = cast(array)
    if data_type.root in ("DATE", "TIMESTAMP"):
        year = r"^([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-"
        odd = pc.fill_null(pc.invert(pc.match_substring_regex(texts, year)), False)
        if pc.any(odd).as_py():
            raise ValueError(f"{pc.filter(texts, odd)[0].as_py()} is not in the years 1 to 9999")
    return texts


def values_of(texts: Any, data_type: AtomicType) -> Any:
    """The values of a column's texts. `ValueError` or `CastFailure`: a text is no value of the type."""
    if data_type.root in STRING_ROOTS:
        return texts
    if data_type.root in BINARY_ROOTS:
        try:
            return by_value(texts, lambda text: base64.b64decode(text, validate=True), pa.binary())
        except binascii.Error as error:
            raise ValueError(f"a value is not in base64: {error}") from error
    if data_type.root == "BOOLEAN":
        return pc.equal(pc.utf8_lower(texts), "true")
    if data_type.root == "DECIMAL":
        try:
            return texts.cast(to_arrow(data_type))  # exact; the cast for changed columns computes with fewer digits
        except pa.ArrowInvalid:
            pass  # more digits than the type has: rounded, or null, as by that cast
    cast = cast_of(string(), data_type)
    assert cast is not None, data_type
    return cast(texts)


def plain_of(array: Any, data_type: DataType) -> list[Any]:
    """A column as the values that JSON writes: texts, lists, objects."""
    match data_type:
        case AtomicType():
            return list(texts_of(array, data_type).to_pylist())
        case RowType(fields=fields):
            parts = [plain_of(child, f.type) for child, f in zip(array.flatten(), fields, strict=True)]
            made = [dict(zip((f.name for f in fields), row, strict=True)) for row in zip(*parts, strict=True)]
            return [row if valid else None for row, valid in zip(made, array.is_valid().to_pylist(), strict=True)]
        case ArrayType(element=element):
            values = plain_of(array.values, element)
            return [None if span is None else values[span] for span in _spans(array)]
        case MapType(key=key, value=value):
            keys, items = plain_of(array.keys, key), plain_of(array.items, value)
            spans = _spans(array)
            return [None if s is None else dict(zip(keys[s], items[s], strict=True)) for s in spans]
        case _:
            raise AssertionError(data_type)


def _spans(array: Any) -> list[slice | None]:
    ends = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [slice(ends[i], ends[i + 1]) if there else None for i, there in enumerate(valid)]


def array_of(plain: Sequence[Any], data_type: DataType) -> Any:
    """A column of what JSON reads, with numbers and truth values as texts; errors as for `values_of`."""
    match data_type:
        case AtomicType():
            if any(isinstance(value, list | dict) for value in plain):
                raise ValueError(f"a list or object stands where {sql(data_type)} should")
            texts = [str(value).lower() if isinstance(value, bool) else value for value in plain]
            return values_of(pa.array(texts, pa.string()), data_type)
        case RowType(fields=fields):
            rows = [_checked(value, dict) for value in plain]
            parts = [array_of([None if r is None else r.get(f.name) for r in rows], f.type) for f in fields]
            mask = pa.array([row is None for row in rows], pa.bool_())
            return pa.StructArray.from_arrays(parts, fields=list(to_arrow(data_type)), mask=mask)
        case ArrayType(element=element):
            lists = [_checked(value, list) for value in plain]
            values = array_of([value for part in lists for value in part or ()], element)
            return pa.ListArray.from_arrays(_offsets(lists), values, type=to_arrow(data_type), mask=_mask(lists))
        case MapType(key=key, value=value):
            maps = [_checked(value, dict) for value in plain]
            keys = array_of([k for part in maps for k in part or ()], key)
            items = array_of([v for part in maps for v in (part or {}).values()], value)
            return pa.MapArray.from_arrays(_offsets(maps), keys, items, type=to_arrow(data_type), mask=_mask(maps))
        case _:
            raise AssertionError(data_type)


def _checked(value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{value!r} stands where {'an object' if kind is dict else 'a list'} should")
    return value


def _mask(parts: Sequence[Any]) -> Any:
    return pa.array([part is None for part in parts], pa.bool_())


def _offsets(parts: Sequence[Any]) -> Any:
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part or ()))
    return pa.array(ends, pa.int32())
