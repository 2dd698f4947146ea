"""How a compaction divides its work into commits, and what it tells of them."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unit.table.compaction.test_compact import again, created, data_keys, fill, named, rows, values

from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.data_file import DataFile, DeletionVectorRange
from lakelatch.table.compaction import run as compacting
from lakelatch.table.compaction.run import Compaction, batches
from lakelatch.table.scan.split import DeletionVectorPlace, Split

MARKED = DeletionVectorPlace("index/index-1", DeletionVectorRange("x", 1, 9, 1))


def group(number: int, size: int, bucket: int = 0, partition: bytes = b"a", marked: bool = False) -> Split:
    file = DataFile(f"data-{number}.parquet", size, 1)
    deletions = (MARKED,) if marked else ()
    return Split(partition, "", bucket, 4, (file,), (file.file_name,), deletions=deletions)


def sizes(groups: list[Split], most: int) -> list[list[int]]:
    """The sizes of the groups of each batch; every group is in one batch, in its order."""
    found = list(batches(groups, most))
    assert [each for batch in found for each in batch] == groups
    return [[each.size for each in batch] for batch in found]


def test_a_commit_ends_with_the_group_that_makes_it_large_enough() -> None:
    plain = [group(n, size, n) for n, size in enumerate([4, 6, 9, 1, 30, 2])]
    assert sizes(plain, 10) == [[4, 6], [9, 1], [30], [2]]
    assert sizes(plain, 11) == [[4, 6, 9], [1, 30], [2]]
    assert sizes(plain, 1) == [[4], [6], [9], [1], [30], [2]]
    assert sizes(plain, 1000) == [[4, 6, 9, 1, 30, 2]]
    assert sizes([], 10) == []


def test_groups_of_a_bucket_whose_rows_are_marked_are_in_one_commit() -> None:
    """They may share an index file, which one commit replaces. Those of another partition or bucket are other ones."""
    bucket = [group(1, 10, 1), group(2, 10, 1, marked=True), group(3, 10, 1)]
    others = [group(4, 10, 2), group(5, 10, 2), group(6, 10, 2, partition=b"b", marked=True), group(7, 10, 2)]
    assert sizes([*bucket, *others], 10) == [[10, 10, 10], [10], [10], [10], [10]]


def test_a_run_in_several_commits_names_them_all_and_counts_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two partitions that others changed first, the second batch gives one up, and the third is committed."""
    table = created()
    for number, part in enumerate("abc"):
        fill(table, part, 10 * number, 5 + number)
    monkeypatch.setattr(compacting, "BATCH_BYTES", 1)
    run, told = compacting.run_compaction, list[tuple[int, int]]()
    monkeypatch.setattr(compacting, "run_compaction", lambda *given, **more: run(*given, batch_bytes=1, **more))
    replace = {"partition": {"part": "b"}}
    table.store.before_create = [lambda: None, lambda: again(table).overwrite(rows("b", [70]), **replace)]
    done = table.compact(progress=lambda files, total: told.append((files, total)))
    assert told == [(5, 18), (11, 18), (18, 18)]
    assert values(table) == [*range(5), *range(20, 27), 70]
    new = [entry.file for entry in table.entries() if entry.file.row_count > 1]
    text = done.to_dict()
    assert [receipt["snapshot_id"] for receipt in text.pop("receipts")] == [r.snapshot_id for r in done.receipts]
    ((given_up),) = text.pop("given_up")
    assert "deleted files that it replaces" in given_up.pop("reason")
    assert given_up == {"partition": "part=b", "bucket": 0, "files": 6}
    assert text == {
        **done.plan.to_dict(),
        "files_before": 12,
        "files_after": 2,
        "bytes_after": sum(file.file_size for file in new),
    }
    first, last = (receipt.snapshot_id for receipt in done.receipts)
    assert last > first == 19
    assert str(done).startswith(f"12 files became 2, snapshots {first}, {last}; 1 groups of 6 files were given up: ")
    assert data_keys(table) == named(table)


def test_a_run_that_did_nothing_tells_its_plan() -> None:
    table = created()
    fill(table, "a", 0, 2)
    done = table.compact()
    assert done.to_dict() == {
        **done.plan.to_dict(),
        "receipts": [],
        "files_before": 0,
        "files_after": 0,
        "bytes_after": 0,
        "given_up": [],
    }
    assert str(done) == str(done.plan) == "nothing to compact: 2 files"
    assert Compaction(done.plan) == done


def test_the_files_of_groups_that_were_rewritten_beside_one_that_fails_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All groups of a batch are one commit."""
    table = created()
    for part in "abcdef":
        fill(table, part, 0, 5)
    before = data_keys(table)
    written = list[str]()

    def refuse(key: str) -> bool:
        written.append(key)
        return key.startswith("part=f/")

    table.store.refuse = refuse
    with pytest.raises(StoreUnavailable, match=r"part=f/.* is refused"):
        table.compact()
    table.store.refuse = lambda key: False
    assert {key.partition("/")[0] for key in written} >= {"part=a", "part=f"}
    assert data_keys(table) == before == named(table)
    assert table.compact().files_before == 30


def test_rows_keep_their_numbers_in_several_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run of files that takes the place of others is numbered on from its oldest one, and stays below the next run."""
    table = created(**{"file.compression": "none", "bucket": "1", "bucket-key": "v"})
    for start in range(0, 12_000, 3000):
        table.append(rows("a", range(start, start + 3000)))
    target = max(entry.file.file_size for entry in table.entries()) * 2
    table.compact(target_size=target, min_files=2)
    made = sorted((e.file.min_sequence_number, e.file.max_sequence_number, e.file.row_count) for e in table.entries())
    assert len(made) > 1 and made[0][0] == 0
    assert all(last < first for (_, last, _), (first, _, _) in pairwise(made))
    assert all(last - first + 1 == count for first, last, count in made)


def test_each_of_several_files_of_tracked_rows_says_which_numbers_its_own_rows_have() -> None:
    """A row has the number of the commit that wrote it, in whichever file it is."""
    table = created(**{"row-tracking.enabled": "true", "file.compression": "none"})
    for start in range(0, 12_000, 3000):
        table.append(rows("a", range(start, start + 3000)))
    target = max(entry.file.file_size for entry in table.entries()) * 2
    table.compact(target_size=target, min_files=2)
    spans = list[tuple[int, int]]()
    for entry in again(table).entries():
        data = table.store.get(f"part=a/bucket-0/{entry.file.file_name}")
        numbers = pq.read_table(pa.BufferReader(data))["_SEQUENCE_NUMBER"].to_pylist()
        spans.append((entry.file.min_sequence_number, entry.file.max_sequence_number))
        assert spans[-1] == (min(numbers), max(numbers))
    assert len(spans) > 1 and len(set(spans)) > 1
    assert sorted(values(table)) == list(range(12_000))
