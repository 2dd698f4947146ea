"""The rules for the order of the rows of a key, one by one, on the changes of others as they are given by hand."""

from __future__ import annotations

from typing import Any

import pytest
from keyed import FIELDS, NO_PARTITION, merged, run_of

from lakelatch.coordinator.commit.checks.conflicts import Conflict
from lakelatch.coordinator.commit.checks.key_order import (
    KeyOrder,
    Numbers,
    before_what_stays,
    drops_deletes,
    new_rows,
    numbers_meet,
    older_rows_appended,
    stamped,
)
from lakelatch.coordinator.commit.request import CommitRequest
from lakelatch.core.metadata.change import Change, Landed
from lakelatch.core.metadata.data_file import ADD, SOURCE_COMPACT, ManifestEntry
from lakelatch.core.metadata.schema import new_schema
from lakelatch.core.rows.arrow import from_arrow_schema

ZERO, ONE = (NO_PARTITION, 0), (NO_PARTITION, 1)
PLAIN = KeyOrder(by_number=True)
FINAL = KeyOrder(by_number=True, merged_is_final=True)
BY_FIELD = KeyOrder(by_field=True)
BY_SNAPSHOT = KeyOrder(by_snapshot=True)
OURS = run_of("ours", (100, 110))


def landed(*entries: ManifestEntry, number: int = 2, kind: str = "APPEND", word: str | None = "WRITE") -> Landed:
    return Landed(number, kind, "another-job", Change(entries, (), 0), operation=word)


def names(entries: Any) -> list[str]:
    return [e.file.file_name.removeprefix("data-").removesuffix(".parquet") for e in entries]


def check(found: Any) -> str | None:
    assert found is None or isinstance(found, Conflict)
    return None if found is None else found.check


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, PLAIN),
        ({"merge-engine": "aggregation"}, FINAL),
        ({"deletion-vectors.enabled": "true"}, FINAL),
        ({"sequence.field": "v"}, BY_FIELD),
        ({"sequence.snapshot-ordering": "true", "write-only": "true"}, BY_SNAPSHOT),
    ],
    ids=str,
)
def test_the_options_of_a_table_say_what_orders_its_rows(options: dict[str, str], order: KeyOrder) -> None:
    fields = from_arrow_schema(FIELDS)
    assert KeyOrder.of(new_schema(fields, primary_keys=["k"], options={"bucket": "2", **options})) == order
    assert KeyOrder.of(new_schema(fields)) == KeyOrder(), "rows without a key have no order"


# ---------------------------------------------------------------------------------------------------------- numbers

MOVED = run_of("moved", (1, 9))
RAISED = MOVED._replace(file=MOVED.file._replace(level=5))
POSTPONED = run_of("postponed", (1, 5), bucket=-2)
OUTPUT = run_of("output", (1, 9), source=SOURCE_COMPACT)


def test_new_rows_are_those_that_no_file_of_the_table_had_before() -> None:
    unmarked = OUTPUT._replace(file=OUTPUT.file._replace(file_name="unmarked", file_source=None))
    entries = (run_of("old", (1, 2)).deletion(), MOVED.deletion(), RAISED, POSTPONED, OUTPUT, OURS, unmarked)
    assert names(new_rows(entries)) == ["ours", "unmarked"]


def test_the_span_of_a_bucket_holds_all_of_its_new_rows() -> None:
    found = Numbers.of([run_of("b", (50, 60)), run_of("a", (10, 20)), run_of("c", (30, 99), bucket=1), POSTPONED])
    assert found.spans == {ZERO: (10, 60), ONE: (30, 99)}
    assert Numbers.in_files([POSTPONED]).spans == {}, "rows without a bucket get their numbers later"
    assert (found.first, found.last) == (10, 99)
    assert found.above(200).spans == {ZERO: (201, 251), ONE: (201, 270)}, "from one number on in all buckets"
    assert found.not_above({ZERO: 9, ONE: 29}) == []
    assert found.not_above({ZERO: 10, ONE: 29, (b"another", 0): 500}) == [ZERO]


def test_a_rollback_brings_rows_that_a_compaction_once_wrote() -> None:
    """A compaction and a file that only changes its level bring none."""
    compaction = run_of("in", (1, 9), bucket=1).deletion(), merged("out", run_of("in", (1, 9), bucket=1))
    back = run_of("back", (20, 29), source=SOURCE_COMPACT)
    change = landed(back, MOVED.deletion(), RAISED, *compaction, kind="OVERWRITE")
    assert Numbers.brought(change).spans == {ZERO: (20, 29)}
    assert Numbers.brought(landed(*compaction, kind="COMPACT")).spans == {}


