"""Row ids of files with single columns, and which changes of others conflict with them (data evolution)."""

from __future__ import annotations

import pytest

from lakelatch.coordinator.commit.checks.conflicts import rows_changed
from lakelatch.coordinator.commit.checks.row_ids import tracked
from lakelatch.coordinator.commit.request import ColumnUpdate
from lakelatch.core.metadata.change import Change, Landed
from lakelatch.core.metadata.data_file import ADD, DELETE, SOURCE_APPEND, SOURCE_COMPACT, DataFile, ManifestEntry

PARTITION = bytes(12)


def entry(kind: int, name: str, first: int | None, rows: int, source: int = SOURCE_APPEND) -> ManifestEntry:
    return ManifestEntry(kind, PARTITION, 0, -1, DataFile(name, 1, rows, first_row_id=first, file_source=source))


OURS = ColumnUpdate("APPEND", (entry(ADD, "ours", 10, 5),), "me")
OLD = entry(DELETE, "old", 10, 5)


@pytest.mark.parametrize(
    ("changes", "conflicts"),
    [
        ([entry(ADD, "same rows", 10, 5)], True),
        ([entry(ADD, "some of the rows", 14, 5)], True),
        ([entry(ADD, "rows after", 15, 5), entry(ADD, "rows before", 5, 5), entry(ADD, "no ids", None, 9)], False),
        ([OLD], True),
        ([entry(DELETE, "old of a compaction", 10, 5, SOURCE_COMPACT)], True),
        ([OLD, entry(DELETE, "column", 10, 5), entry(ADD, "both", 10, 5, SOURCE_COMPACT)], False),
        ([OLD, entry(ADD, "wider", 5, 15, SOURCE_COMPACT)], True),
        ([entry(DELETE, "wide", 5, 15), entry(ADD, "as wide", 5, 15, SOURCE_COMPACT)], True),
        ([OLD, entry(ADD, "rewritten", 10, 5)], True),
    ],
    ids=lambda value: ", ".join(e.file.file_name for e in value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("kind", ["APPEND", "COMPACT", "OVERWRITE"])
def test_rows_that_another_commit_changed_conflict_whatever_it_calls_itself(
    changes: list[ManifestEntry], conflicts: bool, kind: str
) -> None:
    """H22: the content decides. A compaction that leaves one file with the same rows is no conflict."""
    landed = Landed(7, kind, "other", Change(tuple(changes), (), 0))
    found = rows_changed(OURS, [landed])
    assert (found is not None) == conflicts
    if found is not None:
        assert found.check == "rows_changed" and "snapshot 7" in found.reason


def test_files_of_blobs_get_the_ids_of_the_file_before_them() -> None:
    """Each column counts for itself; a file with new columns keeps its ids and gets a number; a compaction's file stays."""

    def blob(name: str, rows: int, column: str) -> ManifestEntry:
        made = entry(ADD, f"{name}.blob", None, rows)
        return made._replace(file=made.file._replace(write_cols=(column,)))

    entries = [
        entry(ADD, "a.parquet", None, 5),
        *(blob("a1", 2, "x"), blob("a2", 3, "x"), blob("a3", 5, "y")),
        entry(ADD, "no blobs.parquet", None, 4),
        entry(ADD, "b.parquet", None, 2),
        blob("b1", 2, "x"),
        entry(ADD, "column.parquet", 40, 3),
        entry(ADD, "joined.parquet", None, 3, SOURCE_COMPACT),
        entry(DELETE, "gone.parquet", 0, 9),
    ]
    made, following = tracked(entries, 12, 100)
    assert [e.file.first_row_id for e in made] == [100, 100, 102, 100, 105, 109, 109, 40, None, 0]
    assert [e.file.max_sequence_number for e in made] == [12] * 8 + [0, 0]
    assert following == 111
