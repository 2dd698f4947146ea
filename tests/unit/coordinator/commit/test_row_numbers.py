"""What snapshots say of the sequence numbers of their rows, and how commits land where they say nothing, or what is wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from changes import said, without_numbers, written
from riding import ENGINES, Keys, began, data, upserts

import lakelatch as ll
from lakelatch.coordinator.commit.checks.key_rules import MOST_COMPARED
from lakelatch.coordinator.commit.request import CommitRequest, KeyedRows, Remarks, Restoration
from lakelatch.coordinator.commit.settling.declared import MOST_SILENT
from lakelatch.coordinator.history.base import Base
from lakelatch.coordinator.history.row_numbers import (
    NO_ROWS,
    NUMBERS_MAX,
    NUMBERS_PROPERTY,
    RowNumbers,
    Span,
    row_numbers,
    span_of,
)
from lakelatch.coordinator.intents.carried import CLOSES_PROPERTY
from lakelatch.core.errors import StoreUnavailable
from lakelatch.table.table import Table


def numbers_of(world: Keys) -> tuple[int, int]:
    """The smallest and the largest number of the live files."""
    files = [entry.file for entry in world.entries if entry.bucket >= 0]
    return min(f.min_sequence_number for f in files), max(f.max_sequence_number for f in files)


def known(world: Keys) -> RowNumbers:
    found = world.said
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------------------------ the values


def test_two_spans_meet_where_they_share_a_number() -> None:
    for first, second, meets in (
        (Span(3, 5), Span(5, 9), True),
        (Span(3, 5), Span(6, 9), False),
        (Span(3, 9), Span(4, 5), True),
        (Span(7, 7), Span(7, 7), True),
        (Span(0, 9), NO_ROWS, False),
        (NO_ROWS, NO_ROWS, False),
    ):
        assert first.meets(second) is meets and second.meets(first) is meets, (first, second)


def test_what_a_snapshot_says_is_read_back() -> None:
    world = Keys()
    for found in (
        RowNumbers(9, 2, (Span(0, 3), Span(5, 9)), 4),
        RowNumbers(-1, 0, ()),
        RowNumbers(NUMBERS_MAX, None, None, NUMBERS_MAX),
        RowNumbers(9, 2, (NO_ROWS,)),
    ):
        said(world.store, 1, found.to_property())
        assert row_numbers(world.fresh.timeline.snapshot(1)) == found
    assert row_numbers(None) is None


@pytest.mark.parametrize(
    "raw", [[5, 4], [-1, 4], [3], [1, 2, 3], [1.0, 2], [True, 2], "12", None, [0, NUMBERS_MAX + 1]]
)
def test_no_span_is_made_of_anything_else(raw: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a list|are not the first and the last"):
        span_of(raw)


def test_rows_may_be_added_later_where_no_number_is_theirs_and_nothing_newer_was_merged() -> None:
    found = RowNumbers(90, 2, (Span(50, 60), Span(80, 90)), 40)
    for span, room in ((Span(61, 79), True), (Span(60, 61), False), (Span(40, 45), False), (Span(41, 45), True)):
        assert found.leaves_room_for(span) is room, span
    assert found.leaves_room_for(NO_ROWS)
    assert not RowNumbers(90, 2, None).leaves_room_for(NO_ROWS), "its commit read or removed rows"
    carries = found.carrying([Span(100, 110), NO_ROWS])
    assert (carries.largest, carries.writes) == (110, (Span(50, 60), Span(80, 90), Span(100, 110), NO_ROWS))
    assert RowNumbers(90, 2, None).carrying([Span(100, 110)]).writes is None
    assert found.without_rows() == RowNumbers(90, 2, (), -1)


# ------------------------------------------------------------------------------------------------ after each kind of commit


def test_an_upsert_says_the_span_of_its_rows() -> None:
    world = Keys()
    low, high = numbers_of(world)
    assert known(world) == RowNumbers(high, 2, (Span(low, high),))
    upserts((5, 5, "x"), (6, 6, "x"), (7, 7, "x"), at=500)(world.fresh)
    found = known(world)
    (span,) = found.writes or ()
    assert span.first > high and span.last == found.largest == numbers_of(world)[1]


def test_an_older_job_that_lands_later_says_its_own_span_and_the_largest_of_all() -> None:
    world = Keys({"commit.group": "off"})
    world.loses(upserts((3, 3, "newer"), at=900))
    upserts((3, 3, "older"), at=500)(world.table)
    found = known(world)
    (span,) = found.writes or ()
    assert span.last < found.largest == numbers_of(world)[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.update(where="k = 1", set={"a": "5"}),
        lambda table: table.delete(where="k = 1"),
        lambda table: table.overwrite(data((7, 7, "new"))),
        lambda table: table.truncate(),
        lambda table: table.rollback(snapshot=1),
        lambda table: table.undo(2),
    ],
    ids=["UPDATE", "DELETE", "overwrite", "truncate", "rollback", "undo"],
)
def test_a_commit_that_reads_or_removes_rows_leaves_no_room_for_older_ones(change: Callable[[Table], Any]) -> None:
    world = Keys()
    upserts((2, 2, "x"), at=10)(world.fresh)
    largest = known(world).largest
    change(world.fresh)
    found = known(world)
    assert world.latest.id == 3
    assert found.writes is None and found.largest >= largest
    assert not found.leaves_room_for(Span(0, 0))
    assert world.problems == []


def compacted(world: Keys) -> None:
    world.fresh.compact(full=True)
    assert world.latest.commit_kind == "COMPACT"


@pytest.mark.parametrize("engine", list(ENGINES))
def test_a_compaction_gives_no_numbers_and_says_where_older_rows_come_too_late(engine: str) -> None:
    """What `deduplicate` keeps of a key is right beside older rows, too; what others made of its rows is final."""
    world = Keys(ENGINES[engine])
    upserts((1, 1, "x"), (2, 2, "x"), at=10)(world.fresh)
    before = known(world)
    compacted(world)
    found = known(world)
    assert (found.largest, found.buckets, found.writes) == (before.largest, 2, ())
    assert found.merged == (-1 if engine == "deduplicate" else before.largest)
    assert world.problems == []


def test_a_compaction_that_drops_a_delete_says_so() -> None:
    world = Keys({"bucket": "1"})
    upserts((1, None, "-"), at=10)(world.fresh)
    before = known(world)
    compacted(world)
    assert known(world).merged == before.largest


def test_an_older_upsert_beside_a_compaction_that_made_its_rows_final_is_numbered_again() -> None:
    """Its rows would be left out for ever; the sum counts them."""
    world = Keys({"bucket": "1", **ENGINES["aggregation"]})
    upserts((1, 1, "x"), at=900)(world.fresh)
    world.loses(lambda table: compacted(world))  # type: ignore[arg-type,return-value]
    upserts((1, 5, "late"), at=500)(world.table)
    assert world.rows() == [(1, 16, "late"), (2, 20, "base")]
    assert world.rows(compacted=True) == [(1, 16, "late"), (2, 20, "base")]


def test_a_merge_of_manifests_changes_no_rows() -> None:
    world = Keys()
    upserts((1, 1, "x"), at=10)(world.fresh)
    before = known(world)
    world.fresh.compact_manifests()
    assert world.latest.id == 3
    found = known(world)
    assert (found.largest, found.buckets, found.merged) == (before.largest, 2, -1)


def test_a_snapshot_that_closes_a_window_leaves_room_for_all() -> None:
    world = Keys()
    world.loses()
    put, refused = world.store.put, Counter[str]()

    def refuse(key: str, content: bytes) -> None:
        if world.has_asked and key.startswith("manifest/manifest-list") and not refused["list"]:
            refused["list"] += 1
            raise StoreUnavailable("access denied")
        put(key, content)

    world.store.put = refuse  # type: ignore[method-assign]
    world.store.after["lakelatch/intents/"] = lambda: None
    with pytest.raises(StoreUnavailable):
        upserts((1, 1, "mine"))(world.table)
    assert CLOSES_PROPERTY in world.latest.own_properties
    below = row_numbers(world.fresh.timeline.snapshot(2))
    assert below is not None
    assert known(world) == below.without_rows()
    assert world.rows() == [(1, 10, "base"), (2, 20, "base"), (3, 30, "winner")]


def test_tables_without_numbers_say_nothing() -> None:
    for number, options in enumerate(({}, {"row-tracking.enabled": "true"})):
        table = ll.create_table(f"memory://no-numbers-{number}/t", data((1, 1, "")).schema, options=options)
        table.append(data((1, 1, "x")))
        assert NUMBERS_PROPERTY not in table.snapshots()[0].own_properties


# ------------------------------------------------------------------------------------------------- silent and garbled bases

GARBLED: dict[str, str | None] = {
    "silent": None,
    "empty": "",
    "no JSON": "{",
    "a list": "[]",
    "a field is gone": '{"largest":5,"writes":[],"merged":-1}',
    "too large": json.dumps({"largest": NUMBERS_MAX + 1, "buckets": 2, "writes": [], "merged": -1}),
    "no number": json.dumps({"largest": True, "buckets": 2, "writes": [], "merged": -1}),
    "merged is too large": json.dumps({"largest": 1, "buckets": 2, "writes": [], "merged": 1 << 63}),
    "a fraction": json.dumps({"largest": 1.5, "buckets": 2, "writes": [], "merged": -1}),
    "a span is none": json.dumps({"largest": 1, "buckets": 2, "writes": [[4, 3]], "merged": -1}),
    "buckets below none": json.dumps({"largest": 1, "buckets": -3, "writes": [], "merged": -1}),
    "buckets of a text": json.dumps({"largest": 1, "buckets": "2", "writes": [], "merged": -1}),
    "deep": "[" * 100_000,
}


@pytest.mark.parametrize("text", GARBLED.values(), ids=GARBLED)
def test_above_a_base_that_says_nothing_to_be_believed_manifests_are_read(text: str | None) -> None:
    world = Keys()
    high = numbers_of(world)[1]
    said(world.store, 1, text)
    assert row_numbers(world.fresh.timeline.snapshot(1)) is None
    upserts((1, 1, "mine"), at=-5000)(Table(world.store, world.schema))
    assert world.rows() == [(1, 1, "mine"), (2, 20, "base")], "above all rows, whatever the clock says"
    (span,) = known(world).writes or ()
    assert span.first > high and known(world).buckets == 2
    assert all("numbers" not in problem or "snapshot-1" in problem for problem in world.problems)


@pytest.mark.parametrize("text", GARBLED.values(), ids=GARBLED)
def test_an_upsert_that_loses_to_a_silent_snapshot_lands_in_order_all_the_same(text: str | None) -> None:
    world = Keys()

    def silently(table: Table) -> ll.Receipt:
        receipt = upserts((1, 9, "winner"), at=900)(table)
        said(world.store, 2, text)
        return receipt

    world.loses(silently)
    upserts((1, 1, "mine"), at=500)(world.table)
    assert world.rows() == [(1, 9, "winner"), (2, 20, "base")]
    assert known(world).largest == numbers_of(world)[1]


def test_a_bucket_count_that_is_false_costs_reads_and_nothing_else() -> None:
    world = Keys()
    found = known(world)
    for buckets in (10**9, 1, 0):
        said(world.store, world.latest.id, RowNumbers(found.largest, buckets, found.writes).to_property())
        upserts((1, buckets, "mine"), at=buckets % 997)(Table(world.store, world.schema))
        assert world.rows()[0] == (1, buckets, "mine")
    assert {entry.total_buckets for entry in world.entries} == {2}


def test_a_declared_number_that_is_larger_than_all_only_makes_new_numbers_larger() -> None:
    world = Keys()
    said(world.store, 1, RowNumbers(NUMBERS_MAX - 100, 2, ()).to_property())
    upserts((1, 1, "mine"))(Table(world.store, world.schema))
    assert known(world).largest == numbers_of(world)[1] == NUMBERS_MAX - 99
    assert world.rows()[0] == (1, 1, "mine")


def test_where_no_number_can_be_believed_any_more_snapshots_are_silent() -> None:
    world = Keys({"bucket": "1"})
    said(world.store, 1, RowNumbers(NUMBERS_MAX, 1, ()).to_property())
    upserts((1, 1, "mine"))(Table(world.store, world.schema))
    assert world.said is None and numbers_of(world)[1] > NUMBERS_MAX
    upserts((1, 2, "again"))(Table(world.store, world.schema))
    assert world.rows()[0] == (1, 2, "again")


@pytest.mark.parametrize("silent", [1, 2, MOST_SILENT, MOST_SILENT + 1, MOST_SILENT + 2])
@pytest.mark.parametrize("speaks", [True, False], ids=["one below speaks", "none does"])
def test_above_silent_snapshots_the_numbers_are_found_again(silent: int, speaks: bool) -> None:
    """Those of another engine. An older job, whose own numbers are smaller, says the largest of all rows, too."""
    world = Keys({"manifest.merge-min-count": "100"})
    for number in range(silent):
        upserts((200 + number, 1, "x"), (300 + number, 1, "x"), at=10 + number)(world.fresh)
        without_numbers(world.store, world.latest.id)
    if not speaks:
        without_numbers(world.store, 1)
    world.loses(upserts((1, 9, "winner"), at=900))
    upserts((1, 1, "mine"), at=500)(Table(world.store, world.schema))
    found = known(world)
    assert (found.largest, found.buckets) == (numbers_of(world)[1], 2)
    assert world.rows()[0] == (1, 9, "winner") and len(world.rows()) == 2 + 2 * silent
    assert world.problems == []


def test_what_came_above_the_snapshot_that_speaks_is_read_and_nothing_below_it() -> None:
    world = Keys({"manifest.merge-min-count": "100"})
    for number in range(3):
        upserts((100 + number, 1, "x"), at=number)(world.fresh)
    read = world.fresh.timeline.latest()
    upserts((200, 1, "x"), at=100)(world.fresh)
    high = numbers_of(world)[1]
    without_numbers(world.store, world.latest.id)
    with began(50):
        entries = written(Table(world.store, world.schema), data((1, 1, "mine")))
    asked = Counter[str]()
    get = world.store.get

    def counted(key: str) -> bytes:
        asked[key] += 1
        return get(key)

    world.store.get = counted  # type: ignore[method-assign]
    table = Table(world.store, world.schema)
    settler = table.committer._run(
        CommitRequest("APPEND", entries, "me", read_snapshot=read, remarks=Remarks("WRITE")), "u", world.store,
        rides=True, crowded=False,
    ).settler  # fmt: skip
    base = table.timeline.latest()
    assert base is not None
    asked.clear()
    found = settler.numbering.said(settler.request, entries, Base(base, table.timeline.manifests(base), 0, 0.0), None)
    assert found is not None
    manifests = [key for key in asked if key.startswith("manifest/manifest-") and "list" not in key]
    assert (found.largest, found.buckets, len(manifests)) == (high, 2, 1)


# ---------------------------------------------------------------------------------- whether the snapshots say enough


def is_apart(world: Keys, first: int, *, above: int | None, buckets: int = 2, **more: Any) -> bool:
    """Whether rows from this number on, of a job that read snapshot `above`, can stay as they are on the newest one."""
    (entry, *_) = world.entries
    file = entry.file._replace(file_name="new", min_sequence_number=first, max_sequence_number=first + 1)
    entries = (entry._replace(file=file, total_buckets=buckets),)
    table = world.fresh
    read = table.timeline.snapshot(above) if above is not None else None
    request = CommitRequest("APPEND", entries, "me", read_snapshot=read, remarks=Remarks("WRITE"))
    request = replace(request, **more)
    run = table.committer._run(request, "u", world.store, rides=True, crowded=False)
    return run.settler.key_rules.apart(entries, Base(world.latest, (), 0, 0.0, unread=True))


def test_rows_can_stay_only_where_all_snapshots_since_the_job_began_leave_room_for_them() -> None:
    world = Keys()
    low = known(world).largest
    upserts((3, 3, "x"), at=500)(world.fresh)
    (theirs,) = known(world).writes or ()
    assert is_apart(world, low + 1, above=1)
    assert is_apart(world, theirs.last + 1, above=2)
    assert not is_apart(world, theirs.first, above=1), "they meet those of snapshot 2"
    assert not is_apart(world, low, above=1), "they are not above what the job had read"
    assert not is_apart(world, low + 1, above=2), "nor are these"
    assert is_apart(world, low + 1, above=2, keyed=KeyedRows(compared=True)), "they are known to be right above it"
    assert not is_apart(world, low + 1, above=1, buckets=4), "they are of another bucket count"
    assert not is_apart(world, NUMBERS_MAX, above=1), "the next rows could not be numbered above them"
    assert not is_apart(world, low + 1, above=1, remarks=Remarks("MERGE")), "they were computed from others"
    said(world.store, 2, RowNumbers(theirs.last, 2, (theirs,), low + 1).to_property())
    assert not is_apart(world, low + 1, above=1), "newer rows were merged without them"
    without_numbers(world.store, 1)
    assert not is_apart(world, theirs.last + 1, above=1), "what the job had read says nothing"
    without_numbers(world.store, 2)
    assert not is_apart(world, theirs.last + 1, above=2)


@pytest.mark.parametrize(("count", "apart"), [(MOST_COMPARED, True), (MOST_COMPARED + 1, False)])
def test_beside_very_many_snapshots_manifests_are_read(count: int, apart: bool) -> None:
    world = Keys({"manifest.merge-min-count": "100"})
    low = known(world).largest
    for number in range(count):
        upserts((3, number, "x"), at=500 + number)(world.other)
    assert is_apart(world, low + 1, above=1) is apart


# ------------------------------------------------------------------------------------------------------------ the check


def findings(world: Keys) -> list[tuple[str, str]]:
    return [(found.severity, found.message) for found in world.fresh.verify("all")]


def test_a_largest_number_that_is_too_small_is_an_error() -> None:
    world = Keys({"bucket": "1"})
    found = known(world)
    said(world.store, 1, RowNumbers(found.largest - 1, 1, found.writes).to_property())
    ((severity, message),) = findings(world)
    assert severity == "error" and f"says that no row has a number above {found.largest - 1}" in message


def test_a_bucket_count_that_files_do_not_have_is_an_error() -> None:
    world = Keys()
    said(world.store, 1, RowNumbers(known(world).largest, 4, ()).to_property())
    assert {severity for severity, _ in findings(world)} == {"error"}
    assert all("says that there are 4 buckets" in message and "for 2" in message for _, message in findings(world))


def test_what_cannot_be_understood_is_a_warning() -> None:
    world = Keys()
    said(world.store, 1, "{")
    ((severity, message),) = findings(world)
    assert severity == "warning" and "cannot be understood" in message


def test_a_larger_number_and_no_number_of_buckets_are_no_findings() -> None:
    world = Keys()
    said(world.store, 1, RowNumbers(known(world).largest + 5, None, None).to_property())
    assert findings(world) == []
    without_numbers(world.store, 1)
    assert findings(world) == []


def test_a_partition_with_two_bucket_counts_is_an_error() -> None:
    """A reader looks for a key in one bucket, and merges one bucket at a time."""
    world = Keys()
    with began(50):
        (entry, *_) = written(world.fresh, data((1, 1, "other count")))
    timeline = world.fresh.timeline
    both = (*world.entries, entry._replace(total_buckets=4))
    back = Restoration("OVERWRITE", both, "hand", target=lambda partition: True, read_snapshot=timeline.latest())
    world.fresh.committer.commit(back)
    found = findings(world)
    assert any(severity == "error" and "in one partition" in message for severity, message in found)
    assert world.said is not None and world.said.buckets is None
    assert not any("says that" in message for _, message in found)
