"""Values of every Arrow type, the columns they may go into, and what must come back: for the tests of the door."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

NOON, DAY, CLOCK = dt.datetime(2024, 2, 29, 12, 30, 1), dt.date(2024, 2, 29), dt.time(12, 30, 1)
MIDNIGHT = dt.datetime(2024, 2, 29)
UTC = dt.timezone.utc
BIG = Decimal("12345678901234567890123.456")


def halves(values: list[Any]) -> pa.Array:
    return pa.array([None if v is None else np.float16(v) for v in values], pa.float16())


def since(kind: str, values: list[Any], *arguments: int) -> dict[str, tuple[pa.DataType, list[Any]]]:
    """A leaf of a type that the oldest pyarrow which is allowed does not have."""
    made = getattr(pa, kind, None)
    return {kind.rstrip("_"): (made(*arguments), values)} if made else {}


LEAVES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "null": (pa.null(), [None]),
    "bool": (pa.bool_(), [True, False]),
    **{f"int{b}": (getattr(pa, f"int{b}")(), [1, 0, 100, -(2 ** (b - 1)), 2 ** (b - 1) - 1]) for b in (8, 16, 32, 64)},
    **{f"uint{b}": (getattr(pa, f"uint{b}")(), [1, 0, 100, 2**b - 1]) for b in (8, 16, 32, 64)},
    "float16": (pa.float16(), [1.0, 0.5, math.inf, math.nan, -0.0]),
    "float32": (pa.float32(), [1.0, 0.5, math.inf, math.nan, -0.0, 2.0**40]),
    "float64": (pa.float64(), [1.0, 0.5, 0.1, math.inf, math.nan, -0.0, 1e300, 2.0**60, 1e10]),
    **since("decimal32", [Decimal("1.00"), Decimal("-123.45")], 5, 2),
    **since("decimal64", [Decimal("1.0"), Decimal("12345678901234.5")], 15, 1),
    "decimal128": (pa.decimal128(30, 3), [Decimal("1.000"), Decimal("0.001"), BIG]),
    "decimal256": (pa.decimal256(60, 3), [Decimal("1.000"), BIG, Decimal(10) ** 50]),
    "string": (
        pa.string(),
        ["1", "0", "1.5", "", "a'b", "true", "2024-02-29", "12:30:01", "2024-02-29 12:30:01", "inf"],
    ),
    "large_string": (pa.large_string(), ["1", "x"]),
    "string_view": (pa.string_view(), ["1", "a text of more than twelve bytes"]),
    "text with zone": (pa.string(), ["2024-02-29T12:30:01+02:00", "2024-02-29T12:30:01Z"]),
    "binary": (pa.binary(), [b"ab", b"", b"\xff"]),
    "large_binary": (pa.large_binary(), [b"ab"]),
    "binary_view": (pa.binary_view(), [b"ab", b"bytes that are more than twelve"]),
    "fixed binary": (pa.binary(2), [b"ab", b"\xff\x00"]),
    "date32": (pa.date32(), [DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "date64": (pa.date64(), [DAY]),
    "time32 s": (pa.time32("s"), [CLOCK]),
    "time32 ms": (pa.time32("ms"), [CLOCK, CLOCK.replace(microsecond=5000)]),
    "time64 us": (pa.time64("us"), [CLOCK, CLOCK.replace(microsecond=5)]),
    "time64 ns": (pa.time64("ns"), [CLOCK]),
    **{f"timestamp {u}": (pa.timestamp(u), [MIDNIGHT, NOON, dt.datetime(2200, 1, 1)]) for u in ("s", "ms", "ns")},
    "timestamp us": (pa.timestamp("us"), [MIDNIGHT, NOON.replace(microsecond=7), dt.datetime(9999, 12, 31)]),
    **{f"instant {u}": (pa.timestamp(u, "Asia/Tokyo"), [NOON.replace(tzinfo=UTC)]) for u in ("s", "us", "ns")},
    "duration": (pa.duration("us"), [dt.timedelta(days=1)]),
    "interval": (pa.month_day_nano_interval(), [pa.MonthDayNano([1, 2, 3])]),
    **since("uuid", [uuid.UUID(int=2**100 + 7)]),
    **since("json_", ['{"a": 1}']),
    **since("bool8", [True, False]),
}

COLUMNS = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "DECIMAL(38, 10)",
    "STRING",
    "VARCHAR(12)",
    "BYTES",
    "DATE",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP(9)",
    "TIMESTAMP_LTZ(6)",
)


def array_of(name: str, values: list[Any]) -> pa.Array:
    kind = LEAVES[name][0]
    if name == "float16":
        return halves(values)
    if name == "uuid":
        return pa.ExtensionArray.from_storage(
            kind, pa.array([None if v is None else v.bytes for v in values], pa.binary(16))
        )
    if name == "bool8":
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.bool_()).cast(pa.int8()))
    if name == "json":
        return pa.ExtensionArray.from_storage(kind, pa.array(values, pa.string()))
    return pa.array(values, kind)


def run_ends(array: pa.Array) -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array(np.arange(1, len(array) + 1), pa.int32()), array)


def dictionary(array: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(len(array)), pa.int16()), array)


def sliced(array: pa.Array) -> pa.Array:
    return pa.concat_arrays([array.slice(len(array) - 1), array]).slice(1)


ENCODINGS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda array: array,
    "dictionary": dictionary,
    "run ends": run_ends,
    "sliced": sliced,
}


def _offsets(array: pa.Array, kind: Any) -> pa.Array:
    return pa.array(np.arange(len(array) + 1), kind)


Nesting = tuple[Callable[[pa.Array], pa.Array], str, Callable[[Any], Any]]
NESTINGS: dict[str, Nesting] = {
    "flat": (lambda a: a, "{}", lambda v: v),
    "list": (lambda a: pa.ListArray.from_arrays(_offsets(a, pa.int32()), a), "ARRAY<{}>", lambda v: v[0]),
    "large list": (lambda a: pa.LargeListArray.from_arrays(_offsets(a, pa.int64()), a), "ARRAY<{}>", lambda v: v[0]),
    "fixed list": (lambda a: pa.FixedSizeListArray.from_arrays(a, 1), "ARRAY<{}>", lambda v: v[0]),
    "list view": (
        lambda a: pa.ListViewArray.from_arrays(
            pa.array(np.arange(len(a)), pa.int32()), pa.array(np.ones(len(a)), pa.int32()), a
        ),
        "ARRAY<{}>",
        lambda v: v[0],
    ),
    "struct": (lambda a: pa.StructArray.from_arrays([a], ["f"]), "ROW<f {}>", lambda v: v["f"]),
    "map": (
        lambda a: pa.MapArray.from_arrays(_offsets(a, pa.int32()), pa.array(["k"] * len(a)), a),
        "MAP<STRING, {}>",
        lambda v: v[0][1],
    ),
    "depth 3": (
        lambda a: NESTINGS["large list"][0](NESTINGS["struct"][0](NESTINGS["map"][0](dictionary(a)))),
        "ARRAY<ROW<f MAP<STRING, {}>>>",
        lambda v: v[0]["f"][0][1],
    ),
}


def same(given: Any, read: Any, column: str) -> bool:
    """Is a value that was read what was given, by the meaning of the column's type? Written without the product's code."""
    if given is None or read is None:
        return given is read
    if column == "BOOLEAN":
        return bool(read == (given in ("1", "true") if isinstance(given, str) else given))
    if column in ("STRING", "VARCHAR(12)"):
        return _same_text(given, read)
    if column == "BYTES":
        return bool(read == (given.encode() if isinstance(given, str) else getattr(given, "bytes", given)))
    if column == "DATE":
        return bool(
            MIDNIGHT.combine(_parsed(given, dt.date.fromisoformat), dt.time()) == MIDNIGHT.combine(read, dt.time())
        )
    if column.startswith("TIME("):
        if isinstance(given, int):
            given = (dt.datetime.min + dt.timedelta(milliseconds=given)).time()
        return bool(read == _parsed(given, dt.time.fromisoformat))
    if column.startswith("TIMESTAMP"):
        moment = _parsed(given, lambda text: dt.datetime.fromisoformat(text.replace("Z", "+00:00")))
        moment = moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time())
        return bool(read == moment)
    return _same_number(given, read, column)


def _parsed(given: Any, parse: Callable[[str], Any]) -> Any:
    if isinstance(given, dt.datetime) and parse is dt.date.fromisoformat:
        return given.date() if given.time() == dt.time() else dt.date.min
    return parse(given) if isinstance(given, str) else given


def _same_text(given: Any, read: str) -> bool:
    if isinstance(given, bool):
        return read == str(given).lower()
    if isinstance(given, float):
        return (math.isnan(given) and read == "NaN") or float(read) == given or np.float32(read) == np.float32(given)
    if isinstance(given, (int, Decimal)):
        return Decimal(read) == given and "E" not in read
    if isinstance(given, bytes):
        return read.encode() == given
    if isinstance(given, dt.datetime):
        return dt.datetime.fromisoformat(read.ljust(26, "0") if "." in read else read) == given
    if isinstance(given, dt.time):
        return dt.time.fromisoformat(read[:15].ljust(15, "0") if "." in read else read) == given
    return read == str(given)


def _same_number(given: Any, read: Any, column: str) -> bool:
    if isinstance(given, str):
        given = float(given) if column in ("FLOAT", "DOUBLE") else Decimal(given)
    if isinstance(given, float) and math.isnan(given):
        return isinstance(read, float) and math.isnan(read)
    if column in ("FLOAT", "DOUBLE"):
        wanted = float(np.float32(float(given))) if column == "FLOAT" else float(given)
        is_whole = isinstance(given, int)
        return bool(read == wanted) and (not is_whole or int(read) == given)
    if isinstance(given, float) and column.startswith("DECIMAL"):
        return Decimal(read) in (Decimal(given), Decimal(repr(given)))
    return bool(Decimal(read) == Decimal(given))
