"""Row ids for the new files of tables with row tracking, based on the snapshot that they land on.

Owns: `tracked`, `RowRanges`. Must not know: stores, how files are written. Source: format/data-files §7 (row tracking).
Invariants: an id is assigned once. Numbers begin at the base's `nextRowId`, again for each attempt, so of two concurrent
writers the one that lands second numbers its rows after those of the first. Files of BLOBs have the ids of the file before them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from ....core.metadata.data_file import ADD, SOURCE_APPEND, DataFile, ManifestEntry
from ....core.metadata.schema import ROW_ID
from ....core.paths import BLOB_FORMAT, format_of


def tracked(
    entries: Iterable[ManifestEntry], snapshot_id: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """A commit's entries, with a first row id for each new file and the snapshot id as its sequence number; and the snapshot's
    `nextRowId`. Files with new columns for old rows have ids already, and get sequence numbers only; so do files that hold the
    ids of their rows, some of which may be older than the commit. Compacted files stay as they are.
    """
    made = []
    start, of_blobs = next_row_id, dict[str, int]()
    for entry in entries:
        file = entry.file
        if entry.kind == ADD and file.file_source == SOURCE_APPEND and _is_new(file):
            first = file.first_row_id
            # the rows of some files have their ids with them
            needs_ids = first is None and ROW_ID.name not in (file.write_cols or ())
            if needs_ids and format_of(file.file_name) == BLOB_FORMAT:
                column = (file.write_cols or ("",))[0]
                first = of_blobs.get(column, start)
                of_blobs[column] = first + file.row_count
            elif needs_ids:
                first = start = next_row_id
                of_blobs.clear()
                next_row_id += file.row_count
            least = file.min_sequence_number or snapshot_id
            entry = entry._replace(
                file=file._replace(first_row_id=first, min_sequence_number=least, max_sequence_number=snapshot_id)
            )
        made.append(entry)
    return tuple(made), next_row_id


def _is_new(file: DataFile) -> bool:
    """Was the file written for this commit? Files that a rollback brings back have the numbers that they had."""
    return file.first_row_id is None or file.min_sequence_number == 0


class RowRanges:
    """The row ids of some files. Files without a first row id are left out.

    >>> rows = RowRanges([DataFile("a", 1, 5, first_row_id=10), DataFile("b", 1, 5, first_row_id=10), DataFile("n", 1, 5)])
    >>> [rows.meet(DataFile("c", 1, 2, first_row_id=first)) for first in (8, 9, 14, 15)]
    [False, True, True, False]
    """

    def __init__(self, files: Iterable[DataFile]) -> None:
        found = sorted({(f.first_row_id, f.first_row_id + f.row_count) for f in files if f.first_row_id is not None})
        self._starts = [start for start, _ in found]
        # the largest end of all that begin there or before
        self._ends = list(accumulate((end for _, end in found), max))

    def meet(self, file: DataFile) -> bool:
        if file.first_row_id is None:
            return False
        place = bisect_right(self._starts, file.first_row_id + file.row_count - 1) - 1
        return place >= 0 and self._ends[place] > file.first_row_id
