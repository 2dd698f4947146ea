"""Fold manifest entries into live files, and plan which manifests are merged.

Owns: the fold of ADD and DELETE, the summary of a manifest, and the plans of minor and full manifest compaction.
Must not know: stores. A plan names the manifests to read, and the caller reads them. Source: format/manifests §4.
Invariants: Folding before and after a merge gives the same live files in the same order. A DELETE without an ADD is kept by a
minor merge, and dropped by a full merge, which has read all earlier entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .. import options as opt
from ..errors import TableCorrupt
from ..options import TableOptions
from ..rows.binary.binary_row import decode_row, encode_row
from ..rows.types import Field
from ..rows.values import order_key
from .data_file import ADD, EMPTY_ROW, EntryIdentity, ManifestEntry, SimpleStats
from .manifest import ManifestFile


def fold(entries: Iterable[ManifestEntry]) -> dict[EntryIdentity, ManifestEntry]:
    """The entries that remain, in order, after removing every DELETE together with its ADD. A DELETE without an ADD remains."""
    left: dict[EntryIdentity, ManifestEntry] = {}
    for entry in entries:
        identity = entry.identity
        if entry.kind == ADD:
            left[identity] = entry
        elif identity in left and left[identity].kind == ADD:
            del left[identity]
        else:
            left[identity] = entry
    return left


def live(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The files of a snapshot that are added and not deleted. The manifests may be in any order. Raises TableCorrupt
    where an entry deletes a file that no entry adds: its ADD may have another identity, and the file would be read,
    replaced or expired as if it had not been deleted. The entries are all of the table, or of some partitions.
    """
    added: dict[EntryIdentity, ManifestEntry] = {}
    deleted: dict[EntryIdentity, ManifestEntry] = {}
    for entry in entries:
        (added if entry.kind == ADD else deleted)[entry.identity] = entry
    for identity, entry in deleted.items():
        if added.pop(identity, None) is None:
            raise TableCorrupt(f"a manifest deletes data file {entry.file.file_name} (_KIND 1), which no manifest adds")
    return list(added.values())


def summarise(
    name: str, size: int, entries: Sequence[ManifestEntry], partition_fields: Sequence[Field], schema_id: int
) -> ManifestFile:
    """The entry for a manifest in the manifest list (format/manifests §3). `schema_id` is used if there are no entries."""
    buckets, levels = [e.bucket for e in entries], [e.file.level for e in entries]
    first_rows = [e.file.first_row_id for e in entries]
    tracked = bool(first_rows) and None not in first_rows
    return ManifestFile(
        file_name=name,
        file_size=size,
        num_added_files=sum(e.kind == ADD for e in entries),
        num_deleted_files=sum(e.kind != ADD for e in entries),
        partition_stats=_partition_stats(entries, partition_fields, name),
        schema_id=max((e.file.schema_id for e in entries), default=schema_id),
        min_bucket=min(buckets, default=None),
        max_bucket=max(buckets, default=None),
        min_level=min(levels, default=None),
        max_level=max(levels, default=None),
        min_row_id=min(r for r in first_rows if r is not None) if tracked else None,
        max_row_id=max((e.file.first_row_id or 0) + e.file.row_count - 1 for e in entries) if tracked else None,
    )


def _partition_stats(entries: Sequence[ManifestEntry], fields: Sequence[Field], where: str) -> SimpleStats:
    if not fields:
        return SimpleStats(EMPTY_ROW, EMPTY_ROW, ())
    types = [f.type for f in fields]
    counts: dict[bytes, int] = {}
    for entry in entries:
        counts[entry.partition] = counts.get(entry.partition, 0) + 1
    rows = [(decode_row(data, types, where), n) for data, n in counts.items()]
    low, high, nulls = [], [], []
    for column in range(len(types)):
        values = sorted((row[column] for row, _ in rows if row[column] is not None), key=order_key)
        low.append(values[0] if values else None)
        high.append(values[-1] if values else None)
        nulls.append(sum(n for row, n in rows if row[column] is None))
    return SimpleStats(encode_row(low, types), encode_row(high, types), tuple(nulls))