@pytest.mark.parametrize(
    ("theirs", "meet"),
    [((80, 99), False), ((80, 100), True), ((110, 120), True), ((111, 120), False), ((50, 500), True), ((104, 105), True)],
)  # fmt: skip
def test_two_writers_must_not_share_a_number(theirs: tuple[int, int], meet: bool) -> None:
    found = numbers_meet(Numbers.of([OURS]), [landed(run_of("theirs", theirs))], {}, PLAIN)
    assert check(found) == ("sequence_numbers_meet" if meet else None)
    elsewhere = landed(run_of("theirs", theirs, bucket=1))
    assert numbers_meet(Numbers.of([OURS]), [elsewhere], {}, PLAIN) is None
    assert numbers_meet(Numbers.of([OURS]), [landed(run_of("theirs", theirs))], {}, BY_FIELD) is None


def test_numbers_of_all_buckets_count_once_two_writers_meet_in_one() -> None:
    """The order of two commits is the same in all buckets."""
    ours = Numbers.of([OURS, run_of("ours-1", (300, 310), bucket=1)])
    found = numbers_meet(ours, [landed(run_of("theirs", (200, 210)))], {}, PLAIN)
    assert found is not None
    assert "the sequence numbers 200 to 210, and this commit 100 to 310" in found.reason


@pytest.mark.parametrize(
    ("largest", "small"),
    [(99, False), (100, True), (120, False), (121, True)],
    ids=["below", "the same", "came since", "was there before, and larger than what came"],
)
def test_numbers_are_larger_than_what_was_there_before(largest: int, small: bool) -> None:
    came = [landed(run_of("a", (111, 120))), landed(run_of("b", (111, 112)), number=3)]
    for changes in (came, came[::-1]) if largest != 100 else ([],):
        found = numbers_meet(Numbers.of([OURS]), changes, {ZERO: largest}, PLAIN)
        assert check(found) == ("sequence_numbers_too_small" if small else None)


def test_what_came_in_another_bucket_is_no_excuse_for_small_numbers() -> None:
    changes = [landed(run_of("elsewhere", (500, 510), bucket=1))]
    found = numbers_meet(Numbers.of([OURS]), changes, {ZERO: 400, ONE: 510}, PLAIN)
    assert found is not None and found.check == "sequence_numbers_too_small"
    assert "bucket 0 had sequence numbers up to 400" in found.reason
    assert "100 to 110" in found.reason


@pytest.mark.parametrize(("last", "older"), [(99, False), (100, True)])
def test_rows_are_newer_than_those_of_a_commit_that_has_not_seen_them(last: int, older: bool) -> None:
    """Also where only a later commit has read, which may have seen that one; a bucket of its own does not matter."""
    change = landed(run_of("read", (90, last)), run_of("elsewhere", (500, 600), bucket=1), word="UPDATE")
    late = landed(run_of("later", (111, 900)), number=3)
    ours = Numbers.of([OURS, run_of("ours-2", (1, 2), bucket=2)])
    assert check(numbers_meet(ours, [change, late], {}, BY_FIELD)) == ("older_than_a_read" if older else None)


def test_of_several_commits_that_have_read_the_last_one_counts() -> None:
    first = landed(run_of("first", (500, 600), bucket=1), word="UPDATE")
    second = landed(run_of("second", (100, 105)), number=3, word="DELETE")
    found = numbers_meet(Numbers.of([OURS]), [first, second], {}, BY_FIELD)
    assert found is not None and found.check == "older_than_a_read"
    assert found.reason.startswith(
        "snapshot 3 (APPEND by 'another-job') computed its rows without those of this commit"
    )


@pytest.mark.parametrize(("last", "newer"), [(99, False), (100, True)])
def test_rows_that_were_merged_without_ours_are_older_than_ours(last: int, newer: bool) -> None:
    taken = run_of("taken", (1, last))
    change = landed(taken.deletion(), merged("big", taken), kind="COMPACT", word=None)
    found = numbers_meet(Numbers.of([OURS]), [change], {}, FINAL)
    assert check(found) == ("newer_rows_merged" if newer else None)
    assert numbers_meet(Numbers.of([OURS]), [change], {}, PLAIN) is None, "deduplicate merges in any order"
    if found is not None:
        assert found.files == ("data-taken.parquet",)
        assert "snapshot 2 (COMPACT by 'another-job') merged or removed rows of bucket 0" in found.reason


def test_a_delete_counts_as_dropped_unless_the_numbers_say_that_it_is_kept() -> None:
    def counting(*deletes: int | None) -> list[ManifestEntry]:
        made = [run_of(f"f{n}", (1, 2)) for n, _ in enumerate(deletes)]
        return [e._replace(file=e.file._replace(delete_row_count=d)) for e, d in zip(made, deletes, strict=True)]

    assert not drops_deletes(counting(0, 2), counting(2))
    assert drops_deletes(counting(1, 2), counting(2))
    assert drops_deletes(counting(0, None), counting(9)), "it may have any number"
    assert drops_deletes(counting(1), counting(None)), "an output that does not count them has none"
    assert not drops_deletes([], [])


# ------------------------------------------------------------------------------------------------------- overwrites


def stays(
    theirs: tuple[int, int], *removed: ManifestEntry, ours: tuple[int, int] = (100, 110), order: KeyOrder = PLAIN,
    again: bool = True, bucket: int = 0,
) -> Any:  # fmt: skip
    """What an overwrite of some files becomes beside rows of others."""
    changes = [landed(run_of("theirs", theirs, bucket=bucket))]
    found = before_what_stays(Numbers.of([run_of("new", ours)]), removed, changes, order, again=again)
    return found.check if isinstance(found, Conflict) else found


