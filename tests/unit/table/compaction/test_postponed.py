"""Postponed rows go to real buckets in the order in which they were written, whatever is there already."""

from __future__ import annotations

from typing import Any

import pytest
from unit.table.compaction.test_compact_keys import again, created, data_keys, kinds, levels, upsert, values

import lakelatch as ll
from lakelatch.core.errors import CommitConflict
from lakelatch.core.metadata.schemas.merge_rules import POSTPONED
from lakelatch.table.compaction import postponed
from lakelatch.table.table import Table


def postponing(**options: str) -> Table:
    return created(bucket="-2", postpone__default_bucket_num="3", **options)


def buckets(table: Table) -> set[tuple[bytes, int, int]]:
    return {(entry.partition, entry.bucket, entry.total_buckets) for entry in table.entries()}


def test_a_partition_keeps_its_number_of_buckets_and_a_new_one_gets_what_the_option_says() -> None:
    table = postponing()
    upsert(table, "a", dict.fromkeys(range(40), 1), number=-1)
    table.compact()
    ((first, _, _), *_) = buckets(table)
    table.alter(ll.set_option("postpone.default-bucket-num", "5"))
    upsert(table, "a", dict.fromkeys(range(60), 2), number=-1)
    upsert(table, "b", dict.fromkeys(range(60), 2), number=-1)
    table.compact()
    assert {(bucket, total) for part, bucket, total in buckets(table) if part == first} == {(n, 3) for n in range(3)}
    assert {(bucket, total) for part, bucket, total in buckets(table) if part != first} == {(n, 5) for n in range(5)}
    assert values(table) == {(part, k): 2 for part in "ab" for k in range(60)}
    assert table.verify("all", data=True) == []


@pytest.mark.parametrize("settled", [1, 2, 3])
def test_the_last_row_of_a_key_counts_and_deletes_delete_what_is_there(settled: int) -> None:
    """Each time, rows of one bucket are in several files of it already."""
    table = postponing()
    for number in range(settled):
        upsert(table, "a", {1: number, 2: number, 3: number, 4: number}, number=-1)
        table.compact()
    before = {entry.file.max_sequence_number for entry in table.entries()}
    upsert(table, "a", {1: 10, 2: 10, 9: 9}, number=-1)
    upsert(table, "a", {2: 11}, deletes=(3,), number=-1)
    upsert(table, "a", {1: 12}, deletes=(9,), number=-1)
    table.compact()
    assert values(table) == {("a", 1): 12, ("a", 2): 11, ("a", 4): settled - 1}
    assert max(entry.file.max_sequence_number for entry in table.entries()) > max(before)
    assert table.verify("all", data=True) == []


def test_each_partition_is_a_commit_and_all_are_counted() -> None:
    table = postponing()
    for part, files in (("a", 2), ("b", 1), ("c", 3)):
        for number in range(files):
            upsert(table, part, dict.fromkeys(range(10), number), number=-1)
    planned = table.compact("part <> 'c'", dry_run=True)
    assert [(group.bucket, group.why) for group in planned.plan.groups] == [
        (POSTPONED, "postponed rows go to real buckets")
    ] * 2
    assert "3 of 3 files in 2 buckets" in str(planned)
    done = table.compact("part <> 'c'")
    real = [e.file for e in table.entries() if e.bucket != POSTPONED]
    assert (len(done.receipts), done.files_before, done.files_after) == (2, 3, len(real))
    assert done.bytes_after == sum(file.file_size for file in real)
    assert kinds(table) == ["APPEND"] * 6 + ["COMPACT"] * 2
    assert len([e for e in table.entries() if e.bucket == POSTPONED]) == 3, "another partition waits"
    assert values(table) == {("a", k): 1 for k in range(10)} | {("b", k): 0 for k in range(10)}


def test_files_of_an_older_schema_are_settled_with_the_others() -> None:
    table = postponing()
    upsert(table, "a", {1: 1, 2: 2}, number=-1)
    table.alter(ll.rename_column("v", "w"))
    upsert(table.refresh(), "a", {2: 3}, number=-1)
    table.compact()
    assert {row["k"]: row["w"] for row in table.to_arrow().to_pylist()} == {1: 1, 2: 3}


def test_a_changelog_of_the_input_has_the_rows_when_they_are_settled() -> None:
    table = postponing(changelog_producer="input")
    upsert(table, "a", {1: 1, 2: 2}, number=-1)
    upsert(table, "a", {}, deletes=(2,), number=-1)
    table.compact()
    last = table.snapshot().id
    told = [(r["_row_kind"], r["k"]) for r in table.changes(last - 1, last).read_all().to_pylist()]
    assert sorted(told) == [("+I", 1), ("+I", 2), ("-D", 2)]


@pytest.mark.parametrize("attempts", [1, 3])
def test_it_ends_with_the_conflict_if_others_never_stop(attempts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leaves nothing behind. What was tried last is told."""
    monkeypatch.setattr(postponed, "MOST_ATTEMPTS", attempts)
    table, tried = postponing(), []
    upsert(table, "a", {1: 1}, number=-1)
    before = data_keys(table)
    commit = table.committer.commit

    def lost(request: Any) -> Any:
        tried.append(request.kind)
        error = CommitConflict("others came first")
        error.sent = False
        raise error

    monkeypatch.setattr(table.committer, "commit", lost)
    with pytest.raises(
        CommitConflict, match=f"the partition was read {attempts} times, and others changed it each time"
    ):
        table.compact()
    assert tried == ["COMPACT"] * attempts and data_keys(table) == before
    monkeypatch.setattr(table.committer, "commit", commit)
    table.compact()
    assert values(table) == {("a", 1): 1}


def test_rows_of_real_buckets_that_come_meanwhile_are_kept() -> None:
    """Another job has settled the same partition, and written to it; only what is left is settled then."""
    table = postponing()
    upsert(table, "a", {1: 1, 2: 2}, number=-1)
    other = again(table)

    def others() -> None:
        other.compact()
        upsert(other, "a", {1: 5, 7: 7}, number=-1)

    table.store.before_create.append(others)
    table.compact()
    assert values(table) == {("a", 1): 5, ("a", 2): 2, ("a", 7): 7}
    assert all(level >= 0 for level, _, _ in levels(table))
    assert table.verify("all", data=True) == []


def test_a_table_without_postponed_rows_has_nothing_to_settle() -> None:
    table = postponing()
    assert table.compact().receipts == ()
    upsert(table, "a", {1: 1}, number=-1)
    table.compact()
    assert table.compact().receipts == () and values(table) == {("a", 1): 1}
