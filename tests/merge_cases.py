"""Rows of a few keys for every aggregate function, type and option, made from a seed: what two implementations merge.

Owns: the tables and their rows, how their merged rows are compared, the rows that Apache Paimon 2.0.0 made of them (recorded).
Must not know: how anybody merges. Values are in the encoding of `values.py`.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).with_name("merged_by_paimon_2.json.gz")
RECORDED_SEEDS = range(2)
KEYS = 14
"""The number of keys in each table."""
ERROR = "error"
"""Stands for the value of a key whose rows cannot be merged."""

NUMBERS: dict[str, list[Any]] = {
    "TINYINT": [-128, -127, -3, -1, 0, 1, 2, 64, 127],
    "SMALLINT": [-(2**15), -200, -1, 0, 1, 3, 200, 2**15 - 1],
    "INT": [-(2**31), -50_000, -1, 0, 1, 2, 50_000, 2**31 - 1],
    "BIGINT": [-(2**63), -(2**62), -3, -1, 0, 1, 2, 2**32, 2**62, 2**63 - 1],
    "FLOAT": ["NaN", "Infinity", "-0.0", 0.0, 1.5, -2.0, 3.4028234663852886e38],
    "DOUBLE": ["NaN", "-Infinity", "-0.0", 0.0, 0.1, -1e-300, 1.7976931348623157e308],
    "DECIMAL(9, 2)": ["-9999999.99", "-0.01", "0.00", "1.50", "9999999.99"],
    "DECIMAL(18, 4)": ["-99999999999999.9999", "0.0001", "-3.5000", "99999999999999.9999"],
    "DECIMAL(18, 18)": ["-0.999999999999999999", "0.500000000000000000", "0.999999999999999999"],
    "DECIMAL(19, 0)": ["-9999999999999999999", "7", "-1", "9999999999999999999"],
    "DECIMAL(28, 4)": ["-" + "9" * 24 + ".9999", "-0.0001", "1.0000", "9" * 24 + ".9999"],
    "DECIMAL(38, 10)": ["7128016380860357696264869434.6565516851", "1.5000000000", "-0.0000000001", "9" * 28 + ".0" + "9" * 9],
}  # fmt: skip
VALUES: dict[str, list[Any]] = {
    **NUMBERS,
    "BOOLEAN": [True, False],
    "STRING": ["", " ", "\u3000", "\u00a0", "a", "b", "a,b", "b a", "ä,a,,b", "😀"],
    "VARBINARY(9)": ["0x", "0x00", "0x7f", "0x80ff"],
    "DATE": ["1969-12-31", "1970-01-01", "2024-02-29"],
    "TIMESTAMP(9)": ["1969-12-31T23:59:59.999999999", "2024-02-29T12:34:56.123456789"],
    "TIMESTAMP(3)": ["1969-12-31T23:59:59.999000000", "2024-02-29T12:34:56.123000000"],
    "TIME(3)": ["00:00:00.000", "23:59:59.999"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["1969-12-31T23:59:59.999999000Z", "2024-02-29T12:34:56.123456000Z"],
    "CHAR(2)": ["aa", "ab", "äö"],
    "BINARY(2)": ["0x0000", "0x7fff", "0x80ff"],
}
NESTED: dict[str, tuple[Any, list[Any]]] = {
    "numbers": ({"type": "ARRAY", "element": "DOUBLE"}, [None, "NaN", "-0.0", 0.0, 1.0, 2.0]),
    "texts": ({"type": "ARRAY", "element": "STRING"}, [None, "", "a", "b", "c"]),
    "pairs": (
        {"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 90, "name": "x", "type": "INT"}]}},
        [None, [None], [1], [2], [3]],
    ),
}
ROWS = {
    "type": "ARRAY",
    "element": {
        "type": "ROW",
        "fields": [
            {"id": 91, "name": "id", "type": "INT"},
            {"id": 92, "name": "n", "type": "BIGINT"},
            {"id": 93, "name": "s", "type": "STRING"},
        ],
    },
}
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}
TIMED = {
    "type": "MAP",
    "key": "INT NOT NULL",
    "value": {
        "type": "ROW",
        "fields": [{"id": 94, "name": "v", "type": "INT"}, {"id": 95, "name": "ts", "type": "STRING"}],
    },
}
ANY = ("last_value", "last_non_null_value", "first_value", "first_non_null_value", "first_not_null_value")
COMMON = ("INT", "STRING", "DECIMAL(38, 10)")
ENGINES = ("aggregation", "removing", "group", "group of two")
TAKES_BACK = {"sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update"}
SKETCHES = {
    "rbm32": [
        "0x3a3000000100000000000000100000000100",
        "0x3a30000001000000000001001000000002000300",
        "0x3a300000030000000000010001000000ffff0000200000002400000026000000010002000000ffff",
        "0x3b3000000100000300010009000300",
    ],
    "rbm64": [
        "0x01010000000000000004000000000000000000000000000000000001000000fe0100000001020100000001000100000000000000000000"
        "0000000000",
        "0x01010000000000000004000000000000000000000000000000000001000000fe0100000001020200000002000300010000000000000000"
        "00000000000000",
        "0x010300000000000000000200000000ff000002000100000001000400000000000000000000000000000000000400000000000100000001"
        "0000000000000004000000ffffffffffff020000000000000001000000fe0300000001020200000001000200010201000000000001020100"
        "0000ffff03000000000000000000000002000000",
        "0x01020000000000000000020003000000000002000400000000000000000000000000000000000400000000000002000001000000000000"
        "0001000000fe0200000001020200000002000900010201000000000002000000000000000000000001000000",
        "0x01010000000000000004000000000000000000000000000000000001000000fe0100000001000400000001000900030001000000000000000"
        "000000000000000",
    ],
    "hll_sketch": [
        "0x0201070c030801002bf2fb06",
        "0x0201070c03080200862ff90d75816607",
        "0x0201070c030805002bf2fb06862ff90d7581660781bc5d067b65e608",
        "0x0201070c03080400c1e91705d216730734a2610eb05b4612",
    ],
    "theta_sketch": [
        "0x01030300003acc9315f97dcbbd86a105",
        "0x02030300001acc93020000000000803fc397fc1281709d1eba40b3c1da06695d",
        "0x02030300001acc93050000000000803f15f97dcbbd86a10540de2ee1c9db3d08bd3273724691cc14c397fc1281709d1eba40b3c1da06695d",
        "0x02030300001acc93040000000000803f698bb991b86857081ad1300b998c2f22e0f48bea9983c37cd82d23774bb9357e",
    ],
}
"""Bitmaps and sketches of a few numbers as Apache Paimon serializes them, by the functions that unite them: of single numbers,
numbers that others have, too, numbers far apart, and a run."""


@dataclass(frozen=True)
class MergeCase:
    """A table with columns `k` (the key), `g` (a sequence) and `v`, and the rows of its keys.

    Attributes:
        rows: (kind, [k, g, v]), in the order in which they are written.
        unordered: the elements of `v` come in any order.
    """

    name: str
    type: Any
    options: dict[str, str]
    rows: list[tuple[str, list[Any]]] = field(default_factory=list)
    unordered: bool = False

    @property
    def columns(self) -> list[tuple[str, Any]]:
        return [("k", "INT NOT NULL"), ("g", "INT"), ("v", self.type)]

    def normal(self, row: Sequence[Any]) -> list[Any]:
        """A merged row as it is compared."""
        found = list(row)
        if self.unordered and isinstance(found[2], list):
            found[2] = sorted(found[2], key=json.dumps)
        if self.options["fields.v.aggregate-function"] == "rbm64" and found[2] is not None:
            found[2] = _numbers(bytes.fromhex(found[2][2:]))  # the order of its parts is free
        return found


def _numbers(bitmap: bytes) -> list[int]:
    from lakelatch.table.merging.aggregates.roaring64 import read_bitmap64

    return sorted(high << 16 | low for high, lows in read_bitmap64(bitmap).items() for low in lows)


class Dice:
    """Random choices that are the same in every version of Python."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, count: int) -> int:
        return int(self._random() * count)

    def of(self, values: Sequence[Any]) -> Any:
        return values[self.below(len(values))]