def test_an_overwrite_of_an_empty_table_is_numbered_from_the_first_number_on() -> None:
    assert stays((11, 20)) == -1, "its eleven rows get 0 to 10"
    assert stays((10, 20)) == "newer_rows_stay", "there is no room for them"


def test_an_overwrite_is_numbered_above_the_largest_that_it_removes_in_its_buckets() -> None:
    removed = run_of("a", (1, 30)).deletion(), run_of("b", (31, 40)).deletion(), run_of("c", (1, 20)).deletion()
    assert stays((60, 70), *removed) == 40
    assert stays((60, 70), *removed, run_of("elsewhere", (1, 900), bucket=1).deletion()) == 40


def test_an_overwrite_stays_as_it_is_below_what_stays() -> None:
    assert stays((111, 120), again=False) is None
    assert stays((110, 120), again=False) == "newer_rows_stay"
    assert stays((111, 120), bucket=1) is None
    assert stays((1, 2), bucket=1) is None, "another bucket"


def test_where_snapshots_order_rows_nothing_newer_may_stay() -> None:
    """Its snapshot would be the newest of all, whatever numbers its rows have."""
    assert stays((111, 120), order=BY_SNAPSHOT) == "newer_rows_stay"


def test_a_file_that_the_overwrite_replaces_does_not_stay() -> None:
    """The output of a compaction goes in the place of the files that were read."""
    read = run_of("read", (1, 50))
    output = merged("big", read)
    changes = [landed(read.deletion(), output, kind="COMPACT", word=None)]
    assert before_what_stays(Numbers.of([OURS]), [output.deletion()], changes, PLAIN, again=False) is None


def test_an_overwrite_names_the_files_that_stay_and_their_smallest_number() -> None:
    changes = [landed(run_of("x", (70, 90)), run_of("y", (60, 65)))]
    found = before_what_stays(Numbers.of([OURS]), [], changes, PLAIN, again=False)
    assert isinstance(found, Conflict)
    assert found.files == ("data-x.parquet", "data-y.parquet")
    assert "sequence numbers from 60 to the same buckets" in found.reason


# ------------------------------------------------------------------------------------------ compactions and stamps

TAKEN = run_of("taken", (1, 200), deletes=1), run_of("small", (1, 5))
KEPT = tuple(e.deletion() for e in TAKEN), merged("big", *TAKEN, deletes=1)


@pytest.mark.parametrize(
    ("first", "order", "replaces", "gives_way"),
    [
        (200, FINAL, False, True),
        (201, FINAL, False, False),
        (200, PLAIN, True, True),
        (200, PLAIN, False, False),
    ],
    ids=["merged rows are final", "newer", "an overwrite", "deduplicate, with its deletes"],
)
def test_older_rows_that_came_are_merged_with_newer_ones_only_by_an_engine_that_can(
    first: int, order: KeyOrder, replaces: bool, gives_way: bool
) -> None:
    made = CommitRequest("COMPACT", (), "us", target=(lambda partition: True) if replaces else None)
    changes = [landed(run_of("new", (900, 910))), landed(run_of("late", (first, 300)), number=3)]
    found = older_rows_appended(made, (*KEPT[0], KEPT[1]), changes, order)
    assert (found is not None) is gives_way
    if found is not None:
        assert f"numbers from {first}, and this commit merges or removes rows with numbers up to 200" in found.reason
        assert found.reason.startswith("snapshot 3 (APPEND by 'another-job') appended rows to bucket 0")


def test_a_bucket_without_older_rows_does_not_hide_the_next_one() -> None:
    elsewhere = run_of("there", (1, 200), bucket=1)
    entries = (run_of("new", (1, 2), bucket=2), *KEPT[0], KEPT[1], elsewhere.deletion(), merged("too", elsewhere))
    changes = [landed(run_of("late", (150, 160), bucket=1))]
    found = older_rows_appended(CommitRequest("COMPACT", (), "us"), entries, changes, FINAL)
    assert found is not None and "bucket 1" in found.reason


def test_a_bucket_that_loses_a_delete_does_not_depend_on_its_neighbour() -> None:
    """What the neighbour keeps is no excuse."""
    entries = (*KEPT[0], merged("big", *TAKEN), run_of("there", (1, 2), bucket=1, deletes=5))
    late = [landed(run_of("late", (150, 160)))]
    assert check(older_rows_appended(CommitRequest("COMPACT", (), "us"), entries, late, PLAIN)) == "older_rows_appended"


def test_the_id_of_the_snapshot_is_given_to_new_rows_alone() -> None:
    entries = (MOVED.deletion(), RAISED, OUTPUT, OURS)
    made = stamped(entries, 7)
    assert made[:3] == entries[:3]
    assert (made[3].kind, made[3].file.min_sequence_number, made[3].file.max_sequence_number) == (ADD, 7, 7)
