"""Codes of keys compare as the keys do, whatever their types and lengths (format/primary-keys §3)."""

from __future__ import annotations

import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from lakelatch.table.merging.key_codes import key_codes

PREFIX = "customer-of-a-long-name-"
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "numbers": (pa.int64(), [-(2**63), -1, 0, 1, 2**40, 2**63 - 1]),
    "small numbers": (pa.int8(), [-128, -1, 0, 127]),
    "texts": (pa.string(), ["", "a", "a\0", "a\0\0", "aa", "b", "é", "\U0001f600", "z" * 9, "z" * 17]),
    "texts with a common prefix": (pa.string(), [PREFIX + f"{n:07d}" for n in (0, 1, 10, 9_999_999)]),
    "texts that differ in their middle": (pa.string(), [f"x{n}yyyyyyyyyyyyyyy{m}" for n in (0, 1) for m in (0, 1)]),
    "texts without a zero": (pa.string(), ["a" * n for n in (1, 7, 8, 9, 16, 40)]),
    "long texts": (pa.string(), ["a" * 300, "a" * 299 + "b", "b"]),
    "bytes": (pa.binary(), [b"", b"\0", b"\0\0", b"\0\xff", b"\x7f", b"\x80", b"\xff" * 12]),
    "one value": (pa.string(), ["same"]),
    "only empty texts": (pa.string(), [""]),
    "times": (pa.timestamp("us"), [-1, 0, 10**15]),
    "truths": (pa.bool_(), [False, True]),
    "floats": (pa.float64(), [float("-inf"), -0.0, 0.0, 1.5, float("inf"), float("nan")]),
    "decimals": (pa.decimal128(20, 2), [-5, 0, 7]),
}


def order_of(value: Any) -> Any:
    if isinstance(value, float):
        bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
        return bits if bits >= 0 else bits ^ 0x7FFF_FFFF_FFFF_FFFF
    return value.encode() if isinstance(value, str) else value


def ranks(rows: list[tuple[Any, ...]]) -> list[int]:
    """The rank of each row among the different rows."""
    keys = [tuple((v is not None, order_of(v) if v is not None else 0) for v in row) for row in rows]
    known = {key: number for number, key in enumerate(sorted(set(keys)))}
    return [known[key] for key in keys]


def checked(rows: list[tuple[Any, ...]], types: list[pa.DataType]) -> None:
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(types)]
    codes = key_codes([column.slice(0) for column in columns])
    known = {code: number for number, code in enumerate(sorted(set(codes.tolist())))}
    assert [known[code] for code in codes.tolist()] == ranks(rows), rows
    later = key_codes([column.slice(3) for column in columns])  # a slice begins inside of its buffers
    assert (later[1:] > later[:-1]).tolist() == (codes[4:] > codes[3:-1]).tolist()


@pytest.mark.parametrize("name", VALUES)
def test_codes_of_one_column(name: str) -> None:
    kind, values = VALUES[name]
    rows = [(value,) for value in values * 4]
    random.Random(name).shuffle(rows)
    checked(rows, [kind])
    if name != "small numbers":
        checked([*rows, (None,), (None,)], [kind])


def test_codes_of_several_columns() -> None:
    """Pairs and triples of all kinds of columns; a shorter first text must not run into the second."""
    rng = random.Random("several columns")
    for _ in range(150):
        chosen = rng.sample(sorted(VALUES), rng.randint(2, 3))
        rows = [tuple(rng.choice(VALUES[name][1]) for name in chosen) for _ in range(40)]
        checked(rows, [VALUES[name][0] for name in chosen])


def test_no_rows_have_no_codes() -> None:
    for kind, _ in VALUES.values():
        assert len(key_codes([pa.array([], kind)])) == 0
        assert len(key_codes([pa.array([], kind), pa.array([], pa.string())])) == 0


def test_keys_that_differ_in_few_bytes_are_one_number_each() -> None:
    """Numbers are sorted and searched many times as fast as byte strings."""
    small = pa.array([1, 2, 200], pa.int64())
    assert key_codes([small, small]).dtype.kind == "u"
    assert key_codes([pa.array([0, 1 << 62, -1]), pa.array([0, 1, 1 << 40])]).dtype.kind == "S"


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["a", "bbbbbbbb"], "u"),
        (["abcdefgh", "b", "ccc", "dddddd"], "u"),
        ([PREFIX + "12345678", PREFIX + "9", PREFIX + "ab"], "u"),
        (["a", "bbbbbbbbb"], "S"),
        (["a\0", "bbbbbbbb", "c"], "S"),
    ],
)
def test_short_texts_of_different_lengths_are_one_number_each(texts: list[str], kind: str) -> None:
    """Their length is told by what fills them up, as long as no text has a zero of its own."""
    rows = [(text,) for text in texts]
    checked(rows * 2, [pa.string()])
    assert key_codes([pa.array(texts)]).dtype.kind == kind


def test_bytes_that_differ_at_any_places_are_one_number_in_the_order_of_keys() -> None:
    """Every choice of up to eight places among those of two numbers, whether they lie side by side or not."""
    rng = random.Random("places")
    for _ in range(300):
        places = sorted(rng.sample(range(16), rng.randint(1, 8)))
        rows = [(0, 0)]
        for _ in range(20):
            number = sum(rng.randrange(256) << 8 * place for place in places)
            high, low = number >> 64, number & (1 << 64) - 1
            rows.append((high - (high >> 63 << 64), low - (low >> 63 << 64)))
        checked(rows, [pa.int64(), pa.int64()])
        codes = key_codes([pa.array([row[i] for row in rows], pa.int64()) for i in range(2)])
        assert codes.dtype.kind == "u"
