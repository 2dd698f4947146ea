"""How the hashes of a commit join the index of a base, and which index files are kept in memory (H12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from changes import Raced, created
from keyed import NO_PARTITION, Keyed
from unit.coordinator.commit.test_hash_indexes import hashes_in, put

from lakelatch.coordinator.commit.attempt import FileNames
from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.commit.settling.hash_indexes import HashIndexes, HashJoin, HashMemory, Joined, hash_files
from lakelatch.core.metadata.data_file import ADD, DELETE, IndexEntry, IndexFile
from lakelatch.core.metadata.hash_index import BucketHashes, decode_hashes, encode_hashes
from lakelatch.core.places import FileKeys

OTHER = b"another partition"


def array(*values: int) -> Any:
    return np.array(sorted(values), np.int32)


class World:
    """Index files that a committer knows, and commits that join them."""

    def __init__(self) -> None:
        table = Keyed({"bucket": "-1"})
        self.memory = HashMemory()
        self.indexes = HashIndexes(table.timeline, FileKeys(table.schema), self.memory)

    def file(self, name: str, bucket: int, *values: int, partition: bytes = NO_PARTITION) -> IndexEntry:
        self.memory.keep(name, array(*values))
        return IndexEntry(ADD, partition, bucket, IndexFile("HASH", name, 4 * len(values), len(values)))

    def join(self, *parts: tuple[int, list[int], set[str]], partition: bytes = NO_PARTITION) -> HashJoin:
        """A commit of hashes that are all new: each part with its bucket, and the index files that its task read."""
        hashes = [
            ((partition, bucket), BucketHashes(encode_hashes(array(*new)), encode_hashes(array(*new)), frozenset(read)))
            for bucket, new, read in parts
        ]
        return HashJoin(hashes, self.indexes, FileNames("us"))


def held(joined: Joined | Conflict) -> dict[int, list[int]]:
    """The hashes in the new index files, by bucket."""
    assert isinstance(joined, Joined), joined
    added = [e for e in joined.entries if e.kind == ADD]
    assert len(added) == len(joined.files)
    found = {}
    for entry, file in zip(added, joined.files, strict=True):
        assert file.key == f"index/{entry.file.file_name}" == file.name
        assert entry.file.file_size == len(file.data)
        found[entry.bucket] = decode_hashes(file.data, entry.file.row_count, file.key).tolist()
    return found


def moves(join: HashJoin) -> dict[tuple[int, int], list[int]]:
    return {(m.bucket, m.to): decode_hashes(m.hashes, len(m.hashes) // 4, "").tolist() for m in join.moved}


# ------------------------------------------------------------------------------------------------------- joining


def test_new_hashes_join_those_of_their_bucket_and_the_old_file_goes_first() -> None:
    world = World()
    old = world.file("index-old", 0, 1, 9)
    joined = world.join((0, [5], {"index-old"})).on([old])
    assert held(joined) == {0: [1, 5, 9]}
    assert isinstance(joined, Joined)
    assert [(e.kind, e.partition, e.bucket, e.file.file_name) for e in joined.entries] == [
        (DELETE, NO_PARTITION, 0, "index-old"),
        (ADD, NO_PARTITION, 0, "index-us-0"),
    ]
    assert joined.entries[1].file.index_type == "HASH"
    assert world.memory.hashes("index-us-0") is not None, "the next commit need not read it"


def test_hashes_that_another_writer_put_into_the_same_bucket_need_no_file() -> None:
    """Bucket 0 is a bucket like any other."""
    world = World()
    theirs = world.file("index-theirs", 0, 1, 2, 3)
    assert world.join((0, [1, 3], set())).on([theirs]) == Joined()
    assert held(world.join((0, [1, 4], set())).on([theirs])) == {0: [1, 2, 3, 4]}


@pytest.mark.parametrize("to", [0, 1, 7])
def test_a_key_that_another_writer_put_elsewhere_is_named_with_its_bucket(to: int) -> None:
    world = World()
    theirs = [world.file("index-theirs", to, 5, 6), world.file("index-ours", 3, 8)]
    join = world.join((3, [5, 6, 8, 9], set()))
    found = join.on(theirs)
    assert isinstance(found, Conflict)
    assert found.check == "keys_moved" and "2 of its new keys" in found.reason
    assert moves(join) == {(3, to): [5, 6]}
    assert join.moved[0].partition == NO_PARTITION
    assert held(join.on(theirs[1:])) == {3: [5, 6, 8, 9]}, "on another base there is no conflict"
    assert join.moved == ()


def test_keys_are_compared_if_one_of_several_tasks_read_an_older_index() -> None:
    world = World()
    theirs = world.file("index-theirs", 0, 5)
    fresh, stale = (3, [7], {"index-theirs"}), (3, [5], set[str]())
    for parts in ((fresh, stale), (stale, fresh)):
        join = world.join(*parts)
        assert isinstance(join.on([theirs]), Conflict)
        assert moves(join) == {(3, 0): [5]}


def test_keys_of_tasks_that_read_the_index_of_the_base_are_not_compared_again() -> None:
    """They got their buckets by this index; only what is new is written."""
    world = World()
    theirs = world.file("index-theirs", 0, 5)
    part = BucketHashes(encode_hashes(array(5, 6)), encode_hashes(array(6)), frozenset({"index-theirs"}))
    join = HashJoin([((NO_PARTITION, 0), part)], world.indexes, FileNames("us"))
    assert held(join.on([theirs])) == {0: [5, 6]}
    unread = IndexEntry(ADD, NO_PARTITION, 5, IndexFile("HASH", "index-far", 4, 1))
    told = replace(part, read=frozenset({"index-theirs", "index-far"}))
    join = HashJoin([((NO_PARTITION, 0), told)], world.indexes, FileNames("us"))
    assert held(join.on([theirs, unread])) == {0: [5, 6]}, "the index of other buckets is not read"
    known = BucketHashes(encode_hashes(array(5)), b"", frozenset({"index-theirs"}))
    assert HashJoin([((NO_PARTITION, 0), known)], world.indexes, FileNames("us")).on([theirs]) == Joined()


def test_the_same_base_gets_the_same_file_and_another_base_another_one() -> None:
    world = World()
    first, second = world.file("index-a", 0, 1), world.file("index-b", 0, 1, 2)
    join = world.join((0, [7], set()))
    once, again, other = join.on([first]), join.on([first]), join.on([second])
    assert once == again
    assert held(once) == {0: [1, 7]} and held(other) == {0: [1, 2, 7]}
    assert held(join.on([])) == {0: [7]}
    assert join.on([first]) == once


def test_hashes_of_several_tasks_are_kept_once_and_ascending() -> None:
    world = World()
    join = world.join((0, [9, 2], set()), (0, [2, 1], set()), (4, [3], set()))
    assert held(join.on([])) == {0: [1, 2, 9], 4: [3]}


def test_a_hash_in_two_buckets_belongs_to_the_first_one_that_is_listed() -> None:
    """An older writer may have left such an index. No second answer is given to the same question."""
    world = World()
    index = [world.file("index-0", 0, 5), world.file("index-1", 1, 5, 6)]
    assert world.join((0, [5], set())).on(index) == Joined()
    join = world.join((1, [5, 6], set()))
    assert isinstance(join.on(index), Conflict)
    assert moves(join) == {(1, 0): [5]}


def test_partitions_and_other_types_of_index_files_are_kept_apart() -> None:
    world = World()
    elsewhere = world.file("index-elsewhere", 0, 5, partition=OTHER)
    ours = world.file("index-ours", 2, 8)
    vectors = replace(ours, file=IndexFile("DELETION_VECTORS", "index-vectors", 9, 1, ()))
    index = [elsewhere, ours, vectors]
    assert hash_files(index, NO_PARTITION) == {2: ours}
    assert hash_files(index, OTHER) == {0: elsewhere}
    assert held(world.join((2, [5], set())).on(index)) == {2: [5, 8]}
    assert isinstance(world.join((2, [5], set()), partition=OTHER).on(index), Conflict)


# ------------------------------------------------------------------------------------------------------- memory


def test_sixty_four_megabytes_of_hashes_are_kept() -> None:
    memory, half = HashMemory(), np.zeros(8 << 20, np.int32)
    memory.keep("a", half)
    memory.keep("b", half)
    assert memory.hashes("a") is not None
    memory.keep("c", np.zeros(1, np.int32))
    assert [memory.hashes(name) is not None for name in "abc"] == [False, True, True]


def test_what_was_written_again_is_the_newest() -> None:
    memory, half = HashMemory(), np.zeros(8 << 20, np.int32)
    for name in ("a", "b", "a", "c"):
        memory.keep(name, half)
    assert [memory.hashes(name) is not None for name in "abc"] == [True, False, True]


def test_an_index_is_read_once() -> None:
    table = created()
    put(table, {0: [1, 2], 3: [9]})
    partition = table.entries()[0].partition
    snapshot = table.timeline.latest()
    read: list[str] = []
    store = Raced(table.store.url)
    get = store.get
    store.get = lambda key: read.append(key) or get(key)  # type: ignore[method-assign, func-returns-value]
    indexes = type(table)(store, table.schema).committer.hash_indexes()
    first = indexes.of(snapshot, partition)
    assert {bucket: hashes.tolist() for bucket, hashes in first[0].items()} == {0: [1, 2], 3: [9]}
    assert len(first[1]) == 2 and len(read) == 3, "the list, and two index files"
    again = indexes.of(snapshot, partition)
    assert again[1] == first[1] and len(read) == 3
    assert hashes_in(table) == {0: {1, 2}, 3: {9}}


def test_a_snapshot_without_an_index_has_no_hashes_and_lets_nothing_be_forgotten() -> None:
    table = created()
    put(table, {0: [1]})
    snapshot = table.timeline.latest()
    assert snapshot is not None
    indexes = table.committer.hash_indexes()
    assert indexes.of(None, NO_PARTITION) == ({}, frozenset())
    assert indexes.entries(None) == ()
    known = indexes.entries(snapshot)
    for _ in range(2):
        assert indexes.entries(replace(snapshot, index_manifest=None)) == ()
    assert indexes.entries(snapshot) is known
