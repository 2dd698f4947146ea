"""What a compaction of a table with a primary key chooses: by the clock, by options, in each bucket alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from unit.table.compaction.test_compact_keys import created, levels, upsert, values

import lakelatch as ll
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.coordinator.surroundings import MACHINE
from lakelatch.core.errors import Unsupported
from lakelatch.table.compaction import key_plan
from lakelatch.table.compaction.key_plan import BucketCompaction, above_of
from lakelatch.table.compaction.plan import plan_compaction
from lakelatch.table.table import Table

HOUR = 3600
VECTORS = {"deletion_vectors__enabled": "true"}
At = Callable[[float], None]


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of this machine."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    """Sets the clock of the next plans."""

    def set_to(wall_s: float) -> None:
        monkeypatch.setattr(key_plan, "MACHINE", replace(MACHINE, wall_s=lambda: wall_s))

    return set_to


def planned(table: Table, **about: Any) -> list[BucketCompaction]:
    groups = plan_compaction(table.timeline, table.schema, **about).groups
    assert all(isinstance(group, BucketCompaction) for group in groups)
    return [group for group in groups if isinstance(group, BucketCompaction)]


def test_all_runs_are_due_when_the_interval_since_the_last_time_is_over(zone: str, at: At) -> None:
    """Files have the time of the clock on the wall, whatever the zone is."""
    table = created(compaction__optimization_interval="1 h")
    upsert(table, "a", {1: 1, 2: 2})
    table.compact(full=True)
    upsert(table, "a", {1: 3})
    now = time.time()
    for hours, why in [(0.0, []), (0.9, []), (1.1, ["the interval is over"]), (30.0, ["the interval is over"])]:
        at(now + hours * HOUR)
        assert [group.why for group in planned(table)] == why, hours
    assert values(table) == {("a", 1): 3, ("a", 2): 2}


def test_a_larger_ratio_counts_in_the_hours_off_peak(zone: str, at: At) -> None:
    hours = {"compaction__offpeak__start__hour": "22", "compaction__offpeak__end__hour": "5"}
    options = {"num_sorted_run__compaction_trigger": "2", "compaction__max_size_amplification_percent": "10000000"}
    table = created(compaction__offpeak_ratio="1000000", **hours, **options)
    upsert(table, "a", {k: k for k in range(20_000)})
    table.compact(full=True)
    upsert(table, "a", {1: 3})
    day = time.mktime((2024, 5, 7, 0, 0, 0, 0, 0, -1))
    taken = {}
    for hour in range(24):
        at(day + hour * HOUR + 1800)
        taken[hour] = len(planned(table)) == 1
    assert [hour for hour in taken if taken[hour]] == [0, 1, 2, 3, 4, 22, 23]


@pytest.mark.parametrize("rewrites", [False, True])
def test_files_of_the_last_level_are_left_alone_unless_all_are_to_be_written_anew(rewrites: bool) -> None:
    table = created(compaction__force_rewrite_all_files=str(rewrites).lower())
    upsert(table, "a", {1: 1, 2: 2})
    table.compact(full=True)
    (kept,) = (entry.file.file_name for entry in table.entries())
    groups = planned(table, full=True)
    assert [(g.one_by_one, g.output_level, g.last_level, len(g.files)) for g in groups] == [(True, 5, 5, 1)] * rewrites
    table.compact(full=True)
    assert ({entry.file.file_name for entry in table.entries()} == {kept}) != rewrites
    assert levels(table) == [(5, 2, 0)] and values(table) == {("a", 1): 1, ("a", 2): 2}


def marked() -> Table:
    """Two partitions with rows that are marked in the last level, and new ones in level 0."""
    table = created(**VECTORS)
    for part in ("a", "b"):
        upsert(table, part, {k: k for k in range(3000)})
    table.compact(full=True)
    for part in ("a", "b"):
        upsert(table, part, {1: 10})
    table.compact()
    for part in ("a", "b"):
        upsert(table, part, {2: 20})
    return table


def test_older_rows_are_looked_up_in_the_files_above_and_the_vectors_of_the_same_bucket() -> None:
    table = marked()
    groups = planned(table)
    assert [(group.partition_path, group.why) for group in groups] == [
        ("part=a", "level 0 goes up"),
        ("part=b", "level 0 goes up"),
    ]
    for group in groups:
        above = above_of(group)
        assert above is not None and group.output_level == 4 and group.last_level == 5
        assert [file.level for file in above.files] == [5] and [file.level for file in group.files] == [0, 4]
        assert len(above.keys) == 1 and above.keys[0].endswith(above.files[0].file_name)
        assert group.partition_path in above.keys[0] and above.deletions == ()
        assert len(group.index) == 1 and {entry.partition for entry in group.index} == {group.partition}
        assert (above.partition, above.bucket) == (group.partition, group.bucket)
        assert group.drops_deletes, "older rows are marked"


def test_without_lookups_nothing_is_looked_up() -> None:
    table = created(num_sorted_run__compaction_trigger="2")
    for number in range(2):
        upsert(table, "a", {1: number})
    (group,) = planned(table)
    assert above_of(group) is None and group.index == () and group.total_buckets == 1
    assert above_of(table.plan().splits[0]) is None


def test_a_full_compaction_of_marked_rows_drops_them_and_their_vectors() -> None:
    table = marked()
    expected = {(part, k): {1: 10, 2: 20}.get(k, k) for part in "ab" for k in range(3000)}
    groups = planned(table, full=True)
    assert [len(group.deletions) for group in groups] == [3, 3]
    assert all(sum(place is not None for place in group.deletions) == 1 for group in groups)
    table.compact(full=True)
    snapshot = table.snapshot()
    assert snapshot is not None and not any(e.file.deletion_vectors for e in table.timeline.index_entries(snapshot))
    assert values(table) == expected and planned(table, full=True) == []


def test_a_file_with_marked_rows_is_written_anew_by_itself() -> None:
    """The others of the last level stay."""
    table = created(**VECTORS, target_file_size="16 kb")
    upsert(table, "a", {k: k * 7919 % 10007 for k in range(20_000)})
    table.compact(full=True)
    upsert(table, "a", {1: 10})
    table.compact()
    files = {entry.file.file_name for entry in table.entries() if entry.file.level == 5}
    upsert(table, "a", {}, deletes=(1,))
    table.compact()
    groups = planned(table, full=True)
    assert len(groups) == 1 and len(files) > 3
    only = [entry for entry in table.entries() if entry.file.level != 5]
    assert only == [] or not groups[0].one_by_one
    table.compact(full=True)
    left = {entry.file.file_name for entry in table.entries()}
    assert len(files & left) >= len(files) - 1 and table.count() == 19_999


@pytest.mark.parametrize("text", ["true", "TRUE"])
def test_files_that_are_not_sorted_by_key_are_refused(text: str) -> None:
    table = created(pk_clustering_override=text)
    with pytest.raises(Unsupported, match="pk-clustering-override"):
        planned(table)
    assert planned(created(pk_clustering_override="false")) == []


@pytest.mark.parametrize("full", [True, False])
def test_files_of_a_format_that_nobody_here_reads_are_refused_when_they_are_planned(full: bool) -> None:
    """Before any of their bytes is read, and also where other buckets could be compacted."""
    table = created(num_sorted_run__compaction_trigger="2")
    for number in range(2):
        upsert(table, "a", {1: number})
    known = upsert(table, "b", {1: 1})
    (entry,) = (e for e in table.entries() if e.file == known)
    number = known.max_sequence_number + 1
    numbers = {"min_sequence_number": number, "max_sequence_number": number}
    foreign = entry._replace(file=known._replace(file_name="data-9.vortex", **numbers))
    request = CommitRequest(kind="APPEND", entries=(foreign,), commit_user="by-hand")
    table.committer.commit(request)
    with pytest.raises(Unsupported, match=r"data-9\.vortex has format 'vortex'; lakelatch reads .*parquet"):
        planned(table, full=full)
    assert [group.partition_path for group in planned(table, where="part = 'a'", full=full)] == ["part=a"]


def test_a_changelog_in_a_form_that_cannot_be_written_is_refused_before_anything_is_merged() -> None:
    table = created(changelog_producer="lookup", changelog_file__format="csv")
    with pytest.raises(Unsupported, match=r"CSV|csv"):
        planned(table)


@pytest.mark.parametrize(
    "options",
    [
        {"changelog_file__format": "csv"},
        {"changelog_file__format": "csv", "changelog_producer": "input"},
        {"file__format__per__level": "0:csv"},
        {"file__format__per__level": "0:csv", "changelog_producer": "lookup"},
    ],
    ids=["no changelog", "a changelog of the input", "new rows", "new rows, changelog of a compaction"],
)
def test_a_form_in_which_no_compaction_writes_does_not_matter(options: dict[str, str]) -> None:
    """Only what a compaction makes is asked about: files above level 0, and the changelog if it writes one."""
    assert planned(created(**options)) == []


def test_files_of_an_older_schema_are_planned_with_the_others() -> None:
    table = created(num_sorted_run__compaction_trigger="2")
    upsert(table, "a", {1: 1})
    table.alter(ll.rename_column("v", "w"))
    upsert(table.refresh(), "a", {1: 2})
    table.compact()
    assert [row["w"] for row in table.to_arrow().to_pylist()] == [2] and len(table.entries()) == 1
