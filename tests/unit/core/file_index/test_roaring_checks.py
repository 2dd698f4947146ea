"""Bytes of bitmaps are checked before the library sees them: some versions of it end the process at a wrong count."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap, BitMap64

import lakelatch as ll
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.file_index.bitmaps.roaring import checked_bitmap, checked_bitmap64
from lakelatch.core.metadata.data_file import DeletionVectorRange
from lakelatch.core.metadata.deletion_vector import decode_vector, encode_vector

LYING = struct.pack("<IIHHI", 12346, 1, 0, 4096, 16) + b"\xff" * 8192
"""It says 4,097 numbers, and holds 65,536."""


def sets(dice: random.Random) -> Iterable[list[int]]:
    yield []
    yield [0]
    yield [*range(100_000)]
    yield [2**32 - 1]
    for _ in range(20):
        top = dice.choice((100, 1 << 16, 1 << 20, 1 << 32))
        yield sorted({dice.randrange(top) for _ in range(dice.randrange(6000))})


def test_bitmaps_are_read_and_whatever_is_cut_or_changed_is_no_crash() -> None:
    dice = random.Random(7)
    for numbers in sets(dice):
        for optimized in (False, True):
            bitmap, wide = BitMap(numbers), BitMap64([*numbers, *(n + (1 << 33) for n in numbers[:50])])
            if optimized:
                bitmap.run_optimize()
                wide.run_optimize()
            data, wide_data = bytes(bitmap.serialize()), bytes(wide.serialize())
            assert checked_bitmap(b"xx" + data + b"yy", 2) == (bitmap, 2 + len(data))
            assert checked_bitmap64(wide_data) == wide
            for read, whole in ((checked_bitmap, data), (checked_bitmap64, wide_data)):
                for _ in range(6):
                    cut = whole[: dice.randrange(len(whole))]
                    with pytest.raises(ValueError, match="it"):
                        read(cut)
                    at = dice.randrange(min(len(whole), 40))
                    try:
                        read(whole[:at] + bytes([whole[at] ^ dice.randrange(1, 256)]) + whole[at + 1 :])
                    except ValueError:
                        pass


def test_a_count_that_is_wrong_is_found_first() -> None:
    for read, data in ((checked_bitmap, LYING), (checked_bitmap64, struct.pack("<QI", 1, 0) + LYING)):
        with pytest.raises(ValueError, match="its number of bits is wrong"):
            read(data)
    for bad in (b"", b"\x01", struct.pack("<Q", 1 << 60), struct.pack("<QI", 2, 5) + bytes(BitMap([1]).serialize())):
        with pytest.raises(ValueError, match="it is cut off"):
            checked_bitmap64(bad)


@pytest.mark.parametrize("is_wide", [False, True])
def test_a_deletion_vector_with_a_wrong_count_is_an_error(is_wide: bool) -> None:
    whole = encode_vector(np.array([3], np.int64), is_wide)
    magic = whole[4:8]
    body = magic + (struct.pack("<QI", 1, 0) if is_wide else b"") + LYING
    data = len(body).to_bytes(4, "big") + body + zlib.crc32(body).to_bytes(4, "big")
    found = DeletionVectorRange("data-1", 0, len(data) if is_wide else len(body), None)
    with pytest.raises(
        TableCorrupt, match="the deletion vector of data-1 is not a bitmap: its number of bits is wrong"
    ):
        decode_vector(data, found, 10, "index-1")


@pytest.mark.parametrize("function", ["rbm32", "rbm64"])
def test_values_that_are_no_bitmaps_are_an_error_that_names_the_function(function: str) -> None:
    schema = pa.schema([pa.field("k", pa.int32(), False), ("v", pa.binary())])
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.v.aggregate-function": function}
    for bad in (b"no bitmap", LYING, b""):
        table = ll.create_table(
            f"memory://bad-bitmaps-{function}-{len(bad)}/t", schema, primary_key=["k"], options=options
        )
        with pytest.raises(TableCorrupt, match=function):
            for value in (bad, b"nor this"):
                table.upsert(pa.table({"k": pa.array([1], pa.int32()), "v": [value]}, schema))
            table.to_arrow()
