"""Manifest compaction: reads the manifests that a merge needs and computes their replacements.

Owns: `Merge` (inputs and outputs, side by side), making a merge, and keeping it across attempts (`Merges`). Must not know:
when a merge is due (`core.metadata.folding`), the machine.
Source: format/manifests §5; H15. Invariants: the live files before and after are the same. A merge is reused on another base
only if its inputs are still in that base's list, next to each other and in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ....core import options as opt
from ....core.errors import LakelatchError
from ....core.metadata.data_file import DELETE, ManifestEntry
from ....core.metadata.folding import MergePlan, fold, may_hold, must_change, plan_merge, replace_runs
from ....core.metadata.manifest import ManifestFile
from ...history.base import Base
from ...history.timeline import Timeline, ref_of
from ..attempt import MetadataFile, MetadataWriter


@dataclass(frozen=True, slots=True)
class Merge:
    """A finished manifest compaction.

    Attributes:
        mode: "minor" or "full".
        runs: pairs of (manifests, their replacements), one per merged run.
        files: the new manifests, to be written before any file names them.
    """

    mode: str
    runs: tuple[tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]], ...]
    files: tuple[MetadataFile, ...]

    def applied(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | None:
        """The list after the merge; None where its inputs are no longer in the list."""
        return replace_runs(manifests, self.runs)


Applied: TypeAlias = tuple[Merge, tuple[ManifestFile, ...]]
"""A merge, and the manifests of a base after it."""


class Merges:
    def __init__(self, timeline: Timeline, writer: MetadataWriter) -> None:
        self._timeline, self._writer = timeline, writer
        self._kept: tuple[Merge, Base] | None = None

    def on(self, base: Base, *, begin: bool) -> Applied | None:
        """The merge for a base, with its files written: the earlier one if it still fits, otherwise a new one if it is due and
        `begin` says so (not while other writers win races against this commit, H15).

        A merge is optional: its failure must not fail the commit (H17), and gives None. Orphan cleaning takes what it wrote.
        """
        try:
            found = self._again(base)
            return self._begin(base) if found is None and begin else found
        except LakelatchError:
            return None

    def _again(self, base: Base) -> Applied | None:
        """The kept merge, if its inputs are still next to each other and its original base still exists."""
        if self._kept is None:
            return None
        merge, made_for = self._kept
        found = _applied(merge, base)
        if found is None or ref_of(self._timeline.find(made_for.id)) != made_for.ref:
            self._kept = None
            return None
        return found

    def _begin(self, base: Base) -> Applied | None:
        plan = plan_merge(base.manifests, self._writer.options)
        if plan is None:
            return None
        merge = merge_manifests(plan, self._timeline, self._writer)
        for file in merge.files:
            self._timeline.store.put(file.key, file.data)
        self._kept = merge, base
        return _applied(merge, base)


def _applied(merge: Merge, base: Base) -> Applied | None:
    manifests = merge.applied(base.manifests)
    return None if manifests is None else (merge, manifests)


def merge_manifests(plan: MergePlan, timeline: Timeline, writer: MetadataWriter) -> Merge:
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
    """Drop every DELETE together with its ADD; a large manifest that no DELETE can affect is kept without reading it."""
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
        alive = [e for e in entries if e.identity not in deleted]
        if len(alive) == len(entries) and not must_change(manifest, target):
            kept.append(manifest)
        else:
            rewritten.extend(alive)
    written = writer.manifests(rewritten)
    return (*kept, *(line for line, _ in written)), [file for _, file in written]
