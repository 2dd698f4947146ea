"""One way to write rows down, so that every test compares the same: the JSON encoding of the golden tables.

Owns: Arrow to encoded rows and back, the sorting, the comparison. Must not know: files, tables, Spark, Java.
Every reader (ours, Spark's, Apache Paimon's in Java, pypaimon) is brought to this form: integers and booleans as they
are; FLOAT and DOUBLE as numbers or "NaN", "Infinity", "-Infinity", "-0.0"; DECIMAL as text, all digits of the scale;
DATE and TIMESTAMP in ISO form (nine digits of the second, Z with a local time zone); TIME as HH:MM:SS.mmm; binary as 0x
hex; VARIANT as its JSON text; ARRAY and ROW as lists; MAP and MULTISET as lists of pairs sorted by key. Rows are sorted
by their JSON text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakelatch.core.rows.arrow import arrow_schema, timestamp_unit, to_arrow
from lakelatch.core.rows.dates import date_to_days, days_to_date, parsed_date
from lakelatch.core.rows.types import (
    ArrayType,
    AtomicType,
    DataType,
    Field,
    MapType,
    MultisetType,
    RowType,
    VectorType,
)

Row = list[Any]
NANOS_PER = {"ms": 1_000_000, "us": 1_000, "ns": 1}


def row_text(row: Sequence[Any]) -> str:
    """The row as JSON text: what rows are sorted and compared by (1 and 1.0 differ, as they should)."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def sort_rows(rows: Iterable[Sequence[Any]]) -> list[Row]:
    """Encoded rows in the order in which they are compared."""
    return sorted((list(row) for row in rows), key=row_text)


def assert_same_rows(actual: Iterable[Sequence[Any]], expected: Iterable[Sequence[Any]], where: str = "") -> None:
    """Fails with the rows that are missing and those that are too many; the order of rows means nothing."""
    got, wanted = sorted(map(row_text, actual)), sorted(map(row_text, expected))
    if got == wanted:
        return
    rest = list(got)
    missing = [text for text in wanted if text not in rest or rest.remove(text)]  # type: ignore[func-returns-value]
    shown = "".join(f"\n  - missing: {t}" for t in missing[:5]) + "".join(f"\n  - too many: {t}" for t in rest[:5])
    raise AssertionError(
        f"{where}: {len(got)} rows, expected {len(wanted)}; {len(missing)} missing, {len(rest)} too many{shown}"
    )


# ----------------------------------------------------------------------------------------------------------- encoding


def encode_rows(table: pa.Table, fields: Sequence[Field]) -> list[Row]:
    """The rows of an Arrow table, encoded and sorted.

    Args:
        table: has a column for each field, found by name; physical variants (large, dictionary) are cast.
        fields: the columns wanted, in order, with their data types.
    """
    columns = [encode_column(table.column(field.name), field.type) for field in fields]
    return (
        sort_rows(list(row) for row in zip(*columns, strict=True)) if columns else [[] for _ in range(table.num_rows)]
    )


def encode_column(column: pa.ChunkedArray | pa.Array, data_type: DataType) -> list[Any]:
    """The values of one column, encoded, in their order."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    arrow_type = to_arrow(data_type)
    return [
        value
        for chunk in chunks
        for value in _encode(chunk if chunk.type == arrow_type else chunk.cast(arrow_type), data_type)
    ]


def _encode(array: pa.Array, data_type: DataType) -> list[Any]:
    valid = pc.is_valid(array).to_pylist()
    match data_type:
        case RowType(fields=fields):
            parts = [_encode(array.field(i), f.type) for i, f in enumerate(fields)]
            return [[part[i] for part in parts] if ok else None for i, ok in enumerate(valid)]
        case ArrayType(element=element):
            elements = _encode(array.values, element)
            starts = array.offsets.to_pylist()
            return [elements[starts[i] : starts[i + 1]] if ok else None for i, ok in enumerate(valid)]
        case VectorType(element=element, length=length):
            elements = _encode(array.values, element)
            starts = [(array.offset + i) * length for i in range(len(array))]
            return [elements[starts[i] : starts[i] + length] if ok else None for i, ok in enumerate(valid)]
        case MapType(key=key, value=value):
            return _encode_map(array, valid, key, _encode(array.items, value))
        case MultisetType(element=element):
            return _encode_map(array, valid, element, array.items.to_pylist())
        case AtomicType():
            return _encode_atomic(array, data_type)


def _encode_map(array: pa.Array, valid: list[bool], key: DataType, items: list[Any]) -> list[Any]:
    keys, starts = _encode(array.keys, key), array.offsets.to_pylist()
    return [
        sort_pairs(([keys[j], items[j]] for j in range(starts[i], starts[i + 1])), key) if ok else None
        for i, ok in enumerate(valid)
    ]


def sort_pairs(pairs: Iterable[list[Any]], key: DataType) -> list[list[Any]]:
    """The encoded pairs of a MAP or MULTISET in the order of their keys: numbers by value, text by code point."""
    if isinstance(key, AtomicType) and key.root == "DECIMAL":
        return sorted(pairs, key=lambda pair: Decimal(pair[0]))
    if isinstance(key, AtomicType) and key.root in ("FLOAT", "DOUBLE"):
        return sorted(pairs, key=lambda pair: (math.isnan(float(pair[0])), float(pair[0])))
    if isinstance(key, AtomicType):
        return sorted(pairs, key=lambda pair: pair[0])
    return sorted(pairs, key=lambda pair: row_text(pair[:1]))


def _encode_atomic(array: pa.Array, data_type: AtomicType) -> list[Any]:
    encode: Callable[[Any], Any]
    match data_type.root:
        case "FLOAT" | "DOUBLE":
            encode = encode_float
        case "DECIMAL":
            encode = "{:f}".format
        case "DATE":
            array, encode = array.cast(pa.int32()), encode_date
        case "TIME":
            array, encode = array.cast(pa.int32()), encode_time
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            nanos = NANOS_PER[array.type.unit]
            zone = "Z" if data_type.root == "TIMESTAMP_LTZ" else ""
            array, encode = array.cast(pa.int64()), lambda v: encode_timestamp(v * nanos) + zone
        case "BINARY" | "VARBINARY" | "BLOB" | "GEOMETRY" | "GEOGRAPHY":
            encode = encode_binary
        case "VARIANT":
            encode = _encode_variant
        case _:
            return array.to_pylist()  # type: ignore[no-any-return]
    return [None if value is None else encode(value) for value in array.to_pylist()]


def encode_float(value: float) -> float | str:
    """A FLOAT or DOUBLE: JSON has no word for the four special ones."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return "-0.0" if value == 0 and math.copysign(1, value) < 0 else value


