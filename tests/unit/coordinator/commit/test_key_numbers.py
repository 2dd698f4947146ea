"""The order of the rows of a key, check by check: which numbers count, which of them meet, what was merged too early (H14)."""

from __future__ import annotations

from typing import Any

import pytest
from keyed import FIELDS, NO_PARTITION, merged, run_of

from lakelatch.coordinator.commit.checks.key_order import (
    KeyOrder,
    Numbers,
    drops_deletes,
    new_rows,
    numbers_meet,
    older_rows_appended,
    stamped,
)
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.metadata.change import Change, Landed, owner_of
from lakelatch.core.metadata.data_file import SOURCE_COMPACT, ManifestEntry
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema

ZERO, ONE = (NO_PARTITION, 0), (NO_PARTITION, 1)
ANY_ORDER, FINAL = KeyOrder(by_number=True), KeyOrder(by_number=True, merged_is_final=True)


def landed(*entries: ManifestEntry) -> Landed:
    return Landed(2, "APPEND", "another-job", Change(entries, (), 0), operation="WRITE")


def moved(entry: ManifestEntry, level: int = 5) -> ManifestEntry:
    return entry._replace(file=entry.file._replace(level=level))


# --------------------------------------------------------------------------------------------------------- what counts


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, (False, True, False)),
        ({"merge-engine": "partial-update"}, (False, True, True)),
        ({"merge-engine": "first-row"}, (False, True, True)),
        ({"deletion-vectors.enabled": "true"}, (False, True, True)),
        ({"changelog-producer": "lookup"}, (False, True, True)),
        ({"sequence.field": "v"}, (False, False, False)),
        ({"sequence.field": "v", "merge-engine": "partial-update"}, (False, False, False)),
        ({"sequence.snapshot-ordering": "true", "write-only": "true"}, (True, False, False)),
    ],
    ids=str,
)
def test_by_what_a_table_orders_the_rows_of_a_key(options: dict[str, str], order: tuple[bool, ...]) -> None:
    schema = new_schema(from_arrow_schema(FIELDS), primary_keys=["k"], options={"bucket": "2", **options})
    found = KeyOrder.of(schema)
    assert (found.by_snapshot, found.by_number, found.merged_is_final) == order


def test_a_table_without_a_primary_key_orders_nothing() -> None:
    found = KeyOrder.of(new_schema(from_arrow_schema(FIELDS)))
    assert (found.by_snapshot, found.by_number, found.merged_is_final) == (False, False, False)


def test_which_files_bring_new_rows() -> None:
    """Not the output of a compaction, not a file that only moves to another level, and not what has no bucket yet."""
    new, old = run_of("new", (1, 2)), run_of("old", (1, 2))
    without_source = new._replace(file=new.file._replace(file_name="older-writer", file_source=None))
    entries = [
        run_of("postponed", (1, 2), bucket=-2),
        new,
        old.deletion(),
        moved(old),
        merged("big", old),
        run_of("gone", (1, 2)).deletion(),
        without_source,
    ]
    assert new_rows(iter(entries)) == [new, without_source]


def test_the_numbers_of_a_commit_are_the_smallest_and_the_largest_of_each_bucket() -> None:
    one, two, other = run_of("a", (5, 9)), run_of("b", (3, 7)), run_of("c", (20, 21), bucket=1)
    found = Numbers.of([other, one, two])
    assert found.spans == {ZERO: (3, 9), ONE: (20, 21)}
    assert (found.first, found.last) == (3, 21)


@pytest.mark.parametrize(
    ("largest", "places"),
    [
        ({}, []),
        ({ZERO: 2, ONE: 19}, []),
        ({ZERO: 3}, [ZERO]),
        ({ONE: 20}, [ONE]),
        ({ZERO: 8, ONE: 400}, [ZERO, ONE]),
    ],
)
def test_a_number_must_be_larger_than_the_largest_so_far(largest: dict[Any, int], places: list[Any]) -> None:
    """A bucket without a number so far takes any."""
    numbers = Numbers.of([run_of("a", (3, 9)), run_of("c", (20, 21), bucket=1)])
    assert numbers.not_above(largest) == places
    assert Numbers.of([run_of("first", (0, 0))]).not_above({}) == []


def test_the_id_of_the_snapshot_goes_to_new_rows_only() -> None:
    new, old = run_of("new", (1, 2)), run_of("old", (3, 4))
    rest = (old.deletion(), moved(old), merged("big", old))
    made = stamped([new, *rest], 7)
    assert (made[0].file.min_sequence_number, made[0].file.max_sequence_number) == (7, 7)
    assert made[0].file.file_name == new.file.file_name
    assert made[1:] == rest


# ------------------------------------------------------------------------------------------------------ numbers that meet


