"""Manifest compaction: reading the manifests that a merge needs, and saying what takes their place.

Owns: `Merge` (inputs and outputs, side by side), making one, and keeping it over attempts (`Merges`). Must not know: when it is
due (`core.metadata.folding`), the machine.
Source: format/manifests §5; H15. Invariants: the live files before and after are the same; a merge is used on
another base only if its inputs still stand there, side by side, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...core import options as opt
from ...core.errors import LakelatchError
from ...core.metadata.data_file import ADD, DELETE, ManifestEntry
from ...core.metadata.folding import MergePlan, fold, may_hold, must_change, plan_merge, replace_runs
from ...core.metadata.manifest import ManifestFile
from ..history.base import Base
from ..history.timeline import Timeline, ref_of
from ..protocol.events import SnapshotRef
from .attempt import MetadataFile, MetadataWriter


@dataclass(frozen=True, slots=True)
class Merge:
    """A manifest compaction that was carried out.

    Attributes:
        mode: "minor" or "full".
        runs: (manifests, what takes their place) per merged run.
        files: the new manifests, to be written before anything names them.
    """

    mode: str
    runs: tuple[tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]], ...]
    files: tuple[MetadataFile, ...]

    def applied(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | None:
        """The list with the merge in place; None where its inputs do not stand there any more."""
        return replace_runs(manifests, self.runs)


class Merges:
    """The manifest compaction of one commit, kept from attempt to attempt."""

    def __init__(self, timeline: Timeline, writer: MetadataWriter) -> None:
        self._timeline, self._writer = timeline, writer
        self._kept: tuple[Merge, SnapshotRef] | None = None

    def on(self, base: Base, *, begin: bool) -> tuple[Merge, tuple[ManifestFile, ...]] | None:
        """The merge for a base, written: the one that was made before where it still fits, else a new one where it is due.

        A merge is a courtesy: what stops it must not stop the commit (H17). What it wrote until then is left to orphan
        cleaning.

        Args:
            begin: make a new one; not while others win races against this commit (H15).

        Returns:
            The merge, and the manifests of the base after it; None where none is due, or it failed.
        """
        try:
            applied = self._again(base)
            if applied is None and begin:
                applied = self._begin(base)
        except LakelatchError:
            return None
        return (self._kept[0], applied) if self._kept is not None and applied is not None else None

    def _again(self, base: Base) -> tuple[ManifestFile, ...] | None:
        """The kept merge stands where its inputs do, side by side, and the base that it was made for is still there."""
        if self._kept is None:
            return None
        merge, made_for = self._kept
        applied = merge.applied(base.manifests)
        if applied is None or ref_of(self._timeline.find(made_for.id)) != made_for:
            self._kept = None
            return None
        return applied

    def _begin(self, base: Base) -> tuple[ManifestFile, ...] | None:
        plan = plan_merge(base.manifests, self._writer.options)
        if plan is None or base.ref is None:
            return None
        merge = merge_manifests(plan, self._timeline, self._writer)
        for file in merge.files:
            self._timeline.store.put(file.key, file.data)
        self._kept = merge, base.ref
        return merge.applied(base.manifests)


def merge_manifests(plan: MergePlan, timeline: Timeline, writer: MetadataWriter) -> Merge:
    """Carry a plan out: read, fold, encode. Nothing is written."""
    runs, files = [], []
    for group in plan.groups:
        after, new = _full(group, timeline, writer) if plan.mode == "full" else _minor(group, timeline, writer)
        runs.append((group, after))
        files.extend(new)
    return Merge(plan.mode, tuple(runs), tuple(files))


def _minor(
    group: tuple[ManifestFile, ...], timeline: Timeline, writer: MetadataWriter
) -> tuple[tuple[ManifestFile, ...], list[MetadataFile]]:
    written = writer.manifests(list(fold(timeline.entries(group)).values()))
    return tuple(line for line, _ in written), [file for _, file in written]


def _full(
    group: tuple[ManifestFile, ...], timeline: Timeline, writer: MetadataWriter
) -> tuple[tuple[ManifestFile, ...], list[MetadataFile]]:
    """Drop every DELETE with its ADD; a large manifest that no DELETE can touch is kept unread."""
    target = writer.options.get(opt.MANIFEST_TARGET_SIZE)
    deleting = [m for m in group if m.num_deleted_files > 0]
    read = dict(zip((m.file_name for m in deleting), timeline.parallel(timeline.entries_of, deleting), strict=True))
    deleted = {e.identity for entries in read.values() for e in entries if e.kind == DELETE}
    partitions = {identity[0] for identity in deleted}
    fields = writer.schema.partition_fields
    kept = [m for m in group if not must_change(m, target) and not may_hold(m, partitions, fields)]
    untouched = {m.file_name for m in kept}
    rest = [m for m in group if m.file_name not in untouched]
    unread = [m for m in rest if m.file_name not in read]
    read.update(zip((m.file_name for m in unread), timeline.parallel(timeline.entries_of, unread), strict=True))
    rewritten: list[ManifestEntry] = []
    for manifest in rest:
        entries = read[manifest.file_name]
        alive = [e for e in entries if e.kind == ADD and e.identity not in deleted]
        if len(alive) == len(entries) and not must_change(manifest, target):
            kept.append(manifest)
        else:
            rewritten.extend(alive)
    written = writer.manifests(rewritten)
    return (*kept, *(line for line, _ in written)), [file for _, file in written]
