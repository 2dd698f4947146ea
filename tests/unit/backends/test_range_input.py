"""Ranges as a seekable file: few requests, and no byte twice in a row."""

from __future__ import annotations

import io
import random
import uuid

import pytest

from lakelatch.backends.around.metered import MeteredStore
from lakelatch.backends.files.open_files import BLOCK_BYTES, TAIL_BYTES, WHOLE_BYTES, RangeInput
from lakelatch.backends.memory import MemoryStore


def opened(size: int, known: bool = True) -> tuple[RangeInput, MeteredStore, bytes]:
    data = random.Random(size).randbytes(size)
    store = MeteredStore(MemoryStore(f"memory://{uuid.uuid4().hex}"))
    store.inner.put("data", data)
    return RangeInput(store, "data", size if known else None), store, data


def test_small_objects_are_read_once() -> None:
    file, store, data = opened(WHOLE_BYTES)
    while piece := file.read(10_000):
        assert piece
    file.seek(0)
    assert file.read() == data
    assert dict(store.snapshot().by_operation) == {"get_range": 1}


def test_an_unknown_size_costs_a_head() -> None:
    file, store, data = opened(100, known=False)
    assert file.size() == 100
    assert file.readall() == data
    assert dict(store.snapshot().by_operation) == {"head": 1, "get_range": 1}


def test_a_footer_is_one_request() -> None:
    file, store, data = opened(5 * WHOLE_BYTES)
    for offset in (8, 10_000, TAIL_BYTES):
        file.seek(-offset, io.SEEK_END)
        assert file.read(offset) == data[-offset:]
    assert store.snapshot().requests == 1
    assert store.snapshot().bytes_in == TAIL_BYTES


def test_large_reads_are_exact() -> None:
    file, store, data = opened(5 * WHOLE_BYTES)
    file.seek(100)
    assert file.read(2 * WHOLE_BYTES) == data[100 : 100 + 2 * WHOLE_BYTES]
    assert (store.snapshot().requests, store.snapshot().bytes_in) == (1, 2 * WHOLE_BYTES)


def test_pieces_come_in_blocks() -> None:
    file, store, data = opened(2 * WHOLE_BYTES)
    assert b"".join(file.read(1000) for _ in range(100)) == data[:100_000]
    assert store.snapshot().requests == -(-100_000 // BLOCK_BYTES)


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES, WHOLE_BYTES + 1, 3 * WHOLE_BYTES + 17])
def test_random_reads_return_the_right_bytes(size: int) -> None:
    file, _, data = opened(size)
    dice = random.Random(7)
    for _ in range(300):
        start, length = dice.randint(0, size + 10), dice.choice([0, 1, 100, BLOCK_BYTES, WHOLE_BYTES, 2 * WHOLE_BYTES])
        assert file.seek(start) == file.tell() == start
        if dice.random() < 0.5:
            assert file.read(length) == data[start : start + length]
        else:
            target = bytearray(length)
            count = file.readinto(target)
            assert target[:count] == data[start : start + length]
    with pytest.raises(ValueError, match="before the start"):
        file.seek(-1)