def meets(ours: tuple[int, int], *changes: Landed, largest: int | None = None, order: KeyOrder = ANY_ORDER) -> str:
    """The name of the conflict of new rows in bucket 0, or nothing."""
    known = {} if largest is None else {ZERO: largest}
    found = numbers_meet(Numbers.of([run_of("ours", ours)]), changes, known, order)
    return "" if found is None else found.check


@pytest.mark.parametrize(
    ("theirs", "clash"),
    [
        ((50, 99), False),
        ((50, 100), True),
        ((104, 105), True),
        ((110, 120), True),
        ((111, 120), False),
        ((1, 900), True),
    ],
)
def test_numbers_meet_where_their_ranges_have_a_number_in_common(theirs: tuple[int, int], clash: bool) -> None:
    found = meets((100, 110), landed(run_of("theirs", theirs)))
    assert found == ("sequence_numbers_meet" if clash else "")


def test_any_of_several_changes_may_meet() -> None:
    early, late = landed(run_of("early", (1, 9))), landed(run_of("late", (105, 200)))
    assert meets((100, 110), early, late) == "sequence_numbers_meet"
    assert meets((100, 110), late, early) == "sequence_numbers_meet"


def test_a_change_without_new_rows_meets_nothing() -> None:
    old = run_of("old", (1, 200))
    assert meets((100, 110), landed(old.deletion(), merged("big", old))) == ""


def test_numbers_above_what_landed_since_are_as_they_should_be_whatever_landed_last() -> None:
    """The job with the larger numbers landed first. Ours are between the two."""
    first, second = landed(run_of("a", (400, 500))), landed(run_of("b", (200, 300)))
    assert meets((310, 320), first, second, largest=500) == ""
    assert meets((310, 320), second, first, largest=500) == ""
    assert meets((310, 320), first, second, largest=501) == "sequence_numbers_too_small"


def test_the_number_zero_counts_as_one() -> None:
    """A table whose first row has the number 0 was read by a job that gives its row the same number."""
    assert meets((0, 0), largest=0) == "sequence_numbers_too_small"


def test_numbers_of_files_that_were_only_removed_since_were_there_before() -> None:
    old = run_of("old", (1, 900))
    smaller = merged("big", run_of("old", (1, 500)))
    assert meets((600, 610), landed(old.deletion(), smaller), largest=900) == "sequence_numbers_too_small"


def test_the_bucket_with_numbers_that_are_too_small_is_named() -> None:
    ours = Numbers.of([run_of("ours-0", (100, 110)), run_of("ours-1", (100, 110), bucket=1)])
    changes = [landed(run_of("theirs", (200, 210)))]
    found = numbers_meet(ours, changes, {ZERO: 210, ONE: 150}, ANY_ORDER)
    assert found is not None
    assert found.reason.startswith("bucket 1 had sequence numbers up to 150 before")


# --------------------------------------------------------------------------------------------------- merged too early


@pytest.mark.parametrize(("last", "clash"), [(99, False), (100, True), (105, True), (200, True)])
def test_rows_that_were_merged_are_newer_from_our_smallest_number_on(last: int, clash: bool) -> None:
    old = run_of("old", (1, last))
    found = meets((100, 110), landed(old.deletion(), merged("big", old)), order=FINAL)
    assert found == ("newer_rows_merged" if clash else "")


def test_the_newer_files_that_were_merged_are_named_and_no_others() -> None:
    old, new = run_of("old", (1, 50)), run_of("new", (60, 105))
    change = landed(old.deletion(), new.deletion(), merged("big", old, new))
    found = numbers_meet(Numbers.of([run_of("ours", (100, 110))]), [change], {}, FINAL)
    assert found is not None
    assert found.files == ("data-new.parquet",)


def test_what_was_merged_in_other_buckets_hides_nothing() -> None:
    """Neither is it a reason for a conflict."""
    other, old = run_of("other", (1, 200), bucket=1), run_of("old", (1, 200))
    of_other = (other.deletion(), merged("big-1", other))
    assert meets((100, 110), landed(*of_other), order=FINAL) == ""
    assert meets((100, 110), landed(*of_other, old.deletion(), merged("big", old)), order=FINAL) == "newer_rows_merged"


def test_newer_rows_that_were_removed_would_let_ours_win() -> None:
    """Rows that are gone without a compaction: an overwrite took them away."""
    assert meets((100, 110), landed(run_of("old", (1, 200)).deletion())) == "newer_rows_merged"


