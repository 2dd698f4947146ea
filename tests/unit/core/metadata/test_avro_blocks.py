"""Blocks of Avro containers are decompressed one after another, right into their place where they tell their size."""

from __future__ import annotations

import zlib

import pytest
from backports import zstd

from lakelatch.core.avro.blocks import MAGIC, Irregular, StoredBlock, blocks_of, joined

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
