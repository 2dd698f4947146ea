"""A data file that is being written is in memory while it is small, and in the store once it is larger."""

from __future__ import annotations

import gc
from typing import Any

import pyarrow as pa
import pytest

import lakelatch as ll
from lakelatch.backends.memory import MemoryStore
from lakelatch.table.formats.writing import output_of
from lakelatch.table.writing.files import sink as sinks
from lakelatch.table.writing.files.sink import SpillingSink

KEY = "p=1/bucket-0/data-1.parquet"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> MemoryStore:
    monkeypatch.setattr(sinks, "SPILL_BYTES", 10)
    monkeypatch.setattr(sinks, "TRAVELLING_BYTES", 6)
    return MemoryStore(f"memory://sink/{request.node.name}")


def keys(store: MemoryStore) -> list[str]:
    return [info.key for info in store.list("")]


@pytest.mark.parametrize(
    ("parts", "travelling", "travels"),
    [
        ([b"abc", b"def"], True, True),
        ([b"abc", b"defg"], True, False),
        ([b"abc"], False, False),
        ([], True, True),
        ([b"abcdefghij"], True, False),
        ([b"abcdefghij", b"k"], True, False),
        ([b"abcde", b"fghijkl", b"m", b"", b"n"], False, False),
    ],
)
def test_only_a_small_file_may_travel_with_its_commit(
    parts: list[bytes], travelling: bool, travels: bool, store: MemoryStore
) -> None:
    sink, whole = SpillingSink(store, KEY), b"".join(parts)
    for part in parts:
        assert sink.write(part) == len(part)
    assert (sink.size, sink.tell(), sink.name) == (len(whole), len(whole), "data-1.parquet")
    upload = sink.finish(travelling)
    assert (upload is not None) == travels
    if upload is not None:
        assert (upload.key, upload.data) == (KEY, whole) and keys(store) == []
    else:
        assert store.get(KEY) == whole


def test_no_more_is_held_than_may_be(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = list[int]()
    output = store.open_output
    sink = SpillingSink(store, KEY)
    monkeypatch.setattr(store, "open_output", lambda key: opened.append(sink.size) or output(key))
    for _ in range(10):
        sink.write(b"x")
    assert opened == [], "as many bytes as may be held"
    for _ in range(10):
        sink.write(memoryview(b"y"))
    assert opened == [11] and sink.size == 20
    assert sink.finish(travelling=True) is None and store.get(KEY) == b"x" * 10 + b"y" * 10


@pytest.mark.parametrize("before", [b"abc", b"abcdefghijklm", b""])
@pytest.mark.parametrize("change", [bytes.upper, lambda data: data + b"!!", lambda data: b""])
def test_bytes_that_are_held_back_can_be_changed(before: bytes, change: Any, store: MemoryStore) -> None:
    sink = SpillingSink(store, KEY)
    sink.write(before)
    sink.hold()
    sink.write(b"foo")
    sink.write(b"ter")
    assert sink.size == len(before) + 6, "a writer sees where it is"
    sink.release(change)
    expected = before + change(b"footer")
    assert sink.size == len(expected)
    sink.write(b".")
    assert sink.finish(travelling=False) is None
    assert store.get(KEY) == expected + b"."


def test_nothing_that_was_held_back_is_nothing(store: MemoryStore) -> None:
    sink = SpillingSink(store, KEY)
    sink.hold()
    sink.release(bytes.upper)
    assert sink.size == 0


@pytest.mark.parametrize("size", [3, 30])
def test_an_aborted_file_leaves_nothing_and_takes_no_more(size: int, store: MemoryStore) -> None:
    sink = SpillingSink(store, KEY)
    sink.write(b"x" * size)
    sink.abort()
    assert sink.write(b"late") == 4 and sink.size == size
    assert keys(store) == []


def test_it_is_a_file_that_is_written_from_its_beginning_to_its_end(store: MemoryStore) -> None:
    sink = SpillingSink(store, KEY)
    assert not sink.seekable() and not sink.closed
    sink.write(b"abc")
    sink.flush()
    sink.close()
    assert sink.closed and keys(store) == [], "only `finish` stores it"


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro", "csv", "json"])
def test_arrow_calls_no_python_when_it_is_done_with_a_file(file_format: str, store: MemoryStore) -> None:
    """What is raised in a call that a C++ destructor makes, such as an interrupt, is printed and lost."""
    called: list[str] = []

    class Watched(SpillingSink):
        def __getattribute__(self, name: str) -> Any:
            called.append(name)
            return super().__getattribute__(name)

    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    table = ll.create_table(f"memory://sink/of-{file_format}", rows.schema, options={"file.format": file_format})
    output = output_of(table.schema)(Watched(store, KEY), rows)
    output.write(rows)
    output.close()
    assert called
    called.clear()
    del output
    gc.collect()
    assert called == []