def merge_cases(seed: int) -> Iterator[MergeCase]:
    """The tables of a seed: every function with every type of its, in both engines, with and without its options.

    Functions that treat all types alike meet the further ones in one engine of each seed, in another one with the next.
    """
    columns = [(column, ENGINES) for column in _columns()]
    columns += [(column, (ENGINES[(seed + n) % 4],)) for n, column in enumerate(_further_columns())]
    for (function, kind, more, value, unordered), engines in columns:
        for engine in engines:
            dice = Dice(f"{seed} {function} {kind} {more} {engine}")
            ignores = function not in TAKES_BACK or dice.below(4) == 0
            options = {f"fields.v.{key}": text for key, text in more.items()}
            options["fields.v.aggregate-function"] = function
            if engine == "removing":
                options["aggregation.remove-record-on-delete"] = "true"
            elif ignores:
                options["fields.v.ignore-retract"] = "true"
            if engine.startswith("group"):
                options |= {"merge-engine": "partial-update", "fields.g.sequence-group": "v"}
            else:
                options["merge-engine"] = "aggregation"
            if engine == "group of two":
                options["partial-update.remove-record-on-sequence-group"] = "g"
            kinds = ["+I", "+I", "+U", "-D"] if engine == "removing" else ["+I", "+I", "+U", "-U", "-D"]
            case = MergeCase(f"{seed} {function} of {kind} {more} {engine}", kind, options, unordered=unordered)
            for key in range(KEYS):
                for number in range(2 + dice.below(4)):
                    row_kind = "+I" if number == 0 and dice.below(8) else dice.of(kinds)
                    given = value(dice) if dice.below(6) else None
                    case.rows.append((row_kind, [key, dice.of([None, 1, 2, 2, 3]), given]))
            yield case


