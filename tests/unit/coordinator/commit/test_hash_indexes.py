"""Index files of dynamic buckets: joined on each base, so that no key is in two buckets and no hash is lost (H12)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from changes import Raced, created, files, index_of, meanwhile, reopened, rows, written

from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows
from lakelatch.coordinator.commit.settling.hash_indexes import HashMemory
from lakelatch.core.errors import CommitConflict, TableCorrupt
from lakelatch.core.metadata.hash_index import BucketHashes, decode_hashes, encode_hashes
from lakelatch.core.places import FileKeys
from lakelatch.table.table import Table


@pytest.fixture
def table() -> Table:
    return created()


def hashes_in(table: Table) -> dict[int, set[int]]:
    """The index of the newest snapshot."""
    found: dict[int, set[int]] = {}
    for entry in index_of(table):
        assert entry.bucket not in found, "a bucket has two index files"
        data = table.store.get(FileKeys(table.schema).index(entry))
        assert entry.file.file_size == len(data)
        assert entry.file.index_type == "HASH"
        found[entry.bucket] = set(decode_hashes(data, entry.file.row_count, "index").tolist())
    return found


def put(table: Table, buckets: dict[int, list[int]], *, read: Any = None, **more: Any) -> Any:
    """Commit keys by their hashes. What is in the index that was read is known, all else new."""
    entries = written(table, rows("a", 1))
    partition = entries[0].partition
    snapshot = table.timeline.latest() if read is None else read or None
    known, names = table.committer.hash_indexes().of(snapshot, partition)
    hashes = []
    for bucket, values in buckets.items():
        mine = np.unique(np.array(values, np.int32))
        new = np.setdiff1d(mine, known.get(bucket, mine[:0]))
        hashes.append(((partition, bucket), BucketHashes(encode_hashes(mine), encode_hashes(new), names)))
    request = {
        "kind": "APPEND",
        "commit_user": "job",
        "entries": entries,
        "keyed": KeyedRows(hashes=tuple(hashes)),
        **more,
    }
    return table.committer.commit(CommitRequest(**request))


def test_hashes_of_one_writer(table: Table) -> None:
    put(table, {0: [5, -7], 3: [9]})
    assert hashes_in(table) == {0: {5, -7}, 3: {9}}
    first = {e.bucket: e.file.file_name for e in index_of(table)}
    put(table, {0: [5, 6]})
    assert hashes_in(table) == {0: {5, 6, -7}, 3: {9}}
    second = {e.bucket: e.file.file_name for e in index_of(table)}
    assert first[3] == second[3] and first[0] != second[0]
    snapshot = table.timeline.latest()
    put(table, {0: [6], 3: [9]})
    after = table.timeline.latest()
    assert snapshot is not None and after is not None and snapshot.index_manifest == after.index_manifest


def test_two_writers_join_their_hashes(table: Table) -> None:
    """Neither loses a hash, where both add to one bucket, and where one makes another bucket."""
    put(table, {0: [1]})
    meanwhile(table, lambda: put(reopened(table), {0: [1, 2, 3], 4: [4]}))
    receipt = put(table, {0: [1, 3, 5], 7: [7]})
    assert receipt.retries == 1
    assert hashes_in(table) == {0: {1, 2, 3, 5}, 4: {4}, 7: {7}}


def test_a_key_in_another_bucket_is_a_conflict(table: Table) -> None:
    """The conflict names the keys and where they are. Once they are there, the commit lands."""
    put(table, {0: [1]})
    read = table.timeline.latest()
    put(reopened(table), {2: [8, 9], 3: [7]})
    with pytest.raises(CommitConflict, match="put 3 of its new keys into other buckets") as caught:
        put(table, {0: [1, 7, 8, 9, 10]}, read=read)
    moves = {
        (m.bucket, m.to): decode_hashes(m.hashes, len(m.hashes) // 4, "").tolist() for m in caught.value.moved_keys
    }
    assert moves == {(0, 2): [8, 9], (0, 3): [7]}
    assert hashes_in(table) == {0: {1}, 2: {8, 9}, 3: {7}}
    put(table, {0: [1, 10], 2: [8, 9], 3: [7]}, read=read)
    assert hashes_in(table) == {0: {1, 10}, 2: {8, 9}, 3: {7}}


def test_a_known_key_whose_bucket_was_overwritten(table: Table) -> None:
    """All keys are compared with a changed index, also those that were in the index that was read."""
    put(table, {0: [1, 2]})
    read = table.timeline.latest()
    put(reopened(table), {5: [2]}, read=read, kind="OVERWRITE", target=lambda partition: True, read_snapshot=read)
    assert hashes_in(table) == {5: {2}}
    with pytest.raises(CommitConflict, match="other buckets"):
        put(table, {0: [1, 2]}, read=read)
    put(table, {0: [1]}, read=read)
    assert hashes_in(table) == {0: {1}, 5: {2}}


def test_an_overwrite_keeps_the_hashes_of_rows_that_came_meanwhile(table: Table) -> None:
    """The appended rows stay, so the overwrite's keys go by the index that has them."""
    put(table, {0: [1, 2]})
    read = table.timeline.latest()
    overwrite = {"kind": "OVERWRITE", "target": lambda partition: True, "read_snapshot": read}

    def appended() -> None:
        put(reopened(table), {0: [1, 2], 1: [3]})

    meanwhile(table, appended)
    put(table, {0: [1, 4]}, read=False, **overwrite)
    assert hashes_in(table) == {0: {1, 2, 4}, 1: {3}}
    assert len(files(table)) == 2
    meanwhile(table, lambda: put(reopened(table), {2: [9]}))
    with pytest.raises(CommitConflict, match="other buckets"):
        put(table, {0: [9]}, read=False, **overwrite | {"read_snapshot": table.timeline.latest()})


