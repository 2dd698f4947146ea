"""H11: Numbers in ORC files are rejected if and only if they would crash liborc or Arrow."""

from __future__ import annotations

import io
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.data_file import DataFile
from lakelatch.core.options import TableOptions
from lakelatch.core.orc.blocks import plain
from lakelatch.core.orc.lengths import MOST_TOTAL, measured
from lakelatch.core.orc.protobuf import decode_message, message_of, number_of
from lakelatch.core.orc.tail import parse_tail, tail_size
from lakelatch.core.rows.types import Field, parse_type
from lakelatch.table.formats.reading import open_data_file
from lakelatch.table.projection.plan import plan_projection

COUNTER = itertools.count()
DATA, LENGTH, SECONDARY = 1, 2, 5
SHORT_REPEAT, DIRECT, PATCHED, DELTA = range(4)


def orc_bytes(column: Any, **more: Any) -> bytes:
    sink = io.BytesIO()
    orc.write_table(pa.table({"c": column}), sink, **more)
    return sink.getvalue()


def place(data: bytes, column: int, kind: int) -> slice:
    """The location of a stream in the first stripe."""
    tail = parse_tail(data[-tail_size(data) :], len(data))
    stripe = tail.stripes[0]
    at = stripe.offset
    footer = decode_message(plain(data[stripe.footer_start : stripe.end], tail.compression, tail.block_size))
    for stream in map(message_of, footer[1]):
        size = number_of(stream, 3)
        if (number_of(stream, 2), number_of(stream, 1)) == (column, kind):
            return slice(at, at + size)
        at += size
    raise LookupError


def stream(column: Any, kind: int = LENGTH) -> bytes:
    data = orc_bytes(column, compression="uncompressed")
    return data[place(data, 1, kind)]


def lists_of(lengths: list[int]) -> Any:
    ends = np.cumsum(lengths, dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), pa.array(np.zeros(ends[-1], np.int8)))


def replaced(data: bytes, where: slice, new: bytes) -> bytes:
    assert len(new) == where.stop - where.start
    return data[: where.start] + new + data[where.stop :]


def read(data: bytes, kind: Any, rows: int) -> list[Any]:
    store = MemoryStore(f"memory://lengths-{next(COUNTER)}")
    store.put("data-1.orc", data)
    fields = [Field(0, "c", parse_type(kind))]
    file = DataFile("data-1.orc", len(data), rows)
    opened = open_data_file(store, "data-1.orc", file, plan_projection(fields, fields), TableOptions({}))
    return [value for _, found in opened.batches() for value in found.column("c").to_pylist()]


USUAL = st.lists(st.integers(0, 40), min_size=1, max_size=1000)
LENGTHS = st.one_of(
    USUAL,
    USUAL.map(sorted),
    USUAL.map(lambda lengths: sorted(lengths, reverse=True)),
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 700)), min_size=1, max_size=8).map(
        lambda runs: [length for length, times in runs for _ in range(times)]
    ),
    st.tuples(st.lists(st.integers(0, 9), min_size=30, max_size=600), st.integers(500, 9000)).map(
        lambda found: [*found[0], found[1], *found[0]]
    ),
)


@given(LENGTHS)
@settings(max_examples=60, deadline=None)
def test_lengths_written_by_liborc(lengths: list[int]) -> None:
    """The measured sum is the sum that was written, and the upper bound is not smaller."""
    for written in (stream(lists_of(lengths)), stream(pa.array([b"x" * n for n in lengths]))):
        assert measured(written, 2) == (len(lengths), sum(lengths))
        count, bound = measured(written, 2, enough=MOST_TOTAL)
        assert (count, bound >= sum(lengths)) == (len(lengths), True)
        assert measured(written, 2, enough=1) == (len(lengths), sum(lengths))