@pytest.mark.parametrize(
    ("deleted", "added", "dropped"),
    [
        ([0], [0], False),
        ([1], [0], True),
        ([2], [1], True),
        ([2], [2], False),
        ([2], [3], False),
        ([1, 1], [1], True),
        ([1, 1], [1, 1], False),
        ([1, 0], [], True),
        ([None], [9], True),
        ([1], [None], True),
        ([0], [None], False),
    ],
)
def test_when_rows_that_delete_are_gone(deleted: list[Any], added: list[Any], dropped: bool) -> None:
    """A file that does not count them may have had any number, and is taken to have kept none."""
    before = [run_of(f"old-{i}", (1, 2), deletes=count) for i, count in enumerate(deleted)]
    after = [run_of(f"new-{i}", (1, 2), deletes=count) for i, count in enumerate(added)]
    assert drops_deletes(iter(before), iter(after)) is dropped


COMPACTION = CommitRequest("COMPACT", (), "compactor")
OVERWRITE = CommitRequest("OVERWRITE", (), "job", target=lambda partition: True)


@pytest.mark.parametrize(("first", "clash"), [(100, True), (210, True), (211, False)])
def test_rows_are_older_up_to_the_newest_that_is_merged(first: int, clash: bool) -> None:
    old, new = run_of("old", (1, 10)), run_of("new", (200, 210))
    entries = [new.deletion(), old.deletion(), merged("big", old, new)]
    change = landed(run_of("late", (first, 300)))
    found = older_rows_appended(COMPACTION, entries, [change], FINAL)
    assert (found is not None) is clash
    if found is not None:
        assert found.check == "older_rows_appended"
        assert f"from {first}," in found.reason and "up to 210:" in found.reason


@pytest.mark.parametrize(
    ("request_", "order", "kept", "clash"),
    [
        (COMPACTION, ANY_ORDER, 2, False),
        (COMPACTION, ANY_ORDER, 1, True),
        (COMPACTION, FINAL, 2, True),
        (OVERWRITE, ANY_ORDER, 2, True),
    ],
    ids=["keeps deletes", "drops deletes", "merged is final", "overwrite"],
)
def test_older_rows_matter_where_they_could_not_be_merged_later(
    request_: CommitRequest, order: KeyOrder, kept: int, clash: bool
) -> None:
    old = run_of("old", (1, 200), deletes=2)
    entries = [run_of("first", (1, 2), bucket=1), old.deletion(), merged("big", old, deletes=kept)]
    change = landed(run_of("late", (100, 110)))
    found = older_rows_appended(request_, entries, [landed(run_of("newer", (300, 310))), change], order)
    assert (found is not None) is clash


def test_older_rows_of_other_buckets_and_outputs_of_compactions_do_not_matter() -> None:
    old = run_of("old", (1, 200))
    entries = [old.deletion(), merged("big", old)]
    others = [
        landed(run_of("late", (100, 110), bucket=1)),
        landed(run_of("inputs", (100, 110)).deletion(), run_of("theirs", (100, 110), source=SOURCE_COMPACT, level=4)),
    ]
    assert older_rows_appended(COMPACTION, entries, others, FINAL) is None


def test_a_commit_that_only_adds_has_no_older_rows() -> None:
    change = landed(run_of("late", (1, 2)))
    assert older_rows_appended(OVERWRITE, [run_of("new", (100, 110))], [change], FINAL) is None


# ------------------------------------------------------------------------------------------------ who has read


def test_which_commits_have_read_or_taken_away() -> None:
    new, old = run_of("new", (1, 2)), run_of("old", (1, 2))
    marked = frozenset({owner_of(old)})
    said = [
        ("a plain write", False, ("APPEND", (new,), frozenset(), "WRITE")),
        ("an update", True, ("APPEND", (new,), frozenset(), "UPDATE")),
        ("another engine's append", True, ("APPEND", (new,), frozenset(), None)),
        ("an overwrite of nothing", True, ("OVERWRITE", (new,), frozenset(), "WRITE")),
        ("a write that deletes", True, ("APPEND", (new, old.deletion()), frozenset(), "WRITE")),
        ("a write that marks", True, ("APPEND", (new,), marked, "WRITE")),
        ("a drop", True, ("OVERWRITE", (old.deletion(),), frozenset(), "DELETE")),
        ("a compaction", False, ("COMPACT", (old.deletion(), merged("big", old)), frozenset(), None)),
        ("an overwrite of nothing by nothing", True, ("OVERWRITE", (), frozenset(), "OVERWRITE")),
        ("a drop of nothing", True, ("OVERWRITE", (), frozenset(), "DELETE")),
        ("an update of no row", True, ("APPEND", (), frozenset(), "UPDATE")),
        ("a batch without rows", False, ("APPEND", (), frozenset(), "WRITE")),
        ("another engine's batch without rows", False, ("APPEND", (), frozenset(), None)),
        ("a merge of manifests", False, ("COMPACT", (), frozenset(), None)),
    ]
    for what, has_read, (kind, entries, marks, word) in said:
        found = Landed(2, kind, "another-job", Change(entries, (), 0), marks, operation=word)
        assert found.has_read is has_read, what