# ----------------------------------------------------------------------------------------------------- manifest merges


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Each group of manifests, in order, is replaced by new manifests at the same position in the list. In mode "full"
    the only group is the whole list, and DELETEs are removed with their ADDs; the other mode is "minor".
    """

    mode: str
    groups: tuple[tuple[ManifestFile, ...], ...]


_FEW_ENTRIES = 256


def plan_merge(manifests: Sequence[ManifestFile], options: TableOptions) -> MergePlan | None:
    """The manifest compaction that is due; None if none is (format/manifests §5)."""
    target = options.get(opt.MANIFEST_TARGET_SIZE)
    due = sum(m.file_size for m in manifests if must_change(m, target)) >= options.get(opt.MANIFEST_FULL_THRESHOLD)
    if due and len(manifests) > 1:
        return MergePlan("full", (tuple(manifests),))
    return _plan_minor(manifests, target, options.get(opt.MANIFEST_MERGE_MIN_COUNT))


def must_change(manifest: ManifestFile, target_size: int) -> bool:
    """Must a full merge rewrite a manifest, because it has DELETEs or is small?"""
    return manifest.num_deleted_files > 0 or manifest.file_size < target_size


def _plan_minor(manifests: Sequence[ManifestFile], target: int, least: int) -> MergePlan | None:
    groups: list[tuple[ManifestFile, ...]] = []
    batch: list[ManifestFile] = []
    size = 0
    for manifest in manifests:
        batch.append(manifest)
        size += manifest.file_size
        if size >= target:
            if len(batch) > 1:
                groups.append(tuple(batch))
            batch, size = [], 0
    if len(batch) >= max(least, 2):
        newest = _of_like_size(batch)
        if len(newest) > 1:
            groups.append(newest)
    return MergePlan("minor", tuple(groups)) if groups else None


def _of_like_size(manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
    """The newest manifests, from the oldest one on that has no more entries than all after it together.

    So an entry is rewritten about as often as the number of its manifest's entries doubles, instead of at every merge until the
    manifest is full. The larger manifests that stay are few: each has more entries than all after it.
    """
    rest = sum(map(_entries, manifests))
    for start, manifest in enumerate(manifests):
        rest -= _entries(manifest)
        if _entries(manifest) <= max(rest, _FEW_ENTRIES):
            return tuple(manifests[start:])
    return ()


def _entries(manifest: ManifestFile) -> int:
    return manifest.num_added_files + manifest.num_deleted_files


def may_hold(manifest: ManifestFile, partitions: Collection[bytes], fields: Sequence[Field]) -> bool:
    """Can a manifest have entries of any of these partitions, by its partition statistics?"""
    if not fields or not partitions:
        return bool(partitions)
    types = [f.type for f in fields]
    stats = manifest.partition_stats
    try:
        low = decode_row(stats.min_values, types, manifest.file_name)
        high = decode_row(stats.max_values, types, manifest.file_name)
    except TableCorrupt:
        return True
    nulls = stats.null_counts
    if nulls is None or len(nulls) != len(types):
        return True
    for partition in partitions:
        row = decode_row(partition, types, manifest.file_name)
        if all(_may_be(row[i], low[i], high[i], nulls[i]) for i in range(len(types))):
            return True
    return False


def may_hold_buckets(manifest: ManifestFile, buckets: Collection[int]) -> bool:
    """Can a manifest have entries of any of these buckets? Those of older writers do not say which they have."""
    low, high = manifest.min_bucket, manifest.max_bucket
    return low is None or high is None or any(low <= bucket <= high for bucket in buckets)


def _may_be(value: Any, low: Any, high: Any, null_count: int | None) -> bool:
    if value is None:
        return null_count is None or null_count > 0
    return low is None or high is None or bool(order_key(low) <= order_key(value) <= order_key(high))


def replace_runs(
    manifests: Sequence[ManifestFile],
    replacements: Sequence[tuple[tuple[ManifestFile, ...], tuple[ManifestFile, ...]]],
) -> tuple[ManifestFile, ...] | None:
    """The list with each run replaced by its merge; None if a run is no longer in the list as adjacent manifests."""
    out = list(manifests)
    for before, after in replacements:
        for start in range(len(out) - len(before) + 1):
            if tuple(out[start : start + len(before)]) == before:
                out[start : start + len(before)] = after
                break
        else:
            return None
    return tuple(out)