@given(LENGTHS, st.integers(-(2**31), -1), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_numbers_with_signs(numbers: list[int], below: int, random: Any) -> None:
    assert measured(stream(pa.array(numbers, pa.int64()), DATA), 2, signed=True) == (len(numbers), sum(numbers))
    numbers[random.randrange(len(numbers))] = below
    with pytest.raises(ValueError, match="below 0"):
        measured(stream(pa.array(numbers, pa.int64()), DATA), 2, signed=True)


@pytest.mark.parametrize(
    ("mode", "lengths"),
    [
        (SHORT_REPEAT, [7] * 5),
        (DIRECT, [3, 1, 4, 1, 5, 9, 2, 6]),
        (PATCHED, [*range(20), 60_000, *range(20)] * 5),
        (DELTA, [*range(100, 0, -1)]),
    ],
)
def test_each_mode_is_covered(mode: int, lengths: list[int]) -> None:
    """The lengths of the tests above use each mode of the encoding."""
    written = stream(lists_of(lengths))
    assert written[0] >> 6 == mode
    assert measured(written, 2) == (len(lengths), sum(lengths))


@pytest.mark.parametrize(
    ("version", "data", "values"),
    [
        (1, "610007", [7] * 100),
        (1, "61ff64", [*range(100, 0, -1)]),
        (1, "fb020304070b", [2, 3, 4, 7, 11]),
        (2, "5e035ca1ab1edeadbeef", [23713, 43806, 57005, 48879]),
        (
            2,
            "8e132b2107d01e00147028323c46505a646e78828c96a0aab4befce8",
            [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)],
        ),
        (2, "c609020222424246", [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
    ],
)
def test_the_examples_of_the_specification(version: int, data: str, values: list[int]) -> None:
    found = bytes.fromhex(data)
    assert measured(found, version) == (len(values), sum(values))
    for end in range(1, len(found)):
        with pytest.raises(ValueError, match="cut off"):
            measured(found[:end], version)


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (2, "38ffffffffffffffff"),  # short repeat: -1 three times
        (2, "7e00ffffffffffffffff"),  # direct: -1
        (2, "c0020003"),  # delta: 0, -2, -4
        (2, "c202010380"),  # delta with steps: 1, -1, -2
        (2, "8000000180" + "00" * 4),  # patched base: -0
        (2, "80001f01" + "00" * 16),  # a patch of 64 bits, and one more for its position
        (2, "7c017fffffffffff7fffffffffff"),  # direct: two of 2**47 - 1
        (1, "00ff01"),  # 1, 0, -1
        (1, "ff" + "ff" * 9 + "01"),  # -1
        (1, "ff" + "ff" * 30),  # a number without end
    ],
)
def test_impossible_lengths(version: int, data: str) -> None:
    with pytest.raises(ValueError, match=r"number"):
        measured(bytes.fromhex(data), version)
    with pytest.raises(ValueError, match=r"number"):
        measured(bytes.fromhex(data), version, enough=MOST_TOTAL)


# -------------------------------------------------------------------------------------------------------------- files


LIST = {"type": "ARRAY", "element": "INT"}
MAP = {"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}


def test_a_list_with_a_negative_number_of_elements() -> None:
    data = orc_bytes(pa.array([[1] * n for n in range(1, 13)], pa.list_(pa.int32())), compression="uncompressed")
    lengths = place(data, 1, LENGTH)
    assert data[lengths] == bytes.fromhex("c00b0102")
    with pytest.raises(TableCorrupt, match=r"data-1\.orc.*number below 0: -10"):
        read(replaced(data, lengths, bytes.fromhex("c00b0101")), LIST, 12)


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "zstd", "zlib", "lz4"])
def test_lengths_that_exceed_the_file(compression: str) -> None:
    """Values that claim 2**29 elements or bytes, which do not exist, take no memory."""
    for column, kind in (([[1], [2] * 40, [4] * 3], LIST), (["a", "b" * 40, "ccc"], "STRING")):
        data = orc_bytes(pa.array(column), compression=compression, dictionary_key_size_threshold=0)
        assert read(data, kind, 3) == column
        lengths = place(data, 1, LENGTH)
        head = b"" if compression == "uncompressed" else bytes.fromhex("0b0000")
        assert data[lengths] == head + bytes.fromhex("4e02012803")
        with pytest.raises(TableCorrupt, match=r"data-1\.orc.*lengths of 1610612736, where at most"):
            read(replaced(data, lengths, head + bytes.fromhex("1820000000")), kind, 3)


def test_a_dictionary_that_claims_too_many_words() -> None:
    data = orc_bytes(pa.array(["a", "b"] * 9), compression="uncompressed", dictionary_key_size_threshold=1)
    assert read(data, "STRING", 18) == ["a", "b"] * 9
    sound, damaged = bytes.fromhex("08031002"), bytes.fromhex("08031003")
    assert data.count(sound) == 1
    with pytest.raises(TableCorrupt, match=r"data-1\.orc.*3 words with 2 lengths"):
        read(data.replace(sound, damaged), "STRING", 18)


def test_keys_that_are_null() -> None:
    """Arrow would abort the process."""
    column = pa.array([[("a", 1)], [("b", None)]], pa.map_(pa.string(), pa.int32()))
    data = orc_bytes(column, compression="uncompressed")
    assert read(data, MAP, 2) == [[("a", 1)], [("b", None)]]
    of_values, of_keys = bytes.fromhex("080010031802"), bytes.fromhex("080010021802")
    assert data.count(of_values) == 1
    with pytest.raises(TableCorrupt, match=r"data-1\.orc.*keys of a map"):
        read(data.replace(of_values, of_keys), MAP, 2)


@pytest.mark.parametrize("scale", ["0007", "00ff"])
def test_decimals_with_an_impossible_scale(scale: str) -> None:
    """liborc would spend minutes dividing by ten until it reaches the scale."""
    column = [Decimal("1.5000")] * 3
    data = orc_bytes(pa.array(column, pa.decimal128(30, 4)), compression="uncompressed")
    scales = place(data, 1, SECONDARY)
    assert data[scales] == bytes.fromhex("0008")
    assert read(data, "DECIMAL(30, 4)", 3) == column
    with pytest.raises(TableCorrupt, match=r"data-1\.orc.*(scales|below 0)"):
        read(replaced(data, scales, bytes.fromhex(scale)), "DECIMAL(30, 4)", 3)
