"""Lossless conversion between Arrow columns and JSON values.

Owns: how each type is written in JSON. Must not know: files, tables, or where the text goes.

| type | JSON |
|---|---|
| BOOLEAN, integers, text | the same type in JSON |
| FLOAT, DOUBLE | number; "NaN", "Infinity", "-Infinity" as text |
| DECIMAL | text with every digit of the scale |
| DATE, TIME, TIMESTAMP | ISO text with every digit of the second; with Z if it is a point in time |
| BINARY, VARBINARY, BYTES | hex text that begins with 0x |
| ROW, ARRAY, MAP | object, list, list of [key, value] |

Invariant: `from_json(to_json(a), a.type)` equals `a`, including nulls.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...core.rows.dates import FarDate, date_to_days, days_to_date, moment_text
from ...core.rows.literals import coerce_literal
from ...core.rows.types import AtomicType
from ...core.rows.values import NANOS_PER_SECOND, NANOS_PER_UNIT, SECONDS_PER_DAY

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def json_rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a batch as dicts that `json.dumps` accepts.

    >>> list(json_rows(pa.record_batch({"d": pa.array([Decimal("1.50"), None]), "b": pa.array([b"a", b""])})))
    [{'d': '1.50', 'b': '0x61'}, {'d': None, 'b': '0x'}]
    """
    names = batch.schema.names
    if not names:
        yield from ({} for _ in range(batch.num_rows))
        return
    columns = [to_json(column) for column in batch.columns]
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def to_json(array: pa.Array) -> list[Any]:
    kind = array.type
    types = pa.types
    if types.is_dictionary(kind):
        return to_json(array.cast(kind.value_type))
    if types.is_struct(kind):
        return _objects(array)
    if types.is_map(kind):
        pairs = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        found = to_json(pa.ListArray.from_arrays(array.offsets, pairs))
        told = [[[pair["key"], pair["value"]] for pair in value or ()] for value in found]
        return [value if valid else None for value, valid in zip(told, array.is_valid().to_pylist(), strict=True)]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _lists(array)
    if types.is_floating(kind):
        return [_number(value) for value in array.to_pylist()]
    if types.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in array.to_pylist()]
    if types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind):
        texts = _far_texts(array) or pc.cast(array, pa.string()).to_pylist()
        return [None if text is None else text.replace(" ", "T") for text in texts]
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return [None if value is None else f"0x{value.hex()}" for value in array.to_pylist()]
    return array.to_pylist()  # type: ignore[no-any-return]


