"""Tests the options of file indexes, their bytes, and damaged indexes."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from file_indexes import answer, built, columns_of_file, opened, parsed, spec
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lakelatch.core.errors import InvalidArgument, LakelatchError, TableCorrupt, Unsupported
from lakelatch.core.expressions.columns import col
from lakelatch.core.file_index.bitmaps.roaring import bitmap_of, read_bitmap, serialized
from lakelatch.core.file_index.block import Block
from lakelatch.core.file_index.container import parse_container, write_container
from lakelatch.core.file_index.hashes import key_hashes
from lakelatch.core.file_index.options import KINDS, index_specs, renamed, takes
from lakelatch.core.file_index.writing import FileIndexBuilder
from lakelatch.core.rows.types import AtomicType, Field, MapType, string

INT = AtomicType("INT")

# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        ({"file-index.bitmap.columns": "b"}, "column 'b'"),
        ({"file-index.bitmap.columns": "a,"}, "column ''"),
        ({"file-index.bitmap.columns": "a[x]"}, "not a MAP"),
        ({"file-index.bitmap.columns": "m[x]"}, "not a MAP"),
        ({"file-index.bitmap.columns": "m"}, "which a bitmap index does not support"),
        ({"file-index.bitmap.a.version": "1"}, "not listed"),
    ],
)
def test_invalid_columns(texts: dict[str, str], word: str) -> None:
    fields = [Field(0, "a", INT), Field(1, "m", MapType(AtomicType("INT", False), string()))]
    with pytest.raises(InvalidArgument) as caught:
        index_specs(fields, texts)
    assert word in str(caught.value) and next(iter(texts)) in str(caught.value)


def test_invalid_options() -> None:
    with pytest.raises(Unsupported, match="'tree'"):
        index_specs([Field(0, "a", INT)], {"file-index.tree.columns": "a"})
    for options in ({"version": "3"}, {"version": "x"}, {"index_block_size": "1 parsec"}):
        with pytest.raises(InvalidArgument, match=r"version|index-block-size"):
            FileIndexBuilder([spec("bitmap", INT, **options)])
    for options in ({"items": "0"}, {"fpp": "1"}, {"fpp": "nan"}, {"items": str(2**31 - 1), "fpp": "1e-9"}):
        with pytest.raises(InvalidArgument, match="bloom"):
            FileIndexBuilder([spec("bloom-filter", INT, **options)])


def test_options_of_one_column() -> None:
    fields = [Field(0, "a", INT), Field(1, "m", MapType(string(False), string()))]
    texts = {
        "file-index.bloom-filter.columns": "m[x], a,m[y]",
        "file-index.bloom-filter.m.items": "7",
        "file-index.bloom-filter.m[y].items": "8",
        "file-index.bitmap.columns": "a",
        "file-index.in-manifest-threshold": "1 b",
        "file-index.read.enabled": "false",
    }
    specs = index_specs(fields, texts)
    assert [(s.kind, s.name, s.option("items", int, 1)) for s in specs] == [
        ("bloom-filter", "m[x]", 7),
        ("bloom-filter", "a", 1),
        ("bloom-filter", "m[y]", 8),
        ("bitmap", "a", 1),
    ]
    after = renamed(renamed(texts, "m", "n"), "a", "b")
    moved = index_specs([Field(0, "b", INT), Field(1, "n", fields[1].type)], after)
    assert [s.name for s in moved] == ["n[x]", "b", "n[y]", "b"]
    assert after["file-index.bloom-filter.n[y].items"] == "8"


# --------------------------------------------------------------------------------------------------------------- bytes


def test_names_in_a_container() -> None:
    """Names are in Java's modified UTF-8: NUL takes two bytes, and characters above 16 bits take six."""
    made = {"a\x00ü😀": {"bitmap": b"one", "x": None}, "b": {"bitmap": b"", "bloom-filter": b"two"}}
    data = write_container(made)
    assert b"a\xc0\x80\xc3\xbc\xed\xa0\xbd\xed\xb8\x80" in data
    found = parse_container(lambda a, b: data[a:b], len(data), "f")
    read = {n: {k: b and b.read(0, b.length) for k, b in kinds.items()} for n, kinds in found.items()}
    assert read == made


@pytest.mark.parametrize(
    ("text", "hash_"),
    [(b"", 0xEF46DB3751D8E999), (b"a", 0xD24EC4F1A98C6E5B), (b"abc", 0x44BC2CF5AD770999)],
)
def test_hashes_of_texts(text: bytes, hash_: int) -> None:
    """The hashes are the published values of XXH64 with seed 0."""
    assert int(key_hashes(pa.array([b"other", text]))[1]) % 2**64 == hash_


@settings(max_examples=200, deadline=None)
@given(st.sets(st.integers(0, 300_000), max_size=300), st.sets(st.integers(0, 3), max_size=2), st.data())
def test_bitmaps_are_checked(some: set[int], ranges: set[int], data: st.DataObject) -> None:
    """A truncated or changed bitmap is reported, or it is a valid bitmap of rows of the file."""
    positions = sorted(some.union(*(range(r * 65_536, r * 65_536 + 5000) for r in ranges)))
    encoded = serialized(bitmap_of(np.array(positions, np.int64)))
    block = Block(lambda a, b: encoded[a:b], 0, len(encoded), "f")
    assert read_bitmap(b"xx" + encoded + b"yy", 2, 300_001, block) == (BitMap(positions), len(encoded) + 2)
    changed = bytearray(encoded)
    changed[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(changed), encoded[: data.draw(st.integers(0, len(encoded) - 1))]):
        try:
            found, end = read_bitmap(damaged, 0, 300_001, block)
        except TableCorrupt:
            continue
        assert end <= len(damaged) and (not found or found.max() <= 300_000)


# -------------------------------------------------------------------------------------------------------------- damage


def sample() -> tuple[bytes, dict[str, AtomicType]]:
    """A container with all kinds of indexes of numbers and texts."""
    rng = random.Random(3)
    types = {"i": INT, "s": string()}
    numbers = [None if rng.random() < 0.2 else rng.randrange(-9, 9) for _ in range(120)]
    texts = [None if n is None else f"text {n}" for n in numbers]
    table = pa.table({"i": pa.array(numbers, pa.int32()), "s": pa.array(texts)})
    specs = [spec(k, t, n, items="9") for n, t in types.items() for k in KINDS if takes(k, t)]
    return built(specs, table), types


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_as_an_index(data: bytes) -> None:
    with pytest.raises(TableCorrupt):
        opened(data, 5)
    for kind in KINDS:
        wrapped = write_container({"c": {kind: data}})
        for data_type in (INT, string()):
            try:
                index = opened(wrapped, 5)
                answer(index, col("c") == (1 if data_type == INT else "x"), columns_of_file([Field(0, "c", data_type)]))
            except LakelatchError as error:
                assert isinstance(error, TableCorrupt | Unsupported)


def test_rows_that_the_file_does_not_have() -> None:
    """An index of another file would exclude rows wrongly."""
    data, types = sample()
    for rows in (119, 121):
        for kind in ("bitmap", "bsi", "range-bitmap"):
            one = {"i": {k: v for k, v in parsed(data)["i"].items() if k == kind}}
            with pytest.raises(TableCorrupt, match="120 rows"):
                answer(opened(write_container(one), rows), col("i") == 1, columns_of_file([Field(0, "i", types["i"])]))
