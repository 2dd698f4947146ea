"""Planted bugs in changes of rows by key, beside each other and beside compactors.

Owns: `MERGES`. Must not know: how scenarios are explored. Source: decision 60; H12, H22.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...coordinator.commit.checks import conflicts
from ...coordinator.commit.request import CommitRequest, RowChange
from ...coordinator.commit.settling import settler as settling
from ...coordinator.history.timeline import Timeline
from ...table.rowlevel.append_table import AppendChange
from ...table.rowlevel.file_change import FileChange
from ...table.scan.plan import ScanPlan
from ...table.scan.split import Split
from ..scenarios import merges
from .changes import _deletes_what_is_gone
from .planting import Mutant

_inputs_changed = conflicts.inputs_changed


def _of_compactions(request: CommitRequest, changes: Any) -> Any:
    return None if isinstance(request, RowChange) else _inputs_changed(request, changes)


def _of_changes(request: CommitRequest, changes: Any) -> Any:
    return _inputs_changed(request, changes) if isinstance(request, RowChange) else None


_changed = AppendChange._changed


def _only_what_is_new(
    self: AppendChange, timeline: Timeline, scan: ScanPlan, files: Sequence[Split]
) -> Iterator[FileChange]:
    known = dict(self._known)
    for change in _changed(self, timeline, scan, files):
        before = known.get((change.split.partition, change.split.bucket, change.split.files[0].file_name))
        if before is None or before[0].positions is not change.positions:
            yield change


MERGES: tuple[Mutant, ...] = (
    Mutant(
        "a mark upon a file that was compacted away",
        lambda: [(settling, "inputs_changed", _of_compactions)],
        (merges.changing_rows(0, mergers=1, compactors=1, marked=False),),
    ),
    Mutant(
        "a compaction drops a newer vector",
        lambda: [
            (settling, "inputs_changed", _of_changes),
            (settling, "inputs_marked", lambda request, index: None),
            (settling, "combine_index", _deletes_what_is_gone),
        ],
        (merges.changing_rows(0, mergers=1, compactors=1),),
    ),
    Mutant(
        "a second plan forgets rows",
        lambda: [(AppendChange, "_changed", _only_what_is_new)],
        (merges.changing_two_files(0),),
    ),
    Mutant(
        "rows that came since are not read",
        lambda: [(settling, "rows_read_changed", lambda read, changes: None)],
        (merges.changing_one_row(0, appends=True),),
    ),
)