def _far_texts(array: pa.Array) -> list[str | None] | None:
    """The texts of dates and times if one is outside the years 1 to 9999, which Arrow spells in another way or not at all."""
    kind = array.type
    if pa.types.is_time(kind) or pa.types.is_date64(kind) or array.null_count == len(array):
        return None
    ticks = array.cast(pa.int32() if pa.types.is_date(kind) else pa.int64())
    per_day = 1 if pa.types.is_date(kind) else SECONDS_PER_DAY * NANOS_PER_SECOND // NANOS_PER_UNIT[kind.unit]
    ends = pc.min_max(ticks)
    days = (ends["min"].as_py() // per_day, ends["max"].as_py() // per_day)
    if not any(isinstance(days_to_date(day), FarDate) for day in days):
        return None
    if pa.types.is_date(kind):
        return [None if value is None else days_to_date(value).isoformat() for value in ticks.to_pylist()]
    nanos, digits = NANOS_PER_UNIT[kind.unit], _DIGITS[kind.unit]
    zone = "" if kind.tz is None else "Z"
    return [None if value is None else moment_text(value * nanos, digits) + zone for value in ticks.to_pylist()]


def _times(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    try:
        return pa.array(values, pa.string()).cast(kind)
    except pa.ArrowInvalid:  # Arrow does not read years with a sign or of five digits
        if pa.types.is_date(kind):
            days = [None if v is None else coerce_literal(v, AtomicType("DATE"), "the value") for v in values]
            return pa.array([None if v is None else date_to_days(v) for v in days], pa.int32()).cast(kind)
        type_ = AtomicType("TIMESTAMP" if kind.tz is None else "TIMESTAMP_LTZ", precision=_DIGITS[kind.unit])
        nanos = [coerce_literal(v, type_, "the value") for v in values]
        return pa.array([None if v is None else v // NANOS_PER_UNIT[kind.unit] for v in nanos], pa.int64()).cast(kind)


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _objects(array: Any) -> list[Any]:
    names = [array.type.field(i).name for i in range(array.type.num_fields)]
    valid = array.is_valid().to_pylist()
    if not names:
        return [{} if there else None for there in valid]
    parts = zip(*(to_json(part) for part in array.flatten()), strict=True)
    return [dict(zip(names, row, strict=True)) if there else None for row, there in zip(parts, valid, strict=True)]


def _lists(array: Any) -> list[Any]:
    values = iter(to_json(array.flatten()))  # skips the elements of null lists
    lengths = pc.list_value_length(array).to_pylist()
    valid = array.is_valid().to_pylist()
    return [
        list(itertools.islice(values, length)) if there else None for length, there in zip(lengths, valid, strict=True)
    ]


def text_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn every column that CSV cannot hold into text; nested columns become JSON."""
    columns = []
    for column in batch.columns:
        kind = column.type
        if pa.types.is_nested(kind):
            texts = [None if v is None else json.dumps(v, ensure_ascii=False) for v in to_json(column)]
            column = pa.array(texts, pa.string())
        elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_string(kind)):
            told = [v if v is None or isinstance(v, str) else repr(v) for v in to_json(column)]
            column = pa.array(told, pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


# ------------------------------------------------------------------------------------------------------------- and back


def from_json(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of what `json.loads(…, parse_float=Decimal)` returns: a number with a fraction is a `Decimal`. Raises
    pa.ArrowException, TypeError, ValueError or ArithmeticError where a value is not of that type.

    >>> from_json(["0x61", None], pa.binary()).to_pylist()
    [b'a', None]
    """
    types = pa.types
    if types.is_struct(kind):
        return _struct(values, kind)
    if types.is_map(kind):
        flat, offsets = _flat(values)
        keys = from_json([pair[0] for pair in flat], kind.key_type)
        items = from_json([pair[1] for pair in flat], kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items).cast(kind)
    if types.is_list(kind):
        flat, offsets = _flat(values)
        return pa.ListArray.from_arrays(offsets, from_json(flat, kind.value_type)).cast(kind)
    if types.is_fixed_size_list(kind):
        return from_json(values, pa.list_(kind.value_type)).cast(kind)
    if types.is_floating(kind):
        return pa.array([_float(v) for v in values], kind)
    if types.is_decimal(kind):
        return pa.array([None if v is None else _decimal(v) for v in values], kind)
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.array([_unhexed(v) for v in values], kind)
    if types.is_time(kind):
        # Arrow cannot cast text to a time of day, so cast a timestamp on 1970-01-01 and take its time.
        texts = pc.binary_join_element_wise("1970-01-01", pa.array(values, pa.string()), "T")
        return texts.cast(pa.timestamp(kind.unit)).cast(kind)
    if types.is_timestamp(kind) or types.is_date(kind):
        return _times(values, kind)
    if types.is_integer(kind):
        return pa.array([_whole(v) for v in values], kind)
    return pa.array(values, kind)


def _struct(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    fields = [kind.field(i) for i in range(kind.num_fields)]
    known = {f.name for f in fields}
    for value in values:
        if value is not None and not known.issuperset(value):
            raise ValueError(f"the type has no field {min(set(value) - known)!r}")
    parts = [from_json([None if v is None else v.get(f.name) for v in values], f.type) for f in fields]
    missing = pa.array([v is None for v in values], pa.bool_())
    return pa.StructArray.from_arrays(parts, fields=fields, mask=missing)


def _flat(values: Sequence[Any]) -> tuple[list[Any], pa.Array]:
    """Concatenate lists. Returns the values and the offset of each list, null for a null list."""
    flat: list[Any] = []
    offsets: list[int | None] = []
    for value in values:
        offsets.append(None if value is None else len(flat))
        if value is not None:
            if not isinstance(value, list):
                raise TypeError(f"{value!r} is not a list")
            flat.extend(value)
    return flat, pa.array([*offsets, len(flat)], pa.int32())


def _float(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        if value not in _NOT_NUMBERS:
            raise ValueError(f"{value!r} is not a number")
        return _NOT_NUMBERS[value]
    return float(value)


def _whole(value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise TypeError(f"{value!r} is not a whole number")  # Arrow would truncate a fraction
    return value


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        raise TypeError(f"{value!r} is not a decimal number")
    return Decimal(value)


def _unhexed(value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("0x"):
        raise ValueError(f"{value!r} is not hex text such as 0x00ff")
    return bytes.fromhex(value[2:])
