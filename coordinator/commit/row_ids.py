"""Row ids for the new files of tables with row tracking, based on the snapshot that they land on.

Owns: `tracked`. Must not know: stores, how files are written. Source: format/data-files §7 (row tracking).
Invariant: an id is assigned once. Numbers begin at the base's `nextRowId`, again for each attempt, so of two concurrent
writers the one that lands second numbers its rows after those of the first.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.metadata.data_file import ADD, SOURCE_APPEND, ManifestEntry


def tracked(
    entries: Iterable[ManifestEntry], snapshot_id: int, next_row_id: int
) -> tuple[tuple[ManifestEntry, ...], int]:
    """The entries, with a first row id for each new file and the snapshot id as its sequence number.

    Args:
        entries: those of a commit; files that already have ids, or that a compaction wrote, stay as they are.
        snapshot_id: the snapshot that they become part of.
        next_row_id: that of its base.

    Returns:
        The entries, and the `nextRowId` of the snapshot.
    """
    made = []
    for entry in entries:
        file = entry.file
        if entry.kind == ADD and file.file_source == SOURCE_APPEND and file.first_row_id is None:
            file = file._replace(
                first_row_id=next_row_id, min_sequence_number=snapshot_id, max_sequence_number=snapshot_id
            )
            next_row_id += file.row_count
            entry = entry._replace(file=file)
        made.append(entry)
    return tuple(made), next_row_id