_Column = tuple[str, Any, dict[str, str], Any, bool]
"""Function, type, options of the column, a value by the dice, and whether order counts not."""


def _columns() -> Iterator[_Column]:
    for kind, values in VALUES.items():
        pick = lambda dice, values=values: dice.of(values)  # noqa: E731
        if kind in NUMBERS:
            yield from ((name, kind, {}, pick, False) for name in ("sum", "product"))
        if kind != "BOOLEAN":
            yield from ((name, kind, {}, pick, False) for name in ("max", "min"))
        else:
            yield from ((name, kind, {}, pick, False) for name in ("bool_and", "bool_or"))
        if kind in COMMON:
            yield from ((name, kind, {}, pick, False) for name in ANY)
    for name, values in SKETCHES.items():
        if "sketch" in name and find_spec("datasketches") is None:
            continue  # there is none for the newest versions of Python
        yield name, "VARBINARY(99999)", {}, lambda dice, values=values: dice.of(values), False
    texts = VALUES["STRING"]
    for delimiter in ({}, {"list-agg-delimiter": ""}, {"list-agg-delimiter": " "}):
        for distinct in ({}, {"distinct": "true"}):
            yield "listagg", "STRING", {**delimiter, **distinct}, lambda dice: dice.of(texts), False
    for kind, elements in NESTED.values():
        some = lambda dice, elements=elements: [dice.of(elements) for _ in range(dice.below(4))]  # noqa: E731
        yield "collect", kind, {}, some, False
        yield "collect", kind, {"distinct": "true"}, some, True
    for more in ({}, {"nested-key": "id"}, {"nested-key": "id,n"}):
        for limit in ({}, {"count-limit": "2"}):
            yield "nested_update", ROWS, {**more, **limit}, _some_rows, False
    for strategy in ("merge", "ignore", "error"):
        more = {"nested-key": "id", "nested-key-null-strategy": strategy}
        yield "nested_update", ROWS, {**more, "nested-sequence-field": "n", "count-limit": "3"}, _some_rows, False
        yield "nested_partial_update", ROWS, more, _some_rows, False
    yield "merge_map", MAP, {}, lambda dice: _entries(dice, ["", "a", "b", "é"], lambda: dice.of([None, 1, 2])), False
    for more in ({}, {"ts-field": "ts"}):
        yield "merge_map_with_keytime", TIMED, more, _timed, False


