"""Manifest compaction: reading the manifests that a merge needs, and saying what takes their place.

Owns: `Merge` (inputs and outputs, side by side) and making one. Must not know: when it is due (`core.folding`), the machine.
Source: commit-protocol §2.3, §2.4, §2.6; H15. Invariants: the live files before and after are the same; a merge is used on
another base only if its inputs still stand there, side by side, in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..core import options as opt
from ..core.data_file import ADD, DELETE, ManifestEntry
from ..core.folding import MergePlan, fold, may_hold, must_change, replace_runs
from ..core.manifest import ManifestFile
from .attempt import Blob, MetadataWriter
from .timeline import Timeline


@dataclass(frozen=True, slots=True)
class Merge:
    """A manifest compaction that was carried out.

    Attributes:
        mode: "minor" or "full".
        runs: (manifests, what takes their place) per merged run.
        blobs: the new manifests, to be written before anything names them.
    """

    mode: str
    runs: tuple[tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]], ...]
    blobs: tuple[Blob, ...]

    def applied(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...] | None:
        """The list with the merge in place; None where its inputs do not stand there any more."""
        return replace_runs(manifests, self.runs)


def merge_manifests(plan: MergePlan, timeline: Timeline, writer: MetadataWriter) -> Merge:
    """Carry a plan out: read, fold, encode. Nothing is written."""
    runs, blobs = [], []
    for group in plan.groups:
        after, new = _full(group, timeline, writer) if plan.mode == "full" else _minor(group, timeline, writer)
        runs.append((group, after))
        blobs.extend(new)
    return Merge(plan.mode, tuple(runs), tuple(blobs))


def _minor(
    group: tuple[ManifestFile, ...], timeline: Timeline, writer: MetadataWriter
) -> tuple[tuple[ManifestFile, ...], list[Blob]]:
    written = writer.manifests(list(fold(timeline.entries(group)).values()))
    return tuple(line for line, _ in written), [blob for _, blob in written]


def _full(
    group: tuple[ManifestFile, ...], timeline: Timeline, writer: MetadataWriter
) -> tuple[tuple[ManifestFile, ...], list[Blob]]:
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
    return (*kept, *(line for line, _ in written)), [blob for _, blob in written]