def encode_binary(value: bytes) -> str:
    return "0x" + value.hex()


def encode_date(days: int) -> str:
    """ISO date of days since 1970-01-01."""
    return days_to_date(days).isoformat()


def encode_time(millis: int) -> str:
    """HH:MM:SS.mmm of milliseconds since midnight."""
    seconds, ms = divmod(millis, 1000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{ms:03d}"


def encode_timestamp(nanos: int) -> str:
    """ISO date and time, nine digits of the second, of nanoseconds since 1970-01-01T00:00."""
    seconds, fraction = divmod(nanos, 1_000_000_000)
    days, of_day = divmod(seconds, 86_400)
    return f"{encode_date(days)}T{of_day // 3600:02d}:{of_day // 60 % 60:02d}:{of_day % 60:02d}.{fraction:09d}"


def _encode_variant(value: dict[str, bytes]) -> str:
    from pyspark.sql.variant_utils import VariantUtils

    return VariantUtils.to_json(value["value"], value["metadata"])


# ----------------------------------------------------------------------------------------------------------- decoding


def decode_rows(rows: Iterable[Sequence[Any]], fields: Sequence[Field]) -> pa.Table:
    """An Arrow table of encoded rows: the inverse of `encode_rows` but for the order of rows. No VARIANT."""
    columns = list(zip(*rows, strict=True)) or [() for _ in fields]
    arrays = [
        pa.array([decode(v, f.type) for v in column], to_arrow(f.type))
        for column, f in zip(columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(fields))


def decode(value: Any, data_type: DataType) -> Any:
    """One encoded value as `pa.array` takes it for the type's Arrow form."""
    if value is None:
        return None
    match data_type:
        case RowType(fields=fields):
            return {f.name: decode(v, f.type) for v, f in zip(value, fields, strict=True)}
        case ArrayType(element=element) | VectorType(element=element):
            return [decode(v, element) for v in value]
        case MapType(key=key, value=item):
            return [(decode(k, key), decode(v, item)) for k, v in value]
        case MultisetType(element=element):
            return [(decode(k, element), count) for k, count in value]
        case AtomicType():
            return _decode_atomic(value, data_type)


def _decode_atomic(value: Any, data_type: AtomicType) -> Any:
    match data_type.root:
        case "FLOAT" | "DOUBLE":
            return float(value)
        case "DECIMAL":
            return Decimal(value)
        case "DATE":
            return decode_date(value)
        case "TIME":
            return decode_time(value)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return decode_timestamp(value) // NANOS_PER[timestamp_unit(data_type.precision)]
        case "BINARY" | "VARBINARY" | "BLOB" | "GEOMETRY" | "GEOGRAPHY":
            return bytes.fromhex(value[2:])
        case "VARIANT":
            raise NotImplementedError("a VARIANT is written by Java or Spark, not by this encoder")
        case _:
            return value


def decode_date(text: str) -> int:
    """Days since 1970-01-01; years may have a sign and more than four digits."""
    date = parsed_date(text)
    assert date is not None, text
    return date_to_days(date)


def decode_time(text: str) -> int:
    """Milliseconds since midnight."""
    hours, minutes, seconds = text.split(":")
    whole, millis = seconds.split(".")
    return ((int(hours) * 60 + int(minutes)) * 60 + int(whole)) * 1000 + int(millis)


def decode_timestamp(text: str) -> int:
    """Nanoseconds since 1970-01-01T00:00."""
    day, clock = text.removesuffix("Z").split("T")
    hours, minutes, seconds = clock.split(":")
    whole, fraction = seconds.split(".")
    of_day = int(hours) * 3600 + int(minutes) * 60 + int(whole)
    return (decode_date(day) * 86_400 + of_day) * 1_000_000_000 + int(fraction)
