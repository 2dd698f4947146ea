"""Which files of a bucket a compaction merges, which it writes anew by themselves, and which only get another level."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.table.compaction.test_compact_keys import created, data_keys, levels, named, upsert, values

from lakelatch.coordinator.commit.message import CommitMessage
from lakelatch.core.errors import StoreUnavailable
from lakelatch.core.metadata.data_file import SOURCE_COMPACT, DataFile
from lakelatch.table.compaction.key_plan import BucketCompaction
from lakelatch.table.compaction.key_rewrite import KeyRewriter
from lakelatch.table.compaction.plan import plan_compaction
from lakelatch.table.compaction.run import rewriter_of
from lakelatch.table.table import Table


def rewritten(table: Table, target_bytes: int | None = None, **about: Any) -> CommitMessage:
    """What a full compaction of the only bucket makes, before its commit.

    Args:
        about: what is different in its plan.
    """
    plan = plan_compaction(table.timeline, table.schema, full=True)
    (group,) = plan.groups
    assert isinstance(group, BucketCompaction)
    target = plan.target_bytes if target_bytes is None else target_bytes
    rewriter = rewriter_of(table.store, table.timeline, table.schema, [group], target)
    assert isinstance(rewriter, KeyRewriter)
    return rewriter.rewrite(replace(group, **about), "made")


def names(files: tuple[DataFile, ...]) -> list[str]:
    return [file.file_name for file in files]


def test_a_file_of_the_last_level_that_overlaps_no_other_stays_as_it_is() -> None:
    table = created(compaction__small_file_ratio="0.0")
    upsert(table, "a", {1: 1, 2: 2})
    table.compact(full=True)
    (old,) = (entry.file for entry in table.entries())
    new = upsert(table, "a", {5: 5, 7: 7})
    done = rewritten(table)
    assert names(done.compact_before) == [new.file_name] and done.compact_after == (new._replace(level=5),)
    table.compact(full=True)
    assert {e.file for e in table.entries()} == {old, new._replace(level=5)}
    assert values(table) == {("a", k): k for k in (1, 2, 5, 7)}


def test_small_files_are_joined_and_a_large_one_between_them_only_moves() -> None:
    """Files that are as large as the ratio says are not small."""
    table = created(compaction__small_file_ratio="1.0")
    small = [upsert(table, "a", {k: k}) for k in (1, 2)]
    large = upsert(table, "a", {k: k for k in range(10, 3000)})
    after = [upsert(table, "a", {k: k}) for k in (5000, 5001)]
    assert large.file_size > 1 + max(file.file_size for file in (*small, *after))
    for target, moves in [(large.file_size - 1, True), (large.file_size, True), (large.file_size + 1, False)]:
        done = rewritten(table, target)
        assert (large._replace(level=5) in done.compact_after) == moves
        assert {*names(done.compact_before)} == {f.file_name for f in (*small, large, *after)}
        made = [file.row_count for file in done.compact_after if file.file_name != large.file_name]
        assert sum(made) == (4 if moves else 2994) and (made == [2, 2]) == moves


@pytest.mark.parametrize(("level", "last", "moves"), [(4, 5, True), (5, 5, False), (5, 6, True)])
def test_a_file_with_rows_that_delete_moves_to_any_level_but_the_last(level: int, last: int, moves: bool) -> None:
    table = created()
    file = upsert(table, "a", {1: 1}, deletes=(2,))
    done = rewritten(table, output_level=level, last_level=last, drops_deletes=level == last)
    assert (done.compact_after == (file._replace(level=level),)) == moves
    (made,) = done.compact_after
    assert (made.level, made.row_count, made.delete_row_count) == (level, 2 if moves else 1, 1 if moves else 0)


@pytest.mark.parametrize("drops", [True, False])
def test_rows_that_delete_stay_where_the_plan_says_so(drops: bool) -> None:
    table = created()
    upsert(table, "a", {1: 1, 3: 3})
    upsert(table, "a", {1: 2}, deletes=(3,))
    (made,) = rewritten(table, output_level=4, drops_deletes=drops).compact_after
    assert (made.row_count, made.delete_row_count, made.level) == ((1, 0, 4) if drops else (2, 1, 4))
    assert made.file_source == SOURCE_COMPACT and made.file_name.startswith("data-made")


def test_each_file_is_written_anew_by_itself_where_that_is_asked_for() -> None:
    table = created(compaction__force_rewrite_all_files="true", target_file_size="16 kb")
    upsert(table, "a", {k: k * 7919 % 10007 for k in range(20_000)})
    table.compact(full=True)
    before = {entry.file.file_name: entry.file.row_count for entry in table.entries()}
    assert len(before) > 2
    done = rewritten(table)
    assert {*names(done.compact_before)} == {*before}
    assert sorted(f.row_count for f in done.compact_after) == sorted(before.values())
    assert before.keys().isdisjoint(names(done.compact_after))


def test_new_files_are_as_large_as_the_compaction_says_and_not_as_the_table_does() -> None:
    table = created(target_file_size="16 kb")
    for shift in range(2):
        upsert(table, "a", {k: (k + shift) * 7919 % 10007 for k in range(20_000)})
    many, one = (rewritten(table, target).compact_after for target in (16 << 10, 1 << 30))
    assert len(many) > 2 and [file.row_count for file in one] == [20_000]
    assert sum(file.row_count for file in many) == 20_000


def test_new_files_lie_where_the_table_has_its_data() -> None:
    table = created(data_file__path_directory="data", data_file__prefix="mine-")
    upsert(table, "a", {1: 1})
    done = rewritten(table)
    assert names(done.compact_after)[0].startswith("data-"), "a file that only moves keeps its name"
    upsert(table, "a", {1: 2})
    (made,) = rewritten(table).compact_after
    assert made.file_name.startswith("mine-made")
    assert table.store.head(f"data/part=a/bucket-0/{made.file_name}")


@pytest.mark.parametrize("options", [{}, {"changelog_producer": "full-compaction"}], ids=["plain", "changelog"])
def test_what_a_failed_rewrite_wrote_is_deleted(options: dict[str, str]) -> None:
    table = created(target_file_size="16 kb", **options)
    for shift in range(2):
        upsert(table, "a", {k: (k + shift) * 7919 % 10007 for k in range(20_000)})
    before, puts = data_keys(table), []

    def refuse(key: str) -> bool:
        puts.append(key)
        return len(puts) > 2

    table.store.refuse = refuse
    with pytest.raises(StoreUnavailable):
        rewritten(table)
    table.store.refuse = lambda key: False
    assert len(puts) == 3 and data_keys(table) == before == named(table)
    table.compact(full=True)
    assert sum(count for _, count, _ in levels(table)) == 20_000