def _further_columns() -> Iterator[_Column]:
    """The functions of any type with the other types, and arrays and maps of every type."""
    for kind, values in VALUES.items():
        pick = lambda dice, values=values: dice.of(values)  # noqa: E731
        some = lambda dice, values=values: [dice.of([None, *values]) for _ in range(dice.below(4))]  # noqa: E731
        part = lambda dice, pick=pick: _entries(dice, ["", "a", "é"], lambda: pick(dice) if dice.below(4) else None)  # noqa: E731
        if kind not in COMMON:
            yield from ((name, kind, {}, pick, False) for name in ANY)
        if kind != "INT":
            yield "merge_map", {"type": "MAP", "key": "STRING NOT NULL", "value": kind}, {}, part, False
        if "BINARY" in kind or kind in ("DOUBLE", "STRING"):
            continue  # for 2.0.0 no bytes are equal, which is a fault (docs/format/releases.md); the others are in NESTED
        yield "collect", {"type": "ARRAY", "element": kind}, {}, some, False
        yield "collect", {"type": "ARRAY", "element": kind}, {"distinct": "true"}, some, True
        if kind != "FLOAT":
            by = lambda dice, values=values: _entries(dice, values[:3], lambda: dice.of([None, 1, 2]))  # noqa: E731
            yield "merge_map", {"type": "MAP", "key": f"{kind} NOT NULL", "value": "INT"}, {}, by, False
    for name in ANY:
        for kind, elements in NESTED.values():
            yield name, kind, {}, lambda dice, of=elements: [dice.of(of) for _ in range(dice.below(4))], False
        yield name, ROWS, {}, _some_rows, False
        yield name, TIMED, {}, _timed, False
        yield name, ROWS["element"], {}, lambda dice: [dice.below(3), None, dice.of(VALUES["STRING"])], False
    for more in ({}, {"distinct": "true"}):
        yield "collect", ROWS, more, _some_rows, bool(more)
    yield "merge_map", TIMED, {}, _timed, False
    pairs, rows = NESTED["pairs"]
    for name, more in (("nested_update", {}), ("nested_partial_update", {"nested-key": "x"})):
        yield name, pairs, more, lambda dice: [dice.of(rows) for _ in range(dice.below(4))], False


def _some_rows(dice: Dice) -> list[Any]:
    ids, numbers = [None, 1, 2, 3, 17, 33], [None, 1, 2]
    rows = ([dice.of(ids), dice.of(numbers), dice.of([None, "x", "y"])] for _ in range(dice.below(4)))
    return [row if dice.below(9) else None for row in rows]


def _entries(dice: Dice, keys: Sequence[Any], value: Any) -> list[list[Any]]:
    return [[key, value()] for key in keys if dice.below(2)]


def _timed(dice: Dice) -> list[Any]:
    times = [None, "2024", "2025", "\uffff", "😀"]
    return _entries(dice, [1, 2, 3], lambda: [dice.below(9), dice.of(times)] if dice.below(3) else None)


def recorded() -> dict[str, list[Any]]:
    """What Apache Paimon 2.0.0 made of the tables of `RECORDED_SEEDS`: for each its rows by key, null for keys that are gone."""
    with gzip.open(RECORDED, "rt") as file:
        return dict(json.load(file))


def record(found: dict[str, list[Any]]) -> None:
    """Write what `recorded` reads. The same rows give the same bytes."""
    data = json.dumps(found, ensure_ascii=True, separators=(",", ":")).encode()
    RECORDED.write_bytes(gzip.compress(data, 9, mtime=0))
