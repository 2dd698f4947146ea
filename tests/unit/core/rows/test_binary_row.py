"""Tests BinaryRow against bytes that Apache Paimon wrote, in round trips, and with hostile bytes."""

from __future__ import annotations

import datetime as dt
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelatch.core.errors import InvalidArgument, TableCorrupt
from lakelatch.core.rows.arrow import to_arrow
from lakelatch.core.rows.binary.binary_row import decode_field, decode_row, encode_row, row_bytes
from lakelatch.core.rows.binary.binary_row_block import RowBlock
from lakelatch.core.rows.types import AtomicType, DataType, decimal, parse_atomic, string, timestamp, varbinary
from lakelatch.core.rows.values import to_arrow_array

INT = AtomicType("INT")
NANO = 1_000_000_000

WORKED = {
    "int": (("INT",), (10,), "00000001 0000000000000000 0a00000000000000"),
    "short text": (("STRING",), ("2025",), "00000001 0000000000000000 3230323500000084"),
    "empty text": (("STRING",), ("",), "00000001 0000000000000000 0000000000000080"),
    "blank text": (("STRING",), (" ",), "00000001 0000000000000000 2000000000000081"),
    "null text": (("STRING",), (None,), "00000001 0001000000000000 0000000000000000"),
    "stats row": (
        ("STRING", "INT", "INT", "DOUBLE"),
        ("Alice", 10, 1, 11.1),
        "00000004 0000000000000000 416c696365000085 0a00000000000000 0100000000000000 3333333333332640",
    ),
    "fourth is null": (
        ("STRING", "INT", "INT", "DOUBLE"),
        ("Alice", 10, 1, None),
        "00000004 0008000000000000 416c696365000085 0a00000000000000 0100000000000000 0000000000000000",
    ),
    "long text": (
        ("STRING", "INT"),
        ("Two roads diverh", 1),
        "00000002 0000000000000000 10000000 18000000 0100000000000000" + b"Two roads diverh".hex(),
    ),
    "null timestamp keeps its space": (
        ("TIMESTAMP(6)",),
        (None,),
        "00000001 0001000000000000 0000000010000000 0000000000000000",
    ),
    "no fields": ((), (), "00000000 0000000000000000"),
    "every kind": (
        ("INT", "INT", "DATE", "TIMESTAMP(9)", "DECIMAL(23, 5)", "BYTES"),
        (
            10,
            1,
            dt.date(2024, 7, 5),
            2_000_000_000 * NANO + 1001,
            Decimal("123456789987654321.45678"),
            None,
        ),
        "00000006 0020000000000000 0a00000000000000 0100000000000000 c54d000000000000 e9030000 38000000"
        "0a000000 40000000 0000000000000000 00204aa9d1010000 029d42b6a72a9dc7 070e 000000000000",
    ),
}


@pytest.mark.parametrize("name", WORKED)
def test_worked_examples_of_the_format(name: str) -> None:
    """G8: Encoding and decoding agree with the bytes of Apache Paimon."""
    type_texts, values, hex_text = WORKED[name]
    types = [parse_atomic(t) for t in type_texts]
    data = bytes.fromhex(hex_text.replace(" ", ""))
    assert encode_row(values, types).hex() == data.hex()
    assert decode_row(data, types) == values


def test_null_area_grows_with_the_arity() -> None:
    """G8: The null bits of 56 fields fit into the first eight bytes with the header, and those of 57 do not."""
    for arity, null_area in ((56, 8), (57, 16), (120, 16), (121, 24)):
        values: list[Any] = [None] * (arity - 1) + [7]
        row = encode_row(values, [INT] * arity)
        assert len(row) == 4 + null_area + 8 * arity
        assert decode_row(row, [INT] * arity) == tuple(values)


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
STRATEGIES: list[tuple[DataType, st.SearchStrategy[Any]]] = [
    (AtomicType("BOOLEAN"), st.booleans()),
    (AtomicType("TINYINT"), st.integers(-128, 127)),
    (AtomicType("SMALLINT"), st.integers(-(2**15), 2**15 - 1)),
    (INT, st.integers(-(2**31), 2**31 - 1)),
    (AtomicType("BIGINT"), st.integers(-(2**63), 2**63 - 1)),
    (AtomicType("FLOAT"), st.floats(width=32)),
    (AtomicType("DOUBLE"), st.floats()),
    (decimal(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2))),
    (
        decimal(38, 10),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -10))),
    ),
    (AtomicType("VARCHAR", length=40), TEXT),
    (AtomicType("BINARY", length=40), st.binary(max_size=20)),
    (AtomicType("DATE"), st.dates()),
    (AtomicType("TIME"), st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000, fold=0))),
    (timestamp(3), st.integers(-(62 * 10**12), 253 * 10**12).map(lambda ms: ms * 1_000_000)),
    (timestamp(6, local_zone=True), st.integers(-(62 * 10**15), 253 * 10**15).map(lambda us: us * 1000)),
    (timestamp(9), st.integers(-(2**63), 2**63 - 1)),
]


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[DataType], list[Any]]:
    fields = draw(st.lists(st.sampled_from(STRATEGIES), min_size=1, max_size=6))
    return [t for t, _ in fields], [draw(st.none() | values) for _, values in fields]


