"""Compaction of all manifests as a commit of its own.

Owns: `ManifestPlan`, `plan_manifests`, `compact_manifests`. Must not know: how manifests are merged, data files, rows.
Source: format/manifests §4, §5; format/commit §3.
Invariants: the live files before and after are the same, and the delta is empty. Jobs that commit meanwhile lose nothing: the
merge is made anew on what they left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core import options as opt
from ...core.html_text import ShownAsText
from ...core.metadata.folding import must_change
from ...core.metadata.manifest import ManifestFile
from ...core.metadata.schema import TableSchema
from ..commit.committer import Committer
from ..commit.receipt import Receipt
from ..commit.request import ManifestMerge
from ..history.timeline import Timeline


@dataclass(frozen=True)
class ManifestPlan(ShownAsText):
    """What a compaction of the manifests would read, or has done. Prints as one line.

    Attributes:
        snapshot_id: the snapshot that was looked at; None for a table without one.
        merged: those with deletions, or below option `manifest.target-file-size`; none if one small manifest is all there is.
        receipt: the commit; None before it, or if there was nothing to do.
        after: the manifests of the commit.
    """

    snapshot_id: int | None
    manifests: tuple[ManifestFile, ...]
    merged: tuple[ManifestFile, ...]
    receipt: Receipt | None = None
    after: tuple[ManifestFile, ...] = ()

    @property
    def is_due(self) -> bool:
        return bool(self.merged)

    def __str__(self) -> str:
        if not self.is_due:
            return f"nothing to compact: {_told(self.manifests)}"
        if self.receipt is None:
            return f"{_told(self.merged)} of {len(self.manifests)} would be merged"
        return f"{_told(self.manifests)} became {_told(self.after)}, snapshot {self.receipt.snapshot_id}"

    def to_dict(self) -> dict[str, Any]:
        """The plan with stable keys, ready for JSON."""
        return {
            "snapshot_id": None if self.receipt is None else self.receipt.snapshot_id,
            "manifests": len(self.manifests),
            "bytes": sum(m.file_size for m in self.manifests),
            "deleted_files": sum(m.num_deleted_files for m in self.manifests),
            "to_merge": len(self.merged),
            "manifests_after": len(self.after) if self.receipt is not None else None,
            "bytes_after": sum(m.file_size for m in self.after) if self.receipt is not None else None,
        }


def _told(manifests: Sequence[ManifestFile]) -> str:
    size, gone = sum(m.file_size for m in manifests), sum(m.num_deleted_files for m in manifests)
    return f"{len(manifests)} manifest{'' if len(manifests) == 1 else 's'} ({size} bytes, {gone} deletions)"


def plan_manifests(timeline: Timeline, schema: TableSchema) -> ManifestPlan:
    """Look at the manifests of the newest snapshot. Changes nothing."""
    latest = timeline.latest()
    manifests = timeline.manifests(latest) if latest is not None else ()
    target = schema.options.get(opt.MANIFEST_TARGET_SIZE)
    small = tuple(m for m in manifests if must_change(m, target))
    due = len(small) > 1 or any(m.num_deleted_files for m in small)
    return ManifestPlan(None if latest is None else latest.id, manifests, small if due else ())


def compact_manifests(
    committer: Committer, timeline: Timeline, plan: ManifestPlan, commit_user: str, identifier: int | None
) -> ManifestPlan:
    """With one commit, of the manifests that the newest snapshot has by then; errors as for any commit."""
    receipt = committer.commit(ManifestMerge("COMPACT", (), commit_user, identifier))
    made = timeline.find(receipt.snapshot_id)
    after = timeline.manifests(made) if made is not None else ()
    return ManifestPlan(plan.snapshot_id, plan.manifests, plan.merged, receipt, after)
