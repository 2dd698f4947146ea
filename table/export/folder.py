"""The folder that an export writes into.

Owns: `Export`, and the marks of a folder that is begun and of one that is whole. Must not know: what is written.
Source: decision 66. Invariants: `_SUCCESS` is written last. A run that was cut off is repeated from the beginning; files that the
earlier run left, and this one did not write again, are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...backends.store import Store
from ...coordinator.history.timeline import Timeline
from ...core.errors import InvalidArgument
from ...core.html_text import ShownAsText
from ..scan.plan import ScanPlan

DONE, BEGUN = "_SUCCESS", "_lakelatch_export"


@dataclass(frozen=True)
class Export(ShownAsText):
    """What was written: the state, None for a table without a snapshot, and the keys of the files relative to the folder."""

    folder: str
    snapshot_id: int | None
    files: tuple[str, ...]
    row_count: int

    def __str__(self) -> str:
        return f"snapshot {self.snapshot_id} in {self.folder}: {len(self.files)} files, {self.row_count} rows"

    def to_dict(self) -> dict[str, Any]:
        """The export with stable keys, ready for JSON."""
        return {
            "folder": self.folder,
            "snapshot_id": self.snapshot_id,
            "files": len(self.files),
            "rows": self.row_count,
        }


def begin(store: Store, timeline: Timeline, plan: ScanPlan, file_format: str) -> None:
    """Mark the folder, so that a run that is repeated knows the files of the earlier one."""
    identity = plan.snapshot.identity if plan.snapshot is not None else ""
    mark = json.dumps({"url": timeline.store.url, "snapshot": identity, "format": file_format}).encode()
    found = [info.key for info in store.list("")]
    if BEGUN in found and store.get(BEGUN) == mark:
        return
    if found:
        what = "a finished export" if DONE in found else f"other files, such as {min(found)}"
        raise InvalidArgument(f"{store.url} holds {what}", next_step="choose an empty folder")
    store.put(BEGUN, mark)


def finish(store: Store, plan: ScanPlan, files: Sequence[str], rows: int) -> Export:
    """Delete what an earlier run left besides these files, and mark the folder as whole."""
    left = [info.key for info in store.list("") if info.key not in {*files, BEGUN}]
    store.delete_many([*left, BEGUN])
    store.put(DONE, b"")
    return Export(store.url, plan.snapshot.id if plan.snapshot is not None else None, tuple(files), rows)