@settings(max_examples=150, deadline=None)
@given(rows())
def test_rows_survive_a_round_trip(row: tuple[list[DataType], list[Any]]) -> None:
    """G8: A round trip loses nothing, and equal values give equal bytes."""
    types, values = row
    data = encode_row(values, types)
    assert repr(decode_row(data, types)) == repr(tuple(values))
    assert encode_row(decode_row(data, types), types) == data
    assert [repr(decode_field(data, i, len(types), types[i])) for i in range(len(types))] == [repr(v) for v in values]


@settings(max_examples=200, deadline=None)
@given(rows(), st.integers(1, 5), st.data())
def test_blocks_of_rows_have_the_same_bytes(
    row: tuple[list[DataType], list[Any]], count: int, data: st.DataObject
) -> None:
    """G8: The vectorised encoder and the encoder of single rows agree on every type and on nulls."""
    types = row[0]
    by_type = dict(STRATEGIES)
    table = [[data.draw(st.none() | by_type[t]) for t in types] for _ in range(count)]
    columns = [to_arrow_array([r[i] for r in table], t, to_arrow(t)) for i, t in enumerate(types)]
    block = RowBlock([pa.concat_arrays([c, c]).slice(count) for c in columns], types)
    matrix = block.matrix()
    for i, values in enumerate(table):
        assert matrix[i, : block.lengths[i]].tobytes() == row_bytes(values, types)


@settings(max_examples=200, deadline=None)
@given(rows(), st.data())
def test_damaged_rows_give_an_error_or_values_but_never_a_crash(
    row: tuple[list[DataType], list[Any]], data: st.DataObject
) -> None:
    """H11: The error for a damaged manifest names it; nothing outside the row is read."""
    types, values = row
    good = bytearray(encode_row(values, types))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(good[: data.draw(st.integers(0, len(good)))])
    try:
        assert len(decode_row(damaged, types, "manifest-1")) == len(types)
    except TableCorrupt as error:
        assert "manifest-1" in str(error)


@pytest.mark.parametrize(
    ("hex_text", "types"),
    [
        ("", (INT,)),
        ("00000001", (INT,)),
        ("00000002 0000000000000000 0a00000000000000", (INT,)),
        ("00000001 0000000000000000 0a000000000000", (INT,)),
        ("00000001 0000000000000000 08000000 10000000", (string(),)),
        ("00000001 0000000000000000 08000000 ffffff7f 6161616161616161", (string(),)),
        ("00000001 0000000000000000 00000000000000 8f", (string(),)),
        ("00000001 0000000000000000 ff00000000000081", (string(),)),
        ("00000001 0000000000000000 11000000 10000000" + "00" * 24, (decimal(38, 0),)),
        ("00000001 0000000000000000 40420f00 10000000 0000000000000000", (timestamp(9),)),
        ("00000001 0000000000000000 005c260500000000", (AtomicType("TIME"),)),
    ],
)
def test_impossible_rows_are_rejected(hex_text: str, types: tuple[DataType, ...]) -> None:
    """H11: Every inconsistent row raises `TableCorrupt` with the name of the file."""
    with pytest.raises(TableCorrupt, match="manifest-1"):
        decode_row(bytes.fromhex(hex_text.replace(" ", "")), types, "manifest-1")


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        (128, AtomicType("TINYINT")),
        ("1", INT),
        (1, string()),
        ("text", varbinary()),
        (Decimal("1.234"), decimal(10, 2)),
        (Decimal("1E9"), decimal(9, 0)),
        (Decimal("NaN"), decimal(9, 0)),
        (1, timestamp(3)),
        (2, AtomicType("BOOLEAN")),
        (1e300, AtomicType("FLOAT")),
    ],
)
def test_values_of_another_type_are_rejected(value: Any, data_type: DataType) -> None:
    """G1: A value is never truncated to fit."""
    with pytest.raises(InvalidArgument):
        encode_row([value], [data_type])


def test_counts_must_agree() -> None:
    """G1: A wrong number of values is an error of the caller."""
    with pytest.raises(InvalidArgument, match="1 values for a row of 2"):
        row_bytes([1], [INT, INT])


def test_large_decimals_have_the_fewest_bytes() -> None:
    """G8: Two's complement like Java's BigInteger, in single rows and in blocks, around every change of length."""
    edges = [n for bits in range(0, 121, 8) for n in (1 << bits, (1 << bits) - 1, 1 << bits >> 1, (1 << bits >> 1) - 1)]
    values = [Decimal(sign * n) for n in edges for sign in (1, -1)] + [None]
    kind = decimal(38, 0)
    block = RowBlock([pa.array(values, pa.decimal128(38, 0))], [kind])
    for value, row in zip(values, block.matrix(), strict=True):
        assert row.tobytes() == row_bytes([value], [kind])
        assert decode_row(encode_row([value], [kind]), [kind]) == (value,)


def test_signed_zero_and_nan_keep_their_bits() -> None:
    """G8: -0.0 and 0.0 are different keys."""
    double = AtomicType("DOUBLE")
    assert row_bytes([-0.0], [double])[8:] == struct.pack("<d", -0.0) != row_bytes([0.0], [double])[8:]
    assert math.isnan(decode_row(encode_row([math.nan], [double]), [double])[0])
