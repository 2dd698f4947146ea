"""Index files of deletion vectors are split byte for byte, and the list of a snapshot is complete (H12)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from changes import vector_file
from keyed import NO_PARTITION, Keyed

from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.commit.settling.index_files import combine_index, with_vectors_of
from lakelatch.core.errors import TableCorrupt, Unsupported
from lakelatch.core.metadata.change import Owner
from lakelatch.core.metadata.data_file import ADD, DELETE, IndexEntry, IndexFile
from lakelatch.core.metadata.deletion_vector import INDEX_TYPE, decode_vector, encode_vectors
from lakelatch.core.places import FileKeys

HASHES = IndexEntry(ADD, NO_PARTITION, 0, IndexFile("HASH", "index-hashes", 8, 2))


class World:
    """A table's store with index files of deletion vectors."""

    def __init__(self) -> None:
        made = Keyed()
        self.store, self.keys = made.store, FileKeys(made.schema)
        self.names = iter(f"index-new-{number}" for number in range(9))

    def file(self, marks: dict[str, list[int]], bucket: int = 0, *, stored: bool = True) -> IndexEntry:
        entry, upload = vector_file(NO_PARTITION, bucket, marks)
        if stored:
            self.store.put(upload.key, upload.data)
        return replace(entry, listed_in="index-manifest-1")

    def split(
        self, *index: IndexEntry, gone: set[tuple[int, str]]
    ) -> tuple[tuple[IndexEntry, ...], dict[str, dict[str, list[int]]]]:
        """The entries when some data files go, and the marks in the new files."""

        def stays(owner: Owner) -> bool:
            assert owner[0] == NO_PARTITION
            return owner[1:] not in gone

        entries, uploads = with_vectors_of(self.store, self.keys, index, stays, lambda: next(self.names))
        data = {upload.key: upload.data for upload in uploads}
        assert len(data) == len(uploads)
        found = {}
        for entry in entries:
            if entry.kind == ADD:
                held = data.pop(self.keys.index(entry))
                assert entry.file.file_size == len(held) and held[:1] == b"\x01"
                vectors = entry.file.deletion_vectors or ()
                assert entry.file.row_count == len(vectors)
                found[entry.file.file_name] = {
                    v.data_file: decode_vector(held[v.offset :], v, None, "index").tolist() for v in vectors
                }
        assert data == {}
        return entries, found


def test_an_index_file_of_files_that_stay_is_left_alone() -> None:
    world = World()
    index = world.file({"a": [1], "b": [2, 3]})
    empty = replace(index, file=IndexFile(INDEX_TYPE, "index-empty", 1, 0, ()))
    unsaid = replace(index, file=IndexFile(INDEX_TYPE, "index-unsaid", 1, 0, None))
    assert world.split(unsaid, index, HASHES, empty, gone={(0, "c"), (1, "a")}) == ((), {})


def test_a_file_whose_vectors_all_go_is_removed_without_being_read() -> None:
    world = World()
    index = world.file({"a": [1], "b": [2, 3]}, stored=False)
    entries, made = world.split(index, gone={(0, "a"), (0, "b")})
    assert entries == (replace(index, kind=DELETE),)
    assert made == {}


def test_vectors_of_files_that_stay_go_to_a_new_file() -> None:
    """Files that are not touched lie before it and behind it."""
    world = World()
    untouched, other_bucket = world.file({"x": [9]}), world.file({"b": [4]}, bucket=1)
    split = world.file({"a": [1, 7], "b": [2, 3], "c": [0, 5, 70_000]})
    whole = world.file({"b": [4], "d": [4]})
    index = (HASHES, untouched, split, other_bucket, whole)
    entries, made = world.split(*index, gone={(0, "b"), (0, "d")})
    assert made == {"index-new-0": {"a": [1, 7], "c": [0, 5, 70_000]}}
    assert [(e.kind, e.bucket, e.file.file_name) for e in entries] == [
        (DELETE, 0, split.file.file_name),
        (DELETE, 0, whole.file.file_name),
        (ADD, 0, "index-new-0"),
    ]
    assert entries[2].file.index_type == INDEX_TYPE and entries[2].partition == NO_PARTITION
    assert [v.cardinality for v in entries[2].file.deletion_vectors or ()] == [2, 3]


def test_a_vector_is_copied_byte_for_byte() -> None:
    """Whatever it holds: its checksum stays the one that its writer computed."""
    world = World()
    data, ranges = encode_vectors({"a": (b"\0\0\0\4damp1234", 1), "b": (b"\0\0\0\5blurr5678", 1)})
    entry = IndexEntry(ADD, NO_PARTITION, 0, IndexFile(INDEX_TYPE, "index-raw", len(data), 2, ranges))
    world.store.put("index/index-raw", data)
    _, uploads = with_vectors_of(world.store, world.keys, [entry], lambda owner: owner[2] == "b", lambda: "index-b")
    assert [(u.key, u.data) for u in uploads] == [("index/index-b", b"\x01\0\0\0\5blurr5678")]


def test_an_index_file_that_is_missing_is_named_with_the_list_that_needs_it() -> None:
    world = World()
    index = world.file({"a": [1], "b": [2]}, stored=False)
    with pytest.raises(TableCorrupt, match=rf"deletion vectors: index/{index.file.file_name} is missing") as caught:
        world.split(index, gone={(0, "a")})
    assert "index-manifest-1" in str(caught.value)


def test_an_index_file_outside_of_the_table_is_not_split() -> None:
    """It can be removed as a whole."""
    world = World()
    index = world.file({"a": [1], "b": [2]}, stored=False)
    outside = replace(index, file=replace(index.file, external_path="s3://elsewhere/index-1"))
    with pytest.raises(Unsupported, match="s3://elsewhere/index-1 lies outside of the table"):
        world.split(outside, gone={(0, "a")})
    entries, _ = world.split(outside, gone={(0, "a"), (0, "b")})
    assert entries == (replace(outside, kind=DELETE),)


def named(name: str, kind: int = ADD) -> IndexEntry:
    return IndexEntry(kind, NO_PARTITION, 0, IndexFile("HASH", f"index-{name}", 8, 2))


def test_the_list_of_a_snapshot_is_that_of_its_base_with_the_changes() -> None:
    old = [named("a"), named("b"), named("c")]
    changes = [named("a", DELETE), named("d"), named("c", DELETE), named("e")]
    assert combine_index(old, changes) == [named("b"), named("d"), named("e")]
    assert combine_index(old, []) == old
    assert combine_index([], [named("a"), named("a", DELETE)]) == []


def test_an_index_file_that_is_no_longer_live_cannot_be_replaced() -> None:
    found = combine_index([named("a")], [named("a", DELETE), named("b", DELETE), named("c")])
    assert isinstance(found, Conflict)
    assert (found.check, found.files) == ("index_file_replaced", ("index-b",))
    assert isinstance(combine_index([named("a")], [named("a", DELETE)] * 2), Conflict)