def test_an_overwrite_alone_begins_the_index_again(table: Table) -> None:
    put(table, {0: [1, 2], 1: [3]})
    read = table.timeline.latest()
    put(table, {0: [3]}, read=False, kind="OVERWRITE", target=lambda partition: True, read_snapshot=read)
    assert hashes_in(table) == {0: {3}}


def test_several_messages_of_one_bucket(table: Table) -> None:
    """Tasks of one job may add to one bucket; their hashes are joined."""
    (entry,) = written(table, rows("a", 1))
    parts = [encode_hashes(np.array(values, np.int32)) for values in ([1, 2], [2, 3])]
    hashes = tuple(((entry.partition, 0), BucketHashes(part, part, frozenset())) for part in parts)
    table.committer.commit(
        CommitRequest(kind="APPEND", commit_user="job", entries=(entry,), keyed=KeyedRows(hashes=hashes))
    )
    assert hashes_in(table) == {0: {1, 2, 3}}


def test_a_warm_writer_reads_no_index(table: Table) -> None:
    """It knows the index manifest and the files that it wrote itself."""
    for i in range(3):
        put(table, {0: list(range(i + 2))})
    store = table.store
    assert isinstance(store, Raced)
    read: list[str] = []
    snapshot = table.timeline.latest()
    get = store.get
    store.get = lambda key: read.append(key) or get(key)  # type: ignore[method-assign, func-returns-value]
    put(table, {0: [77]}, read=snapshot)
    assert not [key for key in read if "index" in key]
    assert 77 in hashes_in(table)[0]


def test_a_damaged_index_file_is_named(table: Table) -> None:
    """A key must not get a second bucket because its hash was lost."""
    put(table, {0: [1, 2]})
    (entry,) = index_of(table)
    key = FileKeys(table.schema).index(entry)
    table.store.put(key, b"\0\0\0")
    with pytest.raises(TableCorrupt, match=f"{key} holds 3 bytes"):
        reopened(table).committer.hash_indexes().of(table.timeline.latest(), entry.partition)
    table.store.delete_many([key])
    with pytest.raises(TableCorrupt, match=f"{key} is missing"):
        reopened(table).committer.hash_indexes().of(table.timeline.latest(), entry.partition)


def test_what_is_kept_is_bounded() -> None:
    memory = HashMemory()
    for name in "abcd":
        memory.keep(name, np.zeros(6 << 20, np.int32))
    assert [memory.hashes(name) is not None for name in "abcd"] == [False, False, True, True]
    for name in "xyz":
        memory.keep_entries(name, [])
    assert [memory.entries(name) is not None for name in "xyz"] == [False, True, True]
