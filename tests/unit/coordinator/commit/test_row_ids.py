"""Which files of a commit get row ids, which sequence numbers they have, and which files share rows."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lakelatch.coordinator.commit.checks.row_ids import RowRanges, tracked
from lakelatch.core.metadata.data_file import ADD, DELETE, SOURCE_COMPACT, DataFile, ManifestEntry

PARTITION = bytes(12)


def entry(name: str, rows: int = 5, kind: int = ADD, **more: Any) -> ManifestEntry:
    return ManifestEntry(kind, PARTITION, 0, -1, DataFile(name, 1, rows, **more))


def ids(*entries: ManifestEntry) -> tuple[list[tuple[int | None, int, int]], int]:
    """The first row id and the sequence numbers of each file in snapshot 12, and the next free id, from 100 on."""
    made, following = tracked(entries, 12, 100)
    return [(e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number) for e in made], following


def test_new_files_get_ids_one_after_the_other_and_the_number_of_their_snapshot() -> None:
    assert ids(entry("a.parquet", 5), entry("b.parquet", 1), entry("c.parquet", 4)) == (
        [(100, 12, 12), (105, 12, 12), (106, 12, 12)],
        110,
    )


@pytest.mark.parametrize(
    "other",
    [
        entry("gone.parquet", kind=DELETE, first_row_id=3, min_sequence_number=2, max_sequence_number=4),
        entry("gone without ids.parquet", kind=DELETE),
        entry("compacted.parquet", file_source=SOURCE_COMPACT),
        entry("came back.parquet", first_row_id=7, min_sequence_number=3, max_sequence_number=5),
    ],
    ids=lambda e: e.file.file_name,
)
def test_files_that_are_not_new_stay_as_they_are(other: ManifestEntry) -> None:
    made, following = tracked([other, entry("new.parquet", 2)], 12, 100)
    assert made[0] == other
    assert made[1].file.first_row_id == 100 and following == 102


def test_new_columns_of_old_rows_keep_their_ids_and_get_a_number() -> None:
    for name in ("columns.parquet", "x.blob"):
        old = entry(name, first_row_id=40)
        assert ids(old, entry("new.parquet", 2)) == ([(40, 12, 12), (100, 12, 12)], 102)


def test_blobs_belong_to_the_rows_of_the_file_right_before_them() -> None:
    """A file may have none, and each column begins with the rows of its own file."""
    files = entry("a.parquet", 5), entry("a.blob", 5, write_cols=("x",)), entry("b.parquet", 4), entry("c.parquet", 3)
    made, following = tracked([*files, entry("c.blob", 3, write_cols=("x",))], 12, 100)
    assert [e.file.first_row_id for e in made] == [100, 100, 105, 109, 109]
    assert following == 112


def test_a_file_that_holds_the_ids_of_its_rows_gets_none() -> None:
    """Some of its rows may be older than the commit, and it says from which number on."""
    with_ids = entry("updated.parquet", write_cols=("v", "_ROW_ID"), min_sequence_number=4)
    assert ids(with_ids, entry("new.parquet", 2)) == ([(None, 4, 12), (100, 12, 12)], 102)
    assert ids(entry("updated.blob", write_cols=("_ROW_ID", "x"))) == ([(None, 12, 12)], 100)
    assert ids(entry("some columns.parquet", write_cols=("v", "w"))) == ([(100, 12, 12)], 105)


def test_blobs_before_any_other_file_begin_with_the_next_free_id() -> None:
    """Files that do not say which column they hold count as one column."""
    blobs = [entry(f"{number}.blob", 2) for number in range(2)]
    assert ids(*blobs, entry("x.blob", 4, write_cols=("x", "y"))) == (
        [(100, 12, 12), (102, 12, 12), (100, 12, 12)],
        100,
    )


def test_files_share_rows_exactly_where_their_ranges_do() -> None:
    """Ranges that are long and short, inside of each other, next to each other and doubled, in any order."""
    numbers = random.Random(12)
    for _ in range(40):
        ranges = [(numbers.randrange(60), numbers.randrange(1, 9)) for _ in range(6)] + [(10, 20), (30, 5)]
        numbers.shuffle(ranges)
        held = {row for first, count in ranges for row in range(first, first + count)}
        files = [DataFile("f", 1, count, first_row_id=first) for first, count in ranges]
        found = RowRanges([*files, DataFile("without", 1, 99)])
        for first in range(-3, 75):
            for count in (1, 4):
                file = DataFile("asked", 1, count, first_row_id=first)
                assert found.meet(file) == (not held.isdisjoint(range(first, first + count))), (ranges, first, count)


def test_a_file_without_ids_shares_no_rows() -> None:
    assert RowRanges([DataFile("f", 1, 5, first_row_id=0)]).meet(DataFile("asked", 1, 5)) is False
    assert RowRanges([]).meet(DataFile("asked", 1, 5, first_row_id=0)) is False
