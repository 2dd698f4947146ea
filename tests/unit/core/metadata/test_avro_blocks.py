"""Blocks of Avro containers are decompressed one after another, right into their place where they tell their size."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakelatch.core.avro import blocks as module
from lakelatch.core.avro.blocks import (
    MAGIC,
    FileBlocks,
    Irregular,
    StoredBlock,
    TooLarge,
    blocks_of,
    joined,
    most_plain,
)
from lakelatch.core.avro.columnar import read_columnar
from lakelatch.core.avro.records import long_bytes, read_records
from lakelatch.core.avro.zstandard import zstd
from lakelatch.core.errors import TableCorrupt

ZSTD = b"zstandard"
TEXTS = [b"abc" * 100, b"", b"x", bytes(range(256)) * 7]


def untold(data: bytes) -> bytes:
    """Compressed as Java's streams do it: the frame does not tell its size."""
    stream = zstd.ZstdCompressor()
    compressed = stream.compress(data) + stream.flush()
    assert zstd.get_frame_info(compressed).decompressed_size is None
    return compressed


def told(data: bytes) -> bytes:
    compressed = zstd.compress(data)
    assert zstd.get_frame_info(compressed).decompressed_size == len(data)
    return compressed


def deflated(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def test_blocks_of_all_kinds_are_joined_in_order() -> None:
    blocks = [StoredBlock(make(text), ZSTD) for text in TEXTS for make in (told, untold)]
    blocks += [StoredBlock(text, b"null") for text in TEXTS] + [
        StoredBlock(deflated(text), b"deflate") for text in TEXTS
    ]
    expected = [text for text in TEXTS for _ in range(2)] + TEXTS + TEXTS
    whole, ends = joined(blocks, b"behind")
    assert whole.tobytes() == b"".join(expected) + b"behind"
    assert [a - b for a, b in zip(ends.tolist(), [0, *ends.tolist()], strict=False)] == list(map(len, expected))
    assert [block.told_size() for block in blocks[:4]] == [300, None, 0, None]


def test_no_blocks_are_only_what_is_behind() -> None:
    whole, ends = joined([], b"behind")
    assert (whole.tobytes(), ends.tolist()) == (b"behind", [])


def test_a_size_that_is_not_believable_asks_for_no_memory() -> None:
    """Zeros shrink by more than a thousand; a damaged size of a petabyte is found by decompressing step by step."""
    zeros = StoredBlock(told(bytes(10**7)), ZSTD)
    assert zeros.told_size() is None
    assert joined([zeros], b"")[0].tobytes() == bytes(10**7)
    frame = told(b"abc" * 1000)
    header = bytes([0xC0 | 0x20 | frame[4] & 0x1F])  # the same frame, with eight bytes for its size
    lying = StoredBlock(frame[:4] + header + (2**50).to_bytes(8, "little") + frame[7:], ZSTD)
    assert zstd.get_frame_info(lying.data).decompressed_size == 2**50
    with pytest.raises(Irregular, match="cannot be decompressed"):
        joined([lying], b"")


@pytest.mark.parametrize("size", [299, 301])
def test_a_block_that_does_not_have_the_size_that_it_tells_is_damaged(size: int) -> None:
    frame = told(b"abc" * 100)
    header = frame[:5] + (size - 256).to_bytes(2, "little") + frame[7:]
    assert zstd.get_frame_info(header).decompressed_size == size
    with pytest.raises(Irregular):
        joined([StoredBlock(header, ZSTD)], b"")


@pytest.mark.parametrize("codec", [ZSTD, b"deflate"])
def test_damaged_blocks_are_refused(codec: bytes) -> None:
    whole = (told if codec == ZSTD else deflated)(b"abcdefgh" * 50)
    for data in (whole[:-1], whole[: len(whole) // 2], b"", b"\xff" * 20):
        with pytest.raises(Irregular):
            joined([StoredBlock(data, codec)], b"")


def test_several_frames_in_one_block_are_not_read_as_the_first_alone() -> None:
    with pytest.raises(Irregular):
        joined([StoredBlock(told(b"abc" * 100) + told(b"defg" * 100), ZSTD)], b"")


@pytest.mark.parametrize("kept", [0, 1, 15])
def test_a_container_that_ends_within_the_mark_of_its_header_is_damaged(kept: int) -> None:
    """It would be taken for one without records, and the rows of its files would be missing."""
    header = MAGIC + b"\x02\x16avro.schema\x04{}\0"
    assert list(blocks_of(header + b"m" * 16)[1]) == []
    with pytest.raises(Irregular, match="cut off"):
        list(blocks_of(header + b"m" * kept)[1])


# ------------------------------------------------------------------------------------------------------ what swells (H16)

SWELLING = {
    b"deflate": deflated(bytes(200_000)),
    b"zstandard": untold(bytes(200_000)),
    b"bzip2": bz2.compress(bytes(200_000)),
    b"xz": lzma.compress(bytes(200_000)),
    b"null": bytes(200_000),
}
RECORD = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}


def container(codec: bytes, *blocks: tuple[int, bytes], schema: object = RECORD) -> bytes:
    texts = [b"avro.schema", json.dumps(schema).encode(), b"avro.codec", codec]
    head = MAGIC + long_bytes(2) + b"".join(long_bytes(len(text)) + text for text in texts) + b"\0" + b"s" * 16
    return head + b"".join(long_bytes(count) + long_bytes(len(data)) + data + b"s" * 16 for count, data in blocks)


@pytest.mark.parametrize("codec", SWELLING)
def test_no_codec_gives_more_than_is_asked_for(codec: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    block = StoredBlock(SWELLING[codec], codec)
    assert block.decompressed(200_000) == bytes(200_000)
    with pytest.raises(TooLarge, match="holds more than 199999 bytes"):
        block.decompressed(199_999)
    for cut in (SWELLING[codec][:-3], SWELLING[codec][:5]):
        if codec != b"null":
            with pytest.raises(Irregular):
                StoredBlock(cut, codec).decompressed(1 << 20)


@pytest.mark.parametrize("codec", [b"zstandard", b"bzip2", b"xz"])
def test_streams_one_after_another_are_one_block(codec: bytes) -> None:
    twice = StoredBlock(SWELLING[codec] * 2, codec)
    assert twice.decompressed(400_000) == bytes(400_000)
    with pytest.raises(TooLarge):
        twice.decompressed(399_999)


@pytest.mark.parametrize("codec", [b"deflate", b"zstandard", b"bzip2", b"xz"])
def test_blocks_that_swell_together_are_refused(codec: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is small enough: what counts is the whole file. No other reader gets it then."""
    monkeypatch.setattr(module, "_LEAST_PLAIN", 500_000)
    monkeypatch.setattr(module, "_MOST_GROWTH", 1)
    data = container(codec, *[(200_000, SWELLING[codec])] * 2)
    assert len(list(blocks_of(data)[1])) == 2
    data = container(codec, *[(200_000, SWELLING[codec])] * 3)
    with pytest.raises(TableCorrupt, match=r"manifest-x is damaged: a block of .* holds more than"):
        read_records(data, "manifest-x")
    stored = [StoredBlock(SWELLING[codec], codec)] * 3
    with pytest.raises(TooLarge):
        joined(stored, b"")
    with pytest.raises(TooLarge):
        joined([StoredBlock(told(bytes(200_000)[:90_000]), ZSTD)] * 6, b"")


def test_more_records_than_bytes_are_refused() -> None:
    empty, many = {"type": "record", "name": "e", "fields": []}, b"\x80\x80\x80\x80\x80\x80\x80\x10\0"
    lists = [{"type": "array", "items": "null"}, ["null", {"type": "array", "items": empty}]]
    for data in (
        container(b"null", (1 << 60, b"\0")),
        container(b"null", (1 << 60, b""), schema=empty),
        *(container(b"null", (1, many), schema={**RECORD, "fields": [{"name": "a", "type": kind}]}) for kind in lists),
    ):
        with pytest.raises(TableCorrupt):
            read_records(data, "manifest-x")


def test_blocks_of_a_data_file_are_bounded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAST_DATA", 150_000)
    monkeypatch.setattr(module, "_MOST_GROWTH", 1)
    data = container(
        b"deflate", (3, deflated(bytes(100_000))), (4, deflated(bytes(100_000))), (5, SWELLING[b"deflate"])
    )
    found = FileBlocks.of(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]
    assert [found.next(), found.next()] == [(3, bytes(100_000)), (4, bytes(100_000))]
    with pytest.raises(TooLarge):
        found.next()
    for bad in (data[:60], container(b"null", (2, b"x")), container(b"null", (0, b"")), data[:-1], b"Obj"):
        with pytest.raises(Irregular):
            blocks = FileBlocks.of(io.BufferedReader(io.BytesIO(bad)))  # type: ignore[arg-type]
            while blocks.next():
                pass
    assert found.of(io.BufferedReader(io.BytesIO(container(b"null")))).next() is None  # type: ignore[arg-type]


def in_parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd", store_schema=False)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def in_orc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    plain = rows.cast(pa.schema([("a", pa.string() if pa.types.is_dictionary(rows["a"].type) else rows["a"].type)]))
    orc.write_table(plain, sink, compression="zstd", dictionary_key_size_threshold=1.0)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


@pytest.mark.parametrize("stored", [in_parquet, in_orc])
def test_values_that_a_dictionary_repeats_do_not_fill_the_memory(stored: Callable[[pa.Table], bytes]) -> None:
    """A manifest in Parquet or ORC: one value of mebibytes, which each row names by a number."""
    names = pa.array(["manifest-1", "manifest-2"] * 150)
    assert len(read_columnar(stored(pa.table({"a": names})), "manifest-x")) == 300
    for size, rows in ((1 << 20, 80), (7 << 20, 70), (70 << 20, 1)):
        word = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["x" * size]))
        data = stored(pa.table({"a": word}))
        assert len(data) < 200_000
        usual, watched = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
        pa.set_memory_pool(watched)
        try:
            with pytest.raises(TableCorrupt, match="manifest-x is cut off or damaged: its columns hold more than"):
                read_columnar(data, "manifest-x")
        finally:
            pa.set_memory_pool(usual)
        assert watched.max_memory() < 400 << 20
    with pytest.raises(TableCorrupt, match="tell of 1000000 entries"):
        read_columnar(stored(pa.table({"a": pa.array([None] * 10**6, pa.int32())})), "manifest-x")


def test_what_may_come_out() -> None:
    assert most_plain(0) == 64 << 20 and most_plain(10 << 20) == 1000 << 20
