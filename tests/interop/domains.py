"""Columns of every type that an append table may have, with the values that lie at the edges of each.

Owns: columns, values, rows of them. Must not know: who writes or reads. Values are in the encoding of `values.py`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from values import Row

from lakelatch.core.rows.types import Field, parse_type

Column = tuple[str, Any]
"""Name, and type: SQL text, or the JSON of a nested one."""

_MOMENTS = [
    "1970-01-01T00:00:00.000000000",
    "1969-12-31T23:59:59.999999999",
    "2024-02-29T12:34:56.123456789",
    "1680-01-01T00:00:00.000000001",
    "2262-04-11T23:47:16.854775807",
    "1965-06-01T00:00:00.123456789",
    "1900-01-01T00:00:00.000999999",
]
_FAR_MOMENTS = [
    "0001-01-01T00:00:00.000000000",
    "9999-12-31T23:59:59.999999999",
    "1582-10-10T10:10:10.101010101",
    "0000-12-30T23:59:59.999999999",
    "-0044-03-15T12:00:00.000000000",
    "+10000-01-01T00:00:00.001001001",
]
_FAR_DAYS = ["0000-12-30", "-0044-03-15", "+10000-01-01", "-5877641-06-23", "+5881580-07-11"]
"""The first is what Spark makes of 0001-01-01 in some of its calendars; the last two are the ends of the type."""
_LONG = "straße €uro 😀 " * 500
"""More than the 4096 bytes up to which Parquet footers keep bounds."""
_TEXTS = [
    "",
    " ",
    "a",
    "A",
    "ä",
    "\x00",
    "\uffff",
    "😀",
    "\U0010ffff" * 20,
    "sixteen letters, and more",
    _LONG,
    "%_\\'\"",
]
_BYTES = ["0x", "0x00", "0xff", "0x7f80", "0x" + "ff" * 8]


def _at(precision: int, zone: str = "") -> list[str]:
    moments = _MOMENTS if precision > 6 else _MOMENTS + _FAR_MOMENTS
    return [m[: len(m) - 9 + precision] + "0" * (9 - precision) + zone for m in moments]


ATOMIC: dict[str, tuple[str, list[Any]]] = {
    "bo": ("BOOLEAN", [True, False]),
    "i8": ("TINYINT", [-128, -1, 0, 1, 127]),
    "i16": ("SMALLINT", [-32768, -1, 0, 1, 32767]),
    "i32": ("INT", [-(2**31), -1, 0, 1, 2**31 - 1]),
    "i64": ("BIGINT", [-(2**63), -1, 0, 1, 2**63 - 1]),
    "f32": ("FLOAT", ["NaN", "-Infinity", "Infinity", "-0.0", 0.0, 1.5, -2.0, 3.4028234663852886e38, 2.0**-149]),
    "f64": ("DOUBLE", ["NaN", "-Infinity", "Infinity", "-0.0", 0.0, 0.1, -1e-300, 1.7976931348623157e308, 5e-324]),
    "d1": ("DECIMAL(1, 0)", ["-9", "0", "9"]),
    "d9": ("DECIMAL(9, 2)", ["-9999999.99", "-0.01", "0.00", "9999999.99"]),
    "d18": ("DECIMAL(18, 18)", ["-0.999999999999999999", "0.000000000000000000", "0.999999999999999999"]),
    "d28": ("DECIMAL(28, 4)", ["-" + "9" * 24 + ".9999", "-0.0001", "1.0000", "9" * 24 + ".9999"]),
    "d38": ("DECIMAL(38, 10)", ["-" + "9" * 28 + ".9999999999", "0.0000000000", "9" * 28 + ".9999999999"]),
    "ch": ("CHAR(3)", ["", "a", "abc", "äöü", "😀😀😀", "zzz"]),
    "vc": ("VARCHAR(10)", ["", "0123456789", "äöüäöüäöüß", "zz"]),
    "st": ("STRING", _TEXTS),
    "b4": ("BINARY(4)", ["0x00000000", "0x7fffffff", "0x80000000", "0xffffffff"]),
    "v8": ("VARBINARY(8)", _BYTES),
    "by": ("BYTES", [*_BYTES, "0x" + "ff" * 20, "0x" + "00ab" * 3000]),
    "dt": ("DATE", ["0001-01-01", "1582-10-10", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31", *_FAR_DAYS]),
    "tm0": ("TIME(0)", ["00:00:00.000", "23:59:59.000"]),
    "tm3": ("TIME(3)", ["00:00:00.000", "00:00:00.001", "12:34:56.789", "23:59:59.999"]),
    **{f"ts{p}": (f"TIMESTAMP({p})", _at(p)) for p in range(10)},
    **{f"tz{p}": (f"TIMESTAMP({p}) WITH LOCAL TIME ZONE", _at(p, "Z")) for p in range(10)},
}
"""Column name to (type, values): every atomic type that has an order, one precision of each physical form at least."""


def _row(*parts: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": i, "name": n, "type": t} for i, n, t in parts]}


def _array(element: Any) -> dict[str, Any]:
    return {"type": "ARRAY", "element": element}


def _map(key: Any, value: Any) -> dict[str, Any]:
    return {"type": "MAP", "key": key, "value": value}


_STAMPS = ["2024-02-29T12:34:56.123456789", None, "1969-12-31T23:59:59.999999999"]

NESTED: dict[str, tuple[Any, list[Any]]] = {
    "ar": (_array("INT"), [[], [None], [1, None, -(2**31)], list(range(40))]),
    "an": (_array("STRING NOT NULL"), [[], ["", "😀"], [_LONG]]),
    "aa": (_array(_array("DECIMAL(28, 4)")), [[], [[], None, ["1.0000", None]]]),
    "at": (_array("TIMESTAMP(9)"), [[], _STAMPS]),
    "ma": (_map("STRING NOT NULL", "DOUBLE"), [[], [["", "NaN"], ["k", None]], [["a", "-0.0"], ["b", 1.5]]]),
    "mi": (_map("INT NOT NULL", _array("DATE")), [[], [[-1, None], [0, []], [7, ["0001-01-01", None]]]]),
    "md": (_map("DECIMAL(5, 1) NOT NULL", "TIME(3)"), [[["-1.5", "00:00:00.001"], ["9.0", None]]]),
    "ms": ({"type": "MULTISET", "element": "STRING NOT NULL"}, [[], [["", 2**31 - 1], ["x", 1]]]),
    "ro": (_row((101, "a", "BOOLEAN"), (102, "b", "BYTES")), [[None, None], [True, "0x"], [False, "0x00ff"]]),
    "rr": (
        _row((111, "in", _row((112, "t", "TIMESTAMP(9)"), (113, "u", "TIMESTAMP(3)"))), (114, "x", "TINYINT")),
        [[None, 1], [[None, None], None], [["2024-02-29T12:34:56.123456789", "2024-02-29T12:34:56.123000000"], -128]],
    ),
    "deep": (
        _array(_map("INT NOT NULL", _row((121, "l", _array(_row((122, "s", "STRING"), (123, "v", "BIGINT"))))))),
        [[], [None], [[]], [[[1, None], [2, [None]], [3, [[]]], [4, [[None, ["", 2**63 - 1], [None, None]]]]], None]],
    ),
}
"""Column name to (type, values): types with parts. Nothing orders them; they can only be null or not."""

EVERY = {**ATOMIC, **NESTED}


_MOMENT = re.compile(r"([+-]?[0-9]+)-[0-9]{2}-[0-9]{2}T[0-9:.]+Z?")
_DAY = re.compile(r"([+-]?[0-9]{4,7})-[0-9]{2}-[0-9]{2}(T.*)?")


def has_year(value: Any, first: int, last: int) -> bool:
    """Is the value no date and no time, or one of these years? Some readers have only the years 1 to 9999."""
    found = _DAY.fullmatch(value) if isinstance(value, str) else None
    return found is None or first <= int(found[1]) <= last


def storable(value: Any, file_format: str) -> Any:
    """A value that both sides can store and read in a format, made of one of these domains.

    ORC files: Arrow's times cover few years, and Java takes fractions of the last second before 1970 for later ones.
    """
    if file_format == "orc":
        if isinstance(value, list):
            return [storable(part, file_format) for part in value]
        found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
        if found and not 1678 <= int(found[1]) <= 2262:
            return None
        if found and value.startswith("1969-12-31T23:59:59"):
            return value[:20] + "0" * 9 + value[29:]
    return value


_NAMES = [
    "a",
    "A",
    "",
    " ",
    "a/b",
    "k=v%20",
    "%2F",
    "ü😀",
    "..",
    ".",
    "a:b*?\"<>|\\{}[]^#'%",
    "\x01\x7f",
    "\u2003",
    "x" * 120,
]
_NUMBERS = ["NaN", "-Infinity", "Infinity", "-0.0", 0.0, 1.5, -(2.0**-149), 1e7, 9999999.0, 2.0**-10]
_MORE_NUMBERS = [*_NUMBERS, 0.1, 1e300, 5e-324, 123456789.0, 2.2250738585072014e-308]
PARTITIONS: dict[str, tuple[str, list[Any]]] = {
    "st": ("STRING", [*_NAMES, "__DEFAULT_PARTITION__"]),
    "ch": ("CHAR(3)", ["", "a", " a ", "äöü"]),
    "fl": ("FLOAT", _NUMBERS),
    "do": ("DOUBLE", _MORE_NUMBERS),
    **{name: ATOMIC[name] for name in ("bo", "i8", "i16", "i32", "i64", "d1", "d9", "d18", "d28", "dt", "tm0", "tm3")},
    **{name: ATOMIC[name] for name in ("ts0", "ts3", "ts6", "ts9", "tz0", "tz3", "tz6", "tz9")},
}
"""Column name to (type, values) of types that may be partition columns; values whose folder names are hard to spell."""


def columns(names: Iterable[str]) -> list[Column]:
    """Columns of these domains."""
    return [(name, EVERY[name][0]) for name in names]


def fields(columns: Sequence[Column]) -> list[Field]:
    """Columns with the field ids that a new table gives them."""
    return [Field(i, name, parse_type(data_type)) for i, (name, data_type) in enumerate(columns)]


def edge_rows(names: Sequence[str]) -> list[Row]:
    """Rows in which every value of every column occurs, with a row of nulls, and a null in every column elsewhere."""
    longest = max(len(EVERY[name][1]) for name in names) + 1
    cycles = [[*EVERY[name][1], None] for name in names]
    rows = [[cycle[(i + shift) % len(cycle)] for shift, cycle in enumerate(cycles)] for i in range(2 * longest)]
    return [*rows, [None] * len(names)]


def random_rows(rng: random.Random, names: Sequence[str], count: int) -> Iterator[Row]:
    """Rows of random values of the columns' domains, one in eight null."""
    for _ in range(count):
        yield [None if rng.random() < 0.125 else rng.choice(EVERY[name][1]) for name in names]


def is_far(value: Any) -> bool:
    """A date or time outside of the years 1 to 9999: Java makes garbled text of it, and fails where it needs a zone."""
    return (
        isinstance(value, str)
        and re.match(r"(?!0000)\d{4}-", value) is None
        and re.match(r"[+-]?\d+-\d\d-", value) is not None
    )
