"""The deletion vectors of a bucket are rewritten as one file, which replaces the one that was read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from lakelatch.backends.memory import MemoryStore
from lakelatch.core.errors import TableCorrupt
from lakelatch.core.metadata.data_file import ADD, DELETE, IndexEntry, IndexFile
from lakelatch.core.metadata.deletion_vector import INDEX_TYPE, decode_vector, encode_vector, encode_vectors
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.places import FileKeys
from lakelatch.core.rows.types import AtomicType, Field
from lakelatch.table.compaction.bucket_vectors import BucketVectors

SCHEMA = new_schema([Field(0, "k", AtomicType("INT", nullable=False))], primary_keys=["k"], options={"bucket": "2"})
PLACE = (bytes(12), 1)
ROWS = {"a": 10, "b": 10, "c": 10}


def stored(store: MemoryStore, name: str, vectors: dict[str, tuple[list[int], bool]]) -> IndexEntry:
    data, ranges = encode_vectors({f: (encode_vector(np.array(r), wide), len(r)) for f, (r, wide) in vectors.items()})
    entry = IndexEntry(ADD, *PLACE, IndexFile(INDEX_TYPE, name, len(data), len(ranges), ranges))
    store.put(FileKeys(SCHEMA).index(entry), data)
    return entry


def vectors_of(store: MemoryStore, index: Iterable[IndexEntry], is_wide: bool = False) -> BucketVectors:
    return BucketVectors(store, FileKeys(SCHEMA), PLACE, index, ROWS, is_wide)


def contents(entries: Sequence[IndexEntry], data: bytes) -> dict[str, list[int]]:
    found = entries[-1].file.deletion_vectors or ()
    return {v.data_file: decode_vector(data[v.offset :], v, 10, "index").tolist() for v in found}


def test_vectors_that_change_and_those_that_do_not_are_in_the_new_file() -> None:
    store = MemoryStore("memory://vectors")
    old = stored(store, "index-0", {"a": ([1], True), "b": ([2, 3], False), "c": ([4], False)})
    other = replace(old, bucket=0)
    vectors = vectors_of(store, [other, old], is_wide=True)
    vectors.mark("a", np.array([5, 1]))
    vectors.remove(["c", "unknown"])
    vectors.mark("d", np.array([7]))
    assert vectors.deleted("a").tolist() == [1, 5] and vectors.deleted("c") is None
    entries, (upload,) = vectors.changes("index-1")
    assert entries[0] == replace(old, kind=DELETE) and [e.kind for e in entries] == [DELETE, ADD]
    assert contents(entries, upload.data) == {"a": [1, 5], "b": [2, 3], "d": [7]}
    assert upload.key == "index/index-1" and entries[1].file.file_size == len(upload.data)
    assert [v.cardinality for v in entries[1].file.deletion_vectors or ()] == [2, 2, 1]
    wide = {name: encode_vector(np.array(rows), w) in upload.data for name, rows, w in (("b", [2, 3], False),)}
    assert wide == {"b": True}, "a vector that does not change is copied"
    assert encode_vector(np.array([1, 5]), True) in upload.data and encode_vector(np.array([7]), True) in upload.data


def test_a_vector_keeps_its_kind_and_new_ones_follow_the_option() -> None:
    store = MemoryStore("memory://vectors")
    vectors = vectors_of(store, [stored(store, "index-0", {"a": ([1], True)})])
    vectors.mark("a", np.array([2]))
    vectors.mark("b", np.array([3]))
    _, (upload,) = vectors.changes("index-1")
    assert encode_vector(np.array([1, 2]), True) in upload.data
    assert encode_vector(np.array([3]), False) in upload.data


def test_nothing_is_written_if_no_vector_changes() -> None:
    store = MemoryStore("memory://vectors")
    vectors = vectors_of(store, [stored(store, "index-0", {"a": ([1], False)})])
    vectors.mark("a", np.array([1]))
    vectors.remove(["b"])
    assert vectors.changes("index-1") == ((), ())


def test_the_last_vector_leaves_an_empty_file() -> None:
    store = MemoryStore("memory://vectors")
    vectors = vectors_of(store, [stored(store, "index-0", {"a": ([1], False)})])
    vectors.remove(["a"])
    entries, (upload,) = vectors.changes("index-1")
    assert upload.data == b"\x01" and entries[1].file.deletion_vectors == () and entries[1].file.row_count == 0


def test_two_index_files_of_a_bucket_become_one() -> None:
    store = MemoryStore("memory://vectors")
    both = [stored(store, "index-0", {"a": ([1], False)}), stored(store, "index-1", {"b": ([2], False)})]
    vectors = vectors_of(store, both)
    vectors.mark("a", np.array([0]))
    entries, (upload,) = vectors.changes("index-2")
    assert [e.kind for e in entries] == [DELETE, DELETE, ADD]
    assert contents(entries, upload.data) == {"a": [0, 1], "b": [2]}


def test_a_missing_or_damaged_vector_is_an_error() -> None:
    store = MemoryStore("memory://vectors")
    old = stored(store, "index-0", {"a": ([11], False)})
    with pytest.raises(TableCorrupt, match="marks row 11, but the file has 10 rows"):
        vectors_of(store, [old]).mark("a", np.array([1]))
    gone = replace(old, file=replace(old.file, file_name="index-9"))
    with pytest.raises(TableCorrupt, match="index-9"):
        vectors_of(store, [gone]).deleted("a")
